"""Every prior constant of the model, once, and forward draws: parameters from their priors, labels from parameters."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_finite

UNSET: Any = None


@dataclass(frozen=True)
class Hyperpriors:
    """Laws of the parameters of one side (gamma distributions by shape and rate), for both engines.

    The truncated gamma process has K experts with r_k ~ Gamma(γ₀/K, c₀). Each coefficient has β_vk ~ N(0, 1/α_vk) and
    α_vk ~ Gamma(a_β, b_k): a Student t with 2 a_β degrees of freedom. Gibbs sampling draws γ₀, c₀ and b_k from their laws.
    MAP fixes them at the means of their laws. A field that is None has the engine's default for the problem.

    Attributes
    ----------
    mass_shape, mass_rate : float
        γ₀ ~ Gamma(a₀, b₀), the mass of the gamma process. Gibbs: 5, 1. MAP: 1, 1.
    inv_scale_shape, inv_scale_rate : float
        c₀ ~ Gamma(e₀, f₀), the inverse scale of the expert weights. Both engines: 1, 1.
    coef_shape : float
        a_β in α_vk ~ Gamma(a_β, b_k). Gibbs: 0.5, a Cauchy law. MAP: 1e-6, and 1.5 with more than two sides.
    coef_rate_shape, coef_rate_rate : float
        b_k ~ Gamma(e₀, f₀), the rate of the precisions of expert k. Gibbs: 1, 1. MAP: 1e-6, 1, and 3, 1 with more than two
        sides.
    precision_floor : float
        Lower bound put on α_vk where Gibbs sampling draws β. 0 is the model; the published code uses 1e-3 (prior
        standard deviation at most 32), which is a change of prior.
    """

    mass_shape: float = UNSET
    mass_rate: float = UNSET
    inv_scale_shape: float = UNSET
    inv_scale_rate: float = UNSET
    coef_shape: float = UNSET
    coef_rate_shape: float = UNSET
    coef_rate_rate: float = UNSET
    precision_floor: float = UNSET

    def __post_init__(self) -> None:
        """Refuse values that no law has, by name."""
        for name, value in asdict(self).items():
            if value is not UNSET:
                check_finite(name, value, zero=name == "precision_floor")

    def over(self, defaults: "Hyperpriors") -> "Hyperpriors":
        """The fields set here, and those of ``defaults`` for the others."""
        return replace(defaults, **{name: value for name, value in asdict(self).items() if value is not UNSET})


GIBBS_PRIORS = Hyperpriors(5.0, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 0.0)
"""The defaults of Gibbs sampling; docs/decisions.md has the measurements."""

PAPER_PRIORS = Hyperpriors(0.01, 0.01, 1.0, 1.0, 1e-6, 1.0, 1.0, 0.0)
"""What the paper states for Gibbs sampling."""

MAP_PRIORS = Hyperpriors(1.0, 1.0, 1.0, 1.0, 1e-6, 1e-6, 1.0, 0.0)
"""The defaults of MAP with one or two sides: the paper's, in effect no penalty on the coefficients."""

MAP_PRIORS_OF_MANY_SIDES = replace(MAP_PRIORS, coef_shape=1.5, coef_rate_shape=3.0)
"""The defaults of MAP with more than two sides: three degrees of freedom and scale √2.

A side of several classes sees few rows of its class, and the next layer many units. Without a penalty sides separate their
rows and overfit. The tails are lighter than a Cauchy's, so that correlated inputs share the load.
"""


# Forward draws from the model: parameters from their priors, labels from parameters.
#
# Plain NumPy, sharing no code with the samplers, so that joint-distribution tests compare two independent writings of
# the same model.


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
