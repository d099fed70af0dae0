"""Wiring of layers, sizes and costs of a network."""

import numpy as np
import pytest
import scipy.sparse as sp

from pbdn.model.network import Layer, Network, Side
from pbdn.model.pooling import pool_sides

EXPERTS = ((2, 3), (1, 2), (4, 1))  # per layer, per side
N_FEATURES = 5


def widths(skip):
    """Inputs of each layer without the constant."""
    k = [sum(sides) for sides in EXPERTS]
    return {
        "last_two": (N_FEATURES, N_FEATURES + k[0], k[0] + k[1]),
        "none": (N_FEATURES, k[0], k[1]),
        "all": (N_FEATURES, N_FEATURES + k[0], N_FEATURES + k[0] + k[1]),
    }[skip]


def network(rng, skip):
    layers = tuple(
        Layer(tuple(Side(0.5 * rng.standard_normal((k, d + 1)), rng.gamma(1.0, size=k)) for k in sides))
        for sides, d in zip(EXPERTS, widths(skip), strict=True)
    )
    return Network(layers, N_FEATURES, skip)


def by_hand(net, x):
    """Side probabilities of one row at a time, from the formulas."""
    out = []
    for row in x:
        history, units = [row], None
        for t, layer in enumerate(net.layers):
            if t == 0:
                inputs = row
            elif net.skip == "none":
                inputs = units
            elif net.skip == "all":
                inputs = np.concatenate(history)
            else:
                inputs = np.concatenate(history[-2:])
            new = [np.log1p(np.exp(side.hyperplanes @ np.r_[1.0, inputs])) for side in layer.sides]
            last = [1 - np.exp(-(u @ side.expert_weights)) for u, side in zip(new, layer.sides, strict=True)]
            units = np.concatenate(new)
            history.append(units)
        out.append(last)
    return np.array(out)


@pytest.mark.parametrize("skip", ["last_two", "none", "all"])
def test_wiring(rng, skip):
    net, x = network(rng, skip), rng.standard_normal((6, N_FEATURES))
    expected = by_hand(net, x)
    assert np.allclose(net.side_probability(x), expected, rtol=1e-12)
    assert np.allclose(net.side_probability(sp.csr_array(x)), expected, rtol=1e-12)
    assert np.allclose(net.class_probability(x), pool_sides(expected), rtol=1e-12)
    assert [inputs.shape[1] for inputs in net.layer_inputs(x)] == list(widths(skip))


def test_sizes_and_cost(rng):
    """d₁ = V+1, d_t = K_{t-1} + K_t + 1, cost Σ d_t K_{t+1} / (V+1)."""
    net = network(rng, "last_two")
    assert net.depth == 3
    assert net.n_units == (5, 3, 5)
    assert net.n_inputs == (6, 11, 9)
    assert net.complexity == (6 * 5 + 11 * 3 + 9 * 5) / 6
    assert net.n_weights == 6 * 5 + 11 * 3 + 9 * 5 + 5


def test_draws_are_pooled_before_averaging(rng):
    net = network(rng, "last_two")
    other = network(rng, "last_two")
    top = Layer(net.top.sides, (net.top.sides, other.top.sides))
    both = Network((*net.layers[:-1], top), N_FEATURES)
    x = rng.standard_normal((4, N_FEATURES))
    draws = both.class_probability_draws(x)
    assert draws.shape == (2, 4, 2)
    assert np.allclose(draws[0], net.class_probability(x))
    assert np.allclose(draws.sum(-1), 1)


def test_strongest_first(rng):
    side = Side(rng.standard_normal((4, 3)), np.array([0.5, 2.0, 0.1, 1.0]))
    ordered = side.strongest_first()
    assert ordered.expert_weights.tolist() == [2.0, 1.0, 0.5, 0.1]
    x = rng.standard_normal((5, 2))
    assert np.allclose(ordered.rate(x), side.rate(x), rtol=1e-14)


def test_shapes_are_checked(rng):
    with pytest.raises(ValueError, match="same experts"):
        Side(np.zeros((2, 3)), np.zeros(3))


def test_forward_simulation_shares_the_likelihood(rng):
    """The simulator's rate is the network's."""
    from pbdn.model.priors import Hyperpriors
    from pbdn.model.simulate import simulate_parameters, simulate_rate, simulate_target

    p = simulate_parameters(rng, Hyperpriors(3.0, 2.0, 4.0, 3.0, 3.0, 4.0, 3.0), 3, 3, 50)
    x = rng.standard_normal((8, 2))
    rates = simulate_rate(p["hyperplanes"], p["expert_weights"], np.column_stack([np.ones(8), x]))
    assert rates.shape == (50, 8)
    for g in (0, 17):
        assert np.allclose(rates[g], Side(p["hyperplanes"][g], p["expert_weights"][g]).rate(x), rtol=1e-12)
    assert simulate_target(rng, rates).dtype == bool
