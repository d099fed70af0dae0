"""Columns to features: decided once on the training rows, told in words, stored as plain JSON."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.tables.read import Table, column
from pbdn.tables.types import date_style_of, decimal_of, is_missing, numbers, seconds, words

FloatArray = NDArray[np.float64]

MAX_LEVELS = 50
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
        Decimal mark of numbers, style of dates.
    parts : tuple of str
        Of dates: "days" since 1970, "month", "weekday", "hour".
    words : str
        The decision, for people.
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

    @property
    def single(self) -> bool:
        """Two levels and nothing else: one feature says which."""
        return len(self.levels) == 2 and not self.others

    def feature_names(self) -> list[str]:
        """Names of the features that the column gives."""
        missing = [f"{self.name} is missing"] if self.indicator else []
        if self.kind == "number":
            return [self.name, *missing]
        if self.kind == "date":
            return [f"{self.name} ({part})" for part in self.parts] + missing
        if self.kind == "category":
            shown = self.levels[1:] if self.single else self.levels
            rest = [f"{self.name} = (other)"] if self.others else []
            return [f"{self.name} = {level}" for level in shown] + rest + missing
        return []

    def recipes(self) -> list[str]:
        """How each feature of `feature_names` is made from the raw value, in words."""
        missing = [f"1 if {self.name!r} is missing, else 0"] if self.indicator else []
        if self.kind == "number":
            return [f"the number {self.name!r}; {self.fill!r} where missing", *missing]
        if self.kind == "date":
            fills = [float(_date_part(np.array([self.fill * DAY]), part)[0]) for part in self.parts]
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
            self._refuse(values, bad, "dates")
            found = np.isnan(stamps)
            filled = np.where(found, self.fill * DAY, stamps)
            out = [_date_part(filled, part) for part in self.parts]
        else:
            number, bad = numbers(values, self.style)
            self._refuse(values, bad, "numbers")
            found = np.isnan(number)
            out = [np.where(found, self.fill, number)]
        if self.indicator:
            out.append(found.astype(np.float64))
        elif found.any():
            notes.append(f"{self.name}: {int(found.sum())} missing value(s), none in training; the median stands in.")
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
            notes.append(f"{self.name}: {int(missing.sum())} missing value(s), none in training.")
        return out

    def _refuse(self, values: NDArray[Any], bad: list[int], what: str) -> None:
        if bad:
            raise InvalidInputError(
                f"Column {self.name!r} held {what} in training, but row {bad[0] + 1} has "
                f"{str(values[bad[0]])[:40]!r} ({len(bad)} such value(s)); mend them or leave them empty."
            )


@dataclass(frozen=True)
class Preparation:
    """The plans of all columns, in the order of the training table."""

    columns: tuple[ColumnPlan, ...]

    @property
    def feature_names(self) -> list[str]:
        """Names of the prepared features; a name met twice is numbered."""
        names: list[str] = []
        for plan in self.columns:
            for base in plan.feature_names():
                name, number = base, 2
                while name in names:
                    name, number = f"{base} ({number})", number + 1
                names.append(name)
        return names

    @property
    def recipes(self) -> list[str]:
        """How each feature is made, in the order of `feature_names`."""
        return [text for plan in self.columns for text in plan.recipes()]

    @property
    def is_plain(self) -> bool:
        """Whether features are the used columns themselves."""
        return all(p.kind == "dropped" or (p.kind == "number" and not p.indicator) for p in self.columns)

    def apply(self, table: Table) -> tuple[FloatArray, list[str]]:
        """Features of a table (n_rows, n_features) and notes on what was not seen in training."""
        notes: list[str] = []
        parts: list[FloatArray] = []
        for plan in self.columns:
            if plan.kind != "dropped":
                parts.extend(plan.features(column(table, plan.name), notes))
        return np.column_stack(parts), notes

    def to_json(self) -> list[dict[str, Any]]:
        """Plain lists and dicts for a file header."""
        return [asdict(plan) | {"levels": list(plan.levels), "parts": list(plan.parts)} for plan in self.columns]

    @classmethod
    def from_json(cls, stored: Any) -> "Preparation":
        """Inverse of `to_json`, every value checked."""
        try:
            plans = tuple(
                ColumnPlan(**{**one, "levels": tuple(one["levels"]), "parts": tuple(one["parts"])}) for one in stored
            )
            for plan in plans:
                texts = (plan.name, plan.kind, plan.style, plan.words, *plan.levels, *plan.parts)
                if not all(isinstance(text, str) for text in texts) or not np.isfinite(plan.fill):
                    raise TypeError(f"column {plan.name!r}")
                if plan.kind not in ("number", "category", "date", "dropped") or set(plan.parts) - set(DATE_PARTS):
                    raise TypeError(f"kind of column {plan.name!r}")
        except (TypeError, KeyError, ValueError) as error:
            raise FileFormatError(f"The file's column preparation is not usable ({error}); fit again.") from error
        return cls(plans)


def fit_preparation(table: Table, target: str | None = None, drop: tuple[str, ...] = ()) -> Preparation:
    """Decide what becomes of every column but the target.

    Raises
    ------
    InvalidInputError
        No column is left.
    """
    for name in drop:
        column(table, name)
    plans = []
    for name, values in table.columns.items():
        if name != target:
            plan = ColumnPlan(name, "dropped", words="left out as asked") if name in drop else _plan(name, values)
            plans.append(plan)
    if all(plan.kind == "dropped" for plan in plans):
        reasons = "; ".join(f"{plan.name!r}: {plan.words}" for plan in plans[:5])
        raise InvalidInputError(
            "No column is left to learn from" + (f" ({reasons})." if reasons else f": {target!r} is the only one.")
        )
    return Preparation(tuple(plans))


def _plan(name: str, values: NDArray[Any]) -> ColumnPlan:
    """The plan of one column."""
    present = [value for value in values if not is_missing(value)]
    n_missing = len(values) - len(present)
    if not present:
        return ColumnPlan(name, "dropped", words="left out: always missing")
    if values.dtype.kind == "M":
        return _plan_date(name, values, n_missing, "iso")
    if values.dtype.kind == "f":
        return _plan_number(name, values, n_missing, ".")
    decimal = decimal_of(present)
    if decimal is not None:
        return _plan_number(name, values, n_missing, decimal)
    style = date_style_of(present)
    if style is not None:
        return _plan_date(name, values, n_missing, style)
    return _plan_category(name, values, n_missing)


def _missing_words(n_missing: int, stand_in: str) -> str:
    return f"; {n_missing} missing: {stand_in} and a feature that says so" if n_missing else ""


def _plan_number(name: str, values: NDArray[Any], n_missing: int, decimal: str) -> ColumnPlan:
    number, _ = numbers(values, decimal)
    present = number[~np.isnan(number)]
    if present.size == 0:
        return ColumnPlan(name, "dropped", words="left out: always missing")
    if np.ptp(present) == 0.0 and n_missing == 0:
        return ColumnPlan(name, "dropped", words=f"left out: always {present[0]:g}")
    whole = bool(np.all(present == np.round(present)))
    distinct = np.unique(present).size == present.size
    label = name.lower().replace(" ", "_")
    named_id = label in ("id", "index", "row", "row_id", "rowid", "key", "uuid") or label.endswith("_id")
    in_step = bool(np.all(np.diff(present) == 1.0))
    if n_missing == 0 and whole and distinct and present.size > 10 and (named_id or in_step):
        return ColumnPlan(name, "dropped", words="left out: a different number in each row, so a row number or key")
    fill = float(np.median(present))
    comma = ", decimal comma" if decimal == "," else ""
    text = f"number{comma}" + _missing_words(n_missing, f"median {fill:g}")
    return ColumnPlan(name, "number", fill=fill, indicator=n_missing > 0, style=decimal, words=text)


def _plan_date(name: str, values: NDArray[Any], n_missing: int, style: str) -> ColumnPlan:
    stamps, _ = seconds(values, style)
    present = stamps[~np.isnan(stamps)]
    span = float(np.ptp(present)) / DAY
    if span == 0.0 and n_missing == 0:
        return ColumnPlan(name, "dropped", words="left out: always the same date")
    parts = ["days"]
    if span >= 300.0:
        parts.append("month")
    if span >= 14.0 and np.unique(_date_part(present, "weekday")).size > 1:
        parts.append("weekday")
    if np.unique(_date_part(present, "hour")).size > 1:
        parts.append("hour")
    fill = float(np.median(present)) / DAY
    shown = "days since 1970" + "".join(f", {part}" for part in parts[1:])
    order = {"%m/%d/%Y": " (month first)", "%d/%m/%Y": " (day first)"}.get(style, "")
    text = f"date{order} as {shown}" + _missing_words(n_missing, "the median date")
    return ColumnPlan(name, "date", fill=fill, indicator=n_missing > 0, style=style, parts=tuple(parts), words=text)


def _plan_category(name: str, values: NDArray[Any], n_missing: int) -> ColumnPlan:
    texts = [value for value in words(values) if value is not None]
    levels, counts = np.unique(np.array(texts, dtype=object), return_counts=True)
    if len(levels) == 1 and n_missing == 0:
        return ColumnPlan(name, "dropped", words=f"left out: always {levels[0]!r}")
    least = 2 if len(values) < 200 else 5
    order = sorted(range(len(levels)), key=lambda j: (-counts[j], levels[j]))
    kept = [j for j in order if counts[j] >= least][:MAX_LEVELS]
    covered = int(sum(counts[j] for j in kept))
    if covered < 0.5 * len(texts):
        return ColumnPlan(name, "dropped", words=f"left out: {len(levels)} different texts, so a name or key")
    chosen = tuple(sorted(str(levels[j]) for j in kept))
    others = len(kept) < len(levels)
    text = f"category of {len(levels)} values, each a feature"
    if len(chosen) == 2 and not others:
        text = f"category: {chosen[0]!r} or {chosen[1]!r}, one feature"
    if others:
        text = f"category of {len(levels)} values: {len(chosen)} frequent ones and 'other'"
    if n_missing:
        text += f"; {n_missing} missing: a feature that says so"
    return ColumnPlan(name, "category", indicator=n_missing > 0, levels=chosen, others=others, words=text)


def _date_part(stamps: FloatArray, part: str) -> FloatArray:
    """One number per date, from seconds since 1970."""
    if part == "days":
        return stamps / DAY
    if part == "weekday":  # 1970-01-01 was a Thursday; Monday is 0
        return (np.floor(stamps / DAY) + 3.0) % 7.0
    if part == "hour":
        return np.floor((stamps % DAY) / 3600.0)
    months = stamps.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    return (months % 12 + 1).astype(np.float64)
