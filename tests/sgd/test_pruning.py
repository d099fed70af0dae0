import numpy as np
import pytest
from map_problems import labelling_of

from checks import Z_MAX
from pbdn.data.row_source import ArraySource
from pbdn.model.labelling import for_and_against_each_class
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import loss_and_gradient, penalty, prior_constants, unpack
from pbdn.sgd.pruning import _truncated_poisson, draw_activity, log_inactivity, log_likelihoods

LABELLINGS = [
    ((4,), labelling_of(1)),
    ((3, 5), labelling_of(2)),
    ((2, 1, 3), labelling_of(3)),
    ((2, 1, 3, 2, 4, 1), for_and_against_each_class(3)),
]


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
