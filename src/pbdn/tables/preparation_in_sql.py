"""Column preparation in SQL, so that a statement scores the raw table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.export.plan import number
from pbdn.export.sql_cells import identifier, literal, moment_of, number_of, step, text_of, without
from pbdn.model.network import Network
from pbdn.tables.cells import MISSING
from pbdn.tables.column_to_numbers import DAY, ColumnPlan, date_part
from pbdn.tables.preparation import Preparation

CELLS, PREPARED = "pbdn_cells", "pbdn_prepared"
NOT_FINITE = frozenset(["inf", "-inf", "infinity", "-infinity"])


def to_sql_with_preparation(
    preparation: Preparation,
    network: Network,
    classes: Sequence[Any],
    dialect: str = "generic",
    table: str | None = None,
    keep: Sequence[str] = (),
) -> str:
    """One SELECT on the raw columns: prepares them, then scores by the recorded point of the network.

    Columns may have the database's own types or be text as in the file: words such as ``n/a``, decimal commas and the style
    of dates are read as `Preparation.apply` reads them. The generic dialect takes typed columns only.
    """
    from pbdn.export import to_sql

    used = [plan for plan in preparation.columns if plan.kind != "dropped"]
    cells = [f"src.{identifier(name)} AS k{j}" for j, name in enumerate(keep)]
    cells += [f"{_cell(plan, dialect)} AS v{j}" for j, plan in enumerate(used)]
    expressions = [text for j, plan in enumerate(used) for text in _features(plan, f"v{j}", dialect)]
    names = [f"pbdn_f{j}" for j in range(len(expressions))]
    columns = [f"k{j} AS {identifier(name)}" for j, name in enumerate(keep)]
    columns += [f"{text} AS {name}" for text, name in zip(expressions, names, strict=True)]
    scoring = to_sql(network, classes, names, dialect, PREPARED, keep=keep)  # type: ignore[arg-type]
    steps = ((CELLS, cells, f"{identifier(table or 'data')} AS src"), (PREPARED, columns, CELLS))
    first = ",\n".join(step(*one, dialect) for one in steps)
    return f"WITH {first},\n" + scoring.removeprefix("WITH ")


def _cell(plan: ColumnPlan, dialect: str) -> str:
    """A raw cell, NULL where it is missing."""
    words = sorted(MISSING | NOT_FINITE if plan.kind == "number" else MISSING)
    return without(f"src.{identifier(plan.name)}", words, dialect)


def _features(plan: ColumnPlan, cell: str, dialect: str) -> list[str]:
    """One expression per feature of a column; a cell that cannot be read gives NULL, and so does the network."""
    missing = [f"CASE WHEN {cell} IS NULL THEN 1e0 ELSE 0e0 END"] if plan.indicator else []
    if plan.kind == "number":
        return [_filled(cell, plan.fill, number_of(cell, dialect, plan.style)), *missing]
    if plan.kind == "date":
        filled = np.array([plan.fill * DAY])
        fills = [float(date_part(filled, part)[0]) for part in plan.parts]
        return [
            _filled(cell, fill, _part(cell, plan, part, dialect)) for part, fill in zip(plan.parts, fills, strict=True)
        ] + missing
    text = text_of(cell, dialect, trimmed=all(level == level.strip() for level in plan.levels))
    if plan.single:
        first, second = map(literal, plan.levels)
        return [f"CASE {text} WHEN {first} THEN 0e0 WHEN {second} THEN 1e0 ELSE 5e-1 END", *missing]
    out = [f"CASE WHEN {text} = {literal(level)} THEN 1e0 ELSE 0e0 END" for level in plan.levels]
    if plan.others:
        known = ", ".join(map(literal, plan.levels))
        out.append(f"CASE WHEN {cell} IS NULL OR {text} IN ({known}) THEN 0e0 ELSE 1e0 END")
    return out + missing


def _filled(cell: str, fill: float, value: str) -> str:
    return f"CASE WHEN {cell} IS NULL THEN {number(fill)} ELSE {value} END"


def _part(cell: str, plan: ColumnPlan, part: str, dialect: str) -> str:
    """One number of a date."""
    if dialect == "generic":
        raise InvalidInputError("The model uses dates, which every database writes differently: give a --dialect.")
    stamp = moment_of(cell, plan.style, dialect)
    if dialect == "sqlite":
        return {
            "days": f"(julianday({stamp}) - 2440587.5)",
            "month": f"CAST(strftime('%m', {stamp}) AS REAL)",
            "weekday": f"CAST((strftime('%w', {stamp}) + 6) % 7 AS REAL)",
            "hour": f"CAST(strftime('%H', {stamp}) AS REAL)",
        }[part]
    epoch = f"epoch({stamp})" if dialect == "duckdb" else f"EXTRACT(EPOCH FROM {stamp})"
    return {
        "days": f"{epoch} / 86400e0",
        "month": f"EXTRACT(MONTH FROM {stamp})",
        "weekday": f"EXTRACT(ISODOW FROM {stamp}) - 1",
        "hour": f"EXTRACT(HOUR FROM {stamp})",
    }[part]
