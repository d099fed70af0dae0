"""The paper's rivals, written or wrapped with the paper's tuning protocols, and what one would use today."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks.data_and_methods import LARGE, MULTICLASS, PAIRS, Split
from benchmarks.record import metrics
from benchmarks.rivals import libraries
from benchmarks.rivals.amm import Amm
from benchmarks.rivals.base import Rival
from benchmarks.rivals.cpm import Cpm, StackedCpm
from benchmarks.rivals.libraries import Dnn, Logistic, RbfSvm
from benchmarks.rivals.rvm import WIDTHS_LARGE, Rvm

RIVALS: dict[str, Callable[..., Rival]] = {
    "lr": Logistic,
    "svm": RbfSvm,
    "rvm": Rvm,
    "amm": Amm,
    "cpm": Cpm,
    "cpm_stacked_2": partial(StackedCpm, 2),
    "cpm_stacked_3": partial(StackedCpm, 3),
    "cpm_stacked_4": partial(StackedCpm, 4),
    "dnn_8_4": partial(Dnn, (8, 4)),
    "dnn_32_16": partial(Dnn, (32, 16)),
    "dnn_128_64": partial(Dnn, (128, 64)),
    "hist_gradient_boosting": libraries.hist_gradient_boosting,
    "random_forest": libraries.random_forest,
    "gaussian_process": libraries.gaussian_process,
    "mlp_early_stopping": libraries.mlp_early_stopping,
    "lightgbm": libraries.lightgbm,
    "catboost": libraries.catboost,
    "tabpfn": libraries.tabpfn,
}
"""A fresh rival per call; keyword arguments go to its class."""

OPTIONAL = {"lightgbm": "lightgbm", "catboost": "catboost", "tabpfn": "tabpfn"}
"""Rivals that need a package which is no dependency."""

QUICK: dict[str, dict[str, Any]] = {
    "svm": {"step": 2, "cv_rows": 2000},
    "rvm": {"step": 4, "cv_rows": 600, "max_basis": 600},
    "cpm": {"share": 0.01, "k_grid": (1, 3, 5, 10, 20)},
}
"""Settings that shorten the paper's searches; results made with them must say so."""
REDUCED: dict[str, dict[str, Any]] = {
    "rvm": {"step": 4, "cv_rows": 600},
    "cpm": {"share": 0.1},
    "cpm_stacked": {"share": 0.1},
}
"""Where the paper's search is too long for a small machine; every other rival follows the paper."""
REDUCED_LARGE: dict[str, dict[str, Any]] = {
    "svm": {"step": 2, "cv_rows": 2500},
    "rvm": {"step": 4, "cv_rows": 1000, "max_basis": 1000, "widths": WIDTHS_LARGE},
    "cpm": {"share": 0.05, "k_grid": (1, 3, 5, 10, 20, 40)},
}
"""Further shortcuts on ijcnn1 and a9a."""
COARSE = ("satimage", "penbased", "letter")
"""Sets of several classes on which the SVM searches its grid from coarse to fine."""
DNN_DIGITS = {"n_steps": 4000, "batch_size": 100}
"""Of the paper's table 1."""
HIDDEN_UNITS = (128, 64)
"""Of the MLP."""


def available() -> list[str]:
    """Names of the rivals whose packages are installed."""
    return [name for name in RIVALS if name not in OPTIONAL or find_spec(OPTIONAL[name]) is not None]


def protocol(method: str, data: str, quick: bool = False) -> dict[str, Any]:
    """Settings of a rival on a data set; ``quick`` is the reduced profile."""
    if data in PAIRS:
        return dict(DNN_DIGITS)
    if quick or (method == "svm" and data in COARSE):
        return dict(QUICK.get("cpm" if method == "cpm_stacked" else method, {}))
    return {**REDUCED.get(method, {}), **(REDUCED_LARGE.get(method, {}) if data in LARGE else {})}


def fit_rival(method: str, data: str, split: Split, random_state: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Scores, complexity and tuned settings of a rival. Features of several classes are standardised, as ours are."""
    X, y, X_test, y_test = split
    if data in MULTICLASS:
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    rival: Any = RIVALS[method](**settings).fit(X, y, random_state)
    result: dict[str, Any] = {"config": settings, "chosen": rival.chosen, **score(rival, X_test, y_test)}
    if method == "mlp_early_stopping" and data in MULTICLASS:
        first, second = HIDDEN_UNITS
        width = X.shape[1] + 1
        result["complexity"] = (width * first + (first + 1) * second + (second + 1) * (int(y.max()) + 1)) / width
    return result


def score(rival: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Test error and, where there are probabilities, the other metrics; complexity."""
    if rival.has_probabilities:
        result: dict[str, Any] = metrics(y_test, rival.predict_proba(X_test))
    else:
        result = {"error": float(100 * np.mean(rival.predict(X_test) != y_test))}
    return result | {"complexity": rival.complexity}


__all__ = ["OPTIONAL", "QUICK", "RIVALS", "Dnn", "Rival", "available", "fit_rival", "protocol", "score"]
