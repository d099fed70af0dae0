"""Every prior constant of the model, once."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from pbdn.errors import InvalidInputError

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
        """Refuse values that no law can have, by name."""
        for name, value in asdict(self).items():
            may_be_zero = name == "precision_floor"
            if value is not UNSET and not (0.0 < value < math.inf or (may_be_zero and value == 0.0)):
                raise InvalidInputError(
                    f"{name}={value!r}; it must be a positive number{' or 0' if may_be_zero else ''}."
                )

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
