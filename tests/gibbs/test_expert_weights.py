"""The conditionals of γ₀, r and c₀ against their closed forms, everything else frozen."""

import numpy as np
import pytest
from numba import njit
from scipy import special

from checks import Z_MAX, assert_counts, assert_gamma, assert_mean, assert_variance
from draws import vector_draws
from pbdn.gibbs import expert_weights
from pbdn.gibbs.state import prior_values
from pbdn.model.priors import Hyperpriors

N = 100_000
TABLES = np.array([0.0, 3.0, 40.0])
EXPOSURE = np.array([1.5, 1e-3, 200.0])


@njit
def one_mass(stream, tables, exposure, inv_scale, shape, rate):
    return np.array([expert_weights.draw_mass(stream, tables, exposure, inv_scale, shape, rate)])


@njit
def one_inv_scale(stream, log_weights, mass, shape, rate):
    return np.array([expert_weights.draw_inv_scale(stream, log_weights, mass, shape, rate)])


def test_mass(seed):
    """γ₀ ~ Gamma(a₀ + Σ l̃, b₀ + mean_k ln(1 + S_k / c₀))."""
    x = vector_draws(one_mass, seed, N, 1, TABLES, EXPOSURE, 0.7, 0.5, 0.3)[:, 0]
    assert_gamma(x, 0.5 + 43.0, 0.3 + np.log1p(EXPOSURE / 0.7).mean())


def test_mass_tables(seed):
    """l̃_k ~ CRT(l_k, γ₀ / K)."""
    x = vector_draws(expert_weights.draw_mass_tables, seed, N, 3, TABLES, 2.0)
    assert (x[:, 0] == 0).all()
    for k in (1, 2):
        n = int(TABLES[k])
        law = np.array([1.0])
        for p in (2 / 3) / (2 / 3 + np.arange(n)):
            law = np.convolve(law, [1 - p, p])
        assert_counts(np.bincount(x[:, k].astype(int), minlength=n + 1)[1:], law[1:])


def test_mass_and_its_tables_leave_the_marginal_law_invariant(seed):
    """γ₀ with r integrated out: p(γ₀) ∝ Gamma(a₀, b₀) ∏_k Γ(γ₀/K + l_k)/Γ(γ₀/K) (1 + S_k/c₀)^{-γ₀/K}, by quadrature."""

    @njit
    def chain(stream, tables, exposure, inv_scale, shape, rate, n):
        out = np.empty(n)
        mass = 1.0
        for i in range(n):
            seated = expert_weights.draw_mass_tables(stream, tables, mass)
            mass = expert_weights.draw_mass(stream, seated, exposure, inv_scale, shape, rate)
            out[i] = mass
        return out

    x = vector_draws(chain, seed, 1, 400_000, TABLES, EXPOSURE, 0.7, 2.0, 0.3, 400_000)[0]
    g = np.linspace(1e-4, 60, 60_000)
    log_p = np.log(g) - 0.3 * g - g / 3 * np.log1p(EXPOSURE / 0.7).sum()
    log_p += sum(special.gammaln(g / 3 + n) - special.gammaln(g / 3) for n in TABLES)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    batches = x.reshape(400, -1).mean(1)
    z = (x.mean() - (g * p).sum()) / (batches.std() / np.sqrt(400))
    assert abs(z) < Z_MAX


@pytest.mark.parametrize("mass", [1e-3, 2.0])
def test_log_weights(seed, mass):
    """r_k ~ Gamma(γ₀/K + l_k, c₀ + S_k), kept as ln r_k."""
    x = vector_draws(expert_weights.draw_log_weights, seed, N, 3, TABLES, EXPOSURE, mass, 0.7)
    shape, rate = mass / 3 + TABLES, 0.7 + EXPOSURE
    for k in range(3):
        assert_mean(x[:, k], special.digamma(shape[k]) - np.log(rate[k]), special.polygamma(1, shape[k]))
        assert_variance(x[:, k], special.polygamma(1, shape[k]), special.polygamma(3, shape[k]))
        if shape[k] > 0.1:
            assert_gamma(np.exp(x[:, k]), shape[k], rate[k])


def test_inv_scale(seed):
    log_weights = np.array([-800.0, 0.5, -1.0])
    x = vector_draws(one_inv_scale, seed, N, 1, log_weights, 1.3, 2.0, 0.5)[:, 0]
    assert_gamma(x, 3.3, 0.5 + np.exp(log_weights).sum())


def test_expert_weights_are_drawn_in_the_right_order(seed):
    """γ₀ → r → c₀: given γ₀ the mean of r_k is (γ₀/K + l_k)/(c₀ + S_k) at the *old* c₀, and c₀ knows the new r."""
    priors = prior_values(Hyperpriors(3.0, 2.0, 4.0, 3.0))

    @njit
    def together(stream, tables, exposure, priors):
        mass, log_weights, inv_scale = expert_weights.draw_expert_weights(stream, tables, exposure, 1.7, 0.7, priors)
        return np.array([mass, log_weights[0], log_weights[1], log_weights[2], inv_scale])

    x = vector_draws(together, seed, N, 5, TABLES, EXPOSURE, priors)
    r = np.exp(x[:, 1:4])
    residual = r[:, 1] * (0.7 + EXPOSURE[1]) - (x[:, 0] / 3 + TABLES[1])
    for weight in (np.ones(N), x[:, 0]):
        z = (residual * weight).mean() / ((residual * weight).std() / np.sqrt(N))
        assert abs(z) < Z_MAX
    residual = x[:, 4] * (3.0 + r.sum(1)) - (4.0 + x[:, 0])
    for weight in (np.ones(N), x[:, 0], np.minimum(r.sum(1), 50.0)):
        z = (residual * weight).mean() / ((residual * weight).std() / np.sqrt(N))
        assert abs(z) < Z_MAX
