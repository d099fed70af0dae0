"""Exports of a table model to Python, C, ONNX and SQL take raw rows."""

import csv
import datetime
import json
import re
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest

from networks import COMPILER, needs_compiler

pytest.importorskip("click")

from click.testing import CliRunner

from pbdn import PBDNClassifier
from pbdn.cli.app import app
from pbdn.cli.table_model import load_model
from pbdn.errors import InvalidInputError
from pbdn.export.c import comment, string_literal
from pbdn.export.sql_text import identifier
from pbdn.tables import Preparation, read_table
from pbdn.tables.column_to_numbers import ColumnPlan
from pbdn.tables.preparation_in_c import to_c_with_preparation

DAY = datetime.timedelta(days=1)

NAMES = ["key", "größe", "city", "sex", "joined", "double", "label", "shop", "buys"]


def invoke(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A semicolon table with decimal commas, dates of two styles, rare, missing and telling values; its rows as dicts of text."""
    folder = tmp_path_factory.mktemp("exports")
    rng = np.random.default_rng(2)
    rows = []
    for i in range(250):
        day = datetime.datetime(2019, 3, 5, 7) + datetime.timedelta(hours=int(rng.integers(20_000)))
        city = rng.choice(["Oslo", 'Rome "*/" ??/', "O'Hara", f"rare{i}"], p=[0.4, 0.3, 0.25, 0.05])
        rows.append(
            {
                "key": f"k{i}",
                "größe": "NA" if i % 11 == 0 else f"{rng.normal(40, 10):.2f}".replace(".", ","),
                "city": "" if i % 23 == 0 else str(city),
                "sex": str(rng.choice(["f", "m"])),
                "joined": "" if i % 17 == 0 else day.strftime("%d.%m.%Y"),
                "double": day.isoformat(sep=" "),
                "label": str(rng.choice(["a7", "b8", "c9"])),
                "shop": "" if i % 29 == 0 else f"O'Shop {i % 60}",
                "buys": str(int(rng.random() < (0.9 if i % 60 < 30 else 0.1))),
            }
        )
    with open(folder / "t.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, NAMES, delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    options = ["--inference", "map", "--criterion", "aic_inputs", "--max-depth", 2, "-q"]
    invoke("fit", folder / "t.csv", "-t", "buys", "-o", folder / "m.pbdn", *options)
    model = load_model(folder / "m.pbdn")
    features, _ = model.features(read_table(folder / "t.csv"))
    kinds = {plan.name: plan.kind for plan in model.preparation.columns}
    assert kinds == {"key": "dropped", "größe": "number", "joined": "date", "double": "date"} | dict.fromkeys(
        ["city", "sex", "label", "shop"], "category"
    )
    assert "shop: share of 1" in model.preparation.feature_names
    return folder, rows, np.asarray(features), model


def test_python_takes_raw_rows(fitted):
    folder, rows, features, model = fitted
    module = {}
    exec(invoke("export", folder / "m.pbdn", "--to", "python", "-o", "-"), module)
    np.testing.assert_allclose([module["prepare"](row) for row in rows], features, rtol=1e-14)
    expected = model.estimator.network_.predict(features)
    np.testing.assert_allclose([module["predict_proba"](row) for row in rows], expected, atol=1e-12)


def test_python_takes_its_own_types(fitted):
    folder, rows, _, _ = fitted
    module = {}
    exec(invoke("export", folder / "m.pbdn", "--to", "python", "-o", "-"), module)
    for row in rows[:30]:
        typed = dict(row)
        typed["größe"] = None if row["größe"] == "NA" else float(row["größe"].replace(",", "."))
        typed["joined"] = datetime.datetime.strptime(row["joined"], "%d.%m.%Y").date() if row["joined"] else None
        typed["double"] = datetime.datetime.fromisoformat(row["double"])
        assert module["prepare"](typed) == module["prepare"](row)
    with pytest.raises(KeyError, match="city"):
        module["prepare"]({name: value for name, value in rows[0].items() if name != "city"})


@needs_compiler
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_c_takes_raw_rows(fitted, tmp_path, language):
    """Members are named after the columns, whatever these are called; the header is C++ too."""
    folder, rows, features, model = fitted
    text = invoke("export", folder / "m.pbdn", "--to", "c", "-o", "-")
    members = ["groe", "city", "sex", "joined", "double_", "label", "shop"]
    assert re.findall(r"^    (?:double |const char \*)(\w+); /\* ", text, re.M) == members
    (tmp_path / "m.h").write_text(text, encoding="utf-8")
    row, made = rows[5], []
    for member, name in zip(members, NAMES[1:-1], strict=True):
        if name != "größe":
            made.append(f"row.{member} = {string_literal(row[name])};")
        else:
            made.append(f"row.{member} = {row[name].replace(',', '.')};")
    (tmp_path / f"main.{language}").write_text(
        '#include <stdio.h>\n#include "m.h"\nint main(void) { pbdn_row row; double p[2]; '
        + " ".join(made)
        + ' pbdn_predict_proba(&row, p); printf("%.17g", p[1]); return 0; }\n'
    )
    standard = {"c": "-std=c99", "cpp": "-std=c++11"}[language]
    flags = [standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-trigraphs"]
    built = subprocess.run([COMPILER, *flags, f"main.{language}", "-o", "main", "-lm"], cwd=tmp_path, check=False)
    if built.returncode and language == "cpp" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("no C++ compiler found")
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(model.estimator.network_.predict(features)[5, 1], abs=1e-12)


def test_names_cannot_leave_their_comment():
    hostile = ["*/ int x; /*", "??/", "\\", "a\nb\u2028c\u202ed\ud800", "**//**//", "Zürich, 東京"]
    for text in hostile:
        line = comment(text)
        assert not any(mark in f"{line} " for mark in ("*/", "/*", "??", "\\", "\n", "\u2028"))
        line.encode()
    assert comment(hostile[3]) == "a?b?c?d?"
    assert comment(hostile[5]) == hostile[5]
    with pytest.raises(InvalidInputError, match="NUL"):
        to_c_with_preparation(Preparation((ColumnPlan("a", "category", levels=("x", "\0")),)), None, [0, 1])


def test_onnx_takes_raw_rows(fitted, tmp_path):
    """A column may have the name of an output."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    folder, rows, features, model = fitted
    result = CliRunner().invoke(app, ["export", str(folder / "m.pbdn"), "--to", "onnx", "-o", str(tmp_path / "m.onnx")])
    assert "give 'joined', 'double' as days since 1970" in result.stderr
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    said = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    names = {one["column"]: one["input"] for one in said}
    assert names["label"] == "label_2"
    words = ("city", "sex", "label", "shop")
    inputs = {names[name]: np.array([[row[name]] for row in rows], dtype=object) for name in words}
    size = [np.nan if row["größe"] == "NA" else float(row["größe"].replace(",", ".")) for row in rows]
    inputs[names["größe"]] = np.array(size, dtype=np.float32)[:, None]
    for name, form in (("joined", "%d.%m.%Y"), ("double", "%Y-%m-%d %H:%M:%S")):
        dates = [datetime.datetime.strptime(row[name], form) if row[name] else None for row in rows]
        days = [np.nan if date is None else (date - datetime.datetime(1970, 1, 1)) / DAY for date in dates]
        inputs[names[name]] = np.array(days)[:, None]
    probability = session.run(None, inputs)[1]
    np.testing.assert_allclose(probability, model.estimator.network_.predict(features), atol=1e-5)


def test_plain_numbers_keep_one_array(tmp_path):
    """Tables of numbers alone: missing ones have the stand-ins of `predict_proba`, in every language."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2))
    y = (X.sum(axis=1) > 0).astype(int)
    model = PBDNClassifier(max_depth=1, criterion="aic_inputs", random_state=0).fit(X, y)
    rows = np.array([[0.5, 1.0], [np.nan, 1.0], [-0.5, np.nan]])
    with pytest.warns(UserWarning, match="missing"):
        expected = model.predict_proba(rows)
    module = {}
    exec(model.to_python(), module)
    np.testing.assert_allclose([module["predict_proba"](row) for row in rows.tolist()], expected, atol=1e-12)
    np.testing.assert_allclose(module["predict_proba"]([None, 1.0]), expected[1], atol=1e-12)
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE data (x0 REAL, x1 REAL)")
    base.executemany("INSERT INTO data VALUES (?, ?)", [[None if x != x else x for x in row] for row in rows.tolist()])
    base.create_function("exp", 1, np.exp)
    base.create_function("ln", 1, np.log)
    scored = [row[:2] for row in base.execute(model.to_sql("sqlite"))]
    base.close()
    np.testing.assert_allclose(scored, expected, atol=1e-9)
    if COMPILER is not None:
        (tmp_path / "m.h").write_text(model.to_c())
        (tmp_path / "main.c").write_text(
            '#include <stdio.h>\n#include "m.h"\nint main(void) { double x[] = {NAN, 1.0}, p[2]; '
            'pbdn_predict_proba(x, p); printf("%.17g", p[1]); return 0; }\n'
        )
        subprocess.run([COMPILER, "-std=c99", "main.c", "-o", "main", "-lm"], cwd=tmp_path, check=True)
        done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
        assert float(done.stdout) == pytest.approx(expected[1, 1], abs=1e-12)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.to_onnx(dtype=np.float64), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"features": rows})[1], expected, atol=1e-9)
    with pytest.raises(InvalidInputError, match="stand_ins has 1 numbers"):
        model.to_python(stand_ins=[1.0])


def test_places_are_checked_before_the_fit(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
    for place, said in ((tmp_path / "no" / "m.pbdn", "there is no folder"), (tmp_path, "it is a folder")):
        arguments = ["fit", str(tmp_path / "t.csv"), "-t", "y", "-o", str(place), "--inference", "map"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        assert said in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_report_that_cannot_be_written_leaves_no_model(tmp_path, monkeypatch):
    import errno

    from pbdn.files import atomic

    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i % 9},{i % 2}\n" for i in range(40)))
    stage = atomic._stage

    def full(target, data):
        if target.suffix == ".html":
            raise OSError(errno.ENOSPC, "No space left on device")
        return stage(target, data)

    monkeypatch.setattr(atomic, "_stage", full)
    arguments = ["fit", "t.csv", "-t", "y", "--inference", "map", "--report", "r.html"]
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "No space left" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


# SQL of a fitted table model scores the raw table, dates, categories and missing values included.

PEOPLE = ["key", "age", "city", "sex", "joined", "buys"]


@pytest.fixture(scope="module")
def people(tmp_path_factory):
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
        csv.writer(stream).writerows([PEOPLE, *[["" if cell is None else cell for cell in row] for row in rows]])
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


def test_people_in_sqlite(people):
    folder, rows, expected = people
    connection = sqlite3.connect(":memory:")
    connection.create_function("exp", 1, np.exp)
    connection.create_function("ln", 1, np.log)
    connection.execute("CREATE TABLE people (key TEXT, age REAL, city TEXT, sex TEXT, joined TEXT, buys INTEGER)")
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
    found = {row[0]: row[1:3] for row in connection.execute(statement(folder, "sqlite"))}
    connection.close()
    np.testing.assert_allclose([found[row[0]] for row in rows], expected, atol=1e-9)


def test_people_in_duckdb(people):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    folder, rows, expected = people
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
        day = datetime.datetime(2019, 3, 5, 7) + datetime.timedelta(hours=int(rng.integers(20_000)))
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


def test_dates_need_a_dialect(people):
    result = CliRunner().invoke(app, ["export", str(people[0] / "m.pbdn"), "--to", "sql"])
    assert result.exit_code == 2
    assert "--dialect" in result.stderr
