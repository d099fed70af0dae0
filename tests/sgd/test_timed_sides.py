"""Values on a line: the compiled loss of every kind of statement, its gradient, and the law that it is of."""

import numpy as np
import pytest

from pbdn.model.labelling import BEFORE, EXACT, INTERVAL, NOTHING, flipped, for_each_class, kinds_of
from pbdn.model.network import Layer, Side, climb, inputs_above
from pbdn.model.timed import side_arrays, side_log_likelihood
from pbdn.sgd.joint_training import Packed, network_loss_and_gradient
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.timed_sides import TIME_PRECISION

CONFIG = MapSettings(shrinkage="student_t", coef_shape=1.5, coef_rate=3.0, mass=2.0, inv_scale=0.4)
PAIR = for_each_class(2)
INF = np.inf
KINDS = {
    "exact": (EXACT, lambda u: (u, u)),
    "nothing before": (NOTHING, lambda u: (u, np.full_like(u, INF))),
    "something before": (BEFORE, lambda u: (np.full_like(u, -INF), u)),
    "interval": (INTERVAL, lambda u: (u - 0.4, u + 0.3)),
}


def network(rng, X, depth):
    layers: list[Layer] = []
    for _ in range(depth):
        n_inputs = inputs_above(layers, X).shape[1]
        sides = []
        for k in rng.integers(1, 4, 2):
            planes = 0.5 * rng.normal(size=(k, n_inputs + 1))
            sides.append(Side(planes, rng.gamma(2.0, size=k), rng.gamma(2.0, size=k)))
        layers.append(Layer(tuple(sides)))
    return layers


def case(rng, kind, depth=3, n_rows=150):
    X = rng.normal(size=(n_rows, 3))
    bounds = np.column_stack(KINDS[kind][1](rng.normal(size=n_rows)))
    return X, bounds, rng.gamma(2.0, size=n_rows), network(rng, X, depth)


def own_loss(layers, t, X, bounds, weights):
    """Loss of the sides of layer t on its inputs, without penalties."""
    inputs = list(climb(layers, X))[t]
    sides = side_arrays(layers[t], inputs)
    return -sum(
        weights @ side_log_likelihood(side, b) for side, b in zip(sides, (bounds, flipped(bounds)), strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(rng, kind):
    _, bounds, _, _ = case(rng, kind)
    assert set(kinds_of(bounds)) == {KINDS[kind][0]}
    np.testing.assert_array_equal(flipped(flipped(bounds)), bounds)


@pytest.mark.parametrize("kind", KINDS)
def test_value_is_the_likelihood_of_the_top_layer(rng, kind):
    X, bounds, weights, layers = case(rng, kind)
    value, _ = network_loss_and_gradient(X, bounds, weights, layers, PAIR, CONFIG)
    prior, _ = network_loss_and_gradient(X, bounds, np.zeros(len(X)), layers, PAIR, CONFIG)
    assert value - prior == pytest.approx(own_loss(layers, 2, X, bounds, weights), rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_the_finite_difference(rng, kind):
    """Of the top layer's loss; by ln r and ln τ of a lower layer, of that layer's own."""
    X, bounds, weights, layers = case(rng, kind)
    _, gradients = network_loss_and_gradient(X, bounds, weights, layers, PAIR, CONFIG)
    _, priors = network_loss_and_gradient(X, bounds, np.zeros(len(X)), layers, PAIR, CONFIG)
    packed = Packed.of(layers, X.shape[1], PAIR, CONFIG)
    found = np.concatenate([(g - p).ravel() for g, p in zip(gradients, priors, strict=True)])
    first, n_units = packed.stack.first, packed.stack.n_units
    owner = np.full(packed.parameters.size, 2)
    for t in range(3):
        owner[first[t] : first[t] + n_units[t]] = t
    owner[first[-1] :] = np.repeat(np.arange(3), n_units)

    def loss(j, step):
        moved = packed.parameters.copy()
        moved[j] += step
        return own_loss(packed._replace(parameters=moved).layers(), owner[j], X, bounds, weights)

    expected = np.array([(loss(j, 1e-5) - loss(j, -1e-5)) / 2e-5 for j in range(packed.parameters.size)])
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-5)


def test_prior_of_the_time_coefficients(rng):
    X, bounds, _, layers = case(rng, "exact", depth=1)
    _, (_, by_times) = network_loss_and_gradient(X, bounds, np.zeros(len(X)), layers, PAIR, CONFIG)
    coefs = np.concatenate([side.time_coefs for side in layers[0].sides])
    np.testing.assert_allclose(by_times, TIME_PRECISION * np.log(coefs), rtol=1e-12)
