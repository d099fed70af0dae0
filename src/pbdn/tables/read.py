"""Read a table: CSV with the standard library, Parquet and Arrow with pyarrow; the bytes tell which."""

import difflib
import gzip
import io
import os
import stat
import sys
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.tables.delimited import parse_delimited

Column = NDArray[Any]


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Attributes
    ----------
    columns : dict
        Name to array: float64 with NaN (numbers), datetime64[s] with NaT (dates), or object with None
        (text: also numbers and dates of a CSV file, whose type `pbdn.tables.preparation` decides).
    n_rows : int
    notes : list of str
        What was guessed while reading, in words.
    """

    columns: dict[str, Column]
    n_rows: int
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return list(self.columns)

    def rows(self, which: NDArray[Any]) -> "Table":
        """Some rows, by number or mask."""
        columns = {name: values[which] for name, values in self.columns.items()}
        return Table(columns, len(np.arange(self.n_rows)[which]), self.notes)


def column(table: Table, name: str, what: str = "column") -> Column:
    """One column; an unknown name is answered with the nearest ones."""
    if name in table.columns:
        return table.columns[name]
    near = difflib.get_close_matches(name, table.names, n=3, cutoff=0.5)
    lower = [known for known in table.names if known.lower() == name.lower()]
    near = list(dict.fromkeys(lower + near))
    shown = ", ".join(repr(known) for known in near or table.names[:10])
    more = "" if near or len(table.names) <= 10 else f", … ({len(table.names)} in all)"
    hint = f"did you mean {shown}?" if near else f"the table has {shown}{more}."
    raise InvalidInputError(f"There is no {what} {name!r} in the table; {hint}")


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
    if data[:4] == b"PAR1" or data[:6] == b"ARROW1" or data[:4] == b"\xff\xff\xff\xff":
        table = _from_arrow(data, name)
    else:
        columns, notes = parse_delimited(data, name, separator)
        n_rows = len(next(iter(columns.values())))
        table = Table(columns, n_rows, notes)
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


def _from_arrow(data: bytes, name: str) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            f"{name} is a Parquet or Arrow file, which needs pyarrow: pip install 'pbdn[arrow]', or give CSV."
        ) from None
    try:
        if data[:4] == b"PAR1":
            table = pa.parquet.read_table(io.BytesIO(data))
        elif data[:6] == b"ARROW1":
            table = pa.ipc.open_file(io.BytesIO(data)).read_all()
        else:
            table = pa.ipc.open_stream(io.BytesIO(data)).read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise InvalidInputError(f"{name} is a damaged Parquet or Arrow file ({reason}); write it again.") from error
    columns = {str(key): _plain(table.column(j), pa) for j, key in enumerate(table.column_names)}
    if not columns:
        raise InvalidInputError(f"{name} has no columns.")
    return Table(columns, int(table.num_rows))


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
