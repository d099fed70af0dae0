"""Column preparation in ONNX, so that a model file scores raw rows: one input of shape (n, 1) per column."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from pbdn.export.onnx import to_onnx
from pbdn.export.onnx_graph import Graph
from pbdn.export.plan import Several
from pbdn.model.network import Network
from pbdn.tables.column_to_numbers import DAY, ColumnPlan
from pbdn.tables.preparation import Preparation
from pbdn.tables.read_cell import MISSING

KINDS = {
    "number": "a number; NaN where missing",
    "category": "text; empty where missing",
    "date": "days since 1970-01-01, with the time of day as a fraction; NaN where missing",
}
DOUBLE = np.dtype(np.float64)
NO_CODE = -(2.0**62)  # in place of a number that is not whole


def to_onnx_with_preparation(
    preparation: Preparation, network: Network | Several, classes: Sequence[Any], **options: Any
) -> bytes:
    """Bytes of an ONNX model with one input for every column in use, and the outputs of `pbdn.export.to_onnx`.

    Numbers are tensors of ``dtype``, categories tensors of strings, dates tensors of doubles: days since 1970, because ONNX
    does not read dates. The metadata ``inputs`` tell for each input its column and what it takes.
    """
    used = preparation.used
    inputs: list[dict[str, str]] = []

    def prepare(graph: Graph, dtype: np.dtype[Any]) -> str:
        names = [graph.input(plan.name, _type(plan, dtype), 1) for plan in used]
        inputs.extend(
            {"input": name, "column": plan.name, "takes": KINDS[plan.kind]}
            for name, plan in zip(names, used, strict=True)
        )
        parts = [_features(graph, plan, name) for plan, name in zip(used, names, strict=True)]
        return graph.op("Concat", *parts, axis=1)

    metadata = {"inputs": inputs}  # filled by prepare, before it is stored
    return to_onnx(network, classes, preparation.feature_names, prepare=prepare, metadata=metadata, **options)


def _type(plan: ColumnPlan, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    return {"number": dtype, "date": DOUBLE}.get(plan.kind)


def _features(graph: Graph, plan: ColumnPlan, raw: str) -> str:
    """The features of a column, shape (n, how many there are)."""
    if plan.kind == "category":
        return _category(graph, plan, raw)
    value = graph.cast(raw, DOUBLE)
    there = graph.op("LessOrEqual", graph.op("Abs", value), graph.constant(np.array(np.finfo(np.float64).max)))
    if plan.kind == "date":
        value = _date(graph, plan.parts, graph.op("Where", there, value, graph.constant(np.array(plan.fill))))
    after = _after(graph, plan, value) if plan.after else ""
    value = graph.cast(value, graph.dtype)
    if plan.after:
        value = graph.op("Concat", value, after, axis=1)
    elif plan.rest:
        same = graph.op("Mul", graph.cast(there, graph.dtype), graph.number([plan.rest]))  # one row of `rest` for each
        value = graph.op("Concat", value, same, axis=1)
    return graph.op("Where", there, value, graph.number([plan.missing]))


def _after(graph: Graph, plan: ColumnPlan, value: str) -> str:
    """What follows numbers, of which each may tell something of its own."""
    n = len(plan.after)
    whole = graph.op("Equal", value, graph.op("Floor", value))
    kept = graph.op("Where", whole, value, graph.constant(np.array(NO_CODE, dtype=DOUBLE)))
    places = graph.codes(graph.cast(kept, np.dtype(np.int64)), [int(number) for number in plan.after], [*range(n)], n)
    return _lines(graph, [*plan.after.values(), plan.rest], places)


def _category(graph: Graph, plan: ColumnPlan, raw: str) -> str:
    n = len(plan.spelled)
    nothing = [
        "".join(letters)
        for word in sorted(MISSING)
        for letters in sorted(set(product(*((c, c.upper()) for c in word))))
    ]
    codes = graph.codes(raw, [*plan.spelled, *nothing], [*range(n), *[n + 1] * len(nothing)], n)
    return _lines(graph, [*plan.spelled.values(), plan.rest, plan.missing], codes)


def _lines(graph: Graph, book: Sequence[Sequence[float]], numbers: str) -> str:
    """A line of the book for every row, by its number."""
    return graph.op("Squeeze", graph.op("Gather", graph.number(book), numbers, axis=0), graph.constant(np.array([1])))


def _date(graph: Graph, parts: Sequence[str], days: str) -> str:
    """Parts of dates side by side, from days since 1970; the time is rounded to milliseconds."""

    def number(value: float) -> str:
        return graph.constant(np.array(value, dtype=DOUBLE))

    def whole(tensor: str, unit: float) -> str:
        return graph.op("Floor", graph.op("Div", tensor, number(unit)))

    def less(tensor: str, times: float, other: str) -> str:
        return graph.op("Sub", tensor, graph.op("Mul", number(times), other))

    stamps = graph.op("Mul", days, number(1000.0 * DAY))
    stamps = graph.op("Div", graph.op("Floor", graph.op("Add", stamps, number(0.5))), number(1000.0))
    day = whole(stamps, DAY)
    made = {"days": lambda: days, "hour": lambda: whole(less(stamps, DAY, day), 3600.0)}

    def weekday() -> str:  # 1970-01-01 was a Thursday; Monday is 0
        moved = graph.op("Add", day, number(3.0))
        return less(moved, 7.0, whole(moved, 7.0))

    def month() -> str:  # in years that begin on 1 March, from 1 March of the year 0, in cycles of 400 years
        moved = graph.op("Add", day, number(719468.0))
        left = less(moved, 146097.0, whole(moved, 146097.0))
        leaps = graph.op("Sub", whole(left, 36524.0), graph.op("Add", whole(left, 1460.0), whole(left, 146096.0)))
        year = whole(graph.op("Add", left, leaps), 365.0)
        first = graph.op(
            "Sub", graph.op("Add", graph.op("Mul", number(365.0), year), whole(year, 4.0)), whole(year, 100.0)
        )
        since = graph.op("Sub", left, first)
        march = whole(graph.op("Add", graph.op("Mul", number(5.0), since), number(2.0)), 153.0)
        late = graph.op("Less", march, number(10.0))
        return graph.op("Add", march, graph.op("Where", late, number(3.0), number(-9.0)))

    made |= {"weekday": weekday, "month": month}
    found = [made[part]() for part in parts]
    return found[0] if len(found) == 1 else graph.op("Concat", *found, axis=1)
