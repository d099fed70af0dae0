"""Chinese-restaurant tables and the distances at which they opened."""

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from checks import assert_cdf, assert_counts, assert_mean, assert_variance
from draws import draws, from_python
from pbdn.variates.crt import crt, log_rising_ratio, table_distance


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
