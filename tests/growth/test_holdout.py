"""Depth by rows kept back: folds, what they see, and how they decide."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from pbdn import MapConfig, PBDNClassifier
from pbdn.config import defaults, resolve
from pbdn.data.labelled_rows import LabelledRows
from pbdn.errors import DepthLimitWarning
from pbdn.estimators import fitting
from pbdn.files import read_container, write_container
from pbdn.growth import fit_network, holdout
from pbdn.growth.depth import LayerFit, grow
from pbdn.growth.holdout import RARE, KeptBack, deal_into_folds, folds_of_rows, keep_back
from pbdn.growth.run import Run
from pbdn.model.network import Layer, Side
from pbdn.model.response import response_for_classes
from pbdn.sgd.polish import polish


def test_folds_are_even_within_classes(rng):
    codes = np.concatenate([np.zeros(50, int), np.ones(12, int), np.full(4, 2), [3]])[rng.permutation(67)]
    folds = folds_of_rows(codes)
    assert [np.bincount(folds[codes == c]).tolist() for c in (0, 1)] == [[10] * 5, [3, 3, 2, 2, 2]]
    assert (folds[codes >= 2] == RARE).all()
    assert np.array_equal(folds, folds_of_rows(codes))
    assert not np.array_equal(folds[codes == 0], np.sort(folds[codes == 0]))


class Steps:
    """An engine whose layer t is the number t."""

    n_rows = 10

    def __init__(self):
        self.seen = []

    def fit_layer(self, depth):
        return LayerFit(Layer((Side(np.full((1, 2), float(depth)), np.ones(1)),)), (0.0,))

    def has_room(self, layer):
        return True

    def advance(self, layer):
        self.seen.append(layer.sides[0].hyperplanes[0, 0])


def grown(table, max_depth=4, **more):
    """Growth that loses ``table[t]`` (one value per row) with t + 1 layers."""
    engine = Steps()
    trial = KeptBack(engine, lambda layers: table[len(layers) - 1], Run(seed=0), lambda layers, tells: None)
    return grow(trial, trial.criterion, max_depth, **more), engine


def test_rows_kept_back_decide_together(rng):
    """A second layer that half of the rows like and the others do not; the engine goes on from its own layers."""
    base, likes = rng.gamma(2.0, size=100), np.arange(100) < 50
    for gain, depth in ((-0.1, 2), (0.1, 1)):
        table = [base, base + np.where(likes, -1.0, 1.0 + gain), base + np.where(likes, -1.0, 2.0)]
        growth, engine = grown(table, max_depth=3)
        assert len(growth.fits) == depth
        assert [step.criterion for step in growth.path] == pytest.approx([table[t].sum() for t in range(depth + 1)])
        assert engine.seen == [1.0, 2.0][:depth]


def test_nothing_kept_back_is_one_layer():
    growth, _ = grown([np.empty(0)] * 3)
    assert len(growth.fits) == 1


def test_no_layer_is_tried_where_next_to_nothing_is_left():
    table = [np.full(10, loss) for loss in (1.0, 0.01, 0.001, 0.0)]
    for good_enough, depth in ((0.2, 2), (0.05, 3), (-np.inf, 4)):
        growth, engine = grown(table, good_enough=good_enough)
        assert (len(growth.fits), len(growth.path)) == (depth, depth)
        assert growth.reason == ("criterion" if depth < 4 else "max_depth")
        assert engine.seen == [1.0, 2.0, 3.0][: depth - 1]


@pytest.mark.parametrize(("n_classes", "counts"), [(2, 0), (3, 1)])
def test_the_weight_kept_back_counts_with_several_classes(rng, n_classes, counts):
    """Half of 120 rows weigh nothing, the others one each."""
    codes, response = np.arange(120) // 2 % n_classes, response_for_classes(n_classes)
    rows = LabelledRows(rng.normal(size=(120, 2)), codes, np.arange(120) % 2 * 1.0)
    options = dict.fromkeys(("priors", "gibbs_config", "map_config"))
    config = resolve(response, inference="map", criterion="holdout", max_depth=2, max_experts=2, **options)
    kept = deal_into_folds(rows, response) == 4
    assert kept.sum() == 24
    assert keep_back(rows, response, config, Run(seed=0)).weight == counts * rows.weights[kept].sum() != 24


def test_a_fifth_of_every_class_is_kept_back(rng, monkeypatch):
    """The engine of the trial does not see the rows it is scored on, and weights travel with their rows."""
    X, y = rng.normal(size=(120, 2)), np.repeat([0, 1, 2], 40)
    X[:, 0] += y
    fitted_rows, made = [], holdout.make_engine

    def spy(rows, *others):
        fitted_rows.append((rows.inputs, rows.weights))
        return made(rows, *others)

    monkeypatch.setattr(holdout, "make_engine", spy)
    weights = rng.uniform(0.5, 2.0, 120)
    quick = {"map_config": MapConfig(n_minibatches=20), "max_experts": 2, "max_depth": 1}
    PBDNClassifier(inference="map", criterion="holdout", random_state=0, **quick).fit(X, y, sample_weight=weights)
    (part, part_weights), (whole, whole_weights) = fitted_rows
    assert np.array_equal(whole_weights, weights)
    place = {row.tobytes(): at for at, row in enumerate(whole)}
    index = [place[row.tobytes()] for row in part]
    assert np.array_equal(weights[index], part_weights)
    assert np.bincount(y[index]).tolist() == [32, 32, 32]


def kept_back_with(rng, grown_losses, polished_losses, polishes=True):
    """A trial after growth; what every row loses with so many layers, as grown and polished, is said."""
    base = rng.uniform(1.0, 1.5, size=20)

    def polisher(layers, tells):
        return [Layer((*layer.sides, *layer.sides)) for layer in layers] if polishes else None  # two sides: polished

    def loss(layers):
        return base + (grown_losses if len(layers[0].sides) == 1 else polished_losses)[len(layers) - 1]

    trial = KeptBack(Steps(), loss, Run(seed=0, n_jobs=2), polisher)
    return trial, len(grow(trial, trial.criterion, 3).fits)


def said(depth_and_layers):
    """The depth, and whether there are polished layers of it."""
    depth, layers = depth_and_layers
    assert layers is None or len(layers) == depth
    return depth, layers is not None


def test_rows_kept_back_decide_whether_to_polish(rng):
    for gain, polishes, pays in ((-1.1, True, True), (-0.9, True, False), (-1.1, False, False)):
        trial, depth = kept_back_with(rng, (0.0, -1.0, -0.8), (0.0, gain, 0.0), polishes)
        assert depth == 2
        assert said(trial.best_polished(depth)) == (2, pays)


@pytest.mark.parametrize(
    ("grown_more", "one", "two", "expected"),
    [
        (0.1, 0.0, -0.2, (2, True)),
        (0.1, -0.3, -0.2, (1, True)),
        (0.1, 0.2, 0.3, (1, False)),
        (0.9, 0.0, -0.2, (1, False)),  # hopeless as grown
    ],
)
def test_a_layer_that_pays_once_it_is_polished_is_kept(rng, grown_more, one, two, expected):
    """The layer that ended growth is polished too; it stays if that beats what came before it, polished or not."""
    trial, depth = kept_back_with(rng, (0.0, grown_more, 9.0), (one, two, -9.0))
    assert depth == 1
    assert said(trial.best_polished(depth)) == expected


def chosen(X, y, weights=None, curved=None):
    """How the depth of a default model is decided, where the rows say so."""
    quick = MapConfig(n_minibatches=400, curved=curved)
    model = PBDNClassifier(map_config=quick, max_experts=4, max_depth=1, random_state=0)
    return model.fit(X, y, sample_weight=weights).config_.criterion


def test_rows_say_whether_there_are_folds(rng, monkeypatch):
    """Classes apart are one network, classes that overlap are networks of folds; rows that weigh nothing say nothing."""
    monkeypatch.setattr(defaults, "MOST_FOLDED", ((np.inf, 0),))
    y = np.arange(120) % 3
    apart, blurred = (np.eye(3)[y] * 3.0 + spread * rng.normal(size=(120, 3)) for spread in (0.3, 3.0))
    both, twice, weights = np.concatenate([apart, blurred]), np.concatenate([y, y]), np.repeat([1.0, 0.0], 120)
    assert chosen(apart, y) == "holdout"
    assert chosen(blurred, y) == "folds"
    assert chosen(both, twice, weights) == "holdout"
    assert chosen(both, twice, 1.0 - weights) == "folds"


def test_squares_ask_for_folds(rng, monkeypatch):
    """Shells around the origin are told apart by squares, sectors are not; who wants no squares is not asked."""
    monkeypatch.setattr(defaults, "MOST_FOLDED", ((np.inf, 0),))
    X = rng.normal(size=(600, 3))
    angle = np.arctan2(X[:, 0], X[:, 1])
    shells, sectors = np.digitize((X**2).sum(axis=1), [1.2, 2.4, 4.2]), np.digitize(angle, [-1.6, 0.0, 1.6])
    monkeypatch.setattr(fit_network, "MUCH_OPEN", 2.0)
    assert chosen(X, shells) == "folds"
    assert chosen(X, shells, curved=False) == "holdout"
    assert chosen(X, sectors) == "holdout"


def test_the_trial_sees_the_same_rows_in_any_order_and_for_weights_or_copies(rng, monkeypatch):
    monkeypatch.setattr(defaults, "MOST_FOLDED", ((np.inf, 0),))
    X, y, seen = rng.normal(size=(60, 2)), np.arange(60) % 3, []

    def judge(rows, response, config, run):
        seen.append(np.column_stack([rows.inputs, rows.codes]))
        return False

    monkeypatch.setattr(fitting, "ask_for_folds", judge)
    copies = np.concatenate([np.arange(60), np.arange(20)])[rng.permutation(80)]
    model = PBDNClassifier(map_config=MapConfig(n_minibatches=20), max_experts=2, max_depth=1)
    model.fit(X, y, sample_weight=np.where(np.arange(60) < 20, 2, 1))
    model.fit(X[copies], y[copies])
    np.testing.assert_array_equal(*seen)


@pytest.fixture
def rings(rng):
    """Three nested rings, standardised: one layer is not enough."""
    codes = np.arange(240) % 3
    angle, radius = rng.uniform(0, 2 * np.pi, 240), 1.0 + codes + 0.2 * rng.normal(size=240)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return (X - X.mean(axis=0)) / X.std(axis=0), codes


def ring_model(polished=True, **more):
    config = MapConfig(n_minibatches=400, polish=polished)
    return PBDNClassifier(
        inference="map", map_config=config, max_experts=4, max_depth=2, standardize=False, random_state=1, **more
    )


def planes(model):
    return [side.hyperplanes for layer in model.layers_ for side in layer.sides]


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
@pytest.mark.parametrize("pays", [True, False])
def test_the_network_is_polished_where_that_pays(rings, monkeypatch, pays):
    """Where it pays the fit is the polish of the network of four fifths, else the network as grown on all rows, bit for bit."""
    X, y = rings
    grown_model = ring_model(polished=False, criterion="holdout").fit(X, y)
    told, real = [], holdout.polish
    monkeypatch.setattr(KeptBack, "best_polished", lambda self, depth: (depth, self.layers if pays else None))
    monkeypatch.setattr(holdout, "polish", lambda *rows, **more: told.append((*rows, more)) or real(*rows, **more))
    model = ring_model(criterion="holdout").fit(X, y)
    assert model.depth_ == grown_model.depth_ == 2
    assert len(told) == pays
    assert [step["polished"] for step in model.criterion_path_] == [False, pays]
    expected = grown_model.layers_
    if pays:
        ((layers, *_, more),) = told
        labelling = response_for_classes(3).labelling
        expected = polish(layers, X, y, None, config=model.config_.map, seed=more["seed"], labelling=labelling)
    for found, side in zip(planes(model), [s for layer in expected for s in layer.sides], strict=True):
        assert np.array_equal(found, side.hyperplanes)


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
def test_jobs_do_not_change_a_polish(rings):
    X, y = rings
    one, two = (ring_model(criterion="holdout", n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.criterion_path_[-1]["polished"] == two.criterion_path_[-1]["polished"]
    assert all(np.array_equal(a, b) for a, b in zip(planes(one), planes(two), strict=True))


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
def test_sparse_rows_and_other_criteria_stay_as_grown(rings):
    X, y = rings
    sparse = ring_model(criterion="holdout").fit(sp.csr_array(X), y)
    counted = ring_model(criterion="aic").fit(X, y)
    for model in (sparse, counted):
        assert not any(step["polished"] for step in model.criterion_path_)


def test_a_polish_cut_short_keeps_the_network_as_grown(rings, monkeypatch):
    X, y = rings
    monkeypatch.setattr(KeptBack, "best_polished", lambda self, depth: (depth, self.layers))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DepthLimitWarning)
        grown_model = ring_model(polished=False, criterion="holdout").fit(X, y)
    real = holdout.polish

    def too_late(*arguments, should_stop, **more):
        should_stop.deadline = 0.0
        return real(*arguments, should_stop=should_stop, **more)

    monkeypatch.setattr(holdout, "polish", too_late)
    with pytest.warns(UserWarning, match="reached: the network keeps 2 layer"):
        model = ring_model(criterion="holdout", time_limit=1e6).fit(X, y)
    assert all(np.array_equal(a, b) for a, b in zip(planes(model), planes(grown_model), strict=True))
    assert not model.criterion_path_[-1]["polished"]


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
def test_a_polished_network_of_one_fold_is_polished_again_on_all_rows(rings, monkeypatch, tmp_path):
    """It is not grown anew, and a fit that is resumed is the same to the bit whatever it has kept."""
    X, y = rings
    told, real, make = [], holdout.polish, holdout.make_engine
    monkeypatch.setattr(holdout, "polish", lambda *rows, **more: told.append((rows, more)) or real(*rows, **more))
    made = []
    monkeypatch.setattr(holdout, "make_engine", lambda rows, *others: made.append(rows.n_rows) or make(rows, *others))
    path = tmp_path / "fit.ckpt"
    model = ring_model(criterion="holdout", checkpoint=path).fit(X, y)
    assert model.criterion_path_[-1]["polished"]
    assert made == [192]
    (_, *four_fifths), (first, *every) = (rows for rows, _ in told)
    assert [len(four_fifths[0]), len(every[0])] == [192, 240]
    again = real(*told[0][0], **told[0][1])
    for one, other in zip(first, again, strict=True):
        assert all(np.array_equal(a.hyperplanes, b.hyperplanes) for a, b in zip(one.sides, other.sides, strict=True))
    resumed = ring_model(criterion="holdout", checkpoint=path, n_jobs=2).fit(X, y)
    assert len(told) == 2
    header, arrays = read_container(path, kind="checkpoint")
    some = {name: array for name, array in arrays.items() if name.startswith("trial.map.1/")}
    assert 0 < len(some) < len(arrays)
    write_container(path, header, some)
    half = ring_model(criterion="holdout", checkpoint=path).fit(X, y)
    for other in (resumed, half):
        assert all(np.array_equal(a, b) for a, b in zip(planes(model), planes(other), strict=True))


def test_time_that_ends_in_the_last_polish_leaves_the_network_of_one_fold(rings, monkeypatch):
    X, y = rings
    real, polished = holdout.polish, []

    def too_late(layers, inputs, *others, should_stop, **more):
        if len(inputs) == len(X):
            should_stop.deadline = 0.0
        polished.append(real(layers, inputs, *others, should_stop=should_stop, **more))
        return polished[-1]

    monkeypatch.setattr(holdout, "polish", too_late)
    with pytest.warns(UserWarning, match="reached: the network keeps 2 layer"):
        model = ring_model(criterion="holdout", time_limit=1e6).fit(X, y)
    left, none = polished
    assert none is None
    for found, side in zip(planes(model), [s for layer in left for s in layer.sides], strict=True):
        assert np.array_equal(found, side.hyperplanes)


def test_a_layer_less_is_kept_where_that_is_better_once_polished(rings, monkeypatch):
    """Two layers are as grown the best, one is once polished; the path says which stayed, and nobody asks for more depth."""
    X, y = rings
    monkeypatch.setattr(KeptBack, "best_polished", lambda self, depth: (depth - 1, self.layers[: depth - 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DepthLimitWarning)
        model = ring_model(criterion="holdout").fit(X, y)
    assert model.depth_ == 1
    assert [step["kept"] for step in model.criterion_path_] == [True, False]


def test_a_layer_less_is_tried_too(rng):
    trial, depth = kept_back_with(rng, (0.0, -1.0, -0.9), (-2.0, -1.5, -1.6))
    assert depth == 2
    assert said(trial.best_polished(depth)) == (1, True)
