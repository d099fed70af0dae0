"""What becomes of each column: number, category, date or left out, decided once on the training rows and told in words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.tables.cells import date_style_of, decimal_of, is_missing, numbers, seconds, words
from pbdn.tables.column_to_numbers import DAY, ColumnPlan, date_part
from pbdn.tables.preparation import Preparation
from pbdn.tables.table import Table, column

MAX_LEVELS = 50  # categories of one column with a feature of their own


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
    if span >= 14.0 and np.unique(date_part(present, "weekday")).size > 1:
        parts.append("weekday")
    if np.unique(date_part(present, "hour")).size > 1:
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
