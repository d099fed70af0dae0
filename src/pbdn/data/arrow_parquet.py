"""Rows of a Parquet file or folder, an Arrow dataset or an Arrow table, read by row group."""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pbdn.data.columns import Columns
from pbdn.data.prefetch import read_ahead, work_ahead
from pbdn.data.row_source import Block, Result, row_weights
from pbdn.data.streams import BUFFER_ROWS, StreamedSource, rows_within
from pbdn.errors import InvalidInputError, MissingExtraError

READ_ROWS = BUFFER_ROWS  # rows turned at a time, fewer if they are wide; a whole buffer needs no copy
READERS = 2  # threads of an ordered pass: each decodes row groups and works on them
GROUP_ROWS = 131_072  # rows of a common row group


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Reading Parquet or Arrow data needs pyarrow", "arrow") from error
    return pyarrow


def open_dataset(data: Any) -> Any:
    """A path, table or dataset as a ``pyarrow.dataset.Dataset``; refuses files that are not Parquet."""
    pa = _arrow()
    try:
        return data if isinstance(data, pa.dataset.Dataset) else pa.dataset.dataset(data)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"X={data!r} cannot be read as a Parquet file or a folder of them. Read other files, such as CSV, into a data frame "
            "(pandas.read_csv), or fit them on the command line (pbdn fit)."
        ) from error


class ArrowSource(StreamedSource):
    """Streamed rows of anything that ``pyarrow.dataset.dataset`` opens.

    Parameters
    ----------
    data : path, pyarrow Dataset or Table
        A Parquet file, a folder of them, or an open dataset.
    target : str, tuple of str or None
        Name of the column with the labels; None for prediction. Values on a line may have several: a reader
        (`pbdn.data.streams.StreamedSource.read_by`) then sees a structured array.
    features : sequence of str or None
        Columns used as inputs, in this order; all others but target and weight by default.
    weight : str or None
        Name of a column of row weights.
    classes : array or None
        Declared class labels; by default one pass over the target column finds them.
    buffer_rows : int
        Rows in the shuffle buffer.
    """

    def __init__(
        self,
        data: Any,
        target: str | tuple[str, ...] | None,
        *,
        features: Any = None,
        weight: str | None = None,
        classes: Any = None,
        buffer_rows: int = BUFFER_ROWS,
    ) -> None:
        """Open the data; nothing but metadata is read."""
        super().__init__(buffer_rows)
        pa = _arrow()
        self.dataset = open_dataset(data)
        names = self.dataset.schema.names
        targets = () if target is None else (target,) if isinstance(target, str) else target
        beside = [*targets, *([] if weight is None else [weight])]
        for role, name in [*(("target", name) for name in targets), ("weight", weight)]:
            if name is not None and name not in names:
                raise InvalidInputError(f"{role}={name!r} is not a column; the columns are {names[:20]}.")
        chosen = [n for n in names if n not in beside] if features is None else list(features)
        for name in chosen:
            if name not in names:
                raise InvalidInputError(f"features names {name!r}; the columns are {names[:20]}.")
            kind = self.dataset.schema.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
                raise InvalidInputError(
                    f"Column {name!r} has type {kind}; numbers are needed. Encode it, or leave it out: "
                    "pbdn.data.arrow_parquet.ArrowSource(data, target, features=[...])."
                )
        self.target, self.weight = target, weight
        self.feature_names = tuple(chosen)
        self.declared = None if classes is None else np.asarray(classes)
        self._columns = chosen + beside
        self._names = tuple(chosen)

    @cached_property
    def n_rows(self) -> int:
        """Number of rows, from the files' metadata."""
        return int(self.dataset.count_rows())

    @property
    def raw_features(self) -> int:
        """Number of feature columns."""
        return len(self._names)

    @cached_property
    def classes(self) -> NDArray[Any]:
        """Class labels: declared, or found in one pass over the target column."""
        if self.declared is not None:
            return self.declared
        if self.target is None:
            return np.zeros(1, np.int64)
        found: set[Any] = set()
        for batch in self.dataset.to_batches(columns=[self.target], batch_size=1 << 20):
            found.update(_arrow().compute.unique(batch.column(0)).to_pylist())
        if None in found:
            raise InvalidInputError(f"The target column {self.target!r} has missing values; drop those rows first.")
        return np.unique(np.array(list(found)))

    @cached_property
    def row_weight(self) -> float:
        """Sum of the weight column, or the number of rows."""
        if self.weight is None:
            return float(self.n_rows)
        batches = self.dataset.to_batches(columns=[self.weight], batch_size=1 << 20)
        return float(sum(_arrow().compute.sum(batch.column(0)).as_py() or 0.0 for batch in batches))

    @cached_property
    def _pieces(self) -> list[Any]:
        """Row groups; whole fragments where the format has none; slices of a table in memory."""
        pa = _arrow()
        if isinstance(self.dataset, pa.dataset.InMemoryDataset):
            return list(self.dataset.to_table(columns=self._columns).to_batches(max_chunksize=READ_ROWS))
        return [
            piece
            for fragment in self.dataset.get_fragments()
            for piece in (fragment.split_by_row_group() if _has_row_groups(fragment) else [fragment])
        ]

    def _order(self, rng: Generator | None) -> Iterator[Any]:
        numbers = range(len(self._pieces)) if rng is None else rng.permutation(len(self._pieces))
        return (self._pieces[number] for number in numbers)

    def _scan(self, rng: Generator | None, n_rows: int) -> Iterator[Any]:
        """Record batches of at most ``n_rows`` rows, one piece after the other.

        A scanner over the whole dataset would read ahead across files, and go on reading after its consumer
        has left; one per row group keeps at most that row group in flight.
        """
        pa = _arrow()
        options: dict[str, Any] = {
            "columns": self._columns,
            "batch_size": n_rows,
            "batch_readahead": 2,
            "schema": self.dataset.schema,
        }
        parquet = {
            "fragment_readahead": 1,
            "fragment_scan_options": pa.dataset.ParquetFragmentScanOptions(pre_buffer=False),
        }
        for piece in self._order(rng):
            if isinstance(piece, pa.RecordBatch):
                yield piece
            else:
                yield from piece.to_batches(**options, **(parquet if _has_row_groups(piece) else {}))

    @cached_property
    def _is_plain(self) -> bool:
        """Whether all pieces are row groups of common size that hold the columns in the types of the dataset."""
        types = [(name, self.dataset.schema.field(name).type) for name in self._columns]
        most = rows_within(GROUP_ROWS, len(self._names))

        def is_plain(piece: Any) -> bool:
            own = dict(zip(piece.physical_schema.names, piece.physical_schema.types, strict=True))
            return piece.row_groups[0].num_rows <= most and all(own.get(name) == kind for name, kind in types)

        return all(_has_row_groups(piece) and is_plain(piece) for piece in self._pieces)

    def _row_group(self, piece: Any) -> Any:
        """A row group as a table, decoded in the calling thread.

        Threads that decode one row group each overlap better than the columns of one, and the scanner takes
        more processor time.
        """
        with piece.open() as file:
            reader = _arrow().parquet.ParquetFile(file, metadata=piece.metadata, pre_buffer=False)
            return reader.read_row_group(piece.row_groups[0].id, columns=self._columns, use_threads=False)

    def _block(self, batch: Any) -> Block:
        """The columns of a record batch."""
        inputs = Columns([_to_numpy(batch.column(name)) for name in self._names])
        weights = None if self.weight is None else _to_numpy(batch.column(self.weight))
        nothing = self.target is None
        targets = np.zeros(batch.num_rows, np.int64) if nothing else self.says(self._target(batch))
        return Block(inputs, targets, row_weights(weights, batch.num_rows))

    def _target(self, batch: Any) -> NDArray[Any]:
        """The target column of a record batch, or several as the fields of one array."""
        if isinstance(self.target, str):
            return _to_numpy(batch.column(self.target))
        columns = {name: _to_numpy(batch.column(name)) for name in self.target or ()}
        out = np.empty(batch.num_rows, dtype=[(name, values.dtype) for name, values in columns.items()])
        for name, values in columns.items():
            out[name] = values
        return out

    def slabs(self, rng: Generator | None) -> Iterator[Block]:
        """Decoded record batches, by column; one is read ahead."""
        n_rows = rows_within(READ_ROWS, len(self._names))
        batches: Iterator[Any]
        if self._is_plain:
            tables = work_ahead(self._row_group, self._order(rng), 1)
            batches = (batch for table in tables for batch in table.to_batches(max_chunksize=n_rows))
        else:
            batches = read_ahead(self._scan(rng, n_rows), 1)
        return (self._block(batch) for batch in batches if batch.num_rows)

    def each(self, function: Callable[[Block], Result]) -> Iterator[Result]:
        """``function`` of every block of columns (of rows if these are transformed), in order."""
        if self.transforms:
            yield from super().each(function)
            return
        n_rows = rows_within(GROUP_ROWS, len(self._names))

        def results(batches: Iterable[Any]) -> Iterator[Result]:
            for batch in batches:
                if batch.num_rows:
                    block = self._weigh(self._block(batch))
                    block.inputs.standardise(self.center, self.scale)
                    yield function(block)

        def results_of(piece: Any) -> list[Result]:
            return list(results(self._row_group(piece).to_batches(max_chunksize=n_rows)))

        if self._is_plain:
            for some in work_ahead(results_of, self._pieces, READERS):
                yield from some
        else:
            yield from results(read_ahead(self._scan(None, n_rows), 1))


def _has_row_groups(fragment: Any) -> bool:
    return hasattr(fragment, "split_by_row_group")


def _to_numpy(column: Any) -> NDArray[Any]:
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array
