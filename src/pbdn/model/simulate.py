"""Forward draws from the model: parameters from their priors, labels from parameters.

Plain NumPy, sharing no code with the samplers, so that joint-distribution tests compare two independent writings of
the same model.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.model.priors import Hyperpriors
from pbdn.numerics.arrays import FloatArray


def simulate_parameters(
    rng: np.random.Generator, priors: Hyperpriors, n_experts: int, n_inputs: int, n_draws: int
) -> dict[str, Any]:
    """Independent draws of (γ₀, c₀, r, b, α, β) from the prior; the first axis counts draws, inputs include the constant."""
    mass = rng.gamma(priors.mass_shape, size=n_draws) / priors.mass_rate
    inv_scale = rng.gamma(priors.inv_scale_shape, size=n_draws) / priors.inv_scale_rate
    weights = rng.gamma(np.repeat(mass[:, None] / n_experts, n_experts, axis=1)) / inv_scale[:, None]
    coef_rate = rng.gamma(priors.coef_rate_shape, size=(n_draws, n_experts)) / priors.coef_rate_rate
    shape = (n_draws, n_experts, n_inputs)
    precision = rng.gamma(priors.coef_shape, size=shape) / coef_rate[:, :, None]
    hyperplanes = rng.standard_normal(shape) / np.sqrt(precision)
    return {
        "mass": mass,
        "inv_scale": inv_scale,
        "expert_weights": weights,
        "coef_rate": coef_rate,
        "coef_precision": precision,
        "hyperplanes": hyperplanes,
    }


def simulate_rate(hyperplanes: FloatArray, expert_weights: FloatArray, inputs: FloatArray) -> FloatArray:
    """λ_i = Σ_k r_k ln(1 + e^{x_i'β_k}) for inputs with the constant; leading axes of the parameters are kept."""
    distance = np.einsum("nd,...kd->...nk", inputs, hyperplanes)
    return np.asarray(np.einsum("...nk,...k->...n", np.logaddexp(0.0, distance), expert_weights))


def simulate_target(rng: np.random.Generator, rate: FloatArray) -> NDArray[np.bool_]:
    """Labels y = [Poisson(λ) ≥ 1]."""
    return np.asarray(rng.random(rate.shape) < -np.expm1(-rate))
