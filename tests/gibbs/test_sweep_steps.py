"""The steps of a sweep, each against its law or its reference."""

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from scipy import special

from checks import Z_MAX, assert_counts, assert_gamma, assert_mean, assert_variance
from draws import from_python, vector_draws
from pbdn.gibbs import expert_weights, hyperplanes
from pbdn.gibbs import gram as gram_module
from pbdn.gibbs.kernel_arguments import RowTerms, Statistics
from pbdn.gibbs.rows import BLOCK_ROWS, make_rows
from pbdn.gibbs.state import prior_values
from pbdn.model.priors import Hyperpriors
from pbdn.variates.random_stream import SweepStreams, stream_buffer

gram_scratch, add_block = from_python(gram_module.gram_scratch), from_python(gram_module.add_block)
N = 100_000
TABLES = np.array([0.0, 3.0, 40.0])
EXPOSURE = np.array([1.5, 1e-3, 200.0])


# Sums over rows: packed Gram matrices and moments.


@pytest.mark.parametrize(("n", "d"), [(5, 0), (5, 3), (256, 2), (100, 40), (256, 40), (150, 75)])
def test_sums_over_rows(rng, n, d):
    """Packed Gram matrices and moments: dense with few and with many inputs, CSR, einsum."""
    inputs = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    target = rng.random(n) < 0.5
    omega, linear = np.zeros((BLOCK_ROWS, 3)), np.zeros((BLOCK_ROWS, 3))
    omega[:n], linear[:n] = rng.gamma(1.0, size=(n, 3)), rng.standard_normal((n, 3))
    x = np.column_stack([np.ones(n), inputs])
    upper = np.triu_indices(d + 1)
    expected = np.einsum("nk,nv,nw->vwk", omega[:n], x, x)[upper]
    for form in (inputs, sp.csr_array(inputs)):
        rows = make_rows(form, target, merge=False).arrays
        gram, moment = np.zeros((len(upper[0]), 3)), np.zeros((d + 1, 3))
        add_block(rows.dense, rows.sparse, 0, n, RowTerms(omega, linear), gram_scratch(d + 1, 3), gram, moment)
        assert np.abs(gram - expected).max() < 1e-11
        assert np.abs(moment - x.T @ linear[:n]).max() < 1e-11


# The draw of a hyperplane: N(Q⁻¹h, Q⁻¹), from a matrix of inputs or of rows.


@njit
def gaussian_and_rescues(stream, gram, linear, precision):
    out = np.empty(len(linear) + 1)
    out[:-1], out[-1] = hyperplanes.draw_gaussian(stream, gram, linear, precision)
    return out


@njit
def one_dual_gaussian(stream, inputs, pg_weights, moment, precision):
    return hyperplanes.draw_gaussian_dual(stream, inputs, pg_weights, moment, precision)[0]


def packed(matrix):
    return matrix[np.triu_indices(len(matrix))]


def assert_normal(x, mean, covariance):
    """Whitened draws are independent standard normal: means, variances and covariances."""
    factor = np.linalg.cholesky(covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance))))
    z = np.linalg.solve(factor, ((x - mean) / np.sqrt(np.diag(covariance))).T)
    for v in range(len(mean)):
        assert_mean(z[v], 0.0, 1.0)
        assert_variance(z[v], 1.0, 0.0)
        for w in range(v):
            assert_mean(z[v] * z[w], 0.0, 1.0)


@pytest.mark.parametrize("spread", [0, 12])
def test_gaussian(seed, rng, spread):
    """β ~ N(Q⁻¹h, Q⁻¹), with α over ``spread`` decades too."""
    d = 6
    a = rng.standard_normal((9, d))
    gram = a.T @ a
    precision = 10.0 ** np.linspace(-spread / 2, spread / 2, d)
    h = rng.standard_normal(d) * 3
    covariance = np.linalg.inv(gram + np.diag(precision))
    x = vector_draws(gaussian_and_rescues, seed, N, d + 1, packed(gram), h, precision)[:, :d]
    assert_normal(x, covariance @ h, covariance)


def test_gaussian_of_a_singular_gram_matrix(seed):
    """Collinear inputs and a prior that is nearly flat: finite, with rescues counted."""
    a = np.ones((4, 3)) * np.array([1.0, 1e8, 1e-8])
    x = vector_draws(gaussian_and_rescues, seed, 100, 4, packed(a.T @ a), np.ones(3), np.full(3, 1e-300))
    assert np.isfinite(x).all()
    assert (x[:, 3] > 0).all()
    x = vector_draws(gaussian_and_rescues, seed, 100, 4, packed(np.eye(3)), np.ones(3), np.ones(3))
    assert (x[:, 3] == 0).all()


def test_dual_gaussian_has_the_same_law(seed, rng):
    n, d = 4, 7
    inputs = rng.standard_normal((n, d))
    pg_weights = np.array([0.0, 0.3, 2.0, 1e-9])
    precision = 10.0 ** rng.uniform(-2, 2, d)
    h = inputs.T @ rng.standard_normal(n)
    covariance = np.linalg.inv(inputs.T @ (pg_weights[:, None] * inputs) + np.diag(precision))
    x = vector_draws(one_dual_gaussian, seed, N, d, inputs, pg_weights, h, precision)
    assert_normal(x, covariance @ h, covariance)


# The conditionals of α and b against their closed forms, and the floor of precisions.


@njit
def one_coef_rate(stream, precision, coef_shape, shape, rate):
    return np.array([hyperplanes.draw_coef_rate(stream, precision, coef_shape, shape, rate)])


def test_precisions(seed):
    """α_v ~ Gamma(a_β + ½, b + β_v² / 2)."""
    beta = np.array([0.0, 1e-3, 2.0, -30.0])
    x = vector_draws(hyperplanes.draw_precisions, seed, N, 4, beta, 0.8, 1.5)
    for v in range(4):
        assert_gamma(x[:, v], 2.0, 0.8 + beta[v] ** 2 / 2)


def test_coef_rate(seed):
    """b ~ Gamma(e₀ + a_β D, f₀ + Σ α)."""
    precision = np.array([0.1, 2.0, 30.0])
    x = vector_draws(one_coef_rate, seed, N, 1, precision, 0.4, 1.1, 0.6)[:, 0]
    assert_gamma(x, 1.1 + 1.2, 0.6 + precision.sum())


def test_precision_floor_enters_the_draw_of_hyperplanes_only(rng):
    """The floor bounds what the Gaussian sees; zero is the model."""
    gram, moment = np.zeros((1, 3, 1)), np.zeros((1, 2, 1))
    tiny = np.full((1, 2), 1e-12)
    spread = []
    for floor in (0.0, 1e-3):
        priors = prior_values(Hyperpriors(precision_floor=floor))
        buffer = stream_buffer()
        planes = [
            hyperplanes.draw_experts(
                Statistics(gram, moment, 1), tiny, np.ones(1), priors, SweepStreams(buffer, np.uint64(1), index)
            )[0]
            for index in range(400)
        ]
        spread.append(np.std(planes))
    assert spread[0] > 1e5
    assert 25 < spread[1] < 40


# The conditionals of γ₀, r and c₀ against their closed forms, everything else frozen.


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
