"""Files become tables, CSV, Parquet or Arrow, and tables become files."""

import csv
import difflib
import gzip
import io
import os
import stat
import sys
import zlib
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.tables.read_csv import parse_csv
from pbdn.tables.table import Column, Table, unique_names


def is_arrow(data: bytes) -> bool:
    """Whether the bytes are a Parquet file, an Arrow (Feather) file or an Arrow stream."""
    return data.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"))


def parse_arrow(data: bytes, name: str) -> Table:
    """A table from the bytes of a Parquet or Arrow file; ``name`` is for messages."""
    try:
        import pyarrow as pa
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(f"{name} is a Parquet or Arrow file, which needs pyarrow", "arrow") from None
    try:
        if data[:4] == b"PAR1":
            table = pa.parquet.ParquetFile(io.BytesIO(data)).read()  # takes names met twice
        elif data[:6] == b"ARROW1":
            table = pa.ipc.open_file(io.BytesIO(data)).read_all()
        else:
            table = pa.ipc.open_stream(io.BytesIO(data)).read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise InvalidInputError(f"{name} is a damaged Parquet or Arrow file ({reason}); write it again.") from error
    notes: list[str] = []
    names = unique_names([str(key) for key in table.column_names], notes)
    columns = {key: _plain(table.column(j), pa) for j, key in enumerate(names)}
    if not columns:
        raise InvalidInputError(f"{name} has no columns.")
    strings = frozenset(key for key, field in zip(names, table.schema, strict=True) if _is_text(field.type, pa))
    return Table(columns, int(table.num_rows), notes, strings)


def _is_text(kind: Any, pa: Any) -> bool:
    """Whether a type is text, also as the values of a dictionary."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _plain(chunked: Any, pa: Any) -> Column:
    """An Arrow column as numbers, dates or text."""
    kind = chunked.type
    if pa.types.is_dictionary(kind):
        chunked = chunked.cast(kind.value_type)
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.array(chunked.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        values = chunked.cast(pa.timestamp("s"), safe=False).cast(pa.int64()).to_pylist()
        return np.array(["NaT" if x is None else x for x in values], dtype="datetime64[s]")
    if pa.types.is_boolean(kind):
        return np.array([None if x is None else str(x).lower() for x in chunked.to_pylist()], dtype=object)
    return np.array([None if x is None else str(x) for x in chunked.to_pylist()] + [None], dtype=object)[:-1]


def read_table(path: str | os.PathLike[str], separator: str | None = None) -> Table:
    """Read CSV (also gzipped), Parquet or Arrow / Feather; ``-`` is standard input.

    Raises
    ------
    InvalidInputError
        In one sentence: no such file, a folder, no permission, empty, not a table.
    """
    name = os.fspath(path)
    if name == "-":
        return parse_table(sys.stdin.buffer.read(), "standard input", separator)
    try:
        if stat.S_ISDIR(os.stat(name).st_mode):
            raise InvalidInputError(f"{name!r} is a folder; give a CSV, Parquet or Arrow file in it.")
        with open(name, "rb") as stream:
            data = stream.read()
    except FileNotFoundError:
        raise InvalidInputError(f"There is no file {name!r}{_near_files(name)}") from None
    except PermissionError:
        raise InvalidInputError(f"{name!r} may not be read by you; change its permissions or copy it.") from None
    except OSError as error:
        raise InvalidInputError(f"Cannot read {name!r}: {error.strerror or error}.") from error
    return parse_table(data, repr(name), separator)


def parse_table(data: bytes, name: str, separator: str | None = None) -> Table:
    """A table from the bytes of a file; ``name`` is for messages."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidInputError(f"{name} is a damaged gzip file ({error}); write it again.") from error
    if not data.strip():
        raise InvalidInputError(f"{name} is empty; give a table with a line of column names and rows below it.")
    table = parse_arrow(data, name) if is_arrow(data) else parse_csv(data, name, separator)
    if table.n_rows == 0:
        raise InvalidInputError(f"{name} has column names but no rows.")
    return table


def _near_files(name: str) -> str:
    folder, base = os.path.split(name)
    try:
        near = difflib.get_close_matches(base, os.listdir(folder or "."), n=1, cutoff=0.7)
    except OSError:
        near = []
    return f"; did you mean {os.path.join(folder, near[0])!r}?" if near else "."


def table_bytes(columns: dict[str, Any], path: str) -> bytes:
    """A table as CSV, or as Parquet or Arrow by the ending of its name."""
    ending = path.rsplit(".", 1)[-1].lower()
    if ending in ("parquet", "arrow", "feather"):
        try:
            import pyarrow as pa
            import pyarrow.feather
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError(f"Writing .{ending} needs pyarrow", "arrow") from None
        table = pa.table({name: np.asarray(values) for name, values in columns.items()})
        sink = io.BytesIO()
        if ending == "parquet":
            pa.parquet.write_table(table, sink)
        else:
            pa.feather.write_feather(table, sink, compression="uncompressed")
        return sink.getvalue()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))
    return text.getvalue().encode()
