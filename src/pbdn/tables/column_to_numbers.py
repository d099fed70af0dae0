"""One column to numbers: what was decided about it, the features it gives, and their names."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray
from pbdn.tables.column_format import example
from pbdn.tables.read_cell import numbers, seconds, words

DAY = 86400.0
DATE_PARTS = {
    "days": "days since 1970",
    "month": "month (1 to 12)",
    "weekday": "weekday (Monday is 0)",
    "hour": "hour (0 to 23)",
}


@dataclass(frozen=True)
class ColumnPlan:
    """What becomes of one column.

    Attributes
    ----------
    name : str
    kind : "number", "category", "date" or "dropped"
    fill : float
        What stands in for missing numbers (dates: days).
    indicator : bool
        Whether a feature says that the value is missing.
    levels : tuple of str
        Categories with a feature of their own; two levels without others share one feature.
    others : bool
        Whether a feature stands for all other values.
    style : str
        How numbers or dates are written; see `pbdn.tables.read_cell`.
    parts : tuple of str
        Of dates: "days" since 1970, "month", "weekday", "hour".
    words : str
        The decision, for people.
    odd : tuple of str
        Cells of the training table that are no numbers (dates) and count as missing.
    notes : tuple of str
        What a reader should know: odd cells, doubts about the format, leaks, a predictor that is left out.
    instead : str
        The option that changes the decision.
    """

    name: str
    kind: str
    fill: float = 0.0
    indicator: bool = False
    levels: tuple[str, ...] = ()
    others: bool = False
    style: str = "."
    parts: tuple[str, ...] = ()
    words: str = ""
    odd: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    instead: str = ""

    @property
    def single(self) -> bool:
        """Two levels and nothing else: one feature says which."""
        return len(self.levels) == 2 and not self.others

    @property
    def expected(self) -> str:
        """How a number or a date of the column looks; empty for categories."""
        return example(self.style) if self.kind in ("number", "date") else ""

    def feature_names(self) -> list[str]:
        """Names of the features that the column gives."""
        name = one_line(self.name)
        missing = [f"{name} is missing"] if self.indicator else []
        if self.kind == "number":
            return [name, *missing]
        if self.kind == "date":
            return [f"{name} ({part})" for part in self.parts] + missing
        if self.kind == "category":
            shown = self.levels[1:] if self.single else self.levels
            rest = [f"{name} = (other)"] if self.others else []
            return [f"{name} = {one_line(level)}" for level in shown] + rest + missing
        return []

    def parts_and_choices(self) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[float, ...]], ...]]:
        """What each feature is, and the values that can be named with what the features are then (`ColumnGroup`)."""
        missing = ("missing",) if self.indicator else ()
        if self.kind != "category":
            own = {"number": ("value",), "date": self.parts}.get(self.kind, ())
            return (own + missing if own else ()), ()
        shown = (self.levels[1:] if self.single else self.levels) + (("(other)",) if self.others else ())
        parts = shown + missing
        first = [(self.levels[0], (0.0,) * len(parts))] if self.single else []
        choices = first + [(part, tuple(float(part == other) for other in parts)) for part in parts]
        if self.single and self.indicator:
            choices[-1] = ("missing", (0.5, 1.0))
        return parts, tuple(choices)

    def recipes(self) -> list[str]:
        """How each feature of `feature_names` is made from the raw value, in words."""
        missing = [f"1 if {self.name!r} is missing, else 0"] if self.indicator else []
        if self.kind == "number":
            how = "" if self.style == "." else f" (written like {self.expected!r})"
            if self.style == "time":
                return [f"hours of the time {self.name!r}{how}; {self.fill!r} where missing", *missing]
            return [f"the number {self.name!r}{how}; {self.fill!r} where missing", *missing]
        if self.kind == "date":
            fills = [float(date_part(np.array([self.fill * DAY]), part)[0]) for part in self.parts]
            made = [f"{DATE_PARTS[part]} of the date {self.name!r}" for part in self.parts]
            return [f"{text}; {fill!r} where missing" for text, fill in zip(made, fills, strict=True)] + missing
        if self.kind != "category":
            return []
        if self.single:
            return [f"0 if {self.name!r} is {self.levels[0]!r}, 1 if {self.levels[1]!r}, 0.5 otherwise", *missing]
        rest = [f"1 if {self.name!r} is there and none of the categories before, else 0"] if self.others else []
        return [f"1 if {self.name!r} is {level!r}, else 0" for level in self.levels] + rest + missing

    def features(self, values: NDArray[Any], notes: list[str]) -> list[FloatArray]:
        """The features of some rows, each an array; surprises are noted."""
        if self.kind == "category":
            return self._category(words(values), notes)
        if self.kind == "date":
            stamps, bad = seconds(values, self.style)
            odd = self._note_odd(values, bad, stamps, "dates", notes)
            found = np.isnan(stamps)
            filled = np.where(found, self.fill * DAY, stamps)
            out = [date_part(filled, part) for part in self.parts]
        else:
            number, bad = numbers(values, self.style)
            odd = self._note_odd(values, bad, number, "numbers", notes)
            found = np.isnan(number)
            out = [np.where(found, self.fill, number)]
        if self.indicator:
            out.append(found.astype(np.float64))
        elif found.sum() > odd:
            notes.append(
                f"{self.name}: {int(found.sum()) - odd} missing, almost none in training; the median stands in."
            )
        return out

    def _category(self, values: list[str | None], notes: list[str]) -> list[FloatArray]:
        known = set(self.levels)
        missing = np.array([value is None for value in values])
        strange = np.array([value is not None and value not in known for value in values])
        if strange.any() and not self.others:
            shown = sorted({str(value) for value, new in zip(values, strange, strict=True) if new})[:3]
            notes.append(f"{self.name}: {int(strange.sum())} value(s) not seen in training, e.g. {shown[0]!r}.")
        if self.single:
            code = {self.levels[0]: 0.0, self.levels[1]: 1.0}
            out = [np.array([code.get(value or "", 0.5) for value in values])]
        else:
            out = [np.array([float(value == level) for value in values]) for level in self.levels]
        if self.others:
            out.append(strange.astype(np.float64))
        if self.indicator:
            out.append(missing.astype(np.float64))
        elif missing.any():
            notes.append(f"{self.name}: {int(missing.sum())} missing, almost none in training.")
        return out

    def _note_odd(self, values: NDArray[Any], bad: list[int], read: FloatArray, what: str, notes: list[str]) -> int:
        """Note cells that are not written as in training, and count them; refuse a column in which all are so."""
        known = set(self.odd)
        new = [i for i in bad if str(values[i]) not in known]
        if not new:
            return len(bad)
        form = f"{what} written like {self.expected!r}"
        shown = f"row {new[0] + 1} has {str(values[new[0]])[:40]!r}"
        if np.isnan(read).all():
            raise InvalidInputError(
                f"Column {self.name!r} held {form} in training, but no cell is one here ({shown}); write them as in "
                "training, or leave them empty."
            )
        are = "1 cell counts" if len(new) == 1 else f"{len(new)} cells count"
        notes.append(f"{self.name}: {are} as missing, because they are no {form}: {shown}.")
        return len(bad)


def one_line(text: str) -> str:
    """Text without line breaks, for names of features."""
    return " ".join(text.splitlines()) if "\n" in text or "\r" in text else text


def date_part(stamps: FloatArray, part: str) -> FloatArray:
    """One number per date, from seconds since 1970."""
    if part == "days":
        return stamps / DAY
    if part == "weekday":  # 1970-01-01 was a Thursday; Monday is 0
        return (np.floor(stamps / DAY) + 3.0) % 7.0
    if part == "hour":
        return np.floor((stamps % DAY) / 3600.0)
    months = stamps.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    return (months % 12 + 1).astype(np.float64)
