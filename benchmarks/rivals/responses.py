"""Methods that predict distributions of numbers, counts, survival times and grades: the library's default and its rivals.

A method takes training rows and responses, test rows and responses, and a seed. It returns its scores on the test rows, and its
size: weights of a network, leaves of trees, coefficients of a formula, kept training values of a process.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import nbinom, poisson
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import response_scores as scores
from pbdn import PBDNCountRegressor, PBDNOrdinalClassifier, PBDNRegressor, PBDNSurvival

Found = dict[str, Any]
Method = Callable[[Any, Any, Any, Any, int], Found]

N_TREES = 500
N_SURVIVAL_TREES = 200
LEAF_ROWS = (1, 5, 20)  # fewest training rows in a leaf of a forest, chosen by log-loss in five folds
SURVIVAL_LEAF_ROWS = 15
MOST_ROWS_OF_PROCESS = 1000
LEVELS = (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975)
SMALLEST_STEP = 0.01  # between quantiles, in standard deviations
PATIENCE = 50  # steps of NGBoost without gain after which it stops
N_DRAWS = 250  # of the posterior of additive trees that are scored
PENALTY = 1e-3  # of linear rivals that may meet columns which depend on each other


def of_network(model: Any) -> Found:
    """Size of a fitted network."""
    return {
        "size": model.n_weights_,
        "depth": model.depth_,
        "hyperplanes": sum(sum(layer) for layer in model.n_experts_),
    }


def leaves(model: Any) -> Found:
    """Size of a fitted forest or of fitted boosting."""
    if hasattr(model, "_predictors"):
        return {"size": sum(tree.get_n_leaf_nodes() for step in model._predictors for tree in step)}
    return {"size": int(sum(getattr(tree, "tree_", tree).n_leaves for tree in np.ravel(model.estimators_)))}


# Real numbers.


def numbers_of_pbdn(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    model = PBDNRegressor(random_state=seed).fit(X, y)
    law = model.predict_distribution(new)
    judged = scores.Judged(
        model.predict(new), law.log_likelihood(np.column_stack([wanted, wanted])), law.crps(wanted), law.cdf(wanted)
    )
    return scores.score_numbers(judged, y, wanted) | of_network(model) | {"log": model.log_}


def with_normal_noise(estimator: Any) -> Method:
    """A rival that predicts a number gets normal noise of the spread that five folds show."""

    def method(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
        model = clone(estimator).set_params(random_state=seed)
        spread = np.sqrt(np.mean((cross_val_predict(model, X, y, cv=5) - y) ** 2))
        mean = model.fit(X, y).predict(new)
        return scores.score_numbers(scores.of_normals(mean, spread, wanted), y, wanted) | leaves(model)

    return method


def quantile_boosting(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    """Boosting of thirteen quantiles; the mean is that of boosting with squares."""
    center = HistGradientBoostingRegressor(random_state=seed).fit(X, y)
    models = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=seed).fit(X, y) for level in LEVELS
    ]
    quantiles = np.column_stack([model.predict(new) for model in models])
    judged = scores.of_quantiles(center.predict(new), LEVELS, quantiles, wanted, SMALLEST_STEP * float(np.std(y)))
    return scores.score_numbers(judged, y, wanted) | {"size": sum(leaves(one)["size"] for one in (center, *models))}


def gaussian_process(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    """A length for every feature, learnt; of larger sets the first thousand rows."""
    near, values = X[:MOST_ROWS_OF_PROCESS], y[:MOST_ROWS_OF_PROCESS]
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=seed)
    mean, spread = make_pipeline(StandardScaler(), process).fit(near, values).predict(new, return_std=True)
    return scores.score_numbers(scores.of_normals(mean, spread, wanted), y, wanted) | {"size": near.size}


def ngboost(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    """Natural gradient boosting of a normal distribution; a tenth of the training rows decides when to stop."""
    from ngboost import NGBRegressor

    model = NGBRegressor(random_state=seed, verbose=False, early_stopping_rounds=PATIENCE).fit(X, y)
    law = model.pred_dist(new, max_iter=model.best_val_loss_itr).params
    judged = scores.of_normals(law["loc"], law["scale"], wanted)
    trees = [tree for step in model.base_models for tree in step]
    return scores.score_numbers(judged, y, wanted) | {"size": sum(tree.get_n_leaves() for tree in trees)}


def bart(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    """Bayesian additive regression trees."""
    from bartz.BART import gbart

    model = gbart(X.astype(np.float32), y.astype(np.float32), x_test=new.astype(np.float32), seed=seed, printevery=None)
    means = np.asarray(model.yhat_test, dtype=float)
    spreads = np.asarray(model.sigma_, dtype=float).ravel()[-len(means) :]
    kept = np.linspace(0, len(means) - 1, N_DRAWS).astype(int)
    judged = scores.of_mixtures(means[kept], spreads[kept], wanted)
    return scores.score_numbers(judged, y, wanted)


# Counts.


def counts_of_pbdn(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    model = PBDNCountRegressor(random_state=seed).fit(X, y)
    return scores.score_counts(model.predict(new), model.log_score(new, wanted), wanted) | of_network(model)


def poisson_regression(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    model = make_pipeline(StandardScaler(), PoissonRegressor(alpha=PENALTY, max_iter=1000)).fit(X, y)
    mean = model.predict(new)
    return scores.score_counts(mean, poisson.logpmf(wanted, mean), wanted) | {"size": X.shape[1] + 1}


def poisson_boosting(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    model = HistGradientBoostingRegressor(loss="poisson", random_state=seed).fit(X, y)
    mean = model.predict(new)
    return scores.score_counts(mean, poisson.logpmf(wanted, mean), wanted) | leaves(model)


def overdispersed_boosting(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    """Boosting of the mean with negative binomial counts around it, whose spread makes five folds likeliest."""
    model = HistGradientBoostingRegressor(loss="poisson", random_state=seed)
    folds = cross_val_predict(model, X, y, cv=5)

    def lack(log_spread: float) -> float:
        return -float(log_negative_binomial(y, folds, np.exp(log_spread)).sum())

    spread = np.exp(minimize_scalar(lack, bounds=(-10.0, 4.0), method="bounded").x)
    mean = model.fit(X, y).predict(new)
    return scores.score_counts(mean, log_negative_binomial(wanted, mean, spread), wanted) | leaves(model)


def log_negative_binomial(counts: Any, mean: Any, spread: Any) -> Any:
    """ln P(count) where the variance is mean + spread mean²."""
    return nbinom.logpmf(counts, 1.0 / spread, 1.0 / (1.0 + spread * mean))


def negative_binomial(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    """Negative binomial regression by maximum likelihood; columns that depend on others are left out by their singular values."""
    from statsmodels.discrete.discrete_model import NegativeBinomial

    scaler = StandardScaler().fit(X)
    _, sizes, axes = np.linalg.svd(scaler.transform(X), full_matrices=False)
    axes = axes[sizes > 1e-8 * sizes[0]]

    def design(rows: Any) -> Any:
        return np.column_stack([np.ones(len(rows)), scaler.transform(rows) @ axes.T])

    model = NegativeBinomial(y, design(X)).fit(disp=0, maxiter=500)
    mean = np.exp(design(new) @ model.params[:-1])
    log_probability = log_negative_binomial(wanted, mean, max(float(model.params[-1]), 1e-8))
    return scores.score_counts(mean, log_probability, wanted) | {"size": len(model.params)}


# Survival times.


def survival_of_pbdn(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
    model = PBDNSurvival(random_state=seed).fit(X, y)
    law = model.predict_distribution(new)
    return scores.score_survival(model.predict(new), law.sf, y, wanted) | of_network(model)


def cox_size(model: Any) -> Found:
    return {"size": len(model.coef_)}


def of_sksurv(make: Callable[[int], Any], size: Callable[[Any], Found]) -> Method:
    """A rival with scikit-survival's conventions."""

    def method(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
        scaler = StandardScaler().fit(X)
        model = make(seed).fit(scaler.transform(X), y)
        rows = scaler.transform(new)
        curves = scores.step_curves(model.unique_times_, model.predict_survival_function(rows, return_array=True))
        return scores.score_survival(model.predict(rows), curves, y, wanted) | size(model)

    return method


def cox(seed: int) -> Any:
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    return CoxPHSurvivalAnalysis(alpha=PENALTY, ties="efron")


def survival_forest(seed: int) -> Any:
    from sksurv.ensemble import RandomSurvivalForest

    return RandomSurvivalForest(N_SURVIVAL_TREES, min_samples_leaf=SURVIVAL_LEAF_ROWS, random_state=seed)


def survival_boosting(seed: int) -> Any:
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis

    return GradientBoostingSurvivalAnalysis(random_state=seed)


# Ordered grades.


def grades(make: Callable[[int], Any], size: Callable[[Any], Found]) -> Method:
    """A classifier with `predict_proba`; grades that training lacks get no probability."""

    def method(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> Found:
        scaler, places = StandardScaler().fit(X), y.astype(int)
        model = make(seed).fit(scaler.transform(X), places)
        probability = np.zeros((len(new), 1 + int(max(y.max(), wanted.max()))))
        probability[:, np.unique(places)] = model.predict_proba(scaler.transform(new))
        return scores.score_grades(probability, wanted.astype(int)) | size(model)

    return method


def threshold_size(model: Any) -> Found:
    return {"size": len(model.coef_) + len(model.theta_)}


def all_thresholds(seed: int) -> Any:
    from mord import LogisticAT

    return LogisticAT()


class OrderedLogit:
    """Proportional odds by maximum likelihood."""

    def fit(self, X: Any, y: Any) -> "OrderedLogit":
        from statsmodels.miscmodels.ordinal_model import OrderedModel

        self.axes = np.linalg.svd(X, full_matrices=False)[2]
        self.axes = self.axes[np.linalg.norm(X @ self.axes.T, axis=0) > 1e-6 * np.sqrt(len(X))]
        self.model = OrderedModel(y, X @ self.axes.T, distr="logit").fit(method="bfgs", maxiter=500, disp=0)
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.asarray(self.model.predict(exog=X @ self.axes.T))


def logit_size(model: Any) -> Found:
    return {"size": len(model.model.params)}


def grade_forest(seed: int) -> Any:
    forest = RandomForestClassifier(N_TREES, random_state=seed)
    return GridSearchCV(forest, {"min_samples_leaf": LEAF_ROWS}, scoring="neg_log_loss", cv=5, error_score=-np.inf)


METHODS: dict[str, dict[str, Method]] = {
    "real": {
        "pbdn": numbers_of_pbdn,
        "random_forest": with_normal_noise(RandomForestRegressor(N_TREES)),
        "boosting": with_normal_noise(HistGradientBoostingRegressor()),
        "quantile_boosting": quantile_boosting,
        "gaussian_process": gaussian_process,
        "ngboost": ngboost,
        "bart": bart,
    },
    "counts": {
        "pbdn": counts_of_pbdn,
        "poisson_regression": poisson_regression,
        "negative_binomial": negative_binomial,
        "poisson_boosting": poisson_boosting,
        "overdispersed_boosting": overdispersed_boosting,
    },
    "survival": {
        "pbdn": survival_of_pbdn,
        "cox": of_sksurv(cox, cox_size),
        "survival_forest": of_sksurv(survival_forest, leaves),
        "survival_boosting": of_sksurv(survival_boosting, leaves),
    },
    "ordinal": {
        "pbdn": grades(lambda seed: PBDNOrdinalClassifier(random_state=seed), of_network),
        "all_thresholds": grades(all_thresholds, threshold_size),
        "ordered_logit": grades(lambda seed: OrderedLogit(), logit_size),
        "random_forest": grades(grade_forest, lambda model: leaves(model.best_estimator_)),
        "boosting": grades(lambda seed: HistGradientBoostingClassifier(random_state=seed), leaves),
    },
}
"""By the kind of response."""

NEEDS = {
    "ngboost": "ngboost",
    "bart": "bartz",
    "negative_binomial": "statsmodels",
    "cox": "sksurv",
    "survival_forest": "sksurv",
    "survival_boosting": "sksurv",
    "all_thresholds": "mord",
    "ordered_logit": "statsmodels",
}
"""Rivals that need a package which is no dependency."""
