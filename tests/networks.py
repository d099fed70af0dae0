"""Random networks with the shapes that fits give."""

import numpy as np

from pbdn.model.committee import committee
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import OneSide, SeveralClasses, TwoClasses
from pbdn.model.wiring import Curve, width_of_inputs


def response_of(n_sides):
    """What layers of so many sides predict in a classifier."""
    if n_sides == 1:
        return OneSide()
    assert n_sides % 2 == 0
    return TwoClasses() if n_sides == 2 else SeveralClasses(n_sides // 2)


def random_side(rng, n_experts, n_inputs, spread=1.0, weight_shape=1.0):
    """A side on ``n_inputs`` inputs, the constant included."""
    return Side(spread * rng.normal(size=(n_experts, n_inputs)), rng.gamma(weight_shape, size=n_experts))


def random_curve(rng, n_features, n_squares=None):
    """Squares of some features (default: all), each around a centre and in a unit of its own."""
    columns = np.sort(rng.permutation(n_features)[:n_squares]).astype(np.int64)
    return Curve(columns, rng.normal(size=columns.size), rng.uniform(0.5, 2.0, size=columns.size))


def random_network(
    rng,
    experts=((3, 2), (2, 4)),
    n_features=4,
    *,
    curve=None,
    response=None,
    n_draws=0,
    total_spread=None,
    weight_shape=1.0,
):
    """``experts[t][s]`` experts on side s of layer t; draws on top, each with its own number of experts.

    Coefficients are standard normal, or have the standard deviation ``total_spread`` over the root of their number.
    """
    widths = [n_features + (0 if curve is None else curve.n_squares), *(sum(counts) for counts in experts)]
    layers = []
    for t, counts in enumerate(experts, 1):
        n_inputs = width_of_inputs(t, widths) + 1
        spread = 1.0 if total_spread is None else total_spread / n_inputs**0.5
        draws = ()
        if t == len(experts):
            draws = tuple(
                tuple(random_side(rng, int(rng.integers(0, 2 * k + 1)), n_inputs, spread, weight_shape) for k in counts)
                for _ in range(n_draws)
            )
        sides = tuple(random_side(rng, k, n_inputs, spread, weight_shape) for k in counts)
        layers.append(Layer(sides, draws))
    return Network(tuple(layers), n_features, response_of(len(experts[0])) if response is None else response, curve)


def random_committee(rng, experts, n_features=4, **options):
    """Several random networks as one; ``experts[m]`` are those of member m. The members are returned too."""
    members = [random_network(rng, counts, n_features, **options) for counts in experts]
    return committee(members), members
