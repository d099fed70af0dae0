"""From the rates of the sides to predictions: one side, the paper's pair, several classes."""

import numpy as np
import pytest

from networks import random_network
from pbdn.errors import InvalidInputError
from pbdn.model.labelling import SECOND_CLASS, for_and_against_each_class, for_each_class
from pbdn.model.response import (
    RESPONSES,
    SMALLEST_PROBABILITY,
    OneSide,
    SeveralClasses,
    TwoClasses,
    response_for_classes,
    response_of_kind,
)

CLASSES = [OneSide(), TwoClasses(), SeveralClasses(2), SeveralClasses(3), SeveralClasses(10)]


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
