"""Statistical assertions, all at the suite's one false-alarm rate."""

import numpy as np
from scipy import stats

SUITE_FALSE_ALARM = 1e-3  # probability that any statistical check of a correct suite fails, over all of them
N_CHECKS = 5000  # more than the suite makes; each check has SUITE_FALSE_ALARM / N_CHECKS
ALPHA = SUITE_FALSE_ALARM / N_CHECKS
Z_MAX = float(stats.norm.isf(ALPHA / 2))


def assert_mean(draws, mean, variance, what=""):
    """The mean of independent draws is ``mean``, given their exact variance."""
    z = (np.mean(draws) - mean) / np.sqrt(variance / np.size(draws))
    assert abs(z) < Z_MAX, f"{what}: mean {np.mean(draws):.6g}, expected {mean:.6g}, z = {z:.1f}"


def assert_variance(draws, variance, fourth_cumulant, what=""):
    """The variance of independent draws, given their exact second and fourth cumulants."""
    n = np.size(draws)
    spread = np.sqrt((fourth_cumulant + 2 * variance**2) / n)
    z = (np.var(draws) - variance) / spread
    assert abs(z) < Z_MAX, f"{what}: variance {np.var(draws):.6g}, expected {variance:.6g}, z = {z:.1f}"


def dkw_band(n):
    """Largest distance between an empirical and the true distribution function (Dvoretzky-Kiefer-Wolfowitz-Massart)."""
    return np.sqrt(np.log(2 / ALPHA) / (2 * n))


def assert_cdf(draws, points, cdf, what=""):
    """The empirical distribution function at ``points`` is within the DKW band of ``cdf``."""
    empirical = np.searchsorted(np.sort(draws), points, side="right") / np.size(draws)
    distance = np.max(np.abs(empirical - cdf))
    assert distance < dkw_band(np.size(draws)), f"{what}: KS distance {distance:.4g} > {dkw_band(np.size(draws)):.4g}"


def assert_counts(observed, probabilities, what=""):
    """Chi-squared test of counts against cell probabilities (cells with small expectation are pooled)."""
    expected = probabilities * observed.sum()
    order = np.argsort(expected)
    pooled_observed, pooled_expected, gather = [], [], [0.0, 0.0]
    for cell in order:
        gather[0] += observed[cell]
        gather[1] += expected[cell]
        if gather[1] >= 10:
            pooled_observed.append(gather[0])
            pooled_expected.append(gather[1])
            gather = [0.0, 0.0]
    if gather[1] > 0 and pooled_expected:
        pooled_observed[-1] += gather[0]
        pooled_expected[-1] += gather[1]
    o, e = np.array(pooled_observed), np.array(pooled_expected)
    statistic = np.sum((o - e) ** 2 / e)
    p_value = stats.chi2.sf(statistic, len(o) - 1)
    assert p_value > ALPHA, f"{what}: chi2 = {statistic:.1f} on {len(o) - 1} cells, p = {p_value:.2g}"


def assert_gamma(draws, shape, rate, what=""):
    """Independent draws from Gamma(shape, rate): distribution function and mean."""
    law = stats.gamma(shape, scale=1 / rate)
    points = law.ppf(np.linspace(1e-4, 1 - 1e-4, 499))
    assert_cdf(draws, points, law.cdf(points), what)
    assert_mean(draws, shape / rate, shape / rate**2, what)
