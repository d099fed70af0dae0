"""Column preparation in SQL, so that a statement scores the raw table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.export.sql import identifier, literal
from pbdn.model.network import Network
from pbdn.tables.column_to_numbers import DAY, ColumnPlan, date_part
from pbdn.tables.preparation import Preparation

PREPARED = "pbdn_prepared"


def to_sql_with_preparation(
    preparation: Preparation,
    network: Network,
    classes: Sequence[Any],
    dialect: str = "generic",
    table: str | None = None,
    keep: Sequence[str] = (),
) -> str:
    """One SELECT on the raw columns: prepares them, then scores by the recorded point of the network.

    Numbers, dates and texts are taken as the database's own types (SQLite: dates as ISO text); NULL is missing.
    """
    from pbdn.export import to_sql

    expressions = [text for plan in preparation.columns for text in _features(plan, dialect)]
    names = [f"pbdn_f{j}" for j in range(len(expressions))]
    columns = [f"src.{identifier(name)}" for name in keep]
    columns += [f"{text} AS {name}" for text, name in zip(expressions, names, strict=True)]
    source = identifier(table or "data")
    scoring = to_sql(network, classes, names, dialect, PREPARED, keep=keep)  # type: ignore[arg-type]
    first = f"{PREPARED} AS (\n  SELECT " + ",\n    ".join(columns) + f"\n  FROM {source} AS src)"
    return f"WITH {first},\n" + scoring.removeprefix("WITH ")


def _features(plan: ColumnPlan, dialect: str) -> list[str]:
    """One expression per feature of a column."""
    if plan.kind == "dropped":
        return []
    raw = f"src.{identifier(plan.name)}"
    missing = [f"CASE WHEN {raw} IS NULL THEN 1e0 ELSE 0e0 END"] if plan.indicator else []
    if plan.kind == "number":
        return [f"COALESCE({raw}, {plan.fill!r})", *missing]
    if plan.kind == "date":
        filled = np.array([plan.fill * DAY])
        parts = [(_part(raw, part, dialect), float(date_part(filled, part)[0])) for part in plan.parts]
        return [f"COALESCE({text}, {fill!r})" for text, fill in parts] + missing
    text = f"CAST({raw} AS VARCHAR)" if dialect != "sqlite" else f"CAST({raw} AS TEXT)"
    if plan.single:
        first, second = map(literal, plan.levels)
        return [f"CASE {text} WHEN {first} THEN 0e0 WHEN {second} THEN 1e0 ELSE 5e-1 END", *missing]
    out = [f"CASE WHEN {text} = {literal(level)} THEN 1e0 ELSE 0e0 END" for level in plan.levels]
    if plan.others:
        known = ", ".join(map(literal, plan.levels))
        out.append(f"CASE WHEN {raw} IS NULL OR {text} IN ({known}) THEN 0e0 ELSE 1e0 END")
    return out + missing


def _part(raw: str, part: str, dialect: str) -> str:
    if dialect == "generic":
        raise InvalidInputError("The model uses dates, which every database writes differently: give a --dialect.")
    if dialect == "sqlite":
        number = "CAST(strftime('{}', {}) AS REAL)"
        return {
            "days": f"(julianday({raw}) - 2440587.5)",
            "month": number.format("%m", raw),
            "weekday": f"CAST((strftime('%w', {raw}) + 6) % 7 AS REAL)",
            "hour": number.format("%H", raw),
        }[part]
    stamp = f"CAST({raw} AS TIMESTAMP)"
    epoch = f"epoch({stamp})" if dialect == "duckdb" else f"EXTRACT(EPOCH FROM {stamp})"
    return {
        "days": f"{epoch} / 86400e0",
        "month": f"EXTRACT(MONTH FROM {stamp})",
        "weekday": f"EXTRACT(ISODOW FROM {stamp}) - 1",
        "hour": f"EXTRACT(HOUR FROM {stamp})",
    }[part]
