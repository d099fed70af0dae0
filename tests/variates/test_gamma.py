"""Gamma variates by shape, from 1e-6 to 1e3."""

import numpy as np
import pytest
from scipy import special, stats

from checks import assert_cdf, assert_mean, assert_variance
from draws import draws
from pbdn.variates.gamma import gamma_at_least_one, gamma_variate, log_gamma_variate

SHAPES = [1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.999, 1.0, 1.001, 1.5, 3.0, 30.0, 1e3]


@pytest.mark.parametrize("shape", SHAPES)
def test_law_on_the_log_scale(seed, shape):
    """P(ln G ≤ t): scipy where G is a double, G^a Γ(a+1)⁻¹ (exact as G → 0) where it underflows."""
    t = draws(log_gamma_variate, seed, 400_000, shape)
    assert np.isfinite(t).all()
    points = np.quantile(t, np.linspace(1e-3, 1 - 1e-3, 999))
    small = np.exp(np.minimum(shape * points - special.gammaln(shape + 1), 0.0))
    exact = np.where(points < -600, small, stats.gamma.cdf(np.exp(np.maximum(points, -600)), shape))
    assert_cdf(t, points, exact, f"shape {shape}")
    mean, variance = special.digamma(shape), special.polygamma(1, shape)
    assert_mean(t, mean, variance)
    assert_variance(t, variance, special.polygamma(3, shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_moments(seed, shape):
    g = draws(gamma_variate, seed, 1_000_000, shape)
    assert np.isfinite(g).all()
    assert (g >= 0).all()
    if shape >= 0.01:  # below, a million draws hold too few that matter
        assert_mean(g, shape, shape)
        assert_variance(g, shape, 6 * shape)


@pytest.mark.parametrize("shape", [1.0, 1.2, 2.0, 50.0, 1e6])
def test_at_least_one(seed, shape):
    g = draws(gamma_at_least_one, seed, 400_000, shape)
    points = stats.gamma.ppf(np.linspace(1e-4, 1 - 1e-4, 999), shape)
    assert_cdf(g, points, stats.gamma.cdf(points, shape))


@pytest.mark.parametrize("shape", [1e-300, 1e-12])
def test_tiny_shapes_stay_in_range(seed, shape):
    t = draws(log_gamma_variate, seed, 1000, shape)
    assert np.isfinite(t).all()
    assert (draws(gamma_variate, seed, 1000, shape) == 0).all()
