"""Convergence and predictive diagnostics against direct computations and arviz."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import logsumexp

from estimator.small import blobs, fitted, small
from pbdn.inspection.convergence import converge, pointwise_log_likelihood, psis_loo, split_r_hat, waic
from pbdn.model.priors import Hyperpriors


@pytest.mark.parametrize("n_chains", [2, 4])
def test_r_hat_is_arvizs(n_chains, rng):
    values = np.cumsum(rng.normal(size=(n_chains, 200)), axis=1) * 0.1 + rng.normal(size=(n_chains, 200))
    expected = array_stats.rhat(values, method="rank", chain_axis=0, draw_axis=1)
    assert split_r_hat(values) == pytest.approx(float(expected), rel=1e-12)
    assert split_r_hat(np.round(values)) == pytest.approx(
        float(array_stats.rhat(np.round(values), method="rank", chain_axis=0, draw_axis=1)), rel=1e-12
    )


def test_one_chain_is_compared_with_itself(rng):
    assert split_r_hat(rng.normal(size=(1, 4000))) < 1.01
    assert split_r_hat(np.r_[rng.normal(size=500), rng.normal(size=500) + 1.0][None]) > 1.1  # level
    assert split_r_hat(np.r_[rng.normal(size=500), 3.0 * rng.normal(size=500)][None]) > 1.1  # spread
    assert split_r_hat(np.r_[np.zeros(10), np.ones(10)][None]) == np.inf  # stuck twice


def test_independent_draws_have_converged(rng):
    one = converge("x", rng.normal(size=(4, 1000)))
    assert not one.fails
    assert one.ess_wanted == 400
    assert 3000 < one.ess_bulk < 5500


def test_constant_quantities_have_converged():
    assert not converge("n_active", np.full((1, 50), 3.0)).fails


def test_drifts_few_draws_and_nan_have_not_converged(rng):
    assert converge("x", np.cumsum(rng.normal(size=(2, 500)), axis=1)).fails
    assert converge("x", rng.normal(size=(1, 5))).fails
    assert converge("x", np.array([[1.0, np.nan] * 50])).fails
    assert converge("x", rng.normal(size=(1, 60))).fails  # 60 draws cannot be worth 100


def test_limits_of_thinned_draws_are_met_by_independent_ones(rng):
    alarms = sum(converge("x", rng.normal(size=(1, 100)), thinned=True).fails for _ in range(100))
    assert alarms <= 12  # one in a hundred expected
    values = rng.normal(size=(1, 60))
    assert converge("x", values, thinned=True).ess_wanted == 12
    assert converge("x", np.repeat(values[:, :6], 10, axis=1), thinned=True).fails


def test_a_long_easy_chain_is_silent():
    """Labels that are noise, one expert and an informative prior mix well: no warning (it would be an error here)."""
    priors = Hyperpriors(
        mass_shape=20.0, mass_rate=20.0, inv_scale_shape=20.0, inv_scale_rate=20.0, coef_shape=5.0, coef_rate_shape=20.0
    )
    X, y = np.linspace(-2.0, 2.0, 60)[:, None], np.arange(60) % 2
    model = small(max_depth=1, n_sweeps=9000, n_burn_in=1000, n_draws=200, max_experts=1, priors=priors)
    model.fit(X, y)
    assert len(model.convergence_) == 22
    every_sweep = [one for one in model.convergence_ if "anchor" not in one["quantity"]]
    assert max(one["r_hat"] for one in every_sweep) <= 1.01
    assert min(one["ess_bulk"] for one in every_sweep) >= 100


def test_waic_and_loo_against_direct_computation(rng):
    X, y = blobs(rng)
    model = fitted(small(max_depth=1, n_sweeps=300, n_burn_in=100, n_draws=200), X, y)
    draws = [sides[1] for sides in model.layers_[0].draws]
    log_lik = pointwise_log_likelihood(draws, X, y == 1)
    assert log_lik.shape == (len(draws), len(y))
    p = 1.0 - np.exp(-draws[7].rate(X))
    np.testing.assert_allclose(log_lik[7], np.log(np.where(y == 1, p, 1.0 - p)), rtol=1e-6, atol=1e-12)

    value, n_effective = waic(log_lik)
    density = logsumexp(log_lik, axis=0) - np.log(len(draws))
    penalty = np.array([np.var(column, ddof=1) for column in log_lik.T])
    assert value == pytest.approx(-2.0 * (density - penalty).sum())
    assert n_effective == pytest.approx(penalty.sum())

    loo, pareto_k = psis_loo(log_lik)
    assert pareto_k.shape == (len(y),)
    # plain importance sampling estimates the same quantity; the smoothing tames its largest weights
    raw = -2.0 * (np.log(len(draws)) - logsumexp(-log_lik, axis=0))
    ratios = -log_lik - logsumexp(-log_lik, axis=0)
    calm = np.exp(ratios).max(axis=0) < 0.02  # rows without dominating draws
    assert calm.sum() > 10
    one_by_one = np.array([psis_loo(log_lik[:, [i]])[0] for i in range(len(y))])
    assert loo == pytest.approx(one_by_one.sum())
    np.testing.assert_allclose(one_by_one[calm], raw[calm], rtol=0.05)
    assert loo > -2.0 * density.sum()  # leaving rows out costs
    assert abs(loo - value) < 0.3 * value  # and WAIC estimates the same


def test_loo_of_a_gaussian_mean_is_known_exactly(rng):
    """y_i ~ N(μ, 1), flat prior: without row i the predictive is N(mean of the others, 1 + 1/(n-1))."""
    y = rng.normal(size=30)
    mu = y.mean() + rng.normal(size=(20_000, 1)) / np.sqrt(30)
    log_lik = -0.5 * np.log(2 * np.pi) - 0.5 * (y - mu) ** 2
    others = (y.sum() - y) / 29
    variance = 1.0 + 1.0 / 29
    exact = -2.0 * (-0.5 * np.log(2 * np.pi * variance) - 0.5 * (y - others) ** 2 / variance).sum()
    loo, pareto_k = psis_loo(log_lik)
    assert loo == pytest.approx(exact, abs=0.1)
    assert pareto_k.max() < 0.7
    assert waic(log_lik)[0] == pytest.approx(exact, rel=0.02)
