"""Parquet and Arrow tables, read with pyarrow, some rows at a time."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, BinaryIO

import numpy as np

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.tables.table import Column, Table, joined_column, unique_names

PIECE_ROWS = 50_000
MAGIC = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")


def is_arrow(data: bytes) -> bool:
    """Whether the bytes begin a Parquet file, an Arrow (Feather) file or an Arrow stream."""
    return data.startswith(MAGIC)


class ArrowFile:
    """A Parquet or Arrow table that can be read several times.

    Parameters
    ----------
    open_bytes : callable
        Returns the bytes from their beginning, in a stream that can seek.
    name : str
        For messages.

    Attributes
    ----------
    names, notes : list of str
    """

    def __init__(self, open_bytes: Callable[[], BinaryIO], name: str) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError(f"{name} is a Parquet or Arrow file, which needs pyarrow", "arrow") from None
        self._pa, self._open, self.name = pa, open_bytes, name
        self.notes: list[str] = []
        with open_bytes() as stream:
            schema = self._batches(stream)[0]
        self.names = unique_names([str(key) for key in schema.names], self.notes)
        if not self.names:
            raise InvalidInputError(f"{name} has no columns.")
        self._strings = frozenset(
            key for key, field in zip(self.names, schema, strict=True) if _is_text(field.type, pa)
        )

    def whole(self, keep_text: Collection[str] | None = None) -> Table:
        """All rows; columns have the types of the file."""
        parts: dict[str, list[Column]] = {name: [] for name in self.names}
        n_rows = 0
        for piece in self.pieces():
            n_rows += piece.n_rows
            for name, values in piece.columns.items():
                parts[name].append(values)
        columns = {name: joined_column(parts[name]) for name in self.names}
        return Table(columns, n_rows, list(self.notes), self._strings)

    def pieces(self, keep_text: Collection[str] | None = None) -> Iterator[Table]:
        """All rows, some at a time; at least once."""
        with self._open() as stream:
            schema, batches = self._batches(stream)
            n_batches = 0
            for batch in self._unharmed(batches):
                n_batches += 1
                for begin in range(0, max(batch.num_rows, 1), PIECE_ROWS):
                    yield self._table(batch.slice(begin, PIECE_ROWS))
            if n_batches == 0:
                empty = [self._pa.array([], field.type) for field in schema]
                yield self._table(self._pa.RecordBatch.from_arrays(empty, schema=schema))

    def _table(self, batch: Any) -> Table:
        columns = {name: _plain(batch.column(j), self._pa) for j, name in enumerate(self.names)}
        return Table(columns, int(batch.num_rows), list(self.notes), self._strings)

    def _unharmed(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same, and a sentence where they cannot be read."""
        try:
            yield from batches
        except (self._pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _batches(self, stream: BinaryIO) -> tuple[Any, Iterator[Any]]:
        """The types of the columns, and the rows."""
        pa = self._pa
        try:
            magic = stream.read(6)
            stream.seek(0)
            if magic.startswith(b"PAR1"):
                parquet = pa.parquet.ParquetFile(stream)
                return parquet.schema_arrow, parquet.iter_batches(PIECE_ROWS)
            if magic == b"ARROW1":
                file = pa.ipc.open_file(stream)
                return file.schema, (file.get_batch(j) for j in range(file.num_record_batches))
            batches = pa.ipc.open_stream(stream)
            return batches.schema, iter(batches)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InvalidInputError:
        reason = str(error).split("\n")[0].rstrip(".")
        return InvalidInputError(f"{self.name} is a damaged Parquet or Arrow file ({reason}); write it again.")


def _is_text(kind: Any, pa: Any) -> bool:
    """Whether a type is text, also as the values of a dictionary."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _plain(values: Any, pa: Any) -> Column:
    """An Arrow column as numbers, dates or text."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = values.cast(pa.float64(), safe=False)
        return np.array(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        stamps = values.cast(pa.timestamp("s"), safe=False).cast(pa.int64()).to_pylist()
        return np.array(["NaT" if x is None else x for x in stamps], dtype="datetime64[s]")
    if pa.types.is_boolean(kind):
        return np.array([None if x is None else str(x).lower() for x in values.to_pylist()] + [None], dtype=object)[:-1]
    known: dict[str, str] = {}  # equal texts of a piece are kept once
    texts = [None if x is None else str(x) for x in values.to_pylist()]
    out = np.empty(len(texts), dtype=object)
    out[:] = [None if x is None else known.setdefault(x, x) for x in texts]
    return out
