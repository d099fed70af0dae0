"""The draw of a hyperplane: N(Q⁻¹h, Q⁻¹), from a matrix of inputs or of rows."""

import numpy as np
import pytest
from numba import njit

from checks import assert_mean, assert_variance
from draws import vector_draws
from pbdn.gibbs import gaussian

N = 100_000


@njit
def one_gaussian(stream, gram, linear, precision):
    return gaussian.draw_gaussian(stream, gram, linear, precision)[0]


@njit
def one_dual_gaussian(stream, inputs, pg_weights, moment, precision):
    return gaussian.draw_gaussian_dual(stream, inputs, pg_weights, moment, precision)[0]


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
    x = vector_draws(one_gaussian, seed, N, d, packed(gram), h, precision)
    assert_normal(x, covariance @ h, covariance)


def test_gaussian_of_a_singular_gram_matrix(seed):
    """Collinear inputs and a prior that is nearly flat: finite, with rescues counted."""
    a = np.ones((4, 3)) * np.array([1.0, 1e8, 1e-8])
    gram = packed(a.T @ a)

    @njit
    def with_rescues(stream, gram, linear, precision):
        beta, rescues = gaussian.draw_gaussian(stream, gram, linear, precision)
        return np.append(beta, float(rescues))

    x = vector_draws(with_rescues, seed, 100, 4, gram, np.ones(3), np.full(3, 1e-300))
    assert np.isfinite(x).all()
    assert (x[:, 3] > 0).all()
    x = vector_draws(with_rescues, seed, 100, 4, packed(np.eye(3)), np.ones(3), np.ones(3))
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
