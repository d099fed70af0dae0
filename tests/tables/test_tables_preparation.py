"""Columns become features; databases read dates and numbers of every style as `pbdn.tables.read_cell` does."""

import datetime
import json
import sqlite3
from contextlib import ExitStack, closing
from functools import cache

import numpy as np
import pytest

from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.export.sql_text import literal
from pbdn.tables import Preparation, Table, fit_preparation, labels_of, parse_table
from pbdn.tables.column_format import ASKED_DATE_STYLES, MARKS, example
from pbdn.tables.preparation_in_sql import bare_number, date, number
from pbdn.tables.read_cell import to_date, to_number

N = 60


# Columns to features, decided on training rows and stored as plain JSON.


def table_of(**columns):
    names = list(columns)
    lines = [",".join(names)] + [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    return parse_table("\n".join(lines).encode(), "test")


def plan_of(preparation, name):
    return next(plan for plan in preparation.columns if plan.name == name)


def test_numbers_with_missing_values():
    table = table_of(x=[1, "NA", 3, 5], z=[1, 2, 4, 3])
    preparation = fit_preparation(table)
    X, notes = preparation.apply(table)
    assert preparation.feature_names == ["x", "x is missing", "z"]
    np.testing.assert_array_equal(X, [[1, 0, 1], [3, 1, 2], [3, 0, 4], [5, 0, 3]])
    assert notes == []
    assert "median 3" in plan_of(preparation, "x").words


def test_categories_rare_levels_and_unseen_ones():
    cities = ["Rome"] * 5 + ["Oslo"] * 4 + ["Lima"]
    preparation = fit_preparation(table_of(city=cities))
    assert preparation.feature_names == ["city = Oslo", "city = Rome", "city = (other)"]
    X, _ = preparation.apply(table_of(city=["Rome", "Oslo", "Quito"]))
    np.testing.assert_array_equal(X, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


def test_two_levels_are_one_feature_and_the_unknown_lies_between():
    preparation = fit_preparation(table_of(sex=["f", "m"] * 5))
    X, notes = preparation.apply(table_of(sex=["m", "f", "x", ""], other=[1, 2, 3, 4]))
    np.testing.assert_array_equal(X[:, 0], [1, 0, 0.5, 0.5])
    assert any("'x'" in note for note in notes)
    assert any("missing" in note for note in notes)


def test_dates_give_days_month_and_weekday():
    dates = ["2020-01-01", "2020-06-15", "2021-03-01", ""]
    table = table_of(when=dates, z=[1, 2, 4, 3])
    preparation = fit_preparation(table)
    assert preparation.feature_names[:4] == ["when (days)", "when (month)", "when (weekday)", "when is missing"]
    X, _ = preparation.apply(table)
    np.testing.assert_array_equal(X[0, :4], [18262, 1, 2, 0])  # 1 January 2020 was a Wednesday
    np.testing.assert_array_equal(X[2, 1:4], [3, 0, 0])
    assert X[3, 3] == 1


@pytest.mark.parametrize(
    ("dates", "style"),
    [
        (["31.12.2020", "01.02.2021"], "%d.%m.%Y"),
        (["12/31/2020", "02/01/2021"], "%m/%d/%Y"),
        (["31/12/2020", "1/2/2021"], "%d/%m/%Y"),
    ],
)
def test_date_styles(dates, style):
    assert plan_of(fit_preparation(table_of(when=dates)), "when").style == style


def test_decimal_commas():
    table = parse_table(b"a;b\n1,5;1\n2,5;2\n4;4\n", "x")
    preparation = fit_preparation(table)
    np.testing.assert_array_equal(preparation.apply(table)[0][:, 0], [1.5, 2.5, 4.0])


def test_useless_columns_are_left_out_and_why_is_said():
    n = 20
    table = table_of(
        id=range(1, n + 1), const=["k"] * n, one=[7] * n, empty=[""] * n, note=[f"t{i}" for i in range(n)],
        x=np.linspace(0, 1, n) ** 2, user_id=np.random.default_rng(0).permutation(n) * 7,
    )  # fmt: skip
    preparation = fit_preparation(table)
    assert preparation.feature_names == ["x"]
    for name, words in {
        "id": "row number",
        "const": "'k'",
        "one": "always 7",
        "empty": "missing",
        "note": "20 different",
    }.items():
        assert words in plan_of(preparation, name).words


def test_nothing_left():
    with pytest.raises(InvalidInputError, match="No column is left"):
        fit_preparation(table_of(a=["k"] * 5, y=[0, 1, 0, 1, 0]), "y")


def test_text_where_numbers_were_is_missing_or_refused_if_there_is_nothing_else():
    preparation = fit_preparation(table_of(x=[1, 2, 4]))
    X, notes = preparation.apply(table_of(x=[1, "many", 3]))
    assert X[:, 0].tolist() == [1, 2, 3]
    assert "row 2 has 'many'" in notes[0]
    with pytest.raises(InvalidInputError, match=r"1234\.5.*row 1 has 'many'"):
        preparation.apply(table_of(x=["many", "few"]))


def test_round_trip_through_json():
    table = table_of(x=[1, "", 3, 9], c=["a", "b", "b", "a"], d=["2020-01-01", "2021-01-01", "2022-01-01", ""])
    preparation = fit_preparation(table)
    stored = json.loads(json.dumps(preparation.to_json()))
    assert Preparation.from_json(stored) == preparation
    stored[0]["kind"] = "code"
    with pytest.raises(FileFormatError):
        Preparation.from_json(stored)
    with pytest.raises(FileFormatError):
        Preparation.from_json([{"name": "x"}])


def test_labels_are_numbers_where_they_are_numbers():
    def of(*values):
        return labels_of(np.array(values, dtype=object), "y")[0]

    assert of("1", "2", "1", "2").dtype == np.int64
    assert of("0.5", "1", "1", "0.5").tolist() == [0.5, 1.0, 1.0, 0.5]
    assert of("yes", "no", "no", "yes").tolist() == ["yes", "no", "no", "yes"]


def test_targets_that_are_no_classes():
    def refuse(values, words):
        with pytest.raises(InvalidInputError, match=words):
            labels_of(np.array(values, dtype=object), "y")

    refuse(["1"] * 5, "only the value 1")
    refuse([""] * 5, "no value")
    refuse([str(i / 7) for i in range(60)], "quantity or a key")
    refuse(["a", "a", "b"], "'b' .* once")


def test_rows_without_a_label_are_left_out():
    labels, known, notes = labels_of(np.array(["a", "", "b", "a", "b", "NA"], dtype=object), "y")
    assert labels.tolist() == ["a", "b", "a", "b"]
    assert known.tolist() == [True, False, True, True, True, False]
    assert "2 row(s)" in notes[0]


# Which features belong to one column: what explanations are told agrees with what the preparation makes.


def mixed_table():
    rng = np.random.default_rng(0)
    age = [None if i % 7 == 0 else str(20 + i) for i in range(N)]
    return Table(
        {
            "age": np.array(age, dtype=object),
            "plan": np.array([("basic", "plus", "family")[i % 3] for i in range(N)], dtype=object),
            "sex": np.array([("f", "m", None)[i % 3] for i in range(N)], dtype=object),
            "since": np.datetime64("2018-01-01") + rng.integers(0, 900, N),
            "country": np.array(["CH"] * N, dtype=object),
        },
        N,
    )


def test_some_rows_of_a_table_are_taken_when_they_are_asked_for():
    table = mixed_table()
    some = table.rows(np.arange(N) % 2 == 0).rows(np.array([5, 1]))
    assert (some.n_rows, some.names, "age" in some.columns, "other" in some.columns) == (2, table.names, True, False)
    assert [columns.tolist() for columns in some.columns.values()] == [
        values[[10, 2]].tolist() for values in table.columns.values()
    ]
    table.columns["plan"][2] = "changed"
    assert some.columns["plan"][1] == "changed"  # no copy was made
    assert table.rows(np.ones(N, dtype=bool)) is table


def test_groups_cover_every_feature_once():
    preparation = fit_preparation(mixed_table())
    groups = preparation.groups
    assert [group.name for group in groups] == ["age", "plan", "sex", "since"]
    assert [j for group in groups for j in group.features] == list(range(len(preparation.feature_names)))
    for group in groups:
        assert len(group.parts) == len(group.features)
        assert (group.parts[-1] == "missing") == (group.name in ("age", "sex"))


def test_named_values_are_what_the_preparation_makes_of_them():
    table = mixed_table()
    preparation = fit_preparation(table)
    rows, _ = preparation.apply(table)
    for group in preparation.groups:
        for i in range(N):
            cell = table.columns[group.name][i]
            said = group.row_text(rows[i])
            assert said == ("missing" if cell is None else str(cell))


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


@pytest.fixture(scope="module")
def asked():
    """A function that lets a database compute an expression of a text."""
    with ExitStack() as opened:

        @cache
        def connection(dialect):
            if dialect == "sqlite":
                return opened.enter_context(closing(sqlite3.connect(":memory:")))
            duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
            return opened.enter_context(closing(duckdb.connect()))

        def ask(dialect, expression, text):
            statement = f"SELECT {expression} FROM (SELECT {literal(text)} AS x) AS one"
            return connection(dialect).execute(statement).fetchone()[0]

        yield ask


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
@pytest.mark.parametrize("style", ASKED_DATE_STYLES)
def test_dates(dialect, style, asked):
    for moment in MOMENTS:
        text = moment.isoformat(sep=" ") if style == "iso" else moment.strftime(style)
        found = asked(dialect, date("x", style, dialect), text)
        found = datetime.datetime.fromisoformat(found) if isinstance(found, str) else found
        assert found == to_date(text, style)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
@pytest.mark.parametrize("style", [mark + unit for mark in MARKS for unit in ("", "$", "%")])
def test_numbers(dialect, style, asked):
    for text in [*NUMBERS, example(style)]:
        found = asked(dialect, number("x", bare_number("x", style, dialect), style, dialect), text)
        assert found == to_number(text, style), text


def test_formats_that_sql_cannot_read_are_refused():
    with pytest.raises(InvalidInputError, match="cannot be read in SQL"):
        date("x", "%j of %Y", "sqlite")
