"""The methods of the quality records: their names, and where their records are."""

from benchmarks.record import UNKNOWN, Record

OURS = ("default", "single", "map", "map_as_grown", "gibbs", "race")
"""Estimators of this package; `benchmarks.quality` says with which parameters."""
RIVALS = ("svm", "lightgbm", "hist_gradient_boosting", "random_forest", "dnn_128_64", "amm", "lr")
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
    "hist_gradient_boosting": "HistGradientBoosting, defaults",
    "random_forest": "random forest, 500 trees",
    "dnn_128_64": "neural network 128-64",
    "mlp_early_stopping": "MLP 128-64, early stopping",
    "amm": "adaptive multi-hyperplane machine",
    "lr": "logistic regression",
}


MODERN = ("hist_gradient_boosting", "lightgbm", "catboost", "tabpfn", "random_forest")


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
