"""The compiled loss of a layer and its gradient: of classes, and of values on a line."""

import numpy as np
import pytest

from pbdn.data.row_source import ArraySource
from pbdn.model.labelling import (
    BEFORE,
    EXACT,
    INTERVAL,
    NOTHING,
    SECOND_CLASS,
    flipped,
    for_and_against_each_class,
    for_each_class,
    kinds_of,
)
from pbdn.model.likelihood import log_likelihood
from pbdn.model.network import Layer, Side, climb, inputs_above
from pbdn.model.timed import side_arrays, side_log_likelihood
from pbdn.sgd.joint_training import Packed, network_loss_and_gradient
from pbdn.sgd.kernel_arguments import BLOCK
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import loss_and_gradient, pack, unpack
from pbdn.sgd.pruning import log_inactivity, log_likelihoods
from pbdn.sgd.timed_sides import TIME_PRECISION

PAPER = MapSettings(prior_on="log_weight", shrinkage="student_t")  # the objective as the paper prints it
CONFIGS = [
    PAPER,
    MapSettings(),
    MapSettings(prior_on="log_weight", shrinkage="student_t", mass=2.5, inv_scale=0.3, coef_shape=0.7, coef_rate=0.2),
]


def reference(p, config, scale=1.0):
    """f written out in NumPy from the formula, one side at a time."""
    total = 0.0
    for side, yes in zip(unpack(p.parameters, p.starts), p.labelling.targets(p.codes).T, strict=True):
        log_weights = np.log(side.expert_weights)
        power = config.mass / side.n_experts - (config.prior_on == "weight")
        total += (-power * log_weights + config.inv_scale * side.expert_weights).sum()
        shape = config.coef_shape + (0.5 if config.shrinkage == "student_t" else 0.0)
        total += shape * np.log1p(side.hyperplanes**2 / (2 * config.coef_rate)).sum()
        rows = log_likelihood(side.rate(p.inputs), yes)
        total -= scale * (p.weights * rows).sum()
    return total


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("widths", [(4,), (3, 5), (1, 2, 6, 3)])
def test_value_is_the_formula(problem, config, widths):
    p = problem(widths=widths)
    value, _ = loss_and_gradient(*p.rows, p.parameters, p.starts, config, p.labelling, scale=3.0)
    assert value == pytest.approx(reference(p, config, 3.0), rel=1e-12)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("widths", [(4,), (3, 5), (1, 2, 6, 3)])
def test_gradient_is_the_finite_difference(problem, config, widths):
    p = problem(widths=widths)
    _, gradient = loss_and_gradient(*p.rows, p.parameters, p.starts, config, p.labelling)
    step = 1e-5
    for place in np.ndindex(p.parameters.shape):
        ends = []
        for sign in (-2, -1, 1, 2):
            moved = p.parameters.copy()
            moved[place] += sign * step
            ends.append(loss_and_gradient(*p.rows, moved, p.starts, config, p.labelling)[0])
        slope = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step)
        tolerance = 1e-6 if config.coef_rate > 1e-3 else 1e-4  # near 0 the default penalty bends within 1e-3
        assert gradient[place] == pytest.approx(slope, rel=tolerance, abs=2e-6 * np.abs(gradient).max())


def test_gradient_is_the_one_of_autograd(problem):
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    p = problem(n_rows=200, widths=(6, 9, 4))
    config = PAPER
    value, gradient = loss_and_gradient(*p.rows, p.parameters, p.starts, config, p.labelling, scale=7.0)
    parameters = torch.tensor(p.parameters, requires_grad=True)
    inputs, weights = torch.tensor(p.inputs), torch.tensor(p.weights)
    total = torch.zeros((), dtype=torch.float64)
    for s, (a, b) in enumerate(zip(p.starts[:-1], p.starts[1:], strict=True)):
        log_weight, planes = parameters[0, a:b], parameters[1:, a:b]
        rate = torch.logaddexp(inputs @ planes[1:] + planes[0], torch.zeros(1)) @ log_weight.exp()
        rows = torch.where(torch.tensor(p.codes == s), -torch.log(-torch.expm1(-rate)), rate)
        total = total + 7.0 * (weights * rows).sum()
        total = total + (-config.mass / (b - a) * log_weight + config.inv_scale * log_weight.exp()).sum()
        total = total + config.coef_power * torch.log1p(planes**2 / (2 * config.coef_rate)).sum()
    total.backward()
    assert value == pytest.approx(float(total.detach()), rel=1e-12)
    np.testing.assert_allclose(gradient, parameters.grad.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_inputs", [1, 2, 3, 4, 9, 34])
@pytest.mark.parametrize("n_rows", [1, 2, 5, 64])
def test_csr_rows_equal_dense_rows(problem, n_rows, n_inputs):
    p = problem(n_rows=n_rows, n_inputs=n_inputs)
    dense = loss_and_gradient(*p.rows, p.parameters, p.starts, PAPER, p.labelling)
    sparse = loss_and_gradient(p.csr, p.codes, p.weights, p.parameters, p.starts, PAPER, p.labelling)
    assert sparse[0] == pytest.approx(dense[0], rel=1e-13)
    np.testing.assert_allclose(sparse[1], dense[1], rtol=1e-11, atol=1e-11)


def test_a_weight_is_a_number_of_copies(problem, rng):
    p = problem()
    copies = rng.integers(0, 4, len(p.codes))
    repeated = np.repeat(np.arange(len(p.codes)), copies)
    weighted = loss_and_gradient(p.inputs, p.codes, copies.astype(float), p.parameters, p.starts, PAPER, p.labelling)
    copied = loss_and_gradient(
        p.inputs[repeated], p.codes[repeated], np.ones(len(repeated)), p.parameters, p.starts, PAPER, p.labelling
    )
    assert weighted[0] == pytest.approx(copied[0], rel=1e-13)
    np.testing.assert_allclose(weighted[1], copied[1], rtol=1e-11, atol=1e-11)


def test_many_sides_equal_their_sum(problem):
    """More experts than fit in one block: groups of sides; each side alone gives its own share."""
    widths = (7,) * (2 * BLOCK // 7) + (BLOCK + 5,)
    p = problem(widths=widths)
    value, gradient = loss_and_gradient(*p.rows, p.parameters, p.starts, PAPER, p.labelling)
    total = 0.0
    for s, (a, b) in enumerate(zip(p.starts[:-1], p.starts[1:], strict=True)):
        one = np.array([0, b - a])
        part = np.ascontiguousarray(p.parameters[:, a:b])
        alone = loss_and_gradient(p.inputs, (p.codes == s).astype(int), p.weights, part, one, PAPER, SECOND_CLASS)
        total += alone[0]
        np.testing.assert_allclose(gradient[:, a:b], alone[1], rtol=1e-10, atol=1e-10)
    assert value == pytest.approx(total, rel=1e-12)


def test_a_side_against_a_class_is_a_side_on_flipped_labels(problem):
    """Six sides for and against three classes give what each gives alone on its own labels."""
    width = 2
    p = problem(n_rows=60, n_inputs=4, widths=(width,) * 6, spread=1.0, labelling=for_and_against_each_class(3))
    config = MapSettings(shrinkage="student_t", coef_shape=0.5, coef_rate=1.0)
    value, gradient = loss_and_gradient(*p.rows, p.parameters, p.starts, config, p.labelling)
    source = ArraySource(p.inputs, p.codes, classes=range(3), weights=p.weights)
    likelihood, inactive = log_likelihoods(source, *p.sides), log_inactivity(source, *p.sides)
    total, alone = 0.0, np.array([0, width])
    for s, yes in enumerate([p.codes == 0, p.codes == 1, p.codes == 2, p.codes != 0, p.codes != 1, p.codes != 2]):
        columns = slice(width * s, width * (s + 1))
        part, own_labels = np.ascontiguousarray(p.parameters[:, columns]), yes.astype(int)
        one, slope = loss_and_gradient(p.inputs, own_labels, p.weights, part, alone, config, SECOND_CLASS)
        own = ArraySource(p.inputs, own_labels, classes=range(2), weights=p.weights)
        side = part, alone, SECOND_CLASS.positive
        total += one
        np.testing.assert_allclose(gradient[:, columns], slope, rtol=1e-12)
        np.testing.assert_allclose(likelihood[s], log_likelihoods(own, *side)[0], rtol=1e-12)
        np.testing.assert_allclose(inactive[columns], log_inactivity(own, *side), rtol=1e-9)
    np.testing.assert_allclose(value, total, rtol=1e-12)


@pytest.mark.parametrize("exponent", [-300, -290, -100, -10, 0, 2])
def test_positive_rows_at_extreme_rates(exponent):
    """λ = 10^exponent from one expert: f = -ln(1 - e^{-λ}), ∂f/∂ln r = -λ/(e^λ - 1)."""
    rate = 10.0**exponent
    parameters = np.array([[np.log(rate / np.log(2.0))], [0.0], [0.0]])
    config = MapSettings(coef_shape=1e-9, prior_on="log_weight")
    value, gradient = loss_and_gradient(
        np.zeros((1, 1)), np.array([1]), np.ones(1), parameters, np.array([0, 1]), config, SECOND_CLASS
    )
    weight = np.exp(parameters[0, 0])
    expected = -parameters[0, 0] + weight - np.log(-np.expm1(-rate))
    assert value == pytest.approx(expected, rel=1e-12)
    slope = -1.0 + weight - (rate / np.expm1(rate) if rate > 1e-15 else 1.0)
    assert gradient[0, 0] == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("distance", [-5000.0, -800.0, -700.0])
def test_rates_too_small_for_a_double_still_have_a_gradient(distance):
    """One positive row far outside every hyperplane: λ ≈ r e^ψ underflows, but -ln λ and its slope do not."""
    parameters = np.array([[0.3, -2.0], [distance, distance - 1.0], [0.0, 0.0]])
    config = MapSettings(prior_on="log_weight", coef_shape=1e-12, coef_rate=1.0)
    value, gradient = loss_and_gradient(
        np.zeros((1, 1)), np.array([1]), np.ones(1), parameters, np.array([0, 2]), config, SECOND_CLASS
    )
    prior = (-0.5 * parameters[0] + np.exp(parameters[0])).sum()
    log_rates = parameters[0] + parameters[1]
    assert value == pytest.approx(prior - np.logaddexp(*log_rates), rel=1e-9)
    shares = np.exp(log_rates - np.logaddexp(*log_rates))
    np.testing.assert_allclose(gradient[1], -shares, rtol=1e-8)


@pytest.mark.parametrize("exponent", [10, 150, 300])
def test_negative_rows_at_huge_rates(exponent):
    parameters = np.array([[exponent * np.log(10.0)], [0.0], [0.0]])
    value, gradient = loss_and_gradient(
        np.zeros((1, 1)), np.array([0]), np.ones(1), parameters, np.array([0, 1]), PAPER, SECOND_CLASS
    )
    expected = 10.0**exponent * (1 + np.log(2.0)) - exponent * np.log(10.0)
    assert value == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(gradient).all()


def test_rows_of_weight_zero_say_nothing_however_extreme():
    parameters = np.array([[0.0], [0.0], [1.0]])
    inputs = np.array([[-1e200], [1e200], [0.5]])
    args = (parameters, np.array([0, 1]), PAPER, SECOND_CLASS)
    with_them = loss_and_gradient(inputs, np.array([1, 0, 1]), np.array([0.0, 0.0, 1.0]), *args)
    without = loss_and_gradient(inputs[2:], np.array([1]), np.ones(1), *args)
    assert with_them[0] == without[0]
    np.testing.assert_allclose(with_them[1], without[1], rtol=1e-14)


def test_packing_round_trips(problem):
    p = problem(widths=(2, 4, 1))
    parameters, starts = pack(unpack(p.parameters, p.starts))
    np.testing.assert_array_equal(starts, p.starts)
    np.testing.assert_allclose(parameters, p.parameters, rtol=1e-14)


# Values on a line: the loss of every kind of statement, its gradient, and the law that it is of.

TIMED = MapSettings(shrinkage="student_t", coef_shape=1.5, coef_rate=3.0, mass=2.0, inv_scale=0.4)
PAIR = for_each_class(2)
INF = np.inf
KINDS = {
    "exact": (EXACT, lambda u: (u, u)),
    "nothing before": (NOTHING, lambda u: (u, np.full_like(u, INF))),
    "something before": (BEFORE, lambda u: (np.full_like(u, -INF), u)),
    "interval": (INTERVAL, lambda u: (u - 0.4, u + 0.3)),
    "exact, with a limit": (EXACT, lambda u: (u, u, u - np.where(u > 0.0, 0.7, INF))),
    "interval, with a limit": (INTERVAL, lambda u: (u - 0.4, u + 0.3, np.where(u > 0.0, u - 0.4, -INF))),
    "nothing between a limit and": (NOTHING, lambda u: (u, np.full_like(u, INF), u - 0.2)),
}


def network(rng, X, depth):
    layers: list[Layer] = []
    for _ in range(depth):
        n_inputs = inputs_above(layers, X).shape[1]
        sides = []
        for k in rng.integers(1, 4, 2):
            planes = 0.5 * rng.normal(size=(k, n_inputs + 1))
            sides.append(Side(planes, rng.gamma(2.0, size=k), rng.gamma(2.0, size=k)))
        layers.append(Layer(tuple(sides)))
    return layers


def case(rng, kind, depth=3, n_rows=150):
    X = rng.normal(size=(n_rows, 3))
    bounds = np.column_stack(KINDS[kind][1](rng.normal(size=n_rows)))
    return X, bounds, rng.gamma(2.0, size=n_rows), network(rng, X, depth)


def own_loss(layers, t, X, bounds, weights):
    """Loss of the sides of layer t on its inputs, without penalties."""
    inputs = list(climb(layers, X))[t]
    sides = side_arrays(layers[t], inputs)
    return -sum(
        weights @ side_log_likelihood(side, b) for side, b in zip(sides, (bounds, flipped(bounds)), strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_statements(rng, kind):
    _, bounds, _, _ = case(rng, kind)
    assert set(kinds_of(bounds)) == {KINDS[kind][0]}
    np.testing.assert_array_equal(flipped(flipped(bounds)), bounds)


@pytest.mark.parametrize("kind", KINDS)
def test_value_is_the_likelihood_of_the_top_layer(rng, kind):
    X, bounds, weights, layers = case(rng, kind)
    value, _ = network_loss_and_gradient(X, bounds, weights, layers, PAIR, TIMED)
    prior, _ = network_loss_and_gradient(X, bounds, np.zeros(len(X)), layers, PAIR, TIMED)
    assert value - prior == pytest.approx(own_loss(layers, 2, X, bounds, weights), rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_values_on_a_line_is_the_finite_difference(rng, kind):
    """Of the top layer's loss; by ln r and ln τ of a lower layer, of that layer's own."""
    X, bounds, weights, layers = case(rng, kind)
    _, gradients = network_loss_and_gradient(X, bounds, weights, layers, PAIR, TIMED)
    _, priors = network_loss_and_gradient(X, bounds, np.zeros(len(X)), layers, PAIR, TIMED)
    packed = Packed.of(layers, X.shape[1], PAIR, TIMED)
    found = np.concatenate([(g - p).ravel() for g, p in zip(gradients, priors, strict=True)])
    first, n_units = packed.stack.first, packed.stack.n_units
    owner = np.full(packed.parameters.size, 2)
    for t in range(3):
        owner[first[t] : first[t] + n_units[t]] = t
    owner[first[-1] :] = np.repeat(np.arange(3), n_units)

    def loss(j, step):
        moved = packed.parameters.copy()
        moved[j] += step
        return own_loss(packed._replace(parameters=moved).layers(), owner[j], X, bounds, weights)

    expected = np.array([(loss(j, 1e-5) - loss(j, -1e-5)) / 2e-5 for j in range(packed.parameters.size)])
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-5)


def test_prior_of_the_time_coefficients(rng):
    X, bounds, _, layers = case(rng, "exact", depth=1)
    _, (_, by_times) = network_loss_and_gradient(X, bounds, np.zeros(len(X)), layers, PAIR, TIMED)
    coefs = np.concatenate([side.time_coefs for side in layers[0].sides])
    np.testing.assert_allclose(by_times, TIME_PRECISION * np.log(coefs), rtol=1e-12)
