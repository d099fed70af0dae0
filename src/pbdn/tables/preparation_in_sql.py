"""Column preparation in SQL, so that a statement scores the raw table.

The text of a cell means what it means in `pbdn.tables.read_cell`: a number, a date, or NULL. A database may hold a column in its
own type or as the text of the training file; both are read.
"""

import re
from collections.abc import Sequence
from typing import Any

from pbdn.errors import InvalidInputError
from pbdn.export.plan import Several
from pbdn.export.plan import number as constant
from pbdn.export.sql_text import check_told_apart, identifier, literal
from pbdn.model.network import Network
from pbdn.tables.column_format import date_tokens
from pbdn.tables.column_to_numbers import ColumnPlan
from pbdn.tables.preparation import Preparation
from pbdn.tables.read_cell import CURRENCIES, CURRENCY, MISSING, SPACES, TIME, number_pattern

PREPARED = "pbdn_prepared"
DATE_PARTS = {"d": "0?[1-9]|[12][0-9]|3[01]", "m": "0?[1-9]|1[0-2]", "Y": "[0-9]{4}", "y": "[0-9]{2}", "b": "[A-Za-z]{3}",
              "B": "[A-Za-z]+", "H": "[01]?[0-9]|2[0-3]", "M": "[0-5]?[0-9]", "S": "[0-5]?[0-9]"}  # fmt: skip
POSTGRESQL_PARTS = {
    "d": "DD",
    "m": "MM",
    "Y": "YYYY",
    "y": "YY",
    "b": "Mon",
    "B": "Month",
    "H": "HH24",
    "M": "MI",
    "S": "SS",
}
ISO = r"(?!0000)[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([T ][0-9]{2}:[0-9]{2}.*)?"
LARGEST = "1.7976931348623157e308"


def to_sql_with_preparation(
    preparation: Preparation,
    network: Network | Several,
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
    check_told_apart([*(plan.name for plan in used), *keep], dialect)
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
    booleans = plan.booleans
    if dialect == "sqlite" and booleans:  # SQLite stores booleans as 1 and 0
        yes, no = literal(booleans["true"]), literal(booleans["false"])
        return f"CASE WHEN typeof(r{j}) = 'integer' THEN CASE r{j} WHEN 0 THEN {no} ELSE {yes} END ELSE {text} END"
    return text


def _features(plan: ColumnPlan, raw: str, dialect: str) -> list[str]:
    """One expression per feature of a column from its meaning."""
    if plan.kind == "category":
        there = [_of_category(plan, raw, j) for j in range(len(plan.rest))]
    else:
        own = [raw] if plan.kind == "number" else [_part(raw, part, dialect) for part in plan.parts]
        there = own + [_after(plan, raw, j) for j in range(len(plan.rest))]
    pairs = zip(there, plan.missing, strict=True)
    return [f"CASE WHEN {raw} IS NULL THEN {constant(missing)} ELSE {text} END" for text, missing in pairs]


def _of_category(plan: ColumnPlan, raw: str, j: int) -> str:
    """Feature j of a category that is there."""
    return _case(raw, {literal(level): features[j] for level, features in plan.spelled.items()}, plan.rest[j])


def _after(plan: ColumnPlan, raw: str, j: int) -> str:
    """Feature j of those after a number or the parts of a date."""
    return _case(raw, {constant(number): told[j] for number, told in plan.after.items()}, plan.rest[j])


def _case(raw: str, known: dict[str, float], rest: float) -> str:
    """The number that belongs to what is there; cases that are as the rest are left out."""
    cases = "".join(f" WHEN {one} THEN {constant(value)}" for one, value in known.items() if value != rest)
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


def as_text(raw: str, dialect: str) -> str:
    """A column of any type as text without spaces around it."""
    return f"TRIM(CAST({raw} AS {'VARCHAR' if dialect == 'generic' else 'TEXT'}))"


def word(raw: str, dialect: str) -> str:
    """The text of a category; NULL for words that mean nothing."""
    missing = ", ".join(literal(one) for one in sorted(MISSING))
    text = as_text(raw, dialect)
    whole = text  # the number 1 of a column with fractions is the category '1'
    if dialect == "sqlite":
        whole = f"CASE WHEN TYPEOF({raw}) = 'real' AND {text} LIKE '%.0' THEN RTRIM(RTRIM({text}, '0'), '.') ELSE {text} END"
    elif dialect == "duckdb":
        whole = (
            f"CASE WHEN TYPEOF({raw}) IN ('DOUBLE', 'FLOAT') THEN REGEXP_REPLACE({text}, '[.]0$', '') ELSE {text} END"
        )
    return f"CASE WHEN LOWER({text}) IN ({missing}) THEN NULL ELSE {whole} END"


def bare_number(raw: str, style: str, dialect: str) -> str:
    """The text of a number, without signs of money and percent, for `number`."""
    text = f"REPLACE({as_text(raw, dialect)}, '\u2212', '-')"
    if style[-1] == "%":
        text = f"RTRIM({text}, '% ')"
    if style[-1] == "$":
        text = f"CASE WHEN {text} LIKE '(%)' THEN '-' || SUBSTR({text}, 2, LENGTH({text}) - 2) ELSE {text} END"
        if dialect == "sqlite":
            signs = literal(" " + "".join(sorted(set("".join(CURRENCIES)))))
            text = f"RTRIM({text}, {signs})"
            text = (
                f"SUBSTR({text}, 1, {text} GLOB '[-+]*') || LTRIM(SUBSTR({text}, 1 + ({text} GLOB '[-+]*')), {signs})"
            )
        else:
            signs = literal(rf"\s*{CURRENCY}\s*")
            text = f"REGEXP_REPLACE({text}, {signs}, '', 'gi')"
    mark = style[1:].strip("$%")
    for other in {" ": SPACES, "'": "’"}.get(mark, ""):
        text = f"REPLACE({text}, {literal(other)}, {literal(mark)})"
    return text


def number(raw: str, bare: str, style: str, dialect: str) -> str:
    """A number from a column and its `bare_number`."""
    if style == "time":
        return _hours(as_text(raw, dialect), dialect)
    if dialect == "generic":
        return raw
    mark = style[1:].strip("$%")
    plain = f"REPLACE({bare}, {literal(mark)}, '')" if mark else bare
    plain = plain if style[0] == "." else f"REPLACE({plain}, {literal(style[0])}, '.')"
    if dialect == "sqlite":
        value = f"CAST({plain} AS REAL)"
        wrong = "".join(f" AND NOT {bare} GLOB {literal(shape)}" for shape in _wrong_shapes(style[0], mark))
        return (  # SQLite finds a number equal to a text only if the whole text is that number
            f"CASE WHEN TYPEOF({raw}) = 'text' THEN CASE WHEN {value} = {plain} AND ABS({value}) <= {LARGEST}{wrong} "
            f"THEN {value} END WHEN ABS({raw}) <= {LARGEST} THEN CAST({raw} AS REAL) END"
        )
    native = as_text(raw, dialect)
    return (
        f"CASE WHEN {_is_text(raw, dialect)} THEN CASE WHEN {_matches(bare, number_pattern(style), dialect)} THEN "
        f"CAST({plain} AS DOUBLE PRECISION) END WHEN {_matches(native, number_pattern('.'), dialect)} THEN "
        f"CAST({native} AS DOUBLE PRECISION) END"
    )


def date(raw: str, style: str, dialect: str) -> str:
    """A date: a timestamp, in SQLite its ISO text."""
    text = as_text(raw, dialect)
    tokens = [] if style == "iso" else date_tokens(style, "SQL")
    if dialect == "sqlite":
        iso = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*"
        short = f"SUBSTR({text}, 1, CASE WHEN {text} GLOB '*:[0-9][0-9].[0-9]*' THEN 23 ELSE 19 END)"
        valid = f"CASE WHEN DATE({short}, '+0 days') = SUBSTR({text}, 1, 10) THEN {short} END"
        if style == "iso":
            return f"CASE WHEN {text} GLOB '{iso}' THEN {valid} END"
        made, whole = _made_iso(text, tokens)
        found = f"{whole} AND DATE({made}, '+0 days') = SUBSTR({made}, 1, 10)"
        return f"CASE WHEN {text} GLOB '{iso}' THEN {valid} WHEN {found} THEN {made} END"
    stamp = f"CAST({text} AS TIMESTAMP)" if dialect == "postgresql" else f"TRY_CAST({text} AS TIMESTAMP)"
    found = (
        f"CASE WHEN {_matches(text, ISO, dialect)} THEN {stamp}"
        if dialect == "postgresql"
        else f"CASE WHEN {text} LIKE '____-__-__%' THEN {stamp}"
    )
    if style == "iso":
        return found + " END"
    shape = "".join(f"({DATE_PARTS[part]})" if kind else re.escape(part) for kind, part in tokens)
    if dialect == "duckdb":
        return f"{found} WHEN {_matches(text, shape, dialect)} THEN TRY_STRPTIME({text}, {literal(style)}) END"
    form = "".join(POSTGRESQL_PARTS[part] if kind else part for kind, part in tokens)
    parsed = f"CAST(TO_TIMESTAMP({text}, {literal(form)}) AS TIMESTAMP)"
    return f"{found} WHEN {_matches(text, shape, dialect)} THEN {parsed} END"


def _is_text(raw: str, dialect: str) -> str:
    if dialect == "duckdb":
        return f"TYPEOF({raw}) = 'VARCHAR'"
    return f"CAST(PG_TYPEOF({raw}) AS TEXT) IN ('text', 'character varying', 'character')"


def _matches(text: str, pattern: str, dialect: str) -> str:
    """Whether the whole text matches."""
    if dialect == "duckdb":
        return f"REGEXP_FULL_MATCH({text}, {literal(pattern)})"
    return f"{text} ~ {literal(f'^(?:{pattern})$')}"


def _wrong_shapes(decimal: str, mark: str) -> list[str]:
    """GLOB patterns of texts with a foreign point, or whose thousands are not in threes."""
    foreign = ["*.*"] if "." not in decimal + mark else []
    if not mark:
        return foreign
    digit, other, sign = "[0-9]", "[^0-9]", "[-+]"
    after = [f"*{mark}{digit * n}{end}" for n in range(3) for end in ("", f"{other}*")] + [f"*{mark}{digit * 4}*"]
    before = [f"{start}{begin}{mark}*" for start in ("", sign) for begin in ("", "0*", f"{digit * 4}*")]
    return [*foreign, *after, *before, f"*{decimal}*{mark}*"]


def _hours(text: str, dialect: str) -> str:
    body = f"RTRIM(LOWER({text}), 'apm. ')"
    if dialect == "sqlite":
        starts = [f"{'[0-9]' * n}:[0-5][0-9]" for n in (1, 2, 3)]
        found = " OR ".join(f"{body} GLOB '{start}{end}'" for start in starts for end in ("", ":[0-5][0-9]*"))
        hours, rest = f"SUBSTR({body}, 1, INSTR({body}, ':') - 1)", f"SUBSTR({body}, INSTR({body}, ':') + 1)"
        parts = [hours, f"SUBSTR({rest}, 1, 2)", f"SUBSTR({rest}, 4)"]
        hour, minute, second = (f"CAST({part} AS REAL)" for part in parts)
    else:
        found = _matches(text, TIME.pattern, dialect)
        hour, minute, second = (
            f"CAST(COALESCE(NULLIF(SPLIT_PART({body}, ':', {k}), ''), '0') AS DOUBLE PRECISION)" for k in (1, 2, 3)
        )
    half = f"({hour} - CASE WHEN {hour} >= 12e0 THEN 12e0 ELSE 0e0 END)"
    hour = (
        f"CASE WHEN LOWER({text}) LIKE '%p%' THEN {half} + 12e0 WHEN LOWER({text}) LIKE '%a%' THEN {half} "
        f"ELSE {hour} END"
    )
    return f"CASE WHEN {found} THEN {hour} + {minute} / 60e0 + {second} / 3600e0 END"


def _made_iso(text: str, tokens: list[tuple[bool, str]]) -> tuple[str, str]:
    """ISO text of a date in another style, by SQLite's functions, and whether its parts are there."""
    found: dict[str, str] = {}
    rest = text
    for at, (kind, part) in enumerate(tokens):
        if not kind:
            continue
        if at + 1 < len(tokens) and not tokens[at + 1][0]:
            sign = literal(tokens[at + 1][1])
            found[part] = f"SUBSTR({rest}, 1, INSTR({rest}, {sign}) - 1)"
            rest = f"SUBSTR({rest}, INSTR({rest}, {sign}) + {len(tokens[at + 1][1])})"
        elif at + 1 < len(tokens):  # digits of fixed width without a mark
            width = 4 if part == "Y" else 2
            found[part], rest = f"SUBSTR({rest}, 1, {width})", f"SUBSTR({rest}, {width + 1})"
        else:
            found[part] = rest
    year = found.get("Y") or f"({found['y']} + CASE WHEN CAST({found['y']} AS INTEGER) < 69 THEN 2000 ELSE 1900 END)"
    name = found.get("b") or found.get("B")
    months = "'janfebmaraprmayjunjulaugsepoctnovdec'"
    month = f"(INSTR({months}, LOWER(SUBSTR({name}, 1, 3))) + 2) / 3" if name else found.get("m", "1")
    clock = ", ".join(found.get(part, "0") for part in "HMS")
    whole = [
        f"{one} GLOB '[1-9][0-9][0-9][0-9]'" if part == "Y" else f"({one} GLOB '[0-9]' OR {one} GLOB '[0-9][0-9]')"
        for part, one in found.items()
        if part not in "bB"
    ]
    made = f"PRINTF('%04d-%02d-%02d %02d:%02d:%02d', {year}, {month}, {found.get('d', '1')}, {clock})"
    return made, " AND ".join(whole)
