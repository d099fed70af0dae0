"""The same rows learned by two well-known methods, so that a reader can judge the network."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection.effects import some_rows
from pbdn.inspection.quality import Quality, measure
from pbdn.numerics.arrays import FloatArray

MAX_TRAINING = 20_000
SEED = 0


def compare(
    training: tuple[FloatArray, NDArray[Any]], rows: FloatArray, y: NDArray[Any], own: Quality, name: str
) -> list[dict[str, Any]]:
    """Measures of the network and of its rivals, fitted on ``training`` with default settings, on the same rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    X, labels = training
    chosen = some_rows(X, MAX_TRAINING)
    X, labels = X[chosen], np.asarray(labels)[chosen]
    rivals = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "gradient boosting": HistGradientBoostingClassifier(random_state=SEED),
    }
    out = [_line(name, own, True)]
    for title, rival in rivals.items():
        with warnings.catch_warnings(), threadpool_limits(1):  # threads cost more than they give on so few rows
            warnings.simplefilter("ignore")
            rival.fit(X, labels)
        out.append(_line(title, measure(y, rival.predict_proba(rows), rival.classes_), False))
    return out


def _line(name: str, quality: Quality, own: bool) -> dict[str, Any]:
    return {"name": name, "own": own, "error": quality.error, "log_loss": quality.log_loss, "area": quality.area}


def comparison_words(lines: list[dict[str, Any]]) -> str:
    """One sentence: is a rival better, beyond chance or not."""
    own = next(line for line in lines if line["own"])
    best = min((line for line in lines if not line["own"]), key=lambda line: line["log_loss"].value)
    mine, other = own["log_loss"], best["log_loss"]
    if mine.high < other.low:
        return f"Its probabilities are better than those of both rivals, by more than chance (log loss {mine.value:.3f} against {other.value:.3f})."
    if other.high < mine.low:
        return f"The probabilities of {best['name']} are better, by more than chance (log loss {other.value:.3f} against {mine.value:.3f}). Consider using it."
    better = "a little better than" if mine.value < other.value else "a little worse than"
    return f"Its probabilities are {better} those of the best rival, {best['name']} (log loss {mine.value:.3f} against {other.value:.3f}), by less than these rows can tell."
