"""Random-order stick-breaking against enumeration of all orders."""

from itertools import permutations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbdn.model import pooling
from pbdn.model.pooling import n_nodes, pool_sides


def enumerated(p):
    """Ask the sides in every order; the first "yes" wins, the last side gets what is left."""
    total, orders = np.zeros(len(p)), list(permutations(range(len(p))))
    for order in orders:
        left = 1.0
        for s in order[:-1]:
            total[s] += left * p[s]
            left *= 1 - p[s]
        total[order[-1]] += left
    return total / len(orders)


@pytest.mark.parametrize("n_sides", [2, 3, 4, 5, 6])
def test_all_orders(rng, n_sides):
    for scale in (1.0, 0.1, 8.0):
        p = rng.random((20, n_sides)) ** scale
        expected = np.array([enumerated(row) for row in p])
        assert np.abs(pool_sides(p) - expected).max() < 1e-14


def test_two_sides_give_the_papers_average(rng):
    """½[(1 - e^{-λ*}) + e^{-λ}], bit for bit, columns in the order of the sides."""
    p = rng.random((500, 2))
    pooled = pool_sides(p)
    second = 0.5 * (p[:, 1] + (1.0 - p[:, 0]))
    assert np.array_equal(pooled[:, 1], second)
    assert np.array_equal(pooled[:, 0], 1.0 - second)


def test_one_side_is_bernoulli():
    assert pool_sides(np.array([[0.25]])).tolist() == [[0.75, 0.25]]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_a_distribution_that_keeps_the_order(p):
    p = np.array(p)
    pooled = pool_sides(p)
    assert np.isfinite(pooled).all()
    assert (pooled >= 0).all()
    assert abs(pooled.sum() - 1) < 1e-12
    order = np.argsort(p, kind="stable")
    assert (np.diff(pooled[order]) >= -1e-12).all()


@pytest.mark.parametrize("n_sides", [3, 10])
@pytest.mark.parametrize("value", [0.0, 1.0, 1e-300])
def test_ties_share_evenly(n_sides, value):
    assert np.allclose(pool_sides(np.full(n_sides, value)), 1 / n_sides, rtol=1e-13)


@pytest.mark.parametrize("n_sides", [96, 97, 150, 300])
@pytest.mark.parametrize("level", [0.01, 0.5, 1.0])
def test_many_sides(rng, n_sides, level):
    """Beyond 96 sides the quadrature is no longer exact on paper; it still is to 1e-12."""
    p = level * rng.random(n_sides)
    p[0] = level
    with mp.workdps(120):
        values = [mp.mpf(float(v)) for v in p]
        poly = [mp.mpf(1)]  # coefficients of ∏ (1 - t p_j)
        for v in values:
            poly = [a - b * v for a, b in zip([*poly, mp.mpf(0)], [mp.mpf(0), *poly], strict=True)]
        rest = mp.fprod(1 - v for v in values) / n_sides
        for s in (0, 1, n_sides - 1):
            quotient, carry = [], mp.mpf(0)  # divide by (1 - t p_s), from the constant upward
            for coefficient in poly[:-1]:
                carry = coefficient + values[s] * carry
                quotient.append(carry)
            exact = values[s] * mp.fsum(c / (j + 1) for j, c in enumerate(quotient)) + rest
            assert abs(pool_sides(p)[s] - float(exact)) < 1e-12


@pytest.mark.parametrize("n_sides", [97, 300, 1000, 3000])
def test_nodes_keep_the_proven_bound(n_sides):
    """(32/15) cosh(h/2)^{2(S-1)} e^{-2nh} / (1 - e^{-2h}) < 1e-14 for some h, with far fewer nodes than S/2."""
    h = np.linspace(0.01, 6.0, 2000)
    n = n_nodes(n_sides)
    log_bound = np.log(32 / 15) + 2 * (n_sides - 1) * np.log(np.cosh(h / 2)) - 2 * n * h - np.log1p(-np.exp(-2 * h))
    assert log_bound.min() < np.log(1e-14)
    assert n <= max(48, 3 * np.sqrt(n_sides) + 1)


@pytest.mark.parametrize("level", [1e-3, 0.05, 0.5, 1.0])
def test_a_thousand_sides(rng, monkeypatch, level):
    """Against the exact rule of S/2 nodes."""
    p = level * rng.random((3, 1000)) ** np.array([[0.1], [1.0], [8.0]])
    fast = pool_sides(p)
    monkeypatch.setattr(pooling, "n_nodes", lambda n_sides: (n_sides + 1) // 2)
    assert np.abs(fast - pool_sides(p)).max() < 1e-13
