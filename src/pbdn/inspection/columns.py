"""Which features belong to one column of the user's table, and how their values are written."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.inspection.access import feature_names
from pbdn.numerics.arrays import FloatArray

MISSING = "missing"


@dataclass(frozen=True)
class ColumnGroup:
    """A column as the network sees it: one feature or several.

    Attributes
    ----------
    name : str
        Of the column.
    kind : "number", "category" or "date"
    features : tuple of int
        The features that the column gives.
    parts : tuple of str
        What each of them is: "value", "days", "month", "weekday", "hour", a category, "missing".
    choices : tuple of (str, tuple of float)
        Values that can be named, each with what the features are then: the categories, "missing".
    """

    name: str
    kind: str
    features: tuple[int, ...]
    parts: tuple[str, ...] = ("value",)
    choices: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def moving(self) -> int | None:
        """Place, among the group's features, of the number or date that moves; None for categories."""
        return None if self.kind == "category" else 0

    def text(self, value: float, place: int = 0) -> str:
        """A value of one of the features, for people; days are written as dates."""
        return date_text(value) if self.parts[place] == "days" else number_text(value)

    def row_text(self, row: FloatArray) -> str:
        """The value of the column in a row of features, for people."""
        own = row[list(self.features)]
        if self.moving is not None:
            gone = self.parts[-1] == MISSING and own[-1] == 1.0
            return MISSING if gone else self.text(float(own[0]))
        for label, setting in self.choices:
            if np.array_equal(own, setting):
                return label
        return "(other)"


def number_text(value: float) -> str:
    """Four digits at most where that is enough, never 1.78e+04."""
    if not np.isfinite(value):
        return str(value)
    if value == round(value) and abs(value) < 1e15:
        return f"{value:.0f}"
    size = abs(value)
    if 1e-4 <= size < 1e6:
        digits = max(0, 3 - int(np.floor(np.log10(size))))
        text = f"{value:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.3g}"


def percent_text(share: float, digits: int = 0) -> str:
    """A share as per cent; what binary fractions cannot hold does not decide how it is rounded."""
    return f"{round(100.0 * share, 9):.{digits}f} %"


def with_article(noun: str) -> str:
    """A number, an amount."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def date_text(days: float) -> str:
    """Days since 1970 as a date."""
    try:
        return str(np.datetime64(round(days), "D"))
    except (OverflowError, ValueError):
        return number_text(days)


def date_features(estimator: Any) -> dict[int, str]:
    """The features that are dates, in days since 1970, and the names of their columns."""
    return {
        feature: group.name
        for group in column_groups(estimator)
        for feature, part in zip(group.features, group.parts, strict=True)
        if part == "days"
    }


def column_groups(estimator: Any) -> list[ColumnGroup]:
    """The columns of a fitted estimator: those that its preparation names, or each feature for itself.

    An estimator that prepares columns keeps them as ``column_groups_``.
    """
    known = getattr(estimator, "column_groups_", None)
    if known is not None:
        return list(known)
    return [ColumnGroup(name, "number", (j,)) for j, name in enumerate(feature_names(estimator))]


def column_group(estimator: Any, column: Any) -> ColumnGroup:
    """A column by its name, or by its place in X; refuses one that is not there, or that the preparation left out."""
    groups = {group.name: group for group in column_groups(estimator)}
    preparation = getattr(estimator, "preparation_", None)
    names = list(groups) if preparation is None else [plan.name for plan in preparation.preparation_.columns]
    is_place = isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names)
    name = names[column] if is_place else column
    if isinstance(name, str) and name in groups:
        return groups[name]
    found = ", ".join(f"{names.index(one)} {one!r}" for one in list(groups)[:10])
    more = f" and {len(groups) - 10} more" if len(groups) > 10 else ""
    why = "was left out of the model" if isinstance(name, str) and name in names else "is not in X"
    raise InvalidInputError(f"The column {column!r} {why}; use the place or the name of one of these: {found}{more}.")
