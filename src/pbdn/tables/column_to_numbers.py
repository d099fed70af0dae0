"""One column to numbers: what was decided about it, the features it gives, and their names."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.tables.column_format import example
from pbdn.tables.table import numbers, seconds, words

DAY = 86400.0
DATE_PARTS = ("days", "month", "weekday", "hour")  # since 1970; 1 to 12; Monday is 0; 0 to 23
BOOLEANS = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"))
OTHER, MISSING = -1, -2  # codes of cells that are no category of training


@dataclass(frozen=True)
class ColumnPlan:
    """What becomes of one column.

    A missing value gives the features ``missing``. A number gives itself and then ``after`` it, or ``rest``; a date gives its
    ``parts`` and then ``rest``; a category gives those that are ``known`` for it, or ``rest``. The exports write this down in
    other languages.

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
    tells : tuple of str
        What values tell of the target one by one: "share of yes" among the rows of a value, or "mean of the target"
        (`pbdn.tables.telling_columns`).
    telling : tuple of str
        Categories, or whole numbers in rising order, of which it is known.
    told : tuple of tuple of float
        What each of them tells; in the end, what any other value does.
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
    tells: tuple[str, ...] = ()
    telling: tuple[str, ...] = ()
    told: tuple[tuple[float, ...], ...] = ()
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
    def known(self) -> dict[str, tuple[float, ...]]:
        """The features of each category with one of its own, or that tells something of its own."""
        own = np.array([[0.0], [1.0]]) if self.single else np.eye(len(self.levels))
        ends = {level: (*row, *(0.0,) * self.others) for level, row in zip(self.levels, own.tolist(), strict=True)}
        other, gone = self.rest[: len(self.levels) + self.others], (0.0,) * self.indicator
        told = dict(zip(self.telling, self.told, strict=False))
        every = dict.fromkeys([*self.levels, *self.telling])
        return {one: (*ends.get(one, other), *told.get(one, self.told_of_rest), *gone) for one in every}

    @property
    def spelled(self) -> dict[str, tuple[float, ...]]:
        """The features of everything that stands for such a category: of booleans, also "true" and "false" in other letters."""
        more = {
            spelling: self.known[level]
            for word, level in self.booleans.items()
            for spelling in (word, word.capitalize(), word.upper())
        }
        return self.known | {spelling: own for spelling, own in more.items() if spelling not in self.levels}

    @property
    def booleans(self) -> dict[str, str]:
        """What "true" and "false" are called in the column; empty where it does not say yes or no."""
        for pair in BOOLEANS:
            called = [[level for level in self.levels if level.lower() == word] for word in pair]
            if [len(levels) for levels in called] == [1, 1]:
                return {"true": called[0][0], "false": called[1][0]}
        return {}

    @property
    def rest(self) -> tuple[float, ...]:
        """The features of any other category; what follows the features of a number or a date."""
        none = ((0.5,) if self.single else (0.0,) * len(self.levels)) if self.kind == "category" else ()
        return none + (1.0,) * self.others + self.told_of_rest + (0.0,) * self.indicator

    @property
    def told_of_rest(self) -> tuple[float, ...]:
        """What a category tells that is not known, or a missing one."""
        return self.told[-1] if self.told else ()

    @property
    def after(self) -> dict[float, tuple[float, ...]]:
        """What follows a number that tells something of its own."""
        numbers = map(float, self.telling) if self.kind == "number" else ()
        return {number: (*told, *(0.0,) * self.indicator) for number, told in zip(numbers, self.told, strict=False)}

    @property
    def told_at(self) -> int:
        """The place, among the features of the column, of the first that tells."""
        return 1 if self.kind == "number" else len(self.levels) + self.others

    def places(self, number: FloatArray) -> IntArray:
        """The place of each number among those that tell something, -1 for all others."""
        known = np.array([float(text) for text in self.telling])
        place = np.minimum(np.searchsorted(known, number), known.size - 1)
        return np.where(known[place] == number, place, -1)

    @property
    def missing(self) -> tuple[float, ...]:
        """The features of a missing value."""
        if self.kind == "date":
            own = tuple(float(date_part(np.array([self.fill * DAY]), part)[0]) for part in self.parts)
        elif self.kind == "number":
            own = (self.fill, *self.told_of_rest)
        else:
            own = self.rest[: 1 if self.single else len(self.levels)] + (0.0,) * self.others + self.told_of_rest
        return own + (1.0,) * self.indicator

    @property
    def expected(self) -> str:
        """How a number or a date of the column looks; empty for categories."""
        return example(self.style) if self.kind in ("number", "date") else ""

    def feature_names(self) -> list[str]:
        """Names of the features that the column gives."""
        name = one_line(self.name)
        missing = [f"{name} is missing"] if self.indicator else []
        told = [f"{name}: {one_line(tells)}" for tells in self.tells]
        if self.kind == "number":
            return [name, *told, *missing]
        if self.kind == "date":
            return [f"{name} ({part})" for part in self.parts] + missing
        if self.kind == "category":
            shown = self.levels[1:] if self.single else self.levels
            rest = [f"{name} = (other)"] if self.others else []
            return [f"{name} = {one_line(level)}" for level in shown] + rest + told + missing
        return []

    def parts_and_choices(self) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[float, ...]], ...]]:
        """What each feature is, and the values that can be named with what the features are then (`ColumnGroup`)."""
        missing = ("missing",) if self.indicator else ()
        if self.kind == "number" and self.tells:
            named = [
                (text, (number, *told)) for text, (number, told) in zip(self.telling, self.after.items(), strict=True)
            ]
            return ("value", *self.tells, *missing), (*named, *[("missing", self.missing)] * self.indicator)
        if self.kind != "category":
            own = {"number": ("value",), "date": self.parts}.get(self.kind, ())
            return (own + missing if own else ()), ()
        shown = (self.levels[1:] if self.single else self.levels) + (("(other)",) if self.others else ())
        alike: dict[tuple[float, ...], list[str]] = {}
        for level, features in self.known.items():
            alike.setdefault(features, []).append(level)
        choices = [(_one_of(levels), features) for features, levels in alike.items()]
        choices += [("(other)", self.rest)] if self.others or self.tells else []
        choices += [("missing", self.missing)] if self.indicator else []
        return shown + self.tells + missing, tuple(choices)

    def features(self, values: NDArray[Any], seen: "Seen") -> list[FloatArray]:
        """The features of some rows, each an array; surprises are counted in ``seen``."""
        if self.kind == "category":
            return self._category(words(values), seen)
        read = seconds if self.kind == "date" else numbers
        number, bad = read(values, self.style)
        known = set(self.odd)
        new = [i for i in bad if str(values[i]) not in known]
        if new and not seen.n_new:
            seen.first = f"row {seen.n_rows + new[0] + 1} has {str(values[new[0]])[:40]!r}"
        found = np.isnan(number)
        seen.n_rows += len(values)
        seen.n_missing += int(found.sum())
        seen.n_odd += len(bad)
        seen.n_new += len(new)
        if self.kind == "date":
            filled = np.where(found, self.fill * DAY, number)
            out = [date_part(filled, part) for part in self.parts]
        else:
            out = [np.where(found, self.fill, number)]
            out += list(np.array(self.told)[self.places(number)].T) if self.tells else []
        return [*out, found.astype(np.float64)] if self.indicator else out

    def _category(self, values: list[str | None], seen: "Seen") -> list[FloatArray]:
        known = self.spelled
        place = {spelling: j for j, spelling in enumerate(known)}
        codes = np.array([MISSING if value is None else place.get(value, OTHER) for value in values], dtype=np.int64)
        missing, strange = codes == MISSING, codes == OTHER
        if strange.any() and not self.others:
            least = min(str(value) for value, new in zip(values, strange, strict=True) if new)
            seen.first = least if not seen.n_new else min(seen.first, least)
        seen.n_rows += len(values)
        seen.n_missing += int(missing.sum())
        seen.n_new += int(strange.sum())
        book = np.array([*known.values(), self.missing, self.rest])
        return list(book[codes].T)

    def surprises(self, seen: "Seen") -> list[str]:
        """Notes on what was not so in training; refuses a column in which no cell is written as in training."""
        notes = []
        if self.kind == "category":
            if seen.n_new and not self.others:
                notes.append(f"{self.name}: {seen.n_new} value(s) not seen in training, e.g. {seen.first!r}.")
            if seen.n_missing and not self.indicator:
                notes.append(f"{self.name}: {seen.n_missing} missing, almost none in training.")
            return notes
        form = f"{'dates' if self.kind == 'date' else 'numbers'} written like {self.expected!r}"
        if seen.n_new and seen.n_missing == seen.n_rows:
            raise InvalidInputError(
                f"Column {self.name!r} held {form} in training, but no cell is one here ({seen.first}); write them as in "
                "training, or leave them empty."
            )
        if seen.n_new:
            one = f"1 cell is no {form.replace('s ', ' ', 1)}, and counts as missing"
            many = f"{seen.n_new} cells are no {form}, and count as missing"
            notes.append(f"{self.name}: {one if seen.n_new == 1 else many}: {seen.first}.")
        if seen.n_missing > seen.n_odd and not self.indicator:
            notes.append(
                f"{self.name}: {seen.n_missing - seen.n_odd} missing, almost none in training; the median stands in."
            )
        return notes


@dataclass
class Seen:
    """What a column held so far that it did not hold in training.

    Attributes
    ----------
    n_rows, n_missing : int
        Rows, and those without a value.
    n_odd, n_new : int
        Cells that are no numbers (dates), and those of them that were not so in training; of categories, unknown ones.
    first : str
        The first such cell, in words; of categories, the first by the alphabet.
    """

    n_rows: int = 0
    n_missing: int = 0
    n_odd: int = 0
    n_new: int = 0
    first: str = ""


def how_missing(n_missing: int, n_rows: int, stand_in: str) -> tuple[bool, str]:
    """Whether a feature says that a value is missing (not for a few cells of many), and words."""
    said = n_missing >= (1 if n_rows < 200 else 5)
    ways = [stand_in] * bool(stand_in) + ["a feature that says so"] * said
    return said, f"; {n_missing} missing: {' and '.join(ways) or 'no category'}" if n_missing else ""


def _one_of(levels: list[str]) -> str:
    """Categories that the features do not tell apart."""
    return " or ".join(levels) if len(levels) <= 2 else f"{levels[0]} or one of {len(levels) - 1} others like it"


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
