"""SQL of a fitted table model scores the raw table, dates, categories and missing values included."""

import csv
import sqlite3
from datetime import datetime, timedelta

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

from pbdn.cli.app import app
from pbdn.cli.table_model import load_model
from pbdn.export.sql_text import identifier
from pbdn.tables import read_table

NAMES = ["key", "age", "city", "sex", "joined", "buys"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql")
    rng = np.random.default_rng(1)
    rows = []
    for i in range(200):
        age = None if i % 11 == 0 else round(float(rng.normal(40, 10)), 1)
        city = rng.choice(["Oslo", "Rome", "O'Hara", f"rare{i}"], p=[0.4, 0.3, 0.25, 0.05])
        joined = None if i % 17 == 0 else str(np.datetime64("2019-03-05") + int(rng.integers(900)))
        sex = rng.choice(["f", "m"])
        rows.append([f"k{i}", age, None if i % 23 == 0 else str(city), str(sex), joined, int(rng.random() < 0.5)])
    with open(folder / "t.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([NAMES, *[["" if cell is None else cell for cell in row] for row in rows]])
    arguments = [
        "fit",
        folder / "t.csv",
        "-t",
        "buys",
        "-o",
        folder / "m.pbdn",
        "--inference",
        "map",
        "--max-depth",
        2,
        "-q",
    ]
    assert CliRunner().invoke(app, [str(a) for a in arguments]).exit_code == 0
    model = load_model(folder / "m.pbdn")
    features, _ = model.features(read_table(folder / "t.csv"))
    assert len(model.preparation.feature_names) > 10
    return folder, rows, model.estimator.network_.predict(np.asarray(features))


def statement(folder, dialect):
    arguments = ["export", folder / "m.pbdn", "--to", "sql", "--dialect", dialect, "--sql-table", "people"]
    result = CliRunner().invoke(app, [*map(str, arguments), "--keep", "key", "-o", "-", "-q"])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_sqlite(fitted):
    folder, rows, expected = fitted
    connection = sqlite3.connect(":memory:")
    connection.create_function("exp", 1, np.exp)
    connection.create_function("ln", 1, np.log)
    connection.execute("CREATE TABLE people (key TEXT, age REAL, city TEXT, sex TEXT, joined TEXT, buys INTEGER)")
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
    found = {row[0]: row[1:3] for row in connection.execute(statement(folder, "sqlite"))}
    connection.close()
    np.testing.assert_allclose([found[row[0]] for row in rows], expected, atol=1e-9)


def test_duckdb(fitted):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    folder, rows, expected = fitted
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (key TEXT, age DOUBLE, city TEXT, sex TEXT, joined DATE, buys INTEGER)")
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
    found = {row[0]: row[1:3] for row in connection.execute(statement(folder, "duckdb")).fetchall()}
    connection.close()
    np.testing.assert_allclose([found[row[0]] for row in rows], expected, atol=1e-9)


TEXTS = ["key", "größe", "price", "city", "joined", "seen", "left", "buys"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A table whose cells are texts as people write them, and what `predict` makes of them."""
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(3)
    rows = []
    for i in range(200):
        day = datetime(2019, 3, 5, 7) + timedelta(hours=int(rng.integers(20_000)))
        size = "n/a" if i % 11 == 0 else f"{rng.normal(40, 10):.3f}".replace(".", ",")
        price = ["", "NA", " ? ", "None"][i % 4] if i % 13 == 0 else f"{rng.normal(4, 2):.3g}"
        price = [f" {price} ", f"{price}e0" if price[-1:].isdigit() else price, price][i % 3]
        city = "-" if i % 23 == 0 else [" Zürich", "O'Hara ", "Rome"][int(rng.integers(3))]
        joined = ["", "."][i % 2] if i % 17 == 0 else f"{day.day}.{day:%m.%Y}"
        zone = ["", "+02:00", "Z"][i % 3]
        rows.append([f"k{i}", size, price, city, joined, f"{day.isoformat(' ')}{zone}", f"{day:%b %d, %Y}", str(i % 2)])
    with open(folder / "t.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, delimiter=";").writerows([TEXTS, *rows])
    arguments = ["fit", folder / "t.csv", "-t", "buys", "-o", folder / "m.pbdn", "--inference", "map", "-q"]
    result = CliRunner().invoke(
        app, [str(a) for a in [*arguments, "--criterion", "aic_inputs", "--max-depth", 1, "--holdout", 0]]
    )
    assert result.exit_code == 0, result.output
    model = load_model(folder / "m.pbdn")
    kinds = {plan.name: plan.kind for plan in model.preparation.columns}
    assert kinds == {"key": "dropped", "größe": "number", "price": "number", "city": "category"} | dict.fromkeys(
        ["joined", "seen", "left"], "date"
    )
    features, _ = model.features(read_table(folder / "t.csv"))
    return folder, rows, model.estimator.network_.predict(np.asarray(features))


def _create():
    return f"CREATE TABLE people ({', '.join(f'{identifier(name)} TEXT' for name in TEXTS)})"


def test_texts_in_sqlite(written):
    folder, rows, expected = written
    connection = sqlite3.connect(":memory:")
    connection.create_function("exp", 1, np.exp)
    connection.create_function("ln", 1, np.log)
    connection.execute(_create())
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    found = {row[0]: row[1:3] for row in connection.execute(statement(folder, "sqlite"))}
    np.testing.assert_allclose([found[row[0]] for row in rows], expected, atol=1e-9)
    connection.close()


def test_texts_in_duckdb(written):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    folder, rows, expected = written
    connection = duckdb.connect()
    connection.execute(_create())
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    found = {row[0]: row[1:3] for row in connection.execute(statement(folder, "duckdb")).fetchall()}
    np.testing.assert_allclose([found[row[0]] for row in rows], expected, atol=1e-9)
    connection.close()


def test_dates_need_a_dialect(fitted):
    result = CliRunner().invoke(app, ["export", str(fitted[0] / "m.pbdn"), "--to", "sql"])
    assert result.exit_code == 2
    assert "--dialect" in result.stderr
