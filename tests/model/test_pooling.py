"""Pooling the answers of one side, of a side and its flip, and of pairs of sides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbdn.model.pooling import common_factor, pool_one, pool_pairs, pool_two

PROBABILITY = st.floats(0, 1, exclude_max=True)


def rates_of(probabilities):
    return -np.log1p(-np.asarray(probabilities))


def test_two_sides_give_the_papers_average(rng):
    """½[(1 - e^{-λ*}) + e^{-λ}], bit for bit, columns in the order of the sides."""
    rate = rng.gamma(1.0, size=(500, 2))
    p = -np.expm1(-rate)
    pooled = pool_two(rate)
    second = 0.5 * (p[:, 1] + (1.0 - p[:, 0]))
    assert np.array_equal(pooled[:, 1], second)
    assert np.array_equal(pooled[:, 0], 1.0 - second)


def test_one_side_is_bernoulli():
    assert np.allclose(pool_one(rates_of([[0.25]])), [[0.75, 0.25]], rtol=0, atol=1e-16)


@pytest.mark.parametrize("rate", [0.0, 1e-300, 1.0, np.inf])
def test_sides_that_agree_on_nothing_are_a_tie(rate):
    """Two sides of one rate; pairs in which every side has it."""
    assert np.allclose(pool_two(np.full(2, rate)), 0.5, rtol=1e-13)
    for n_classes in (2, 3, 10):
        assert np.allclose(pool_pairs(np.full(2 * n_classes, rate)), 1 / n_classes, rtol=1e-13)


@settings(max_examples=200, deadline=None)
@given(st.tuples(PROBABILITY, PROBABILITY))
def test_two_sides_are_a_distribution_that_keeps_the_order(p):
    pooled = pool_two(rates_of(p))
    assert np.isfinite(pooled).all()
    assert (pooled >= 0).all()
    assert abs(pooled.sum() - 1) < 1e-12
    assert (np.diff(pooled[np.argsort(p, kind="stable")]) >= -1e-12).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(PROBABILITY, PROBABILITY), min_size=2, max_size=40))
def test_pairs_are_a_distribution_that_keeps_the_order(pairs):
    """Of q_s = ½[p_s + (1 - p*_s)]."""
    own, against = np.array(pairs).T
    pooled = pool_pairs(rates_of([*own, *against]))
    assert np.isfinite(pooled).all()
    assert (pooled >= 0).all()
    assert abs(pooled.sum() - 1) < 1e-12
    order = np.argsort(0.5 * (own + (1.0 - against)), kind="stable")
    assert (np.diff(pooled[order]) >= -1e-12).all()


def test_two_pairs_are_the_papers_rule(rng):
    """With two classes the side against one is the side of the other."""
    rate = rng.gamma(1.0, size=(200, 2))
    both = np.concatenate([rate, rate[:, ::-1]], axis=1)
    np.testing.assert_allclose(pool_pairs(both), pool_two(rate), atol=1e-15)


@pytest.mark.parametrize("n_classes", [3, 10, 1000])
def test_many_pairs_are_a_distribution_with_the_likeliest_class_first(rng, n_classes):
    rate = rng.gamma(0.3, size=(50, 2 * n_classes)) * 10.0 ** rng.integers(-8, 4, size=(50, 1))
    pooled = pool_pairs(rate)
    assert (pooled >= 0).all()
    np.testing.assert_allclose(pooled.sum(1), 1.0, rtol=1e-12)
    pair = 0.5 * (-np.expm1(-rate[:, :n_classes]) + np.exp(-rate[:, n_classes:]))
    assert (pooled.argmax(1) == pair.argmax(1)).all()


@pytest.mark.parametrize("n_classes", [2, 3, 10, 300])
def test_one_factor_on_all_odds(rng, n_classes):
    """The odds of the pooled probabilities over those of the pairs are the same for all classes of a row."""
    rate = rng.gamma(0.5, size=(300, 2 * n_classes)) * 10.0 ** rng.uniform(-2, 1, size=(300, 1))
    own, against = rate[:, :n_classes], rate[:, n_classes:]
    log_odds = np.log(np.exp(-against) - np.expm1(-own)) - np.log(np.exp(-own) - np.expm1(-against))
    pooled = pool_pairs(rate)
    rest = pooled.sum(axis=1, keepdims=True) - pooled
    unsure = (pooled < 0.99) & (pooled > 1e-280)  # 1 - π is exact enough
    shift = np.where(unsure, np.log(pooled) - np.log(rest) - log_odds, np.nan)
    assert unsure.any(axis=1).all()
    np.testing.assert_allclose(np.nanmax(shift, axis=1), np.nanmin(shift, axis=1), atol=1e-9)


@pytest.mark.parametrize("n_others", [1, 2, 9, 99, 999])
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0, 30.0, 300.0])
def test_newton_finds_the_factor_to_the_last_digits(rng, n_others, spread):
    """Against bisection, for others that are near, far and mixed."""
    draws = rng.exponential(spread, size=(200, n_others)), np.where(rng.random((200, n_others)) < 0.5, 1e-3, spread)
    for others in (np.exp(-np.minimum(draw, 300.0)) for draw in draws):
        low, high = np.full((200, 1), -10.0), np.full((200, 1), 240.0)  # of ln w
        for _ in range(100):
            middle = 0.5 * (low + high)
            w = np.exp(middle)
            too_small = (w * (1.0 + w) * others / (1.0 + w * others)).sum(axis=1, keepdims=True) < 1.0
            low, high = np.where(too_small, middle, low), np.where(too_small, high, middle)
        np.testing.assert_allclose(np.log(common_factor(others)), low, atol=1e-12)


def test_certain_sides_leave_no_doubt():
    """One class that is sure and two that are not possible; two that are equally sure."""
    sure = np.array([800.0, 0.0, 0.0, 0.0, 800.0, 800.0])
    np.testing.assert_allclose(pool_pairs(sure), [1.0, 0.0, 0.0], atol=1e-75)
    both = np.array([800.0, 800.0, 0.0, 0.0, 0.0, 800.0])
    np.testing.assert_allclose(pool_pairs(both), [0.5, 0.5, 0.0], atol=1e-15)


def test_nobody_at_all_is_a_tie():
    rate = np.concatenate([np.zeros(4), np.full(4, np.inf)])
    assert pool_pairs(rate).tolist() == [0.25] * 4
