"""What networks see: tails, squares, ramps, the span of wide rows, and features penalised by what they say."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import log_loss

from folds import RESPONSE, config_of, fitted, half_planes, model, rings, trainee_of
from networks import random_network, random_ramps, split_ramps
from pbdn import PBDNClassifier
from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth import views
from pbdn.growth.search import Step
from pbdn.growth.views import (
    LEAST_RELEVANCE,
    RowSpan,
    make_views,
    marginal_effects,
    relevance_stretch,
    stretched,
    without_unused_ramps,
)
from pbdn.model.network import Layer, Network, Side, with_other_inputs
from pbdn.model.wiring import ramps_of
from pbdn.sgd.joint_gradient import objective_gradient
from pbdn.sgd.joint_training import Noise, Packed, neighbour_noise


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
