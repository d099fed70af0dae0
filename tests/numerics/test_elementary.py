"""Vectorised elementary functions against multiple-precision values, at the ends of their ranges too."""

import mpmath as mp
import numpy as np
import pytest
from numba import njit

from numerics.loops import in_loop
from pbdn.numerics import elementary

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
