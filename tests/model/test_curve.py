"""Curved first layers: squares beside the features, folded scaling, limits."""

import numpy as np
import pytest
import scipy.sparse as sp

from networks import random_curve, random_network
from pbdn.model.curve import Curve, curve_of
from pbdn.model.scaling import Scaling, standard_scaling

N_FEATURES = 5
EXPERTS = ((2, 3), (1, 2), (4, 1))  # per layer, per side


def curved(rng, depth=2, n_squares=3, **options):
    curve = random_curve(rng, N_FEATURES, n_squares)
    return random_network(rng, EXPERTS[:depth], N_FEATURES, curve=curve, total_spread=1.0, **options)


def some_zero(rng, shape):
    return rng.normal(size=shape) * (rng.random(shape) < 0.4)


def test_squares_stand_after_the_features(rng):
    curve = Curve(np.array([0, 3]), np.array([1.0, -2.0]), np.array([2.0, 1.0]))
    x = rng.normal(size=(6, 4))
    assert curve.n_squares == 2
    np.testing.assert_array_equal(
        curve.expand(x), np.column_stack([x, ((x[:, 0] - 1.0) / 2.0) ** 2, (x[:, 3] + 2.0) ** 2])
    )


def test_zeros_of_sparse_features_stay_zero(rng):
    x = some_zero(rng, (50, 4))
    curve = Curve(np.array([1, 2]), np.zeros(2), np.array([0.3, 7.0]))
    expanded = curve.expand(sp.csr_array(x))
    assert expanded.format == "csr"
    assert expanded.nnz == np.count_nonzero(x) + np.count_nonzero(x[:, 1:3])
    np.testing.assert_array_equal(expanded.toarray(), curve.expand(x))


def test_sparse_rows_are_squared_around_the_centres_of_dense_ones(rng):
    x, net = some_zero(rng, (20, N_FEATURES)), curved(rng)
    np.testing.assert_allclose(net.expand(sp.csr_array(x)).toarray(), net.expand(x), rtol=1e-15)
    np.testing.assert_allclose(net.predict(sp.csr_array(x)), net.predict(x), rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_features_of_two_values_have_no_square(rng, form):
    x = np.column_stack(
        [
            rng.normal(size=30),
            np.arange(30) % 2,
            np.full(30, 3.0),
            np.arange(30) % 3,
            np.zeros(30),
            -(np.arange(30) % 2),
        ]
    )
    curve = curve_of(form(x))
    assert curve.columns.tolist() == [0, 3]
    assert curve.columns.dtype == np.int64
    assert not curve.centers.any()
    assert np.all(curve.scales == 1.0)
    assert curve_of(form(x[:, [1, 2, 4]])) is None


def test_a_flat_network_expands_nothing(rng):
    net, x = random_network(rng), rng.normal(size=(3, 4))
    assert net.expand(x) is x
    assert net.n_expanded == net.n_features


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_curved_network_sees_the_squares(rng, depth):
    net, x = curved(rng, depth), rng.normal(size=(6, N_FEATURES))
    expanded = np.column_stack([x, ((x[:, net.curve.columns] - net.curve.centers) / net.curve.scales) ** 2])
    assert net.n_expanded == expanded.shape[1] == N_FEATURES + 3
    seen = [expanded]
    for layer in net.layers:
        inputs = np.concatenate(seen[-2:], axis=1)
        seen.append(
            np.concatenate(
                [np.log1p(np.exp(inputs @ s.hyperplanes[:, 1:].T + s.hyperplanes[:, 0])) for s in layer.sides], axis=1
            )
        )
    split = net.top.n_experts[0]
    rates = [
        seen[-1][:, :split] @ net.top.sides[0].expert_weights,
        seen[-1][:, split:] @ net.top.sides[1].expert_weights,
    ]
    np.testing.assert_allclose(net.side_probability(x), 1.0 - np.exp(-np.column_stack(rates)), rtol=1e-11)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scaling_is_folded_into_features_squares_and_centres(rng, depth):
    net = curved(rng, depth, n_draws=2)
    scaling = Scaling(rng.normal(size=N_FEATURES), rng.gamma(2.0, size=N_FEATURES), quantum=0.0)
    x = scaling.center + scaling.scale * rng.normal(size=(20, N_FEATURES))
    folded = scaling.fold(net)
    np.testing.assert_allclose(folded.predict(x), net.predict(scaling.apply(x)), rtol=1e-10)
    np.testing.assert_allclose(folded.predict_draws(x), net.predict_draws(scaling.apply(x)), rtol=1e-10)
    back = scaling.unfold(folded)
    np.testing.assert_allclose(back.curve.centers, net.curve.centers, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(back.curve.scales, net.curve.scales, rtol=1e-12)
    for ours, theirs in zip(back.layers, net.layers, strict=True):
        for a, b in zip(ours.sides, theirs.sides, strict=True):
            np.testing.assert_allclose(a.hyperplanes, b.hyperplanes, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scaling_of_the_squares_is_folded_too(rng, depth):
    """Training sees standardised squares; the network squares by itself."""
    net, x = curved(rng, depth), rng.normal(size=(20, N_FEATURES))
    squares = net.expand(x)[:, N_FEATURES:]
    scaling = standard_scaling(squares)
    on_scaled = random_network(rng, EXPERTS[:depth], net.n_expanded, total_spread=1.0)
    folded = scaling.fold_squares(type(net)(on_scaled.layers, N_FEATURES, net.response, net.curve))
    given = np.column_stack([x, (squares - scaling.center) / scaling.scale])
    np.testing.assert_allclose(folded.predict(x), on_scaled.predict(given), rtol=1e-10)


def test_features_within_their_limits_do_not_overflow(rng):
    net = curved(rng, 3, n_draws=2)
    limits = net.feature_limits
    assert limits.shape == (N_FEATURES,)
    flat = np.delete(np.arange(N_FEATURES), net.curve.columns)
    assert np.all(limits[net.curve.columns] < 1e101)
    assert np.all(limits[flat] > 1e190)
    with np.errstate(over="raise", invalid="raise"):
        assert np.isfinite(net.predict(np.vstack([limits, -limits]))).all()
        assert np.isfinite(net.predict_draws(np.vstack([limits, -limits]))).all()


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e300])
def test_any_unit_of_measurement(rng, unit):
    """The square of the unit is not a double; nothing is lost, nothing overflows."""
    net, x = curved(rng, 2), rng.normal(size=(20, N_FEATURES))
    scaling = Scaling(np.zeros(N_FEATURES), np.full(N_FEATURES, unit), quantum=0.0)
    with np.errstate(over="raise", invalid="raise"):
        folded = scaling.fold(net)
        np.testing.assert_allclose(folded.predict(unit * x), net.predict(x), rtol=1e-10)
        assert np.all(folded.feature_limits > 1e6 * unit)
        assert np.isfinite(scaling.unfold(folded).predict(x)).all()
