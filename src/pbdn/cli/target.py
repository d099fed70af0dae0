"""Columns that are no features: what is to be predicted and how it is read, and how much rows count."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray
from pbdn.tables import Table, column, is_quantity, labels_of, numbers_of
from pbdn.tables.read_cell import to_number
from pbdn.tables.table import numbers
from pbdn.tables.target_to_labels import number_style

BALANCED = "balanced"
SEEN, NOT_SEEN = ("1", "true", "yes", "y", "t"), ("0", "false", "no", "n", "f")
MANY_ZEROS = 0.05  # of the rows: numbers that are positive else are amounts

Labels = tuple[NDArray[Any], NDArray[np.bool_], list[str]]


@dataclass(frozen=True)
class Target:
    """The column to predict.

    Attributes
    ----------
    name : str
    kind : {"class", "number", "count", "amount", "grade", "time"}
    event : str or None
        Of times: the column that says whether the event was seen, or of which cause it was.
    grades : tuple of str
        Of grades: all of them from the lowest to the highest; empty: in the order of the sorted labels.
    entry : str or None
        Of times: the column that says when a row entered the study.
    style : str
        Of numbers and times: how they are written; empty: as most are.
    """

    name: str
    kind: str
    event: str | None = None
    grades: tuple[str, ...] = ()
    entry: str | None = None
    style: str = ""

    @property
    def columns(self) -> list[str]:
        """Columns that say what is to be predicted, and so are no features."""
        return [name for name in (self.name, self.event, self.entry) if name is not None]

    @property
    def has_classes(self) -> bool:
        """Whether labels are predicted, not numbers."""
        return self.kind in ("class", "grade")

    def read(self, table: Table) -> Labels:
        """The targets of the rows that have one, the mask of those rows, and notes."""
        values = column(table, self.name, "target column")
        if self.has_classes:
            labels, known, notes = labels_of(values, self.name)
            unknown = sorted({str(label) for label in labels.tolist()} - set(self.grades)) if self.grades else []
            if unknown:
                raise InvalidInputError(
                    f"--grades {','.join(self.grades)}: the target has {unknown[0]!r}; name it too."
                )
            return (labels.astype(str) if self.grades else labels), known, notes
        found, known, notes = numbers_of(values, self.name, self.style, table.separator)
        if self.kind == "count":
            wrong = found[(found < 0.0) | (found != np.round(found))]
            if wrong.size:
                raise InvalidInputError(
                    f"The target {self.name!r} has {wrong[0]:g}, which is no count; counts are 0, 1, 2, … "
                    "(--response number takes all numbers)."
                )
        if self.kind == "amount" and np.any(found < 0.0):
            raise InvalidInputError(
                f"The target {self.name!r} has {found[found < 0.0][0]:g}, which is no amount; amounts are 0 or more "
                "(--response number takes all numbers)."
            )
        if self.kind != "time":
            return found, known, notes
        seen = np.ones(table.n_rows, dtype=bool) if self.event is None else _events(table, self.event)
        entered = [] if self.entry is None else [("entry", float)]
        pairs = np.zeros(found.size, dtype=[("event", seen.dtype), ("time", float), *entered])
        pairs["event"], pairs["time"] = seen[known], found
        early = np.flatnonzero(found < 0.0)
        if early.size:
            row = int(np.flatnonzero(known)[early[0]]) + 1
            raise InvalidInputError(
                f"The target {self.name!r} has the time {found[early[0]]:g} in row {row}; times must not be negative. Shift "
                "them, or drop the row."
            )
        if self.entry is not None:
            pairs["entry"] = _entries(table, self.entry)[known]
            late = np.flatnonzero((pairs["entry"] > 0.0) & ~(pairs["entry"] < found))
            if late.size:
                row = int(np.flatnonzero(known)[late[0]]) + 1
                raise InvalidInputError(
                    f"--entry {self.entry}: row {row} has {pairs['entry'][late[0]]:g}, which is not before its time "
                    f"{found[late[0]]:g}; mend or drop it."
                )
        return pairs, known, notes

    def measured(self, table: Table) -> Labels:
        """`read`, of numbers or times by which a model can be measured; times need an event that comes before another time."""
        labels, known, notes = self.read(table)
        if self.kind == "time":
            seen = labels["time"][labels["event"].astype(bool)]
            if not seen.size or seen.min() >= labels["time"].max():
                raise InvalidInputError("no event comes before another time.")
        return labels, known, notes


def _entries(table: Table, name: str) -> FloatArray:
    """When each row entered the study."""
    found, known, _ = numbers_of(column(table, name, "entry column"), name)
    if not known.all():
        raise InvalidInputError(
            f"--entry {name}: row {int(np.argmin(known)) + 1} has no number; give 0 where a row was watched from the start."
        )
    return found


def _events(table: Table, name: str) -> NDArray[Any]:
    """Whether the event was seen in each row, or the number of its cause."""
    cells = column(table, name, "event column")
    texts = [_word(value) for value in cells]
    if all(text.isdecimal() for text in texts) and not set(texts) <= {"0", "1"}:
        return np.array([int(text) for text in texts], dtype=np.int64)
    wrong = [i for i, text in enumerate(texts) if text not in SEEN + NOT_SEEN]
    if wrong:
        raise InvalidInputError(
            f"--event {name}: row {wrong[0] + 1} has {str(cells[wrong[0]])!r}; give 1 or 0, true or false, yes or no: whether "
            "the event was seen. Of several causes give their numbers, 1, 2, …, and 0 where no event was seen."
        )
    return np.array([text in SEEN for text in texts])


def _word(value: Any) -> str:
    text = str(value).strip().lower()
    return text[:-2] if text.endswith(".0") else text


def find_target(
    table: Table,
    name: str,
    response: str,
    event: str | None = None,
    grades: str | None = None,
    entry: str | None = None,
    style: str = "",
) -> tuple[Target, list[str]]:
    """What the target is, and notes that say what was found out and how to say otherwise.

    ``style`` says how numbers are written, if the user does.
    """
    target, notes = _kind_of_target(table, name, response, event, grades, entry, style)
    if not target.has_classes:
        written = style or number_style(column(table, name, "target column"), table.separator)
        target = replace(target, style=written)
    return target, notes


def _kind_of_target(
    table: Table, name: str, response: str, event: str | None, grades: str | None, entry: str | None, style: str
) -> tuple[Target, list[str]]:
    for option, given in (("event", event), ("entry", entry)):
        if given is not None and response not in ("auto", "time"):
            raise InvalidInputError(f"--{option} {given}: it is for times; give --response time, or leave it out.")
        if given is not None and given == name:
            raise InvalidInputError(f"--{option} {given}: it is the target; give another column.")
    if grades is not None and response not in ("auto", "grade"):
        raise InvalidInputError(f"--grades {grades}: it is for grades; give --response grade, or leave it out.")
    if response == "time" or event is not None or entry is not None:
        return Target(name, "time", event, entry=entry), []
    if response == "grade" or grades is not None:
        return _graded(table, name, grades)
    if response != "auto":
        return Target(name, response), []
    values = column(table, name, "target column")
    if is_quantity(values, name, style, table.separator):
        found = numbers_of(values, name, style, table.separator)[0]
        whole, zeros = bool(np.all(found == np.round(found))), float(np.mean(found == 0.0))
        if not whole and found.min() == 0.0 and zeros >= MANY_ZEROS:
            words = f"The target {name!r} is 0 in {zeros:.0%} of the rows and positive in the others, so it is predicted as an amount"
            return Target(name, "amount"), [f"{words} that may be zero; --response number takes it as any number."]
        counts = "; --response count is for counts, amount for amounts" if whole and found.min() >= 0.0 else ""
        words = f"The target {name!r} has {np.unique(found).size} different numbers, so it is predicted as a number"
        return Target(name, "number"), [f"{words} (--response){counts}."]
    labels = labels_of(values, name)[0]
    n_classes = np.unique(labels).size
    if labels.dtype.kind not in "iuf" or n_classes < 3:
        return Target(name, "class"), []
    words = f"The target {name!r} has {n_classes} different numbers, so they are predicted as classes"
    return Target(name, "class"), [f"{words}; --response grade keeps their order, number and count take them as such."]


def _graded(table: Table, name: str, grades: str | None) -> tuple[Target, list[str]]:
    """Grades in the order that is given; else by size or, and this is said, by the alphabet."""
    labels = labels_of(column(table, name, "target column"), name)[0]
    if grades is None:
        if labels.dtype.kind in "iuf":
            return Target(name, "grade"), []
        order = ", ".join(np.unique(labels).tolist())
        return Target(name, "grade"), [
            f"The grades of {name!r} are in the order of the alphabet: {order}. If another one is right, give it with --grades."
        ]
    named = [one.strip() for one in grades.split(",")]
    if labels.dtype.kind in "iuf":  # 1.0 is the grade 1
        as_labels = [to_number(one, ".") for one in named]
        named = [
            one if value is None else str(labels.dtype.type(value)) for one, value in zip(named, as_labels, strict=True)
        ]
    twice = next((one for one in named if named.count(one) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"--grades {grades}: {twice!r} is there twice; name every grade once.")
    return Target(name, "grade", None, tuple(named)), []


@dataclass(frozen=True)
class RowWeights:
    """What ``fit`` is told of weights.

    Attributes
    ----------
    of_rows : array or None
    of_classes : "balanced" or None
        The parameter ``class_weight`` of the estimator.
    measured : array or None
        How much rows count when the model is measured: the weights of rows without those of classes.
    """

    of_rows: NDArray[np.float64] | None = None
    of_classes: str | None = None
    measured: NDArray[np.float64] | None = None

    def take(self, which: NDArray[Any]) -> "RowWeights":
        """Those of some rows."""
        of_rows, measured = (None if one is None else one[which] for one in (self.of_rows, self.measured))
        return RowWeights(of_rows, self.of_classes, measured)


def row_weights(
    table: Table, known: NDArray[np.bool_], labels: NDArray[Any], name: str | None, of_classes: Sequence[str]
) -> RowWeights:
    """Weights of the rows with a label by ``--weight`` and ``--class-weight``; those of single classes become those of rows.

    ``known`` marks the rows of the table that have a label, ``labels`` are theirs.
    """
    weights = None if name is None else _weights_in(column(table, name, "weight column"), known, name)
    if not of_classes or tuple(of_classes) == (BALANCED,):
        return RowWeights(weights, BALANCED if of_classes else None, weights)
    by_class = np.ones(len(labels))
    texts = np.array([str(label) for label in labels.tolist()], dtype=object)
    for text in of_classes:
        label, _, number = text.rpartition("=")
        there = texts == label
        if not there.any():
            classes = ", ".join(dict.fromkeys(sorted(texts)))
            raise InvalidInputError(
                f"--class-weight {text}: give 'balanced' alone, or CLASS=WEIGHT where CLASS is one of {classes}."
            )
        by_class[there] = _positive(number, text)
    return RowWeights(by_class if weights is None else weights * by_class, None, weights)


def _weights_in(values: NDArray[Any], known: NDArray[np.bool_], name: str) -> NDArray[np.float64]:
    """Finite numbers that are not negative, or a sentence."""
    readings = [numbers(values, style) for style in (".", ",")]
    weights = min(readings, key=lambda reading: len(reading[1]))[0]
    wrong = np.flatnonzero(known & ~(weights >= 0.0))
    if wrong.size:
        raise InvalidInputError(
            f"--weight {name}: row {wrong[0] + 1} has {str(values[wrong[0]])!r}; weights are numbers of at least 0, one for "
            "each row."
        )
    return weights[known]


def _positive(number: str, text: str) -> float:
    try:
        weight = float(number)
    except ValueError:
        weight = np.nan
    if not 0.0 < weight < np.inf:
        raise InvalidInputError(f"--class-weight {text}: the weight must be a number above 0.")
    return weight
