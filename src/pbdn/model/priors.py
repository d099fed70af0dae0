"""Every prior constant of the model, once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hyperpriors:
    """Laws of the parameters of one side (gamma distributions by shape and rate).

    The truncated gamma process has K experts with r_k ~ Gamma(γ₀/K, c₀); each coefficient has
    β_vk ~ N(0, 1/α_vk), α_vk ~ Gamma(a_β, b_k), that is a Student t with 2 a_β degrees of freedom. The defaults differ
    from the paper's (`PAPER_PRIORS`) in γ₀ and a_β: docs/decisions.md has the measurements.

    Attributes
    ----------
    mass_shape, mass_rate : float
        γ₀ ~ Gamma(a₀, b₀), the mass of the gamma process (default 5, 1; paper: 0.01, 0.01).
    inv_scale_shape, inv_scale_rate : float
        c₀ ~ Gamma(e₀, f₀), the inverse scale of the expert weights (paper: 1, 1).
    coef_shape : float
        a_β in α_vk ~ Gamma(a_β, b_k) (default 0.5, a Cauchy law; paper: 1e-6).
    coef_rate_shape, coef_rate_rate : float
        b_k ~ Gamma(e₀, f₀), the rate of the precisions of expert k (paper: 1, 1).
    precision_floor : float
        Lower bound put on α_vk where it enters the draw of β. 0 is the model; the published
        code uses 1e-3 (prior standard deviation at most 32), which is a change of prior.
    """

    mass_shape: float = 5.0
    mass_rate: float = 1.0
    inv_scale_shape: float = 1.0
    inv_scale_rate: float = 1.0
    coef_shape: float = 0.5
    coef_rate_shape: float = 1.0
    coef_rate_rate: float = 1.0
    precision_floor: float = 0.0


PAPER_PRIORS = Hyperpriors(mass_shape=0.01, mass_rate=0.01, coef_shape=1e-6)
