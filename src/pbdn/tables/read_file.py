"""Read a table from a file: CSV, Parquet or Arrow; its first bytes tell which."""

import difflib
import gzip
import os
import stat
import sys
import zlib

from pbdn.errors import InvalidInputError
from pbdn.tables.read_arrow_parquet import is_arrow, parse_arrow
from pbdn.tables.read_csv import parse_csv
from pbdn.tables.table import Table


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
