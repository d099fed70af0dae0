"""Options: what is left open has the default for the problem, what is set changes that one thing, what is wrong is named.

Warnings point at the line of the user."""

import inspect
import re
import warnings
from dataclasses import FrozenInstanceError, asdict, fields, replace
from functools import partial
from inspect import currentframe

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fitted import MAP, blobs, fitted, small
from pbdn import GibbsConfig, ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.config import (
    MANY_SIDES,
    UNDECIDED,
    batch_for,
    choose_criterion,
    choose_inference,
    resolve,
    resolve_gibbs,
    resolve_map,
)
from pbdn.config.defaults import OF_FOLDS
from pbdn.errors import DepthLimitWarning, InvalidInputError, warn
from pbdn.model.priors import GIBBS_PRIORS, Hyperpriors
from pbdn.model.response import OneSide, response_for_classes
from pbdn.sgd.map_settings import MapSettings

RESPONSES = {1: OneSide(), 2: response_for_classes(2), 10: response_for_classes(10)}


def resolved(n_classes, inference="map+gibbs", **given):
    """What a fit of so many classes runs with (1: a lone side)."""
    open_ones = dict.fromkeys(("priors", "gibbs_config", "map_config"))
    settings = {"criterion": "aic", "max_depth": 5, "max_experts": 20, **open_ones}
    return resolve(RESPONSES[n_classes], inference=inference, **settings | given)


def changes(before, after):
    """The fields that differ, with their new values."""
    old = asdict(before)
    return {name: value for name, value in asdict(after).items() if value != old[name]}


# --------------------------------------------------------------------- one field changes one thing

MAP_VALUES = {
    "n_minibatches": [77, 4000, 16_000],
    "batch_size": [200],
    "learning_rate": [0.3],
    "schedule": ["constant", "cosine"],
    "average_last": [0.25],
    "initial": ["published"],
    "prune_every": [50],
    "pruning": ["draw", "published_draw", "none"],
    "prune_above": [0.9],
    "keep_moments": [False],
    "prior_on": ["log_weight"],
    "shrinkage": ["published", "student_t"],
    "replacement": [True],
    "when_empty": ["reinitialise"],
    "polish": [True, False],
    "n_members": [1, 3],
    "curved": [True, False],
    "monotonic_cst": [(0, 0)],
    "device": ["cpu", "cuda"],
    "precision": ["single"],
}
GIBBS_VALUES = {
    "n_sweeps": [300, 301],
    "n_burn_in": [0, 7],
    "n_draws": [33],
    "n_chains": [3],
    "n_paths": [9],
    "prediction": ["auto", "point", "posterior", "paths"],
    "sampler": ["event_times", "counts"],
    "pruning": ["paper", "none"],
    "prune_every": [11],
    "record": ["whole_chain"],
    "start": ["map"],
    "device": ["cpu", "cuda:0,cuda:1"],
}


def test_every_field_has_a_value_here():
    assert list(MAP_VALUES) == [field.name for field in fields(MapConfig)]
    assert list(GIBBS_VALUES) == [field.name for field in fields(GibbsConfig)]


@pytest.mark.parametrize("n_classes", RESPONSES)
@pytest.mark.parametrize("field", MAP_VALUES)
def test_a_map_option_changes_itself_alone(field, n_classes):
    default = resolved(n_classes)
    for value in MAP_VALUES[field]:
        config = resolved(n_classes, map_config=MapConfig(**{field: value}))
        expected = {} if value == getattr(default.map, field) else {field: value}
        assert changes(default.map, config.map) == expected
        assert (config.gibbs, config.chain) == (default.gibbs, default.chain)
    assert any(value != getattr(default.map, field) for value in MAP_VALUES[field])


@pytest.mark.parametrize("n_classes", RESPONSES)
@pytest.mark.parametrize("field", GIBBS_VALUES)
def test_a_gibbs_option_changes_itself_alone(field, n_classes):
    """Burn-in follows the sweeps; the draws over all chains are shared by the chains."""
    default = resolved(n_classes)
    for value in GIBBS_VALUES[field]:
        config = resolved(n_classes, gibbs_config=GibbsConfig(**{field: value}))
        expected = {} if value in ("auto", getattr(default.gibbs, field)) else {field: value}
        if field == "n_sweeps":
            expected["n_burn_in"] = value // 2
        assert changes(default.gibbs, config.gibbs) == expected
        of_chain = {name: one for name, one in expected.items() if hasattr(default.chain, name)}
        assert changes(default.chain, config.chain) == of_chain | ({"n_draws": 34} if field == "n_chains" else {})
        assert config.map == default.map
    assert any(value != getattr(default.gibbs, field) for value in GIBBS_VALUES[field])


@pytest.mark.parametrize("field", [field.name for field in fields(Hyperpriors)])
@pytest.mark.parametrize("n_classes", RESPONSES)
def test_a_prior_changes_one_number_of_each_engine(n_classes, field):
    """MAP uses the means of the laws of γ₀, c₀ and b_k, and a_β itself."""
    default, config = resolved(n_classes), resolved(n_classes, priors=Hyperpriors(**{field: 7.0}))
    assert changes(default.chain.priors, config.chain.priors) == {field: 7.0}
    assert changes(default.chain, config.chain).keys() == {"priors"}
    assert config.gibbs == default.gibbs
    before = asdict(default.map)
    if field == "coef_shape":
        expected = {"coef_shape": 7.0}
    elif field.endswith("_shape"):
        name = field.removesuffix("_shape")
        expected = {name: 7.0}  # over a rate of one
    elif field.endswith("_rate"):
        name = field.removesuffix("_rate")
        expected = {name: before[name] / 7.0}
    else:
        expected = {}  # a floor under the precisions that Gibbs sampling draws
    assert changes(default.map, config.map) == expected


@pytest.mark.parametrize("change", [{"device": "cpu"}, {"batch_size": 200}])
def test_ten_classes_keep_their_defaults(change):
    config = resolve_map(MapConfig(**change), Hyperpriors(), n_sides=20, max_experts=5)
    default = resolve_map(None, Hyperpriors(), n_sides=20, max_experts=5)
    assert changes(default, config) == change
    assert {name: getattr(config, name) for name in MANY_SIDES} == MANY_SIDES
    assert (config.max_experts, config.coef_shape, config.coef_rate) == (5, 1.5, 3.0)


def test_ten_classes_keep_their_defaults_in_a_fit(rng):
    X, y = blobs(rng, n=60, n_features=10, n_classes=10)
    plain, changed = (
        fitted(PBDNClassifier(inference="map", max_experts=2, max_depth=1, random_state=0, map_config=config), X, y)
        for config in (MapConfig(n_minibatches=5), MapConfig(n_minibatches=5, batch_size=20))
    )
    assert changes(plain.config_.map, changed.config_.map) == {"batch_size": 20}
    expected = resolve_map(
        MapConfig(n_minibatches=5),
        Hyperpriors(),
        n_sides=20,
        max_experts=2,
        of_folds=OF_FOLDS,
        n_rows=60,
    )
    assert plain.config_.map == expected
    assert not np.array_equal(plain.predict_proba(X), changed.predict_proba(X))


# --------------------------------------------------------------------------------------- defaults


def test_burn_in_is_half_of_the_sweeps():
    for n_sweeps, half in ((300, 150), (1, 0), (5, 2)):
        assert resolve_gibbs(GibbsConfig(n_sweeps=n_sweeps), 2, "gibbs").n_burn_in == half
    default = resolve_gibbs(None, 2, "gibbs")
    assert (default.n_sweeps, default.n_burn_in) == (1000, 500)
    assert resolve_gibbs(GibbsConfig(n_sweeps=300, n_burn_in=20), 2, "gibbs").n_burn_in == 20


def test_a_fit_shows_what_it_ran_with(rng):
    X, y = blobs(rng, n=30)
    given = GibbsConfig(n_sweeps=20, n_paths=1, prediction="paths")
    model = PBDNClassifier(gibbs_config=given, max_experts=2, max_depth=1, random_state=0)
    config = fitted(model, X, y).config_
    assert (config.inference, config.criterion, config.prediction) == ("gibbs", "aic_inputs", "paths")
    assert (config.n_chains, config.n_paths, config.max_depth) == (1, 1, 1)
    assert (config.chain.n_sweeps, config.chain.n_burn_in, config.chain.max_experts) == (20, 10, 2)
    assert model.trace_[0][0][0]["log_likelihood"].shape == (21,)
    assert config.map.max_experts == 2
    assert {name for name, value in asdict(config.gibbs).items() if value is None} == {"device"}
    assert {name for name, value in asdict(config.map).items() if value is None} == {
        "learning_rate",
        "device",
        "curved",
        "monotonic_cst",
    }
    assert model.gibbs_config == given  # what the user gave is left alone


@pytest.mark.parametrize("n_classes", [1, 2])
def test_defaults_of_one_or_two_sides(n_classes):
    config = resolved(n_classes)
    assert config.map == MapSettings(
        n_minibatches=4000, batch_size=100, schedule="constant", shrinkage="published", polish=False, max_experts=20,
        mass=1.0, inv_scale=1.0, coef_shape=1e-6, coef_rate=1e-6,
    )  # fmt: skip
    assert config.chain.priors == GIBBS_PRIORS


def test_defaults_of_many_sides():
    for n_classes in (3, 10):
        config = resolve_map(None, Hyperpriors(), response_for_classes(n_classes).labelling.n_sides, 20)
        assert changes(resolved(2).map, config) == {
            "n_minibatches": 16_000,
            "schedule": "cosine",
            "shrinkage": "student_t",
            "polish": True,
            "coef_shape": 1.5,
            "coef_rate": 3.0,
        }


@pytest.mark.parametrize(
    ("n_rows", "n_steps", "every"), [(60, 6000, 188), (4000, 6000, 188), (6000, 9000, 281), (10_667, 16_000, 500)]
)
def test_few_rows_of_several_classes_take_fewer_and_longer_steps(n_rows, n_steps, every):
    """The steps times their length stay the same, and so does how often experts are pruned."""
    few, many = (resolve_map(None, Hyperpriors(), 20, 20, n_rows=n) for n in (n_rows, 20_000))
    assert (few.n_minibatches, few.prune_every) == (n_steps, every)
    assert few.learning_rate == (None if n_steps == 16_000 else pytest.approx(160.0 / n_steps))
    assert set(changes(many, few)) <= {"n_minibatches", "learning_rate", "prune_every", "batch_size"}
    chosen = resolve_map(MapConfig(n_minibatches=77), Hyperpriors(), 20, 20, n_rows=n_rows)
    assert chosen == replace(few, n_minibatches=77, batch_size=chosen.batch_size)
    assert resolve_map(None, Hyperpriors(), 2, 20, n_rows=n_rows).n_minibatches == 4000


def test_very_many_sides_take_fewer_and_longer_steps():
    most, more = (resolve_map(None, Hyperpriors(), response_for_classes(n).labelling.n_sides, 20) for n in (30, 31))
    assert changes(most, more) == {"n_minibatches": 4000, "learning_rate": 0.04, "prune_every": 125}
    chosen = resolve_map(MapConfig(n_minibatches=77), Hyperpriors(), 62, 20)
    assert changes(more, chosen) == {"n_minibatches": 77}


@pytest.mark.parametrize(
    ("n_sides", "inference", "prediction"),
    [
        (1, "gibbs", "posterior"),
        (2, "gibbs", "paths"),
        (6, "gibbs", "posterior"),
        (2, "map+gibbs", "point"),
        (6, "map+gibbs", "point"),
        (2, "map", "point"),
        (6, "map", "point"),
    ],
)
def test_what_is_averaged_by_default(n_sides, inference, prediction):
    for config in (None, GibbsConfig(), GibbsConfig(prediction="auto")):
        assert resolve_gibbs(config, n_sides, inference).prediction == prediction


def test_paths_are_run_only_where_they_are_averaged():
    assert resolved(2).n_paths == 0
    assert resolved(2, inference="gibbs").n_paths == 5
    assert resolved(10).n_paths == 0
    assert resolved(2, gibbs_config=GibbsConfig(prediction="posterior", n_paths=3)).n_paths == 0
    assert resolved(10, gibbs_config=GibbsConfig(prediction="paths", n_paths=3)).n_paths == 3


def test_which_inference():
    assert choose_inference("auto", None) == "map"
    assert choose_inference("auto", GibbsConfig(prediction="point")) == "map"
    assert choose_inference("auto", GibbsConfig(prediction="posterior")) == "map+gibbs"
    assert choose_inference("auto", GibbsConfig(prediction="paths")) == "gibbs"
    with pytest.raises(InvalidInputError, match="gibbs_config.prediction='posterior' needs posterior draws"):
        choose_inference("map", GibbsConfig(prediction="posterior"))
    for given in ("map", "map+gibbs"):
        with pytest.raises(InvalidInputError, match="gibbs_config.prediction='paths' samples every layer"):
            choose_inference(given, GibbsConfig(prediction="paths"))
    for given in ("gibbs", "map", "map+gibbs"):
        assert choose_inference(given, None) == given


def test_batches_follow_the_rows():
    """A hundred rows while that sees every row twenty times; once for a hundred million rows."""
    for n_rows, expected in ((50, 100), (20_000, 100), (400_000, 2000), (10**8, 25_000), (10**9, 250_000)):
        assert batch_for(n_rows, 4000) == expected
    assert resolve_map(MapConfig(batch_size=7), Hyperpriors(), 2, 20, n_rows=10**6).batch_size == 7


def test_which_criterion():
    assert choose_criterion("auto", 2, "map", 5) == "folds"
    assert choose_criterion("auto", 6, "map", 5) == "folds"
    assert choose_criterion("auto", 2, "map+gibbs", 10**6, 100) == "folds"
    assert choose_criterion("auto", 6, "map", 10**4, 200) == "folds"
    assert choose_criterion("auto", 10, "map", 10**4, 120) == "folds"
    assert choose_criterion("auto", 12, "map", 10**3, 125) == "folds"
    assert choose_criterion("auto", 20, "map", 2000, 10**4) == "folds"
    assert choose_criterion("auto", 20, "map", 2001, 10**4) == UNDECIDED
    assert choose_criterion("auto", 22, "map", 2000, 10**4) == UNDECIDED
    assert choose_criterion("auto", 22, "map", 49, 10**4) == "aic_inputs"
    assert choose_criterion("auto", 60, "map", 10**4, 10) == UNDECIDED
    assert choose_criterion("auto", 61, "map", 10**4, 10) == "holdout"
    assert choose_criterion("auto", 25, "map", 800, 10) == "folds"
    assert choose_criterion("auto", 25, "map", 801, 10) == UNDECIDED
    assert choose_criterion("auto", 6, "map", 10**4, 201) == UNDECIDED
    assert choose_criterion("auto", 10, "map", 10**4, 121) == UNDECIDED
    assert choose_criterion("auto", 12, "map", 10**3, 126) == UNDECIDED
    assert choose_criterion("auto", 6, "map", 10**4, 3001, sparse=True) == "holdout"
    assert choose_criterion("auto", 6, "map", 10**4, 201, device="cpu") == "holdout"
    assert choose_criterion("auto", 2, "map", 10**4, 3000, sparse=True) == "folds"
    assert choose_criterion("auto", 2, "map", 10**4, 3001, sparse=True) == "aic_inputs"
    assert choose_criterion("auto", 2, "map", 50, device="cpu") == "aic_inputs"
    with pytest.raises(InvalidInputError, match="criterion='folds' needs at least 5 rows in memory"):
        choose_criterion("folds", 2, "map", 4)
    for n_sides, inference, n_rows in (
        (2, "map", 4),
        (2, "gibbs", 50),
        (6, "gibbs", 50),
        (6, "map", 4),
        (6, "map", None),
    ):
        assert choose_criterion("auto", n_sides, inference, n_rows) == "aic_inputs"
    assert choose_criterion("holdout", 2, "gibbs", 50) == "holdout"
    assert choose_criterion(max, 6, "map", None) is max
    for n_rows in (49, None):
        with pytest.raises(InvalidInputError, match="criterion='holdout' needs at least 50 rows in memory"):
            choose_criterion("holdout", 6, "map", n_rows)


# ---------------------------------------------------------------------------------- what is refused

COUNTS = [0, -1, 2.5, True, "many", np.nan]
POSITIVE = [0, -1.0, np.nan, np.inf, True, "much"]
FLAGS = [1, "yes", 0.0]
WRONG_CHOICES = ["some", 3, True]
WRONG_MAP = {
    **dict.fromkeys(("n_minibatches", "batch_size", "prune_every", "n_members"), COUNTS),
    **dict.fromkeys(
        ("schedule", "initial", "pruning", "prior_on", "shrinkage", "when_empty", "precision"), WRONG_CHOICES
    ),
    **dict.fromkeys(("keep_moments", "replacement", "polish", "curved"), FLAGS),
    "learning_rate": POSITIVE,
    "average_last": [-0.1, 1, 1.5, np.nan, "half", True],
    "prune_above": [0, 1, np.nan, "half", True],
    "device": [3, True, ["cuda"]],
    "monotonic_cst": [(2, 0), {"a": "up"}, "up", 1, (True, 0), (np.nan,)],
}
WRONG_GIBBS = {
    **dict.fromkeys(("n_sweeps", "n_draws", "n_chains", "n_paths", "prune_every"), COUNTS),
    **dict.fromkeys(("prediction", "sampler", "pruning", "record", "start"), WRONG_CHOICES),
    "n_burn_in": [-1, 1000, 2.5, True, "half"],
    "device": [3, True, ["cuda"]],
}
WRONG_PRIORS = {field.name: POSITIVE for field in fields(Hyperpriors)}
WRONG_PRIORS["precision_floor"] = POSITIVE[1:]


def test_every_field_can_be_wrong():
    assert set(WRONG_MAP) == {field.name for field in fields(MapConfig)}
    assert set(WRONG_GIBBS) == {field.name for field in fields(GibbsConfig)}


@pytest.mark.parametrize(
    ("kind", "field", "values"),
    [
        (kind, field, values)
        for kind, wrong in ((MapConfig, WRONG_MAP), (GibbsConfig, WRONG_GIBBS), (Hyperpriors, WRONG_PRIORS))
        for field, values in wrong.items()
    ],
)
def test_wrong_values_are_refused_by_name(kind, field, values):
    for value in values:
        with pytest.raises(InvalidInputError) as caught:
            kind(**{field: value})
        said = str(caught.value)
        assert said.startswith(f"{field}={value!r} ")
        assert re.fullmatch(r"[^\n]+[^.]\.", said), "one sentence"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_sweeps": 0}, r"n_sweeps=0 must be a whole number of at least 1\.$"),
        ({"n_sweeps": 60, "n_burn_in": 60}, r"n_burn_in=60 must be a whole number of at least 0 and at most 59\.$"),
        ({"n_burn_in": 1000}, r"n_burn_in=1000 must be a whole number of at least 0 and at most 999\.$"),
        ({"sampler": "nuts"}, r"sampler='nuts' is not known; use one of 'first_events', 'event_times', 'counts'\.$"),
        (
            {"prediction": "mode"},
            r"prediction='mode' is not known; use one of 'auto', 'point', 'posterior', 'paths'\.$",
        ),
        ({"n_chains": True}, r"n_chains=True must be a whole number"),
    ],
)
def test_what_is_allowed_is_said(given, message):
    with pytest.raises(InvalidInputError, match=message):
        GibbsConfig(**given)


def test_numbers_of_numpy_are_numbers():
    assert GibbsConfig(n_sweeps=np.int64(30)) == GibbsConfig(n_sweeps=30)
    assert MapConfig(learning_rate=np.float32(0.5), polish=np.True_) == MapConfig(learning_rate=0.5, polish=True)
    assert Hyperpriors(mass_shape=np.float64(2.0), mass_rate=1) == Hyperpriors(mass_shape=2.0, mass_rate=1.0)


def test_options_that_are_gone_are_refused():
    for name in ("max_experts", "mass", "inv_scale", "coef_shape", "coef_rate"):
        with pytest.raises(TypeError, match=name):
            MapConfig(**{name: 1})
    for name in ("skip", "sides", "head", "n_sweeps"):
        with pytest.raises(TypeError, match=name):
            PBDNClassifier(**{name: 1})


# ------------------------------------------------------------------------------- as scikit-learn does


def test_the_constructors_are_small():
    of_pbdn, of_ishm = (list(inspect.signature(cls).parameters.values()) for cls in (PBDNClassifier, ISHMClassifier))
    assert len(of_pbdn) <= 14
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in of_pbdn + of_ishm)
    assert {one.name for one in of_pbdn} - {one.name for one in of_ishm} == {"criterion", "max_depth"}
    assert {one.name: one.default for one in of_ishm} == {
        one.name: one.default for one in of_pbdn if one.name not in ("criterion", "max_depth")
    }


def test_configurations_are_parameters(rng):
    chain, steps, priors = GibbsConfig(n_sweeps=9), MapConfig(batch_size=7), Hyperpriors(mass_shape=2.0)
    model = PBDNClassifier(gibbs_config=chain, map_config=steps, priors=priors)
    given = model.get_params()
    assert given["gibbs_config"] is chain
    assert given["map_config"] is steps
    twin = clone(model)
    assert twin.get_params() == given
    assert (twin.gibbs_config, twin.map_config, twin.priors) == (chain, steps, priors)
    twin.set_params(gibbs_config=GibbsConfig(n_sweeps=11), map_config=None)
    assert (twin.gibbs_config.n_sweeps, twin.map_config) == (11, None)
    assert model.gibbs_config is chain
    with pytest.raises(FrozenInstanceError):
        chain.n_sweeps = 3


def test_configurations_show_what_is_set():
    assert repr(GibbsConfig()) == "GibbsConfig()"
    for config in (GibbsConfig(n_sweeps=9, sampler="counts"), MapConfig(polish=False, learning_rate=0.5)):
        assert eval(repr(config)) == config
        assert "None" not in repr(config)
    assert "gibbs_config=GibbsConfig(n_sweeps=9)" in repr(PBDNClassifier(gibbs_config=GibbsConfig(n_sweeps=9)))


def test_a_search_over_configurations(rng):
    X, y = blobs(rng, n=40)
    chains = [GibbsConfig(n_sweeps=6, n_paths=1), GibbsConfig(n_sweeps=10, n_paths=1)]
    search = GridSearchCV(small(max_depth=1), {"gibbs_config": chains}, cv=2)
    fitted(search, X, y)
    assert search.best_params_["gibbs_config"] in chains
    assert list(search.cv_results_["param_gibbs_config"]) == chains
    best = search.best_estimator_.config_.chain
    assert (best.n_sweeps, best.n_burn_in) in ((6, 3), (10, 5))
    steps = [MapConfig(n_minibatches=5), MapConfig(n_minibatches=9)]
    search = fitted(GridSearchCV(PBDNClassifier(**MAP, max_depth=1), {"map_config": steps}, cv=2), X, y)
    assert search.best_estimator_.config_.map.n_minibatches in (5, 9)


# Warnings point at the line of the user, however deep the library was when it warned.


def deeper(layers, log_likelihood, n_rows):
    return -float(len(layers))


def limited():
    """An estimator that always warns of its depth."""
    return small("map", criterion=deeper, map_config=MapConfig(n_minibatches=5))


def assert_here(seen, line, n_warnings):
    assert [(one.filename, one.lineno) for one in seen] == [(__file__, line)] * n_warnings


def test_a_plain_fit(rng):
    X, y = blobs(rng)
    with pytest.warns(DepthLimitWarning) as seen:
        limited().fit(X, y)
    assert_here(seen, currentframe().f_lineno - 1, 1)
    with pytest.warns(UserWarning, match="only one class") as seen:
        limited().fit(X, np.zeros(len(y)))
    assert_here(seen, currentframe().f_lineno - 1, 1)


def test_chains_and_streams(rng):
    X, y = blobs(rng)
    with pytest.warns(UserWarning) as seen:
        small(criterion=deeper, n_sweeps=6, n_burn_in=3).fit(X, y)
    assert_here(seen, currentframe().f_lineno - 1, 2)  # depth, convergence
    with pytest.warns(DepthLimitWarning) as seen:
        limited().fit([(X, y)])
    assert_here(seen, currentframe().f_lineno - 1, 1)


def test_through_scikit_learn(rng):
    X, y = blobs(rng)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cross_val_score(limited(), X, y, cv=2)
    assert_here(seen, currentframe().f_lineno - 1, 2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        GridSearchCV(make_pipeline(StandardScaler(), limited()), {"standardscaler__with_mean": [True]}, cv=2).fit(X, y)
    assert_here(seen, currentframe().f_lineno - 1, 3)


def called_from(module, function):
    """Call a function from a module of that name."""
    scope = {"__name__": module, "function": function}
    exec("def call(): function()", scope)
    return scope["call"]


@pytest.mark.parametrize("module", ["pbdn", "pbdn.growth.fit_network", "sklearn.pipeline", "joblib"])
def test_frames_of_the_library_are_passed_over(module):
    with pytest.warns(UserWarning, match="look") as seen:
        called_from(module, called_from("pbdn.deep", partial(warn, "look")))()
    assert_here(seen, currentframe().f_lineno - 1, 1)


def test_other_modules_are_users():
    with pytest.warns(UserWarning, match="look") as seen:
        called_from("pbdn_of_mine", called_from("pbdn.deep", partial(warn, "look")))()
    assert [one.filename for one in seen] == ["<string>"]  # the code of pbdn_of_mine
