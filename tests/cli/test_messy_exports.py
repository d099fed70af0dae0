"""Exports read the cells of a messy table as `pbdn predict` does, from text and from a database's own types."""

import json
import re
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from messy_tables import csv_bytes
from networks import COMPILER, needs_compiler

pytest.importorskip("click")

from click.testing import CliRunner

from pbdn.cli.app import app
from pbdn.cli.table_model import load_model
from pbdn.export.c import string_literal
from pbdn.export.plan import number
from pbdn.export.sql_text import identifier, literal
from pbdn.tables import parse_table, read_table
from pbdn.tables.table import numbers, seconds

N = 200
STRANGE = ["", "n/a", "unknown", "inf", "12", "-3.5", "+7", ".5", "4.", "1e3", "1,5", "1,23", "1,234", "1,2345", "0,500", "1.234",
           "1.234,5", "12,34,567", "12,345.678", "1,234,567", "$5", "-$5", "$-5", "($5.25)", "$ 1,000.50", "5 €", "50%", "50 %",
           "7:05", "07:05", "14:05:30", "2:05 pm", "12:30 AM", "25:99", "2020-02-29", "2021-02-29", "0000-00-00", "2020-13-01",
           "2020-05-06 07:08", "2020-05-06T07:08:09", "06.05.2020", "6.5.2020", "31.02.2020", "5/6/2020", "6 May 2020", "now",
           "Oslo", "rare", "NA", "null", "true", "True", "FALSE", "no", "\u22125", "\u22121,234.5", "51-"]  # fmt: skip


def messy_columns():
    rng = np.random.default_rng(11)
    money = rng.normal(3000, 9000, size=N).round(2)
    minutes = rng.integers(24 * 60, size=N)
    days = [np.datetime64("2019-03-05") + int(day) for day in rng.integers(900, size=N)]
    german = [f"{value.item():%d.%m.%Y}" for value in days]
    american = [f"{value.item():%m/%d/%Y %H:%M}" for value in (day + np.timedelta64(7, "h") for day in days)]
    columns = {
        "key": [f"k{i}" for i in range(N)],
        "plain": [f"{value:.3f}" for value in rng.normal(size=N)],
        "amount": [f"{value:,.1f}" for value in rng.gamma(1, 9000, size=N)],
        "price": [f"(${-value:,.2f})" if value < 0 else f"${value:,.2f}" for value in money],
        "euros": [f"{value:,.2f} €".translate(str.maketrans(",.", ".,")) for value in money],
        "share": [f"{value:.1f}%" for value in 100 * rng.random(N)],
        "at": [f"{m // 60:02d}:{m % 60:02d}" for m in minutes],
        "half": [f"{(m // 60 - 1) % 12 + 1}:{m % 60:02d} {'AP'[m // 720]}M" for m in minutes],
        "zip": [f"{value:05d}" for value in rng.choice([2139, 501, 94110], size=N)],
        "iso": [str(day) for day in days],
        "joined": german,
        "seen": american,
        "month": [f"{value.item():%d %b %Y}" for value in days],
        "city": rng.choice(["Oslo", "Rome", "O'Hara"], size=N).tolist(),
        "member": rng.choice(["Yes", "No"], size=N).tolist(),
    }
    for at, name in enumerate(columns):
        for row in range(at, N, 41):
            columns[name][row] = columns[name][row] if name == "key" else ["", "unknown"][row % 2]
    columns["y"] = rng.choice(["a", "b"], size=N).tolist()
    return columns


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model, a folder, and rows: those of the table and every strange cell in every column."""
    folder = tmp_path_factory.mktemp("messy")
    columns = messy_columns()
    (folder / "t.csv").write_bytes(csv_bytes(columns))
    fit = ["fit", folder / "t.csv", "-t", "y", "-o", folder / "m.pbdn", "--max-depth", 1, "-q"]
    fit += ["--criterion", "aic_inputs"]
    result = CliRunner().invoke(app, [str(argument) for argument in fit])
    assert result.exit_code == 0, result.output
    for i, strange in enumerate(STRANGE):
        for name, cells in columns.items():
            cells.append(f"s{i}" if name == "key" else strange)
    (folder / "more.csv").write_bytes(csv_bytes(columns))
    model = load_model(folder / "m.pbdn")
    kinds = {plan.name: plan.kind for plan in model.preparation.columns}
    dates, words = ("iso", "joined", "seen", "month"), ("zip", "city", "member")
    numbers = ("plain", "amount", "price", "euros", "share", "at", "half")
    assert kinds == {"key": "dropped", **dict.fromkeys(numbers, "number"), **dict.fromkeys(dates, "date"),
                     **dict.fromkeys(words, "category")}  # fmt: skip
    table = read_table(folder / "more.csv")
    features, _ = model.features(table)
    return folder, columns, np.asarray(features), model


def exported(folder, kind, *options):
    arguments = ["export", folder / "m.pbdn", "--to", kind, *options, "-o", "-", "-q"]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def statement(folder, dialect):
    """The prepared features of every row, from the exported statement."""
    text = exported(folder, "sql", "--dialect", dialect, "--sql-table", "people", "--keep", "key")
    return text, text[: text.index(",\npbdn_1 ")] + " SELECT * FROM pbdn_prepared"


def agree(found, columns, features, model, without=()):
    """Features that a database made are those of the model; ``without`` are rows that it refuses in other ways."""
    by_key = {row[0]: [float(cell) for cell in row[1:]] for row in found}
    names = model.preparation.feature_names
    for i, key in enumerate(columns["key"]):
        if key not in without:
            got = dict(zip(names, by_key[key], strict=True))
            expected = dict(zip(names, features[i].tolist(), strict=True))
            assert got == pytest.approx(expected, rel=1e-9, abs=1e-7), (key, columns["plain"][i])


def test_python(fitted):
    folder, columns, features, model = fitted
    module, text = {}, exported(folder, "python")
    needed = re.findall(r"^ *(?:import|from) (\w+)", text, re.M)
    assert set(needed) <= set(sys.stdlib_module_names)  # the module runs where nothing is installed
    exec(text, module)
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    np.testing.assert_array_equal([module["prepare"](row) for row in rows], features)
    probability = model.estimator.network_.predict(features)
    np.testing.assert_allclose([module["predict_proba"](row) for row in rows], probability, atol=1e-12)
    assert module["unreadable"](rows[0]) == {}
    odd = rows[0] | {"price": "5 apples", "joined": "2020/01/01", "at": ""}
    assert module["unreadable"](odd) == {"price": "$1,234.5", "joined": "31.03.2024"}


def typed_columns(columns, model):
    """The cells of the columns in use as C and ONNX take them: numbers as floats, dates as seconds, texts as they are."""
    read = {"number": numbers, "date": seconds}
    for plan in model.preparation.used:
        cells = np.array(columns[plan.name], dtype=object)
        yield plan, read[plan.kind](cells, plan.style)[0] if plan.kind in read else cells


@needs_compiler
def test_c(fitted, tmp_path):
    folder, columns, features, model = fitted
    cells = []
    for plan, typed in typed_columns(columns, model):
        if plan.kind == "number":
            cells.append(["NAN" if x != x else number(x) for x in typed])
        else:  # dates are read by the header itself
            cells.append(["NULL" if not text else string_literal(text) for text in columns[plan.name]])
    rows = ",\n".join("{" + ", ".join(row) + "}" for row in zip(*cells, strict=True))
    (tmp_path / "model.h").write_text(exported(folder, "c"), encoding="utf-8")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "model.h"\nstatic const pbdn_row rows[] = {'
        + rows
        + """};
        int main(void)
        {
            double x[PBDN_N_FEATURES], p[PBDN_N_CLASSES];
            for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
                pbdn_prepare(rows + i, x);
                pbdn_predict_proba(rows + i, p);
                for (int j = 0; j < PBDN_N_FEATURES; ++j) printf("%.17g ", x[j]);
                for (int c = 0; c < PBDN_N_CLASSES; ++c) printf("%.17g ", p[c]);
                printf("%d\\n", pbdn_predict(rows + i));
            }
            return 0;
        }
        """
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-trigraphs"]
    subprocess.run([COMPILER, *flags, "main.c", "-o", "main", "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    found = np.array([line.split() for line in done.stdout.splitlines()], dtype=float)
    names = model.preparation.feature_names
    for got, expected, text in zip(found, features, columns["plain"], strict=True):
        got, expected = (dict(zip(names, row, strict=False)) for row in (got.tolist(), expected.tolist()))
        assert got == pytest.approx(expected, rel=1e-12, abs=1e-9), text
    probability = model.estimator.network_.predict(features)
    np.testing.assert_allclose(found[:, len(names) : -1], probability, atol=1e-9)
    np.testing.assert_array_equal(found[:, -1], probability.argmax(axis=1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_onnx(fitted, dtype):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    _, columns, features, model = fitted
    session = runtime.InferenceSession(model.estimator.to_onnx(dtype=dtype), providers=["CPUExecutionProvider"])
    inputs = {}
    for plan, typed in typed_columns(columns, model):
        if plan.kind == "category":
            inputs[plan.name] = typed.astype(str).astype(object)[:, None]
        else:
            inputs[plan.name] = (typed / 86400.0 if plan.kind == "date" else typed.astype(dtype))[:, None]
    label, probability, _ = session.run(None, inputs)
    expected = model.estimator.network_.predict(features)
    np.testing.assert_allclose(probability, expected, atol=1e-6 if dtype == np.float64 else 1e-4)
    if dtype == np.float64:
        np.testing.assert_array_equal(label, model.estimator.classes_[expected.argmax(axis=1)])
    said = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    assert [one["column"] for one in said] == [plan.name for plan in model.preparation.used]
    assert said[-3]["takes"].startswith("days since 1970")
    empty = {name: cells[:0] for name, cells in inputs.items()}
    assert session.run(None, empty)[1].shape == (0, 2)


def test_sqlite(fitted):
    folder, columns, features, model = fitted
    connection = sqlite3.connect(":memory:")
    connection.create_function("exp", 1, np.exp)
    connection.create_function("ln", 1, np.log)
    connection.execute(f"CREATE TABLE people ({', '.join(f'{identifier(name)} TEXT' for name in columns)})")
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO people VALUES ({marks})", zip(*columns.values(), strict=True))
    whole, prepared = statement(folder, "sqlite")
    agree(connection.execute(prepared).fetchall(), columns, features, model)
    found = {row[0]: row[1:3] for row in connection.execute(whole)}
    connection.close()
    np.testing.assert_allclose(
        [found[key] for key in columns["key"]], model.estimator.network_.predict(features), atol=1e-6
    )


def test_duckdb(fitted):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    folder, columns, features, model = fitted
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people ({', '.join(f'{identifier(name)} TEXT' for name in columns)})")
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO people VALUES ({marks})", list(zip(*columns.values(), strict=True)))
    agree(connection.execute(statement(folder, "duckdb")[1]).fetchall(), columns, features, model)
    connection.close()


def test_postgresql(fitted, postgres):
    folder, columns, features, model = fitted
    rows = list(zip(*columns.values(), strict=True))
    refused = {row[0] for row in rows if {"2021-02-29", "31.02.2020"} & set(row)}  # the server's own error
    values = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in rows if row[0] not in refused)
    table = f"CREATE TABLE people ({', '.join(f'{identifier(name)} text' for name in columns)});"
    found = postgres(f"{table} INSERT INTO people VALUES {values};\n{statement(folder, 'postgresql')[1]};")
    agree(found, columns, features, model, refused)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "postgresql"])
def test_own_types(fitted, dialect, request):
    """Numbers and dates in the types of a database are taken as they are, however they were written in training."""
    folder, columns, features, model = fitted
    types = dict.fromkeys(["plain", "amount", "price", "euros", "share"], "DOUBLE PRECISION")
    types |= dict.fromkeys(["iso", "joined", "month"], "DATE")
    types |= {"seen": "TIMESTAMP", "at": "TIME", "member": "BOOLEAN"}
    numeric = dict(zip(model.preparation.feature_names, features.T, strict=True))
    cells = {}
    for name, kind in types.items():
        if kind == "DOUBLE PRECISION":
            cells[name] = numeric[name].tolist()
        elif name == "member":
            words = ["FALSE", "TRUE"] if dialect != "sqlite" else [0, 1]
            cells[name] = [words[cell == "Yes"] for cell in columns[name]]
        elif name == "at":
            cells[name] = [f"{int(m) // 60:02d}:{int(m) % 60:02d}:00" for m in (60 * numeric[name]).round()]
        else:
            days = numeric[f"{name} (days)"]
            stamps = (days * 86400).round().astype("datetime64[s]")
            cells[name] = [str(stamp).replace("T", " ")[: 10 if kind == "DATE" else 19] for stamp in stamps]
    keep = [i for i in range(N) if all(columns[name][i] not in ("", "unknown") for name in columns)]
    rows = [[cells.get(name, columns[name])[i] for name in columns] for i in keep]
    fields = ", ".join(identifier(name) + " " + types.get(name, "TEXT") for name in columns)
    table = f"CREATE TABLE typed ({fields});"
    values = ", ".join(
        "(" + ", ".join(literal(c) if isinstance(c, str) else repr(c) for c in row) + ")" for row in rows
    )
    insert = f"INSERT INTO typed VALUES {values};"
    query = statement(folder, dialect)[1].replace('"people"', '"typed"')
    if dialect == "sqlite":
        connection = sqlite3.connect(":memory:")
        connection.executescript(table + insert)
        found = connection.execute(query).fetchall()
        connection.close()
    elif dialect == "duckdb":
        connection = pytest.importorskip("duckdb", reason="duckdb is not installed").connect()
        connection.execute(table + insert)
        found = connection.execute(query).fetchall()
        connection.close()
    else:
        found = request.getfixturevalue("postgres")(f"{table} {insert}\n{query};")
    kept = {name: [column[i] for i in keep] for name, column in columns.items()}
    agree(found, kept, features[keep], model)


def test_the_model_says_what_it_expects(fitted, tmp_path):
    folder, columns, *_ = fitted
    rows = {name: cells[:3] for name, cells in columns.items()} | {"euros": ["1,5 $", "7.25 $", "2.5 $"]}
    (tmp_path / "new.csv").write_bytes(csv_bytes(rows))
    assert parse_table(csv_bytes(rows), "x").n_rows == 3
    result = CliRunner().invoke(app, ["predict", str(folder / "m.pbdn"), str(tmp_path / "new.csv")])
    assert result.exit_code in (0, 2)
    assert "1.234,5" in result.stderr
