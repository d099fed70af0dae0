"""Gamma variates, counts and Chinese-restaurant tables follow their laws."""

import mpmath as mp
import numpy as np
import pytest
from numba import njit
from scipy import special, stats

from checks import Z_MAX, assert_cdf, assert_counts, assert_mean, assert_variance
from draws import draws, from_python, vector_draws
from pbdn.variates.counts import (
    bessel_count,
    binomial,
    choose,
    crt,
    log_rising_ratio,
    multinomial_split,
    poisson_above_ten,
    positive_poisson,
    table_distance,
)
from pbdn.variates.random_stream import gamma_at_least_one, gamma_variate, log_gamma_variate

SHAPES = [1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.999, 1.0, 1.001, 1.5, 3.0, 30.0, 1e3]
N = 400_000


# Gamma variates by shape, from 1e-6 to 1e3.


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


# Zero-truncated Poisson, binomial, multinomial split, choice of an expert.


def counted(x, top):
    return np.bincount(np.minimum(x, top).astype(int), minlength=top + 1)


@pytest.mark.parametrize("mean", [1e-3, 0.1, 0.693, 1.0, 3.0, 9.99, 10.0, 10.5, 40.0, 1e3])
def test_positive_poisson(seed, mean):
    x = draws(positive_poisson, seed, N, mean)
    assert (x >= 1).all()
    assert (x == np.floor(x)).all()
    top = int(stats.poisson.isf(1e-9, mean)) + 2
    cells = stats.poisson.pmf(np.arange(top + 1), mean) / -np.expm1(-mean)
    cells[0] = 0.0
    cells[top] = stats.poisson.sf(top - 1, mean) / -np.expm1(-mean)
    assert_counts(counted(x, top)[1:], cells[1:], f"mean {mean}")


@pytest.mark.parametrize("mean", [0.0, 1e-320, 1e-300, 1e-30, 1e-12])
def test_positive_poisson_tends_to_one(seed, mean):
    assert (draws(positive_poisson, seed, 1000, mean) == 1).all()


@pytest.mark.parametrize("mean", [1e6, 1e9, 1e12, 1e14, 1e16, 1e18])
def test_large_poisson_moments(seed, mean):
    x = draws(positive_poisson, seed, N, mean)
    assert_mean((x - mean) / np.sqrt(mean), 0.0, 1.0)
    assert_variance((x - mean) / np.sqrt(mean), 1.0, 1 / mean)


def test_poisson_above_ten(seed):
    for mean in (10.0, 25.0):
        top = int(stats.poisson.isf(1e-9, mean)) + 2
        cells = stats.poisson.pmf(np.arange(top + 1), mean)
        cells[top] = stats.poisson.sf(top - 1, mean)
        assert_counts(counted(draws(poisson_above_ten, seed, N, mean), top), cells)


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, 0.3),
        (5, 0.5),
        (20, 0.02),
        (20, 0.97),
        (40, 0.25),
        (40, 0.6),
        (200, 0.5),
        (1000, 0.011),
        (300, 0.9),
    ],
)
def test_binomial(seed, n, p):
    x = draws(binomial, seed, N, n, p)
    assert_counts(counted(x, n), stats.binom.pmf(np.arange(n + 1), n, p))


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1e6, 1e-7),
        (1e9, 0.3),
        (1e12, 1e-6),
        (1e12, 0.5),
        (1e13, 1e-12),
        (1e14, 0.9),
        (1e16, 1e-14),
        (1e17, 0.3),
    ],
)
def test_large_binomial_moments(seed, n, p):
    x = draws(binomial, seed, N, n, p)
    assert ((x >= 0) & (x <= n)).all()
    variance = n * p * (1 - p)
    assert_mean((x - n * p) / np.sqrt(variance), 0.0, 1.0)
    assert_variance((x - n * p) / np.sqrt(variance), 1.0, (1 - 6 * p * (1 - p)) / variance)


def test_binomial_edges(seed):
    assert (draws(binomial, seed, 100, 0, 0.5) == 0).all()
    assert (draws(binomial, seed, 100, 7, 0.0) == 0).all()
    assert (draws(binomial, seed, 100, 7, 1.0) == 7).all()


@njit
def split(stream, total, mass):
    counts = np.empty(mass.shape[0])
    multinomial_split(stream, total, mass, counts)
    return counts


@pytest.mark.parametrize("total", [1.0, 3.0, 8.0, 30.0])
def test_multinomial_cells(seed, total):
    """Every part is binomial, and parts are negatively correlated as a multinomial's are."""
    mass = np.array([0.5, 0.0, 3.0, 1.5])
    p = mass / mass.sum()
    x = vector_draws(split, seed, 200_000, 4, total, mass)
    assert (x.sum(1) == total).all()
    assert (x[:, 1] == 0).all()
    for k in (0, 2, 3):
        assert_counts(counted(x[:, k], int(total)), stats.binom.pmf(np.arange(total + 1), int(total), p[k]))
    product = (x[:, 0] - total * p[0]) * (x[:, 2] - total * p[2])
    z = (product.mean() + total * p[0] * p[2]) / (product.std() / np.sqrt(len(product)))
    assert abs(z) < Z_MAX


@pytest.mark.parametrize("total", [1e6, 1e12])
def test_multinomial_moments_of_large_totals(seed, total):
    mass = np.array([1.0, 1e-9, 2.0, 3.0]) * 1e-200
    p = mass / mass.sum()
    x = vector_draws(split, seed, 100_000, 4, total, mass)
    assert (x.sum(1) == total).all()
    for k in (0, 2, 3):
        variance = total * p[k] * (1 - p[k])
        assert_mean((x[:, k] - total * p[k]) / np.sqrt(variance), 0.0, 1.0)
        assert_variance((x[:, k] - total * p[k]) / np.sqrt(variance), 1.0, (1 - 6 * p[k] * (1 - p[k])) / variance)


@njit
def chosen(stream, mass):
    return np.array([float(choose(stream, mass, mass.sum()))])


def test_choose(seed):
    mass = np.array([0.0, 1.0, 0.0, 5.0, 1e-3, 0.0])
    x = vector_draws(chosen, seed, 400_000, 1, mass)[:, 0]
    observed = np.bincount(x.astype(int), minlength=6)
    assert (observed[mass == 0] == 0).all()
    assert_counts(observed[mass > 0], (mass / mass.sum())[mass > 0])


def test_choose_with_subnormal_mass(seed):
    mass = np.array([0.0, 1e-310, 3e-310])
    x = vector_draws(chosen, seed, 100_000, 1, mass)[:, 0]
    assert_counts(np.bincount(x.astype(int), minlength=3)[1:], np.array([0.25, 0.75]))


# Chinese-restaurant tables and the distances at which they opened.


def crt_pmf(n, a):
    """Exact law: the convolution of Bernoulli(a / (a + j - 1)), j = 1..n."""
    law = np.array([1.0])
    for p in a / (a + np.arange(n)):
        law = np.convolve(law, [1 - p, p])
    return law


@pytest.mark.parametrize(
    ("n", "a"),
    [
        (2, 0.1),
        (3, 2.0),
        (7, 0.3),
        (64, 0.5),
        (65, 0.5),
        (66, 3.0),
        (150, 1e-3),
        (300, 0.7),
        (300, 10.0),
        (2000, 1.0),
    ],
)
def test_crt_law(seed, n, a):
    x = draws(crt, seed, 200_000, n, a)
    law = crt_pmf(n, a)
    top = int(x.max()) + 1
    cells = np.append(law[:top], law[top:].sum())
    assert_counts(np.bincount(x.astype(int), minlength=top + 1), cells, f"n {n}, a {a}")


@pytest.mark.parametrize("a", [1e-6, 1e-3, 0.05, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("n", [1e2, 1e4, 1e6, 1e9, 1e12])
def test_crt_moments(seed, n, a):
    """Mean a (ψ(a+n) - ψ(a)), variance mean + a² (ψ'(a+n) - ψ'(a))."""
    size = int(min(100_000, 2e6 / (10 + a * np.log(n))))
    x = draws(crt, seed, size, n, a)
    assert ((x >= 1) & (x <= n)).all()
    if a < 1e-3:  # 1 + Bernoulli sums of tiny probability
        x = x - 1
        tail = float(mp.digamma(a + n) - mp.digamma(1 + a)) * a
        assert_mean(x, tail, tail)
        return
    mean = a * float(mp.digamma(a + n) - mp.digamma(a))
    variance = mean + a * a * float(mp.psi(1, a + n) - mp.psi(1, a))
    p = a / (a + np.arange(min(n, 1e5)))
    fourth = np.sum(p * (1 - p) * (1 - 6 * p * (1 - p))) + max(0.0, variance - np.sum(p * (1 - p)))
    assert_mean(x, mean, variance)
    assert_variance(x, variance, fourth)


def test_crt_edges(seed):
    assert (draws(crt, seed, 100, 0, 0.5) == 0).all()
    assert (draws(crt, seed, 1000, 1, 0.5) == 1).all()
    assert (draws(crt, seed, 1000, 1e12, 1e-300) == 1).all()
    assert (draws(crt, seed, 100, 50, 1e300) == 50).all()


@pytest.mark.parametrize("a", [1e-3, 0.3, 1.0, 7.0, 60.0, 999.0, 1e4, 1e7])
@pytest.mark.parametrize("t", [1.0, 64.0, 1e3, 999_999.0, 1e6, 1e9, 1e12])
def test_log_rising_ratio(t, a):
    with mp.workdps(50):
        exact = mp.loggamma(mp.mpf(t) + mp.mpf(a)) - mp.loggamma(mp.mpf(t))
        assert abs(from_python(log_rising_ratio)(t, a) - exact) < 2e-12 + 1e-15 * exact + 1e-15 * t * np.log(t) * (
            t < 1e3
        )


@pytest.mark.parametrize("psi", [-800.0, -300.0, -30.0, -3.0, 0.0, 2.0, 30.0, 300.0, 800.0])
def test_table_distance(seed, psi):
    """P(η ≤ t) = s(t) / s(ψ) for t ≤ ψ; where s underflows, ψ - η is exponential."""
    high = np.logaddexp(0.0, psi)
    if high < 1e-290:
        assert (np.isfinite(draws(table_distance, seed, 1000, 0.0, high))).all()
        return
    eta = draws(table_distance, seed, 400_000, 0.0, high)
    assert np.isfinite(eta).all()
    assert (eta <= psi + 1e-12 * abs(psi)).all()
    points = np.quantile(eta, np.linspace(1e-3, 1 - 1e-3, 999))
    assert_cdf(eta, points, np.logaddexp(0.0, points) / high)


def test_table_distance_in_an_interval(seed):
    low, high = np.logaddexp(0.0, -1.0), np.logaddexp(0.0, 2.0)
    eta = draws(table_distance, seed, 400_000, low, high)
    assert eta.min() > -1
    assert eta.max() < 2
    points = np.linspace(-1, 2, 500)
    assert_cdf(eta, points, (special.log1p(np.exp(points)) - low) / (high - low))


# Numbers of parts of an amount.


@pytest.mark.parametrize("z", [1e-4, 0.5, 2.0, 40.0, 1e4])
def test_bessel_count(seed, z):
    x = draws(bessel_count, seed, N, z)
    top = int(np.sqrt(z) + 12 * (1 + z**0.25))
    n = np.arange(1, top + 1)
    mass = np.exp(n * np.log(z) - special.gammaln(n + 1) - special.gammaln(n) - np.log(z) / 2 - 2 * np.sqrt(z))
    assert_counts(counted(x, top)[1:], mass / mass.sum())
    assert (x >= 1).all()


def test_bessel_count_at_the_ends(seed):
    assert (draws(bessel_count, seed, 100, 0.0) == 1).all()
    x = draws(bessel_count, seed, 2_000, 1e12)  # mean √z + ¼, variance √z / 2
    assert_mean((x - 1e6 - 0.25) / np.sqrt(5e5), 0.0, 1.0)
