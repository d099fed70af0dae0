"""Tuples of arrays and numbers that the kernels of the MAP engine are given.

All sides are held side by side in one array ``parameters`` of shape (n_inputs + 2, n_experts of all sides):
row 0 is ln r_k, row 1 the bias, the rest the coefficients.
"""

from typing import Any, NamedTuple

from pbdn.numerics.arrays import FloatArray, IntArray


class LabelledRows(NamedTuple):
    """Rows with their class codes and weights.

    ``rows`` is ``(X,)`` for dense rows, ``(data, indices, indptr)`` for CSR rows (only non-zeros are touched) and, in
    passes without a gradient, ``(addresses, affine)`` for columns x standing for (x - affine[0]) affine[1].
    """

    rows: tuple[Any, ...]
    codes: IntArray
    weights: FloatArray


class SideColumns(NamedTuple):
    """Side s owns the columns ``starts[s]:starts[s + 1]`` of the parameters.

    A row is positive for it when its code is ``positive[s]``; a negative value says that its code is *not* -1 - positive[s].
    """

    starts: IntArray
    positive: IntArray


class Steps(NamedTuple):
    """The minibatches ``order[b * batch_size : (b + 1) * batch_size]`` and the step after each of them."""

    order: IntArray
    batch_size: int
    rates: FloatArray  # learning rate of every step
    averaging: bool  # whether iterates are averaged
    n_rows: float  # of all data, which a minibatch stands for
    total_weight: float


class Group(NamedTuple):
    """The sides side ≤ s < end, which are worked on together: their columns k0 ≤ k < k1, padded to ``width``."""

    side: Any
    end: Any
    k0: Any
    k1: Any
    width: Any
