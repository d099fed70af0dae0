"""The draw of the expert weights r, with the mass γ₀ and the inverse scale c₀ of their gamma process.

Order within a sweep (never change r between drawing ω and using it): γ₀ → r → c₀, then ω (`pbdn.gibbs.polya_gamma_weights`),
then β → α → b (`pbdn.gibbs.hyperplanes`). Expert weights are kept as ln r, because values of 1e-200 occur.
"""

import numpy as np

from pbdn.gibbs.kernel_arguments import PriorValues
from pbdn.numerics.compiled import inlined, kernel
from pbdn.variates.counts import crt
from pbdn.variates.random_stream import gamma_variate, log_gamma_variate


@inlined
def draw_mass(stream, tables, exposure, inv_scale, shape, rate):
    """γ₀ | l, c₀ with r integrated out ~ Gamma(a₀ + Σ_k l̃_k, b₀ + (1/K) Σ_k ln(1 + S_k / c₀)) given l̃.

    ``tables`` l̃_k ~ CRT(l_k, γ₀/K) were drawn at the current mass (see `draw_mass_tables`).
    """
    n_experts = exposure.shape[0]
    total_tables, total_log = 0.0, 0.0
    for k in range(n_experts):
        total_tables += tables[k]
        total_log += np.log1p(exposure[k] / inv_scale)
    return gamma_variate(stream, shape + total_tables) / (rate + total_log / n_experts)


@inlined
def draw_mass_tables(stream, tables, mass):
    """l̃_k ~ CRT(l_k, γ₀/K)."""
    n_experts = tables.shape[0]
    out = np.empty(n_experts)
    for k in range(n_experts):
        out[k] = crt(stream, tables[k], max(mass / n_experts, 1e-300))
    return out


@inlined
def draw_log_weights(stream, tables, exposure, mass, inv_scale):
    """ln r_k with r_k ~ Gamma(γ₀/K + l_k, c₀ + S_k)."""
    n_experts = tables.shape[0]
    out = np.empty(n_experts)
    for k in range(n_experts):
        shape = max(mass / n_experts + tables[k], 1e-300)
        out[k] = log_gamma_variate(stream, shape) - np.log(inv_scale + exposure[k])
    return out


@inlined
def draw_inv_scale(stream, log_weights, mass, shape, rate):
    """c₀ ~ Gamma(e₀ + γ₀, f₀ + Σ_k r_k)."""
    total = 0.0
    for k in range(log_weights.shape[0]):
        total += np.exp(log_weights[k])
    return gamma_variate(stream, shape + mass) / (rate + total)


@kernel
def draw_expert_weights(stream, tables, exposure, mass, inv_scale, priors: PriorValues):
    """γ₀, then ln r, then c₀ (the only right order): returns all three."""
    mass_tables = draw_mass_tables(stream, tables, mass)
    mass = max(draw_mass(stream, mass_tables, exposure, inv_scale, priors.mass_shape, priors.mass_rate), 1e-300)
    log_weights = draw_log_weights(stream, tables, exposure, mass, inv_scale)
    inv_scale = draw_inv_scale(stream, log_weights, mass, priors.inv_scale_shape, priors.inv_scale_rate)
    return mass, log_weights, max(inv_scale, 1e-300)
