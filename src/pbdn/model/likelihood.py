"""Rates, probabilities and log-likelihoods of a side: no randomness, safe from 1e-300 to 1e300."""

import numpy as np
from numpy.typing import NDArray

from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.softplus import FEWEST_NUMBERS, softplus_in_place


def softplus(distance: FloatArray) -> FloatArray:
    """s(ψ) = ln(1 + e^ψ), without overflow and with full relative accuracy for ψ → -∞ (1e-304 at least in large arrays)."""
    if distance.size < FEWEST_NUMBERS:
        return np.asarray(np.logaddexp(0.0, distance))
    soft = np.array(distance, dtype=np.float64, order="C")
    softplus_in_place(soft.reshape(-1))
    return soft


def signed_distances(hyperplanes: FloatArray, inputs: FloatArray) -> FloatArray:
    """ψ_ik = x_i'β_k for inputs without the constant column; dense or SciPy-sparse rows."""
    distance = np.asarray(inputs @ hyperplanes[:, 1:].T)
    distance += hyperplanes[:, 0]
    return distance


def expert_rates(hyperplanes: FloatArray, expert_weights: FloatArray, inputs: FloatArray) -> FloatArray:
    """r_k s(ψ_ik): the rate that expert k gives to row i, shape (n, n_experts)."""
    return softplus(signed_distances(hyperplanes, inputs)) * expert_weights


def rate(hyperplanes: FloatArray, expert_weights: FloatArray, inputs: FloatArray) -> FloatArray:
    """λ_i = Σ_k r_k s(ψ_ik), shape (n,)."""
    return softplus(signed_distances(hyperplanes, inputs)) @ expert_weights


def probability(rate: FloatArray) -> FloatArray:
    """P(y=1) = 1 - e^{-λ} (Bernoulli-Poisson link)."""
    return -np.expm1(-np.asarray(rate))


def average_answer(rates: FloatArray, axis: int = 0) -> FloatArray:
    """λ of which 1 - e^{-λ} is the average of 1 - e^{-λ_m} over an axis, accurate for tiny and huge λ_m."""
    rates = np.asarray(rates, dtype=float)
    least = rates.min(axis=axis, keepdims=True)
    return np.asarray(least.squeeze(axis) - np.log1p(np.expm1(least - rates).mean(axis=axis)))


def log_probability(rate: FloatArray) -> FloatArray:
    """ln P(y=1) = ln(1 - e^{-λ}), accurate for tiny and huge λ; -inf only at λ = 0."""
    rate = np.asarray(rate, dtype=float)
    with np.errstate(divide="ignore"):
        return np.where(rate > 0.6931471805599453, np.log1p(-np.exp(-rate)), np.log(-np.expm1(-rate)))


def log_likelihood(rate: FloatArray, target: NDArray[np.bool_]) -> FloatArray:
    """Row log-likelihoods: ln(1 - e^{-λ}) where the target is one, -λ where it is zero."""
    return np.where(target, log_probability(rate), -np.asarray(rate))
