"""Exports of a table model: Python takes raw rows, C and ONNX say how their inputs are made."""

import csv
import datetime
import json
import shutil
import subprocess

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

from pbdn.cli.app import app
from pbdn.cli.table_model import load_model
from pbdn.export import to_c
from pbdn.tables import read_table

NAMES = ["key", "größe", "city", "sex", "joined", "seen", "code", "buys"]


def invoke(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A semicolon table with decimal commas, dates of two styles, rare and missing values; its rows as dicts of text."""
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
                "seen": day.isoformat(sep=" "),
                "code": str(rng.choice(["a7", "b8", "c9"])),
                "buys": str(int(rng.random() < 0.5)),
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
    assert kinds == {"key": "dropped", "größe": "number", "joined": "date", "seen": "date"} | dict.fromkeys(
        ["city", "sex", "code"], "category"
    )
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
        typed["seen"] = datetime.datetime.fromisoformat(row["seen"])
        assert module["prepare"](typed) == module["prepare"](row)
    with pytest.raises(KeyError, match="city"):
        module["prepare"]({name: value for name, value in rows[0].items() if name != "city"})


def test_recipes_name_every_feature(fitted):
    *_, model = fitted
    recipes = model.preparation.recipes
    assert len(recipes) == len(model.preparation.feature_names)
    assert any(text.startswith("the number 'größe' (written like '1234,5'); ") for text in recipes)
    assert "0 if 'sex' is 'f', 1 if 'm', 0.5 otherwise" in recipes


def test_c_says_how_its_inputs_are_made(fitted, tmp_path):
    folder, *_, model = fitted
    text = invoke("export", folder / "m.pbdn", "--to", "c", "-o", "-")
    comment = text.split("*/", 1)[0]
    assert comment.count("\n * x[") == len(model.preparation.feature_names)
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    (tmp_path / "m.h").write_text(text, encoding="utf-8")
    (tmp_path / "main.c").write_text(
        '#include "m.h"\nint main(void) { double x[99] = {0}; return pbdn_predict(x) > 1; }\n'
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-trigraphs"]
    subprocess.run([compiler, *flags, "main.c", "-o", "main", "-lm"], cwd=tmp_path, check=True)


def test_remarks_cannot_leave_their_comment(fitted):
    *_, model = fitted
    estimator = model.estimator
    hostile = ["*/ int x; /*", "??/", "\\", "a\nb\u2028c\u202ed\ud800", "**//**//", "Zürich, 東京"]
    text = to_c(*estimator._exported(), remarks=hostile)
    comment, rest = text.split("*/", 1)
    assert rest.startswith("\n#ifndef")
    assert "/*" not in comment[2:]
    assert "??" not in comment
    assert "\\" not in comment
    assert "* a?b?c?d?\n" in comment
    assert "* Zürich, 東京\n" in comment
    text.encode()  # the whole file is UTF-8


def test_onnx_says_how_its_inputs_are_made(fitted, tmp_path):
    onnx = pytest.importorskip("onnx")
    folder, *_, model = fitted
    invoke("export", folder / "m.pbdn", "--to", "onnx", "-o", tmp_path / "m.onnx")
    stored = {prop.key: json.loads(prop.value) for prop in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert len(stored["preparation"]) == len(stored["feature_names"])
    assert stored["preparation"][0] == f"x[0]: {model.preparation.recipes[0]}"


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
