"""The paper's rivals, written or wrapped with the paper's tuning protocols, and what one would use today."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from benchmarks.rivals import modern
from benchmarks.rivals.amm import Amm
from benchmarks.rivals.base import Rival
from benchmarks.rivals.cpm import Cpm, StackedCpm
from benchmarks.rivals.dnn import Dnn
from benchmarks.rivals.logistic import Logistic
from benchmarks.rivals.rvm import Rvm
from benchmarks.rivals.svm import RbfSvm

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
    "hist_gradient_boosting": modern.hist_gradient_boosting,
    "random_forest": modern.random_forest,
    "mlp_early_stopping": modern.mlp_early_stopping,
    "lightgbm": modern.lightgbm,
    "catboost": modern.catboost,
    "tabpfn": modern.tabpfn,
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


def available() -> list[str]:
    """Names of the rivals whose packages are installed."""
    return [name for name in RIVALS if name not in OPTIONAL or find_spec(OPTIONAL[name]) is not None]


__all__ = ["OPTIONAL", "QUICK", "RIVALS", "Dnn", "Rival", "available"]
