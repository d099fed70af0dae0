"""How good predictions are, with intervals: error, log loss, Brier score, area under the ROC curve."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FloatArray = NDArray[np.float64]

N_RESAMPLES = 400
MAX_RESAMPLED = 20_000  # rows from which intervals are resampled; more rows would not change what is read
FLOOR = 1e-15  # probabilities below this count as this in the log loss


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

    The interval of the error is Wilson's; the others are bootstrap percentiles. Labels outside ``classes``
    count as errors, with the smallest probability.
    """
    y = np.asarray(y)
    lookup = {label: j for j, label in enumerate(np.asarray(classes).tolist())}
    codes = np.array([lookup.get(label, -1) for label in y.tolist()])
    n = len(codes)
    best = np.argmax(probability, axis=1)
    wrong = best != codes
    hit = np.where(codes >= 0, probability[np.arange(n), np.maximum(codes, 0)], 0.0)
    loss = -np.log(np.maximum(hit, FLOOR))
    onehot = codes[:, None] == np.arange(probability.shape[1])
    brier = ((probability - onehot) ** 2).sum(axis=1)
    confusion = np.zeros((probability.shape[1],) * 2, dtype=int)
    np.add.at(confusion, (codes[codes >= 0], best[codes >= 0]), 1)
    rng = np.random.default_rng(seed)
    size = min(n, MAX_RESAMPLED)
    shrink = np.sqrt(size / n)
    draws = [rng.integers(0, n, size) for _ in range(N_RESAMPLES)]
    area = None
    if probability.shape[1] == 2 and 0 < onehot[:, 1].sum() < n:
        positive = onehot[:, 1]
        area = _resampled(
            roc_area(positive, probability[:, 1]),
            [roc_area(positive[rows], probability[rows, 1]) for rows in draws],
            shrink,
        )
    counts = np.bincount(codes[codes >= 0], minlength=probability.shape[1])
    return Quality(
        n_rows=n,
        error=wilson(int(wrong.sum()), n),
        baseline_error=float(1.0 - counts.max() / n),
        log_loss=_resampled(float(loss.mean()), [float(loss[rows].mean()) for rows in draws], shrink),
        brier=_resampled(float(brier.mean()), [float(brier[rows].mean()) for rows in draws], shrink),
        area=area,
        classes=np.asarray(classes).tolist(),
        confusion=confusion.tolist(),
    )


def wilson(n_hits: int, n: int, level: float = 0.95) -> Estimate:
    """Wilson's interval of a proportion."""
    if n == 0:
        return Estimate(float("nan"), 0.0, 1.0)
    z = float(stats.norm.ppf(0.5 + level / 2.0))
    share = n_hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Estimate(share, max(0.0, float(centre - half)), min(1.0, float(centre + half)))


def roc_area(positive: NDArray[np.bool_], score: FloatArray) -> float:
    """Probability that a positive row scores above a negative one, ties counted half."""
    n_positive = int(positive.sum())
    n_negative = positive.size - n_positive
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    ranks = stats.rankdata(score)
    return float((ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def _resampled(value: float, values: list[float], shrink: float) -> Estimate:
    """Percentile interval, narrowed where fewer rows than there are were drawn."""
    low, high = np.nanquantile(values, [0.025, 0.975])
    return Estimate(value, float(value + shrink * (low - value)), float(value + shrink * (high - value)))
