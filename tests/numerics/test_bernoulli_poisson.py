"""ln(1 - e^{-λ}) and its derivative, over all magnitudes of λ."""

import numpy as np
from numba import njit

from draws import from_python
from numerics.loops import in_loop
from pbdn.numerics.bernoulli_poisson import (
    LOG_TINY,
    log_event_probability,
    log_event_probability_and_slope,
    log_event_probability_in_loops,
)

RATES = np.concatenate([10.0 ** np.linspace(-300, 2.8, 4000), np.linspace(0.3, 1.2, 2000)])


def exact(rate):
    """ln(1 - e^{-λ}) in long double."""
    rate = rate.astype(np.longdouble)
    with np.errstate(divide="ignore"):
        return np.where(rate > 0.69, np.log1p(-np.exp(-rate)), np.log(-np.expm1(-rate))).astype(float)


@njit
def both(rate, log_probability, slope):
    for i in range(rate.size):
        log_probability[i], slope[i] = log_event_probability_and_slope(rate[i])


def test_value_and_slope_over_all_magnitudes():
    log_probability, slope = np.empty_like(RATES), np.empty_like(RATES)
    both(RATES, log_probability, slope)
    np.testing.assert_allclose(log_probability, exact(RATES), rtol=2e-15, atol=1e-303)
    np.testing.assert_allclose(
        slope, (1 / np.expm1(RATES.astype(np.longdouble))).astype(float), rtol=2e-15, atol=1e-303
    )


def test_huge_rates_cost_nothing_for_positive_rows():
    rate = np.array([709.0, 1e10, 1e300])
    log_probability, slope = np.empty(3), np.empty(3)
    both(rate, log_probability, slope)
    assert (np.abs(log_probability) < 1e-300).all()
    assert ((slope >= 0) & (slope < 1e-300)).all()


def test_one_number_and_loops_agree():
    one = from_python(log_event_probability)
    np.testing.assert_allclose([one(rate) for rate in RATES], exact(RATES), rtol=2e-15, atol=4e-13)
    np.testing.assert_allclose(in_loop(log_event_probability_in_loops)(RATES), exact(RATES), rtol=2e-15, atol=3e-16)


def test_rates_of_nothing_have_a_floor():
    assert from_python(log_event_probability)(0.0) >= LOG_TINY
    assert in_loop(log_event_probability_in_loops)(np.zeros(1))[0] >= LOG_TINY * (1 + 1e-15)
