"""CSV and other text tables: encoding, separator and quoting are found out, rows of unequal length are named by line.

A file is read piece by piece. Of a large one, columns of plain numbers are kept as numbers and not as text, which takes a
tenth of the memory; `pbdn.tables.decide_columns` says the same about both.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray
from pbdn.tables.read_cell import MISSING, to_number
from pbdn.tables.table import Column, GrowingColumn, Table, unique_names

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
SAMPLE_LINES = 200
SAMPLE_LETTERS = 1 << 18
MAX_FIELD = 1 << 20  # characters in one cell
LARGE = 1 << 24  # bytes from which columns of plain numbers are not kept as text
PIECE_CELLS = 500_000  # cells that are text at the same time
MOST_SHARED = 10_000  # different cells of a column that are looked up to be kept once
READ_BYTES = 1 << 20
FEWEST_BELOW = 3  # cells below a line of one cell, which is then a title and not the names
NOT_PLAIN = re.compile(
    r"[^0-9+\-.eE\n]|(?:^|\n)0[0-9]+(?:[eE][0-9]+)?(?:\n|$)"
)  # a sign that is in no plain number, or a code with zeros

DECLARED = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # Excel's line above the names

Opener = Callable[[], BinaryIO]
Row = tuple[int, list[str]]
"""The number of its last line, and its cells."""


class TextFile:
    """A text table that can be read several times.

    Parameters
    ----------
    open_bytes : callable
        Returns the bytes from their beginning.
    name : str
        For messages.
    separator : str, optional

    Attributes
    ----------
    names : list of str
    notes : list of str
        What was guessed, in words.
    separator : str
    size : int
        Bytes.
    """

    def __init__(self, open_bytes: Opener, name: str, separator: str | None = None) -> None:
        if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
            raise InvalidInputError(f"separator={separator!r} must be a single character such as ',' or ';'.")
        self._open, self.name = open_bytes, name
        self._encoding, self._errors, self.size, self.notes = _encoding(open_bytes, name)
        with self._text() as text:
            beginning = text.read(SAMPLE_LETTERS)
        declared = DECLARED.match(beginning)
        self._n_above = 0 if declared is None else 1
        if declared is not None:
            separator, beginning = separator or declared[1], beginning[declared.end() :]
        self.separator, self._quote = _dialect(beginning, separator)
        if self.separator != ",":
            self.notes.append(f"Cells are separated by {SEPARATORS.get(self.separator, repr(self.separator))}s.")
        if self._quote == "'":
            self.notes.append("Cells are quoted by apostrophes.")
        first = list(islice(self._all_rows(), 2))
        if not first:
            raise InvalidInputError(f"{name} is empty; give a table with a line of column names and rows below it.")
        cells = [cell.strip() for cell in first[0][1]]
        if sum(map(bool, cells)) == 1 < FEWEST_BELOW <= sum(bool(cell.strip()) for cell in first[-1][1]):
            raise InvalidInputError(
                f"Line {first[0][0]} of {name} holds {next(filter(bool, cells))[:40]!r} alone, and the line below it more cells; delete "
                "what stands above the names of the columns."
            )
        self._has_header = len(first) == 1 or any(to_number(cell) is None for cell in cells)
        if self._has_header:
            self.names = unique_names(cells, self.notes)
        else:
            self.names = [f"column_{j}" for j in range(1, len(cells) + 1)]
            self.notes.append("The first line holds numbers, not names: columns are called column_1, column_2, ….")

    def whole(self, keep_text: Collection[str] | None = None) -> Table:
        """All rows.

        Cells are text as they stand. Of a large file, columns that hold plain numbers only are numbers, but for those
        named in ``keep_text``; None keeps all as text.
        """
        text = set(self.names if keep_text is None or self.size < LARGE else keep_text)
        columns = self._columns(text)
        while others := [name for name in self.names if name not in columns]:  # numbers that end in other cells
            text |= set(others)
            columns.clear()  # two tables would take twice the memory
            columns = self._columns(text)
        n_rows = len(columns[self.names[0]])
        return Table(columns, n_rows, list(self.notes), separator=self.separator)

    def pieces(self, keep_text: Collection[str] | None = None, exact: Collection[str] = ()) -> Iterator[Table]:
        """All rows, some at a time; columns that hold plain numbers only in these rows as in `whole`."""
        text = set(self.names if keep_text is None else keep_text)
        for rows in self._pieces():
            columns = {}
            for name, cells in self._cells(rows):
                numbers = None if name in text else plain_numbers(cells)
                columns[name] = text_column(cells) if numbers is None else numbers
            yield Table(columns, len(rows), list(self.notes), separator=self.separator)

    def _columns(self, text: set[str]) -> dict[str, Column]:
        """Columns of text by name, and those others that hold plain numbers only; ``text`` gets those that begin otherwise."""
        parts: dict[str, GrowingColumn] | None = None
        shared: dict[str, dict[str, str]] = {name: {} for name in self.names}
        fractions, doubtful = set[str](), set[str]()
        for rows in self._pieces():
            if parts is None:
                parts = {name: GrowingColumn(self._rows_expected(rows)) for name in self.names}
                text |= {name for name, cells in self._cells(rows) if name not in text and plain_numbers(cells) is None}
            for name, cells in self._cells(rows):
                if name in text:
                    parts[name].add(text_column(cells, shared[name]))
                elif name in parts:
                    numbers = plain_numbers(cells)
                    if numbers is None:
                        del parts[name]
                        continue
                    parts[name].add(numbers)
                    if self.separator == ";" and name not in fractions:  # between semicolons, 1.234 may be a thousand
                        if any(map(_is_fraction, cells)):
                            fractions.add(name)
                        elif any("." in cell for cell in cells):
                            doubtful.add(name)
        assert parts is not None  # there is one piece at least
        return {name: one.whole() for name, one in parts.items() if name not in doubtful - fractions}

    def _rows_expected(self, rows: list[list[str]]) -> int:
        """Rows of the file if all are as long as the first ones, and some more."""
        if len(rows) < SAMPLE_LINES:
            return len(rows)
        length = sum(len(cell) + 1 for row in rows[:SAMPLE_LINES] for cell in row) / SAMPLE_LINES
        return int(1.1 * self.size / length)

    def _cells(self, rows: list[list[str]]) -> Iterator[tuple[str, Sequence[str]]]:
        """Name and cells of every column."""
        return zip(self.names, zip(*rows, strict=True) if rows else ((),) * len(self.names), strict=True)

    def _pieces(self) -> Iterator[list[list[str]]]:
        """Rows below the header, some at a time; at least once."""
        rows = self._rows()
        size = max(1, PIECE_CELLS // len(self.names))
        piece = list(islice(rows, size))
        yield piece
        while len(piece) == size:
            piece = list(islice(rows, size))
            if piece:
                yield piece

    def _rows(self) -> Iterator[list[str]]:
        width = len(self.names)
        for line, row in islice(self._all_rows(), int(self._has_header), None):
            if len(row) != width:
                raise InvalidInputError(
                    f"Line {line} of {self.name} has {len(row)} cell{'' if len(row) == 1 else 's'} where the first line has {width}; "
                    "mend the line or its quotes, or give the separator."
                )
            yield row

    def _all_rows(self) -> Iterator[Row]:
        """The header and the rows below it, without blank lines; separators alone are a row of missing cells."""
        csv.field_size_limit(MAX_FIELD)
        with self._text() as text:
            reader = csv.reader(text, delimiter=self.separator, quotechar=self._quote, skipinitialspace=True)
            begun = False
            try:
                for row in islice(reader, self._n_above, None):
                    if (begun and len(row) > 1) or any(cell.strip() for cell in row):
                        begun = True
                        yield reader.line_num, row
            except csv.Error as error:
                raise InvalidInputError(
                    f"{self.name} is not a readable table near line {reader.line_num}: {error}."
                ) from error

    def _text(self) -> io.TextIOWrapper:
        """Lines, ended by carriage returns and line feeds only; a cell may hold what else Unicode calls a line end."""
        return io.TextIOWrapper(self._open(), encoding=self._encoding, errors=self._errors, newline="")


def text_column(cells: Sequence[str], shared: dict[str, str] | None = None) -> NDArray[Any]:
    """Cells without spaces around them; those that occur often are kept once."""
    known = {} if shared is None else shared
    out = np.empty(len(cells), dtype=object)
    stripped = (cell.strip() for cell in cells)
    out[:] = [known.setdefault(cell, cell) if len(known) < MOST_SHARED else known.get(cell, cell) for cell in stripped]
    return out


def plain_numbers(cells: Sequence[str]) -> FloatArray | None:
    """Cells as numbers, NaN for missing ones; None where a cell is neither, or could mean something else than its number."""
    stripped = [cell.strip() for cell in cells]
    present = [cell for cell in stripped if cell.lower() not in MISSING]
    joined = "\n".join(present)
    if NOT_PLAIN.search(joined) or joined.count("\n") != max(len(present), 1) - 1:  # the latter: a line end in a cell
        return None
    try:
        numbers = np.array([float(cell) for cell in present], dtype=np.float64)
    except ValueError:
        return None
    if np.isinf(numbers).any():
        return None
    if len(present) == len(stripped):
        return numbers
    out = np.full(len(stripped), np.nan)
    out[[cell.lower() not in MISSING for cell in stripped]] = numbers
    return out


def _is_fraction(cell: str) -> bool:
    """Whether the point in a cell cannot stand between thousands."""
    text = cell.strip()
    return "." in text and text not in MISSING and to_number(text, ",.") is None


def _encoding(open_bytes: Opener, name: str) -> tuple[str, str, int, list[str]]:
    """Encoding and what to do with bytes that it does not know, size in bytes, and a note."""
    with open_bytes() as stream:
        beginning = stream.read(1 << 16)
    if beginning[:2] in (b"\xff\xfe", b"\xfe\xff"):
        size = _readable_size(open_bytes, "utf-16")
        if size is not None:
            return "utf-16", "strict", size, ["The text is encoded in UTF-16."]
    control = sum(beginning[:4096].count(byte) for byte in range(32) if byte not in (9, 10, 12, 13))
    if b"\0" in beginning or control > 0.02 * len(beginning[:4096]):
        raise InvalidInputError(f"{name} is a binary file, not a table; give CSV, Parquet or Arrow.")
    size = _readable_size(open_bytes, "utf-8")
    if size is not None:
        return "utf-8-sig", "strict", size, []
    size = _readable_size(open_bytes, "latin-1") or 0
    return "cp1252", "replace", size, ["The text is not UTF-8; it was read as Windows-1252."]


def _readable_size(open_bytes: Opener, encoding: str) -> int | None:
    """Bytes of a file in this encoding; None if it is in another one."""
    decoder, size = codecs.getincrementaldecoder(encoding)(), 0
    with open_bytes() as stream:
        try:
            while block := stream.read(READ_BYTES):
                decoder.decode(block)
                size += len(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return None
    return size


def _dialect(text: str, separator: str | None) -> tuple[str, str]:
    """The separator and quote with which the first lines have equally many cells, as many as possible."""
    sample = list(islice(io.StringIO(text, newline=""), SAMPLE_LINES))
    best, best_score = (separator or ",", '"'), -1.0
    for quote in ('"', "'"):
        for mark in (separator,) if separator else SEPARATORS:
            try:
                widths = [len(row) for row in csv.reader(sample, delimiter=mark, quotechar=quote) if row]
            except csv.Error:
                continue
            if not widths:
                continue
            common, count = Counter(widths).most_common(1)[0]
            agreement = count / len(widths) if common == widths[0] else 0.0
            score = agreement * (1.0 + min(common, 50) / 100.0) if common > 1 else 0.0
            if score > best_score + 1e-12:
                best, best_score = (mark, quote), score
    return best
