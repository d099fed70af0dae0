"""What the classes mean: labelling, pooling, responses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from networks import random_network
from pbdn.errors import InvalidInputError
from pbdn.model import pooling
from pbdn.model.labelling import SECOND_CLASS, for_and_against_each_class, for_each_class, says_yes
from pbdn.model.pooling import common_factor, pool_one, pool_pairs, pool_two
from pbdn.model.response import (
    RESPONSES,
    SMALLEST_PROBABILITY,
    OneSide,
    SeveralClasses,
    TwoClasses,
    response_for_classes,
    response_of_kind,
)

CODES = np.array([0, 1, 2, 1, 0])
LABELLINGS = {
    "a lone side": (
        SECOND_CLASS,
        [1],
        ["b"],
        [[0], [1], [0], [1], [0]],
    ),
    "a side for each": (
        for_each_class(3),
        [0, 1, 2],
        ["a", "b", "c"],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]],
    ),
    "a side for and a side against each": (
        for_and_against_each_class(3),
        [0, 1, 2, -1, -2, -3],
        ["a", "b", "c", "not a", "not b", "not c"],
        [[1, 0, 0, 0, 1, 1], [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 1, 0], [0, 1, 0, 1, 0, 1], [1, 0, 0, 0, 1, 1]],
    ),
}
PROBABILITY = st.floats(0, 1, exclude_max=True)
CLASSES = [OneSide(), TwoClasses(), SeveralClasses(2), SeveralClasses(3), SeveralClasses(10)]


# What the sides of a layer stand for.


@pytest.mark.parametrize(("labelling", "positive", "names", "targets"), LABELLINGS.values(), ids=LABELLINGS)
def test_sides_names_and_targets(labelling, positive, names, targets):
    assert labelling.n_sides == len(positive)
    assert labelling.positive.tolist() == positive
    assert labelling.positive.dtype == np.int64
    assert labelling.names(["a", "b", "c"]) == names
    yes = labelling.targets(CODES)
    assert yes.dtype == bool
    np.testing.assert_array_equal(yes, np.array(targets, bool))
    for column, side in zip(yes.T, positive, strict=True):
        np.testing.assert_array_equal(says_yes(CODES, side), column)


def test_two_classes_are_the_labels_and_their_flip():
    yes = for_each_class(2).targets(np.array([0, 1, 1, 0]))
    np.testing.assert_array_equal(yes[:, 1], [False, True, True, False])
    np.testing.assert_array_equal(yes[:, 0], ~yes[:, 1])


def test_a_side_against_a_class_is_the_flip_of_the_side_for_it():
    yes = for_and_against_each_class(3).targets(CODES)
    np.testing.assert_array_equal(yes[:, 3:], ~yes[:, :3])


def test_names_keep_labels_that_are_no_words():
    assert for_and_against_each_class(2).names([10, 20]) == [10, 20, "not 10", "not 20"]


@pytest.mark.parametrize(("labelling", "positive", "names", "targets"), LABELLINGS.values(), ids=LABELLINGS)
def test_no_rows_have_no_targets(labelling, positive, names, targets):
    assert labelling.targets(CODES[:0]).shape == (0, len(positive))


# Pooling the answers of one side, of a side and its flip, and of pairs of sides.


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


# From the rates of the sides to predictions: one side, the paper's pair, several classes.


class Rates:
    """A layer that has only rates."""

    def __init__(self, rates):
        self.rates = rates

    def side_rate(self, inputs):
        return self.rates[inputs]


@pytest.mark.parametrize("response", CLASSES, ids=str)
def test_probabilities_sum_to_one(rng, response):
    n_sides = response.labelling.n_sides
    rates = rng.gamma(0.5, size=(500, n_sides)) * 10.0 ** rng.integers(-8, 3, size=(500, 1))
    rows = np.arange(500)
    predicted = response.prediction(Rates(rates), rows)
    assert predicted.shape == (500, response.n_outputs)
    assert (predicted >= 0).all()
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(predicted, response.pool(rates))
    np.testing.assert_array_equal(response.pool(rates.reshape(5, 100, n_sides)).reshape(500, -1), predicted)


def test_a_prediction_is_pooled_from_the_rates_of_a_layer(rng):
    for experts in (((3,),), ((3, 2),), ((1, 2, 1, 2, 1, 3),)):
        network = random_network(rng, experts)
        X = rng.normal(size=(20, 4))
        layer, response = network.layers[0], network.response
        np.testing.assert_array_equal(response.prediction(layer, X), response.pool(layer.side_rate(X)))


def test_two_classes_are_the_papers_average(rng):
    """½[(1 - e^{-λ*}) + e^{-λ}]."""
    rates = rng.gamma(0.7, size=(500, 2)) * 10.0 ** rng.integers(-6, 2, size=(500, 1))
    second = 0.5 * ((1.0 - np.exp(-rates[:, 1])) + np.exp(-rates[:, 0]))
    np.testing.assert_allclose(TwoClasses().pool(rates), np.column_stack([1.0 - second, second]), rtol=0, atol=1e-15)


def test_several_classes_agree_with_two(rng):
    """With two classes the side against one is the side of the other."""
    rates = rng.gamma(0.7, size=(500, 2)) * 10.0 ** rng.integers(-6, 2, size=(500, 1))
    both = np.concatenate([rates, rates[:, ::-1]], axis=1)
    np.testing.assert_allclose(SeveralClasses(2).pool(both), TwoClasses().pool(rates), rtol=0, atol=1e-12)


def test_one_side_is_a_bernoulli(rng):
    """P(second class) = 1 - e^{-λ}, to full relative accuracy where it is tiny."""
    assert OneSide().pool(np.array([[0.0], [np.log(2.0)], [800.0]])).tolist() == [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    rates = 10.0 ** rng.uniform(-300, 2, size=(500, 1))
    np.testing.assert_allclose(OneSide().pool(rates)[:, 1], -np.expm1(-rates[:, 0]), rtol=1e-15)


def test_labellings():
    assert OneSide().labelling == SECOND_CLASS
    assert TwoClasses().labelling == for_each_class(2)
    assert SeveralClasses(4).labelling == for_and_against_each_class(4)


@pytest.mark.parametrize("response", CLASSES, ids=str)
def test_deviance_is_minus_twice_the_log_of_the_rows_own_class(rng, response):
    n = response.n_outputs
    predicted = rng.dirichlet(np.ones(n), size=50)
    codes = rng.integers(0, n, 50)
    expected = [-2.0 * np.log(p[code]) for p, code in zip(predicted, codes, strict=True)]
    np.testing.assert_allclose(response.deviance(predicted, codes), expected, rtol=1e-13)
    assert response.deviance(predicted[:0], codes[:0]).shape == (0,)


def test_one_impossible_row_does_not_decide_everything():
    predicted = np.array([[1.0, 0.0], [1.0, 0.0]])
    deviance = TwoClasses().deviance(predicted, np.array([0, 1]))
    np.testing.assert_allclose(deviance, [0.0, -2.0 * np.log(SMALLEST_PROBABILITY)], rtol=1e-15)


def test_the_response_of_a_classifier():
    assert response_for_classes(1) == response_for_classes(2) == TwoClasses()
    assert [response_for_classes(n) for n in (3, 10)] == [SeveralClasses(3), SeveralClasses(10)]
    assert SeveralClasses(2) != TwoClasses()


@pytest.mark.parametrize("response", CLASSES, ids=str)
def test_a_kind_leads_back_to_its_response(response):
    found = response_of_kind(response.kind, response.n_outputs)
    assert found == response
    assert type(found) is type(response)


@pytest.mark.parametrize("kind", ["three_classes", "", None, 2, ["two_classes"], {"two_classes": 1}])
def test_unknown_kinds_are_refused(kind):
    with pytest.raises(InvalidInputError, match="is not one of one_side, two_classes, several_classes"):
        response_of_kind(kind, 2)


@pytest.mark.parametrize(("kind", "n_outputs"), [("one_side", 3), ("two_classes", 1), ("two_classes", 3)])
def test_wrong_numbers_of_classes_are_refused(kind, n_outputs):
    with pytest.raises(InvalidInputError, match=f"cannot tell {n_outputs} classes apart"):
        response_of_kind(kind, n_outputs)
    with pytest.raises(InvalidInputError, match="SeveralClasses cannot tell 1 classes apart"):
        SeveralClasses(1)


def test_every_kind_has_one_name():
    assert all(make(2).kind == kind for kind, make in RESPONSES.items())


@pytest.mark.parametrize("n_classes", [3, 10, 300])
@pytest.mark.parametrize("kind", ["usual", "far", "certain"])
def test_a_compiled_pass_pools_as_numpy_does(rng, monkeypatch, n_classes, kind):
    """Rows of every kind, the last tile not full; one with an unknown rate stays unknown."""
    shape = (130, 2 * n_classes)
    rate = rng.gamma(0.3, size=shape) * (1.0 if kind == "usual" else 10.0 ** rng.integers(-8, 4, size=(130, 1)))
    if kind == "certain":
        rate = np.where(rng.random(shape) < 0.3, 0.0, np.where(rng.random(shape) < 0.3, np.inf, rate))
    rate[7, 1] = np.nan
    monkeypatch.setattr(pooling, "FEWEST_NUMBERS", np.inf)
    expected = pool_pairs(rate)
    monkeypatch.setattr(pooling, "FEWEST_NUMBERS", 0)
    pooled = pool_pairs(np.asfortranarray(rate))
    assert np.isnan(pooled[7]).all()
    np.testing.assert_allclose(pooled, expected, rtol=1e-13, atol=1e-300)
    np.testing.assert_array_equal(pool_pairs(rate.reshape(2, 65, -1)).reshape(130, -1), pooled)
