"""Sparse Bayesian learning against results known for it."""

import numpy as np
import pytest
from benchmarks.rivals.rvm import Rvm, _mode, fit_sparse_bernoulli
from scipy.special import expit
from sklearn.linear_model import LogisticRegression


def ripley(rng, n):
    """Ripley's two-dimensional mixture: two Gaussians of variance 0.03 a class, Bayes error about 8 %."""
    centres = np.array([[[-0.7, 0.3], [0.3, 0.3]], [[-0.3, 0.7], [0.4, 0.7]]])
    y, part = rng.integers(2, size=n), rng.integers(2, size=n)
    return centres[y, part] + np.sqrt(0.03) * rng.standard_normal((n, 2)), y


def test_ripleys_mixture_takes_a_handful_of_vectors():
    """Tipping (2001) reports 9.3 % test error with 4 relevance vectors from 250 rows at width 0.5."""
    rng = np.random.default_rng(20)
    X, y = ripley(rng, 250)
    X_test, y_test = ripley(rng, 5000)
    rvm = Rvm(widths=(0.5,)).fit(X, y, seed=0)
    assert np.mean(rvm.predict(X_test) != y_test) < 0.12
    assert 2 <= rvm.complexity <= 12
    p = rvm.predict_proba(X_test)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    log_loss = -np.mean(np.log(p[np.arange(len(y_test)), y_test]))
    assert log_loss < 0.32


def test_the_mode_is_penalised_logistic_regression():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 4))
    y = (rng.random(200) < expit(X @ [1.0, -2.0, 0.0, 0.5])).astype(int)
    weights, covariance, curvature, residual = _mode(X, y, np.full(4, 0.5), np.zeros(4))
    reference = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(weights, reference.coef_[0], rtol=1e-4)
    np.testing.assert_allclose(residual, y - expit(X @ weights))
    np.testing.assert_allclose(np.linalg.inv(covariance), (X.T * curvature) @ X + 0.5 * np.eye(4), rtol=1e-8)


def test_irrelevant_columns_are_left_out():
    rng = np.random.default_rng(5)
    basis = rng.standard_normal((600, 30))
    y = (rng.random(600) < expit(basis[:, :2] @ [2.5, -2.5])).astype(int)
    fit = fit_sparse_bernoulli(basis, y)
    assert {0, 1} <= set(fit.columns)
    assert len(fit.columns) <= 12
    weights = np.zeros(30)
    weights[fit.columns] = fit.weights
    assert weights[0] > 1.5
    assert weights[1] < -1.5
    assert np.abs(weights[2:]).max() < 0.5


def log_evidence(basis, y, fit_columns, precision):
    """Laplace approximation of the log marginal likelihood, up to a constant."""
    active = basis[:, fit_columns]
    w, covariance, _, _ = _mode(active, y, precision, np.zeros(len(fit_columns)), max_newton=100)
    f = active @ w
    likelihood = np.sum(y * f - np.logaddexp(0.0, f))
    return (
        likelihood
        - 0.5 * np.sum(precision * w**2)
        + 0.5 * np.sum(np.log(precision))
        + 0.5 * np.linalg.slogdet(covariance)[1]
    )


def test_no_single_change_raises_the_evidence():
    """The result is a maximum of the Laplace evidence over every precision, deletion and addition."""
    rng = np.random.default_rng(8)
    basis = rng.standard_normal((300, 12))
    y = (rng.random(300) < expit(basis[:, :3] @ [2.0, -1.0, 0.7])).astype(int)
    fit = fit_sparse_bernoulli(basis, y)
    columns, precision = list(fit.columns), fit.precision
    assert {0, 1, 2} <= set(columns)
    reached = log_evidence(basis, y, columns, precision)
    others = []
    for place in range(len(columns)):
        for factor in (0.3, 3.0):
            changed = precision.copy()
            changed[place] *= factor
            others.append(log_evidence(basis, y, columns, changed))
        others.append(log_evidence(basis, y, np.delete(columns, place), np.delete(precision, place)))
    for column in set(range(12)) - set(columns):
        for added in np.exp(np.arange(-4.0, 7.0)):
            others.append(log_evidence(basis, y, [*columns, column], np.append(precision, added)))
    assert max(others) < reached + 0.05


@pytest.mark.parametrize("width", [1e-3, 1.0, 1e3])
def test_extreme_widths_and_duplicate_rows_do_no_harm(width):
    rng = np.random.default_rng(1)
    X = np.repeat(rng.standard_normal((20, 2)), 4, axis=0)
    y = np.repeat(rng.integers(2, size=20), 4)
    rvm = Rvm(widths=(width,)).fit(X, y, seed=0)
    assert np.isfinite(rvm.decision_function(X)).all()


def test_the_centres_can_be_limited():
    rng = np.random.default_rng(2)
    X, y = ripley(rng, 300)
    rvm = Rvm(widths=(0.25, 0.5, 1.0), max_basis=40, cv_rows=150).fit(X, y, seed=0)
    assert rvm.complexity <= 40
    assert np.mean(rvm.predict(X) != y) < 0.15
    assert rvm.chosen["width"] in (0.25, 0.5, 1.0)
