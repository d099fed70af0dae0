"""Tuples of arrays and numbers that the kernels of the sampler are given, by the names of the model.

``rows`` are always `pbdn.gibbs.rows.RowArrays`, ``streams`` `pbdn.variates.random_stream.SweepStreams`.
"""

from typing import NamedTuple

import numpy as np

from pbdn.numerics.arrays import BoolArray, FloatArray, IntArray


class Experts(NamedTuple):
    """The experts that a sweep starts from."""

    planes: FloatArray  # β_k, (K, D)
    log_weights: FloatArray  # ln r_k
    active: BoolArray  # those that count in the reported log-likelihood


class Blocks(NamedTuple):
    """The row blocks first ≤ b < last."""

    first: int
    last: int


class BlockSums(NamedTuple):
    """What phase A writes, a row for each block."""

    n_tables: FloatArray  # l_k
    exposure: FloatArray  # S_k
    log_lik: FloatArray  # of the experts that the sweep started from

    def by_group(self, group_blocks: int) -> "BlockSums":
        """A row for each group of blocks."""
        groups = [slice(low, low + group_blocks) for low in range(0, len(self.log_lik), group_blocks)]
        if not groups:  # without rows there is nothing to sum
            return self
        return BlockSums(*(np.array([field[blocks].sum(axis=0) for blocks in groups]) for field in self))


class Tables(NamedTuple):
    """Events that have their Polya-Gamma weight, in the order of rows."""

    row: IntArray
    expert: IntArray
    pg_weight: FloatArray  # ω
    linear: FloatArray  # ½ - ω δ
    ends: IntArray  # of every block's events, from block ``first`` on
    first: int


class RowTerms(NamedTuple):
    """What every row adds to the conditional of every hyperplane, rows × experts."""

    pg_weights: FloatArray  # ω_ik
    linear: FloatArray


class Statistics(NamedTuple):
    """Sums over rows in groups of ``group_blocks`` blocks, experts last."""

    gram: FloatArray  # A_k = Σ ω x x', pairs v ≤ w
    moment: FloatArray  # h_k = Σ linear x
    group_blocks: int


class PriorValues(NamedTuple):
    """`pbdn.model.priors.Hyperpriors` as plain numbers."""

    mass_shape: float
    mass_rate: float
    inv_scale_shape: float
    inv_scale_rate: float
    coef_shape: float
    coef_rate_shape: float
    coef_rate_rate: float
    precision_floor: float
