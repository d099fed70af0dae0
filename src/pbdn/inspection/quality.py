"""How good predictions are, with intervals: error, log loss, Brier score, area under the ROC curve."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import brier_score_loss, confusion_matrix, log_loss, roc_auc_score

from pbdn.numerics.arrays import FloatArray

LEVEL = 0.95
N_RESAMPLES = 400
MAX_RESAMPLED = 20_000  # rows from which intervals are resampled; more rows would not change what is read


@dataclass(frozen=True)
class Estimate:
    """A value with a 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Quality:
    """Measures on labelled rows; ``area`` is None where there are more than two classes."""

    n_rows: int
    error: Estimate
    baseline_error: float
    log_loss: Estimate
    brier: Estimate
    area: Estimate | None
    classes: list[Any]
    confusion: list[list[int]]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self)


def measure(y: NDArray[Any], probability: FloatArray, classes: NDArray[Any], seed: int = 0) -> Quality:
    """Compare class probabilities (n, n_classes) with labels.

    Values are those of `sklearn.metrics`: the Brier score of two classes is the mean of (p - y)², of more classes the sum
    over classes. The interval of the error is Wilson's; the others are bootstrap percentiles. A label outside ``classes``
    counts as a class of its own with probability zero.
    """
    known = np.asarray(classes).tolist()
    n_classes = len(known)
    lookup = {label: j for j, label in enumerate(known)}
    codes = np.array([lookup.get(label, n_classes) for label in np.asarray(y).tolist()])
    if codes.max(initial=0) == n_classes:
        probability = np.column_stack([probability, np.zeros(len(codes))])
    columns = list(range(probability.shape[1]))
    best = np.argmax(probability, axis=1)
    n = len(codes)
    # the intervals need the score of every row, of which scikit-learn gives the mean only
    hit = probability[np.arange(n), codes]
    losses = -np.log(np.maximum(hit, np.finfo(probability.dtype).eps))
    halved = n_classes == 2
    scores = ((probability - np.eye(len(columns))[codes]) ** 2).sum(axis=1) / (2.0 if halved else 1.0)
    return Quality(
        n_rows=n,
        error=wilson(int(np.sum(best != codes)), n),
        baseline_error=float(1.0 - np.bincount(codes, minlength=n_classes)[:n_classes].max() / n),
        log_loss=_mean_interval(log_loss(codes, probability, labels=columns), losses, seed),
        brier=_mean_interval(brier_score_loss(codes, probability, labels=columns, scale_by_half=halved), scores, seed),
        area=_area(codes == 1, probability[:, 1], seed) if n_classes == 2 else None,
        classes=known,
        confusion=confusion_matrix(codes, best, labels=list(range(n_classes))).tolist(),
    )


def wilson(n_hits: int, n: int) -> Estimate:
    """Wilson's interval of a proportion."""
    if n == 0:
        return Estimate(float("nan"), 0.0, 1.0)
    ends = stats.binomtest(n_hits, n).proportion_ci(LEVEL, method="wilson")
    return Estimate(n_hits / n, float(ends.low), float(ends.high))


def _mean_interval(value: float, scores: FloatArray, seed: int) -> Estimate:
    """A mean over rows with its percentile interval."""
    return _interval(float(value), [scores], np.mean, seed)


def _area(positive: NDArray[np.bool_], score: FloatArray, seed: int) -> Estimate | None:
    """Area under the ROC curve; rows of each class are resampled apart, so that both are always there."""
    if positive.all() or not positive.any():
        return None
    value = float(roc_auc_score(positive, score))
    return _interval(value, [score[positive], score[~positive]], _mann_whitney, seed)


def _mann_whitney(above: FloatArray, below: FloatArray, axis: int = -1) -> FloatArray:
    """The same area of many resamples at once: the share of pairs in the right order, ties counted half."""
    found = stats.mannwhitneyu(above, below, axis=axis, method="asymptotic").statistic
    return np.asarray(found / (above.shape[axis] * below.shape[axis]))


def _interval(value: float, samples: list[FloatArray], statistic: Any, seed: int) -> Estimate:
    """Percentile interval, from at most ``MAX_RESAMPLED`` rows, narrowed to the number that there are."""
    rng = np.random.default_rng(seed)
    n = sum(sample.size for sample in samples)
    share = min(1.0, MAX_RESAMPLED / n)
    some = [rng.choice(one, max(1, round(share * one.size)), replace=False) if share < 1.0 else one for one in samples]
    some = [one if one.size > 1 else np.repeat(one, 2) for one in some]  # resampling takes two or more
    centre = float(statistic(*some))
    drawn = stats.bootstrap(
        some, statistic, n_resamples=N_RESAMPLES, batch=50, vectorized=True, method="percentile", random_state=rng
    ).bootstrap_distribution
    low, high = np.quantile(drawn, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0]) - centre
    shrink = np.sqrt(share)
    return Estimate(value, float(value + shrink * low), float(value + shrink * high))
