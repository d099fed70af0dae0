"""What the kernels of the MAP engine are given: constants, tuples of arrays and numbers, and memory to work in.

All sides are held side by side in one array ``parameters`` of shape (n_inputs + 2, n_experts of all sides): row 0 is ln r_k,
row 1 the bias, the rest the coefficients. Rows are visited in tiles of ``TILE`` and sides in groups of at most ``BLOCK``
experts, so the cost is linear in both and the working set stays in cache.
"""

from typing import Any, NamedTuple

import numpy as np

from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.numerics.compiled import inlined, summing
from pbdn.numerics.elementary import LANES
from pbdn.numerics.products import padded, padded_size

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam (Kingma & Ba 2015)
SNAPSHOT_EVERY = 20  # steps between the copies that a diverging step falls back to
MAX_HALVINGS = 40
TINY_RATE = 1e-290  # below this rate the likelihood of a positive row is evaluated in log space
TIME_PRECISION = (
    0.25  # of the normal prior of ln τ: noise from 1/50 to 50 standard deviations of the values is plausible
)
CALL_NUMBERS = 3e8  # rows x coefficients of one compiled call, after which the clock is looked at
BLOCK = 192  # experts of one group of sides
TILE = 128  # rows of a minibatch that are worked on together
COLUMN = TILE + LANES  # length of a buffered column; not a multiple of 512 bytes, which would crowd the cache


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


class Work(NamedTuple):
    """Memory for one tile of rows and one group of sides; flat arrays are cut to the group's padded width by `tile_of`."""

    buffer: Any  # rows with a leading one, (COLUMN, stride): see `row_stride`; or columns, (stride, COLUMN), if flat
    panel: Any  # hyperplanes of a group, or their gradient
    psi: Any
    softplus: Any
    slope: Any
    experts: Any  # (3, width): ln r, r, Σ ∂f/∂λ s
    rate: Any  # (TILE,) of one side
    row_weight: Any
    is_positive: Any


def row_stride(n_inputs: int) -> int:
    """Padded length of a buffered row; not a multiple of 512 bytes, which would crowd the cache."""
    stride = padded(n_inputs + 1)
    return stride + 8 if stride % 64 == 0 else stride


def workspace(is_dense: bool, n_inputs: int, starts: IntArray) -> Work:
    """Memory that the kernels need for these sides."""
    width = padded(max(1, int(np.diff(starts).max(initial=0)), min(BLOCK, int(starts[-1]))))
    stride = row_stride(n_inputs) if is_dense else 1
    buffer = np.zeros((COLUMN, stride))
    buffer[:, 0] = 1.0
    panel = np.zeros(stride * width)
    psi, softplus, slope = np.zeros(TILE * width), np.zeros(TILE * width), np.zeros(TILE * width)
    row, is_positive = np.zeros((2, TILE)), np.zeros(TILE, np.bool_)
    return Work(buffer, panel, psi, softplus, slope, np.zeros((3, width)), row[0], row[1], is_positive)


@summing
def group_of(starts: Any, side: int, end: int) -> Group:
    """The sides side ≤ s < end as a group."""
    first, last = starts[side], starts[end]
    return Group(side, end, np.uint64(first), np.uint64(last), padded_size(last - first))


@summing
def next_group(starts: Any, side: int) -> Group:
    """As many sides from ``side`` on as fit into one block, one at least."""
    end = side + 1
    while end < starts.shape[0] - 1 and starts[end + 1] - starts[side] <= BLOCK:
        end += 1
    return group_of(starts, side, end)


@inlined
def tile_of(numbers: Any, n: int, group: Group) -> Any:
    """The beginning of a flat array as n rows (padded) of the group's experts."""
    return numbers[: padded_size(n) * group.width].reshape((-1, group.width))
