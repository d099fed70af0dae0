"""Convergence of chains, on quantities that do not depend on the numbering of experts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FloatArray

MAX_R_HAT = 1.01
MIN_ESS_PER_CHAIN = 100.0
R_HAT_NOISE = 10.0  # n (R-hat - 1) of n independent draws is about χ²(1): beyond 10 once in 600
MIN_DRAWS = 8  # fewer say nothing
N_ANCHORS = 8


@dataclass(frozen=True)
class Convergence:
    """Rank-normalised split R-hat and bulk / tail effective sample size of one quantity, and the limits set."""

    quantity: str
    r_hat: float
    ess_bulk: float
    ess_tail: float
    ess_wanted: float = MIN_ESS_PER_CHAIN
    r_hat_wanted: float = MAX_R_HAT

    @property
    def fails(self) -> bool:
        """Whether the quantity has not converged by the usual limits."""
        return not (self.r_hat <= self.r_hat_wanted and min(self.ess_bulk, self.ess_tail) >= self.ess_wanted)


def converge(quantity: str, values: FloatArray, thinned: bool = False) -> Convergence:
    """Diagnose one quantity from values of shape (n_chains, n_draws); constant values have converged.

    R-hat up to 1.01 and 100 effective draws per chain are wanted. Of a quantity known at a few ``thinned`` sweeps only,
    both limits are what as many independent draws would still meet.
    """
    values = np.asarray(values, dtype=float)
    n_chains, n_draws = values.shape
    limits = (n_chains * MIN_ESS_PER_CHAIN, MAX_R_HAT)
    if thinned:
        limits = (n_chains * min(MIN_ESS_PER_CHAIN, n_draws / 5.0), max(MAX_R_HAT, 1.0 + R_HAT_NOISE / n_draws))
    if n_draws < MIN_DRAWS or not np.isfinite(values).all():
        return Convergence(quantity, float("nan"), 0.0, 0.0, *limits)
    if np.ptp(values) == 0.0:
        n = float(values.size)
        return Convergence(quantity, 1.0, n, n, min(limits[0], n))
    from arviz_stats.base import array_stats

    where = {"chain_axis": 0, "draw_axis": 1}
    with np.errstate(all="ignore"):
        bulk = float(array_stats.ess(values, method="bulk", **where))
        tail = float(array_stats.ess(values, method="tail", prob=(0.05, 0.95), **where))
    return Convergence(quantity, split_r_hat(values), bulk, tail if np.isfinite(tail) else bulk, *limits)


def split_r_hat(values: FloatArray) -> float:
    """R-hat of half-chains, the larger of rank-normalised values and folded values (Vehtari et al. 2021).

    One chain is enough: its two halves are compared.
    """
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    return max(_rank_r_hat(halves), _rank_r_hat(np.abs(halves - np.median(halves))))


def _rank_r_hat(chains: FloatArray) -> float:
    if np.ptp(chains) == 0.0:
        return 1.0
    n = chains.shape[1]
    scores = norm.ppf((rankdata(chains).reshape(chains.shape) - 0.375) / (chains.size + 0.25))
    between, within = n * scores.mean(axis=1).var(ddof=1), scores.var(axis=1, ddof=1).mean()
    return float(np.sqrt((between / within + n - 1.0) / n)) if within > 0.0 else float("inf")


def anchor_rows(n_rows: int, n_anchors: int = N_ANCHORS) -> NDArray[np.int64]:
    """Evenly spaced row numbers at which predicted probabilities are followed."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_anchors, n_rows)).astype(np.int64))


def layer_convergence(chains_of_side: Sequence[Sequence[Any]], n_burn_in: int, anchors: Inputs) -> list[Convergence]:
    """Diagnose every side of a layer: log-likelihood, active experts, total weight, scale of values, anchor probabilities."""
    out = []
    for s, chains in enumerate(chains_of_side):
        length = min(len(chain.trace["log_likelihood"]) for chain in chains)
        begin = min(n_burn_in + 1, max(length - MIN_DRAWS, 0))
        for name in ("log_likelihood", "n_active", "total_weight", *(["scale"] if "scale" in chains[0].trace else [])):
            values = np.stack([chain.trace[name][begin:length] for chain in chains])
            out.append(converge(f"{name} of side {s}", values))
        n_draws = min(len(chain.draws) for chain in chains)
        rates = np.stack([[draw.rate(anchors) for draw in chain.draws[:n_draws]] for chain in chains])
        probabilities = -np.expm1(-rates)
        for a in range(probabilities.shape[2]):
            out.append(converge(f"probability of side {s} at anchor row {a}", probabilities[:, :, a], thinned=True))
    return out
