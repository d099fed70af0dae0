"""The column to predict: a number, or labels, as numbers where they are numbers, else as text."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.tables.column_format import Format, given_format, number_format, odd_words, whole_codes
from pbdn.tables.decide_columns import option
from pbdn.tables.read_cell import is_missing, to_number
from pbdn.tables.table import numbers, words

MAX_CLASSES = 100


def labels_of(values: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[np.bool_], list[str]]:
    """Labels of the rows that have one, the mask of those rows, and notes.

    Raises
    ------
    InvalidInputError
        Fewer than two classes, or so many that the column is not a class.
    """
    present, known, notes = _present(values, name)
    if present.dtype.kind == "M":
        raise InvalidInputError(f"The target {name!r} holds dates; a classifier needs classes.")
    decimal = _mark(present)
    labels: NDArray[Any]
    if decimal is not None and present.size:
        number, _ = numbers(present, decimal)
        whole = bool(np.all(number == np.round(number))) and bool(np.all(np.abs(number) < 2**53))
        labels = number.astype(np.int64) if whole else number
    else:
        labels = np.array(words(present), dtype=str)
    classes, counts = np.unique(labels, return_counts=True)
    alike = _alike([str(label) for label in classes.tolist()])
    if alike:
        pairs = "; ".join(" and ".join(map(repr, group)) for group in alike[:3])
        notes.append(f"Classes of {name!r} that differ in capitals or spaces only are different classes: {pairs}.")
    if classes.size < 2:
        have = f"only the value {classes[0].item()!r}" if classes.size else "no value"
        raise InvalidInputError(
            f"The target {name!r} has {have} in {int(known.sum())} row(s); at least two classes are needed."
        )
    if _are_many(classes.size, labels.size):
        raise InvalidInputError(
            f"The target {name!r} has {classes.size} different values in {labels.size} rows, so it is a "
            "quantity or a key, not a class; predict it as a number, cut it into classes, or give another target."
        )
    if counts.min() < 2:
        rare = classes[counts < 2][0].item()
        instead = " Or predict it as a number: --response number." if labels.dtype.kind in "iuf" else ""
        raise InvalidInputError(
            f"The class {rare!r} of the target {name!r} occurs once; each class needs at least two rows.{instead}"
        )
    return labels, known, notes


def labels_among(
    values: NDArray[Any], classes: NDArray[Any], name: str
) -> tuple[NDArray[Any], NDArray[np.bool_], list[str]]:
    """Labels of the rows that have one of these classes, the mask of those rows, and notes on the others.

    Numbers are compared as numbers, texts as texts; capitals count only where classes differ in nothing else.
    """
    present, known, notes = _present(values, name, "not measured")
    found: list[Any]
    lookup: dict[Any, Any]
    if classes.dtype.kind in "iuf":
        found = numbers(present, _mark(present) or ".")[0].tolist()
        lookup = {float(label): label for label in classes.tolist()}
    else:
        lookup = {str(label): label for label in classes.tolist()}
        folded = Counter(text.casefold() for text in lookup)
        lookup |= {text.casefold(): label for text, label in lookup.items() if folded[text.casefold()] == 1}
        found = [text if text in lookup else str(text).casefold() for text in words(present)]
    new = [i for i, label in enumerate(found) if label not in lookup]
    if new:
        rows = "1 row has" if len(new) == 1 else f"{len(new)} rows have"
        notes.append(f"{rows} a {name!r} that no training row had, such as {str(present[new[0]])!r}; not measured.")
        known[np.flatnonzero(known)[new]] = False
    labels = np.array([lookup[label] for label in found if label in lookup], dtype=classes.dtype)
    return labels, known, notes


def is_quantity(values: NDArray[Any], name: str = "", style: str = "", separator: str | None = None) -> bool:
    """Whether a target is numbers, so many different ones that they are no classes."""
    present = values[[not is_missing(value) for value in values]]
    form = _quantity_format(present, name, style, separator)
    return form is not None and _are_many(np.unique(numbers(present, form.style)[0]).size, present.size)


def number_style(values: NDArray[Any], separator: str | None = None) -> str:
    """How the numbers of a target are written (`pbdn.tables.read_cell`), in a file with this separator; empty if it is none."""
    form = _quantity_format(values[[not is_missing(value) for value in values]], separator=separator)
    return "" if form is None else form.style


def numbers_of(
    values: NDArray[Any], name: str, style: str = "", separator: str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[str]]:
    """Numbers of the rows that have one, the mask of those rows, and notes; money and percent are numbers too.

    They are written in this style or, if it is empty, in the one in which most are numbers.

    Raises
    ------
    InvalidInputError
        There are none, most cells are something else, or one is infinite.
    """
    present, known, notes = _present(values, name)
    form = _quantity_format(present, name, style, separator)
    if present.dtype.kind == "M":
        raise InvalidInputError(f"The target {name!r} holds dates; give a number, such as the days from a first date.")
    if form is None:
        raise InvalidInputError(f"The target {name!r} is not a column of numbers; predict it as a class.")
    found, odd = numbers(present, form.style)
    infinite = [i for i in odd if str(present[i]).strip().lower().lstrip("+-") in ("inf", "infinity")]
    if infinite:
        raise InvalidInputError(f"The target {name!r} has an infinite number; mend or drop its row.")
    if odd:
        left_out = "1 row" if len(odd) == 1 else f"{len(odd)} rows"
        notes.append(f"{left_out} whose {name!r} is no number left out: {odd_words(form.odd)}.")
        known[np.flatnonzero(known)[odd]] = False
        found = np.delete(found, odd)
    if form.rival:
        read, other = (to_number(form.unclear, style) for style in (form.style, form.rival))
        instead = option("format", name, f"={form.rival}")
        notes.append(f"{form.unclear!r} of {name!r} is read as {read:g}; it could be {other:g} ({instead}).")
    return found, known, notes


def _quantity_format(
    present: NDArray[Any], name: str = "", style: str = "", separator: str | None = None
) -> Format | None:
    """How the numbers of a target are written; None if it is no column of numbers."""
    if present.dtype.kind == "M" or not present.size:
        return None
    if present.dtype.kind in "fiub":
        return Format(".", present.size, {})
    cells = Counter(str(value) for value in present)
    if style:
        return given_format(cells, style, name)[1]
    form = None if whole_codes(cells) else number_format(cells, separator)
    return form if form is not None and form.fits else None


def _present(
    values: NDArray[Any], name: str, fate: str = "left out"
) -> tuple[NDArray[Any], NDArray[np.bool_], list[str]]:
    """Cells that are not missing, the mask of those, and what became of the others."""
    known = np.array([not is_missing(value) for value in values])
    notes = [] if known.all() else [f"{int((~known).sum())} row(s) without a value of {name!r} were {fate}."]
    return values[known], known, notes


def _are_many(n_values: int, n_rows: int) -> bool:
    return n_values > MAX_CLASSES or (n_values > 20 and n_values > 0.3 * n_rows)


def _mark(present: NDArray[Any]) -> str | None:
    """The decimal mark with which all values are numbers."""
    return "." if present.dtype.kind == "f" else _decimal_of(Counter(str(value) for value in present))


def _decimal_of(cells: Counter[str]) -> str | None:
    """The decimal mark with which every label is a number; None if there is none, or if zeros before digits say code."""
    if whole_codes(cells):
        return None
    return next((mark for mark in (".", ",") if all(to_number(text, mark) is not None for text in cells)), None)


def _alike(classes: list[str]) -> list[list[str]]:
    """Classes that are the same word but for capitals and spaces."""
    groups: dict[str, list[str]] = {}
    for label in classes:
        groups.setdefault("".join(label.split()).casefold(), []).append(label)
    return [group for group in groups.values() if len(group) > 1]
