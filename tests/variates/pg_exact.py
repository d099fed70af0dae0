"""Polya-Gamma laws from their definitions, sharing nothing with the sampler."""

import mpmath as mp
import numpy as np


def exact_cumulants(b, c, order=4):
    """Cumulants 1 to ``order`` of PG(b, c): derivatives of b ln cosh √(c²/4 + t/2), to 30 digits.

    The Taylor coefficients of g(u) = ln cosh √u at u = c²/4 come from Cauchy's integral over a circle inside the
    first singularity (u = -π²/4).
    """
    with mp.workdps(40):
        u = mp.mpf(c) ** 2 / 4
        radius, n = (u + mp.pi**2 / 4) / 2, 128
        total = [mp.mpc(0)] * (order + 1)
        for j in range(n):
            turn = mp.expjpi(mp.mpf(2 * j) / n)
            z = mp.sqrt(u + radius * turn)
            value = z + mp.log1p(mp.exp(-2 * z))  # ln 2 cosh z, Re z ≥ 0
            for p in range(1, order + 1):
                total[p] += value * turn ** (-p)
        return [
            float(mp.mpf(b) * (-1) ** (p + 1) * mp.factorial(p) * (total[p].real / n / radius**p) / mp.mpf(2) ** p)
            for p in range(1, order + 1)
        ]


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


def polya_gamma_transform(b, c):
    """s ↦ E e^{-sω}, stable for complex s and any c."""

    def transform(s):
        z = np.sqrt(0.25 * c * c + 0.5 * s)
        return np.exp(-b * (0.5 * s / (z + 0.5 * c) + np.log1p(np.exp(-2 * z)) - np.log1p(np.exp(-c))))

    return transform


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


def invert_cdf(transform, x, n_terms=600, n_average=14, accuracy=23.0):
    """P(X ≤ x) for X ≥ 0 by the Euler algorithm of Abate & Whitt (1995); error about e^{-accuracy}."""
    x = np.asarray(x, dtype=float)[:, None]
    k = np.arange(1, n_terms + n_average + 1)
    start = accuracy / (2 * x)
    terms = (-1.0) ** k * np.real(transform(start + 1j * np.pi * k / x) / (start + 1j * np.pi * k / x))
    first = 0.5 * np.real(transform(start) / start)
    partial = first + np.cumsum(terms, axis=1)[:, n_terms - 1 :]
    binomial = np.array([float(mp.binomial(n_average, j)) for j in range(n_average + 1)]) / 2.0**n_average
    return (np.exp(accuracy / 2) / x[:, 0]) * (partial @ binomial)
