"""What a network is: wiring, layers, committees, intervals, and long tails that are pulled in."""

import tracemalloc
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit
from scipy.stats import binom, yeojohnson, yeojohnson_llf

from networks import network_of, random_committee, random_curve, random_network, random_ramps, random_tails, split_ramps
from pbdn.errors import FileFormatError
from pbdn.files.network import network_from_arrays, network_to_arrays
from pbdn.inspection.effects import ChangedColumns
from pbdn.model.committee import committee, jackknife_error, jackknife_interval, log_odds, share_error
from pbdn.model.forward import side_rates
from pbdn.model.likelihood import average_answer
from pbdn.model.network import Layer, Network, Side, climb, inputs_above
from pbdn.model.response import SeveralClasses, TwoClasses
from pbdn.model.scaling import Scaling, scaling_by_most, standard_scaling
from pbdn.model.tails import MOST_PUSHED, POWERS, Tails, pull_in_lanes, pulled_in, tails_of
from pbdn.model.wiring import (
    FEATURES,
    Curve,
    inputs_of,
    joined_ramps,
    joining,
    sees_features,
    sources_of,
    width_of_inputs,
)
from pbdn.numerics.arrays import spread_of_most
from pbdn.numerics.compiled import kernel
from pbdn.numerics.elementary import LANES

WIDTHS_OF_WIRES = (5, 3, 2, 4, 1)  # of the features and of the units of layers 1 to 4
SOURCES = {1: (0,), 2: (0, 1), 3: (1, 2), 4: (2, 3), 5: (3, 4)}
EXPERTS = ((2, 3), (1, 2), (4, 1), (2, 2))  # per layer, per side
N_FEATURES = 5
WIDTHS = (N_FEATURES, N_FEATURES + 5, 5 + 3, 3 + 5)  # inputs of each layer without the constant
N_MEMBER_FEATURES = 4
MEMBER_WIDTHS = [
    ((2, 3), (1, 2), (4, 1)),
    ((1, 1), (3, 1), (2, 2)),
    ((4, 2), (0, 2), (1, 3)),
]  # per member, per layer, per side
SEVERAL = [((2, 1, 3, 1, 2, 1), (1, 2, 2, 1, 1, 1)), ((1, 1, 1, 2, 1, 2), (2, 1, 0, 1, 3, 1))]


# Which units a layer sees: the features, then the last two layers below it.


@pytest.fixture
def seen(rng):
    """Features with zeros in them, and the units of four layers."""
    features, *units = (rng.normal(size=(6, width)) for width in WIDTHS_OF_WIRES)
    return [features * (rng.random(features.shape) < 0.5), *units]


@pytest.mark.parametrize("layer", SOURCES)
def test_sources(layer):
    assert sources_of(layer) == SOURCES[layer]
    assert sees_features(layer) == (layer <= 2)
    assert sees_features(layer) == (FEATURES in SOURCES[layer])
    assert width_of_inputs(layer, WIDTHS_OF_WIRES) == sum(WIDTHS_OF_WIRES[source] for source in SOURCES[layer])


@pytest.mark.parametrize("layer", SOURCES)
def test_inputs_are_the_sources_side_by_side(seen, layer):
    inputs = inputs_of(layer, seen)
    np.testing.assert_array_equal(inputs, np.hstack([seen[source] for source in SOURCES[layer]]))
    assert inputs.shape[1] == width_of_inputs(layer, WIDTHS_OF_WIRES)


@pytest.mark.parametrize("layer", SOURCES)
def test_inputs_stay_sparse_while_they_hold_sparse_features(seen, layer):
    inputs = inputs_of(layer, [sp.csr_array(seen[0]), *seen[1:]])
    assert sp.issparse(inputs) == (layer <= 2)
    if sp.issparse(inputs):
        assert inputs.format == "csr"
        inputs = inputs.toarray()
    np.testing.assert_array_equal(inputs, inputs_of(layer, seen))


def test_later_units_change_nothing(seen):
    """The inputs of a layer are known as soon as the layers below it are."""
    for layer in SOURCES:
        np.testing.assert_array_equal(inputs_of(layer, seen[:layer]), inputs_of(layer, seen))
        assert width_of_inputs(layer, WIDTHS_OF_WIRES[:layer]) == width_of_inputs(layer, WIDTHS_OF_WIRES)


# Wiring of layers, sizes and costs of a network.


def network(rng, depth=4, n_draws=0):
    return random_network(rng, EXPERTS[:depth], N_FEATURES, n_draws=n_draws, total_spread=1.0)


def by_hand(net, x):
    """Side probabilities of one row at a time, from the formulas."""
    out = []
    for row in x:
        history = [row]
        for layer in net.layers:
            inputs = np.concatenate(history[-2:])
            new = [np.log1p(np.exp(side.hyperplanes @ np.r_[1.0, inputs])) for side in layer.sides]
            last = [1 - np.exp(-(u @ side.expert_weights)) for u, side in zip(new, layer.sides, strict=True)]
            history.append(np.concatenate(new))
        out.append(last)
    return np.array(out)


def test_inputs_of_many_rows_take_their_own_memory_only(rng, monkeypatch):
    """What lies below is computed for some rows at a time."""
    layers = random_network(rng, ((20, 20), (20, 20), (1, 1)), N_FEATURES, total_spread=1.0).layers[:2]
    x = rng.standard_normal((5000, N_FEATURES))
    whole = inputs_above(layers, x)
    monkeypatch.setattr("pbdn.model.network.CLIMB_ROWS", 300)
    tracemalloc.start()
    inputs = inputs_above(layers, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(inputs, whole, rtol=1e-12)
    assert peak < 1.5 * inputs.nbytes


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_wiring(rng, depth):
    net, x = network(rng, depth), rng.standard_normal((6, N_FEATURES))
    expected = by_hand(net, x)
    second = 0.5 * (expected[:, 1] + 1.0 - expected[:, 0])
    assert np.allclose(net.side_probability(x), expected, rtol=1e-12)
    assert np.allclose(net.side_probability(sp.csr_array(x)), expected, rtol=1e-12)
    assert np.allclose(net.predict(x), np.column_stack([1.0 - second, second]), rtol=1e-12)
    assert np.allclose(net.predict(sp.csr_array(x)), net.predict(x), rtol=1e-12)
    assert [inputs.shape[1] for inputs in net.layer_inputs(x)] == list(WIDTHS[:depth])


# Short ramps that are joined to longer ones.


def test_ramps_are_joined_where_lines_have_no_bend(rng):
    """Ramps cut into parts become whole again, coefficients too; a feature whose lines have no bend at all has none."""
    curve = random_ramps(rng, 4, 3)
    planes = rng.normal(size=(6, 5 + curve.n_bent))
    straight = curve.columns == curve.columns[0]
    planes[:, 5:][:, straight] = planes[:, [5]] * curve.scales[straight]
    short, matrix = split_ramps(curve, 4, 5)
    parts = planes @ matrix
    few = joined_ramps(short, parts[:, 5:], np.full(short.n_bent, 10.0), 1e-6)
    np.testing.assert_array_equal(few.columns, curve.columns[~straight])
    np.testing.assert_allclose(few.centers, curve.centers[~straight], rtol=1e-12)
    np.testing.assert_allclose(few.scales, curve.scales[~straight], rtol=1e-12)
    joined = parts @ joining(short, few, 4)
    np.testing.assert_allclose(joined[:, 5:], planes[:, 5:][:, ~straight], rtol=1e-9)
    rows = rng.normal(size=(30, 4))
    first = curve.columns[0]
    ends = curve.centers[straight][0], (curve.centers + curve.scales)[straight][-1]
    rows[:, first] = rng.uniform(*ends, 30)
    distances = planes[:, 0] + curve.expand(rows) @ planes[:, 1:].T
    np.testing.assert_allclose(joined[:, 0] + few.expand(rows) @ joined[:, 1:].T, distances, rtol=1e-9, atol=1e-9)
    assert joined_ramps(short, parts[:, 5:], np.full(short.n_bent, 10.0), 1e9) is None
    alone = parts @ joining(short, None, 4)
    assert alone.shape == (6, 5)


@pytest.mark.parametrize("charge", [0.3, 3.0, 30.0])
def test_joined_ramps_cost_least(rng, charge):
    """Of all ways to leave bends out: squares of the moves at the knots, half of the rows of a ramp at each end, and the charge."""
    curve = random_ramps(rng, 1, n_ramps=6)
    coefs, n_rows = rng.normal(size=(3, 6)), rng.uniform(1.0, 9.0, 6)
    knots = np.append(curve.centers, curve.centers[-1] + curve.scales[-1])
    heights, at = (
        np.pad(np.cumsum(coefs, axis=1), ((0, 0), (1, 0))),
        0.5 * (np.pad(n_rows, (1, 0)) + np.pad(n_rows, (0, 1))),
    )
    costs = {}
    for size in range(6):
        for inner in combinations(range(1, 6), size):
            kept = [0, *inner, 6]
            lines = np.array([np.interp(knots, knots[kept], line[kept]) for line in heights])
            costs[tuple(kept)] = (at * (lines - heights) ** 2).sum() + charge * (len(kept) - 1)
    best = min(costs, key=costs.get)
    few = joined_ramps(curve, coefs, n_rows, charge)
    if len(best) == 2:
        assert few is None
    else:
        np.testing.assert_array_equal(few.centers, knots[list(best[:-1])])


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("make", [None, random_curve, random_ramps])
@pytest.mark.parametrize("n_members", [1, 3])
def test_compiled_pass_over_many_rows(rng, depth, make, n_members):
    """Its rates are those of the layers one by one, and the same bits whatever rows stand beside a row."""
    curve = None if make is None else make(rng, N_FEATURES, 3)
    net = committee(
        [random_network(rng, EXPERTS[:depth], N_FEATURES, curve=curve, total_spread=2.0) for _ in range(n_members)]
    )
    x = 5.0 * rng.standard_normal((1030, N_FEATURES))
    inputs = net.top_inputs(x)
    members = np.stack([net.member(m).top.side_rate(inputs) for m in range(n_members)])
    expected, found = average_answer(members), net.side_rate(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(net.predict(x), net.response.pool(expected), rtol=1e-12, atol=1e-15)
    for part in (slice(0, 1), slice(3, 20), slice(100, 228), slice(1, None)):
        np.testing.assert_array_equal(side_rates(net._plan, 2, n_members, x[part]), found[part])
    x.flags.writeable = False
    np.testing.assert_array_equal(net.side_rate(x), found)
    for other in (x.astype(np.float32), np.asfortranarray(x), sp.csr_array(x), x[:50]):
        np.testing.assert_allclose(net.side_rate(other), expected[: other.shape[0]], rtol=1e-3)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_compiled_pass_climbs_any_ramps(rng, depth):
    """Ramps with gaps between them, ramps over others, rows on bends, beyond all ramps and far out."""
    curve = Curve(
        np.array([0, 0, 0, 2, 2, 3]),
        np.array([-1.0, -0.5, 1.0, 0.0, 0.0, 0.5]),
        np.array([0.5, 0.125, 0.25, 1.0, 3.0, 2.0**-30]),
        ramps=True,
    )
    net = random_network(rng, EXPERTS[:depth], N_FEATURES, curve=curve, total_spread=2.0)
    x = rng.standard_normal((1100, N_FEATURES))
    x[:600] = rng.choice(
        np.concatenate([curve.centers, curve.centers + curve.scales, [-100.0, 100.0]]), (600, N_FEATURES)
    )
    np.testing.assert_allclose(net.side_rate(x), net.top.side_rate(net.top_inputs(x)), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("make", [None, random_curve, random_ramps])
def test_compiled_pass_pulls_in_tails(rng, make):
    """As accurately as NumPy, from the smallest to the largest numbers."""
    curve = None if make is None else make(rng, N_FEATURES, 3)
    net = replace(random_network(rng, EXPERTS[:2], N_FEATURES, curve=curve), tails=random_tails(rng, N_FEATURES, 3))
    x = rng.standard_normal((1100, N_FEATURES)) * 10.0 ** rng.uniform(-20, 3, size=(1100, N_FEATURES))
    x[:3] = [[0.0], [-0.0], [1e-300]]
    np.testing.assert_allclose(net.side_rate(x), net.top.side_rate(net.top_inputs(x)), rtol=1e-11, atol=1e-300)


@kernel
def _pulled_in(values, power):
    for i in range(0, values.size, LANES):
        pull_in_lanes(values.ctypes.data + 8 * i, 0.0, 1.0, power)


@pytest.mark.parametrize("power", POWERS)
def test_compiled_tails_keep_every_digit(power):
    z = np.concatenate([np.logspace(-300, 60, 4000), np.linspace(0.0, 10.0, 4000)])
    z = np.concatenate([z, -z])
    found = z.copy()
    _pulled_in(found, power)
    np.testing.assert_allclose(found, pulled_in(z, power), rtol=1e-13)


def test_compiled_pass_leaves_out_units_that_nobody_sees(rng):
    net = random_network(rng, ((3, 2), (2, 4)), N_FEATURES)
    top = [replace(side, hyperplanes=side.hyperplanes.copy()) for side in net.top.sides]
    for side in top:
        side.hyperplanes[:, 1 + N_FEATURES + 1] = 0.0
    net = replace(net, layers=(net.layers[0], Layer(tuple(top))))
    x = rng.standard_normal((1000, N_FEATURES))
    np.testing.assert_allclose(net.side_rate(x), net.top.side_rate(net.top_inputs(x)), rtol=1e-12)
    assert net._plan.steps[:, 2].tolist() == [4, 6]


def test_climbing_ends_above_the_stack(rng):
    net, x = network(rng), rng.standard_normal((6, N_FEATURES))
    steps = list(climb(net.layers, x))
    assert len(steps) == net.depth + 1
    for t, (step, inputs) in enumerate(zip(steps, net.layer_inputs(x), strict=False)):
        np.testing.assert_array_equal(step, inputs)
        np.testing.assert_array_equal(inputs_above(net.layers[:t], x), inputs)
    np.testing.assert_array_equal(net.top_inputs(x), steps[-2])
    np.testing.assert_array_equal(inputs_above(net.layers, x), steps[-1])
    units = [layer.units(inputs) for layer, inputs in zip(net.layers, steps, strict=False)]
    np.testing.assert_array_equal(steps[-1], np.hstack(units[-2:]))


def test_sizes_and_cost(rng):
    """d₁ = V+1, d_t = K_{t-1} + K_t + 1, cost Σ d_t K_{t+1} / (V+1)."""
    net = network(rng, 3)
    assert net.depth == 3
    assert net.n_units == (5, 3, 5)
    assert net.n_inputs == (6, 11, 9)
    assert net.complexity == (6 * 5 + 11 * 3 + 9 * 5) / 6
    assert net.n_weights == 6 * 5 + 11 * 3 + 9 * 5 + 5


def test_draws_are_pooled_before_averaging(rng):
    net, other = network(rng), network(rng)
    top = Layer(net.top.sides, (net.top.sides, other.top.sides))
    both = Network((*net.layers[:-1], top), N_FEATURES, TwoClasses())
    x = rng.standard_normal((4, N_FEATURES))
    draws = both.predict_draws(x)
    assert draws.shape == (2, 4, 2)
    assert np.allclose(draws[0], net.predict(x))
    assert np.allclose(draws.sum(-1), 1)
    assert np.allclose(both.predict_mean(x), draws.mean(axis=0), rtol=1e-14)
    assert np.array_equal(both.predict(x), net.predict(x))


def test_the_response_decides_what_sides_predict(rng):
    net = random_network(rng, ((1, 2, 1, 1, 3, 2),), N_FEATURES, n_draws=3)
    x = rng.standard_normal((4, N_FEATURES))
    assert net.response == SeveralClasses(3)
    assert net.side_probability(x).shape == (4, 6)
    assert net.predict(x).shape == (4, 3)
    assert net.predict_draws(x).shape == (3, 4, 3)
    assert np.array_equal(net.predict(x), net.response.pool(net.top.side_rate(x)))


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_scaling_is_folded_into_the_layers_that_see_the_features(rng, depth):
    net, x = network(rng, depth, n_draws=3), rng.standard_normal((6, N_FEATURES))
    scaling = Scaling(rng.normal(size=N_FEATURES), rng.gamma(2.0, size=N_FEATURES), quantum=0.0)
    folded = scaling.fold(net)
    assert np.allclose(folded.predict(x), net.predict(scaling.apply(x)), rtol=1e-11)
    assert np.allclose(folded.predict_draws(x), net.predict_draws(scaling.apply(x)), rtol=1e-11)
    assert all(new is old for new, old in zip(folded.layers[2:], net.layers[2:], strict=True))
    back = scaling.unfold(folded)
    for ours, theirs in zip(back.layers, net.layers, strict=True):
        for a, b in zip(ours.sides, theirs.sides, strict=True):
            assert np.allclose(a.hyperplanes, b.hyperplanes, rtol=1e-11, atol=1e-12)


def test_features_within_their_limits_do_not_overflow(rng):
    """Also in the second layer, which sees them too, and in the draws."""
    net = network(rng, n_draws=2)
    limits = net.feature_limits
    seen = [net.layers[0].sides, net.layers[1].sides]
    largest = np.max(
        [np.abs(s.hyperplanes[:, 1 : N_FEATURES + 1]).max(axis=0) for sides in seen for s in sides], axis=0
    )
    assert np.allclose(limits * largest, 1e200)
    alone = network(rng, 1, n_draws=2)
    seen = [alone.top.sides, *alone.top.draws]
    planes = np.vstack([side.hyperplanes for sides in seen for side in sides])
    assert np.allclose(alone.feature_limits * np.abs(planes[:, 1:]).max(axis=0), 1e200)
    assert np.isfinite(net.predict(np.vstack([limits, -limits]))).all()


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
    from pbdn.model.priors import Hyperpriors, simulate_parameters, simulate_rate, simulate_target

    p = simulate_parameters(rng, Hyperpriors(3.0, 2.0, 4.0, 3.0, 3.0, 4.0, 3.0), 3, 3, 50)
    x = rng.standard_normal((8, 2))
    rates = simulate_rate(p["hyperplanes"], p["expert_weights"], np.column_stack([np.ones(8), x]))
    assert rates.shape == (50, 8)
    for g in (0, 17):
        assert np.allclose(rates[g], Side(p["hyperplanes"][g], p["expert_weights"][g]).rate(x), rtol=1e-12)
    assert simulate_target(rng, rates).dtype == bool


# Several networks as one: averaged answers, zeros that cost nothing.


@pytest.mark.parametrize("bent", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_answers_are_averaged(rng, depth, bent):
    curve = random_curve(rng, N_MEMBER_FEATURES, 3) if bent else None
    one, members = random_committee(
        rng, [w[:depth] for w in MEMBER_WIDTHS], N_MEMBER_FEATURES, curve=curve, total_spread=2.0
    )
    x = rng.normal(size=(50, N_MEMBER_FEATURES))
    np.testing.assert_allclose(one.predict(x), np.mean([net.predict(x) for net in members], axis=0), rtol=1e-12)
    rates = np.mean([net.top.side_rate(net.top_inputs(x)) for net in members], axis=0)
    np.testing.assert_allclose(one.summed().side_rate(x), rates, rtol=1e-12)
    assert one.n_units == tuple(np.sum([net.n_units for net in members], axis=0))
    assert one.curve is curve


def test_three_classes_too(rng):
    one, members = random_committee(rng, SEVERAL, N_MEMBER_FEATURES, total_spread=2.0)
    x = rng.normal(size=(50, N_MEMBER_FEATURES))
    answers = np.mean([net.side_probability(x) for net in members], axis=0)
    np.testing.assert_allclose(one.side_probability(x), answers, rtol=1e-12)
    np.testing.assert_allclose(one.predict(x), one.response.pool(-np.log1p(-answers)), rtol=1e-9)


@pytest.mark.parametrize("bent", [False, True])
def test_networks_of_one_layer_stand_beside_those_of_two(rng, bent):
    """They say what they say alone, have as many units and weights, and cost as much."""
    curve = random_curve(rng, N_MEMBER_FEATURES, 3) if bent else None
    widths = [w[:depth] for w, depth in zip(MEMBER_WIDTHS, (2, 1, 2, 1, 1), strict=False)]
    one, members = random_committee(rng, widths, N_MEMBER_FEATURES, curve=curve, total_spread=2.0)
    assert one.depth == 2
    x = rng.normal(size=(50, N_MEMBER_FEATURES))
    np.testing.assert_allclose(one.predict_members(x), [net.predict(x) for net in members], rtol=1e-12)
    assert sum(one.n_units) == sum(sum(net.n_units) for net in members)
    assert one.n_weights == sum(net.n_weights for net in members)
    assert one.complexity == pytest.approx(sum(net.complexity for net in members))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_zeros_cost_nothing(rng, depth):
    one, members = random_committee(rng, [w[:depth] for w in MEMBER_WIDTHS], N_MEMBER_FEATURES)
    assert one.n_weights == sum(net.n_weights for net in members)
    assert one.complexity == pytest.approx(sum(net.complexity for net in members))


def test_one_member_is_itself(rng):
    alone = random_network(rng)
    assert committee([alone]) is alone


# Intervals from the networks that are averaged.


def test_it_is_the_jackknife_of_a_mean(rng):
    """Of a mean over groups, the jackknife over groups is the standard error of the mean of the groups' means."""
    groups = rng.normal(size=(5, 40))
    without = np.stack([np.delete(groups, m, axis=0).mean() for m in range(5)])
    assert jackknife_error(without) == pytest.approx(groups.mean(axis=1).std(ddof=1) / np.sqrt(5))


def test_the_farther_end_counts_of_log_odds_and_of_probabilities(rng):
    folds = rng.uniform(0.01, 0.99, size=(5, 200, 1))
    center = folds.mean(axis=0)
    low, high = np.moveaxis(jackknife_interval(folds, center, 0.9), -1, 0)
    t = 2.13184679  # four degrees of freedom
    odds, half = log_odds(center), t * jackknife_error(log_odds(folds))
    bent_low, bent_high = (1.0 / (1.0 + np.exp(-odds - side * half)) for side in (-1, 1))
    straight_low, straight_high = (np.clip(center + side * t * jackknife_error(folds), 0, 1) for side in (-1, 1))
    np.testing.assert_allclose(low, np.minimum(bent_low, straight_low), rtol=1e-6)
    np.testing.assert_allclose(high, np.maximum(bent_high, straight_high), rtol=1e-6)


def test_ends_of_the_two_classes_mirror_each_other_and_stay_within_zero_and_one(rng):
    p = rng.uniform(1e-9, 1 - 1e-9, size=(5, 30))
    members = np.stack([1.0 - p, p], axis=-1)
    ends = jackknife_interval(members, members.mean(axis=0), 0.9)
    np.testing.assert_allclose(ends[:, 0], 1.0 - ends[:, 1, ::-1], atol=1e-9)
    assert (ends >= 0).all()
    assert (ends <= 1).all()
    wider = jackknife_interval(members, members.mean(axis=0), 0.99)
    assert (wider[..., 0] <= ends[..., 0]).all()
    assert (wider[..., 1] >= ends[..., 1]).all()


def test_small_probabilities_may_be_nought():
    """Networks that agree on small probabilities to within a factor of two do not say how small the truth is."""
    folds = np.array([0.001, 0.002, 0.002, 0.001, 0.002])[:, None, None]
    low, high = jackknife_interval(folds, np.array([[0.0016]]), 0.95)[0, 0]
    assert low == 0.0
    assert 0.004 < high < 0.1


def test_the_error_of_a_share_is_that_of_a_binomial_one():
    n, p = 300, 0.3
    counts = np.arange(n + 1)
    chance = binom.pmf(counts, n, p)
    odds = np.log((counts + 0.5) / (n - counts + 0.5))
    exact = np.sqrt(chance @ odds**2 - (chance @ odds) ** 2)
    np.testing.assert_allclose(share_error(np.array([n * p, n * (1 - p)])), exact, rtol=0.01)
    assert np.isfinite(share_error(np.array([0.0, 10.0]))).all()


def test_what_folds_share_evenly_is_added_to_their_spread(rng):
    """Folds that agree leave the error of the share of a class; it moves log-odds, and probabilities by p(1 - p) of that."""
    class_rows, center = np.array([60.0, 40.0]), np.array([[0.8, 0.2], [0.5, 0.5]])
    folds = np.stack([center] * 5)
    low, high = np.moveaxis(jackknife_interval(folds, center, 0.9, class_rows), -1, 0)
    t, error = 2.13184679, share_error(class_rows)
    np.testing.assert_allclose(
        high, np.maximum(expit(logit(center) + t * error), center + t * error * center * (1 - center))
    )
    np.testing.assert_allclose(low, 1.0 - high[:, ::-1])
    spread = rng.uniform(0.4, 0.6, size=(5, 20, 2))
    alone, both = (jackknife_interval(spread, spread.mean(axis=0), 0.9, rows) for rows in (None, class_rows))
    assert (np.diff(both) > np.diff(alone)).all()


def test_members_that_agree_are_sure():
    members = np.full((5, 3, 2), 0.5)
    assert np.ptp(jackknife_interval(members, members[0], 0.95)) == 0.0


# Long tails are pulled in as the formula says, for dense and sparse rows, and scaling and files keep that.

N = 4
TAILED = ["tailed pair", "curved tailed deep pair", "curved tailed committee"]


@pytest.mark.parametrize("power", POWERS)
def test_the_transformation_of_yeo_and_johnson(rng, power):
    z = np.r_[0.0, 10.0 ** rng.uniform(-8, 3, size=50)] * rng.choice([-1.0, 1.0], size=51)
    np.testing.assert_allclose(pulled_in(z, power), yeojohnson(z, power), rtol=1e-10, atol=1e-14)


def test_columns_values_and_back(rng):
    tails, x = random_tails(rng, N, 2), rng.normal(size=(20, N))
    changed = tails.apply(x)
    others = np.delete(np.arange(N), tails.columns)
    np.testing.assert_array_equal(changed[:, others], x[:, others])
    assert (np.diff(changed[np.argsort(x[:, tails.columns[0]]), tails.columns[0]]) >= 0).all()
    np.testing.assert_allclose(tails.inverse(changed[:, tails.columns]), x[:, tails.columns], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("centred", [False, True])
def test_sparse_rows(rng, centred):
    x = rng.normal(size=(20, N)) * (rng.random((20, N)) < 0.4)
    tails = random_tails(rng, N, 2)
    tails = tails if centred else replace(tails, centers=np.zeros(2))
    found = tails.apply(sp.csr_array(x))
    np.testing.assert_allclose(found.toarray(), tails.apply(x), rtol=1e-14)
    assert centred or found.nnz == np.count_nonzero(x)


def far_column(rng, kind):
    """Three hundred numbers about 5, some of them far away."""
    x = 5.0 + rng.normal(size=300)
    if kind == "one":
        x[7] = 1e12
    elif kind == "code":
        x[rng.random(300) < 0.2] = -999.0
    elif kind == "zeros":
        x[rng.random(300) < 0.9] = 0.0
        x[7] = 1e6
    return x[:, None]


@pytest.mark.parametrize("kind", ["one", "code", "zeros"])
def test_a_few_far_cells_leave_the_others_apart(rng, kind):
    """Scaled and pulled in, the others have a spread that training can see."""
    x = far_column(rng, kind)
    scaled = scaling_by_most(x).apply(x)
    tails = tails_of(scaled)
    pulled = tails.apply(scaled)
    assert pulled.std() < 10.0 * spread_of_most(pulled)[1]
    assert np.abs(standard_scaling(pulled).apply(pulled)).max() < 18.0
    assert np.unique(scaled).size == np.unique(x).size


def test_columns_without_far_cells_are_scaled_as_ever(rng):
    x = np.column_stack(
        [rng.normal(size=200), rng.lognormal(sigma=1.5, size=200), rng.random(200) < 0.02, np.ones(200)]
    )
    ours, usual = scaling_by_most(x), standard_scaling(x)
    np.testing.assert_array_equal(ours.center, usual.center)
    np.testing.assert_array_equal(ours.scale, usual.scale)
    far = np.column_stack([np.append(x[:, 0], 1e9), np.append(x[:, 0], np.nan)])
    weights = np.append(np.ones(200), 0.0)
    np.testing.assert_allclose(scaling_by_most(far[:, :1], weights).scale, standard_scaling(x[:, :1]).scale)


def test_far_cells_on_either_side_have_no_power(rng):
    x = rng.normal(size=(300, 1))
    x[0], x[1] = 1e6, -1e6
    assert tails_of(scaling_by_most(x).apply(x)) is None


def test_no_power_pushes_cells_far_out_on_the_other_side(rng):
    """One that pulls in a long lower tail stretches what is above. Few of these rows are seen when powers are chosen."""
    x = -rng.lognormal(sigma=1.0, size=(5000, 1))
    x[1] = 60.0
    scaled = scaling_by_most(x).apply(x)
    tails = tails_of(scaled)
    z = scaled / tails.scales
    assert tails.powers[0] > 1.0
    assert (np.abs(tails.apply(scaled)) <= MOST_PUSHED * np.abs(z)).all()


def test_the_spread_of_most(rng):
    x = rng.normal(3.0, 2.0, size=(20_000, 2))
    x[:200, 1] = 1e300
    center, spread = spread_of_most(x)
    np.testing.assert_allclose(center, 3.0, atol=0.1)
    np.testing.assert_allclose(spread, 2.0, atol=0.1)
    for few in ([[1.0]], [[1.0], [2.0]], [[1.0], [1.0], [9.0]]):
        assert np.isfinite(spread_of_most(np.array(few))).all()


def test_powers_are_the_likeliest_and_only_long_tails_are_found(rng):
    n = 500
    x = np.column_stack([rng.lognormal(size=n), rng.normal(size=n), -rng.lognormal(size=n), rng.random(n) < 0.5])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    found = tails_of(x)
    assert found.columns.tolist() == [0, 2]
    for j, column in enumerate(found.columns):
        z = x[:, column] / found.scales[j]
        assert found.powers[j] == max(POWERS, key=lambda power: yeojohnson_llf(power, z))
    assert found.powers[0] < 1.0 < found.powers[1]
    assert tails_of(x[:, [1, 3]]) is None


def test_weights_count_rows(rng):
    x = rng.lognormal(size=(60, 2))
    weights = rng.integers(0, 4, size=60)
    repeated, weighted = tails_of(np.repeat(x, weights, axis=0)), tails_of(x[weights > 0], weights[weights > 0] * 1.0)
    np.testing.assert_array_equal(repeated.powers, weighted.powers)
    np.testing.assert_allclose(repeated.scales, weighted.scales)


@pytest.mark.parametrize("shape", TAILED)
def test_scaling_is_taken_up(rng, shape):
    net = network_of(shape, rng)
    scaling = Scaling(rng.normal(size=N), rng.gamma(2.0, size=N), quantum=0.0)
    x = scaling.center + scaling.scale * rng.normal(size=(20, N))
    folded = scaling.fold(net)
    np.testing.assert_allclose(folded.predict(x), net.predict(scaling.apply(x)), rtol=1e-9)
    np.testing.assert_allclose(scaling.unfold(folded).predict(scaling.apply(x)), folded.predict(x), rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e300])
def test_any_unit_of_measurement(rng, unit):
    net, x = network_of("curved tailed deep pair", rng), rng.normal(size=(20, N))
    scaling = Scaling(np.zeros(N), np.full(N, unit), quantum=0.0)
    with np.errstate(over="raise", invalid="raise"):
        folded = scaling.fold(net)
        np.testing.assert_allclose(folded.predict(unit * x), net.predict(x), rtol=1e-9)
        limits = np.minimum(folded.feature_limits, 1e307)
        assert (limits > 1e6 * unit).all()
        assert np.isfinite(folded.predict(np.vstack([limits, -limits]))).all()


@pytest.mark.parametrize("shape", TAILED)
def test_many_rows_and_changed_columns(rng, shape):
    net, x = network_of(shape, rng), rng.normal(size=(1200, N))
    np.testing.assert_allclose(net.predict(x)[:9], net.predict(x[:9]), rtol=1e-9)
    some, values = x[:30], rng.normal(size=(30, 2))
    for pair in ((0, 1), (2, 0), (3, 1)):
        other = some.copy()
        other[:, pair] = values
        np.testing.assert_allclose(ChangedColumns(net, some).predict(pair, values), net.predict(other), rtol=1e-8)


def test_files(rng):
    net = network_of("curved tailed committee", rng)
    header, arrays = network_to_arrays(net)
    back = network_from_arrays(header, arrays)
    np.testing.assert_array_equal(back.predict(rows := rng.normal(size=(5, N))), net.predict(rows))
    for name, wrong, words in (
        ("powers", np.zeros(2), "zero or two"),
        ("powers", np.ones(3), "one power for every column"),
        ("scales", np.zeros(2), "not positive"),
    ):
        with pytest.raises(FileFormatError, match=words):
            network_from_arrays(header, arrays | {f"network.tails.{name}": wrong})


def test_beyond_the_range_the_inverse_is_infinite():
    tails = Tails(np.array([0]), np.zeros(1), np.ones(1), np.array([-0.875]))
    assert np.isinf(tails.inverse(np.array([[2.0]]))).all()
