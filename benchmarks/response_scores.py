"""Scores of predicted distributions: of real numbers, counts, survival times and ordered grades. One value per row or a mean."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.metrics import mean_poisson_deviance

from benchmarks import record
from pbdn.estimators.times import time_bounds
from pbdn.inspection.quality import concordance

COVERAGES = (50, 80, 90, 95)
N_BINS = 10
N_TIMES = 100  # at which Brier scores are taken
TIME_RANGE = (0.05, 0.9)  # quantiles of the test times between which they lie
N_LEVELS = 500  # of quantiles that a CRPS is summed over
SMALLEST_MEAN = 1e-6


# Real numbers.


@dataclass(frozen=True)
class Judged:
    """Predictions of real numbers beside what came: per test row the mean, log-density, CRPS and P(Y ≤ y)."""

    mean: Any
    log_density: Any
    crps: Any
    place: Any


def of_normals(mean: Any, spread: Any, wanted: Any) -> Judged:
    """Normal distributions."""
    z = (wanted - mean) / spread
    crps = spread * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    return Judged(mean, norm.logpdf(z) - np.log(spread), crps, norm.cdf(z))


def of_mixtures(means: Any, spreads: Any, wanted: Any) -> Judged:
    """Equal mixtures of normal distributions; ``means`` is (n_draws, n_rows), ``spreads`` (n_draws,)."""
    spreads = spreads[:, None]
    z = (wanted - means) / spreads
    crps = _distance(wanted - means, spreads).mean(axis=0)
    for first, spread in zip(means, spreads, strict=True):
        crps -= 0.5 * _distance(first - means, np.hypot(spread, spreads)).mean(axis=0) / len(means)
    density = logsumexp(norm.logpdf(z) - np.log(spreads), axis=0) - np.log(len(means))
    return Judged(means.mean(axis=0), density, crps, norm.cdf(z).mean(axis=0))


def _distance(center: Any, spread: Any) -> Any:
    """E|Z|, where Z is normal."""
    z = center / spread
    return center * (2.0 * norm.cdf(z) - 1.0) + 2.0 * spread * norm.pdf(z)


def of_quantiles(mean: Any, levels: Any, quantiles: Any, wanted: Any, smallest_step: float) -> Judged:
    """Distributions with these quantiles, (n_rows, n_levels): densities are constant between them, tails exponential.

    Quantiles that cross are sorted, and lie at least ``smallest_step`` apart.
    """
    quantiles, levels = np.sort(quantiles, axis=1), np.asarray(levels)
    steps = np.maximum(np.diff(quantiles, axis=1), smallest_step)
    quantiles = quantiles[:, :1] + np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    densities = np.diff(levels) / steps
    rows, last = np.arange(len(wanted)), len(levels) - 1
    left, right = levels[0] / densities[:, 0], (1.0 - levels[-1]) / densities[:, -1]  # mean lengths of the tails
    part = np.clip((quantiles <= wanted[:, None]).sum(axis=1) - 1, 0, last - 1)
    below = np.minimum((wanted - quantiles[:, 0]) / left, 0.0)
    above = np.minimum((quantiles[:, -1] - wanted) / right, 0.0)
    inside = levels[part] + densities[rows, part] * (wanted - quantiles[rows, part])
    place = np.where(below < 0.0, levels[0] * np.exp(below), inside)
    place = np.where(above < 0.0, 1.0 - (1.0 - levels[-1]) * np.exp(above), place)
    crps = np.zeros(len(wanted))
    for level in (np.arange(N_LEVELS) + 0.5) / N_LEVELS:
        part_of_level = int(np.clip(np.searchsorted(levels, level) - 1, 0, last - 1))
        value = quantiles[:, part_of_level] + (level - levels[part_of_level]) / densities[:, part_of_level]
        if level < levels[0]:
            value = quantiles[:, 0] + left * np.log(level / levels[0])
        elif level > levels[-1]:
            value = quantiles[:, -1] - right * np.log((1.0 - level) / (1.0 - levels[-1]))
        crps += 2.0 * (wanted - value) * (level - (wanted < value)) / N_LEVELS
    return Judged(mean, np.log(densities[rows, part]) + below + above, crps, place)


def score_numbers(judged: Judged, y: Any, wanted: Any) -> dict[str, float]:
    """Errors and scores in standard deviations of the training values, and how many test values intervals cover."""
    scale = float(np.std(y))
    covered = {
        f"covered_{percent}": float(np.mean(np.abs(judged.place - 0.5) <= 0.005 * percent)) for percent in COVERAGES
    }
    return {
        "rmse": float(np.sqrt(np.mean((judged.mean - wanted) ** 2)) / scale),
        "crps": float(np.mean(judged.crps) / scale),
        "log_density": float(np.mean(judged.log_density) + np.log(scale)),
    } | covered


# Counts.


def score_counts(mean: Any, log_probability: Any, wanted: Any) -> dict[str, float]:
    """Mean log-probability of the counts, and the Poisson deviance of the predicted means."""
    return {
        "log_score": float(np.mean(log_probability)),
        "deviance": float(mean_poisson_deviance(wanted, np.maximum(mean, SMALLEST_MEAN))),
    }


# Survival times.


def step_curves(times: Any, values: Any) -> Callable[[Any], Any]:
    """Survival functions with steps: ``values`` (n_rows, n_times) hold from each of ``times`` on, and 1 before them."""
    padded = np.hstack([np.ones((len(values), 1)), values])
    return lambda points: padded[np.arange(len(values)), np.searchsorted(times, points, side="right")]


def never_censored(y: Any) -> Callable[[Any], Any]:
    """P(not censored before t), Kaplan-Meier; just before each time where an event and a censoring meet."""
    times, places = np.unique(y["time"], return_inverse=True)
    censored = np.bincount(places, ~y["event"], minlength=len(times))
    events = np.bincount(places, y["event"], minlength=len(times))
    at_risk = len(y) - np.concatenate([[0], np.cumsum(censored + events)[:-1]])
    left = np.cumprod(1.0 - censored / np.maximum(at_risk - events, 1))
    kept = np.concatenate([[1.0], np.where(left > 0.0, left, left[left > 0.0][-1] if np.any(left > 0.0) else 1.0)])
    return lambda points: kept[np.searchsorted(times, points, side="right")]


def integrated_brier(y: Any, wanted: Any, times: Any, survival: Any) -> float:
    """Brier score of P(T > t), rows weighted for censoring, averaged over times; ``survival`` is (n_times, n_rows)."""
    kept = never_censored(y)
    time, event = wanted["time"], wanted["event"]
    over = (time <= times[:, None]) & event
    there = time > times[:, None]
    each = survival**2 * over / kept(time) + (1.0 - survival) ** 2 * there / kept(times)[:, None]
    return float(np.trapezoid(each.mean(axis=1), times) / (times[-1] - times[0]))


def miscalibration(place: Any, event: Any) -> float:
    """Distance of the places S(T) from uniform ones in ten bins: the share of rows that would have to move.

    A censored row has its event later: it is spread evenly over the places below its own.
    """
    ends = np.arange(N_BINS + 1) / N_BINS
    spread = np.clip((place[:, None] - ends[:-1]) / np.diff(ends), 0.0, 1.0)
    spread /= np.maximum(spread.sum(axis=1, keepdims=True), 1e-12)
    own = np.minimum((place * N_BINS).astype(int), N_BINS - 1)[:, None] == np.arange(N_BINS)
    shares = np.where(event[:, None], own, spread).mean(axis=0)
    return float(0.5 * np.abs(shares / shares.sum() - 1.0 / N_BINS).sum())


def score_survival(risk: Any, curves: Callable[[Any], Any], y: Any, wanted: Any) -> dict[str, float]:
    """Concordance, integrated Brier score and miscalibration; ``curves`` maps times (n_times, n_rows) to P(T > t)."""
    times = np.linspace(*np.quantile(wanted["time"], TIME_RANGE), N_TIMES)
    survival = curves(np.broadcast_to(times[:, None], (N_TIMES, len(wanted))))
    return {
        "concordance": concordance(time_bounds(wanted), np.asarray(risk, dtype=float)).value,
        "brier": integrated_brier(y, wanted, times, survival),
        "miscalibration": miscalibration(curves(wanted["time"][None, :])[0], wanted["event"]),
    }


# Ordered grades.


def score_grades(probability: Any, wanted: Any) -> dict[str, float]:
    """Mean absolute error of the median grade, log-loss and ranked probability score; columns are the grades 0, 1, ..."""
    below = np.cumsum(probability, axis=1)
    median = (below < 0.5).sum(axis=1)
    happened = np.arange(probability.shape[1]) >= wanted[:, None]
    return {
        "absolute_error": float(np.abs(median - wanted).mean()),
        "ranked_score": float(((below - happened) ** 2).sum(axis=1).mean()),
        "log_loss": record.metrics(wanted, probability)["log_loss"],
    }
