"""Rows as the sampler sees them: inputs with the constant column, and what each row says.

Every response is a statement about a Poisson process on log-time with cumulative rate
H_i(u) = Σ_k r_k s(x_i'β_k + u): binary labels are "nothing before 0" and "something before 0". The other kinds
serve ordinal, count, survival and real-valued responses with the same sweep.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pbdn.errors import InvalidInputError
from pbdn.gibbs.kernel_arguments import BlockSums, Experts, Statistics
from pbdn.gibbs.matrices import SparseInputs
from pbdn.model.labelling import BEFORE as BEFORE
from pbdn.model.labelling import COUNT as COUNT
from pbdn.model.labelling import EXACT as EXACT
from pbdn.model.labelling import GIVEN_BEFORE as GIVEN_BEFORE
from pbdn.model.labelling import GIVEN_NOTHING as GIVEN_NOTHING
from pbdn.model.labelling import INTERVAL as INTERVAL
from pbdn.model.labelling import NOTHING as NOTHING
from pbdn.numerics.arrays import FloatArray, IntArray

BLOCK_ROWS = 256  # rows that share a random stream and are summed together
MAX_GROUPS = 32  # partial sums kept apart before the final, ordered sum; more where a group would have
LARGEST_GROUP = 4096  # more blocks than this: a million rows
WORTH_MERGING = 0.9  # share of rows left, at most, for which identical rows are merged


class RowArrays(NamedTuple):
    """The same data as plain arrays for compiled code.

    Inputs are dense, with ``sparse`` None (so that what serves sparse rows is not even compiled), or sparse, with no dense rows.
    """

    dense: FloatArray
    sparse: SparseInputs | None
    exposure: FloatArray
    offset: FloatArray
    kind: IntArray
    copies: FloatArray
    unit: FloatArray
    start: FloatArray


@dataclass(frozen=True)
class Rows:
    """Rows of one side.

    Attributes
    ----------
    arrays : RowArrays
        Inputs (constant first) and per row: ``exposure`` e_i, all copies together; ``offset`` o_i, the log-time up to
        which the row was watched; ``kind``; ``copies``, how many copies say that something happened (for COUNT: the
        count, for the kinds that are given: the weight); ``unit``, the exposure of one such copy; ``start``, where an
        INTERVAL begins.
    n_inputs : int
        D, with the constant.
    part : Part or None
        Which of the rows these are; None: all of them.
    """

    arrays: RowArrays
    n_inputs: int
    part: "Part | None" = None

    @cached_property
    def n_rows(self) -> int:
        """Rows after merging."""
        return int(self.arrays.exposure.shape[0])

    @cached_property
    def n_blocks(self) -> int:
        """Row blocks."""
        return -(-self.n_rows // BLOCK_ROWS)

    @cached_property
    def group_blocks(self) -> int:
        """Blocks per partial sum; depends on the number of all rows alone."""
        return group_blocks(self.n_rows) if self.part is None else self.part.group_blocks

    @property
    def first_block(self) -> int:
        """Number of the first block among those of all rows."""
        return 0 if self.part is None else self.part.first_block

    @cached_property
    def single_events(self) -> bool:
        """Whether every row is binary and those with an event stand for one copy each."""
        if self.part is not None:
            return self.part.single_events
        arrays = self.arrays
        event = arrays.kind != NOTHING
        single = (arrays.kind == BEFORE) & (arrays.copies == 1.0) & (arrays.exposure == arrays.unit)
        return bool(single[event].all())


class Part(NamedTuple):
    """Where some rows stand among all rows of a side: whole groups of blocks, so that any split gives the same sums."""

    first_block: int
    group_blocks: int
    single_events: bool  # of all rows


def group_blocks(n_rows: int) -> int:
    """Blocks per partial sum of so many rows."""
    n_blocks = -(-n_rows // BLOCK_ROWS)
    return min(LARGEST_GROUP, max(1, -(-n_blocks // MAX_GROUPS)))


class Holder(Protocol):
    """Does the local steps of one sweep, where the rows are."""

    def draw_events(self, experts: Experts) -> BlockSums:
        """Phase A; sums per group of blocks, in order."""

    def sum_statistics(self, weights: FloatArray) -> Statistics:
        """Phase B, given the new expert weights."""


class RowsElsewhere(Protocol):
    """Rows of one side that other processes hold (`pbdn.dask`)."""

    n_rows: int
    n_inputs: int

    def holder(self, sampler: str, planes: FloatArray, key: np.uint64, index: int) -> Holder:
        """Whoever does the local steps of this sweep from these hyperplanes."""

    def log_likelihood_parts(self, planes: FloatArray, weights: FloatArray) -> list[float]:
        """Parts of the log-likelihood, as `pbdn.gibbs.log_likelihood.binary_log_likelihood` gives them."""


class TimedRates(Protocol):
    """Rates of rows with values, under experts that stay as they are (`pbdn.gibbs.log_likelihood.SideRates`)."""

    def timed_parts(self, scale: float, stretch: float) -> FloatArray:
        """Log-likelihood of every group of blocks."""


class TimedRowsElsewhere(RowsElsewhere, Protocol):
    """Rows with values y, on a scale that is learnt."""

    def offset_sums(self, center: float, power: int) -> FloatArray:
        """Sums over the offsets of every group of blocks, as `pbdn.gibbs.log_likelihood.offset_sums` gives them."""

    def rates(self, planes: FloatArray, weights: FloatArray) -> TimedRates:
        """The rates of the rows."""

    def at_scale(self, scale: float) -> "TimedRowsElsewhere":
        """The same rows with offsets and starts τ y."""


def make_rows(
    inputs: Any,
    target: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
    kind: ArrayLike | None = None,
    start: ArrayLike | None = None,
    merge: bool = True,
    single_events: bool = False,
) -> Rows:
    """Prepare the rows of one side.

    Parameters
    ----------
    inputs : array or CSR matrix of shape (n, d)
        Without the constant column.
    target : array of shape (n,)
        Boolean labels, or event counts where ``kind`` is COUNT.
    weight : array, optional
        Row weights. A whole number w has the law of w copies; on a row without event any w ≥ 0 is exact (an exposure);
        a fractional part on a row with an event is rounded at random in every sweep, exact only at whole numbers.
    offset, exposure, start : arrays, optional
        Log-time o_i (0), exposure e_i (1) and beginning of an interval (-inf).
    kind : int array, optional
        NOTHING, BEFORE, INTERVAL, EXACT or COUNT; by default BEFORE where the target is true. GIVEN_NOTHING and GIVEN_BEFORE
        are for responses that draw them (`pbdn.gibbs.responses.draw_conditions`).
    merge : bool
        Merge identical rows (exact: Polya-Gamma variables add) where that saves at least a tenth of them.
    single_events : bool
        Give every copy of an event a row of its own, as the samplers that keep one latent event (or count) per row need.
        Only rows without event are merged then.
    """
    target = np.asarray(target)
    n = target.shape[0]
    kinds = np.where(target.astype(bool), BEFORE, NOTHING) if kind is None else np.asarray(kind)
    kinds = kinds.astype(np.int64)
    weights = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    if np.any(~np.isfinite(weights)) or np.any(weights < 0):
        raise InvalidInputError("weight must be finite and not negative; drop or mend the rows that are not.")
    unit = np.ones(n) if exposure is None else np.asarray(exposure, dtype=float)
    offsets = np.zeros(n) if offset is None else np.asarray(offset, dtype=float)
    starts = np.full(n, -np.inf) if start is None else np.asarray(start, dtype=float)
    copies = np.where(kinds == NOTHING, 0.0, weights)
    if np.any(kinds == COUNT):
        copies = np.where(kinds == COUNT, weights * target.astype(float), copies)
    place = np.flatnonzero(weights > 0)
    exposures = np.where(kinds > COUNT, 0.0, weights * unit)
    if single_events:
        events = np.where((kinds > NOTHING) & (kinds < COUNT), np.ceil(copies), 1).astype(np.int64)
        place = np.repeat(place, events[place])
        first = np.r_[True, place[1:] != place[:-1]][: place.size]
        part = copies[place] - np.floor(copies[place])
        share = np.where((events[place] > 1) | (kinds[place] == BEFORE), np.where(first & (part > 0), part, 1.0), 0.0)
        copies = np.where(share > 0, share, copies[place])
        exposures = np.where(share > 0, share * unit[place], exposures[place])
    else:
        copies, exposures = copies[place], exposures[place]
    fields = (exposures, offsets[place], kinds[place], copies, unit[place], starts[place])
    if place.size != n or single_events:
        inputs = inputs[place]
    dense, sparse = _with_constant(inputs)
    arrays = RowArrays(dense, sparse, *fields)
    rows = Rows(arrays, int(inputs.shape[1]) + 1)
    if merge and not sp.issparse(inputs):
        rows = merge_identical(rows, only_silent=single_events)
    return rows


def _with_constant(inputs: Any) -> tuple[FloatArray, SparseInputs | None]:
    """The inputs behind a column of ones, dense or as CSR arrays."""
    n, d = inputs.shape
    if not sp.issparse(inputs):
        dense = np.ones((n, d + 1))
        dense[:, 1:] = inputs
        return dense, None
    csr = sp.hstack([np.ones((n, 1)), inputs], format="csr")
    csr.sum_duplicates()
    sparse = SparseInputs(csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data.astype(float))
    return np.zeros((0, d + 1)), sparse


def merge_identical(rows: Rows, only_silent: bool = False) -> Rows:
    """Merge rows equal in inputs, offset and unit exposure, where that removes a tenth or more of them.

    Rows that say NOTHING and rows that say BEFORE merge with each other, exposures and copies adding up; with
    ``only_silent`` rows with an event are left alone.
    """
    arrays = rows.arrays
    if rows.n_rows < 2 or np.any(arrays.kind > BEFORE):
        return rows
    alone = np.where((arrays.kind != NOTHING) & only_silent, np.arange(rows.n_rows), -1)
    signature = np.column_stack([arrays.dense, arrays.offset, arrays.unit, alone]) + 0.0  # -0.0 becomes 0.0
    signature = np.ascontiguousarray(signature)
    as_bytes = signature.view(np.dtype((np.void, signature.dtype.itemsize * signature.shape[1]))).ravel()
    _, first, group = np.unique(as_bytes, return_index=True, return_inverse=True)
    if first.size > WORTH_MERGING * rows.n_rows:
        return rows
    order = np.argsort(first)  # keep the order of first appearance
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return Rows(combine(arrays, place[group.ravel()], first[order]), rows.n_inputs)


def combine(arrays: RowArrays, group: IntArray, first: IntArray) -> RowArrays:
    """Rows of the same group as one, in the place of its ``first``: exposures and copies add up."""
    copies = np.bincount(group, arrays.copies, first.size).astype(float)
    return arrays._replace(
        dense=np.ascontiguousarray(arrays.dense[first]),
        exposure=np.bincount(group, arrays.exposure, first.size).astype(float),
        offset=arrays.offset[first],
        kind=np.where(copies > 0, BEFORE, NOTHING).astype(np.int64),
        copies=copies,
        unit=arrays.unit[first],
        start=arrays.start[first],
    )
