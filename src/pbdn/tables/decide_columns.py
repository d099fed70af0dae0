"""What each column is: number, category, date, or left out. Decided once, on all rows in the order of the file.

What a user says goes before everything that is found out.
"""

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray, spread_of_most
from pbdn.tables.column_format import (
    Format,
    date_format,
    given_format,
    is_number_style,
    number_format,
    odd_words,
    style_words,
    whole_codes,
)  # fmt: skip
from pbdn.tables.read_cell import is_missing, to_date, to_number
from pbdn.tables.table import Table, column, numbers, words

LEAST_ROWS = 11
ANYWHERE = re.compile(
    "ids?|idx|index|row(id|num|nr|no)?|key|pk|uuid|guid|account|acct|(tele)?phone|tel|mobile|fax|serial|ssn|passport|"
    "iban|isbn|ean|barcode|sku|invoice|ticket"
)
AT_THE_END = re.compile("no|nr|num|number")  # a number of persons is a quantity, a person's number is not
MEASURED = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*[^\W\d_]{1,5}(?:[²³/]\w*)?")  # a number and a unit
LONG = 8  # digits of numbers that are rather written down than measured
CHANCE = 10.0  # minus the logarithm of the chance that numbers drawn from their range never repeat
FAR_SPREADS = 100.0  # from the median at which a number may lie far from all others,
FAR_GAP = 10.0  # if it is so many times as far as the next one
MOST_FAR = 0.25  # of the cells
MAX_LEVELS = 50  # categories of one column with a feature of their own
MANY_NUMBERS = 20  # different numbers of a column that is rather a quantity than a category
MAX_ODD = 50  # different odd cells that are remembered


@dataclass(frozen=True)
class ColumnOptions:
    """Columns by name: what each is, whatever its cells look like.

    Attributes
    ----------
    categorical, numeric, date : tuple of str
        Read as categories, numbers or dates. Cells that are none count as missing.
    id, drop : tuple of str
        Left out: they tell rows apart only, or are not wanted.
    formats : mapping
        Column to the style of its numbers (decimal mark, then the mark between thousands: ``","``, ``",."``) or of its
        dates (``"%d/%m/%Y"``).
    """

    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)

    def asked(self, name: str) -> str:
        """The option that names a column; empty if none does."""
        return next((kind for kind in self.kinds() if name in getattr(self, kind)), "")

    @property
    def read_as_text(self) -> tuple[str, ...]:
        """Columns of which the cells count as they stand, whatever numbers they are."""
        return (*self.categorical, *self.date, *self.formats)

    @staticmethod
    def kinds() -> list[str]:
        """Names of the options that say what a column is."""
        return [one.name for one in fields(ColumnOptions) if one.name != "formats"]

    def check(self, table: Table, target: str | None) -> None:
        """Refuse columns that are not there, that are the target, or of which two things are said."""
        said: dict[str, str] = {}
        for kind in self.kinds():
            for name in getattr(self, kind):
                column(table, name)
                if name == target and kind != "drop":
                    raise InvalidInputError(f"{option(kind, name)}: {name!r} is the target; give another column.")
                if said.setdefault(name, kind) != kind:
                    raise InvalidInputError(
                        f"Column {name!r} cannot be both --{said[name]} and --{kind}; give one of them."
                    )
        for name in self.formats:
            column(table, name)
            if said.get(name, "numeric") not in ("numeric", "date"):
                raise InvalidInputError(f"--format {name!r} does not go with --{said[name]}; give one of them.")


def option(kind: str, name: str, value: str = "") -> str:
    """An option of the command line, ready to be copied."""
    return f"--{kind} {shlex.quote(name + value)}"


def identifier_words(name: str, number: FloatArray) -> str:
    """Why a column, in the order of the file, is an identifier; empty if it is none."""
    rows = np.flatnonzero(~np.isnan(number))
    present = number[rows]
    if not _nearly_distinct_whole_numbers(present, number.size):
        return ""
    steps = np.diff(present) / np.diff(rows)
    step = float(np.median(steps))
    if step != 0.0 and float(np.mean(steps == step)) >= 0.95:
        return f"numbers in steps of {abs(step):g} from row to row, so a row number"
    one_way = bool(np.all(steps > 0.0) or np.all(steps < 0.0))
    if one_way and float(np.abs(steps).max()) <= 20.0 * abs(step):
        return "numbers that rise or fall steadily through the file, so a row number or key"
    distinct = np.unique(present).size == present.size
    span = float(np.ptp(present)) + 1.0
    if distinct and (span == present.size or present.size**2 / (2.0 * span) > CHANCE):
        return "a different number in each row although few are possible, so a row number or key"
    if distinct and _named(name):
        return "a different number in each row, so a row number or key"
    return ""


def is_long_code(number: FloatArray) -> bool:
    """Whether all numbers differ and have the same, large number of digits, like telephone numbers and accounts."""
    present = number[~np.isnan(number)]
    if not _nearly_distinct_whole_numbers(present, number.size) or np.unique(present).size < present.size:
        return False
    low, high = float(present.min()), float(present.max())
    return low >= 10.0 ** (LONG - 1) and len(f"{low:.0f}") == len(f"{high:.0f}")


def _nearly_distinct_whole_numbers(present: FloatArray, n_rows: int) -> bool:
    return bool(
        present.size >= LEAST_ROWS
        and present.size >= 0.95 * n_rows
        and np.all(present == np.round(present))
        and np.unique(present).size >= 0.98 * present.size
    )


def _named(name: str) -> bool:
    """Whether a word of the name says identifier: ``customer_no``, ``accountNumber``, ``Phone``."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    tokens = [token.lower() for token in re.split(r"[\W_]+", spaced) if token]
    return any(ANYWHERE.fullmatch(token) for token in tokens) or bool(tokens and AT_THE_END.fullmatch(tokens[-1]))


@dataclass(frozen=True)
class Decision:
    """What one column is.

    Attributes
    ----------
    kind : "number", "category", "date" or "dropped"
    style : str
        Of numbers and dates; see `pbdn.tables.read_cell`.
    words : str
        Why it is left out.
    odd : tuple of str
        Cells that are no numbers (dates) and count as missing.
    notes : tuple of str
        What a user should know.
    instead : str
        The option that changes the decision.
    asked : bool
        Whether a user decided.
    long_code : bool
        Whether it may be an identifier, if it says nothing about the target.
    is_name : bool
        Whether it is left out as a name or key; where names repeat, they may tell of the classes.
    """

    kind: str
    style: str = "."
    words: str = ""
    odd: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    instead: str = ""
    asked: bool = False
    long_code: bool = False
    is_name: bool = False


def decide_columns(
    table: Table, target: str | None = None, options: ColumnOptions | None = None
) -> dict[str, Decision]:
    """What each column but the target is, in the order of the table."""
    options = options or ColumnOptions()
    options.check(table, target)
    return {name: _decide(name, table, options) for name in table.names if name != target}


def _decide(name: str, table: Table, options: ColumnOptions) -> Decision:
    values, asked = table.columns[name], options.asked(name)
    if asked in ("drop", "id"):
        return Decision("dropped", words="left out as asked", asked=True)
    if all(is_missing(value) for value in values):
        return Decision("dropped", words="left out: always missing")
    if asked == "categorical":
        return Decision("category", asked=True)
    if name in options.formats and values.dtype.kind != "M":
        kind, found = given_format(_cells(values), options.formats[name], name)
        return _formatted(name, kind, found, asked=True)
    if values.dtype.kind == "M" and asked != "numeric":
        return Decision("date", "iso", instead="" if asked else option("categorical", name), asked=bool(asked))
    if values.dtype.kind == "f" and asked != "date":
        infinite = Counter(values[np.isinf(values)].astype(str).tolist())
        found = Format(".", int(np.isfinite(values).sum()), dict(infinite))
        return _formatted(name, "number", found, asked=True) if asked else _found_number(name, values, found)
    if asked:
        return _asked_format(name, _cells(values), asked, table.separator)
    return _found_text(name, values, _cells(values), table)


def _cells(values: NDArray[Any]) -> Counter[str]:
    """Different cells with how often each occurs, missing ones left out."""
    if values.dtype.kind != "O":
        return Counter(word for word in words(values) if word is not None)
    return Counter({str(cell): n for cell, n in Counter(values.tolist()).items() if not is_missing(cell)})


def _asked_format(name: str, cells: Counter[str], asked: str, separator: str | None) -> Decision:
    """The decision for text (or numbers, or dates) that a user calls numeric or date."""
    kind = "date" if asked == "date" else "number"
    found = date_format(cells, asked=True) if kind == "date" else number_format(cells, separator)
    if found is None or found.read == 0:
        shown = ", ".join(repr(text[:30]) for text in list(cells)[:3])
        raise InvalidInputError(f"{option(asked, name)}: hardly a cell is a {kind} (there are {shown}); leave it out.")
    return _formatted(name, kind, found, asked=True)


def _found_text(name: str, values: NDArray[Any], cells: Counter[str], table: Table) -> Decision:
    """The decision for text: a CSV file's cells of any kind, or a column of strings."""
    has_type = name in table.strings
    number = None if whole_codes(cells) else number_format(cells, table.separator)
    if number is not None and has_type and number.style == "." and all(text.isdecimal() for text in cells):
        number = None  # digits that were stored as text are a code
    if number is not None and number.fits:
        return _found_number(name, values, number)
    date = date_format(cells)
    if date is not None and date.fits:
        return _formatted(name, "date", date)
    key = _is_key(cells, len(values))
    for kind, found in (("number", number), ("date", date)):
        if found is not None and found.read >= found.n_odd:
            read = sum(text not in found.odd for text in cells)
            if key or read > MANY_NUMBERS:
                return _found_number(name, values, found) if kind == "number" else _formatted(name, kind, found)
    instead = option("numeric", name) if any(to_number(text) is not None for text in cells) else option("drop", name)
    if not key:
        return Decision("category", instead=instead)
    instead = instead if "numeric" in instead else option("categorical", name)
    text = f"left out: {len(cells)} different texts, so a name or key"
    measured = [cell for cell in cells if MEASURED.fullmatch(cell)]
    has_units = len(measured) > 0.5 * len(cells)
    if has_units:
        text = f"left out: numbers with a unit, such as {measured[0]!r}; write the numbers alone to use them"
    notes = (f"{name} is {text} ({instead} uses it).",)
    return Decision("dropped", words=text, notes=notes, instead=instead, is_name=not has_units)


def _found_number(name: str, values: NDArray[Any], found: Format) -> Decision:
    number, _ = numbers(values, found.style)
    why = identifier_words(name, number)
    if why:
        text, instead = f"left out: {why}", option("numeric", name)
        return Decision("dropped", words=text, notes=(f"{name} is {text} ({instead} uses it).",), instead=instead)
    decision, far = _formatted(name, "number", found), far_words(number)
    notes = (*decision.notes, f"{name}: {far}.") if far else decision.notes
    return replace(decision, notes=notes, long_code=is_long_code(number))


def far_words(number: FloatArray) -> str:
    """That a few cells lie far from all others, in words; empty where none do."""
    known = number[np.isfinite(number)]
    if not known.size:
        return ""
    (median,), (spread,) = spread_of_most(known[:, None])
    order = np.argsort(np.abs(known - median), kind="stable")
    distance = np.abs(known[order] - median)
    begins = (distance[1:] > FAR_SPREADS * spread) & (distance[1:] > FAR_GAP * distance[:-1]) & (spread > 0.0)
    n_near = 1 + int(np.argmax(begins))
    if not begins.any() or n_near < (1.0 - MOST_FAR) * known.size:
        return ""
    values, counts = np.unique(known[order[n_near:]], return_counts=True)
    shown = ", ".join(f"{values[i]:.10g}" for i in np.argsort(-counts, kind="stable")[:3])
    shown += ", …" if values.size > 3 else ""
    n_far = known.size - n_near
    one = n_far == 1
    what, if_missing = ("lies", "it empty if it stands") if one else ("lie", "them empty if they stand")
    return f"{n_far} of {known.size} cells {what} far from all others: {shown}; leave {if_missing} for a missing number"


def _formatted(name: str, kind: str, found: Format, asked: bool = False) -> Decision:
    """Numbers or dates, with notes on odd cells and on cells that can be read in two ways."""
    notes = []
    if found.n_odd:
        what = "numbers" if kind == "number" else "dates"
        total = found.n_odd + found.read
        are = f"1 of {total} cells is no {what[:-1]} and counts" if found.n_odd == 1 else (
            f"{found.n_odd} of {total} cells are no {what} and count"
        )  # fmt: skip
        notes.append(
            f"{name}: {are} as missing: {odd_words(found.odd)} ({option('categorical', name)} keeps all texts)."
        )
    if found.remark:
        notes.append(f"{name}: {found.remark}.")
    if found.rival and not asked:
        notes.append(
            f"{name}: {found.unclear!r} is read as {_value(found.unclear, found.style)} "
            f"({style_words(found.style)}); it could be {_value(found.unclear, found.rival)} "
            f"({style_words(found.rival)}): {option('format', name, '=' + found.rival)} reads it so."
        )
    instead = "" if asked else option("categorical", name)
    return Decision(kind, found.style, "", tuple(list(found.odd)[:MAX_ODD]), tuple(notes), instead, asked)


def _value(text: str, style: str) -> str:
    """What a cell means in a style, for people."""
    if is_number_style(style):
        return f"{to_number(text, style):.10g}"
    date = to_date(text, style)
    return "" if date is None else date.strftime("%d %B %Y").lstrip("0")


def frequent_levels(counts: Counter[str], n_rows: int) -> list[str]:
    """Categories that occur often enough for a feature of their own, the commonest first."""
    least = 2 if n_rows < 200 else 5
    ordered = sorted(counts, key=lambda text: (-counts[text], text))
    return [text for text in ordered if counts[text] >= least][:MAX_LEVELS]


def _is_key(cells: Counter[str], n_rows: int) -> bool:
    """Whether most cells are too rare to be categories."""
    return sum(cells[text] for text in frequent_levels(cells, n_rows)) < 0.5 * sum(cells.values())
