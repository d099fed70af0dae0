"""Rows that do not fit in memory: memory-mapped arrays and batches of an iterable.

They are read slab by slab in random order into a shuffle buffer of ``buffer_rows`` rows, fewer where these would
take more than BUFFER_BYTES: memory is bounded by a few buffers whatever the number of rows. Reading, mixing and
transforming run ahead in a thread where the rows are ours to read (files, memory maps), and in the caller's
thread for iterables of the user.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray

from pbdn.data.columns import to_rows
from pbdn.data.prefetch import read_ahead
from pbdn.data.row_source import (
    BLOCK_ROWS,
    Block,
    Minibatches,
    Reader,
    Result,
    Transform,
    contiguous,
    encode,
    join,
    row_weights,
)
from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray

Item = TypeVar("Item")

BUFFER_ROWS = 65_536
BUFFER_BYTES = 1 << 25  # of one buffer; about six exist at a time (decoded, turned, mixed, in use)


def rows_within(n_rows: int, n_features: int) -> int:
    """At most ``n_rows``, and no more than fill a buffer."""
    return max(1, min(n_rows, BUFFER_BYTES // (8 * max(n_features, 1))))


class StreamedSource(ABC):
    """Rows that are read slab by slab; subclasses say how (`slabs`)."""

    feature_names: tuple[str, ...] | None = None
    threaded = True  # whether rows may be read in another thread

    def __init__(self, buffer_rows: int = BUFFER_ROWS) -> None:
        """Hold the size of the shuffle buffer."""
        self.buffer_rows = buffer_rows
        self.center: FloatArray | None = None
        self.scale: FloatArray | None = None
        self.transforms: tuple[Transform, ...] = ()
        self.class_factors: FloatArray | None = None
        self.reader: Reader | None = None

    @property
    def timed(self) -> bool:
        """Whether rows have values on a line, not classes."""
        return self.reader is not None

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def classes(self) -> NDArray[Any]:
        """Class labels."""

    @property
    @abstractmethod
    def row_weight(self) -> float:
        """Sum of the row weights, classes not weighted."""

    @cached_property
    def total_weight(self) -> float:
        """Sum of the row weights, with the classes' factors."""
        if self.class_factors is None:
            return self.row_weight
        return float(self.class_totals[1] @ self.class_factors)

    @cached_property
    def class_totals(self) -> tuple[FloatArray, FloatArray]:
        """Rows and row weight of every class (factors left out): one pass."""
        n_classes = len(self.classes)
        rows, weight = np.zeros(n_classes), np.zeros(n_classes)
        for slab in self.slabs(None):
            rows += np.bincount(slab.codes, minlength=n_classes)
            weight += np.bincount(slab.codes, slab.weights, n_classes)
        return rows, weight

    @property
    @abstractmethod
    def raw_features(self) -> int:
        """Number of inputs before any transform."""

    @abstractmethod
    def slabs(self, rng: Generator | None) -> Iterator[Block]:
        """One pass of raw rows or columns, in order or, given a generator, in random order of slabs; unchecked."""

    def says(self, target: Any) -> NDArray[Any]:
        """Class codes of a piece of the target or, where there is a reader, bounds."""
        return encode(target, self.classes) if self.reader is None else self.reader(target)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and inputs."""
        return self.n_rows, self.n_features

    @cached_property
    def n_features(self) -> int:
        """Number of inputs after the transforms."""
        if not self.transforms:
            return self.raw_features
        return int(next(iter(self.blocks())).inputs.shape[1])

    def _read(self, rng: Generator | None) -> Iterator[Block]:
        """One pass of checked, standardised and transformed rows."""
        for slab in self.slabs(rng):
            slab = self._weigh(replace(slab, inputs=to_rows(slab.inputs, self.center, self.scale)))
            if not self.transforms:
                yield slab
                continue
            for begin in range(0, len(slab), BLOCK_ROWS):
                part = slab.take(slice(begin, begin + BLOCK_ROWS))
                inputs = part.inputs
                for transform in self.transforms:
                    inputs = transform(inputs)
                yield replace(part, inputs=contiguous(inputs))

    def _weigh(self, slab: Block) -> Block:
        """Multiply row weights by the classes' factors."""
        if self.class_factors is None:
            return slab
        return replace(slab, weights=slab.weights * self.class_factors[slab.codes])

    def _ahead(self, items: Iterator[Item]) -> Iterator[Item]:
        return read_ahead(items) if self.threaded else items

    def blocks(self) -> Iterator[Block]:
        """All rows once, in order."""
        return self._ahead(self._read(None))

    def each(self, function: Callable[[Block], Result]) -> Iterator[Result]:
        """``function`` of every block of rows, in order."""
        return map(function, self.blocks())

    def minibatches(
        self, rng: Generator, batch_size: int, n_batches: int, replacement: bool = False
    ) -> Iterator[Minibatches]:
        """Passes in random slab order through the shuffle buffer; ``rng`` is used by the reading thread alone."""
        return self._ahead(self._mixed(rng, batch_size, n_batches, replacement))

    def _mixed(self, rng: Generator, batch_size: int, n_batches: int, replacement: bool) -> Iterator[Minibatches]:
        """Shuffled buffers; rows that fill no minibatch wait for those of other buffers, at most to the next pass."""
        held: list[Block] = []
        left: list[Block] = []
        buffer_rows = min(rows_within(self.buffer_rows, self.n_features), self.n_rows)  # never several passes in one
        full = max(buffer_rows, batch_size)
        while n_batches > 0:
            for block in self._read(rng.spawn(1)[0]):
                held.append(block)
                if sum(map(len, held)) < min(full, n_batches * batch_size):
                    continue
                for ready in (held, left):
                    n_ready = sum(map(len, ready))
                    count = min(n_ready // batch_size, n_batches)
                    if count == 0:
                        continue
                    buffer = join(ready)
                    ready.clear()
                    if replacement:
                        order = rng.integers(0, n_ready, count * batch_size)
                    else:
                        mixed = rng.permutation(n_ready)
                        order, rest = mixed[: count * batch_size], mixed[count * batch_size :]
                        if len(rest):
                            left.append(buffer.take(rest))
                    yield Minibatches(buffer, order, batch_size)
                    n_batches -= count
                if n_batches == 0:
                    return
            held, left = held + left, []

    def standardised(self, center: FloatArray, scale: FloatArray) -> "StreamedSource":
        """The same stream with inputs (x - center) / scale, CSR inputs x / scale; before any transform."""
        return self._twin(center=center, scale=scale)

    def mapped(self, transform: Transform) -> "StreamedSource":
        """The same stream with inputs transformed as they are read."""
        return self._twin("n_features", transforms=(*self.transforms, transform), feature_names=None)

    def weighted(self, class_factors: FloatArray) -> "StreamedSource":
        """The same stream with the rows of every class weighted by its factor."""
        return self._twin("total_weight", class_factors=class_factors)

    def read_by(self, reader: Reader) -> "StreamedSource":
        """The same stream of values on a line: ``reader`` makes bounds of pieces of the target."""
        return self._twin(reader=reader)

    def _twin(self, forget: str = "", **changes: Any) -> "StreamedSource":
        twin = object.__new__(type(self))
        twin.__dict__.update({k: v for k, v in self.__dict__.items() if k != forget} | changes)
        return twin


class MemmapSource(StreamedSource):
    """A memory-mapped (or any sliceable two-dimensional) array, read in contiguous slabs only."""

    def __init__(
        self,
        inputs: Any,
        target: Any = None,
        *,
        classes: Any = None,
        weights: Any = None,
        buffer_rows: int = BUFFER_ROWS,
        slab_rows: int = 4096,
    ) -> None:
        """Open the rows; none are read yet."""
        super().__init__(buffer_rows)
        self.inputs, self.slab_rows = inputs, slab_rows
        if len(inputs.shape) != 2:
            raise InvalidInputError(f"X has shape {inputs.shape}; a table (rows, features) is needed.")
        target = np.zeros(inputs.shape[0], np.int8) if target is None else target
        if len(target) != inputs.shape[0]:
            raise InvalidInputError(f"X has {inputs.shape[0]} rows but y has {len(target)}.")
        self.target = target
        self.weights = None if weights is None else row_weights(weights, inputs.shape[0])
        self.declared = None if classes is None else np.asarray(classes)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.inputs.shape[0])

    @property
    def raw_features(self) -> int:
        """Number of columns."""
        return int(self.inputs.shape[1])

    @cached_property
    def classes(self) -> NDArray[Any]:
        """Class labels."""
        return np.unique(np.asarray(self.target)) if self.declared is None else self.declared

    @cached_property
    def row_weight(self) -> float:
        """Sum of the row weights."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    def slabs(self, rng: Generator | None) -> Iterator[Block]:
        """Contiguous slabs of ``slab_rows`` rows."""
        n_slabs = -(-self.n_rows // self.slab_rows)
        for slab in range(n_slabs) if rng is None else rng.permutation(n_slabs):
            where = slice(int(slab) * self.slab_rows, min((int(slab) + 1) * self.slab_rows, self.n_rows))
            targets = self.says(self.target[where])
            weights = np.ones(len(targets)) if self.weights is None else self.weights[where]
            yield Block(self.inputs[where], targets, weights)


class BatchSource(StreamedSource):
    """Batches (X, y) or (X, y, sample_weight) of an object that can be iterated again and again.

    ``batches`` is a callable that returns a fresh iterator, or an object with ``__iter__`` (a list, a data
    loader). A generator can be read only once and is refused. One pass counts rows and collects the classes
    (unless declared). The order of batches is the iterable's; rows are mixed within the shuffle buffer.
    """

    threaded = False  # the user's iterable may be tied to its thread

    def __init__(
        self,
        batches: Callable[[], Iterable[Any]] | Iterable[Any],
        *,
        classes: Any = None,
        buffer_rows: int = BUFFER_ROWS,
    ) -> None:
        """Open the rows; none are read yet."""
        super().__init__(buffer_rows)
        if not callable(batches) and iter(batches) is batches:
            raise InvalidInputError(
                f"batches is a one-shot {type(batches).__name__}: training reads the rows several times. "
                "Pass a function that returns a new iterator, or an object whose __iter__ starts again."
            )
        self.batches = batches
        self.declared = None if classes is None else np.asarray(classes)

    def _batches(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.batches() if callable(self.batches) else self.batches:
            if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
                raise InvalidInputError("Every batch must be a pair (X, y) or a triple (X, y, sample_weight).")
            yield tuple(batch)

    @cached_property
    def _summary(self) -> tuple[int, int, float, NDArray[Any]]:
        n_rows, n_features, weight, labels = 0, -1, 0.0, np.zeros(0) if self.timed else self.declared
        for batch in self._batches():
            shape = np.shape(batch[0]) if not sp.issparse(batch[0]) else batch[0].shape
            if n_features not in (-1, shape[1]):
                raise InvalidInputError(f"A batch has {shape[1]} features, the first had {n_features}.")
            n_rows, n_features = n_rows + shape[0], shape[1]
            weight += float(np.sum(batch[2])) if len(batch) == 3 else shape[0]
            if self.declared is None and not self.timed:
                found = np.unique(np.asarray(batch[1]))
                labels = found if labels is None else np.union1d(labels, found)
        if n_rows == 0 or labels is None:
            raise InvalidInputError("batches gave no rows.")
        return n_rows, n_features, weight, labels

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._summary[0]

    @property
    def raw_features(self) -> int:
        """Number of columns."""
        return self._summary[1]

    @property
    def row_weight(self) -> float:
        """Sum of the row weights."""
        return self._summary[2]

    @property
    def classes(self) -> NDArray[Any]:
        """Class labels."""
        return self._summary[3]

    def slabs(self, rng: Generator | None) -> Iterator[Block]:
        """The batches as they come."""
        for batch in self._batches():
            inputs = contiguous(batch[0])
            weights = row_weights(batch[2] if len(batch) == 3 else None, inputs.shape[0])
            yield Block(inputs, self.says(batch[1]), weights)
