"""What is said of curved experts is true of the rows that they vote for."""

import numpy as np
import pytest

from fitted import with_network
from networks import random_curve, random_network
from pbdn.inspection.access import input_names
from pbdn.inspection.bends import MOST, bends
from pbdn.inspection.rules import subtype_rules
from pbdn.inspection.subtypes import inputs_of_layer, votes
from pbdn.model.curve import Curve
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import OneSide


def one_expert(plane, curve, n_features=2, weight=5.0):
    """A lone expert: bias, slopes, squares."""
    return Network((Layer((Side(np.array([plane]), np.array([weight])),)),), n_features, OneSide(), curve)


def found(network, rows):
    return bends(network, 1, network.top.sides[0], network.expand(rows), rows)[0]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_vertex_and_the_distances(rng, sign):
    """sign · (x + 12 ((x - 1)/2)²) turns at 1 - 1/6, by the derivative and on a grid."""
    curve = Curve(np.array([1]), np.array([1.0]), np.array([2.0]))
    network = one_expert([0.0, 0.0, sign, 12.0 * sign], curve)
    rows = rng.normal(size=(900, 2)) * 3.0
    assert list(found(network, rows)) == [1]
    bend = found(network, rows)[1]
    assert bend.near == (sign < 0)
    assert bend.vertex == pytest.approx(1.0 - 1.0 / 6.0)
    grid = np.linspace(-3.0, 3.0, 6001)
    line = network.expand(np.column_stack([np.zeros(6001), grid])) @ network.top.sides[0].hyperplanes[0, 1:]
    assert grid[np.argmax(-sign * line)] == pytest.approx(bend.vertex, abs=1e-3)
    cast = votes(network.top.sides[0], network.expand(rows))[:, 0]
    within = np.abs(rows[:, 1] - bend.vertex) <= bend.distance
    told = cast[within].sum() if bend.near else cast[~within].sum()
    assert told / cast.sum() == pytest.approx(MOST, abs=0.02)
    assert (bend.distance < bend.usual) == bend.near
    assert np.sign(bend.step) == sign


def test_the_words(rng):
    rows = np.column_stack([rng.normal(size=500), 1990.0 + 20.0 * rng.normal(size=500)])
    curve = Curve(np.array([0, 1]), np.array([0.2, 1987.0]), np.ones(2))
    near = one_expert([4.0, 0.0, 0.0, -8.0, 0.0], curve)
    rule = subtype_rules(with_network(near, ["size", "year"]), rows)[0]
    assert rule["rule"].startswith("size mostly within 0.")
    assert " of 0.2 (usually within " in rule["rule"]
    assert rule["features"] == ["size"]
    far = one_expert([-4.0, 0.0, 0.0, 0.0, 0.02], curve)
    rule = subtype_rules(with_network(far, ["size", "year"]), rows)[0]
    assert rule["rule"].startswith("year mostly more than ")
    assert " from 1987 (usually more than " in rule["rule"]


def test_what_is_not_told(rng):
    rows = rng.normal(size=(500, 2))
    curve = Curve(np.array([0, 1]), np.zeros(2), np.ones(2))
    assert found(one_expert([0.0, 1.0, 2.0], None), rows) == {}  # flat
    assert found(one_expert([0.0, 8.0, 0.0, -1.0, 0.0], curve), rows) == {}  # turns at 4, where no row is
    assert list(found(one_expert([2.0, 0.0, 0.0, -4.0, -0.01], curve), rows)) == [0]  # the second square does little
    assert found(one_expert([-1e9, 0.0, 0.0, -4.0, 0.0], curve), rows) == {}  # never votes
    assert found(one_expert([2.0, 0.0, 0.0, -4.0, 0.0], curve), rows[:0]) == {}


def test_layers_above_speak_of_the_squares_that_they_see(rng):
    """Layers 1 and 2 see the features, layer 3 does not; every expert gets its rule."""
    rows = rng.normal(size=(200, 4))
    network = random_network(rng, ((3, 2), (2, 2), (2, 1)), curve=random_curve(rng, 4, 3), total_spread=1.0)
    for t, (layer, inputs) in enumerate(zip(network.layers, network.layer_inputs(rows), strict=True), 1):
        told = [bends(network, t, side, inputs, rows) for side in layer.sides]
        assert [len(experts) for experts in told] == list(layer.n_experts)
        assert t < 3 or not any(any(experts) for experts in told)
    assert len(subtype_rules(with_network(network), rows)) == sum(network.n_units)


def test_squares_are_named_after_the_features(rng):
    network = random_network(rng, ((2, 1), (1, 1), (1, 2)), 3, curve=Curve(np.array([0, 2]), np.zeros(2), np.ones(2)))
    units = ["layer1_for_no_expert0", "layer1_for_no_expert1", "layer1_for_yes_expert0"]
    classes = np.array(["no", "yes"])
    first = ["a", "b", "c", "a²", "c²"]
    assert input_names(with_network(network, ["a", "b", "c"])) == first
    assert inputs_of_layer(network, classes, 1, first) == first
    assert inputs_of_layer(network, classes, 2, first) == [*first, *units]
    assert inputs_of_layer(network, classes, 3, first) == [*units, "layer2_for_no_expert0", "layer2_for_yes_expert0"]
    for layer, width in enumerate(network.n_inputs, 1):
        assert len(inputs_of_layer(network, classes, layer, first)) == width - 1
