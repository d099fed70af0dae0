"""Softplus, logistic and their inverses against multiple-precision values, one by one and in loops."""

import mpmath as mp
import numpy as np
import pytest
from numba import njit

from draws import from_python
from numerics.loops import in_loop
from pbdn.numerics.softplus import (
    inverse_softplus,
    inverse_softplus_in_loops,
    log_logistic,
    log_softplus,
    logistic,
    softplus,
    softplus_block,
    softplus_lanes,
    softplus_logistic,
    softplus_only,
)


def exact(function, values):
    with mp.workdps(40):
        return np.array([float(function(mp.mpf(float(v)))) for v in values])


def test_softplus_of_eight_numbers():
    x = np.concatenate([np.linspace(-690, 800, 4001), np.linspace(-40, 40, 4001), [0.0, -1e-300, 1e-300, 1e200, -5.0, 5.0]])
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


def both(psi):
    soft, slope = np.empty_like(psi), np.empty_like(psi)
    from_python(softplus_logistic)(psi.size, psi, soft, slope)
    return soft, slope


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
    alone = np.empty_like(psi)
    from_python(softplus_only)(psi.size, psi, alone)
    np.testing.assert_array_equal(alone, soft)


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
