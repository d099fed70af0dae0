"""What a network does not need: experts, coefficients, and networks of an average."""

from dataclasses import replace

import numpy as np
import pytest

from folds import RESPONSE, half_planes, trainee_of
from networks import random_network
from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth import trimming
from pbdn.growth.holdout import losses_on
from pbdn.growth.search import FIRST_PENALTY, Step
from pbdn.growth.trainee import Trainee, without_idle
from pbdn.growth.trimming import (
    ALLOWED,
    ON_A_LINE,
    Limit,
    first_few,
    sensitivities,
    smaller,
    trimmed,
    without_expert,
    without_small,
)
from pbdn.model.network import Layer, Network, Side, inputs_above
from pbdn.model.timed import OnALine
from pbdn.model.wiring import sources_of


@pytest.mark.parametrize(("widths", "kept"), [((20, 20, 20), 3), ((40, 30, 29), 3), ((40, 30, 30), 2), ((120, 10), 1)])
def test_networks_are_averaged_while_they_have_fewer_than_a_hundred_hyperplanes(rng, widths, kept):
    networks = [random_network(rng, ((width - width // 2, width // 2),)) for width in widths]
    assert first_few(networks, ON_A_LINE) == networks[:kept]
    assert kept == 1 or sum(widths[:kept]) <= ON_A_LINE.hyperplanes
    assert first_few(networks, Limit(1, 2)) == networks[:2]


def test_an_expert_taken_out_of_a_stack_is_one_that_says_nothing(rng):
    """As if the expert had no weight and layers above did not look at it."""
    layers = random_network(rng, ((3, 2), (2, 3), (2, 2)), 3).layers
    x = rng.normal(size=(9, 3))
    for t, s, k in ((1, 0, 1), (1, 1, 0), (2, 1, 2), (3, 0, 0)):
        silent, unit = list(layers), sum(layers[t - 1].n_experts[:s]) + k
        weights = layers[t - 1].sides[s].expert_weights.copy()
        weights[k] = 0.0
        sides = list(layers[t - 1].sides)
        sides[s] = replace(sides[s], expert_weights=weights)
        silent[t - 1] = Layer(tuple(sides))
        for above in range(t + 1, 4):
            if t in sources_of(above):
                before = sum((3, 5, 5)[source] for source in sources_of(above) if source < t)
                blind = np.ones(layers[above - 1].sides[0].hyperplanes.shape[1])
                blind[1 + before + unit] = 0.0
                sides = (replace(side, hyperplanes=side.hyperplanes * blind) for side in layers[above - 1].sides)
                silent[above - 1] = Layer(tuple(sides))
        expected = Network(tuple(silent), 3, RESPONSE).predict(x)
        np.testing.assert_allclose(
            Network(without_expert(layers, t, s, k), 3, RESPONSE).predict(x), expected, rtol=1e-12
        )


def test_needless_experts_are_left_out_and_needed_ones_stay(rng):
    X, y = half_planes(rng)
    rows = LabelledRows(X, y)
    plane = np.array([[0.0, 4.0, 2.0, 0.0]])
    far = np.array([[-30.0, 0.1, 0.0, 0.2]])
    side = Side(np.concatenate([plane, far, plane]), np.array([1.0, 0.5, 1e-6]))
    layers = (Layer((replace(side, hyperplanes=-side.hyperplanes), side)),)
    small = trimmed(layers, rows, RESPONSE)
    assert small[0].n_experts == (1, 1)
    loss = [-2.0 * np.log(Network(net, 3, RESPONSE).predict(X)[np.arange(y.size), y]).sum() for net in (layers, small)]
    assert loss[1] <= loss[0] + ALLOWED


@pytest.mark.parametrize("response", [RESPONSE, OnALine()], ids=["classes", "line"])
def test_trimming_judges_as_the_whole_network_does(rng, response):
    """Units that are known are not computed again: what stays is what trials of whole networks leave."""
    X, y = half_planes(rng, 80)
    on_a_line = np.column_stack([y, y]).astype(float)
    rows = LabelledRows(X, on_a_line if response.timed else y, rng.uniform(0.5, 2.0, 80))
    losses = losses_on(rows, response)
    layers = random_network(rng, ((3, 4), (2, 3), (3, 2), (2, 3)), 3).layers
    if response.timed:
        layers = tuple(
            Layer(tuple(replace(side, time_coefs=rng.gamma(2.0, size=side.n_experts)) for side in layer.sides))
            for layer in layers
        )
    small = trimmed(layers, rows, response, allowed=20.0)
    most, expected = losses(layers).sum() + 20.0, layers
    for t in (4, 3, 2, 1):
        for s in (0, 1):
            side = expected[t - 1].sides[s]
            votes = side.units(inputs_above(expected[: t - 1], X)).mean(axis=0) * side.expert_weights
            stays = list(range(side.n_experts))
            for k in np.argsort(votes):
                tried = without_expert(expected, t, s, stays.index(k)) if len(stays) > 1 else expected
                if len(stays) > 1 and losses(tried).sum() <= most:
                    expected = tried
                    stays.remove(k)
    assert small[0].n_experts != layers[0].n_experts
    assert small[2].n_experts != layers[2].n_experts
    for layer, same in zip(small, expected, strict=True):
        for side, other in zip(layer.sides, same.sides, strict=True):
            np.testing.assert_array_equal(side.hyperplanes, other.hyperplanes)


def test_a_look_at_some_rows_refuses_what_all_rows_would(rng, monkeypatch):
    """Of many rows, an eighth refuses an expert that is missed; what is left out is the same."""
    needed, needless = np.array([[-2.0, 4.0, 0.0, 0.0], [-2.0, 0.0, 4.0, 0.0]]), np.array([[-30.0, 0.1, 0.0, 0.2]])
    sides = tuple(Side(np.concatenate([planes, needless]), np.ones(3)) for planes in (-needed, needed))
    layers, looked_at = (Layer(sides),), []
    X = rng.normal(size=(2000, 3))
    y = (rng.random(2000) < Network(layers, 3, RESPONSE).predict(X)[:, 1]).astype(int)

    def counting(tries, k, some, losses_without=trimming._Tries.losses_without):
        losses = losses_without(tries, k, some)
        looked_at.append(losses.size)
        return losses

    monkeypatch.setattr(trimming._Tries, "losses_without", counting)
    small = trimmed(layers, LabelledRows(X, y), RESPONSE)
    assert small[0].n_experts == (2, 2)
    trials_on_some, trials_on_all = looked_at.count(250), looked_at.count(2000)
    assert 0 < trials_on_all < trials_on_some == 6
    looked_at.clear()
    monkeypatch.setattr(trimming, "FIRST_LOOK_FROM", np.inf)
    assert trimmed(layers, LabelledRows(X, y), RESPONSE)[0].n_experts == (2, 2)
    assert looked_at == [2000] * 6


def test_trimming_ends_when_the_time_is_up(rng):
    X, y = half_planes(rng, 80)
    layers, asked = random_network(rng, ((4, 4), (4, 4)), 3).layers, []
    assert trimmed(layers, LabelledRows(X, y), RESPONSE, 1e9, lambda: True) is layers
    some = trimmed(layers, LabelledRows(X, y), RESPONSE, 1e9, lambda: asked.append(1) or len(asked) > 3)
    assert sum(sum(layer.n_experts) for layer in some) == 16 - 2  # two trials before the time was up


def test_experts_leave_once_others_have_learned_to_stand_in():
    """Two experts of one weight share a plane: without one of them the rows are far less likely, until the other is trained."""
    X, y = half_planes(np.random.default_rng(0))  # an example: by other rows one of the two may leave at once
    plane = np.array([[0.3, 3.0, 1.5, 0.0]])
    side = Side(np.concatenate([plane, plane]), np.array([0.6, 0.6]))
    layers = (Layer((replace(side, hyperplanes=-side.hyperplanes), side)),)
    trainee = trainee_of(X, y)
    view, history = trainee.view, (Step(True, FIRST_PENALTY, 1.0, 900),)
    small = smaller(trainee, layers, history)
    assert trimmed(layers, view.rows, RESPONSE)[0].n_experts == (2, 2)
    assert sum(small[0].n_experts) < 4
    every = np.ones(y.size, dtype=bool)
    assert view.losses(small, every, RESPONSE).sum() < view.losses(layers, every, RESPONSE).sum()
    least = (Layer((side.take([0]), side.take([0]))),)
    assert smaller(trainee, least, history) is least


def test_few_rows_spare_few_experts(rng, monkeypatch):
    """The rise of the deviance that is allowed grows with the rows, up to a bound."""
    asked = []

    def none_left_out(layers, rows, response, allowed, stop):
        asked.append(allowed)
        return layers

    monkeypatch.setattr("pbdn.growth.trimming.trimmed", none_left_out)
    for n, weight in ((50, 1.0), (50, 2.0), (4000, 1.0)):
        trainee = trainee_of(*half_planes(rng, n), np.full(n, weight))
        layers = random_network(rng, ((2, 2),), 3).layers
        assert smaller(trainee, layers, (Step(True, FIRST_PENALTY, 1.0, 900),)) is layers
    np.testing.assert_allclose(asked, [6.0, 12.0, 24.0])


def test_experts_that_nobody_can_stand_in_for_stay(rng, monkeypatch):
    """What is left out is less and less, and nothing at the end, while training does not make up for it."""
    X, y = half_planes(rng, 400)
    trainee, asked = trainee_of(X, y), []

    def all_but_one(layers, rows, response, allowed, stop):
        asked.append(allowed)
        return tuple(Layer(tuple(side.take([0]) for side in layer.sides)) for layer in layers)

    monkeypatch.setattr("pbdn.growth.trimming.trimmed", all_but_one)
    history = (Step(True, FIRST_PENALTY, 1.0, 3),)
    layers = trainee.follow((history[0]._replace(n_steps=300),))
    worse = tuple(Layer(layer.sides[::-1]) for layer in layers)  # the sides say the opposite of what they did
    monkeypatch.setattr(Trainee, "take", lambda self, fewer, history, step: (worse, True))
    assert smaller(trainee, layers, history) is layers
    assert asked == [24.0, 12.0, 6.0]


@pytest.mark.parametrize("depth", [1, 2])
def test_sensitivities_say_what_a_move_costs(rng, depth):
    """The deviance of rows that are as the network says rises with the square of a move, by the sensitivity times their number."""
    network = random_network(rng, ((2, 3), (2, 1))[:depth], 3, total_spread=1.0)
    X = rng.normal(size=(4000, 3))
    chances = network.predict(X)
    rows = LabelledRows(np.vstack([X, X]), np.repeat([0, 1], 4000), chances.T.ravel())
    losses = losses_on(rows, RESPONSE)
    found = iter(sensitivities(network.layers, rows, RESPONSE))
    for side in network.layers[0].sides:
        for k in range(side.n_experts):
            at_rest = losses(network.layers).sum()
            rises = []
            for move in (-0.05, 0.05):
                side.hyperplanes[k, 0] += move
                rises.append(losses(network.layers).sum() - at_rest)
                side.hyperplanes[k, 0] -= move
            assert np.mean(rises) == pytest.approx(next(found) * 4000 * 0.05**2, rel=0.1)


def test_small_coefficients_are_left_out(rng):
    """Of inputs, in layers that see them; biases and units stay."""
    network = random_network(rng, ((2, 2), (2, 1), (1, 1)), 4)
    for side in network.layers[0].sides:
        side.hyperplanes[:] = [0.001, 1.0, -0.3, 0.1, -0.05]
    few = without_small(network.layers, 0.2, 4)
    assert few[0].sides[0].hyperplanes.tolist() == [[0.001, 1.0, -0.3, 0.0, 0.0]] * 2
    for before, after in zip(network.layers[1].sides, few[1].sides, strict=True):
        np.testing.assert_array_equal(after.hyperplanes[:, 5:], before.hyperplanes[:, 5:])
        size = np.abs(before.hyperplanes[:, 1:5])
        np.testing.assert_array_equal(after.hyperplanes[:, 1:5] == 0.0, size < 0.2 * size.max(axis=1, keepdims=True))
    assert few[2] is network.layers[2]


def test_idle_experts_are_left_out(rng):
    """What adds nothing to any row goes; a side keeps its strongest even if that is next to nothing."""
    rows = rng.normal(size=(30, 2))
    planes = np.array([[0.0, 1.0, 0.0], [-60.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    side = Side(planes, np.array([1.0, 1.0, 1e-9]))
    weak = Side(planes, np.array([1e-9, 1e-12, 1e-10]))
    (layer,) = without_idle((Layer((side, weak)),), LabelledRows(rows, np.zeros(len(rows), np.int64)))
    assert layer.n_experts == (1, 1)
    np.testing.assert_array_equal(layer.sides[0].hyperplanes, planes[:1])
