"""Zero-truncated Poisson, binomial, multinomial split, choice of an expert."""

import numpy as np
import pytest
from numba import njit
from scipy import stats
from scipy.special import gammaln

from checks import Z_MAX, assert_counts, assert_mean, assert_variance
from draws import draws, vector_draws
from pbdn.variates.poisson import (
    bessel_count,
    binomial,
    choose,
    multinomial_split,
    poisson_above_ten,
    positive_poisson,
)

N = 400_000


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


@pytest.mark.parametrize("z", [1e-4, 0.5, 2.0, 40.0, 1e4])
def test_bessel_count(seed, z):
    x = draws(bessel_count, seed, N, z)
    top = int(np.sqrt(z) + 12 * (1 + z**0.25))
    n = np.arange(1, top + 1)
    mass = np.exp(n * np.log(z) - gammaln(n + 1) - gammaln(n) - np.log(z) / 2 - 2 * np.sqrt(z))
    assert_counts(counted(x, top)[1:], mass / mass.sum())
    assert (x >= 1).all()


def test_bessel_count_at_the_ends(seed):
    assert (draws(bessel_count, seed, 100, 0.0) == 1).all()
    x = draws(bessel_count, seed, 2_000, 1e12)  # mean √z + ¼, variance √z / 2
    assert_mean((x - 1e6 - 0.25) / np.sqrt(5e5), 0.0, 1.0)
