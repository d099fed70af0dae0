"""What one would try today, with the libraries' defaults or the usual small changes, and no tuning."""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.rivals.base import Rival, dense


class Wrapped(Rival):
    """A scikit-learn style classifier made by ``make(seed)``."""

    has_probabilities = True

    def __init__(self, make: Callable[[int], Any]) -> None:
        super().__init__()
        self.make = make

    def fit(self, X: Any, y: np.ndarray, seed: int) -> Self:
        with warnings.catch_warnings(), threadpool_limits(1):  # fits run side by side
            warnings.simplefilter("ignore", ConvergenceWarning)  # a stated iteration limit is part of the rival
            self.model_ = self.make(seed % 2**31).fit(dense(X), y)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(self.model_.predict_proba(dense(X)))

    def decision_function(self, X: Any) -> np.ndarray:
        """Probability of class 1 less one half."""
        return self.predict_proba(X)[:, 1] - 0.5


def hist_gradient_boosting() -> Wrapped:
    """Histogram gradient boosting, scikit-learn's defaults."""
    return Wrapped(lambda seed: HistGradientBoostingClassifier(random_state=seed))


def random_forest() -> Wrapped:
    """500 trees."""
    return Wrapped(lambda seed: RandomForestClassifier(500, random_state=seed))


def mlp_early_stopping() -> Wrapped:
    """Standardised features, 128-64 ReLU units, Adam, a tenth of the rows held out to stop."""

    def make(seed: int) -> Any:
        network = MLPClassifier((128, 64), early_stopping=True, n_iter_no_change=20, max_iter=500, random_state=seed)
        return make_pipeline(StandardScaler(), network)

    return Wrapped(make)


def lightgbm() -> Wrapped:
    """LightGBM's defaults."""
    from lightgbm import LGBMClassifier

    return Wrapped(lambda seed: LGBMClassifier(random_state=seed, verbose=-1, n_jobs=1))


def catboost() -> Wrapped:
    """CatBoost's defaults."""
    from catboost import CatBoostClassifier

    return Wrapped(
        lambda seed: CatBoostClassifier(random_seed=seed, verbose=False, allow_writing_files=False, thread_count=1)
    )


def tabpfn() -> Wrapped:
    """TabPFN's defaults; its weights must already be on this machine."""
    from tabpfn import TabPFNClassifier

    return Wrapped(lambda seed: TabPFNClassifier(random_state=seed))
