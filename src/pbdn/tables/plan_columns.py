"""How each column becomes features: stand-ins, categories and parts of dates, from the training rows only."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.tables.category_means import targets_of
from pbdn.tables.column_format import style_words
from pbdn.tables.column_to_numbers import DAY, ColumnPlan, date_part, how_missing
from pbdn.tables.decide_columns import (
    MAX_LEVELS,
    ColumnOptions,
    Decision,
    decide_columns,
    frequent_levels,
    option,
)
from pbdn.tables.preparation import Preparation
from pbdn.tables.table import Table, numbers, seconds, words
from pbdn.tables.telling_columns import with_what_they_tell

MOST_ROWS = 5000
LEAST_ROWS_ALONE = 40
NEIGHBOURS = 5  # on each side
ALMOST_PERFECT = 0.03  # of the error of guessing
WELL = 0.6


def fit_preparation(
    table: Table,
    target: str | None = None,
    options: ColumnOptions | None = None,
    *,
    decisions: dict[str, Decision] | None = None,
    labels: NDArray[Any] | None = None,
    numbers: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Preparation:
    """Prepare every column but the target.

    Parameters
    ----------
    table : Table
        The training rows.
    target : str, optional
    options : ColumnOptions, optional
        What the user says about columns.
    decisions : dict, optional
        What the columns are, if that was decided on more rows (`decide_columns`).
    labels : array, optional
        Classes of the rows. With them, columns that predict too well or are left out by mistake are called out, and what many
        categories tell of them becomes a feature.
    numbers : array, optional
        The same where numbers are predicted.
    weights : array, optional
        How much rows count in what categories tell.

    Raises
    ------
    InvalidInputError
        No column is left.
    """
    decisions = decide_columns(table, target, options) if decisions is None else decisions
    plans = [_judged(name, table.columns[name], decision, labels, numbers) for name, decision in decisions.items()]
    if labels is not None or numbers is not None:
        plans = with_what_they_tell(plans, table, decisions, lambda: targets_of(table, labels, numbers, weights))
    if all(plan.kind == "dropped" for plan in plans):
        reasons = "; ".join(f"{plan.name!r}: {plan.words}" for plan in plans[:5])
        raise InvalidInputError(
            "No column is left to learn from" + (f" ({reasons})." if reasons else f": {target!r} is the only one.")
        )
    return Preparation(tuple(plans))


def error_alone(values: FloatArray | Sequence[str | None], labels: NDArray[Any]) -> float:
    """Error of telling a row's class by the rows with the nearest values, as a share of the error of guessing.

    Classes count equally; those of a few rows are left aside. Missing values are a value. 1 is as bad as guessing;
    NaN: too few rows to say.
    """
    rows = np.random.default_rng(0).permutation(len(labels))[:MOST_ROWS]  # equal values come in a random order
    classes, codes, sizes = np.unique(labels[rows], return_inverse=True, return_counts=True)
    rows = rows[sizes[codes] > 2 * NEIGHBOURS]
    if rows.size < LEAST_ROWS_ALONE:
        return float("nan")
    order = rows[np.argsort(_ranked(values, rows), kind="stable")]
    classes, codes = np.unique(labels[order], return_inverse=True)
    if classes.size < 2:
        return float("nan")
    hot = np.zeros((codes.size, classes.size))
    hot[np.arange(codes.size), codes] = 1.0
    size = np.bincount(codes).astype(np.float64)
    votes = _sums_nearby(hot)[0] / size
    wrong = np.argmax(votes, axis=1) != codes
    error = float(np.mean(np.bincount(codes, weights=wrong) / size))
    return error / (1.0 - 1.0 / classes.size)


def error_alone_of_numbers(values: FloatArray | Sequence[str | None], wanted: FloatArray) -> float:
    """Root mean square error of telling a row's place in the order of the numbers by the rows with the nearest values.

    As a share of the error of guessing, like `error_alone`; NaN: too few rows to say.
    """
    rows = np.random.default_rng(0).permutation(len(wanted))[:MOST_ROWS]
    if rows.size < LEAST_ROWS_ALONE:
        return float("nan")
    order = rows[np.argsort(_ranked(values, rows), kind="stable")]
    place = rankdata(wanted[order])
    sums, counts = _sums_nearby(place)
    return float(np.sqrt(np.mean((sums / counts - place) ** 2)) / max(float(place.std()), 1e-9))


def _sums_nearby(own: FloatArray) -> tuple[FloatArray, IntArray]:
    """Sums over the neighbours of every row of ordered rows, without its own, and how many neighbours it has."""
    total = np.concatenate([np.zeros_like(own[:1]), np.cumsum(own, axis=0)])
    at = np.arange(len(own))
    low, high = np.maximum(at - NEIGHBOURS, 0), np.minimum(at + NEIGHBOURS + 1, len(own))
    return total[high] - total[low] - own, high - low - 1


def _ranked(values: FloatArray | Sequence[str | None], rows: IntArray) -> NDArray[Any]:
    """Of these rows, numbers as they are, texts by their order; missing ones last."""
    if isinstance(values, np.ndarray):
        return np.where(np.isnan(values[rows]), np.inf, values[rows])
    found = [values[i] for i in rows.tolist()]
    texts = np.array(["\U0010ffff" if value is None else value[:40] for value in found], dtype=str)
    return np.unique(texts, return_inverse=True)[1]


def _judged(
    name: str,
    values: NDArray[Any],
    decision: Decision,
    labels: NDArray[Any] | None,
    wanted: NDArray[np.float64] | None,
) -> ColumnPlan:
    """The plan of a column, with a note if the column alone says much about the class, or the number that is wanted."""
    error = np.nan
    if labels is not None and not decision.asked and values.size:
        error = error_alone(_comparable(values, decision), labels)
    elif wanted is not None and not decision.asked and values.size:
        error = error_alone_of_numbers(_comparable(values, decision), wanted)
    if decision.long_code and not error <= WELL:
        instead = option("numeric", name)
        text = "left out: a different long number in each row, so a key such as an account or a telephone number"
        notes = (*decision.notes, f"{name} is {text} ({instead} uses it).")
        decision = Decision("dropped", words=text, notes=notes, instead=instead)
    plan = _plan(name, values, decision)
    notes = decision.notes
    if plan.kind == "dropped" and error <= WELL:
        notes = (
            f"{name} is {plan.words}. But alone it predicts the target well. If it is a row number or key, the file is "
            f"sorted by the target, or the key was given with it. Otherwise use it: {decision.instead}.",
        )
    elif plan.kind != "dropped" and error <= ALMOST_PERFECT:
        notes += (
            f"{name} alone predicts the target almost perfectly. If it is known only after the target, or was made "
            f"from it, the measured error is too good: leave it out with {option('drop', name)}.",
        )
    instead = decision.instead if plan.kind == decision.kind else ""
    return replace(plan, notes=notes, instead=instead)


def _comparable(values: NDArray[Any], decision: Decision) -> Any:
    """Values in an order: numbers and dates by size, texts by the alphabet."""
    if decision.kind == "date":
        return seconds(values, decision.style)[0]
    if decision.kind == "number" or values.dtype.kind == "f":
        return numbers(values, decision.style)[0]
    found, bad = numbers(values, ".")
    return words(values) if len(bad) > 0.05 * len(values) else found


def _plan(name: str, values: NDArray[Any], decision: Decision) -> ColumnPlan:
    if decision.kind == "dropped":
        return ColumnPlan(name, "dropped", words=decision.words)
    make = {"number": _plan_number, "date": _plan_date, "category": _plan_category}[decision.kind]
    return make(name, values, decision)


def _plan_number(name: str, values: NDArray[Any], decision: Decision) -> ColumnPlan:
    number, _ = numbers(values, decision.style)
    present = number[~np.isnan(number)]
    n_missing = number.size - present.size
    if present.size == 0:
        return ColumnPlan(name, "dropped", words="left out: always missing")
    if np.ptp(present) == 0.0 and n_missing == 0:
        return ColumnPlan(name, "dropped", words=f"left out: always {present[0]:g}")
    fill = float(np.median(present))
    indicator, more = how_missing(n_missing, number.size, f"median {fill:g}")
    text = style_words(decision.style) + more
    return ColumnPlan(
        name, "number", fill=fill, indicator=indicator, style=decision.style, odd=decision.odd, words=text
    )


def _plan_date(name: str, values: NDArray[Any], decision: Decision) -> ColumnPlan:
    stamps, _ = seconds(values, decision.style)
    present = stamps[~np.isnan(stamps)]
    n_missing = stamps.size - present.size
    if present.size == 0:
        return ColumnPlan(name, "dropped", words="left out: always missing")
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
    indicator, more = how_missing(n_missing, stamps.size, "the median date")
    text = f"{style_words(decision.style)} as days since 1970" + "".join(f", {part}" for part in parts[1:]) + more
    return ColumnPlan(
        name, "date", fill=fill, indicator=indicator, style=decision.style, parts=tuple(parts), odd=decision.odd, words=text
    )  # fmt: skip


def _plan_category(name: str, values: NDArray[Any], decision: Decision) -> ColumnPlan:
    counts = Counter(value for value in words(values) if value is not None)
    if {text.lower() for text in counts} == {"true", "false"} and len(counts) > 2:  # however they are written
        counts = Counter(text.lower() for text in counts.elements())
    n_missing = len(values) - sum(counts.values())
    if not counts:
        return ColumnPlan(name, "dropped", words="left out: always missing")
    if len(counts) == 1 and n_missing == 0:
        return ColumnPlan(name, "dropped", words=f"left out: always {next(iter(counts))!r}")
    kept = frequent_levels(counts, len(values)) or sorted(counts, key=lambda text: (-counts[text], text))[:MAX_LEVELS]
    chosen, others = tuple(sorted(kept)), len(kept) < len(counts)
    text = f"category of {len(counts)} values, each a feature"
    if len(chosen) == 2 and not others:
        text = f"category: {chosen[0]!r} or {chosen[1]!r}, one feature"
    if others:
        text = f"category of {len(counts)} values: {len(chosen)} frequent ones and 'other'"
    indicator, more = how_missing(n_missing, len(values), "")
    return ColumnPlan(name, "category", indicator=indicator, levels=chosen, others=others, words=text + more)
