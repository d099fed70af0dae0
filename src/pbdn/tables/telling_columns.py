"""Columns whose values tell of the target one by one: names and other categories that are many, and numbers that are codes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.numerics.arrays import IntArray, spread_rows
from pbdn.tables.category_means import (
    MOST_CATEGORIES,
    Cells,
    Targets,
    category_codes,
    means,
    tell_more,
)
from pbdn.tables.column_to_numbers import ColumnPlan, how_missing
from pbdn.tables.decide_columns import Decision, option
from pbdn.tables.table import Table, numbers, words

MOST_JUDGED = 50_000  # rows by which a column is judged
CLEARLY = 3.0  # standard errors by which categories must make rows that were not counted likelier
VERY_CLEARLY = 5.0  # the same for numbers, which mostly are quantities
NUMBERS_TELL = 0.05  # share of what is to be told that numbers must tell one by one
NEIGHBOURS = (3, 9, 27)  # different numbers in a row that are alike, where size is what counts
N_BINS = 32  # of a quantity; numbers of no more different values are looked at one by one anyway
MOST_DIFFERENT = 2.0 / 3.0  # numbers for each row of a code
LARGEST_CODE = 2.0**53  # up to which whole numbers are exact


def with_what_they_tell(
    plans: list[ColumnPlan], table: Table, decisions: dict[str, Decision], find_targets: Callable[[], Targets | None]
) -> list[ColumnPlan]:
    """The same plans; columns whose values tell clearly more one by one have what these tell as features."""
    some = spread_rows(table.n_rows, MOST_JUDGED)
    known = [_known_without(plan, table.columns[plan.name][some], decisions[plan.name]) for plan in plans]
    rows = find_targets() if any(known) else None
    if rows is None:
        return plans
    judged = rows.take(some)
    return [
        _telling(plan, table.columns[plan.name], some, one, rows, judged) if one else plan
        for plan, one in zip(plans, known, strict=True)
    ]


def telling_codes(plan: ColumnPlan, values: NDArray[Any]) -> IntArray:
    """The place of each cell among the values that tell something."""
    if plan.kind != "number":
        return category_codes(words(values), plan.telling)
    return plan.places(numbers(values, plan.style)[0])


def _known_without(plan: ColumnPlan, values: NDArray[Any], decision: Decision) -> list[IntArray]:
    """What the features say already: groups of rows, one way or several; none where values do not repeat, or say all of it."""
    if plan.kind == "number":
        return [] if decision.asked else _by_size(numbers(values, plan.style)[0])
    if not (decision.is_name or (plan.kind == "category" and plan.others)) or plan.booleans:
        return []
    cells = words(values)
    if not any(count > 1 and value not in plan.levels for value, count in Counter(cells).items() if value is not None):
        return []
    known = category_codes(cells, plan.levels)
    known[[cell is not None and code < 0 for cell, code in zip(cells, known.tolist(), strict=True)]] = len(plan.levels)
    return [known]


def _by_size(number: NDArray[np.float64]) -> list[IntArray]:
    """Numbers of about the same size together, in several ways; none where they cannot be codes."""
    there = np.isfinite(number)
    present = number[there]
    if np.any(present != np.round(present)) or np.abs(present).max(initial=0.0) > LARGEST_CODE:
        return []
    different, place = np.unique(number, return_inverse=True)  # what is missing is the last
    if not N_BINS < np.isfinite(different).sum() <= MOST_DIFFERENT * present.size:
        return []
    edges = np.unique(np.quantile(present, np.linspace(0.0, 1.0, N_BINS + 1)[1:-1]))
    groups = [place // n for n in NEIGHBOURS] + [np.searchsorted(edges, number, side="right")]
    return [np.where(there, group, -1) for group in groups]


def _different(plan: ColumnPlan, values: NDArray[Any]) -> tuple[list[str], IntArray]:
    """The different values of a column in order, as texts, and the place of each cell among them; -1 where it is missing."""
    if plan.kind == "number":
        number = numbers(values, plan.style)[0]
        there = np.isfinite(number)
        found, place = np.unique(number[there], return_inverse=True)
        codes = np.full(number.size, -1)
        codes[there] = place
        return [f"{value:.0f}" for value in found.tolist()], codes
    cells = words(values)
    texts = sorted({cell for cell in cells if cell is not None})
    return texts, category_codes(cells, texts)


def _telling(
    plan: ColumnPlan, values: NDArray[Any], some: IntArray, known: list[IntArray], rows: Targets, judged: Targets
) -> ColumnPlan:
    """The plan with what its commonest values tell, if that is clearly more about rows that were not counted."""
    is_code = plan.kind == "number"
    cells, codes = _different(plan, values[some])
    enough = (VERY_CLEARLY, NUMBERS_TELL) if is_code else (CLEARLY, 0.0)
    if not tell_more(codes, len(cells), known, judged, *enough):
        return plan
    strength = Cells.of(codes, judged, len(cells)).best_strength()
    cells, codes = _different(plan, values)
    counts = np.bincount(codes[codes >= 0])
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
    place = np.full(counts.size + 1, -1)
    place[kept] = np.arange(kept.size)
    codes = place[codes]  # that of a missing cell is the last
    found, tells = means(codes, rows, kept.size, strength), rows.names[-rows.n_kept :]
    told = tuple(tuple(float(f"{value:.6g}") for value in row[-rows.n_kept :]) for row in found.tolist())
    new = replace(plan, tells=tells, telling=tuple(cells[j] for j in kept.tolist()), told=told)
    what = f"the {tells[0] if len(tells) == 1 else 'share of every class'} among the rows of each"
    drop = option("drop", plan.name)
    if plan.kind == "category":
        return replace(new, words=f"{plan.words}, and {what}")
    if is_code:
        as_number = option("numeric", plan.name)
        note = (
            f"{plan.name}: {counts.size} different numbers tell more of the target one by one than by their size, as codes do, so "
            f"{what} is used too. A new number tells nothing of that: if new rows will have others, leave the column out "
            f"({drop}), or use the size alone ({as_number})."
        )
        return replace(new, words=f"{plan.words}, and {what}", notes=(*plan.notes, note), instead=as_number)
    note = (
        f"{plan.name}: {counts.size} names, which tell of the target where they repeat, so {what} is used. A new name tells "
        f"nothing: leave the column out if new rows will have other names ({drop})."
    )
    indicator, more = how_missing(len(values) - int(counts.sum()), len(values), "what all rows tell")
    text = f"{counts.size} names: {what}{more}"
    return replace(new, kind="category", indicator=indicator, words=text, notes=(note,), instead=drop)
