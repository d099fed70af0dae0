"""How sure an average of networks is, from how far its members differ: the jackknife over folds.

Each of K networks has been trained without one fold of the rows. The spread of their log-odds says how far the average would
move with other rows: se² = (K - 1)/K Σ_m (z_m - z̄)² (Tukey's jackknife over groups of rows). The jackknife does not see what
all members get wrong in the same way, such as too much shrinkage. `WIDENING` makes up for that on average; it was chosen on
simulated truths, and `python -m benchmarks.coverage` measures what is covered.
"""

import numpy as np
from scipy.special import expit, logit
from scipy.stats import t as student_t

from pbdn.numerics.arrays import FloatArray

WIDENING = 1.5  # of the standard error
SMALLEST = 1e-12  # probability whose log-odds are still told apart


def log_odds(probability: FloatArray) -> FloatArray:
    """ln p/(1 - p), finite."""
    return np.asarray(logit(np.clip(probability, SMALLEST, 1.0 - SMALLEST)))


def jackknife_interval(members: FloatArray, average: FloatArray, level: float) -> FloatArray:
    """Intervals of the probabilities of an average, shape (n, n_outputs, 2).

    Parameters
    ----------
    members : array (n_members, n, n_outputs)
        Predictions of the networks that are averaged.
    average : array (n, n_outputs)
        Prediction of the average.
    level : float
        Share of intervals that shall hold the truth.
    """
    n_members = len(members)
    odds = log_odds(members)
    error = np.sqrt((n_members - 1) / n_members * ((odds - odds.mean(axis=0)) ** 2).sum(axis=0))
    half = WIDENING * student_t.ppf(0.5 + 0.5 * level, n_members - 1) * error
    center = log_odds(average)
    return np.stack([expit(center - half), expit(center + half)], axis=-1)
