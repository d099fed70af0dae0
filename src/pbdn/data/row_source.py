"""Where training rows come from: the contract of a source, and arrays in memory.

A `RowSource` gives full ordered passes (`blocks`) and shuffled minibatches (`minibatches`). Sources that are
not in memory live in ``pbdn.data.streams`` and ``pbdn.data.arrow_parquet``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray

Result = TypeVar("Result")
Transform = Callable[[Any], Any]
Reader = Callable[[Any], FloatArray]  # from targets to bounds of values on a line
BLOCK_ROWS = 16_384
NOT_FINITE = "X holds NaN or infinity; impute or drop those rows before a MAP fit."
SHARES_SUM = 1e-6  # by which the sum of weights that are shares may differ from one
CHUNK_BATCHES = 1000  # minibatches handed to the compiled loop at once


@dataclass(frozen=True)
class Block:
    """Consecutive rows: inputs (C-contiguous floats or CSR), what each says, and row weights.

    ``targets`` are class codes or, for values on a line, bounds and maybe limits, (n_rows, 2 or 3) (`pbdn.model.labelling`).
    """

    inputs: Any
    targets: NDArray[Any]
    weights: FloatArray

    @property
    def codes(self) -> NDArray[np.int64]:
        """The targets, where they are class codes."""
        return self.targets

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.targets)

    def take(self, index: Any) -> "Block":
        """The rows of a slice or an index array."""
        return Block(self.inputs[index], self.targets[index], self.weights[index])


@dataclass(frozen=True)
class Minibatches:
    """Rows and the order in which they form minibatches: batch b is order[b * size : (b + 1) * size]."""

    block: Block
    order: NDArray[np.int64]
    batch_size: int

    @property
    def n_batches(self) -> int:
        """Number of minibatches."""
        return -(-len(self.order) // self.batch_size)

    def split(self, n_batches: int) -> tuple["Minibatches", "Minibatches | None"]:
        """The first ``n_batches`` minibatches and, if any are left, the others."""
        first, rest = self.order[: n_batches * self.batch_size], self.order[n_batches * self.batch_size :]
        others = replace(self, order=rest) if len(rest) else None
        return replace(self, order=first), others


class RowSource(Protocol):
    """What the MAP engine needs from data."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Number of inputs, the constant not counted."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the inputs where the source knows them."""

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels; code j stands for ``classes[j]``."""

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""

    @property
    def timed(self) -> bool:
        """Whether rows have values on a line, not classes."""

    def blocks(self) -> Iterator[Block]:
        """All rows once, in order."""

    def each(self, function: Callable[[Block], Result]) -> Iterator[Result]:
        """``function`` of every block of rows, in order, for sums over rows.

        Inputs may also be `pbdn.data.columns.Columns`. Files are read by several threads, which apply the function:
        it must be pure, and is called for a few blocks in vain when the consumer leaves.
        """

    def minibatches(
        self, rng: Generator, batch_size: int, n_batches: int, replacement: bool = False
    ) -> Iterator[Minibatches]:
        """Exactly ``n_batches`` minibatches, shuffled passes joined without a seam."""

    def mapped(self, transform: Transform) -> "RowSource":
        """The same rows with transformed inputs."""


def encode(target: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Class codes of labels; an undeclared label is an error."""
    target = np.asarray(target)
    is_coded = target.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes)))
    if is_coded and (target.size == 0 or (target.min() >= 0 and target.max() < len(classes))):
        return np.asarray(target, dtype=np.int64)
    order = np.argsort(classes, kind="stable")
    place = np.minimum(np.searchsorted(classes, target, sorter=order), len(classes) - 1)
    codes = order[place]
    unknown = classes[codes] != target
    if np.any(unknown):
        raise InvalidInputError(
            f"The target holds {target[unknown][:1].tolist()[0]!r}, which is not among the classes "
            f"{classes[:10].tolist()!r}; declare all classes or mend the rows."
        )
    return np.asarray(codes, dtype=np.int64)


def contiguous(inputs: Any) -> Any:
    """Float64 or float32 rows in C order, or canonical CSR; refuses values that are not finite."""
    if sp.issparse(inputs):
        matrix = sp.csr_array(inputs)
        kind = np.float32 if matrix.dtype == np.float32 else np.float64
        matrix = _with_short_indices(matrix.astype(kind, copy=False))
        values = matrix.data
    else:
        array = np.asarray(inputs)
        if array.ndim != 2:
            raise InvalidInputError(f"X has {array.ndim} dimensions; a table of shape (rows, features) is needed.")
        kind = np.float32 if array.dtype == np.float32 else np.float64
        matrix = values = np.ascontiguousarray(array, dtype=kind)
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum(dtype=np.float64))
    if suspicious and not np.isfinite(values).all():
        raise InvalidInputError(NOT_FINITE)
    return matrix


def _with_short_indices(matrix: Any) -> Any:
    """The same CSR matrix with 32-bit indices where they are enough: for others all kernels are compiled anew."""
    if matrix.indices.dtype == np.int32 or max(matrix.nnz, *matrix.shape) > np.iinfo(np.int32).max:
        return matrix
    parts = matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return sp.csr_array(parts, shape=matrix.shape)


def as_counts(weights: FloatArray) -> FloatArray:
    """Weights of all rows. Those that add up to one are shares: together they stand for as many rows as there are."""
    return weights * np.count_nonzero(weights) if abs(weights.sum() - 1.0) < SHARES_SUM else weights


def row_weights(weights: Any, n_rows: int) -> FloatArray:
    """Weights as float64, one where none are given; refuses negative ones."""
    if weights is None:
        return np.ones(n_rows)
    values = np.ascontiguousarray(weights, dtype=np.float64)
    if values.shape != (n_rows,) or not np.isfinite(values).all() or (values < 0).any():
        raise InvalidInputError(f"sample_weight has shape {values.shape}; {n_rows} finite weights >= 0 are needed.")
    return values


def join(blocks: list[Block]) -> Block:
    """Several blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    inputs = [block.inputs for block in blocks]
    stacked = sp.csr_array(sp.vstack(inputs)) if sp.issparse(inputs[0]) else np.concatenate(inputs)
    targets = np.concatenate([block.targets for block in blocks])
    return Block(stacked, targets, np.concatenate([block.weights for block in blocks]))


def shuffled_orders(
    rng: Generator, n_rows: int, batch_size: int, n_batches: int, replacement: bool
) -> Iterator[NDArray[np.int64]]:
    """Row numbers of minibatches, many batches at a time: passes over all rows, joined without a seam."""
    rest = np.empty(0, np.int64)
    while n_batches > 0:
        count = min(n_batches, CHUNK_BATCHES)
        length = count * batch_size
        if replacement:
            order = rng.integers(0, n_rows, length)
        else:
            passes = -(-(length - len(rest)) // n_rows)
            joined = np.concatenate([rest, *(rng.permutation(n_rows) for _ in range(passes))])
            order, rest = joined[:length], joined[length:]
        yield order
        n_batches -= count


class ArraySource:
    """Rows in memory: a dense float array or a CSR matrix, never copied if already contiguous floats.

    Without ``classes`` the distinct labels are the classes; with ``target=None`` every code is 0
    (prediction). A target of two dimensions has bounds of values on a line. Dense inputs whose share of non-zeros is below ``sparse_below`` are held as CSR: the same
    numbers, less work.
    """

    def __init__(
        self,
        inputs: Any,
        target: Any = None,
        *,
        classes: Any = None,
        weights: Any = None,
        feature_names: tuple[str, ...] | None = None,
        sparse_below: float = 0.25,
    ) -> None:
        """Check and encode the rows."""
        matrix = contiguous(inputs)
        self._held_sparse = not sp.issparse(matrix) and np.count_nonzero(matrix) < sparse_below * matrix.size
        if self._held_sparse:
            matrix = sp.csr_array(matrix)
        n_rows = int(matrix.shape[0])
        if target is None:
            target = np.zeros(n_rows, np.int64)
        if len(target) != n_rows:
            raise InvalidInputError(f"X has {n_rows} rows but y has {len(target)}.")
        self.timed = np.ndim(target) == 2
        self.feature_names = feature_names
        if self.timed:
            self.classes = np.zeros(0, np.int64)
            targets: NDArray[Any] = np.ascontiguousarray(target, dtype=np.float64)
        else:
            self.classes = np.unique(np.asarray(target)) if classes is None else np.asarray(classes)
            targets = encode(target, self.classes)
        self.block = Block(matrix, targets, row_weights(weights, n_rows))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.block)

    @property
    def n_features(self) -> int:
        """Number of inputs."""
        return int(self.block.inputs.shape[1])

    @cached_property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return float(self.block.weights.sum())

    def blocks(self) -> Iterator[Block]:
        """All rows once."""
        yield self.block

    def each(self, function: Callable[[Block], Result]) -> Iterator[Result]:
        """``function`` of all rows."""
        yield function(self.block)

    def minibatches(
        self, rng: Generator, batch_size: int, n_batches: int, replacement: bool = False
    ) -> Iterator[Minibatches]:
        """Shuffled passes over all rows, joined without a seam."""
        for order in shuffled_orders(rng, self.n_rows, batch_size, n_batches, replacement):
            yield Minibatches(self.block, order, batch_size)

    def emptied(self) -> "ArraySource":
        """No rows, the same columns and classes."""
        return self._with(np.empty((0, self.n_features)), self.block.take(slice(0)))

    def _with(self, inputs: Any, rows: Block) -> "ArraySource":
        """Other inputs of some rows."""
        target = rows.targets if self.timed else self.classes[rows.codes]
        return ArraySource(inputs, target, classes=self.classes, weights=rows.weights)

    def mapped(self, transform: Transform) -> "ArraySource":
        """A new in-memory source; the transform sees blocks of rows."""
        parts = [
            replace(
                part,
                inputs=contiguous(transform(part.inputs.toarray() if self._held_sparse else part.inputs)),
            )
            for begin in range(0, max(self.n_rows, 1), BLOCK_ROWS)
            for part in [self.block.take(slice(begin, begin + BLOCK_ROWS))]
        ]
        block = join(parts)
        return self._with(block.inputs, block)
