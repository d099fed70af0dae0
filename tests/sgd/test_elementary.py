import numpy as np
from numba import njit

from pbdn.numerics.bernoulli_poisson import bernoulli_poisson, softplus_logistic


@njit
def link_terms(rate, log_probability, inverse):
    for i in range(rate.size):
        log_probability[i], inverse[i] = bernoulli_poisson(rate[i])


def test_softplus_and_logistic_to_the_last_digits(rng):
    psi = np.concatenate([np.linspace(-707, 707, 4001), 10.0 ** np.linspace(-300, 2, 500), rng.normal(size=500)])
    psi = np.concatenate([psi, -psi])
    softplus, logistic = np.empty_like(psi), np.empty_like(psi)
    softplus_logistic(psi.size, psi, softplus, logistic)
    exact = psi.astype(np.longdouble)
    np.testing.assert_allclose(softplus, np.logaddexp(np.longdouble(0), exact).astype(float), rtol=2e-15)
    np.testing.assert_allclose(logistic, (1 / (1 + np.exp(-exact))).astype(float), rtol=2e-15)


def test_softplus_beyond_the_exponential_range():
    psi = np.array([-1e308, -5e4, -709.0, 709.0, 5e4, 1e308])
    softplus, logistic = np.empty_like(psi), np.empty_like(psi)
    softplus_logistic(6, psi, softplus, logistic)
    np.testing.assert_array_equal(softplus[3:], psi[3:])
    np.testing.assert_array_equal(logistic[3:], 1.0)
    assert (softplus[:3] < 1e-307).all()
    assert (logistic[:3] < 1e-307).all()


def test_softplus_keeps_nan_visible():
    psi = np.array([np.nan])
    softplus, logistic = np.zeros(1), np.zeros(1)
    softplus_logistic(1, psi, softplus, logistic)
    assert np.isnan(softplus).all()
    assert np.isnan(logistic).all()


def test_link_terms_over_all_magnitudes():
    rate = np.concatenate([10.0 ** np.linspace(-300, 2.8, 4000), np.linspace(0.3, 1.2, 2000)])
    log_probability, inverse = np.empty_like(rate), np.empty_like(rate)
    link_terms(rate, log_probability, inverse)
    exact = rate.astype(np.longdouble)
    with np.errstate(divide="ignore"):
        reference = np.where(exact > 0.69, np.log1p(-np.exp(-exact)), np.log(-np.expm1(-exact)))
    np.testing.assert_allclose(log_probability, reference.astype(float), rtol=2e-15, atol=1e-307)
    np.testing.assert_allclose(inverse, (1 / np.expm1(exact)).astype(float), rtol=2e-15, atol=1e-307)


def test_huge_rates_cost_nothing_for_positive_rows():
    rate = np.array([709.0, 1e10, 1e300])
    log_probability, inverse = np.empty(3), np.empty(3)
    link_terms(rate, log_probability, inverse)
    assert (np.abs(log_probability) < 1e-300).all()
    assert ((inverse >= 0) & (inverse < 1e-300)).all()
