"""Convergence and predictive diagnostics on quantities that do not depend on the numbering of experts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.model.likelihood import log_likelihood
from pbdn.model.network import Inputs, Side

FloatArray = NDArray[np.float64]

MAX_R_HAT = 1.01
MIN_ESS_PER_CHAIN = 100.0
N_ANCHORS = 8


@dataclass(frozen=True)
class Convergence:
    """Rank-normalised split R-hat and bulk / tail effective sample size of one quantity."""

    quantity: str
    r_hat: float
    ess_bulk: float
    ess_tail: float

    def fails(self, n_chains: int) -> bool:
        """Whether the quantity has not converged by the usual limits."""
        least = MIN_ESS_PER_CHAIN * n_chains
        return not (self.r_hat <= MAX_R_HAT and self.ess_bulk >= least and self.ess_tail >= least)


def converge(quantity: str, values: FloatArray) -> Convergence:
    """Diagnose one quantity from values of shape (n_chains, n_draws); constant values have converged."""
    values = np.asarray(values, dtype=float)
    if values.shape[1] < 8 or not np.isfinite(values).all():
        return Convergence(quantity, float("nan"), 0.0, 0.0)
    if np.ptp(values) == 0.0:
        return Convergence(quantity, 1.0, float(values.size), float(values.size))
    from arviz_stats.base import array_stats

    where = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(all="ignore"):
        r_hat = float(array_stats.rhat(values, method="rank", **where))
        bulk = float(array_stats.ess(values, method="bulk", **where))
        tail = float(array_stats.ess(values, method="tail", prob=(0.05, 0.95), **where))
    return Convergence(quantity, r_hat, bulk, tail if np.isfinite(tail) else bulk)


def anchor_rows(n_rows: int, n_anchors: int = N_ANCHORS) -> NDArray[np.int64]:
    """Evenly spaced row numbers at which predicted probabilities are followed."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_anchors, n_rows)).astype(np.int64))


def layer_convergence(chains_of_side: Sequence[Sequence[Any]], n_burn_in: int, anchors: Inputs) -> list[Convergence]:
    """Diagnose every side of a layer: log-likelihood, active experts, total weight, probability at anchor rows."""
    out = []
    for s, chains in enumerate(chains_of_side):
        length = min(len(chain.trace["log_likelihood"]) for chain in chains)
        begin = min(n_burn_in + 1, max(length - 8, 0))
        for name in ("log_likelihood", "n_active", "total_weight"):
            values = np.stack([chain.trace[name][begin:length] for chain in chains])
            out.append(converge(f"{name} of side {s}", values))
        n_draws = min(len(chain.draws) for chain in chains)
        rates = np.stack([[draw.rate(anchors) for draw in chain.draws[:n_draws]] for chain in chains])
        probabilities = -np.expm1(-rates)
        for a in range(probabilities.shape[2]):
            out.append(converge(f"probability of side {s} at anchor row {a}", probabilities[:, :, a]))
    return out


def pointwise_log_likelihood(draws: Sequence[Side], inputs: Inputs, target: NDArray[np.bool_]) -> FloatArray:
    """ln p(y_i | draw g), tables integrated out: shape (n_draws, n_rows)."""
    return np.stack([log_likelihood(draw.rate(inputs), target) for draw in draws])


def waic(log_lik: FloatArray) -> tuple[float, float]:
    """WAIC on the deviance scale and its effective number of parameters, from (n_draws, n_rows) log-likelihoods.

    Valid for comparing priors, widths or heads *within* a layer; not for choosing depth, because the inputs of a deeper layer
    have already been fitted to the same labels and nothing here charges for that.
    """
    top = log_lik.max(axis=0)
    density = top + np.log(np.mean(np.exp(log_lik - top), axis=0))
    penalty = log_lik.var(axis=0, ddof=1)
    return float(-2.0 * np.sum(density - penalty)), float(penalty.sum())


def psis_loo(log_lik: FloatArray) -> tuple[float, FloatArray]:
    """PSIS-LOO on the deviance scale and the Pareto k of every row; same caution about depth as `waic`."""
    from arviz_stats.base import array_stats

    log_weights, pareto_k = array_stats.psislw(-log_lik.T, axis=-1)
    elpd = np.logaddexp.reduce(log_weights + log_lik.T, axis=-1)
    return float(-2.0 * elpd.sum()), np.asarray(pareto_k)
