"""CSV and other text tables: encoding, separator and quoting are found out, rows of unequal length are named by line."""

import csv
import io
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.tables.read_cell import to_number
from pbdn.tables.table import Table, unique_names

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
SAMPLE_LINES = 200
MAX_FIELD = 1 << 20  # characters in one cell


def parse_csv(data: bytes, name: str, separator: str | None = None) -> Table:
    """A table of text, cells as they stand, from the bytes of a file; its notes say what was guessed."""
    text, notes = _decode(data, name)
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise InvalidInputError(f"separator={separator!r} must be a single character such as ',' or ';'.")
    mark, quote = _dialect(text, separator)
    if mark != ",":
        notes.append(f"Cells are separated by {SEPARATORS.get(mark, repr(mark))}s.")
    if quote == "'":
        notes.append("Cells are quoted by apostrophes.")
    csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(_lines(text), delimiter=mark, quotechar=quote, skipinitialspace=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row and any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InvalidInputError(f"{name} is not a readable table near line {reader.line_num}: {error}.") from error
    if not rows:
        raise InvalidInputError(f"{name} is empty; give a table with a line of column names and rows below it.")
    names, body = _header(rows, notes)
    width = len(names)
    for line, row in body:
        if len(row) != width:
            raise InvalidInputError(
                f"Line {line} of {name} has {len(row)} cell{'' if len(row) == 1 else 's'} where the first line has {width}; mend the line "
                "or its quotes, or give the separator."
            )
    cells = [[cell.strip() for cell in row] for _, row in body]
    columns = {key: _objects([row[j] for row in cells]) for j, key in enumerate(names)}
    return Table(columns, len(cells), notes, separator=mark)


def _lines(text: str) -> io.StringIO:
    """Lines, ended by carriage returns and line feeds only; a cell may hold what else Unicode calls a line end."""
    return io.StringIO(text, newline="")


def _objects(values: list[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _decode(data: bytes, name: str) -> tuple[str, list[str]]:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return data.decode("utf-16"), ["The text is encoded in UTF-16."]
        except UnicodeDecodeError:
            pass
    control = sum(data[:4096].count(byte) for byte in range(32) if byte not in (9, 10, 12, 13))
    if b"\0" in data[:65536] or control > 0.02 * len(data[:4096]):
        raise InvalidInputError(f"{name} is a binary file, not a table; give CSV, Parquet or Arrow.")
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace"), ["The text is not UTF-8; it was read as Windows-1252."]


def _dialect(text: str, separator: str | None) -> tuple[str, str]:
    """The separator and quote with which the first lines have equally many cells, as many as possible."""
    sample = list(islice(_lines(text[: 1 << 18]), SAMPLE_LINES))
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


def _header(rows: list[tuple[int, list[str]]], notes: list[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    first = [cell.strip() for cell in rows[0][1]]
    if len(rows) > 1 and all(to_number(cell) is not None for cell in first):
        notes.append("The first line holds numbers, not names: columns are called column_1, column_2, ….")
        return [f"column_{j}" for j in range(1, len(first) + 1)], rows
    return unique_names(first, notes), rows[1:]
