"""Pairs of sides: pooling, labels of sides, targets, and the objective of sides against a class."""

import numpy as np
import pytest

from pbdn.data.source import ArraySource
from pbdn.inspection.subtypes import side_labels
from pbdn.model.network import Layer, Network, Side
from pbdn.model.pooling import common_factor, pool_pairs, pool_sides
from pbdn.sgd.activity import log_inactivity, log_likelihoods
from pbdn.sgd.config import MapConfig
from pbdn.sgd.objective import loss_and_gradient, positive_codes
from sgd.conftest import Problem


def test_two_pairs_are_the_papers_rule(rng):
    """With two classes the side against one is the side of the other."""
    rate = rng.gamma(1.0, size=(200, 2))
    both = np.concatenate([rate, rate[:, ::-1]], axis=1)
    np.testing.assert_allclose(pool_pairs(both), pool_sides(-np.expm1(-rate)), atol=1e-15)


@pytest.mark.parametrize("n_classes", [3, 10, 1000])
def test_a_distribution_that_keeps_the_order(rng, n_classes):
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


def test_codes_and_labels():
    assert positive_codes(6, complements=True).tolist() == [0, 1, 2, -1, -2, -3]
    side = Side(np.zeros((1, 2)), np.ones(1))
    network = Network((Layer((side,) * 6),), 1, complements=True)
    assert network.n_classes == 3
    assert side_labels(network, ["a", "b", "c"]) == ["a", "b", "c", "not a", "not b", "not c"]


def halves(rng, n_rows=60, n_inputs=4, n_classes=3, width=2):
    """A problem of six sides, and the six problems of one side on their own labels."""
    inputs, codes = rng.normal(size=(n_rows, n_inputs)), rng.integers(0, n_classes, n_rows)
    starts = np.arange(2 * n_classes + 1, dtype=np.int64) * width
    problem = Problem(inputs, codes, rng.gamma(2.0, size=n_rows), rng.normal(size=(n_inputs + 2, starts[-1])), starts)
    labels = [codes == s for s in range(n_classes)] + [codes != s for s in range(n_classes)]
    return problem, labels


def test_a_side_against_a_class_is_a_side_on_flipped_labels(rng):
    p, labels = halves(rng)
    config = MapConfig(shrinkage="student_t", coef_shape=0.5, coef_rate=1.0)
    value, gradient = loss_and_gradient(p.inputs, p.codes, p.weights, p.parameters, p.starts, config, complements=True)
    source = ArraySource(p.inputs, p.codes, classes=range(3), weights=p.weights)
    positive = positive_codes(6, complements=True)
    likelihood = log_likelihoods(source, p.parameters, p.starts, positive)
    inactive = log_inactivity(source, p.parameters, p.starts, positive)
    total = 0.0
    for s, label in enumerate(labels):
        part = np.ascontiguousarray(p.parameters[:, 2 * s : 2 * s + 2])
        one, slope = loss_and_gradient(p.inputs, label.astype(int), p.weights, part, np.array([0, 2]), config)
        own = ArraySource(p.inputs, label.astype(int), classes=range(2), weights=p.weights)
        total += one
        np.testing.assert_allclose(gradient[:, 2 * s : 2 * s + 2], slope, rtol=1e-12)
        np.testing.assert_allclose(likelihood[s], log_likelihoods(own, part, np.array([0, 2]))[0], rtol=1e-12)
        np.testing.assert_allclose(inactive[2 * s : 2 * s + 2], log_inactivity(own, part, np.array([0, 2])), rtol=1e-9)
    np.testing.assert_allclose(value, total, rtol=1e-12)
