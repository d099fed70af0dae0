"""Several networks as one: averaged rates, zeros that cost nothing."""

import numpy as np
import pytest

from networks import random_committee, random_curve, random_network
from pbdn.model.committee import committee

N_FEATURES = 4
WIDTHS = [
    ((2, 3), (1, 2), (4, 1)),
    ((1, 1), (3, 1), (2, 2)),
    ((4, 2), (0, 2), (1, 3)),
]  # per member, per layer, per side
SEVERAL = [((2, 1, 3, 1, 2, 1), (1, 2, 2, 1, 1, 1)), ((1, 1, 1, 2, 1, 2), (2, 1, 0, 1, 3, 1))]


@pytest.mark.parametrize("bent", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_rates_are_averaged(rng, depth, bent):
    curve = random_curve(rng, N_FEATURES, 3) if bent else None
    one, members = random_committee(rng, [w[:depth] for w in WIDTHS], N_FEATURES, curve=curve, total_spread=2.0)
    x = rng.normal(size=(50, N_FEATURES))
    rates = np.mean([net.top.side_rate(net.top_inputs(x)) for net in members], axis=0)
    np.testing.assert_allclose(one.top.side_rate(one.top_inputs(x)), rates, rtol=1e-12)
    np.testing.assert_allclose(one.predict(x), one.response.pool(rates), rtol=1e-12)
    assert one.n_units == tuple(np.sum([net.n_units for net in members], axis=0))
    assert one.curve is curve


def test_three_classes_too(rng):
    one, members = random_committee(rng, SEVERAL, N_FEATURES, total_spread=2.0)
    x = rng.normal(size=(50, N_FEATURES))
    rates = np.mean([net.top.side_rate(net.top_inputs(x)) for net in members], axis=0)
    np.testing.assert_allclose(one.predict(x), one.response.pool(rates), rtol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_zeros_cost_nothing(rng, depth):
    one, members = random_committee(rng, [w[:depth] for w in WIDTHS], N_FEATURES)
    assert one.n_weights == sum(net.n_weights for net in members)
    assert one.complexity == pytest.approx(sum(net.complexity for net in members))


def test_one_member_is_itself(rng):
    alone = random_network(rng)
    assert committee([alone]) is alone
