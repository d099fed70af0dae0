"""Files become tables, CSV, Parquet or Arrow, and tables become files; all of them some rows at a time."""

import csv
import difflib
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, Protocol, cast

import numpy as np

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.tables.read_csv import Opener, TextFile
from pbdn.tables.table import Column, Table, joined_column, unique_names

PIECE_ROWS = 50_000
MAGIC = (b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")
GZIP = b"\x1f\x8b"
TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # of a second


class Gunzip(gzip.GzipFile):
    """What a gzip file holds; closed together with the file."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__(fileobj=packed)
        self.packed = packed

    def close(self) -> None:
        """Close the file too."""
        super().close()
        self.packed.close()


class TableFile(Protocol):
    """A table that can be read several times, whole or some rows at a time."""

    name: str
    names: list[str]
    notes: list[str]

    def whole(self, keep_text: Collection[str] | None = None) -> Table:
        """All rows; columns of plain numbers in a large text file are numbers, but for those that are to keep their text."""

    def pieces(self, keep_text: Collection[str] | None = None, exact: Collection[str] = ()) -> Iterator[Table]:
        """All rows, some at a time; ``keep_text`` as in `whole`, whatever the size; ``exact`` columns as `Table` has them."""


def open_table(path: str | os.PathLike[str], separator: str | None = None) -> TableFile:
    """CSV (also gzipped), Parquet or Arrow / Feather; ``-`` is standard input.

    Raises
    ------
    InvalidInputError
        In one sentence: no such file, a folder, no permission, empty, not a table.
    """
    name = os.fspath(path)
    if name == "-":
        data = sys.stdin.buffer.read()
        return _opened(lambda: io.BytesIO(data), "standard input", separator)
    try:
        kind = os.stat(name).st_mode
        if stat.S_ISDIR(kind):
            raise InvalidInputError(f"{name!r} is a folder; give a CSV, Parquet or Arrow file in it.")
        if stat.S_ISREG(kind):
            return _opened(lambda: open(name, "rb"), repr(name), separator)
        with open(name, "rb") as stream:  # a pipe can be read once
            data = stream.read()
    except FileNotFoundError:
        raise InvalidInputError(f"There is no file {name!r}{_near_files(name)}") from None
    except PermissionError:
        raise InvalidInputError(f"{name!r} may not be read by you; change its permissions or copy it.") from None
    except OSError as error:
        raise InvalidInputError(f"Cannot read {name!r}: {error.strerror or error}.") from error
    return _opened(lambda: io.BytesIO(data), repr(name), separator)


def read_table(
    path: str | os.PathLike[str], separator: str | None = None, keep_text: Collection[str] | None = None
) -> Table:
    """`open_table`, and all its rows; ``keep_text`` as in `TableFile.whole`."""
    return _with_rows(open_table(path, separator), keep_text)


def parse_table(data: bytes, name: str, separator: str | None = None) -> Table:
    """A table from the bytes of a file; ``name`` is for messages."""
    return _with_rows(_opened(lambda: io.BytesIO(data), name, separator), None)


def _with_rows(file: TableFile, keep_text: Collection[str] | None) -> Table:
    table = file.whole(keep_text)
    if table.n_rows == 0:
        raise no_rows(file)
    return table


def no_rows(file: TableFile) -> InvalidInputError:
    """What is said of a table without rows."""
    return InvalidInputError(f"{file.name} has column names but no rows.")


def _opened(open_bytes: Opener, name: str, separator: str | None) -> TableFile:
    with open_bytes() as stream:
        beginning = stream.read(6)
    if beginning.startswith(GZIP):
        open_bytes = _decompressed(open_bytes, name)
        with open_bytes() as stream:
            beginning = stream.read(6)
    return ArrowFile(open_bytes, name) if is_arrow(beginning) else TextFile(open_bytes, name, separator)


def _decompressed(open_bytes: Opener, name: str) -> Opener:
    """What a gzip file holds, after it was read to its end once."""

    def opener() -> BinaryIO:
        return cast(BinaryIO, Gunzip(open_bytes()))

    try:
        with opener() as stream:
            while stream.read(1 << 20):
                pass
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInputError(f"{name} is a damaged gzip file ({error}); write it again.") from error
    return opener


def _near_files(name: str) -> str:
    folder, base = os.path.split(name)
    try:
        near = difflib.get_close_matches(base, os.listdir(folder or "."), n=1, cutoff=0.7)
    except OSError:
        near = []
    return f"; did you mean {os.path.join(folder, near[0])!r}?" if near else "."


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

    def __init__(self, open_bytes: Opener, name: str) -> None:
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

    def pieces(self, keep_text: Collection[str] | None = None, exact: Collection[str] = ()) -> Iterator[Table]:
        """All rows, some at a time; at least once."""
        with self._open() as stream:
            schema, batches = self._batches(stream)
            n_batches = 0
            for batch in self._unharmed(batches):
                n_batches += 1
                for begin in range(0, max(batch.num_rows, 1), PIECE_ROWS):
                    yield self._table(batch.slice(begin, PIECE_ROWS), exact)
            if n_batches == 0:
                empty = [self._pa.array([], field.type) for field in schema]
                yield self._table(self._pa.RecordBatch.from_arrays(empty, schema=schema))

    def _table(self, batch: Any, exact: Collection[str] = ()) -> Table:
        columns = {name: _plain(batch.column(j), self._pa) for j, name in enumerate(self.names)}
        found = {name: batch.column(self.names.index(name)) for name in exact if name in columns}
        kept = {name: np.array(v.to_pylist(), object) for name, v in found.items() if self._pa.types.is_integer(v.type)}
        return Table(columns, int(batch.num_rows), list(self.notes), self._strings, exact=kept)

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
    if pa.types.is_duration(kind):
        ticks = values.cast(pa.int64()).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.asarray(ticks, dtype=np.float64) / TICKS[kind.unit]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if pa.types.is_timestamp(kind) and kind.tz is not None:  # what the clock shows there, as in a CSV file
            import pyarrow.compute as pc

            values = pc.local_timestamp(values)
        stamps = values.cast(pa.timestamp("s"), safe=False).cast(pa.int64()).to_pylist()
        return np.array(["NaT" if x is None else x for x in stamps], dtype="datetime64[s]")
    if pa.types.is_boolean(kind):
        return np.array([None if x is None else str(x).lower() for x in values.to_pylist()] + [None], dtype=object)[:-1]
    known: dict[str, str] = {}  # equal texts of a piece are kept once
    texts = [None if x is None else str(x).strip() for x in values.to_pylist()]
    out = np.empty(len(texts), dtype=object)
    out[:] = [None if x is None else known.setdefault(x, x) for x in texts]
    return out


class TableWriter:
    """Writes rows as CSV, or as Parquet or Arrow by the ending of a name.

    Parameters
    ----------
    stream : binary stream
    path : str
        Where the table will be; its ending says what it becomes.
    """

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._stream, self._ending = stream, path.rsplit(".", 1)[-1].lower()
        self._writer: Any = None  # of Arrow tables; of text, once there is a header
        self._is_arrow = self._ending in ("parquet", "arrow", "feather")
        if self._is_arrow:
            try:
                import pyarrow
                import pyarrow.parquet
            except ImportError:
                raise MissingExtraError(f"Writing .{self._ending} needs pyarrow", "arrow") from None
            self._pyarrow = pyarrow

    def write(self, columns: dict[str, Any]) -> None:
        """Some rows; every call gives the same columns."""
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        if self._is_arrow:
            self._write_arrow(arrays)
            return
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        if self._writer is None:
            rows.writerow(arrays)
            self._writer = rows
        rows.writerows(zip(*(values.tolist() for values in arrays.values()), strict=True))
        self._stream.write(text.getvalue().encode())

    def _write_arrow(self, arrays: dict[str, Any]) -> None:
        pa = self._pyarrow
        table = pa.table(arrays)
        if self._writer is None:
            make = pa.parquet.ParquetWriter if self._ending == "parquet" else pa.ipc.new_file
            self._writer = make(self._stream, table.schema)
        self._writer.write_table(table.cast(self._writer.schema) if self._ending == "parquet" else table)

    def close(self) -> None:
        """Write what stands at the end of a file."""
        if self._is_arrow and self._writer is not None:
            self._writer.close()
