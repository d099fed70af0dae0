"""Databases read dates and numbers of every style as `pbdn.tables.read_cell` does."""

import datetime
import sqlite3

import pytest

from pbdn.errors import InvalidInputError
from pbdn.export.sql import literal
from pbdn.tables.column_format import ASKED_DATE_STYLES, MARKS, example
from pbdn.tables.preparation_in_sql import bare_number, date, number
from pbdn.tables.read_cell import to_date, to_number

MOMENTS = [datetime.datetime(2024, 3, 31, 14, 5, 9), datetime.datetime(1999, 12, 1)]
NUMBERS = [
    "1234.5",
    "1,234.5",
    "1.234,5",
    "1 234.5",
    "1'234.5",
    "-1,234,567",
    "12,34",
    "$1,234.5",
    "-5 €",
    "(5.25)",
    "7%",
    "x",
]


def asked(dialect, expression, text):
    statement = f"SELECT {expression} FROM (SELECT {literal(text)} AS x) AS one"
    if dialect == "sqlite":
        connection = sqlite3.connect(":memory:")
    else:
        connection = pytest.importorskip("duckdb", reason="duckdb is not installed").connect()
    found = connection.execute(statement).fetchone()[0]
    connection.close()
    return found


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
@pytest.mark.parametrize("style", ASKED_DATE_STYLES)
def test_dates(dialect, style):
    for moment in MOMENTS:
        text = moment.isoformat(sep=" ") if style == "iso" else moment.strftime(style)
        found = asked(dialect, date("x", style, dialect), text)
        found = datetime.datetime.fromisoformat(found) if isinstance(found, str) else found
        assert found == to_date(text, style)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
@pytest.mark.parametrize("style", [mark + unit for mark in MARKS for unit in ("", "$", "%")])
def test_numbers(dialect, style):
    for text in [*NUMBERS, example(style)]:
        found = asked(dialect, number("x", bare_number("x", style, dialect), style, dialect), text)
        assert found == to_number(text, style), text


def test_formats_that_sql_cannot_read_are_refused():
    with pytest.raises(InvalidInputError, match="cannot be read in SQL"):
        date("x", "%j of %Y", "sqlite")
