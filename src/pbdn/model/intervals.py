"""How sure a network is, from how far the networks of the folds differ: the jackknife over folds.

Each of K networks has been trained without one fold of the rows. The spread of their log-odds says how far a prediction would
move with other rows: se² = (K - 1)/K Σ_m (z_m - z̄)² (Tukey's jackknife over groups of rows). The jackknife does not see what
all networks get wrong in the same way, such as too much shrinkage. `WIDENING` makes up for that on average; it was chosen on
simulated truths, and `python -m benchmarks.coverage` measures what is covered.
"""

import numpy as np
from scipy.special import expit, logit
from scipy.stats import t as student_t

from pbdn.numerics.arrays import FloatArray

WIDENING = 1.3  # of the standard error
SMALLEST = 1e-12  # probability whose log-odds are still told apart


def log_odds(probability: FloatArray) -> FloatArray:
    """ln p/(1 - p), finite."""
    return np.asarray(logit(np.clip(probability, SMALLEST, 1.0 - SMALLEST)))


def jackknife_interval(folds: FloatArray, center: FloatArray, level: float) -> FloatArray:
    """Intervals of probabilities, shape (n, n_outputs, 2).

    Parameters
    ----------
    folds : array (n_folds, n, n_outputs)
        Predictions of networks that were each trained without one fold of the rows.
    center : array (n, n_outputs)
        The prediction that the intervals are of.
    level : float
        Share of intervals that shall hold the truth.
    """
    n_folds = len(folds)
    odds = log_odds(folds)
    error = np.sqrt((n_folds - 1) / n_folds * ((odds - odds.mean(axis=0)) ** 2).sum(axis=0))
    half = WIDENING * student_t.ppf(0.5 + 0.5 * level, n_folds - 1) * error
    middle = log_odds(center)
    return np.stack([expit(middle - half), expit(middle + half)], axis=-1)
