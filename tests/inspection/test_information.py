"""Information criteria from posterior draws against direct computations."""

import numpy as np
import pytest
from scipy.special import logsumexp

from estimators.small import blobs, fitted, small
from pbdn.inspection.information import pointwise_log_likelihood, psis_loo, waic


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
