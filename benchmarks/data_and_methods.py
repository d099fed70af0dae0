"""The data sets of the benchmarks and the methods measured on them, by name: splits, and where records are."""

from functools import cache
from typing import Any

import numpy as np

import benchmarks  # noqa: F401  (finds the data)
from benchmarks.paper_values import DATASETS
from benchmarks.record import UNKNOWN, Record
from pbdn.datasets import Dataset, load_a9a, load_extra, load_ida, load_ijcnn1, load_mnist_pair, make_two_spirals

IDA = DATASETS[:6]
"""The paper's six small sets, with its ten splits."""
LARGE = DATASETS[6:]
PAIRS = ("3v5", "3v8", "4v7", "4v9")
"""Pairs of MNIST digits."""
SPIRALS = ("two_spirals",)
MULTICLASS = ("wine", "digits", "satimage", "penbased", "letter")
GROUPS = {"ida": IDA, "large": LARGE, "multiclass": MULTICLASS, "all": (*DATASETS, *MULTICLASS)}
SPIRALS_SEED = 0
TRAINING_SHARE = 0.7
"""Of the rows of the sets of several classes."""

Split = tuple[Any, Any, Any, Any]
"""Training rows and labels, test rows and labels."""
OURS = ("default", "single", "map", "map_as_grown", "gibbs", "race")
"""Estimators of this package; `benchmarks.quality` says with which parameters."""
RIVALS = (
    "svm",
    "lightgbm",
    "catboost",
    "hist_gradient_boosting",
    "random_forest",
    "gaussian_process",
    "dnn_128_64",
    "amm",
    "lr",
)
RIVALS_OF_SEVERAL = ("svm", "lightgbm", "mlp_early_stopping")
"""On sets of several classes."""

NAMES = {
    "default": "pbdn (default)",
    "single": "pbdn, one network",
    "map": "pbdn, MAP",
    "map_as_grown": "pbdn, MAP, as grown",
    "gibbs": "pbdn, Gibbs",
    "race": "pbdn, race (experimental)",
    "svm": "SVM, RBF kernel, tuned",
    "lightgbm": "LightGBM, defaults",
    "catboost": "CatBoost, defaults",
    "hist_gradient_boosting": "HistGradientBoosting, defaults",
    "random_forest": "random forest, 500 trees",
    "gaussian_process": "Gaussian process, RBF kernel",
    "dnn_128_64": "neural network 128-64",
    "mlp_early_stopping": "MLP 128-64, early stopping",
    "amm": "adaptive multi-hyperplane machine",
    "lr": "logistic regression",
}

ON_SMALL_SETS = ("gaussian_process",)
"""Rivals whose memory grows with the square of the rows; the six small sets only."""
MODERN = ("hist_gradient_boosting", "lightgbm", "catboost", "tabpfn", "random_forest", "gaussian_process")


def names_of(text: str) -> tuple[str, ...]:
    """A group, or names separated by commas."""
    return GROUPS[text] if text in GROUPS else tuple(text.split(","))


def n_splits(name: str) -> int:
    """Splits that are measured: ten of the six small sets, one of the spirals, twenty of wine, three of letter, five of the rest."""
    return 10 if name in IDA else {"wine": 20, "letter": 3}.get(name, 1 if name in SPIRALS else 5)


def rows(name: str, split: int) -> Split:
    """One split: the paper's own, or for several classes 70 % of the rows, drawn by the number of the split."""
    if name not in MULTICLASS:
        return _paper_set(name).split(split)
    X, y = _several_classes(name)
    order = np.random.default_rng([split, len(y)]).permutation(len(y))
    train, test = np.split(order, [int(TRAINING_SHARE * len(y))])
    return X[train], y[train], X[test], y[test]


@cache
def _paper_set(name: str) -> Dataset:
    if name in PAIRS:
        return load_mnist_pair(int(name[0]), int(name[2]), "paper")
    if name in SPIRALS:
        return make_two_spirals(seed=SPIRALS_SEED)
    return {"ijcnn1": load_ijcnn1, "a9a": load_a9a}[name]() if name in LARGE else load_ida(name)


@cache
def _several_classes(name: str) -> tuple[Any, Any]:
    """Features and class codes 0, 1, …"""
    if name in ("digits", "wine"):
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    else:
        data = load_extra(name)
        X, y = data.X, data.y
    return np.asarray(X, dtype=float), np.unique(y, return_inverse=True)[1]


def experiment_of(method: str) -> str:
    """Where the records of a method are kept: ours, and rivals by their kind."""
    if method in OURS:
        return "quality"
    if method.startswith(("dnn", "mlp")):
        return "rivals/networks"
    return "rivals/modern" if method in MODERN else "rivals/machines"


def is_dated(line: Record) -> bool:
    """Whether a line of ours was made before commits were recorded, by another program than `benchmarks.quality`."""
    return line["method"] in OURS and line["commit"] == UNKNOWN
