"""What a cell of a database holds, in the SQL of each dialect: its text, its number, its moment.

Cells are read as `pbdn.tables.cells` reads those of a file, whether a column is typed or holds text. What cannot be read gives
NULL (PostgreSQL refuses some), and a network gives NULL for such a row.
"""

from pbdn.errors import InvalidInputError
from pbdn.export.plan import Label, number

REAL = {
    "sqlite": "REAL",
    "postgresql": "DOUBLE PRECISION",
    "duckdb": "DOUBLE",
    "generic": "DOUBLE PRECISION",
}
TEXT_TYPE = {"sqlite": "TEXT"}
BLANKS = {"sqlite": "char", "duckdb": "chr", "postgresql": "chr"}  # functions that make a tab or the end of a line
NUMBER = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$"
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"


def identifier(name: str) -> str:
    """A quoted identifier; whatever the name contains, it ends where it should."""
    if not name or "\0" in name:
        raise InvalidInputError(f"{name!r} cannot name a column or table in SQL: rename it.")
    return '"' + name.replace('"', '""') + '"'


def literal(label: Label) -> str:
    """A label as an SQL constant."""
    if isinstance(label, bool):
        return "TRUE" if label else "FALSE"
    if isinstance(label, int):
        return str(label)
    if isinstance(label, float):
        return number(label)
    if "\0" in label:
        raise InvalidInputError(f"class {label!r} contains a NUL, which SQL strings cannot hold: rename it.")
    return "'" + label.replace("'", "''") + "'"


def step(name: str, columns: list[str], origin: str, dialect: str) -> str:
    """A common table expression that the engine computes once and does not copy into others."""
    fence = "AS" if dialect == "generic" else "AS MATERIALIZED"
    return f"{name} {fence} (\n  SELECT {lines(columns)}\n  FROM {origin})"


def lines(columns: list[str]) -> str:
    """Columns below each other."""
    return ",\n    ".join(columns)


def real_of(cell: str, dialect: str) -> str:
    """The cell as a floating point number, by the rules of the database."""
    return f"CAST({cell} AS {REAL[dialect]})"


def text_of(cell: str, dialect: str, trimmed: bool = True) -> str:
    """The text of a cell, without blanks around it unless they matter."""
    text = f"CAST({cell} AS {TEXT_TYPE.get(dialect, 'VARCHAR')})"
    if not trimmed:
        return text
    if dialect not in BLANKS:
        return f"TRIM({text})"
    of = BLANKS[dialect]
    return f"{'btrim' if dialect == 'postgresql' else 'trim'}({text}, ' ' || {of}(9) || {of}(10) || {of}(13))"


def without(cell: str, words: list[str], dialect: str) -> str:
    """The cell, NULL where its text is one of these words in any case."""
    listed = ", ".join(map(literal, words))
    return f"CASE WHEN LOWER({text_of(cell, dialect)}) IN ({listed}) THEN NULL ELSE {cell} END"


def number_of(cell: str, dialect: str, decimal: str = ".") -> str:
    """The number in a cell, written with this decimal mark where it is text."""
    if dialect == "generic":  # without functions that all databases have, the type of the column decides
        return real_of(cell, dialect)
    text = text_of(cell, dialect)
    if decimal != ".":
        text = f"replace({text}, {literal(decimal)}, '.')"
    if dialect == "sqlite":  # a text equals its number only if all of it is one
        return (
            f"CASE WHEN typeof({cell}) IN ('integer', 'real') THEN CAST({cell} AS REAL) "
            f"WHEN CAST({text} AS REAL) = {text} THEN CAST({text} AS REAL) END"
        )
    matches = f"regexp_matches({text}, '{NUMBER}')" if dialect == "duckdb" else f"{text} ~ '{NUMBER}'"
    return f"CASE WHEN {matches} THEN {real_of(text, dialect)} END"


def moment_of(cell: str, style: str, dialect: str) -> str:
    """The moment in a cell: the database's own type, ISO text, or text in the style of `datetime.strptime`."""
    text = text_of(cell, dialect)
    if dialect == "duckdb":
        iso = f"TRY_CAST({text} AS TIMESTAMP)"
        return iso if style == "iso" else f"COALESCE(try_strptime({text}, {literal(style)}), {iso})"
    if dialect == "postgresql":
        iso = f"CAST({text} AS TIMESTAMP)"
        if style == "iso":
            return iso
        pattern = style.replace("%d", "DD").replace("%m", "MM").replace("%Y", "YYYY").replace("%b", "Mon")
        other = f"CAST(to_timestamp({text}, {literal(pattern)}) AS TIMESTAMP)"
        return f"CASE WHEN {text} ~ '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}' THEN {iso} ELSE {other} END"
    local = (  # SQLite would add the offset of a time zone
        f"CASE WHEN {text} GLOB '*:*[+-][0-9][0-9]:[0-9][0-9]' THEN substr({text}, 1, length({text}) - 6) "
        f"ELSE rtrim({text}, 'Zz') END"
    )
    return local if style == "iso" else f"COALESCE({_iso_in_sqlite(text, style)}, {local})"


def _iso_in_sqlite(text: str, style: str) -> str:
    """A date of three parts as ISO text; NULL where it is none."""
    mark = style.replace(", ", " ")[2]
    plain = f"replace({text}, ', ', ' ')" if ", " in style else text
    at = f"instr({plain}, '{mark}')"
    rest = f"substr({plain}, {at} + 1)"
    next_at = f"instr({rest}, '{mark}')"
    parts = (f"substr({plain}, 1, {at} - 1)", f"substr({rest}, 1, {next_at} - 1)", f"substr({rest}, {next_at} + 1)")
    found = dict(zip(style.replace(", ", " ").split(mark), parts, strict=True))
    month = found.get("%m") or f"(instr('{MONTHS}', lower({found['%b']})) + 3) / 4"
    iso = f"printf('%04d-%02d-%02d', {found['%Y']}, {month}, {found['%d']})"
    digits = f"{found['%Y']} GLOB '[0-9][0-9][0-9][0-9]' AND {found['%d']} GLOB '[0-9]*'"
    return f"CASE WHEN {digits} AND date({iso}, '+0 days') = {iso} THEN {iso} END"
