"""Polya-Gamma variates against the exact law."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
from numba import njit
from scipy import stats

from checks import ALPHA, assert_cdf, assert_mean, assert_variance, dkw_band
from draws import draws, exact_cumulants, from_python, invert_cdf, polya_gamma_transform
from pbdn.variates.polya_gamma import (
    ENVELOPE_LIMIT,
    ONE_GAMMA,
    block_work,
    envelope_ratio,
    polya_gamma,
    polya_gamma_block,
    tail_cumulants,
)
from pbdn.variates.random_stream import open_stream, stream_buffer, stream_key

SHAPES = [
    1e-6,
    1e-3,
    1e-2,
    0.05,
    0.3,
    0.7,
    1.0,
    1.0001,
    1.5,
    2.5,
    5.0,
    20.0,
    100.0,
    300.0,
    999.0,
    1001.0,
    1e6,
    1e12,
]
TILTS = [0.0, 1e-8, 0.1, 1.0, 1.99, 2.01, 3.0, 5.0, 12.0, 40.0, 200.0, 1e3]
APPROXIMATE = [(b, c) for b in SHAPES for c in TILTS if b > 1 and b * np.exp(-c) > ENVELOPE_LIMIT]


ratio = from_python(envelope_ratio)


def exact_ratio(b, x, n_terms=400):
    """a(x) = Σ (-1)^j w_j e^{-j(j+b)/2x}, summed with 80 digits to spare."""
    with mp.workdps(200):
        b, x = mp.mpf(b), mp.mpf(x)
        total, weight = mp.mpf(1), mp.mpf(1)
        for j in range(1, n_terms):
            if j > 1:
                weight *= (j - 1 + b) / j
            term = weight * (2 * j + b) * mp.exp(-j * (j + b) / (2 * x))
            total += term if j % 2 == 0 else -term
            if term < mp.mpf(10) ** -60 and j > 2:
                return total
    raise AssertionError("the series needs more terms")


def inverse_gaussian_transform(b, c):
    """The same without the factor (1 + e^{-2z})^{-b}: IG(b/2c, b²/4)."""

    def transform(s):
        return np.exp(-b * 0.5 * s / (np.sqrt(0.25 * c * c + 0.5 * s) + 0.5 * c))

    return transform


def sampler_transform(b, c, one_gamma):
    """Transform of what the approximate branch draws: g/d₁ plus a shifted gamma (or that alone)."""
    d1 = 0.5 * np.pi**2 + 0.5 * c * c
    k1, k2, k3, _ = exact_cumulants(1.0, c)
    head = 0.0 if one_gamma else 1.0
    k1, k2, k3 = k1 - head / d1, k2 - head / d1**2, k3 - 2 * head / d1**3
    scale = 0.5 * k3 / k2
    shape = b * k2 / scale**2
    shift = b * k1 - scale * shape

    def transform(s):
        return np.exp(-head * b * np.log1p(s / d1) - s * shift - shape * np.log1p(scale * s))

    return transform, shift, head * 6 * b / d1**4 + 6 * shape * scale**4


# Polya-Gamma variates against exact cumulants, the inverted Laplace transform, and the proof of the envelope.
#
# Guaranteed: cumulants 1 to 3 to rounding everywhere, and the whole law where b ≤ 1 or b e^{-|c|} ≤ 0.7.
# Elsewhere the fourth cumulant is within 0.2 % (10 % for b ≥ 1000, below 1e-3 of the variance squared) and the
# distribution function within 7e-4, within 2e-4 for b > 1.1.


@njit
def _fill_blocks(buffer, key, b, c, out):
    size = 511
    work = block_work(np.int64(size))
    shape, distance = np.full(size, b), np.full(size, c)
    stream = open_stream(buffer, key, 0, 0, 0)
    for low in range(0, out.size, size):
        polya_gamma_block(stream, shape, distance, min(size, out.size - low), work, out[low : low + size])


def draws_in_blocks(seed, n, b, c):
    out = np.empty(n)
    _fill_blocks(stream_buffer(), stream_key(seed), float(b), float(c), out)
    return out


def draws_one_by_one(seed, n, b, c):
    return draws(polya_gamma, seed, n, b, c)


both_ways = pytest.mark.parametrize("draw", [draws_one_by_one, draws_in_blocks])


@both_ways
@pytest.mark.parametrize("b", SHAPES)
def test_moments_on_the_grid(seed, b, draw):
    """Mean and variance; for tiny b few draws carry the moments, so that the fourth cumulant widens the limits."""
    for j, c in enumerate(TILTS):
        k1, k2, _, k4 = exact_cumulants(b, c)
        x = draw(seed + j, 200_000, b, (-1) ** j * c)
        assert np.isfinite(x).all(), (b, c)
        assert (x >= 0).all(), (b, c)
        if b * x.size > 1000:  # otherwise the normal limit has not been reached
            assert_mean(x, k1, k2, f"b {b}, c {c}")
        if b * x.size > 10_000:
            assert_variance(x / np.sqrt(k2), 1.0, k4 / k2**2, f"b {b}, c {c}")


@both_ways
def test_no_shape_gives_zero_and_nan_gives_nan(seed, draw):
    assert (draw(seed, 40, 0.0, 3.0) == 0).all()
    assert np.isnan(draw(seed, 40, 0.5, np.nan)).all()
    assert np.isnan(draw(seed, 40, np.nan, 0.5)).all()


@pytest.mark.parametrize(
    ("b", "c"), [(1e-300, 0.0), (1e-300, 1e3), (1e-30, 5.0), (0.1, 1e8), (1e12, 1e8), (3.0, 1e300)]
)
@both_ways
def test_beyond_the_grid_stays_finite(seed, b, c, draw):
    x = draw(seed, 1000, b, c)
    assert np.isfinite(x).all()
    assert (x >= 0).all()


def test_inversion_is_right_for_the_inverse_gaussian():
    """The inversion itself, where the law is known."""
    for b, c in [(1e-3, 1.0), (0.05, 5.0), (1.0, 1.0), (5.0, 3.0), (300.0, 2.0)]:
        mean, shape = b / (2 * c), b * b / 4
        law = stats.invgauss(mean / shape, scale=shape)
        points = law.ppf(np.linspace(0.002, 0.998, 101))
        error = np.abs(invert_cdf(inverse_gaussian_transform(b, c), points) - law.cdf(points))
        assert error.max() < 1e-6, (b, c, error.max())


def test_inversion_is_right_for_polya_gamma():
    """PG(1, 0): the classical alternating series of its distribution function (Jacobi)."""
    points = np.linspace(0.02, 1.5, 80)
    n = np.arange(200)[:, None]
    # ω = J/4 with J = Σ 2 E_n / (π²(n-½)²), P(J > t) = (4/π) Σ (-1)^n/(2n+1) e^{-(n+½)²π²t/2}
    survival = (4 / np.pi) * np.sum(
        (-1.0) ** n / (2 * n + 1) * np.exp(-((n + 0.5) ** 2) * np.pi**2 * 2 * points), axis=0
    )
    assert np.abs(invert_cdf(polya_gamma_transform(1.0, 0.0), points) - (1 - survival)).max() < 1e-6


CELLS = [(b, c) for b in (1e-3, 0.05, 0.3, 1.0, 1.5, 2.5, 5.0, 20.0, 300.0) for c in (0.0, 1.0, 3.0, 12.0, 40.0, 1e3)]


@cache
def exact_law(b, c):
    """Points, by a few draws where the mass is, and the distribution function there."""
    points = np.quantile(draws_one_by_one(0, 20_000, b, c), np.linspace(0.001, 0.999, 199))
    return points, invert_cdf(polya_gamma_transform(b, c), points)


def check_law(seed, b, c, n, draw):
    assert_cdf(draw(seed, n, b, c), *exact_law(b, c), f"b {b}, c {c}")


@both_ways
@pytest.mark.parametrize(("b", "c"), CELLS)
def test_law(seed, b, c, draw):
    """Kolmogorov distance below 0.0045 at 400 000 draws (Dvoretzky-Kiefer-Wolfowitz at the suite's rate)."""
    check_law(seed, b, c, 400_000, draw)


@pytest.mark.statistical
@pytest.mark.parametrize(("b", "c"), CELLS)
def test_law_to_one_in_a_thousand(seed, b, c):
    check_law(seed, b, c, 10_000_000, draws_in_blocks if b < 4 else draws_one_by_one)
    assert dkw_band(10_000_000) < 0.001


@pytest.mark.statistical
@pytest.mark.parametrize("b", [1e-3, 0.05, 0.3, 1.0, 1.5, 5.0, 20.0, 300.0])
def test_moments_to_one_in_a_thousand(seed, b):
    for j, c in enumerate((0.0, 1.0, 3.0, 12.0, 40.0, 1e3)):
        k1, k2, _, k4 = exact_cumulants(b, c)
        x = draws(polya_gamma, seed + j, 10_000_000, b, c)
        assert_mean(x, k1, k2, f"b {b}, c {c}")
        assert_variance(x / np.sqrt(k2), 1.0, k4 / k2**2, f"b {b}, c {c}")


@pytest.mark.parametrize(("b", "c"), APPROXIMATE)
def test_cumulants_of_the_approximate_branch(b, c):
    """Of the law that is drawn, not of draws: three cumulants by construction, the fourth within the stated bound."""
    exact = exact_cumulants(b, c)
    one_gamma = b >= ONE_GAMMA
    _, shift, fourth = sampler_transform(b, c, one_gamma)
    assert shift >= 0, "a draw could be negative"
    assert abs(fourth / exact[3] - 1) < (0.1 if one_gamma else 2e-3)
    if one_gamma:  # what is left shows in the excess kurtosis, which is itself of order 1/b
        assert abs(fourth - exact[3]) / exact[1] ** 2 < 1e-3


@pytest.mark.parametrize(("b", "c"), [cell for cell in APPROXIMATE if cell[0] <= 1001])
def test_distance_of_the_approximate_branch(b, c):
    """Largest difference of the two distribution functions, both inverted numerically."""
    k1, k2, _, _ = exact_cumulants(b, c)
    points = k1 + np.sqrt(k2) * np.linspace(-4, 6, 241)
    points = points[points > 1e-3 * k1]
    transform, _, _ = sampler_transform(b, c, b >= ONE_GAMMA)
    distance = np.abs(invert_cdf(transform, points) - invert_cdf(polya_gamma_transform(b, c), points)).max()
    assert distance < (7e-4 if b < 1.1 else 2e-4), distance


@pytest.mark.parametrize("c", [0.0, 1e-8, 0.1, 1.0, 1.99, 1.9999999, 2.0, 2.01, 3.0, 5.0, 12.0, 28.0])
def test_tail_cumulants(c):
    d1 = 0.5 * np.pi**2 + 0.5 * c * c
    got = from_python(tail_cumulants)(c, d1)
    exact = exact_cumulants(1.0, c)
    for p, factor in ((0, 1.0), (1, 1.0), (2, 2.0)):
        with mp.workdps(30):
            tail = exact[p] - factor / d1 ** (p + 1)
        assert abs(got[p] / tail - 1) < 1e-9


@pytest.mark.parametrize("b", [1e-6, 1e-3, 0.05, 0.3, 0.7, 1.0, 1.5, 2.5, 3.9, 5.0, 20.0])
def test_envelope_claim(b):
    """0 ≤ a(x) ≤ 1, the code's a(x), its shortcuts at both ends and its two bounds."""
    for x in np.geomspace(5e-3, 9 + 2 * b, 40):
        exact = exact_ratio(b, x)
        assert -(mp.mpf(10) ** -50) <= exact <= 1
        assert abs(ratio(b, x) - float(exact)) < 1e-12 + 1e-16 * np.exp(b), (b, x)
        if x < 0.8 and b < 4:
            with mp.workdps(200):
                size, y = mp.mpf(b), mp.mpf(x)
                lower = 1 - (2 + size) * mp.exp(-(1 + size) / (2 * y))
                assert lower <= exact
                assert exact <= lower + (4 + size) * (1 + size) / 2 * mp.exp(-(2 + size) / y)
        if 72 * x < 1:
            assert 1 - exact < 1e-15
    assert exact_ratio(b, 9 + 2 * b) < 1e-10


@pytest.mark.parametrize(("one", "two", "c"), [(0.3, 0.4, 0.5), (1.0, 1.5, 1.0), (4.0, 0.01, 0.0), (2.0, 3.0, 8.0)])
def test_additivity(seed, one, two, c):
    """PG(b₁, c) + PG(b₂, c) = PG(b₁ + b₂, c) in law."""
    n = 300_000
    parts = draws(polya_gamma, seed, n, one, c) + draws(polya_gamma, seed + 1, n, two, c)
    whole = draws(polya_gamma, seed + 2, n, one + two, c)
    assert stats.ks_2samp(parts, whole, method="asymp").pvalue > ALPHA


def test_acceptance_of_the_envelope(seed):
    """The normalisation (1 + e^{-c})^b of the density: ∫ IG(x) a(x) dx is its inverse."""
    for b, c in [(0.3, 0.5), (1.0, 1.0), (1.5, 2.0)]:
        mean, shape = b / (2 * c), b * b / 4
        x = stats.invgauss(mean / shape, scale=shape).rvs(100_000, random_state=seed)
        a = np.array([1.0 if v < 0.01 else 0.0 if v > 20 else ratio(b, v) for v in x])
        expected = (1 + np.exp(-c)) ** -b
        assert_mean(a, expected, expected * (1 - expected))
