"""Elementary functions, the softplus, the Bernoulli-Poisson link and small products against references."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
from numba import njit

from draws import from_python
from pbdn.numerics import elementary
from pbdn.numerics.products import padded, product
from pbdn.numerics.softplus import (
    LOG_TINY,
    inverse_softplus,
    inverse_softplus_in_loops,
    log_event_probability,
    log_event_probability_and_slope,
    log_event_probability_in_loops,
    log_logistic,
    log_softplus,
    logistic,
    shifted_rates,
    softplus,
    softplus_block,
    softplus_lanes,
    softplus_logistic,
    softplus_only,
)

CASES = {
    "exp_negative": (lambda x: mp.exp(x), -np.geomspace(1e-18, 699, 600)),
    "log_positive": (
        lambda x: mp.log(x),
        np.r_[np.geomspace(1e-307, 1e307, 500), 1 - 2.0**-53, 1 + 2.0**-52, 1 - 1e-9, np.sqrt(0.5), np.sqrt(2), 0.7072],
    ),
    "one_minus_exp": (lambda x: -mp.expm1(-x), np.r_[np.geomspace(1e-300, 800, 500), 0.35, np.nextafter(0.35, 0)]),
    "minus_log_one_minus": (
        lambda x: -mp.log1p(-x),
        np.r_[np.geomspace(1e-300, 0.5, 300), 0.5, np.linspace(0.5, 1 - 2.0**-53, 200)],
    ),
    "sine_quarter": (lambda x: mp.sin(mp.pi / 2 * x), np.r_[np.geomspace(1e-300, 1, 500), 1 - 2.0**-53]),
    "atanh_ratio": (lambda q: mp.atanh(mp.sqrt(q)) / mp.sqrt(q), np.geomspace(1e-30, 1 / 9, 300)),
    "atanh_ratio_fitted": (lambda q: mp.atanh(mp.sqrt(q)) / mp.sqrt(q), np.geomspace(1e-30, 1 / 9, 300)),
}
RATES = np.concatenate([10.0 ** np.linspace(-300, 2.8, 4000), np.linspace(0.3, 1.2, 2000)])


# Run straight-line functions of one number over an array, as vectorised loops do.


@cache
def in_loop(function):
    """A Python function of an array from a compiled function of one number."""

    @njit(fastmath={"contract"}, error_model="numpy")
    def loop(x, out):
        for j in range(x.size):
            out[j] = function(x[j])

    def run(x):
        out = np.empty(x.size)
        loop(x, out)
        return out

    return run


# Vectorised elementary functions against multiple-precision values, at the ends of their ranges too.


@pytest.mark.parametrize("name", CASES)
def test_to_the_last_places(name):
    exact, x = CASES[name]
    found = in_loop(getattr(elementary, name))(x)
    with mp.workdps(40):
        error = max(abs(mp.mpf(float(f)) / exact(mp.mpf(float(v))) - 1) for f, v in zip(found, x, strict=True))
    assert error < 2e-15, float(error)


def test_floor_of_the_exponential():
    """Below -700 the value stays that of -700: positive, and never the bits of an overflowed exponent."""
    assert (in_loop(elementary.exp_negative)(np.array([-700.0, -701.0, -1e300, -np.inf])) == np.exp(-700.0)).all()


def test_exponential_keeps_nan_visible():
    assert np.isnan(in_loop(elementary.exp_negative)(np.array([np.nan]))).all()


def test_unit_interval_is_open():
    @njit
    def loop(words, out):
        for j in range(words.size):
            out[j] = elementary.unit_interval(words[j])

    words, out = np.array([0, 2**64 - 1, 2**63], np.uint64), np.empty(3)
    loop(words, out)
    assert 0 < out[0] < 1e-15
    assert 1 - 1e-15 < out[1] < 1
    assert abs(out[2] - 0.5) < 1e-15


# Softplus, logistic and their inverses against multiple-precision values, one by one and in loops.


def exact(function, values):
    with mp.workdps(40):
        return np.array([float(function(mp.mpf(float(v)))) for v in values])


def both(psi):
    x, soft, slope = np.zeros((3, padded(psi.size)))
    x[: psi.size] = psi
    from_python(softplus_logistic)(psi.size, x, soft, slope)
    return soft[: psi.size], slope[: psi.size]


def test_softplus_of_eight_numbers():
    x = np.concatenate(
        [np.linspace(-690, 800, 4001), np.linspace(-40, 40, 4001), [0.0, -1e-300, 1e-300, 1e200, -5.0, 5.0]]
    )
    assert x.size % 8 == 0
    out = np.empty_like(x)

    @njit
    def run(x, bias, out):
        for j in range(0, x.size, 8):
            softplus_lanes(x.ctypes.data + 8 * j, bias, out.ctypes.data + 8 * j)

    for bias in (0.0, 0.5):
        run(x, bias, out)
        np.testing.assert_allclose(out, exact(lambda v: mp.log1p(mp.exp(v)), x + bias), rtol=1e-15)
    run(np.array([-1e3, -1e200, -701.0, -745.0, -750.0, -1e4, -1e5, -1e6]), 0.0, out)
    assert (out[:8] < 1e-303).all()


def test_softplus_block():
    x = np.concatenate(
        [np.linspace(-745, 800, 4001), np.linspace(-40, 40, 4001), [0.0, -1e-300, 1e-300, -699.9, 1e3, -1e3]]
    )
    x = x[: len(x) // 4 * 4].reshape(-1, 4)
    out = np.empty_like(x)
    njit(lambda x, n, out: softplus_block(x, n, out))(x, len(x), out)
    expected = exact(lambda v: mp.log1p(mp.exp(v)), x.ravel()).reshape(x.shape)
    inside = x > -700
    assert np.max(np.abs(out[inside] / expected[inside] - 1)) < 1e-15
    assert ((out[~inside] > 0) & (out[~inside] < 1e-303)).all()
    one = from_python(softplus)
    assert max(abs(one(v) / e - 1) for v, e in zip(x.ravel(), expected.ravel(), strict=True) if v > -700) < 1e-15


def test_logistic_of_one_number():
    x = np.r_[np.linspace(-700, 700, 501), np.linspace(-3, 3, 99), 0.0, 1e-300, -1e-300]
    one = from_python(logistic)
    found = np.array([one(v) for v in x])
    np.testing.assert_allclose(found, exact(lambda v: 1 / (1 + mp.exp(-v)), x), rtol=1e-15)


def test_logarithms_where_the_values_underflow():
    x = np.r_[np.linspace(-1e4, 700, 501), np.linspace(-40, -30, 201)]
    soft, slope = both(x)
    log_soft, log_slope = from_python(log_softplus), from_python(log_logistic)
    found = np.array([log_soft(v, s) for v, s in zip(x, soft, strict=True)])
    np.testing.assert_allclose(found, exact(lambda v: mp.log(mp.log1p(mp.exp(v))), x), rtol=1e-15, atol=1e-15)
    found = np.array([log_slope(v, s) for v, s in zip(x, slope, strict=True)])
    np.testing.assert_allclose(found, exact(lambda v: -mp.log1p(mp.exp(-v)), x), rtol=1e-15, atol=2e-16)


def test_softplus_and_logistic_to_the_last_digits(rng):
    psi = np.concatenate([np.linspace(-699, 699, 4001), 10.0 ** np.linspace(-300, 2, 500), rng.normal(size=500)])
    psi = np.concatenate([psi, -psi])
    soft, slope = both(psi)
    np.testing.assert_allclose(soft, exact(lambda v: mp.log1p(mp.exp(v)), psi), rtol=1e-15)
    np.testing.assert_allclose(slope, exact(lambda v: 1 / (1 + mp.exp(-v)), psi), rtol=1e-15)
    psi = psi[: psi.size // 8 * 8]
    alone = np.empty_like(psi)
    from_python(softplus_only)(psi.size, psi, alone)
    np.testing.assert_array_equal(alone, soft[: psi.size])


def test_softplus_beyond_the_exponential_range():
    psi = np.array([-1e308, -5e4, -709.0, 709.0, 5e4, 1e308])
    soft, slope = both(psi)
    np.testing.assert_array_equal(soft[3:], psi[3:])
    np.testing.assert_array_equal(slope[3:], 1.0)
    assert ((soft[:3] > 0) & (soft[:3] < 1e-303)).all()
    assert ((slope[:3] > 0) & (slope[:3] < 1e-303)).all()


def test_softplus_keeps_nan_visible():
    soft, slope = both(np.array([np.nan]))
    assert np.isnan(soft).all()
    assert np.isnan(slope).all()


@pytest.mark.parametrize("a", [1e-300, 1e-17, 1e-8, 1e-3, 0.5, 1.0, 29.999, 30.001, 100.0, 1e3, 1e12])
def test_inverse_softplus(a):
    with mp.workdps(700):
        expected = mp.log(mp.expm1(mp.mpf(a))) if a < 1e4 else mp.mpf(a)
    assert abs(from_python(inverse_softplus)(a) - float(expected)) <= 4e-16 * max(1.0, abs(float(expected)))


def test_inverse_softplus_in_loops():
    a = np.r_[np.geomspace(1e-300, 0.6, 300), np.geomspace(0.8, 700, 99)]
    found = in_loop(inverse_softplus_in_loops)(a)
    np.testing.assert_allclose(found, exact(lambda v: mp.log(mp.expm1(v)), a), rtol=2e-15)


# ln(1 - e^{-λ}) and its derivative, over all magnitudes of λ.


def exact_log_probability(rate):
    """ln(1 - e^{-λ}) in long double."""
    rate = rate.astype(np.longdouble)
    with np.errstate(divide="ignore"):
        return np.where(rate > 0.69, np.log1p(-np.exp(-rate)), np.log(-np.expm1(-rate))).astype(float)


@njit
def log_probability_and_slope(rate, log_probability, slope):
    for i in range(rate.size):
        log_probability[i], slope[i] = log_event_probability_and_slope(rate[i])


def test_value_and_slope_over_all_magnitudes():
    log_probability, slope = np.empty_like(RATES), np.empty_like(RATES)
    log_probability_and_slope(RATES, log_probability, slope)
    np.testing.assert_allclose(log_probability, exact_log_probability(RATES), rtol=2e-15, atol=1e-303)
    np.testing.assert_allclose(
        slope, (1 / np.expm1(RATES.astype(np.longdouble))).astype(float), rtol=2e-15, atol=1e-303
    )


def test_huge_rates_cost_nothing_for_positive_rows():
    rate = np.array([709.0, 1e10, 1e300])
    log_probability, slope = np.empty(3), np.empty(3)
    log_probability_and_slope(rate, log_probability, slope)
    assert (np.abs(log_probability) < 1e-300).all()
    assert ((slope >= 0) & (slope < 1e-300)).all()


def test_one_number_and_loops_agree():
    one = from_python(log_event_probability)
    np.testing.assert_allclose([one(rate) for rate in RATES], exact_log_probability(RATES), rtol=2e-15, atol=4e-13)
    np.testing.assert_allclose(
        in_loop(log_event_probability_in_loops)(RATES), exact_log_probability(RATES), rtol=2e-15, atol=3e-16
    )


def test_rates_of_nothing_have_a_floor():
    assert from_python(log_event_probability)(0.0) >= LOG_TINY
    assert in_loop(log_event_probability_in_loops)(np.zeros(1))[0] >= LOG_TINY * (1 + 1e-15)


# Block products against NumPy, for sizes that are not multiples of the block and both directions of A.


@pytest.mark.parametrize(
    ("n", "k", "depth"), [(1, 1, 1), (8, 8, 3), (100, 31, 19), (128, 42, 123), (20, 40, 7), (9, 17, 0)]
)
def test_product(rng, n, k, depth):
    rows, columns = padded(n), padded(k)
    a, b, c = rng.normal(size=(rows, depth)), rng.normal(size=(depth, columns)), np.empty((rows, columns))
    from_python(product)(rows, columns, depth, a, max(depth, 1), 1, b, columns, c, columns)
    np.testing.assert_allclose(c, a @ b, rtol=1e-13, atol=1e-13)
    turned = np.ascontiguousarray(a.T)
    from_python(product)(rows, columns, depth, turned, 1, rows, b, columns, c, columns)
    np.testing.assert_allclose(c, a @ b, rtol=1e-13, atol=1e-13)


def test_a_column_of_a_product_is_the_same_in_any_block(rng):
    """Blocks have eight, sixteen or twenty-four columns; each column has the bits that it has alone."""
    a, b, whole = rng.normal(size=(24, 57)), rng.normal(size=(57, 88)), np.empty((24, 88))
    multiply = from_python(product)
    multiply(24, 88, 57, a, 57, 1, b, 88, whole, 88)
    for at in range(0, 88, 8):
        alone, own = np.empty((24, 8)), np.ascontiguousarray(b[:, at : at + 8])
        multiply(24, 8, 57, a, 57, 1, own, 8, alone, 8)
        np.testing.assert_array_equal(whole[:, at : at + 8], alone)


def test_rates_of_shifted_distances(rng):
    distances, weights = 3.0 * rng.normal(size=(3, 24)), rng.gamma(1.0, size=3)
    for shift in (0.0, -2.5, 40.0):
        rates = np.full(24, np.nan)
        shifted_rates(distances, weights, shift, rates)
        np.testing.assert_allclose(rates, weights @ np.logaddexp(0.0, distances + shift), rtol=1e-14)
