"""Starts, pruning and the polish of a layer."""

from dataclasses import replace

import numpy as np
import pytest

from checks import Z_MAX
from networks import labelling_of
from pbdn.data.row_source import ArraySource
from pbdn.model.labelling import Labelling, for_and_against_each_class, for_each_class
from pbdn.model.network import Layer, Side, climb, inputs_above
from pbdn.sgd.joint_gradient import objective_gradient
from pbdn.sgd.joint_training import Noise, Packed, neighbour_noise, network_loss_and_gradient
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import loss_and_gradient, pack, penalty, prior_constants, unpack
from pbdn.sgd.polish import polish
from pbdn.sgd.pruning import _truncated_poisson, draw_activity, log_inactivity, log_likelihoods
from pbdn.sgd.starts import fit_from_starts
from pbdn.sgd.train_layer import fit_map
from pbdn.sgd.trainer import START_GAIN, scattered_sides, start_of

BOTH = Labelling((0, 1))
CONFIG = MapSettings(shrinkage="student_t", coef_shape=1.5, coef_rate=3.0, mass=2.0, inv_scale=0.4, n_minibatches=400)
N_CLASSES, N_FEATURES = 3, 4
PAIRS = for_and_against_each_class(N_CLASSES)
LABELLINGS = [
    ((4,), labelling_of(1)),
    ((3, 5), labelling_of(2)),
    ((2, 1, 3), labelling_of(3)),
    ((2, 1, 3, 2, 4, 1), for_and_against_each_class(3)),
]


# Starts and the polish of a layer.


# Several starts: scattered hyperplanes, and the best start of every side.


def test_hyperplanes_pass_through_rows_and_leave_constant_inputs_alone(rng):
    rows = rng.normal(size=(50, 4)) * [1.0, 10.0, 0.1, 0.0]
    sides = scattered_sides(rng, rows, 7, 3)
    assert len(sides) == 3
    for side in sides:
        distances = side.hyperplanes[:, 0] + rows @ side.hyperplanes[:, 1:].T
        assert np.abs(distances).min(axis=0).max() < 1e-9
        assert (side.hyperplanes[:, 4] == 0).all()
    spread = np.concatenate([(rows @ side.hyperplanes[:, 1:].T).std(axis=0) for side in sides])
    assert 0.5 * START_GAIN < spread.mean() < 1.5 * START_GAIN


@pytest.mark.parametrize("timed", [False, True])
def test_units_that_are_silent_on_the_rows_of_the_start_get_no_coefficient(rng, timed):
    """On other rows they may speak, and would be multiplied by the inverse of almost nothing."""
    rows = rng.normal(size=(50, 3)) * [1.0, 1.0, 1e-9]
    (on_features,) = start_of(timed, 1, rng, rows, 5, 1)
    (on_units,) = start_of(timed, 2, rng, rows, 5, 1)
    assert (on_features.hyperplanes[:, 1:] != 0).all()
    assert (on_units.hyperplanes[:, 3] == 0).all()
    assert (on_units.hyperplanes[:, 1:3] != 0).all()


def test_the_best_start_of_each_side_is_kept(rng):
    """Trained one by one from the same places, no start has a lower AIC than the one that was kept."""
    X = rng.normal(size=(80, 2))
    codes = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
    source, config = ArraySource(X, codes), MapSettings(n_minibatches=200, max_experts=4, prune_every=100)
    together = fit_from_starts(source, X, BOTH, depth=1, config=config, seed=5, n_starts=3)
    rng_of_starts = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(1, 0)))
    all_sides = scattered_sides(rng_of_starts, X, 4, 6)
    every = fit_map(source, Labelling(BOTH.sides * 3), depth=1, config=config, seed=5, initial=all_sides)
    charge = [2 * s.hyperplanes.size - 2 * v for s, v in zip(every.sides, every.log_likelihood, strict=True)]
    for s in range(2):
        kept = 2 * together.sides[s].hyperplanes.size - 2 * together.log_likelihood[s]
        assert kept == min(charge[s::2])


# Polishing: the objective of a whole network, its gradient, the noise, and what a polish leaves alone.


@pytest.fixture
def case(rng):
    """Rows of three classes and a random network on them."""

    def make(depth=3, n_rows=40, labelling=PAIRS):
        X, codes = rng.normal(size=(n_rows, N_FEATURES)), rng.integers(0, N_CLASSES, n_rows)
        X[:, 0] += codes
        layers: list[Layer] = []
        for _ in range(depth):
            n_inputs = inputs_above(layers, X).shape[1]
            widths = rng.integers(1, 4, labelling.n_sides)
            layers.append(
                Layer(tuple(Side(0.5 * rng.normal(size=(k, n_inputs + 1)), rng.gamma(2.0, size=k)) for k in widths))
            )
        return X, codes, rng.gamma(2.0, size=n_rows), layers

    return make


def packed(layers):
    pairs = [pack(layer.sides) for layer in layers]
    return [one[0] for one in pairs], [one[1] for one in pairs]


def whole(X, codes, weights, parameters, starts, labelling=PAIRS):
    layers = [Layer(unpack(one, where)) for one, where in zip(parameters, starts, strict=True)]
    return network_loss_and_gradient(X, codes, weights, layers, labelling, CONFIG)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("labelling", [PAIRS, for_each_class(N_CLASSES)], ids=["for and against", "for"])
def test_value_is_the_top_layers_objective_and_the_penalties_below(case, labelling, depth):
    X, codes, weights, layers = case(depth, labelling=labelling)
    parameters, starts = packed(layers)
    value, _ = whole(X, codes, weights, parameters, starts, labelling)
    inputs = inputs_above(layers[:-1], X)
    expected, _ = loss_and_gradient(inputs, codes, weights, parameters[-1], starts[-1], CONFIG, labelling)
    planes = np.concatenate([np.empty(0), *(side.hyperplanes.ravel() for layer in layers[:-1] for side in layer.sides)])
    assert value == pytest.approx(expected + 2.0 * np.log1p(planes**2 / 6.0).sum(), rel=1e-12)


def test_a_gaussian_penalty_leaves_the_bias_free(case):
    X, codes, _, layers = case(2)
    network = Packed.of(layers, X.shape[1], PAIRS, CONFIG)
    nothing = np.zeros(len(codes))
    rows = Noise(np.zeros(N_FEATURES)).on(X, codes, nothing, np.zeros(N_FEATURES), np.zeros(len(codes), np.int64))
    values, gradients = [], []
    for precision in (0.0, 0.6):
        one, gradient = network.with_gaussian_penalty(precision), np.zeros_like(network.parameters)
        values.append(objective_gradient(rows, one.parameters, one.stack, one.slopes, one.prior, gradient))
        gradients.append(network.by_layer(gradient))
    planes = [side.hyperplanes[:, 1:] for layer in layers for side in layer.sides]
    assert values[1] - values[0] == pytest.approx(0.3 * sum((one**2).sum() for one in planes), rel=1e-4)
    for free, penalised, parameters in zip(*gradients, network.by_layer(network.parameters), strict=True):
        np.testing.assert_array_equal(penalised[:2], free[:2])  # ln r and the bias
        np.testing.assert_allclose(penalised[2:] - free[2:], 0.6 * parameters[2:], rtol=1e-4)


def test_rows_beyond_one_tile_add_up(case):
    X, codes, weights, layers = case(n_rows=300)
    pieces = [slice(0, 100), slice(100, 300)]
    parts = [network_loss_and_gradient(X[p], codes[p], weights[p], layers, PAIRS, CONFIG) for p in pieces]
    nothing, prior = network_loss_and_gradient(X[:1], codes[:1], np.zeros(1), layers, PAIRS, CONFIG)
    value, gradients = network_loss_and_gradient(X, codes, weights, layers, PAIRS, CONFIG)
    assert value == pytest.approx(parts[0][0] + parts[1][0] - nothing, rel=1e-12)
    for t, gradient in enumerate(gradients):
        np.testing.assert_allclose(gradient, parts[0][1][t] + parts[1][1][t] - prior[t], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("depth", [3, 4])
def test_gradient_is_the_finite_difference(case, depth):
    """Of the whole network's objective; by ln r of a lower layer, of that layer's own."""
    X, codes, weights, layers = case(depth)
    parameters, starts = packed(layers)
    _, gradients = whole(X, codes, weights, parameters, starts)
    step = 1e-5

    def own(t):
        inputs = list(climb(layers, X))[t]
        return lambda: loss_and_gradient(inputs, codes, weights, parameters[t], starts[t], CONFIG, PAIRS)[0]

    for t, gradient in enumerate(gradients):
        for place in np.ndindex(gradient.shape):
            lower_weight = place[0] == 0 and t < len(gradients) - 1
            f = own(t) if lower_weight else lambda: whole(X, codes, weights, parameters, starts)[0]
            kept, ends = parameters[t][place], []
            for sign in (-2, -1, 1, 2):
                parameters[t][place] = kept + sign * step
                ends.append(f())
            parameters[t][place] = kept
            slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step)
            assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=2e-6 * np.abs(gradient).max())


def test_two_noisy_copies_are_as_far_apart_as_neighbours(rng):
    lattice = 3.0 * np.stack(np.meshgrid(np.arange(12), np.arange(12)), axis=-1).reshape(-1, 2)
    inputs = np.column_stack([lattice, np.full(144, 7.0)])  # and a constant feature
    noise = neighbour_noise(inputs, rng)
    assert 2.0 * (noise**2).sum() == pytest.approx(3.0**2)
    assert noise[2] == 0.0
    assert noise[0] == pytest.approx(noise[1])
    # copies of rows say nothing about how far apart rows lie
    np.testing.assert_allclose(neighbour_noise(np.vstack([inputs, inputs]), rng), noise)
    assert not neighbour_noise(inputs[:1], rng).any()
    assert not neighbour_noise(np.ones((5, 3)), rng).any()


def test_a_polish_lowers_the_objective_and_keeps_the_shape(case):
    X, codes, weights, layers = case(n_rows=60)
    X, codes, weights = np.vstack([X, X]), np.tile(codes, 2), np.tile(weights, 2)  # every row twice: no noise
    tuned = polish(layers, X, codes, weights, config=CONFIG, seed=1, labelling=PAIRS)
    before, _ = whole(X, codes, weights, *packed(layers))
    after, _ = whole(X, codes, weights, *packed(tuned))
    assert after < before - 1.0
    assert [layer.n_experts for layer in tuned] == [layer.n_experts for layer in layers]
    for old, new in zip(layers, tuned, strict=True):
        assert all((a.hyperplanes != b.hyperplanes).any() for a, b in zip(old.sides, new.sides, strict=True))
    assert all((np.diff(side.expert_weights) <= 0).all() for side in tuned[-1].sides)


def test_lower_weights_go_to_the_optimum_of_their_own_layer(case):
    """Their gradient in their own layer, on its units as they now are, is far smaller than at the start."""
    X, codes, weights, layers = case(depth=2, n_rows=60)
    X, codes, weights = np.vstack([X, X]), np.tile(codes, 2), np.tile(weights, 2)
    config = replace(CONFIG, n_minibatches=4000, batch_size=20, learning_rate=0.2, prior_on="log_weight")
    tuned = polish(layers, X, codes, weights, config=config, seed=1, labelling=PAIRS)

    def slope(layer):
        parameters, starts = pack(layer.sides)
        return np.abs(loss_and_gradient(X, codes, weights, parameters, starts, config, PAIRS)[1][0]).max()

    assert slope(tuned[0]) < 0.05 * slope(layers[0])


def test_same_seed_same_bits_and_noise_is_there(case):
    X, codes, weights, layers = case()

    def run(seed, rows=X):
        tuned = polish(layers, rows, codes, weights, config=CONFIG, seed=seed, labelling=PAIRS)
        return np.concatenate([side.hyperplanes.ravel() for layer in tuned for side in layer.sides])

    assert np.array_equal(run(3), run(3))
    assert not np.array_equal(run(3), run(4))


def test_weight_zero_rows_do_not_set_the_noise(case, monkeypatch):
    X, codes, weights, layers = case()
    seen = []
    monkeypatch.setattr("pbdn.sgd.polish.neighbour_noise", lambda rows, rng: seen.append(rows) or np.zeros(N_FEATURES))
    weights[5] = 0.0
    polish(layers, X, codes, weights, config=CONFIG, seed=0, labelling=PAIRS)
    assert np.array_equal(seen[0], np.delete(X, 5, axis=0))


def test_stopped_or_overflowing_is_none(case):
    X, codes, weights, layers = case()
    calls = []

    def stop():
        calls.append(1)
        return len(calls) > 1

    assert polish(layers, X, codes, weights, config=CONFIG, seed=0, labelling=PAIRS, should_stop=stop) is None
    assert len(calls) == 2
    steep = [Layer(tuple(Side(1e200 * side.hyperplanes, side.expert_weights) for side in one.sides)) for one in layers]
    assert polish(steep, X, codes, weights, config=CONFIG, seed=0, labelling=PAIRS) is None


def source_of(p, inputs=None):
    classes = np.arange(max(len(p.starts) - 1, 2))
    return ArraySource(p.inputs if inputs is None else inputs, p.codes, classes=classes, weights=p.weights)


@pytest.mark.parametrize(("widths", "labelling"), LABELLINGS)
def test_inactivity_is_the_product_formula(problem, widths, labelling):
    p = problem(widths=widths, labelling=labelling)
    result = log_inactivity(source_of(p), *p.sides)
    expected = []
    for side, rows in zip(unpack(p.parameters, p.starts), labelling.targets(p.codes).T, strict=True):
        own = side.units(p.inputs[rows]) * side.expert_weights
        rate = own.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            terms = np.log((np.exp(-own) - np.exp(-rate)) / -np.expm1(-rate))
        expected.append(p.weights[rows] @ terms)
    expected = np.maximum(np.concatenate(expected), -700.0)  # a lone expert is never inactive
    np.testing.assert_allclose(np.maximum(result, -700.0), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(log_inactivity(source_of(p, p.csr), *p.sides), result, rtol=1e-9)


def test_inactivity_against_simulated_activities(rng, problem):
    """Draw l_ik ~ Pois(r_k s(ψ_ik)), keep draws with every positive row on, count silent experts."""
    p = problem(n_rows=3, n_inputs=2, widths=(4,))
    p.codes[:] = [1, 1, 0]
    p.weights[:] = 1.0
    p.parameters[0] -= 1.0
    exact = np.exp(log_inactivity(source_of(p), *p.sides))
    side = unpack(p.parameters, p.starts)[0]
    rates = side.units(p.inputs[:2]) * side.expert_weights
    active = rng.poisson(rates, size=(400_000, 2, 4)) > 0
    silent = ~active[active.any(axis=2).all(axis=1)].any(axis=1)
    error = np.sqrt(exact * (1 - exact) / len(silent))
    assert (np.abs(silent.mean(axis=0) - exact) < Z_MAX * error).all()
    draws = np.array([draw_activity(rng, source_of(p), *p.sides, published=False) for _ in range(8000)])
    error = np.sqrt(exact * (1 - exact) / len(draws))
    assert (np.abs((~draws).mean(axis=0) - exact) < Z_MAX * error).all()


def test_published_draw_is_another_law(rng, problem):
    """Independent Bernoullis over all rows, one forced when a positive row drew none."""
    p = problem(n_rows=2, n_inputs=2, widths=(3,))
    p.codes[:] = [1, 0]
    p.weights[:] = 1.0
    p.parameters[0] -= 2.0
    side = unpack(p.parameters, p.starts)[0]
    on = -np.expm1(-side.units(p.inputs) * side.expert_weights)
    none = (1 - on[0]).prod()
    silent_first = 1 - on[0] - none * on[0] / on[0].sum()
    expected = silent_first * (1 - on[1])
    draws = np.array([draw_activity(rng, source_of(p), *p.sides, published=True) for _ in range(8000)])
    error = np.sqrt(expected * (1 - expected) / len(draws))
    assert (np.abs((~draws).mean(axis=0) - expected) < Z_MAX * error).all()


@pytest.mark.parametrize("rate", [1e-8, 0.1, 1.0, 7.0])
def test_truncated_poisson_mean_and_support(rng, rate):
    draws = _truncated_poisson(rng, np.full(20_000, rate))
    assert draws.min() >= 1
    mean = rate / -np.expm1(-rate)
    variance = mean * (1 + rate - mean)
    assert abs(draws.mean() - mean) <= Z_MAX * np.sqrt(max(variance, 0.0) / len(draws)) + 1e-6


def test_stopping_early_never_changes_a_decision(problem):
    p = problem(n_rows=500, widths=(6, 6), spread=0.3)
    p.parameters[0] -= np.linspace(0, 25, 12)
    threshold = np.log(0.5)
    exact = log_inactivity(source_of(p), *p.sides)
    quick = log_inactivity(source_of(p), *p.sides, floor=threshold)
    np.testing.assert_array_equal(quick > threshold, exact > threshold)
    assert 0 < (exact > threshold).sum() < 12
    np.testing.assert_allclose(quick[exact > threshold], exact[exact > threshold], rtol=1e-12)


def test_rates_too_small_for_a_double(problem):
    """With λ → 0 exactly one expert is active: P(inactive) = 1 - share."""
    p = problem(n_rows=1, n_inputs=1, widths=(2,))
    p.codes[:], p.weights[:], p.inputs[:] = 1, 1.0, 0.0
    p.parameters[:] = [[0.0, 0.0], [-900.0, -901.0], [0.0, 0.0]]
    share = 1 / (1 + np.exp(-1.0))
    result = np.exp(log_inactivity(source_of(p), *p.sides))
    np.testing.assert_allclose(result, [1 - share, share], rtol=1e-12)


@pytest.mark.parametrize(("widths", "labelling"), LABELLINGS)
def test_likelihood_pass_agrees_with_the_objective(problem, widths, labelling):
    p = problem(n_rows=300, widths=widths, labelling=labelling)
    likelihood = log_likelihoods(source_of(p), *p.sides)
    value, _ = loss_and_gradient(*p.rows, p.parameters, p.starts, MapSettings(), labelling)
    prior = penalty(p.parameters, prior_constants(MapSettings(), p.starts))
    assert prior - likelihood.sum() == pytest.approx(value, rel=1e-12)
