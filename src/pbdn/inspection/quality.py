"""How good predictions are, with intervals: error, log loss, Brier score, ROC area; of numbers R² and more; of times concordance.

Information criteria from posterior draws compare models of equal inputs.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import brier_score_loss, confusion_matrix, log_loss, roc_auc_score

from pbdn.errors import InvalidInputError
from pbdn.model.likelihood import log_likelihood
from pbdn.model.network import Side
from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FloatArray

LEVEL = 0.95
N_RESAMPLES = 400
PAIRS_AT_ONCE = 4_000_000  # of rows compared for a concordance
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


def measure(
    y: NDArray[Any],
    probability: FloatArray,
    classes: NDArray[Any],
    seed: int = 0,
    sample_weight: FloatArray | None = None,
) -> Quality:
    """Compare class probabilities (n, n_classes) with labels.

    Values are those of `sklearn.metrics`: the Brier score of two classes is the mean of (p - y)², of more classes the sum
    over classes. The interval of the error is Wilson's; the others are bootstrap percentiles. A label outside ``classes``
    counts as a class of its own with probability zero.

    With ``sample_weight`` rows count as much as it says, except in the confusion matrix, which counts rows. Wilson's interval
    then takes the effective number of rows, (Σw)² / Σw².
    """
    known = np.asarray(classes).tolist()
    n_classes = len(known)
    lookup = {label: j for j, label in enumerate(known)}
    codes = np.array([lookup.get(label, n_classes) for label in np.ravel(y).tolist()])
    if codes.max(initial=0) == n_classes:
        probability = np.column_stack([probability, np.zeros(len(codes))])
    columns = list(range(probability.shape[1]))
    best = np.argmax(probability, axis=1)
    n = len(codes)
    w = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    effective = float(w.sum() ** 2 / (w @ w)) if n else 0.0
    common = {"sample_weight": w, "labels": columns}
    # the intervals need the score of every row, of which scikit-learn gives the mean only
    hit = probability[np.arange(n), codes]
    losses = -np.log(np.maximum(hit, np.finfo(probability.dtype).eps))
    halved = n_classes == 2
    scores = ((probability - np.eye(len(columns))[codes]) ** 2).sum(axis=1) / (2.0 if halved else 1.0)
    return Quality(
        n_rows=n,
        error=wilson(effective * float(np.average(best != codes, weights=w)), effective),
        baseline_error=float(1.0 - np.bincount(codes, w, n_classes)[:n_classes].max() / w.sum()),
        log_loss=_mean_interval(log_loss(codes, probability, **common), losses, w, seed),
        brier=_mean_interval(brier_score_loss(codes, probability, scale_by_half=halved, **common), scores, w, seed),
        area=_area(codes == 1, probability[:, 1], w, seed) if n_classes == 2 else None,
        classes=known,
        confusion=confusion_matrix(codes, best, labels=list(range(n_classes))).tolist(),
    )


COVERAGES = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class NumberQuality:
    """Measures of predicted numbers on rows whose values are known.

    Attributes
    ----------
    n_rows : int
    r2, mae, rmse : Estimate
        Share of the variance that is explained; mean absolute error; root of the mean squared error.
    baseline_mae, spread : float
        The two errors of one prediction for all rows: the median, and the mean.
    log_score : float
        Mean log-density, of counts log-probability.
    covered : dict
        Share of the values inside central intervals, by the probability for which they are made (`inside_central`).
    """

    n_rows: int
    r2: Estimate
    mae: Estimate
    rmse: Estimate
    baseline_mae: float
    spread: float
    log_score: float
    covered: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self)


def probability_transform(estimator: Any, X: Any, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P(Y < y) and P(Y ≤ y) of every row; of numbers they are the same, and evenly spread where a model is right."""
    found = estimator._distribution(X)
    if estimator._predicts == "count":  # a count is an interval of the number that the network predicts
        return found.cdf(y), found.cdf(y + 1.0)
    upto = found.cdf(y)
    if estimator._predicts == "amount":  # a zero has a probability of its own
        return np.where(y > 0.0, upto, 0.0), upto
    return upto, upto


def inside_central(below: FloatArray, upto: FloatArray, level: float) -> FloatArray:
    """Whether values lie in central intervals; a count or a zero on the edge does so in part, by how much of its probability does."""
    low, high = 0.5 - 0.5 * level, 0.5 + 0.5 * level
    width = upto - below
    part = np.clip(np.minimum(upto, high) - np.maximum(below, low), 0.0, None) / np.where(width > 0.0, width, 1.0)
    return np.where(width > 0.0, part, (low <= upto) & (upto <= high))


def measure_numbers(
    estimator: Any, X: Any, y: Any, sample_weight: FloatArray | None = None, seed: int = 0
) -> NumberQuality:
    """Compare predicted numbers or counts with known ones; intervals are bootstrap percentiles."""
    y = np.asarray(y, dtype=np.float64)
    w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    below, upto = probability_transform(estimator, X, y)
    gap, apart = estimator.predict(X) - y, y - np.average(y, weights=w)
    pairs = (w * gap**2 + 1j * w * apart**2)[w > 0.0]
    squared = _mean_interval(float(np.average(gap**2, weights=w)), gap**2, w, seed)
    inside = {level: inside_central(below, upto, level) for level in COVERAGES}
    return NumberQuality(
        n_rows=len(y),
        r2=_interval(float(_explained(pairs)), [pairs], _explained, seed),
        mae=_mean_interval(float(np.average(np.abs(gap), weights=w)), np.abs(gap), w, seed),
        rmse=Estimate(*(float(np.sqrt(max(one, 0.0))) for one in (squared.value, squared.low, squared.high))),
        baseline_mae=float(np.average(np.abs(y - np.median(y[w > 0.0])), weights=w)),
        spread=float(np.sqrt(np.average(apart**2, weights=w))),
        log_score=float(estimator.log_score(X, y, sample_weight)),
        covered={f"{level:g}": float(np.average(hit, weights=w)) for level, hit in inside.items()},
    )


def _explained(rows: NDArray[Any], axis: int = -1) -> Any:
    """R² from squared errors and, as imaginary parts, squared distances from the mean; where these are 0, 0 as scikit-learn has it."""
    error, spread = rows.real.sum(axis=axis), rows.imag.sum(axis=axis)
    return np.where(spread > 0.0, 1.0 - error / np.where(spread > 0.0, spread, 1.0), np.where(error > 0.0, 0.0, 1.0))


@dataclass(frozen=True)
class TimeQuality:
    """Measures of predicted times; ``calibration`` has, at some times, the mean predicted survival and what was observed."""

    n_rows: int
    n_events: int
    concordance: Estimate
    log_score: float
    calibration: list[dict[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        ends = [self.concordance.low, self.concordance.high]
        return asdict(self) | {"concordance": self.concordance.value, "concordance_interval": ends}


def measure_times(estimator: Any, X: Any, y: Any, sample_weight: FloatArray | None = None) -> TimeQuality:
    """Compare predicted times with those that were seen or censored from the right."""
    bounds = estimator._said(y)[0]
    risk = concordance(bounds, estimator.predict(X))
    time, event, entry = seen_times(bounds, "A comparison")
    at = np.unique(np.quantile(time[event], [0.25, 0.5, 0.75]))
    predicted = estimator.predict_distribution(X).sf(at[:, None]).mean(axis=1)
    observed, half = kaplan_meier(time, event, at, entry)
    calibration = [
        {"time": float(t), "predicted": float(p), "observed": float(o), "low": max(o - h, 0.0), "high": min(o + h, 1.0)}
        for t, p, o, h in zip(at, predicted, observed, half, strict=True)
    ]
    return TimeQuality(len(time), int(event.sum()), risk, estimator.log_score(X, y, sample_weight), calibration)


def concordance(bounds: FloatArray, risk: FloatArray) -> Estimate:
    """Harrell's concordance of risks with times that were seen or censored from the right; ties of risks count half.

    A pair is comparable where the earlier event was seen, and the other row had entered by then. The interval comes from what
    every row adds.
    """
    time, event, entry = seen_times(bounds, "A concordance")
    right, comparable = np.zeros(len(time)), np.zeros(len(time))  # pairs that a row is in
    seen = np.flatnonzero(event)
    step = max(1, PAIRS_AT_ONCE // max(len(time), 1))
    for first in range(0, len(seen), step):
        own = seen[first : first + step]
        later = ((time > time[own, None]) | ((time == time[own, None]) & ~event)) & (entry < time[own, None])
        good = later * (0.5 * (risk[own, None] >= risk) + 0.5 * (risk[own, None] > risk))
        right[own] += good.sum(axis=1)
        comparable[own] += later.sum(axis=1)
        right += good.sum(axis=0)
        comparable += later.sum(axis=0)
    total = comparable.sum()
    if total == 0:
        raise InvalidInputError("No two rows of y can be compared: no event comes before another time.")
    value = float(right.sum() / total)
    half = 1.96 * 2.0 * float(np.linalg.norm(right - value * comparable)) / total
    return Estimate(value, max(value - half, 0.0), min(value + half, 1.0))


def seen_times(bounds: FloatArray, what: str) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
    """Times, whether each was seen, and of entry (-inf: watched from the start); ``what`` needs no other censoring than from the right."""
    event = bounds[:, 0] == bounds[:, 1]
    if not np.all(event | np.isinf(bounds[:, 1])):
        raise InvalidInputError(f"{what} needs times that were seen or censored from the right; use log_score.")
    return bounds[:, 0], event, bounds[:, 2] if bounds.shape[1] > 2 else np.full(len(bounds), -np.inf)


def kaplan_meier(
    time: FloatArray, event: NDArray[np.bool_], at: FloatArray, entry: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Share without an event at some times, and half of its 95 % interval by Greenwood's formula; rows count from their entry."""
    moments, deaths = np.unique(time[event], return_counts=True)
    there = len(time) if entry is None else np.searchsorted(np.sort(entry), moments)
    waiting = there - np.searchsorted(np.sort(time), moments)
    left = np.concatenate([[1.0], np.cumprod(1.0 - deaths / waiting)])
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.concatenate([[0.0], np.cumsum(np.nan_to_num(deaths / (waiting * (waiting - deaths)), posinf=0.0))])
    place = np.searchsorted(moments, at, side="right")
    return left[place], 1.96 * left[place] * np.sqrt(terms[place])


def wilson(n_hits: float, n: float) -> Estimate:
    """Wilson's interval of a proportion; n may be an effective number."""
    if n == 0:
        return Estimate(float("nan"), 0.0, 1.0)
    z, share = float(stats.norm.ppf(0.5 + LEVEL / 2.0)), n_hits / n
    centre = share + z**2 / (2.0 * n)
    half = z * np.sqrt(share * (1.0 - share) / n + z**2 / (4.0 * n**2))
    low, high = (centre - half) / (1.0 + z**2 / n), (centre + half) / (1.0 + z**2 / n)
    return Estimate(share, 0.0 if n_hits == 0 else float(low), 1.0 if share == 1.0 else float(high))


def _mean_interval(value: float, scores: FloatArray, weights: FloatArray, seed: int) -> Estimate:
    """A weighted mean over rows with its percentile interval."""
    return _interval(float(value), [_weighted(scores, weights)], _mean, seed)


def _area(positive: NDArray[np.bool_], score: FloatArray, weights: FloatArray, seed: int) -> Estimate | None:
    """Area under the ROC curve; rows of each class are resampled apart, so that both are always there."""
    rows = _weighted(score, weights)
    above, below = rows[positive[weights > 0.0]], rows[~positive[weights > 0.0]]
    if not above.size or not below.size:
        return None
    value = float(roc_auc_score(positive, score, sample_weight=weights))
    return _interval(value, [above, below], _pairs_in_order, seed)


def _weighted(scores: FloatArray, weights: FloatArray) -> NDArray[Any]:
    """Scores and weights as pairs that are resampled together, of the rows that count; a pair is a complex number."""
    return (scores + 1j * weights)[weights > 0.0]


def _mean(rows: NDArray[Any], axis: int = -1) -> Any:
    return (rows.real * rows.imag).sum(axis=axis) / rows.imag.sum(axis=axis)


def _pairs_in_order(above: NDArray[Any], below: NDArray[Any], axis: int = -1) -> Any:
    """The same area of many resamples: the weighted share of pairs in the right order, ties counted half."""

    def share(high: NDArray[Any], low: NDArray[Any]) -> float:
        low = low[np.argsort(low.real)]
        until = np.concatenate([[0.0], np.cumsum(low.imag)])
        places = [np.searchsorted(low.real, high.real, side) for side in ("left", "right")]
        return float(high.imag @ (until[places[0]] + until[places[1]]) / (2.0 * high.imag.sum() * until[-1]))

    if above.ndim == 1:
        return share(above, below)
    resamples = zip(np.moveaxis(above, axis, -1), np.moveaxis(below, axis, -1), strict=True)
    return np.array([share(*one) for one in resamples])


def _interval(value: float, samples: list[NDArray[Any]], statistic: Any, seed: int) -> Estimate:
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


def pointwise_log_likelihood(draws: Sequence[Side], inputs: Inputs, target: NDArray[np.bool_]) -> FloatArray:
    """ln p(y_i | draw g), tables integrated out: shape (n_draws, n_rows)."""
    return np.stack([log_likelihood(draw.rate(inputs), target) for draw in draws])


def waic(log_lik: FloatArray) -> tuple[float, float]:
    """WAIC on the deviance scale and its effective number of parameters.

    ``log_lik`` has the shape (n_draws, n_rows). Valid for comparing priors or widths *within* a layer. Not for choosing
    depth: the inputs of a deeper layer have already been fitted to the same labels, and nothing here charges for that.
    """
    top = log_lik.max(axis=0)
    density = top + np.log(np.mean(np.exp(log_lik - top), axis=0))
    penalty = log_lik.var(axis=0, ddof=1)
    return float(-2.0 * np.sum(density - penalty)), float(penalty.sum())


def psis_loo(log_lik: FloatArray) -> tuple[float, FloatArray]:
    """PSIS-LOO on the deviance scale and the Pareto k of every row; same caution about depth as `waic`."""
    from arviz_stats.base import array_stats

    log_weights, pareto_k = array_stats.psislw(log_lik.T, axis=-1)  # of the weights 1 / p(y_i | draw)
    log_weights = log_weights - np.logaddexp.reduce(log_weights, axis=-1, keepdims=True)
    elpd = np.logaddexp.reduce(log_weights + log_lik.T, axis=-1)
    return float(-2.0 * elpd.sum()), np.asarray(pareto_k)
