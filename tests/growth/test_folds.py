"""Networks of folds: what the rows kept back decide, what is averaged, and what does not matter."""

import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.metrics import log_loss

from networks import random_network, random_ramps, split_ramps
from pbdn import MapConfig, PBDNClassifier, PBDNRegressor
from pbdn.config import resolve, starts_for
from pbdn.data.labelled_rows import LabelledRows, rows_to_prepare
from pbdn.data.open_stream import open_source
from pbdn.errors import ConvergenceWarning, DepthLimitWarning
from pbdn.growth import committee, trimming, views
from pbdn.growth import search as search_module
from pbdn.growth.committee import PENALTY_OF_FOLD, SEARCH_STEPS, _without_failures, grow_committee
from pbdn.growth.holdout import N_FOLDS, RARE, deal_into_folds, folds_of_rows, losses_on
from pbdn.growth.run import Run, StopSignal, n_threads
from pbdn.growth.search import FIRST_PENALTY, Search, Stage, Step, first_layer
from pbdn.growth.sharpening import best_factor, factor_of_average, interval_scores, sharpened
from pbdn.growth.trainee import JOINT_NUMBERS, Trainee, joint_work, without_idle
from pbdn.growth.trimming import (
    ALLOWED,
    ON_A_LINE,
    Limit,
    first_few,
    sensitivities,
    smaller,
    trimmed,
    without_expert,
    without_small,
)
from pbdn.growth.views import (
    LEAST_RELEVANCE,
    RowSpan,
    make_views,
    marginal_effects,
    relevance_stretch,
    stretched,
    without_unused_ramps,
)
from pbdn.model.network import Layer, Network, Side, inputs_above, with_other_inputs
from pbdn.model.response import TwoClasses
from pbdn.model.timed import OnALine, StandardDistribution, rates, side_arrays
from pbdn.model.wiring import ramps_of, sources_of
from pbdn.sgd.joint_gradient import objective_gradient
from pbdn.sgd.joint_training import Noise, Packed, mostly_copies, neighbour_noise
from pbdn.sgd.objective import pack
from pbdn.sgd.pruning import log_inactivity, log_likelihoods
from pbdn.sgd.train_layer import fit_map

RESPONSE = TwoClasses()


def rings(rng, n=160, noise=0.1):
    """A disc in a ring: no hyperplane separates them, one circle does."""
    y = np.arange(n) % 2
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.where(y == 1, 0.5, 1.5)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + noise * rng.normal(size=(n, 2)), y


def half_planes(rng, n=160):
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)


def model(**more):
    own = ("n_members", "curved", "n_minibatches")
    settings = {"n_minibatches": 150} | {name: more.pop(name) for name in own if name in more}
    return PBDNClassifier(
        inference="map", random_state=more.pop("random_state", 0), map_config=MapConfig(**settings), **more
    )


def fitted(estimator, X, y, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DepthLimitWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y, **more)


def trainee_of(X, y, weights=None, plain=False):
    view = replace(make_views(LabelledRows(X, y, weights), False, 0)[0], plain=plain)
    return Trainee(view, np.ones(y.size, dtype=bool), 0, RESPONSE, config_of().map, Run(seed=0))


def config_of(max_depth=2, **more):
    return resolve(
        RESPONSE, inference="map", criterion="folds", max_depth=max_depth, max_experts=6, priors=None, gibbs_config=None,
        map_config=MapConfig(n_minibatches=200, **more),
    )  # fmt: skip


def test_long_tails_are_pulled_in_and_the_unit_does_not_matter(rng):
    X = np.column_stack([rng.lognormal(sigma=1.5, size=200), rng.normal(size=200)])
    y = (np.log(X[:, 0]) + X[:, 1] > 0).astype(int)
    one = fitted(model(max_depth=1, curved=False, n_minibatches=300), X, y)
    assert one.network_.tails.columns.tolist() == [0]
    scaled = fitted(model(max_depth=1, curved=False, n_minibatches=300), X * [1e6, 1e-6], y)
    np.testing.assert_allclose(scaled.predict_proba(X * [1e6, 1e-6]), one.predict_proba(X), rtol=1e-6)
    assert one.score(X, y) > 0.9


@pytest.mark.parametrize("n_features", [5, 600])
def test_a_far_cell_does_not_hide_its_column(rng, n_features):
    """One cell of 1e12 in a column of numbers from 0 to 1; with more features than rows they are trained in their span."""
    X = rng.uniform(size=(500, n_features))
    y = (X[:, 0] > 0.5).astype(int)
    X[3, 0 if n_features == 5 else 1] = 1e12
    found = PBDNClassifier(random_state=0, max_depth=1).fit(X[:250], y[:250])
    assert found.score(X[250:], y[250:]) > (0.9 if n_features == 5 else 0.5)


@pytest.mark.parametrize(("widths", "kept"), [((20, 20, 20), 3), ((40, 30, 29), 3), ((40, 30, 30), 2), ((120, 10), 1)])
def test_networks_are_averaged_while_they_have_fewer_than_a_hundred_hyperplanes(rng, widths, kept):
    networks = [random_network(rng, ((width - width // 2, width // 2),)) for width in widths]
    assert first_few(networks, ON_A_LINE) == networks[:kept]
    assert kept == 1 or sum(widths[:kept]) <= ON_A_LINE.hyperplanes
    assert first_few(networks, Limit(1, 2)) == networks[:2]


def test_an_expert_taken_out_of_a_stack_is_one_that_says_nothing(rng):
    """As if the expert had no weight and layers above did not look at it."""
    layers = random_network(rng, ((3, 2), (2, 3), (2, 2)), 3).layers
    x = rng.normal(size=(9, 3))
    for t, s, k in ((1, 0, 1), (1, 1, 0), (2, 1, 2), (3, 0, 0)):
        silent, unit = list(layers), sum(layers[t - 1].n_experts[:s]) + k
        weights = layers[t - 1].sides[s].expert_weights.copy()
        weights[k] = 0.0
        sides = list(layers[t - 1].sides)
        sides[s] = replace(sides[s], expert_weights=weights)
        silent[t - 1] = Layer(tuple(sides))
        for above in range(t + 1, 4):
            if t in sources_of(above):
                before = sum((3, 5, 5)[source] for source in sources_of(above) if source < t)
                blind = np.ones(layers[above - 1].sides[0].hyperplanes.shape[1])
                blind[1 + before + unit] = 0.0
                sides = (replace(side, hyperplanes=side.hyperplanes * blind) for side in layers[above - 1].sides)
                silent[above - 1] = Layer(tuple(sides))
        expected = Network(tuple(silent), 3, RESPONSE).predict(x)
        np.testing.assert_allclose(
            Network(without_expert(layers, t, s, k), 3, RESPONSE).predict(x), expected, rtol=1e-12
        )


def test_needless_experts_are_left_out_and_needed_ones_stay(rng):
    X, y = half_planes(rng)
    rows = LabelledRows(X, y)
    plane = np.array([[0.0, 4.0, 2.0, 0.0]])
    far = np.array([[-30.0, 0.1, 0.0, 0.2]])
    side = Side(np.concatenate([plane, far, plane]), np.array([1.0, 0.5, 1e-6]))
    layers = (Layer((replace(side, hyperplanes=-side.hyperplanes), side)),)
    small = trimmed(layers, rows, RESPONSE)
    assert small[0].n_experts == (1, 1)
    loss = [-2.0 * np.log(Network(net, 3, RESPONSE).predict(X)[np.arange(y.size), y]).sum() for net in (layers, small)]
    assert loss[1] <= loss[0] + ALLOWED


@pytest.mark.parametrize("response", [RESPONSE, OnALine()], ids=["classes", "line"])
def test_trimming_judges_as_the_whole_network_does(rng, response):
    """Units that are known are not computed again: what stays is what trials of whole networks leave."""
    X, y = half_planes(rng, 80)
    on_a_line = np.column_stack([y, y]).astype(float)
    rows = LabelledRows(X, on_a_line if response.timed else y, rng.uniform(0.5, 2.0, 80))
    losses = losses_on(rows, response)
    layers = random_network(rng, ((3, 4), (2, 3), (3, 2), (2, 3)), 3).layers
    if response.timed:
        layers = tuple(
            Layer(tuple(replace(side, time_coefs=rng.gamma(2.0, size=side.n_experts)) for side in layer.sides))
            for layer in layers
        )
    small = trimmed(layers, rows, response, allowed=20.0)
    most, expected = losses(layers).sum() + 20.0, layers
    for t in (4, 3, 2, 1):
        for s in (0, 1):
            side = expected[t - 1].sides[s]
            votes = side.units(inputs_above(expected[: t - 1], X)).mean(axis=0) * side.expert_weights
            stays = list(range(side.n_experts))
            for k in np.argsort(votes):
                tried = without_expert(expected, t, s, stays.index(k)) if len(stays) > 1 else expected
                if len(stays) > 1 and losses(tried).sum() <= most:
                    expected = tried
                    stays.remove(k)
    assert small[0].n_experts != layers[0].n_experts
    assert small[2].n_experts != layers[2].n_experts
    for layer, same in zip(small, expected, strict=True):
        for side, other in zip(layer.sides, same.sides, strict=True):
            np.testing.assert_array_equal(side.hyperplanes, other.hyperplanes)


def test_a_look_at_some_rows_refuses_what_all_rows_would(rng, monkeypatch):
    """Of many rows, an eighth refuses an expert that is missed; what is left out is the same."""
    needed, needless = np.array([[-2.0, 4.0, 0.0, 0.0], [-2.0, 0.0, 4.0, 0.0]]), np.array([[-30.0, 0.1, 0.0, 0.2]])
    sides = tuple(Side(np.concatenate([planes, needless]), np.ones(3)) for planes in (-needed, needed))
    layers, looked_at = (Layer(sides),), []
    X = rng.normal(size=(2000, 3))
    y = (rng.random(2000) < Network(layers, 3, RESPONSE).predict(X)[:, 1]).astype(int)

    def counting(tries, k, some, losses_without=trimming._Tries.losses_without):
        losses = losses_without(tries, k, some)
        looked_at.append(losses.size)
        return losses

    monkeypatch.setattr(trimming._Tries, "losses_without", counting)
    small = trimmed(layers, LabelledRows(X, y), RESPONSE)
    assert small[0].n_experts == (2, 2)
    trials_on_some, trials_on_all = looked_at.count(250), looked_at.count(2000)
    assert 0 < trials_on_all < trials_on_some == 6
    looked_at.clear()
    monkeypatch.setattr(trimming, "FIRST_LOOK_FROM", np.inf)
    assert trimmed(layers, LabelledRows(X, y), RESPONSE)[0].n_experts == (2, 2)
    assert looked_at == [2000] * 6


def test_trimming_ends_when_the_time_is_up(rng):
    X, y = half_planes(rng, 80)
    layers, asked = random_network(rng, ((4, 4), (4, 4)), 3).layers, []
    assert trimmed(layers, LabelledRows(X, y), RESPONSE, 1e9, lambda: True) is layers
    some = trimmed(layers, LabelledRows(X, y), RESPONSE, 1e9, lambda: asked.append(1) or len(asked) > 3)
    assert sum(sum(layer.n_experts) for layer in some) == 16 - 2  # two trials before the time was up


def test_experts_leave_once_others_have_learned_to_stand_in(rng):
    """Two experts of one weight share a plane: without one of them the rows are far less likely, until the other is trained."""
    X, y = half_planes(rng)
    plane = np.array([[0.3, 3.0, 1.5, 0.0]])
    side = Side(np.concatenate([plane, plane]), np.array([0.6, 0.6]))
    layers = (Layer((replace(side, hyperplanes=-side.hyperplanes), side)),)
    trainee = trainee_of(X, y)
    view, history = trainee.view, (Step(True, FIRST_PENALTY, 1.0, 900),)
    small = smaller(trainee, layers, history)
    assert trimmed(layers, view.rows, RESPONSE)[0].n_experts == (2, 2)
    assert sum(small[0].n_experts) < 4
    every = np.ones(y.size, dtype=bool)
    assert view.losses(small, every, RESPONSE).sum() < view.losses(layers, every, RESPONSE).sum()
    least = (Layer((side.take([0]), side.take([0]))),)
    assert smaller(trainee, least, history) is least


def test_few_rows_spare_few_experts(rng, monkeypatch):
    """The rise of the deviance that is allowed grows with the rows, up to a bound."""
    asked = []

    def none_left_out(layers, rows, response, allowed, stop):
        asked.append(allowed)
        return layers

    monkeypatch.setattr("pbdn.growth.trimming.trimmed", none_left_out)
    for n, weight in ((50, 1.0), (50, 2.0), (4000, 1.0)):
        trainee = trainee_of(*half_planes(rng, n), np.full(n, weight))
        layers = random_network(rng, ((2, 2),), 3).layers
        assert smaller(trainee, layers, (Step(True, FIRST_PENALTY, 1.0, 900),)) is layers
    np.testing.assert_allclose(asked, [6.0, 12.0, 24.0])


def test_experts_that_nobody_can_stand_in_for_stay(rng, monkeypatch):
    """What is left out is less and less, and nothing at the end, while training does not make up for it."""
    X, y = half_planes(rng, 400)
    trainee, asked = trainee_of(X, y), []

    def all_but_one(layers, rows, response, allowed, stop):
        asked.append(allowed)
        return tuple(Layer(tuple(side.take([0]) for side in layer.sides)) for layer in layers)

    monkeypatch.setattr("pbdn.growth.trimming.trimmed", all_but_one)
    history = (Step(True, FIRST_PENALTY, 1.0, 3),)
    layers = trainee.follow((history[0]._replace(n_steps=300),))
    worse = tuple(Layer(layer.sides[::-1]) for layer in layers)  # the sides say the opposite of what they did
    monkeypatch.setattr(Trainee, "take", lambda self, fewer, history, step: (worse, True))
    assert smaller(trainee, layers, history) is layers
    assert asked == [24.0, 12.0, 6.0]


def test_a_ring_bends_the_first_layer_and_a_half_plane_does_not(rng):
    ring, plane = fitted(model(max_depth=1), *rings(rng)), fitted(model(max_depth=1), *half_planes(rng))
    assert ring.network_.curve is not None
    assert plane.network_.curve is None
    X, y = rings(rng)
    assert ring.score(X, y) > 0.97
    flat = fitted(model(max_depth=1, curved=False), X, y)
    assert flat.network_.curve is None


def stairs(rng, n=2000):
    """Log-odds that jump along the first feature, up and down again."""
    X = rng.normal(size=(n, 3))
    height = np.select([X[:, 0] < -0.8, X[:, 0] < -0.2, X[:, 0] < 0.4, X[:, 0] < 1.0], [-3.0, 3.0, -3.0, 3.0], -3.0)
    return X, (height + rng.logistic(size=n) > 0).astype(int)


@pytest.mark.parametrize("said_by", ["one square", "a saddle"])
def test_squares_of_few_features_are_found_among_many(rng, said_by):
    """At the first look forty squares say less than nothing; trained on without noise, with a stretch, the few that matter show."""
    X, new = rng.normal(size=(240, 40)), rng.normal(size=(2000, 40))
    odds = {
        "one square": lambda X: 2.0 * (X[:, 0] ** 2 - 1.0),
        "a saddle": lambda X: 2.0 * (X[:, 0] ** 2 - X[:, 1] ** 2),
    }[said_by]
    y = (rng.random(240) < expit(odds(X))).astype(int)
    model = PBDNClassifier(random_state=0).fit(X, y)
    assert model.network_.curve is not None
    share, p = expit(odds(new)), model.predict_proba(new)
    loss = -(share * np.log(p[:, 1]) + (1.0 - share) * np.log(p[:, 0])).mean()
    assert loss < 0.55  # 0.69 says nothing; the truths have 0.44 and 0.41


@pytest.mark.parametrize("n_rows", [300, 2000])
def test_stairs_take_ramps(rng, n_rows):
    """What one feature does in jumps, no hyperplane and no square can follow; ramps that do little are left out."""
    X, y = stairs(rng, n_rows)
    new, truth = stairs(rng)
    ramps, flat = fitted(model(max_depth=1), X, y), fitted(model(max_depth=1, curved=False), X, y)
    assert ramps.network_.curve.ramps
    tried = [one for one in ramps.trials_ if one["ramps"]]
    assert tried[-1]["kept"]
    assert ramps.network_.curve.n_bent <= tried[-1]["ramps"] < 0.7 * tried[0]["ramps"]  # many bends do nothing
    assert log_loss(truth, ramps.predict_proba(new)) < log_loss(truth, flat.predict_proba(new)) - 0.05
    assert np.count_nonzero(ramps.network_.curve.columns == 0) > np.count_nonzero(ramps.network_.curve.columns == 1)
    used = np.concatenate([side.hyperplanes[:, 4:] for side in ramps.network_.top.sides])
    assert used.any(axis=0).all()
    assert np.count_nonzero(used) < 0.8 * used.size


def test_deep_networks_beat_ramps_that_won_the_first_layer(rng, monkeypatch):
    """Three lines bound a triangle. One layer with ramps is nearer to it than one without, until there is a second layer."""
    X = rng.uniform(-1.0, 1.0, size=(600, 2))
    y = np.all([X[:, 1] > -0.5, X[:, 1] < 1.5 * X[:, 0] + 0.5, X[:, 1] < 0.5 - 1.5 * X[:, 0]], axis=0).astype(int)
    shallow, deep = (fitted(model(max_depth=depth, n_minibatches=None), X, y) for depth in (1, 3))
    assert shallow.network_.curve.ramps
    assert deep.depth_ > 1
    assert not any(trial["ramps"] and trial["kept"] for trial in deep.trials_)
    kept = [trial for trial in deep.trials_ if trial["kept"]]
    assert kept[-1]["deviance"] < min(trial["deviance"] for trial in deep.trials_ if trial["ramps"])
    assert [trial["deviance"] for trial in kept] == sorted((trial["deviance"] for trial in kept), reverse=True)
    assert [step["depth"] for step in deep.criterion_path_ if step["kept"]] == list(range(1, deep.depth_ + 1))
    assert deep.criterion_path_[0]["criterion"] == kept[0]["deviance"]
    monkeypatch.setattr("pbdn.growth.committee.MOST_SEARCHED_TWICE", (599, 599))  # many rows would take too long
    assert fitted(model(max_depth=3, n_minibatches=None), X, y).network_.curve.ramps


def rows_with_a_bump(n_rows, n_features=3):
    """The second feature tells all, the others nothing."""
    X = np.random.default_rng(0).normal(size=(n_rows, n_features))
    return LabelledRows(X, (X[:, 1] ** 2 < 0.5).astype(int))


def shapes_of(n_rows, curved=None, signs=None, alone=False):
    return [view.shape for view in make_views(rows_with_a_bump(n_rows), curved, 0, signs, alone=alone)]


def test_ramps_are_for_enough_rows(monkeypatch):
    enough = views.FEWEST_RAMPED
    assert shapes_of(enough - 1) == ["flat", "curved"]
    assert shapes_of(enough) == ["flat", "curved", "ramps"]
    assert shapes_of(views.FEWEST_ALONE - 1, alone=True) == ["flat", "curved"]
    assert shapes_of(views.FEWEST_ALONE, alone=True) == ["flat", "curved", "ramps"]
    assert shapes_of(enough, curved=True) == ["curved"]
    assert shapes_of(enough, curved=False) == ["flat"]
    assert shapes_of(enough, signs=[1, 1, -1]) == ["flat"]
    ramped = make_views(rows_with_a_bump(1000), None, 0, [0, 1, 0])[-1]
    assert ramped.curve.columns.tolist() == [0] * views.MOST_RAMPS + [2] * views.MOST_RAMPS
    rows = rows_with_a_bump(enough)
    weights = (np.arange(enough + 9) < enough).astype(float)
    silent = LabelledRows(np.vstack([rows.inputs, rows.inputs[:9] + 9.0]), np.append(rows.targets, [1] * 9), weights)
    alone = make_views(rows, None, 0)[-1]
    np.testing.assert_allclose(make_views(silent, None, 0)[-1].curve.centers, alone.curve.centers, rtol=1e-12)
    assert make_views(silent.take(np.arange(enough + 9) > 9), None, 0)[-1].shape == "curved"
    for n_rows in (enough, 2000):
        n_ramps = min(views.FEW_RAMPS, n_rows // views.ROWS_OF_RAMP)
        monkeypatch.setattr(views, "MOST_BENT_NUMBERS", 2 * n_ramps * n_rows)
        ramped = make_views(rows_with_a_bump(n_rows), None, 0)[-1]
        assert ramped.curve.columns.tolist() == [1] * n_ramps  # the others tell nothing on their own
        monkeypatch.setattr(views, "MOST_BENT_NUMBERS", (n_ramps - 1) * n_rows)
        assert shapes_of(n_rows) == ["flat", "curved"]


def test_effects_of_single_features(rng):
    """In standard errors: what says nothing is near 0, and a bump that no line sees is far above; labels, values and bounds."""
    X = rng.normal(size=(2000, 3))
    curve = ramps_of(X, 16)
    bump = np.abs(X[:, 2]) < 0.5
    values = 0.6 * bump + rng.normal(size=2000)
    bounds = np.column_stack([values, np.where(np.arange(2000) % 5 == 0, np.inf, values)])
    for said in (np.where(rng.random(2000) < 0.3 + 0.3 * bump, 2, np.arange(2000) % 2), bounds):
        effects = marginal_effects(LabelledRows(X, said), curve)
        assert np.all(np.abs(effects[:2]) < 6.0)
        assert effects[2] > 8.0


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_ramps_of_noisy_rows_are_taken_anew(rng, depth):
    """Rows with noise, and stretched inputs, have the loss of rows that were moved and bent by hand."""
    X, y = half_planes(rng, 600)
    view = make_views(LabelledRows(X, y), None, 0)[-1]
    assert view.n_ramps
    network = random_network(rng, ((2, 3), (2, 1), (1, 9))[:depth], view.rows.n_features, total_spread=1.0)
    stretch = rng.uniform(0.5, 2.0, view.rows.n_features)
    layers = stretched(network.layers, stretch)
    noise = view.noise._replace(scale=rng.uniform(0.5, 1.0, 3))
    z = rng.normal(size=3)
    packed = Packed.of(layers, stretch.size, RESPONSE.labelling, config_of(1).map)
    rows = noise.stretched(stretch).on(
        np.ascontiguousarray(view.rows.inputs * stretch), y, np.ones(len(y)), z, np.zeros(len(y), np.int64)
    )
    gradient = np.zeros_like(packed.parameters)
    loss = objective_gradient(rows, packed.parameters, packed.stack, packed.slopes, packed.prior, gradient)
    moved = view.rows.inputs[:, :3] + noise.scale * z
    by_hand = np.column_stack([moved, view.bent.apply(view.curve.bend(moved[:, view.curve.columns]))])
    still = Noise(np.zeros(stretch.size)).on(
        np.ascontiguousarray(by_hand * stretch), y, np.ones(len(y)), np.zeros(stretch.size), np.zeros(len(y), np.int64)
    )
    expected = np.zeros_like(gradient)
    same = objective_gradient(still, packed.parameters, packed.stack, packed.slopes, packed.prior, expected)
    assert loss == pytest.approx(same, rel=1e-8)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)


def test_layers_on_joined_ramps_do_the_same(rng):
    """Exactly so where they have no bend between the ramps that are joined; in all layers that see the features."""
    X, y = half_planes(rng, 600)
    long = make_views(LabelledRows(X, y), None, 0)[-1]
    curve, matrix = split_ramps(long.curve, 3, 4)
    short, n_inputs = long.with_curve(curve), long.rows.n_features
    wanted = random_network(rng, ((2, 3), (2, 1), (1, 1)), n_inputs, total_spread=1.0).layers
    on_ramps = long.bent.fold_bent(Network(wanted, 3, RESPONSE, long.curve))
    split = with_other_inputs(on_ramps.layers, n_inputs, lambda planes: planes @ matrix)
    parts = replace(on_ramps, layers=split, curve=curve)
    np.testing.assert_allclose(parts.predict(X), on_ramps.predict(X), rtol=1e-9)
    joined = short.on_joined_ramps(short.bent.inverse.fold_bent(parts).layers, long, RESPONSE)
    for layer, same in zip(wanted, joined, strict=True):
        for side, other in zip(layer.sides, same.sides, strict=True):
            np.testing.assert_allclose(other.hyperplanes, side.hyperplanes, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("depth", [1, 2])
def test_sensitivities_say_what_a_move_costs(rng, depth):
    """The deviance of rows that are as the network says rises with the square of a move, by the sensitivity times their number."""
    network = random_network(rng, ((2, 3), (2, 1))[:depth], 3, total_spread=1.0)
    X = rng.normal(size=(4000, 3))
    chances = network.predict(X)
    rows = LabelledRows(np.vstack([X, X]), np.repeat([0, 1], 4000), chances.T.ravel())
    losses = losses_on(rows, RESPONSE)
    found = iter(sensitivities(network.layers, rows, RESPONSE))
    for side in network.layers[0].sides:
        for k in range(side.n_experts):
            at_rest = losses(network.layers).sum()
            rises = []
            for move in (-0.05, 0.05):
                side.hyperplanes[k, 0] += move
                rises.append(losses(network.layers).sum() - at_rest)
                side.hyperplanes[k, 0] -= move
            assert np.mean(rises) == pytest.approx(next(found) * 4000 * 0.05**2, rel=0.1)


def test_small_coefficients_are_left_out(rng):
    """Of inputs, in layers that see them; biases and units stay."""
    network = random_network(rng, ((2, 2), (2, 1), (1, 1)), 4)
    for side in network.layers[0].sides:
        side.hyperplanes[:] = [0.001, 1.0, -0.3, 0.1, -0.05]
    few = without_small(network.layers, 0.2, 4)
    assert few[0].sides[0].hyperplanes.tolist() == [[0.001, 1.0, -0.3, 0.0, 0.0]] * 2
    for before, after in zip(network.layers[1].sides, few[1].sides, strict=True):
        np.testing.assert_array_equal(after.hyperplanes[:, 5:], before.hyperplanes[:, 5:])
        size = np.abs(before.hyperplanes[:, 1:5])
        np.testing.assert_array_equal(after.hyperplanes[:, 1:5] == 0.0, size < 0.2 * size.max(axis=1, keepdims=True))
    assert few[2] is network.layers[2]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_ramps_that_nobody_sees_are_left_out(rng, depth):
    curve = random_ramps(rng, 4, 3)
    network = random_network(rng, ((2, 2), (2, 1), (1, 1))[:depth], 4, curve=curve, total_spread=1.0)
    for layer in network.layers[:2]:
        for side in layer.sides:
            side.hyperplanes[:, [5, 7, 12]] = 0.0
    few = without_unused_ramps(network)
    assert few.curve.n_bent == curve.n_bent - 3
    assert few.n_features == 4
    rows = rng.normal(size=(20, 4))
    np.testing.assert_allclose(few.predict(rows), network.predict(rows), rtol=1e-12)


def test_what_was_tried_is_told(rng):
    X, y = half_planes(rng)
    found = fitted(model(max_depth=3), X, y)
    kept = [one for one in found.trials_ if one["kept"]]
    first = [one for one in found.trials_ if one["depth"] == 1 and one["penalty"] == FIRST_PENALTY]
    assert {(one["plain"], one["curved"]) for one in first} == {(True, False), (False, False), (False, True)}
    assert [one["deviance"] for one in kept] == sorted((one["deviance"] for one in kept), reverse=True)
    assert kept[-1]["depth"] == found.depth_
    assert [step["depth"] for step in found.criterion_path_ if step["kept"]] == list(range(1, found.depth_ + 1))


def test_the_deviance_is_that_of_rows_a_network_has_not_seen(rng):
    """The folds' networks rebuilt one by one give the losses that decided."""
    X, y = half_planes(rng, 120)
    rows, config, run = LabelledRows(X, y), config_of(1), Run(seed=3)
    growth = grow_committee(rows, RESPONSE, config, run)
    view = make_views(rows, False, run.seed)[0]
    folds = folds_of_rows(y)
    settings = config.map.shortened(SEARCH_STEPS)
    step = Step(True, FIRST_PENALTY, 1.0, settings.n_minibatches)
    total = 0.0
    for f in range(5):
        layers = Trainee(view, folds != f, f, RESPONSE, settings, run).follow((step,))
        p = Network(layers, 3, RESPONSE).predict(X[folds == f])
        total += RESPONSE.deviance(p, y[folds == f]).sum()
    flat = next(one for one in growth.trials if not (one.plain or one.curved))
    assert flat.deviance == pytest.approx(total, rel=1e-12)


def test_a_layer_must_pay_clearly():
    """A gain within its own standard error is no reason for another layer."""

    def stage(losses):
        return Stage(None, (), (), np.asarray(losses, dtype=float))

    old = stage(np.ones(100))
    assert not stage(np.ones(100)).clearly_below(old)
    assert stage(np.full(100, 0.9)).clearly_below(old)
    shaky = np.ones(100)
    shaky[:2] = 0.0, 1.5
    assert not stage(shaky).clearly_below(old)


@pytest.mark.parametrize("copies", [False, True])
def test_a_curve_must_pay_clearly_unless_rows_are_copies(copies, monkeypatch):
    shaky = np.ones(100)
    shaky[:2] = 0.0, 1.5
    step = Step(True, FIRST_PENALTY, 1.0, 1)
    flat, curved = (
        Stage(
            SimpleNamespace(shape="flat", curve=curve, plain=False, n_ramps=0, has_relevance=True, n_features=2),
            (step,),
            (),
            losses,
        )
        for curve, losses in ((None, np.ones(100)), ("a curve", shaky))
    )
    search = Search(RESPONSE, config_of(), Run(seed=0), [], copies=copies)
    monkeypatch.setattr(search, "after_each", lambda stages, step: [flat, curved])
    assert first_layer(search, [flat.view, curved.view])[0] is (curved if copies else flat)


def search_on(X, y, max_depth=1, **more):
    folds = folds_of_rows(y)
    return Search(RESPONSE, config_of(max_depth), Run(seed=2), [folds == f for f in range(5)], **more)


def views_of(X, y):
    flat, curved = make_views(LabelledRows(X, y), None, 0)[:2]
    return [replace(flat, plain=True), flat, curved]


def test_shapes_that_are_as_good_share_out_the_folds(rng, monkeypatch):
    """Each network sees and is judged by what its own shape sees; side by side they say the same as one by one."""
    monkeypatch.setattr("pbdn.growth.search.AS_GOOD", np.inf)
    X, y = half_planes(rng)
    search = search_on(X, y)
    (stage,) = first_layer(search, views_of(X, y), shared=True)
    shapes = [view.shape for view in stage.views]
    assert sorted(shapes[:3]) == ["curved", "flat", "plain"]
    assert shapes[3:] == shapes[:2]
    assert stage.view.shape == shapes[0] == search.trials[-1].shape.split(", ")[0]
    assert search.trials[-1].kept
    for f, layers in enumerate(stage.stacks):
        assert layers[0].sides[0].hyperplanes.shape[1] == 1 + stage.views[f].rows.n_features
        assert (shapes[f] == "plain") == (layers[0].n_experts == (1, 1))
    deeper = search.after(search.after(stage, search.new_layer(stage)), stage.history[-1]._replace(adds_layer=False))
    assert [view.shape for view in deeper.views] == shapes
    for one in (stage, deeper):
        np.testing.assert_array_equal(search.on_other_layers(one, one.stacks).losses, one.losses)
        common, (first,) = one.in_one_view(one.stacks[:1])
        assert not common.views
        np.testing.assert_allclose(search.on_other_layers(common, common.stacks).losses, one.losses, rtol=1e-10)
        for ours, theirs in zip(first, common.stacks[0], strict=True):
            np.testing.assert_array_equal(ours.sides[0].hyperplanes, theirs.sides[0].hyperplanes)


def test_a_shape_that_is_clearly_worse_has_no_share(rng):
    X, y = rings(rng)
    (stage,) = first_layer(search_on(X, y), views_of(X, y), shared=True)
    assert (stage.view.shape, stage.views) == ("curved", ())


def test_what_shares_is_told_and_one_network_has_one_shape(rng, monkeypatch):
    """Hyperplanes of networks without squares have zeros there, in what predicts and in what is saved."""
    monkeypatch.setattr("pbdn.growth.search.AS_GOOD", np.inf)
    X, y = half_planes(rng)
    found = fitted(model(max_depth=1), X, y)
    shape = [trial["shape"] for trial in found.trials_ if trial["kept"]][-1]
    assert sorted(shape.split(", ")) == ["curved", "flat", "plain"]
    (layer,) = found.network_.layers
    squares = [side.hyperplanes[:, 1 + X.shape[1] :] for side in layer.sides]
    for m, name in enumerate((*shape.split(", "), *shape.split(", "))[:5]):
        seen = [planes[own == m] for planes, own in zip(squares, found.network_.owners, strict=True)]
        assert np.concatenate(seen).any() == (name == "curved")
    alone = fitted(model(n_members=1, max_depth=1), X, y)
    assert not any("," in trial["shape"] for trial in alone.trials_)


def test_networks_of_several_shapes_resume_to_the_same_bits(rng, monkeypatch, tmp_path):
    monkeypatch.setattr("pbdn.growth.search.AS_GOOD", np.inf)
    monkeypatch.setattr("pbdn.growth.checkpoint.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("pbdn.growth.checkpoint.COST_SHARE", np.inf)
    X, y = half_planes(rng, 80)
    straight = fitted(model(max_depth=2), X, y)
    take, calls = Trainee._take, []

    def killed(self, *arguments):
        calls.append(self.number)
        if len(calls) == 40:
            raise KeyboardInterrupt
        return take(self, *arguments)

    monkeypatch.setattr(Trainee, "_take", killed)
    with pytest.raises(KeyboardInterrupt):
        fitted(model(max_depth=2, checkpoint=tmp_path / "c"), X, y)
    n_calls = len(calls)
    resumed = fitted(model(max_depth=2, checkpoint=tmp_path / "c"), X, y)
    assert resumed.trials_ == straight.trials_
    np.testing.assert_array_equal(resumed.predict_proba(X), straight.predict_proba(X))
    monkeypatch.setattr(Trainee, "_take", take)
    assert len(calls) - n_calls > 10


@pytest.mark.parametrize("gain", [-0.5, 0.5])
def test_a_side_has_more_experts_where_rows_kept_back_are_likelier(gain, monkeypatch):
    losses = np.ones(100)
    losses[:2] = 0.0, 2.0 - gain
    step = Step(True, FIRST_PENALTY, 1.0, 1)
    plain, flat = (
        Stage(
            SimpleNamespace(shape="flat", curve=None, plain=plain, n_ramps=0, has_relevance=True), (step,), (), losses
        )
        for plain, losses in ((True, np.ones(100)), (False, losses))
    )
    search = Search(RESPONSE, config_of(), Run(seed=0), [])
    monkeypatch.setattr(search, "after_each", lambda stages, step: [plain, flat])
    assert first_layer(search, [plain.view, flat.view])[0] is (flat if gain > 0 else plain)


def test_a_plain_network_has_one_expert_on_each_side(rng):
    """Where nothing more is to be learned: rows whose log-odds are linear."""
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] - X[:, 1] + rng.logistic(size=300) > 0).astype(int)
    found = fitted(model(max_depth=1), X, y)
    kept = [one for one in found.trials_ if one["kept"]]
    few = found.n_experts_ == [(5, 5)]
    assert few or not kept[0]["plain"]
    alone = trainee_of(X, y, plain=True)
    first = alone.follow((Step(True, FIRST_PENALTY, 1.0, 50),))
    assert first[0].n_experts == (1, 1)
    second = alone.follow((Step(True, FIRST_PENALTY, 1.0, 50),) * 2)
    assert second[0].n_experts == (1, 1)
    assert sum(second[1].n_experts) > 2  # layers above are not held down


def test_a_row_of_weight_three_is_three_rows_where_the_number_of_rows_decides(rng):
    X, y = rng.normal(size=(4, 2)), np.array([0, 1, 0, 1])
    weights = np.full(4, 3.0)
    weighted, repeated = (
        fitted(model(), X, y, sample_weight=weights),
        fitted(model(), np.repeat(X, 3, 0), np.repeat(y, 3)),
    )
    assert weighted.config_.criterion == repeated.config_.criterion == "folds"
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    assert fitted(model(), X, y, sample_weight=0.5 * weights).config_.criterion == "aic_inputs"


@pytest.mark.parametrize(("n_parts", "most"), [(5, 0.8), (12, 1.2)])
def test_very_few_rows_are_not_believed_too_much(rng, n_parts, most):
    """Few rows with labels that are often wrong: probabilities of the default are worth more than those of one network by AIC."""
    X = rng.normal(size=(2000, 5))
    y = (X[:, 0] + rng.logistic(size=2000) > 0).astype(int)
    losses = {"auto": 0.0, "aic_inputs": 0.0}
    for part in np.array_split(np.arange(100), n_parts):
        for criterion in losses:
            found = fitted(PBDNClassifier(criterion=criterion, random_state=0), X[part], y[part])
            losses[criterion] += log_loss(y[100:], found.predict_proba(X[100:])) / n_parts
    assert found.config_.criterion == "aic_inputs"
    assert losses["auto"] < min(most, losses["aic_inputs"])


def test_one_network_is_smaller_than_three_and_all_learn_from_all_rows(rng, monkeypatch):
    X, y = half_planes(rng)
    monkeypatch.setattr(views, "FEWEST_ALONE", views.FEWEST_RAMPED)  # or there would be other shapes to try
    seen = []
    real = Trainee.follow
    monkeypatch.setattr(Trainee, "follow", lambda self, history: seen.append(self.rows.n_rows) or real(self, history))
    one, three = (fitted(model(n_members=n, max_depth=1), X, y) for n in (1, 3))
    assert seen == [len(y)] * 4
    assert one.complexity_ < three.complexity_
    assert one.trials_ == three.trials_
    assert one.score(X, y) > 0.85
    np.testing.assert_allclose(three.network_.predict_members(X)[0], one.predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(three.network_.predict_folds(X), one.network_.predict_folds(X))
    assert len(one.network_.predict_folds(X)) == 5


def test_the_networks_of_the_folds_predict_and_say_how_sure_they_are(rng):
    X, y = half_planes(rng)
    found = fitted(model(max_depth=1), X, y)
    assert found.network_.n_members == 5
    assert found.network_.folds is None
    np.testing.assert_array_equal(found.network_.predict_folds(X), found.network_.predict_members(X))


def test_of_large_networks_the_first_predict_and_all_say_how_sure_they_are(rng, monkeypatch):
    X, y = half_planes(rng)
    whole = fitted(model(max_depth=1), X, y).network_
    monkeypatch.setattr("pbdn.growth.committee.OF_CLASSES", Limit(1, 3))
    first = fitted(model(max_depth=1), X, y).network_
    np.testing.assert_allclose(first.predict_members(X), whole.predict_members(X)[:3], rtol=1e-12)
    np.testing.assert_allclose(first.predict_folds(X), whole.predict_members(X), rtol=1e-12)


def test_a_network_that_fits_its_rows_badly_is_trained_once_more(rng, monkeypatch):
    X, y = half_planes(rng)
    real, numbers = Trainee.follow, []

    def broken(self, history):
        numbers.append(self.number)
        layers = real(self, history)
        if self.number != 5:
            return layers
        flat = [Side(0.0 * side.hyperplanes, side.expert_weights) for side in layers[-1].sides]
        return (*layers[:-1], Layer(tuple(flat)))

    monkeypatch.setattr(Trainee, "follow", broken)
    found = fitted(model(n_members=3, max_depth=1), X, y)
    assert sorted(numbers) == [5, 6, 7, 1005]
    assert found.score(X, y) > 0.85
    assert np.abs(found.network_.predict_members(X)[0, :, 1] - 0.5).max() > 0.3


def test_above_a_size_one_fold_decides_and_the_others_follow(rng, monkeypatch):
    monkeypatch.setattr("pbdn.config.defaults.SEARCHED_NUMBERS", (100, 100))
    X, y = half_planes(rng, 150)
    followed = []
    real = Trainee.follow
    monkeypatch.setattr(Trainee, "follow", lambda self, history: followed.append(self.number) or real(self, history))
    found = fitted(model(max_depth=1), X, y)
    assert sorted(followed) == [1, 2, 3, 4]
    assert found.score(X, y) > 0.8
    used = np.abs(found.layers_[0].sides[0].hyperplanes).sum(axis=1)
    assert (used > 0).all()


@pytest.mark.parametrize(("room", "others"), [(1, []), (10**6, [2, 3, 4])])
def test_on_a_line_two_folds_decide_and_no_more_follow_than_there_is_room_for(rng, monkeypatch, room, others):
    monkeypatch.setattr("pbdn.config.defaults.SEARCHED_NUMBERS", (100, 100))
    monkeypatch.setattr("pbdn.growth.committee.ON_A_LINE", Limit(room, 1))
    X, _ = half_planes(rng, 150)
    followed = []
    real = Trainee.follow
    monkeypatch.setattr(Trainee, "follow", lambda self, history: followed.append(self.number) or real(self, history))
    config = MapConfig(n_minibatches=150)
    found = PBDNRegressor(max_depth=1, map_config=config, random_state=0).fit(X, X[:, 0] + 0.1 * rng.normal(size=150))
    assert sorted(followed) == others
    assert found.network_.n_members == (1 if room == 1 else 5)
    assert found.score(X, X[:, 0]) > 0.8


def test_jobs_and_the_order_of_rows_do_not_matter(rng):
    X, y = half_planes(rng, 100)
    mixed = rng.permutation(len(y))
    one, two, other = model(max_depth=1), model(max_depth=1, n_jobs=2), model(max_depth=1)
    fitted(one, X, y), fitted(two, X, y), fitted(other, X[mixed], y[mixed])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_a_constant_feature_changes_nothing(rng):
    X, y = half_planes(rng, 100)
    plain = fitted(model(max_depth=1), X, y)
    wide = np.column_stack([X, np.full((len(y), 2), 7.0)])
    more = fitted(model(max_depth=1), wide, y)
    assert all((side.hyperplanes[:, 4:6] == 0).all() for side in more.layers_[0].sides)
    assert more.n_experts_ == plain.n_experts_ or abs(more.score(wide, y) - plain.score(X, y)) < 0.1


def test_interrupted_in_the_search_keeps_what_was_kept(rng):
    """The stop after the first layer leaves the networks of that layer, averaged."""
    X, y = half_planes(rng, 100)
    rows, config = LabelledRows(X, y), config_of(3)

    class Stop:
        def layer_begins(self, depth):
            self.depth = depth

        def layer_ends(self, fits):
            return True

    growth = grow_committee(rows, RESPONSE, config, Run(seed=1), Stop())
    assert growth.reason == "observer"
    assert len(growth.fits) == 1
    assert {one.depth for one in growth.trials} == {1}


def test_a_class_too_small_to_fold_is_in_all_networks(rng):
    X, y = half_planes(rng, 100)
    y = np.where(np.arange(100) < 3, 1, 0)
    found = fitted(model(max_depth=1), X, y)
    assert np.isfinite(found.predict_proba(X)).all()


def test_search_begins_with_nothing(rng):
    X, y = half_planes(rng, 60)
    search = Search(RESPONSE, config_of(), Run(seed=0), [np.zeros(60, bool)])
    stage = search.begin(make_views(LabelledRows(X, y), False, 0)[0])
    assert stage.depth == 0
    assert stage.stacks == ((),)


def test_idle_experts_are_left_out(rng):
    """What adds nothing to any row goes; a side keeps its strongest even if that is next to nothing."""
    rows = rng.normal(size=(30, 2))
    planes = np.array([[0.0, 1.0, 0.0], [-60.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    side = Side(planes, np.array([1.0, 1.0, 1e-9]))
    weak = Side(planes, np.array([1e-9, 1e-12, 1e-10]))
    (layer,) = without_idle((Layer((side, weak)),), LabelledRows(rows, np.zeros(len(rows), np.int64)))
    assert layer.n_experts == (1, 1)
    np.testing.assert_array_equal(layer.sides[0].hyperplanes, planes[:1])


@pytest.mark.parametrize("n_jobs", [1, 5])
@pytest.mark.parametrize("bad", [False, True])
def test_folds_that_go_ahead_spare_the_others_a_bad_step(rng, monkeypatch, bad, n_jobs):
    """A penalty that flattens all is tried by two folds, one that does not by all; how many threads there are changes nothing."""
    X, y = half_planes(rng, 200)
    folds = folds_of_rows(y)
    search = Search(RESPONSE, config_of(1), Run(seed=2, n_jobs=n_jobs), [folds == f for f in range(5)])
    begun = search.begin(make_views(LabelledRows(X, y), False, 0)[0])
    stage = search.after(begun, search.new_layer(begun)._replace(penalty=0.3 if bad else 1000.0))
    step = stage.history[-1]._replace(adds_layer=False, penalty=1000.0 if bad else 0.3)
    everywhere = search.after(stage, step)
    taken, take = [], Trainee.take

    def counted(trainee, *arguments):
        taken.append(trainee.number)
        return take(trainee, *arguments)

    monkeypatch.setattr(Trainee, "take", counted)
    found = search.after(stage, step, 1.0)
    n_taken = 2 if bad else 5
    assert sorted(taken) == list(range(5 if n_jobs == 5 else n_taken))
    expected = (*everywhere.stacks[:n_taken], *stage.stacks[n_taken:])
    for layers, others in zip(found.stacks, expected, strict=True):
        for ours, theirs in zip(layers[0].sides, others[0].sides, strict=True):
            np.testing.assert_array_equal(ours.hyperplanes, theirs.hyperplanes)
    np.testing.assert_array_equal(found.losses, search.on_other_layers(found, found.stacks).losses)
    assert found.history == everywhere.history
    assert (found.deviance > stage.deviance) == bad


def test_a_network_that_failed_gets_another_try(rng):
    """A fold whose network says the opposite is trained again; the others stay as they are."""
    X, y = half_planes(rng, 100)
    rows, run = LabelledRows(X, y), Run(seed=2)
    folds = folds_of_rows(y)
    search = Search(RESPONSE, config_of(1), run, [folds == f for f in range(5)])
    begun = search.begin(make_views(rows, False, 0)[0])
    stage = search.after(begun, search.new_layer(begun))
    wrong = tuple(Layer(layer.sides[::-1]) for layer in stage.stacks[3])
    stacks = (*stage.stacks[:3], wrong, stage.stacks[4])
    held = zip(stacks, search.held, strict=True)
    losses = np.concatenate([stage.view.losses(layers, kept, RESPONSE) for layers, kept in held])
    mended = _without_failures(search, replace(stage, stacks=stacks, losses=losses))
    assert mended.deviance < losses.sum()
    assert [a is b for a, b in zip(mended.stacks, stacks, strict=True)] == [True, True, True, False, True]


def test_classes_that_are_all_too_small_to_fold(rng):
    """Nothing can be kept back: one layer, trained on all rows."""
    y = np.repeat(np.arange(20), 3)
    X = rng.normal(size=(60, 2)) + y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = PBDNClassifier(random_state=0, map_config=MapConfig(n_minibatches=5)).fit(X, y)
    assert found.config_.criterion == "folds"
    assert found.depth_ == 1
    assert found.predict_proba(X).shape == (60, 20)


# ----------------------------------------------------------------------------------------- how much work


def test_wide_rows_are_trained_in_their_span(rng, monkeypatch):
    monkeypatch.setattr(views, "MOST_STRETCHED", 80)
    X = rng.normal(size=(40, 90))
    X[7] = X[3]
    rows = LabelledRows(X, np.arange(40) % 2)
    (view,) = make_views(rows, None, seed=0)
    assert view.rows.n_features == 39
    np.testing.assert_allclose(view.rows.inputs @ view.rows.inputs.T, X @ X.T, atol=1e-10)
    isotropic = RowSpan.of(np.sqrt(40) * np.linalg.qr(X.T)[0].T)  # rows of equal length at right angles
    assert np.ptp(np.linalg.norm(isotropic.coordinates, axis=1)) < 1e-10
    side = [Side(rng.normal(size=(3, 40)), np.ones(3)) for _ in range(2)]
    above = [Side(rng.normal(size=(2, 39 + 6 + 1)), np.ones(2)) for _ in range(2)]
    layers = (Layer(tuple(side)), Layer(tuple(above)))
    on_features = view.network(layers, RESPONSE)
    on_coordinates = Network(layers, 39, RESPONSE)
    np.testing.assert_allclose(on_features.predict(X), on_coordinates.predict(view.rows.inputs), atol=1e-9)
    sparse = make_views(LabelledRows(sp.csr_array(X), rows.codes), None, seed=0)[0]
    np.testing.assert_allclose(sparse.network(layers, RESPONSE).predict(X).sum(axis=1), 1.0)
    np.testing.assert_allclose(sparse.noise.scale, view.noise.scale, rtol=1e-6)
    (few,) = make_views(LabelledRows(X[:, :80], rows.codes), None, seed=0)
    assert few.span is None
    assert few.curve is None
    assert len(make_views(rows, True, seed=0)) == 1  # asked for curves: they have their axes along the features


def test_noise_in_the_span_is_that_on_the_features(rng):
    """Noise on features moves a row along the axes of the span by what `RowSpan.noise` says."""
    X = rng.normal(size=(30, 60)) * rng.uniform(0.5, 2.0, size=60)
    span = RowSpan.of(X)
    seeds = [np.random.default_rng(1) for _ in range(2)]
    on_features = neighbour_noise(X, seeds[0])
    basis = X.T @ span.mixture
    expected = np.sqrt((basis**2 * on_features[:, None] ** 2).sum(axis=0))
    np.testing.assert_allclose(span.noise(None, seeds[1]), expected, rtol=1e-9)


@pytest.mark.parametrize("in_span", [False, True])
def test_a_wide_table_is_learned(in_span, rng, monkeypatch):
    monkeypatch.setattr(views, "MOST_STRETCHED", 0 if in_span else 300)
    factor = rng.normal(size=(260, 2))
    X = factor @ rng.normal(size=(2, 300)) + rng.normal(size=(260, 300))
    y = (factor[:, 0] > 0).astype(int)
    for rows in (X, sp.csr_array(X)):
        network = fitted(model(max_depth=1), rows[:60], y[:60])
        assert network.n_features_in_ == 300
        assert network.score(rows[60:], y[60:]) > 0.85


def test_few_features_of_a_wide_table_are_found(rng):
    """Three of 200 features say something. A penalty that is the same for all cannot tell."""
    X = rng.normal(size=(1120, 200))
    y = (4.0 * (X[:, 0] + X[:, 1] - X[:, 2]) + rng.logistic(size=1120) > 0).astype(int)
    network = fitted(model(max_depth=1, n_minibatches=600), X[:120], y[:120])
    assert network.score(X[120:], y[120:]) > 0.8
    assert set(np.argsort(network.feature_importances_)[-3:]) == {0, 1, 2}


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_inputs_are_stretched_by_the_size_of_their_coefficients(power):
    """Two experts of one side count by their weights, the second side as much as the first; what no hyperplane uses is still there."""
    first = Side(np.array([[9.0, 3.0, 0.0, 0.0], [9.0, 0.0, 1.0, 0.0]]), np.array([3.0, 1.0]))
    second = Side(np.array([[-9.0, 1.0, 2.0, 0.0]]), np.array([0.1]))
    squares = np.array([0.75 * 9.0 + 1.0, 0.25 * 1.0 + 4.0, 0.0])
    sizes = np.sqrt(squares)
    stretch = relevance_stretch((Layer((first, second)),), 3, power)
    expected = (sizes / sizes.mean() + LEAST_RELEVANCE) ** power
    np.testing.assert_allclose(stretch**2 / stretch[0] ** 2, expected / expected[0], rtol=1e-12)
    np.testing.assert_allclose((squares / stretch**2).sum(), squares.sum(), rtol=1e-12)


def test_a_network_that_says_nothing_stretches_nothing():
    nothing = Side(np.array([[1.0, 0.0, 0.0]]), np.array([1.0]))
    np.testing.assert_array_equal(relevance_stretch((Layer((nothing, nothing)),), 2), np.ones(2))


def test_a_network_says_the_same_of_stretched_inputs(rng):
    """Three layers, of which the first two see the features; there and back again."""
    network = random_network(rng, ((3, 2), (2, 3), (2, 2)), 3)
    x, stretch = rng.normal(size=(9, 3)), rng.uniform(0.2, 5.0, 3)
    moved = stretched(network.layers, stretch)
    np.testing.assert_allclose(Network(moved, 3, RESPONSE).predict(x * stretch), network.predict(x), rtol=1e-10)
    back = stretched(moved, 1.0 / stretch)
    for one, other in zip(back, network.layers, strict=True):
        for side, before in zip(one.sides, other.sides, strict=True):
            np.testing.assert_allclose(side.hyperplanes, before.hyperplanes, rtol=1e-12)


def test_noise_is_stretched_with_its_inputs(rng):
    """Noise z on the features moves an input j, squares included, by s_j times what it moved it by before."""
    X, y = rings(rng)
    noise = make_views(LabelledRows(X, y), True, 0)[0].noise
    stretch = rng.uniform(0.2, 5.0, 4)
    moved, z = noise.stretched(stretch), rng.normal(size=2)
    np.testing.assert_allclose(moved.scale * z, stretch[:2] * noise.scale * z, rtol=1e-12)
    squares = [one.slopes * (one.scale * z)[one.columns] for one in (moved, noise)]
    np.testing.assert_allclose(squares[0], stretch[2:] * squares[1], rtol=1e-12)
    flat = make_views(LabelledRows(X, y), False, 0)[0].noise
    assert flat.stretched(stretch[:2]).slopes is None


def test_features_that_say_nothing_fade(rng):
    """Two of twenty features matter. The more penalties follow relevance, the less is left of the others."""
    X = rng.normal(size=(2150, 20))
    y = (3.0 * X[:, 0] - 2.0 * X[:, 1] + rng.logistic(size=2150) > 0).astype(int)
    trainee = trainee_of(X[:150], y[:150], plain=True)
    left, losses = [], []
    for relevance in (0.0, 1.0, 2.0):
        layers = trainee.follow((Step(True, 8.0, 1.0, 400, relevance), Step(False, 8.0, 1.0, 400, relevance)))
        sizes = np.sqrt(sum(side.expert_weights @ side.hyperplanes[:, 1:] ** 2 for side in layers[0].sides))
        left.append(sizes[2:].mean() / sizes[:2].mean())
        losses.append(log_loss(y[150:], trainee.view.network(layers, RESPONSE).predict(X[150:])))
    assert left[2] < 0.8 * left[1] < 0.64 * left[0]
    assert losses[2] < losses[1] < losses[0]


def test_rows_kept_back_say_how_much_relevance_counts(rng, monkeypatch):
    """It is tried last, from one on; coordinates of a span have none."""
    X, y = half_planes(rng)
    trials = fitted(model(max_depth=1), X, y).trials_
    tried = [trial["relevance"] for trial in trials]
    assert tried[0] == 1.0
    assert 2.0 in tried
    assert set(tried[: tried.index(2.0)]) == {1.0}
    monkeypatch.setattr(views, "MOST_STRETCHED", 0)
    wide = rng.normal(size=(40, 60))
    assert {trial["relevance"] for trial in fitted(model(max_depth=1), wide, np.arange(40) % 2).trials_} == {0.0}


@pytest.mark.parametrize(("falls", "n_rounds"), [([1.0, 0.95], 1), ([1.0, 0.8, 0.75], 2), ([1.0, 0.8, 0.6, 0.6], 3)])
def test_settings_are_looked_at_again_while_much_is_gained(falls, n_rounds, rng, monkeypatch):
    """``falls`` are the deviances after every round, beside that before the first."""
    X, y = half_planes(rng, 100)
    search = search_on(X, y)
    begun = search.begin(views_of(X, y)[0])
    stage = search.after(begun, search.new_layer(begun)._replace(n_steps=5))
    rounds, deviance = [], stage.deviance

    def along(search, setting, values, stage):
        if setting == "penalty":
            rounds.append(setting)
        return replace(stage, losses=stage.losses * (falls[len(rounds)] * deviance / stage.deviance))

    monkeypatch.setattr(committee, "_along", along)
    assert committee._strength(search, stage).deviance == pytest.approx(falls[n_rounds] * deviance)
    assert len(rounds) == n_rounds
    rounds.clear()
    committee._strength(replace(search, held=search.held[:1]), stage)
    assert len(rounds) == 1


def test_work_is_budgeted_by_numbers():
    assert starts_for(20, 2, 20) == (3, 10)
    assert starts_for(201, 2, 20) == (1, 9)
    assert starts_for(201, 2, 4) == (2, 4)
    assert starts_for(100_000, 2, 20) == (1, 2)
    assert joint_work(400, 500, 1500) == (1500, 200)
    assert joint_work(100_000, 500, 1500)[1] == 10 * 100_000 // 1500
    for n_rows, n_coefficients in [(400, 50_000), (10**6, 100), (10**6, 50_000), (4000, 10**5)]:
        steps, size = joint_work(n_rows, n_coefficients, 1500)
        assert 200 <= steps <= 1500
        assert size >= 200
        assert steps * size * n_coefficients <= max(JOINT_NUMBERS, 200 * 200 * n_coefficients)


def test_many_rows_are_thinned_and_small_classes_kept(rng):
    codes = np.r_[np.zeros(900, int), np.full(30, 1), np.full(500, 2)]
    rows = LabelledRows(rng.normal(size=(codes.size, 3)), codes)
    thin = rows.thinned(300)
    assert thin.n_rows <= 300
    assert np.bincount(thin.codes)[1] == 30
    np.testing.assert_allclose(np.bincount(thin.codes, thin.weights), np.bincount(codes))
    order = rng.permutation(codes.size)
    again = rows.take(order).thinned(300)
    np.testing.assert_array_equal(again.inputs, thin.inputs)  # which rows stay does not depend on their order
    assert rows.thinned(codes.size) is rows
    weighted = LabelledRows(rows.inputs, codes, rng.uniform(1, 2, codes.size)).thinned(300)
    np.testing.assert_allclose(weighted.weights.sum(), 1.5 * codes.size, rtol=0.1)


def test_rows_are_chosen_before_their_features_are_made(monkeypatch):
    monkeypatch.setattr("pbdn.data.labelled_rows.MOST_TRAINED", 900)
    monkeypatch.setattr("pbdn.data.labelled_rows.FEWEST_TRAINED", 10)
    codes = np.r_[np.zeros(900, int), np.full(30, 1), np.full(500, 2)]
    chosen, weights = rows_to_prepare(codes, None, n_features=3)
    assert np.all(np.diff(chosen) > 0)
    assert np.bincount(codes[chosen])[1] == 30
    np.testing.assert_allclose(np.bincount(codes[chosen], weights), np.bincount(codes))
    thin = LabelledRows(np.zeros((chosen.size, 3)), codes[chosen])
    assert thin.thinned(thin.most_trained) is thin  # the fit takes them all
    given = np.where(np.arange(codes.size) % 2, 2.0, 0.0)
    chosen, weights = rows_to_prepare(codes, given, n_features=3)
    assert np.all(chosen % 2 == 1)  # rows without weight are not learnt from
    np.testing.assert_allclose(np.bincount(codes[chosen], weights), np.bincount(codes, given))
    every, same = rows_to_prepare(codes[:20], given[:20], n_features=3)
    np.testing.assert_array_equal(every, np.arange(20))
    assert same is not None


def test_threads_are_those_of_the_folds_unless_asked():
    assert n_threads(1, True) == n_threads(None, False) == 1
    assert 1 <= n_threads(None, True) <= 5
    assert n_threads(7, True) == 7


# ----------------------------------------------------------------------------------------- the clock


class Clock:
    """Time that a test moves: every look at it takes a second."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("n_looks", [1, 3, 8, 20])
def test_nothing_is_trained_after_the_clock_has_struck(n_looks, rng, monkeypatch):
    """However late it strikes: whoever works asks before the next piece of work, and pieces are small."""
    X, y = rings(rng, 120)
    stop = StopSignal(float(n_looks) + 0.5, 60.0, clock=Clock())
    late = []
    for place in ("pbdn.sgd.joint_training.run_joint_steps", "pbdn.sgd.trainer.run_minibatches"):
        module, name = place.rsplit(".", 1)
        real = getattr(sys.modules[module], name)

        def watched(*arguments, real=real):
            late.append(stop.clock.now > stop.deadline)
            return real(*arguments)

        monkeypatch.setattr(place, watched)
    growth = grow_committee(LabelledRows(X, y), RESPONSE, config_of(), Run(0, stop=stop))
    assert growth.reason == "interrupted"
    assert not any(late)
    assert growth.fits


def test_a_compiled_call_is_short_however_large_a_layer_is(rng, monkeypatch):
    monkeypatch.setattr("pbdn.sgd.trainer.CALL_NUMBERS", 2e4)
    source = LabelledRows(rng.normal(size=(300, 4)), np.arange(300) % 2).source(2)
    settings = config_of().map
    steps = []
    fit_map(source, RESPONSE.labelling, config=settings, on_progress=lambda info: steps.append(info["step"]))
    per_call = np.diff([0, *steps])
    assert per_call.max() * 100 * (2 * 6 * 6) <= 2e4
    whole = fit_map(source, RESPONSE.labelling, config=settings)
    monkeypatch.undo()
    again = fit_map(source, RESPONSE.labelling, config=settings)
    np.testing.assert_array_equal(whole.sides[0].hyperplanes, again.sides[0].hyperplanes)


def test_passes_over_a_stream_end_when_the_time_is_up(rng):
    rows, codes = rng.normal(size=(600, 3)), np.arange(600) % 2
    batches = [(rows[i : i + 100], codes[i : i + 100]) for i in range(0, 600, 100)]
    source = open_source(batches, None)
    parameters, starts = pack([Side(rng.normal(size=(2, 4)), np.ones(2)) for _ in range(2)])
    sides = parameters, starts, RESPONSE.labelling.positive
    guess = log_likelihoods(source, *sides, lambda: True)
    block = LabelledRows(rows[:100], codes[:100]).source(2)
    np.testing.assert_allclose(guess, 6.0 * log_likelihoods(block, *sides), rtol=1e-9)
    assert (log_inactivity(source, *sides, floor=-1e9, should_stop=lambda: True) == -np.inf).all()
    np.testing.assert_allclose(log_likelihoods(source, *sides, lambda: False), log_likelihoods(source, *sides))


def on_a_line(rng, n_rows=400, location=(0.0, 0.0)):
    """Rows, and a network of one expert a side whose two distributions lie about the same value."""
    X = rng.normal(size=(n_rows, 2))
    line = np.array([[-2.0, 1.5, -1.0]])
    times = np.array([3.0])
    sides = (
        Side(line + times * np.array([-location[0], 0, 0]), np.ones(1), times),
        Side(np.array([[-2.0, -1.5, 1.0]]) + times * np.array([location[1], 0, 0]), np.ones(1), times),
    )
    return X, (Layer(sides),)


def distribution(layers, X):
    return StandardDistribution(side_arrays(layers[-1], X))


def test_a_factor_makes_distributions_narrower_about_their_medians(rng):
    X, layers = on_a_line(rng, location=(0.3, -0.2))
    rows = LabelledRows(X, np.zeros((len(X), 2)))
    narrower = sharpened(layers, 1.7, rows)
    away = np.linspace(-0.8, 0.8, 9) * np.ones((len(X), 1))
    for old, new in zip(side_arrays(layers[0], X), side_arrays(narrower[0], X), strict=True):
        # of one expert H(u) = ln 2 where s(z) = ln 2, that is z = 0
        median = -old.distances / old.time_coefs
        np.testing.assert_allclose(rates(new, median + away / 1.7)[0], rates(old, median + away)[0], rtol=1e-8)


@pytest.mark.parametrize("known", ["values", "intervals"])
def test_rows_kept_back_say_how_wide_distributions_are(known, rng):
    X, layers = on_a_line(rng, n_rows=3000)
    u = distribution(layers, X).ppf(rng.uniform(size=(len(X), 1)))
    bounds = np.hstack([u, u]) if known == "values" else np.floor(4 * u) / 4 + [0.0, 0.25]
    rows = LabelledRows(X, bounds)
    folds = np.arange(len(X)) % 2
    for factor in (0.6, 1.0, 1.5):
        wrong = sharpened(layers, factor, rows)
        # the standard error of the logarithm of a scale is about 1/√(2n), here 0.013
        assert best_factor([wrong, wrong], rows, folds, OnALine(), Run(seed=0)) == pytest.approx(1 / factor, rel=0.08)


def test_scores_of_intervals_are_least_for_the_true_quantiles(rng):
    X, layers = on_a_line(rng, n_rows=3000)
    u = distribution(layers, X).ppf(rng.uniform(size=(len(X), 1)))
    rows = LabelledRows(X, np.hstack([u, u]))
    scores = {factor: interval_scores(rows)(sharpened(layers, factor, rows)).sum() for factor in (0.8, 1.0, 1.25)}
    assert min(scores, key=scores.get) == 1.0
    twice = interval_scores(LabelledRows(X, np.hstack([u, u]), np.full(len(X), 2.0)))(layers)
    assert twice.sum() == pytest.approx(2.0 * scores[1.0])


def test_an_average_of_networks_that_differ_is_narrower_by_what_it_gains(rng):
    shift = 0.2
    X, layers = on_a_line(rng)
    _, low = on_a_line(rng, location=(-shift, -shift))
    _, high = on_a_line(rng, location=(shift, shift))
    rows, folds = LabelledRows(X, np.zeros((len(X), 2))), np.arange(len(X)) % 2
    quantiles = distribution(layers, X).ppf(np.tile([0.16, 0.84], (len(X), 1)))
    width = np.diff(quantiles, axis=1)[0, 0] / 2
    # two predictions that differ by 2d have variance 2d², and their mean errs by d² less
    assert factor_of_average([low, high], rows, folds) == pytest.approx(1 / np.sqrt(1 - shift**2 / width**2))
    assert factor_of_average([layers, layers], rows, folds) == 1.0
    assert factor_of_average([layers], rows, folds) == 1.0


def logistic(rng, n_rows):
    """Rows, and a network of one expert a side: with r = 1, P(a side says yes) has the log-odds x'β."""
    X = rng.normal(size=(n_rows, 2))
    line = np.array([[0.4, 1.5, -1.0]])
    return X, (Layer((Side(-line, np.ones(1)), Side(line, np.ones(1)))),)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_factor_multiplies_log_odds_and_sides_say_yes_as_often(weighted, rng):
    X, layers = logistic(rng, 400)
    weights = rng.uniform(0.5, 2.0, size=400) if weighted else None
    surer = sharpened(layers, 1.7, LabelledRows(X, np.zeros(400, int), weights))
    for old, new in zip(layers[0].sides, surer[0].sides, strict=True):
        shift = new.hyperplanes - 1.7 * old.hyperplanes
        np.testing.assert_allclose(shift[:, 1:], 0.0, atol=1e-12)
        before, after = (np.average(-np.expm1(-side.rate(X)), weights=weights) for side in (old, new))
        assert after == pytest.approx(before, abs=1e-9)
    assert sharpened(layers, 1.0, LabelledRows(X, np.zeros(400, int)))[0].sides[0].hyperplanes == pytest.approx(
        layers[0].sides[0].hyperplanes, abs=1e-9
    )


def test_a_side_that_always_says_yes_is_not_shifted(rng):
    X = rng.normal(size=(30, 2))
    side = Side(np.array([[60.0, 0.0, 1.0]]), np.ones(1))
    surer = sharpened((Layer((side, side)),), 2.0, LabelledRows(X, np.zeros(30, int)))
    np.testing.assert_array_equal(surer[0].sides[0].hyperplanes, 2.0 * side.hyperplanes)


def test_rows_kept_back_say_how_sure_probabilities_are_and_few_say_little(rng):
    X, layers = logistic(rng, 6000)
    y = (rng.uniform(size=6000) < RESPONSE.prediction(layers[0], X)[:, 1]).astype(int)
    rows, folds = LabelledRows(X, y), np.arange(6000) % 2
    for factor in (0.6, 1.5):
        wrong = sharpened(layers, factor, rows)
        # the standard error of the logarithm of the scale of log-odds is about 0.03 here
        assert best_factor([wrong, wrong], rows, folds, RESPONSE, Run(seed=0)) == pytest.approx(1 / factor, rel=0.15)
    few = rows.take(np.arange(10))
    wrong = sharpened(layers, 0.2, rows)
    assert 1.0 < best_factor([wrong, wrong], few, folds[:10], RESPONSE, Run(seed=0)) < 2.0


def test_the_last_training_of_few_rows_has_other_penalties_in_every_fold(rng, monkeypatch):
    seen = {}

    def watched(trainee, layers, history):
        seen[trainee.number] = history[-1].penalty
        return smaller(trainee, layers, history)

    monkeypatch.setattr("pbdn.growth.committee.smaller", watched)
    found = fitted(model(), *half_planes(rng))
    best = [trial for trial in found.trials_ if trial["kept"]][-1]["penalty"]
    assert [seen[f] / best for f in range(5)] == pytest.approx(PENALTY_OF_FOLD)


@pytest.mark.parametrize("factor", [1.0, 0.01])
def test_smaller_networks_are_taken_unless_rows_kept_back_are_clearly_less_likely(factor, rng, monkeypatch):
    """Networks that are hardly sure of anything stand for those that were harmed."""
    X, y = half_planes(rng)
    harmed = []

    def smaller_ones(trainee, layers, history):
        harmed.append(sharpened(layers, factor, trainee.rows))
        return harmed[-1]

    monkeypatch.setattr("pbdn.growth.committee.smaller", smaller_ones)
    averaged = []
    real = committee._trimmed
    monkeypatch.setattr(committee, "_trimmed", lambda stacks, *more: averaged.extend(stacks) or real(stacks, *more))
    fitted(model(), X, y)
    assert [any(one is other for other in harmed) for one in averaged] == [factor == 1.0] * 5


def test_networks_count_the_rows_of_each_class(rng):
    X, y = half_planes(rng, 120)
    np.testing.assert_array_equal(fitted(model(), X, y).network_.class_rows, np.bincount(y))
    twice = fitted(model(), X, y, sample_weight=np.full(120, 2.0))
    np.testing.assert_array_equal(twice.network_.class_rows, 2.0 * np.bincount(y))
    weights = rng.uniform(0.5, 2.0, size=120)
    found = fitted(model(), X, y, sample_weight=weights).network_.class_rows
    np.testing.assert_allclose(found, np.bincount(y, weights))
    alone = fitted(model(n_members=1), X, y).network_
    assert alone.has_folds
    np.testing.assert_array_equal(alone.class_rows, np.bincount(y))


def test_networks_of_copied_rows_grow_without_noise_and_may_get_some(rng):
    cells = rng.normal(size=(6, 2))
    X = cells[rng.integers(6, size=120)]
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(int)
    copied, different = fitted(model(), X, y).trials_, fitted(model(), X + 0.1 * rng.normal(size=X.shape), y).trials_
    assert copied[0]["noise"] == 0.0 < different[0]["noise"]
    assert max(trial["noise"] for trial in copied) > 0.0


def test_rows_are_copies_where_few_differ(rng):
    X = rng.normal(size=(50, 3))
    assert not mostly_copies(X)
    assert not mostly_copies(np.repeat(X, 2, axis=0))
    assert mostly_copies(np.repeat(X, 3, axis=0))


def test_copies_of_a_row_are_in_one_fold_and_do_not_flatter_large_networks(rng):
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=120) > 0).astype(int)
    X_new = rng.normal(size=(2000, 3))
    y_new = (X_new[:, 0] + 0.5 * rng.normal(size=2000) > 0).astype(int)
    once, twice = (
        fitted(PBDNClassifier(random_state=0), X, y, sample_weight=np.full(120, weight)) for weight in (1.0, 2.0)
    )
    assert log_loss(y_new, twice.predict_proba(X_new)) < 1.2 * log_loss(y_new, once.predict_proba(X_new))
    copied = LabelledRows(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    folds = deal_into_folds(copied, RESPONSE).reshape(-1, 2)
    np.testing.assert_array_equal(folds[:, 0], folds[:, 1])
    np.testing.assert_array_equal(folds[:, 0], folds_of_rows(y))
    np.testing.assert_array_equal(deal_into_folds(LabelledRows(X, y), RESPONSE), folds_of_rows(y))


def test_a_class_of_few_kinds_of_rows_has_rows_in_every_fold(rng):
    """Three kinds of rows, each of which is always of the same class."""
    tip = rng.integers(3, size=150)
    X, y = np.eye(3)[tip], (tip == 1).astype(int)
    rows = LabelledRows(X, y)
    assert set(deal_into_folds(rows, RESPONSE)) == set(range(N_FOLDS))
    twice = LabelledRows(np.repeat(X[:6], 2, axis=0), np.repeat(y[:6], 2))
    assert RARE in deal_into_folds(twice, RESPONSE)  # few rows, given twice: a class of copies has none to spare
    model = PBDNClassifier(random_state=0).fit(X, y)
    assert log_loss(y, model.predict_proba(X)) < 0.03
    assert model.depth_ == 1


def test_rows_that_are_told_apart_need_no_other_layer(rng, monkeypatch):
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0.0).astype(int)
    X[:, 0] += 2.0 * y
    assert PBDNClassifier(random_state=0).fit(X, y).depth_ == 1
    monkeypatch.setattr(search_module, "GOOD_ENOUGH", 0.0)
    deep = PBDNClassifier(random_state=0, max_depth=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DepthLimitWarning)
        deep.fit(X, y)
    assert len(deep.criterion_path_) == 2  # one more would be tried


def test_rows_of_few_features_that_look_the_same_are_no_copies(rng):
    X, y = rng.integers(0, 3, size=(200, 1)).astype(float), rng.integers(0, 2, size=200)
    np.testing.assert_array_equal(deal_into_folds(LabelledRows(X, y), RESPONSE), folds_of_rows(y))
