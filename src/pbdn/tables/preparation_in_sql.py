"""Column preparation in SQL, so that a statement scores the raw table."""

from collections.abc import Sequence
from typing import Any

from pbdn.errors import InvalidInputError
from pbdn.export.plan import number as constant
from pbdn.export.sql import identifier, literal
from pbdn.model.network import Network
from pbdn.tables.cells_in_sql import bare_number, date, number, word
from pbdn.tables.column_to_numbers import ColumnPlan
from pbdn.tables.preparation import Preparation

PREPARED = "pbdn_prepared"


def to_sql_with_preparation(
    preparation: Preparation,
    network: Network,
    classes: Sequence[Any],
    dialect: str = "generic",
    table: str | None = None,
    keep: Sequence[str] = (),
    **options: Any,
) -> str:
    """One SELECT on the raw columns: prepares them, then scores by the recorded point of the network.

    Columns may have the database's own types or be text, written as in training (generic dialect: own types). NULL, words
    such as ``NA`` and cells that are no numbers or dates count as missing. ``options`` are those of `pbdn.export.to_sql`.
    """
    from pbdn.export import to_sql

    used = preparation.used
    kept = [f"src.{identifier(name)} AS k{j}" for j, name in enumerate(keep)]
    passed = [f"k{j}" for j in range(len(keep))]
    raw = [f"src.{identifier(plan.name)} AS r{j}" for j, plan in enumerate(used)]
    raw += [
        f"{bare_number(f'src.{identifier(plan.name)}', plan.style, dialect)} AS b{j}"
        for j, plan in enumerate(used)
        if plan.kind == "number"
    ]
    meant = [f"{_meaning(plan, j, dialect)} AS v{j}" for j, plan in enumerate(used)]
    expressions = [text for j, plan in enumerate(used) for text in _features(plan, f"v{j}", dialect)]
    names = [f"pbdn_f{j}" for j in range(len(expressions))]
    features = [f"{text} AS {name}" for text, name in zip(expressions, names, strict=True)]
    back = [f"k{j} AS {identifier(name)}" for j, name in enumerate(keep)]
    fence = "AS" if dialect == "generic" else "AS MATERIALIZED"
    steps = [
        ("pbdn_raw", kept + raw, f"{identifier(table or 'data')} AS src"),
        ("pbdn_read", passed + meant, "pbdn_raw"),
        (PREPARED, back + features, "pbdn_read"),
    ]
    made = ",\n".join(
        f"{name} {fence} (\n  SELECT " + ",\n    ".join(columns) + f"\n  FROM {source})"
        for name, columns, source in steps
    )
    scoring = to_sql(network, classes, names, dialect, PREPARED, keep=keep, **options)  # type: ignore[arg-type]
    start = "WITH RECURSIVE " if scoring.startswith("WITH RECURSIVE ") else "WITH "
    return f"{start}{made},\n" + scoring.removeprefix(start)


def _meaning(plan: ColumnPlan, j: int, dialect: str) -> str:
    """What a column means: a number, a date, a word, or NULL."""
    if dialect == "generic" and (plan.kind == "date" or plan.style == "time"):
        raise InvalidInputError(
            "The model uses dates or times, which every database writes differently: give a dialect, such as "
            "dialect='sqlite' (--dialect sqlite)."
        )
    if plan.kind == "number":
        return number(f"r{j}", f"b{j}", plan.style, dialect)
    if plan.kind == "date":
        return date(f"r{j}", plan.style, dialect)
    text = word(f"r{j}", dialect)
    booleans = {level.lower(): level for level in plan.levels}
    if dialect == "sqlite" and set(booleans) == {"true", "false"}:  # SQLite stores booleans as 1 and 0
        yes, no = literal(booleans["true"]), literal(booleans["false"])
        return f"CASE WHEN typeof(r{j}) = 'integer' THEN CASE r{j} WHEN 0 THEN {no} ELSE {yes} END ELSE {text} END"
    return text


def _features(plan: ColumnPlan, raw: str, dialect: str) -> list[str]:
    """One expression per feature of a column from its meaning."""
    if plan.kind == "category":
        there = [_of_category(plan, raw, j) for j in range(len(plan.rest))]
    else:
        own = [raw] if plan.kind == "number" else [_part(raw, part, dialect) for part in plan.parts]
        there = own + [constant(value) for value in plan.rest]
    pairs = zip(there, plan.missing, strict=True)
    return [f"CASE WHEN {raw} IS NULL THEN {constant(missing)} ELSE {text} END" for text, missing in pairs]


def _of_category(plan: ColumnPlan, raw: str, j: int) -> str:
    """Feature j of a category that is there."""
    rest = plan.rest[j]
    known = [(level, features[j]) for level, features in plan.known.items() if features[j] != rest]
    cases = "".join(f" WHEN {literal(level)} THEN {constant(value)}" for level, value in known)
    return f"CASE {raw}{cases} ELSE {constant(rest)} END" if cases else constant(rest)


def _part(raw: str, part: str, dialect: str) -> str:
    if dialect == "sqlite":
        number = "CAST(strftime('{}', {}) AS REAL)"
        return {
            "days": f"(julianday({raw}) - 2440587.5)",
            "month": number.format("%m", raw),
            "weekday": f"CAST((strftime('%w', {raw}) + 6) % 7 AS REAL)",
            "hour": number.format("%H", raw),
        }[part]
    epoch = f"epoch({raw})" if dialect == "duckdb" else f"EXTRACT(EPOCH FROM {raw})"
    return {
        "days": f"{epoch} / 86400e0",
        "month": f"EXTRACT(MONTH FROM {raw})",
        "weekday": f"EXTRACT(ISODOW FROM {raw}) - 1",
        "hour": f"EXTRACT(HOUR FROM {raw})",
    }[part]
