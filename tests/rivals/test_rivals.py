"""The rivals learn what they should."""

from functools import partial

import numpy as np
import pytest
from benchmarks import record, response_data, responses
from benchmarks import response_scores as scores
from benchmarks.rivals import OPTIONAL, RIVALS, available, protocol
from benchmarks.rivals import responses as of_responses
from benchmarks.rivals.amm import Amm, _prune, _train
from benchmarks.rivals.base import coarse_to_fine, folds, search_until_worse, with_bias
from benchmarks.rivals.cpm import Cpm, StackedCpm, _assign, _score, fit_sides
from benchmarks.rivals.libraries import Dnn, Logistic, RbfSvm, _forward, _gradients
from benchmarks.rivals.responses import METHODS, NEEDS
from benchmarks.rivals.rvm import Rvm, _mode, fit_sparse_bernoulli
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import SVC, LinearSVC

from pbdn import MapConfig, PBDNSurvival

SMALL = {
    "lr": {"c_grid": (0.1, 10.0)},
    "svm": {"step": 5},
    "rvm": {"widths": (1.0, 2.0)},
    "amm": {"lambdas": (1e-3,), "epochs": (5, 10)},
    "cpm": {"share": 1e-3, "c_grid": (1e-3,), "k_grid": (1, 3)},
    "cpm_stacked_2": {"share": 1e-3, "c_grid": (1e-3,), "k_grid": (1, 3)},
    "cpm_stacked_3": {"share": 1e-3, "c_grid": (1e-3,), "k_grid": (1, 3)},
    "cpm_stacked_4": {"share": 1e-3, "c_grid": (1e-3,), "k_grid": (1, 3)},
    "dnn_8_4": {"n_steps": 300},
    "dnn_32_16": {"n_steps": 300},
    "dnn_128_64": {"n_steps": 100},
}


# Each rival against a result known for it, on small data.


def polytope(rng, n):
    """Class 0 inside a triangle, class 1 outside, with a gap: no line does better than the larger class."""
    normals = np.array([[0.0, 1.0], [np.sqrt(3) / 2, -0.5], [-np.sqrt(3) / 2, -0.5]])
    X = rng.uniform(-2.5, 2.5, (6 * n, 2))
    reach = (X @ normals.T).max(axis=1)
    inside, outside = X[reach < 0.85][: n // 2], X[reach > 1.15][: n - n // 2]
    rows = rng.permutation(len(inside) + len(outside))
    return np.concatenate([inside, outside])[rows], np.repeat([0, 1], [len(inside), len(outside)])[rows]


@pytest.fixture(scope="module")
def triangle():
    rng = np.random.default_rng(11)
    return *polytope(rng, 400), *polytope(rng, 1000)


def error(rival, X, y):
    return np.mean(rival.predict(X) != y)


def test_a_line_cannot_do_the_triangle(triangle):
    X, y, X_test, y_test = triangle
    assert error(Logistic().fit(X, y, 0), X_test, y_test) > 0.3


def test_amm_does_the_triangle_with_few_hyperplanes(triangle):
    X, y, X_test, y_test = triangle
    amm = Amm(lambdas=(1e-5, 1e-3), epochs=(10, 20, 50)).fit(X, y, 0)
    assert error(amm, X_test, y_test) < 0.08
    assert 3 <= amm.complexity <= 60


@pytest.mark.long
def test_cpm_does_the_triangle(triangle):
    X, y, X_test, y_test = triangle
    cpm = Cpm(share=0.01).fit(X, y, 0)
    assert error(cpm, X_test, y_test) < 0.05
    assert cpm.chosen["K"] >= 3
    assert cpm.complexity == 2 * cpm.chosen["K"]


def test_one_hyperplane_a_side_cannot(triangle):
    X, y, X_test, y_test = triangle
    assert error(Cpm(share=0.01, k_grid=(1,), c_grid=(1e-3,)).fit(X, y, 0), X_test, y_test) > 0.2


def test_cpm_with_one_hyperplane_is_a_linear_svm():
    """One hyperplane, one side: λ/2 |w|² + mean hinge / 2, whose minimum LIBLINEAR finds."""
    rng = np.random.default_rng(4)
    X = with_bias(rng.standard_normal((300, 3)) + np.array([0.5, 0.0, 0.0]))
    y = (X @ [1.5, -1.0, 0.3, 0.2] + rng.standard_normal(300) > 0).astype(np.int64)
    steps, C = 400_000, 1e-4
    _, side = fit_sides(X, y, 1, C, 0.0, (steps, steps), 0)
    svm = LinearSVC(C=C * steps * 0.5 / len(y), loss="hinge", fit_intercept=False, max_iter=200_000).fit(X, y)
    np.testing.assert_allclose(side[0], svm.coef_[0], atol=0.05 * np.abs(svm.coef_).max())


def test_the_entropy_floor_spreads_the_rows():
    scores = np.array([3.0, 2.0, 1.0])
    crowded = np.array([18, 1, 1])
    assert _assign(scores, crowded, 0, 0.0) == (0, 0)
    assert _assign(scores, crowded, 0, np.log(2.5)) == (1, 0)
    assert _assign(scores, crowded, -1, np.log(2.5)) == (1, 0)
    assert _assign(scores, np.array([7, 7, 6]), 1, np.log(2.5)) == (0, 0)
    np.testing.assert_array_equal(crowded, [18, 1, 1])


def test_cpm_rules_agree_on_sign():
    sides = (np.array([[1.0, 0.0]]), np.array([[-1.0, 0.0], [-2.0, 0.0]]))
    X = np.array([[1.0, 1.0], [-1.0, 1.0]])
    for rule in ("difference", "zero outside", "one outside"):
        np.testing.assert_array_equal(_score(sides, X, rule) > 0, [False, True])


def test_stacked_cpm_complexity_counts_every_weight(triangle):
    X, y, *_ = triangle
    stacked = StackedCpm(3, share=1e-3, c_grid=(1e-3,), k_grid=(3,)).fit(X, y, 0)
    widths = [2 + 1, 2 + 6 + 1, 6 + 6 + 1]
    assert stacked.complexity == pytest.approx(sum(6 * width for width in widths) / 3)


def test_amm_without_births_is_the_two_class_pegasos():
    """With one hyperplane a class, the difference of the two is the hyperplane of a linear SVM."""
    rng = np.random.default_rng(7)
    X = with_bias(rng.standard_normal((400, 2)))
    y = (X @ [2.0, -1.0, 0.0] + 0.5 * rng.standard_normal(400) > 0).astype(np.int64)
    orders = np.array([rng.permutation(400) for _ in range(200)])
    zero, one = _train(X, y, orders, 0.01, 1, 10**9, 10.0)
    difference = one[0] - zero[0]
    # λ/2 (|w0|² + |w1|²) with w1 = -w0 is λ/4 |w1 - w0|²
    svm = LinearSVC(C=2.0 / (0.01 * 400), loss="hinge", fit_intercept=False, max_iter=200_000).fit(X, y)
    np.testing.assert_allclose(difference, svm.coef_[0], atol=0.05 * np.abs(svm.coef_).max())


def test_amm_prunes_the_lightest_together():
    sums = np.zeros((2, 4, 1))
    sums[0, :3, 0], sums[1, :2, 0] = (5.0, 9.0, 30.0), (8.0, 40.0)
    used = np.array([3, 2])
    places = _prune(sums, used, 10.0)  # 25 + 64 <= 100 < 25 + 64 + 81
    np.testing.assert_array_equal(used, [2, 1])
    np.testing.assert_array_equal(sums[0, :2, 0], [9.0, 30.0])
    np.testing.assert_array_equal(places[0, :3], [-1, 0, 1])
    np.testing.assert_array_equal(places[1, :2], [-1, 0])
    sums[0, :2, 0], sums[1, 0, 0] = (1.0, 2.0), 3.0
    _prune(sums, used, 1e6)
    np.testing.assert_array_equal(used, [1, 1])


def test_dnn_gradients_are_those_of_the_loss():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 3)), rng.integers(2, size=30).astype(float)
    layers = [(rng.standard_normal(shape), rng.standard_normal(shape[1])) for shape in ((3, 5), (5, 4), (4, 1))]

    def loss():
        f = _forward(layers, X)[-1][:, 0]
        return np.mean(np.logaddexp(0.0, f) - y * f)

    for layer, gradient in zip(layers, _gradients(layers, X, y), strict=True):
        for value, slope in zip(layer, gradient, strict=True):
            cell = (0,) * value.ndim
            start, step = value[cell], 1e-6
            value[cell] = start + step
            up = loss()
            value[cell] = start - step
            down = loss()
            value[cell] = start
            assert slope[cell] == pytest.approx((up - down) / (2 * step), abs=1e-6)


def test_dnn_does_the_triangle_and_counts_like_the_paper(triangle):
    X, y, X_test, y_test = triangle
    dnn = Dnn((32, 16)).fit(X, y, 0)
    assert error(dnn, X_test, y_test) < 0.05
    assert dnn.complexity == pytest.approx((3 * 32 + 32 * 16) / 3)
    assert Dnn((4, 3, 2), n_steps=1).fit(X, y, 0).complexity == pytest.approx((3 * 4 + 12 + 6) / 3)


def test_dnn_takes_mini_batches(triangle):
    X, y, X_test, y_test = triangle
    assert error(Dnn((32, 16), n_steps=2000, batch_size=100).fit(X, y, 0), X_test, y_test) < 0.06


def test_logistic_tries_the_whole_grid(triangle):
    X, y, *_ = triangle
    rival = Logistic().fit(X, y, 0)
    assert len(rival.c_grid) == 26
    reference = LogisticRegression(C=rival.chosen["C"], solver="liblinear").fit(X, y)
    np.testing.assert_allclose(rival.predict_proba(X), reference.predict_proba(X), atol=1e-6)


def test_svm_uses_the_chosen_setting(triangle):
    X, y, X_test, y_test = triangle
    rival = RbfSvm(step=2).fit(X, y, 0)
    reference = SVC(C=rival.chosen["C"], gamma=rival.chosen["gamma"]).fit(X, y)
    np.testing.assert_array_equal(rival.predict(X_test), reference.predict(X_test))
    assert rival.complexity == len(reference.support_)
    assert error(rival, X_test, y_test) < 0.04
    with pytest.raises(AttributeError, match="no probabilities"):
        rival.predict_proba(X)


@pytest.mark.parametrize("name", RIVALS)
def test_every_rival_keeps_the_interface(triangle, name):
    if name not in available():
        pytest.skip(f"{OPTIONAL[name]} is not installed")
    X, y, X_test, y_test = (part[:200] for part in triangle)
    rival = RIVALS[name](**SMALL.get(name, {})).fit(X, y, 3)
    again = RIVALS[name](**SMALL.get(name, {})).fit(csr_array(X), y, 3)
    np.testing.assert_allclose(rival.decision_function(X_test), again.decision_function(X_test), rtol=1e-4, atol=1e-4)
    assert set(rival.predict(X_test)) <= {0, 1}
    assert rival.complexity is None or rival.complexity >= 1
    if rival.has_probabilities:
        p = rival.predict_proba(X_test)
        assert p.shape == (200, 2)
        np.testing.assert_array_equal(p[:, 1] > 0.5, rival.predict(X_test) == 1)
        if name not in ("lr", "dnn_8_4"):
            assert log_loss(y_test, p) < 0.6


def test_profiles():
    assert len(RIVALS["rvm"](**protocol("rvm", "ijcnn1")).widths) == 21
    assert len(RIVALS["rvm"](**protocol("rvm", "banana")).widths) == 41
    assert protocol("lr", "banana") == protocol("svm", "banana") == {}
    assert protocol("cpm", "banana", quick=True)["share"] < protocol("cpm", "banana")["share"] < 1.0


def test_searches():
    assert search_until_worse([1, 2, 3, 4, 5], lambda x: abs(x - 3)) == (0, 3)
    assert search_until_worse([1, 2, 3], {1: 0.2, 2: 0.3, 3: 0.1}.get) == (0.2, 1)
    values = [float(k) for k in range(41)]
    for best in (0.0, 17.0, 40.0):
        assert coarse_to_fine(values, lambda x, best=best: abs(x - best), 4) == best
    y = np.repeat([0, 1], [30, 6])
    parts = folds(y, 3, 0)
    assert [y[test].sum() for _, test in parts] == [2, 2, 2]
    assert len(folds(np.array([0, 0, 0, 0, 1, 1]), 5, 0)) == 2


# Sparse Bayesian learning against results known for it.


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


# Responses: scores of predicted distributions, sets, and the methods on small data.

LEVELS = np.arange(1, 200) / 200


def test_scores_of_normal_distributions_agree_however_they_are_written():
    mean, spread, wanted = np.array([0.0, 1.0, -2.0]), np.array([1.0, 0.5, 2.0]), np.array([0.7, -1.5, -2.0])
    normal = scores.of_normals(mean, spread, wanted)
    for i in range(3):
        below = quad(lambda z: norm.cdf(z, mean[i], spread[i]) ** 2, -30, wanted[i])[0]  # noqa: B023
        above = quad(lambda z: norm.sf(z, mean[i], spread[i]) ** 2, wanted[i], 30)[0]  # noqa: B023
        assert normal.crps[i] == pytest.approx(below + above, rel=1e-6)
    quantiles = norm.ppf(LEVELS[None, :], mean[:, None], spread[:, None])
    by_quantiles = scores.of_quantiles(mean, LEVELS, quantiles, wanted, 1e-9)
    for name in ("log_density", "crps", "place"):
        np.testing.assert_allclose(getattr(by_quantiles, name)[[0, 2]], getattr(normal, name)[[0, 2]], atol=0.02)
    one = scores.of_mixtures(np.tile(mean[:1], (4, 3)), np.ones(4), wanted)
    same = scores.of_normals(np.zeros(3), np.ones(3), wanted)
    for name in ("mean", "log_density", "crps", "place"):
        np.testing.assert_allclose(getattr(one, name), getattr(same, name), atol=1e-12)


def test_the_score_of_a_mixture_is_that_of_its_distribution():
    means, spreads = np.array([[-1.0], [2.0]]), np.array([0.5, 1.5])
    judged = scores.of_mixtures(means, spreads, np.array([0.3]))
    below, above = (
        quad(lambda z, sign=sign: np.mean(norm.cdf(sign * (z - means[:, 0]) / spreads)) ** 2, *ends)[0]
        for sign, ends in ((1, (-20.0, 0.3)), (-1, (0.3, 20.0)))
    )
    assert judged.crps[0] == pytest.approx(below + above, rel=1e-6)


def test_quantiles_that_cross_still_make_a_density():
    levels = (0.1, 0.5, 0.9)
    judged = scores.of_quantiles(np.zeros(2), levels, np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), np.zeros(2), 0.1)
    assert np.all(np.isfinite(judged.log_density))
    assert np.all((judged.place >= 0.0) & (judged.place <= 1.0))


def test_coverage_counts_places_between_the_ends():
    judged = scores.Judged(np.zeros(4), np.zeros(4), np.zeros(4), np.array([0.01, 0.3, 0.5, 0.94]))
    found = scores.score_numbers(judged, np.array([-1.0, 1.0]), np.zeros(4))
    assert [found[f"covered_{percent}"] for percent in scores.COVERAGES] == [0.5, 0.5, 0.75, 0.75]


def test_survival_scores_by_hand():
    y = response_data.survival([True, False, True, False], [1.0, 2.0, 2.0, 3.0])
    kept = scores.never_censored(y)
    np.testing.assert_allclose(kept(np.array([0.5, 1.0, 2.0])), [1.0, 1.0, 0.5])  # the event at 2 comes first
    seen = response_data.survival([True] * 3, [1.0, 2.0, 3.0])
    times = np.array([1.5, 2.5])
    survival = np.array([[0.2, 0.9, 0.9], [0.1, 0.3, 0.8]])
    square = [0.2**2 + 0.1**2 + 0.1**2, 0.1**2 + 0.3**2 + 0.2**2]
    assert scores.integrated_brier(seen, seen, times, survival) == pytest.approx(np.mean(square) / 3)
    curves = scores.step_curves(np.array([1.0, 2.0]), np.array([[0.6, 0.2]]))
    np.testing.assert_array_equal(curves(np.array([[0.5], [1.0], [1.9], [7.0]])), [[1.0], [0.6], [0.6], [0.2]])


def test_the_survival_scores_are_those_of_scikit_survival(rng):
    metrics = pytest.importorskip("sksurv.metrics")
    time, limit = rng.exponential(size=(2, 300))
    y = response_data.survival(time <= limit, np.minimum(time, limit))
    times = np.quantile(y["time"], np.linspace(0.1, 0.8, 20))
    survival = np.exp(-times[:, None] * rng.uniform(0.5, 2.0, 300))
    other = metrics.integrated_brier_score(y, y, survival.T, times)
    assert scores.integrated_brier(y, y, times, survival) == pytest.approx(other)


def test_places_of_a_true_law_are_calibrated_and_others_are_not(rng):
    time, limit = rng.exponential(size=(2, 20000))
    event, seen = time <= limit, np.minimum(time, limit)
    assert scores.miscalibration(np.exp(-seen), event) < 0.02
    assert scores.miscalibration(np.exp(-3.0 * seen), event) > 0.2
    assert scores.miscalibration(np.zeros(5), np.ones(5, dtype=bool)) == pytest.approx(0.9)


def test_scores_of_grades_by_hand():
    found = scores.score_grades(np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]), np.array([2, 0]))
    assert found["absolute_error"] == 0.5
    assert found["ranked_score"] == pytest.approx((0.2**2 + 0.7**2 + 0.4**2 + 0.1**2) / 2)
    assert found["log_loss"] == pytest.approx(-(np.log(0.3) + np.log(0.6)) / 2)


def small(kind, rng):
    X = rng.normal(size=(120, 2))
    if kind == "real":
        y = X[:, 0] + 0.3 * rng.normal(size=120)
    elif kind == "counts":
        y = rng.poisson(np.exp(X[:, 0])).astype(float)
    elif kind == "survival":
        y = response_data.survival(rng.uniform(size=120) < 0.7, np.exp(X[:, 0] + 0.3 * rng.normal(size=120)))
    else:
        y = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
    return X[:80], y[:80], X[80:], y[80:]


QUICK_METHODS = [
    (kind, method)
    for kind, own in METHODS.items()
    for method in own
    if method not in ("pbdn", "random_forest", "quantile_boosting", "bart")
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "method"), QUICK_METHODS)
def test_every_rival_gives_finite_scores(kind, method, rng):
    if method in NEEDS:
        pytest.importorskip(NEEDS[method])
    found = METHODS[kind][method](*small(kind, rng), 0)
    for key, _, _ in responses.MEASURES[kind]:
        assert np.isfinite(found[key])
    assert found["size"] > 0


def test_a_network_is_scored_with_its_size(monkeypatch, rng):
    quick = {"max_depth": 1, "max_experts": 4, "map_config": MapConfig(n_minibatches=150)}
    monkeypatch.setattr(of_responses, "PBDNSurvival", partial(PBDNSurvival, **quick))
    found = METHODS["survival"]["pbdn"](*small("survival", rng), 0)
    assert found["concordance"] > 0.7
    assert 1 < found["hyperplanes"] < found["size"]


def test_a_run_records_scores_and_tables_rank_them(tmp_path, monkeypatch, rng):
    found = {"concordance": 0.7, "brier": 0.2, "miscalibration": 0.1, "size": 9, "hyperplanes": 3, "depth": 1}
    monkeypatch.setattr(responses, "split_rows", lambda kind, name, split: small(kind, rng))
    monkeypatch.setitem(METHODS, "survival", {"pbdn": lambda *_: dict(found), "cox": lambda *_: 1 / 0})
    line = responses.attempt(("pbdn", "veterans", 0))
    record.append(responses.EXPERIMENT, line, tmp_path)
    assert "cox failed on veterans, split 0: ZeroDivisionError" in responses.attempt(("cox", "veterans", 0))
    record.append(responses.EXPERIMENT, line | {"method": "cox", "brier": 0.1, "concordance": 0.5}, tmp_path)
    table = responses.table("survival", tmp_path)
    assert "| veterans | 0.300 / 0.200 / 0.100 | 0.500 / 0.100 / 0.100 |" in table
    assert "| mean rank | 1.0 / 2.0 / 1.5 | 2.0 / 1.0 / 1.5 |" in table
    assert "| veterans | 1 | 80 | 2 | 1.0 | 3 | 9 |" in responses.own_table(tmp_path)
    assert responses.table("counts", tmp_path) == ""


def test_what_cannot_run_is_said(monkeypatch):
    monkeypatch.setattr(responses, "find_spec", lambda name: None)
    tasks, left_out = responses.plan(["friedman1", "diabetes"], None, 2)
    assert "ngboost is left out: the package ngboost is not installed." in left_out
    assert {method for method, _, _ in tasks} == {method for method in METHODS["real"] if method not in NEEDS}
    assert len(tasks) == len(set(tasks)) == 4 * (len(METHODS["real"]) - 2)
    assert [split for _, _, split in tasks] == sorted(split for _, _, split in tasks)


def test_sets_come_from_files_and_grades_have_equal_shares(tmp_path, monkeypatch):
    monkeypatch.setenv("PBDN_DATA", str(tmp_path))
    X = np.arange(12.0).reshape(6, 2)
    np.savez(tmp_path / "response_veterans.npz", X=X, event=np.arange(6) > 2, time=np.arange(1.0, 7.0))
    found, y = response_data.load("survival", "veterans")
    np.testing.assert_array_equal(found, X)
    assert y["event"].sum() == 3
    _, grades = response_data.load("ordinal", "diabetes_grades")
    assert np.ptp(np.bincount(grades.astype(int))) <= 10
    monkeypatch.setattr(response_data, "find_spec", lambda name: None)
    with pytest.raises(response_data.MissingPackageError, match="ISLP is not installed"):
        response_data.load("real", "auto")
