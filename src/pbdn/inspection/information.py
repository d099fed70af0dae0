"""Information criteria from posterior draws, for comparing models of equal inputs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pbdn.model.likelihood import log_likelihood
from pbdn.model.network import Side
from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FloatArray


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
