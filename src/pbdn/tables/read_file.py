"""Read a table from a file: CSV, Parquet or Arrow; its first bytes tell which."""

import difflib
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Collection, Iterator
from typing import BinaryIO, Protocol, cast

from pbdn.errors import InvalidInputError
from pbdn.tables.read_arrow_parquet import ArrowFile, is_arrow
from pbdn.tables.read_csv import Opener, TextFile
from pbdn.tables.table import Table

GZIP = b"\x1f\x8b"


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

    def pieces(self, keep_text: Collection[str] | None = None) -> Iterator[Table]:
        """All rows, some at a time; ``keep_text`` as in `whole`, whatever the size."""


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
