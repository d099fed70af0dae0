"""The command line: from a table to a model, predictions, explanations and exports; errors in one sentence."""

import copy
import csv
import errno
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

pytest.importorskip("click")

from click.testing import CliRunner

from fitted import without_pictures
from pbdn.cli.app import app

SAMPLED = ["--inference", "map+gibbs", "--criterion", "aic_inputs", "--sweeps", "40", "--max-depth", "1"]
QUICK = ["--inference", "map", "--criterion", "aic_inputs", "--max-depth", "1"]


def invoke(*arguments, stdin=None, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
    said = result.stdout + result.stderr
    assert result.exit_code == code, (arguments, said, result.exception)
    assert "Traceback" not in said
    return result


def fails(*arguments, stdin=None):
    """The sentence of a user error."""
    result = invoke(*arguments, stdin=stdin, code=2)
    line = result.stderr.strip()
    assert line.startswith("pbdn: ")
    assert "\n" not in line
    return line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A messy table, a model fitted on it by MAP and one by sampling."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(5)
    with open(folder / "people.csv", "w", newline="") as stream:
        writer = csv.writer(stream, delimiter=";")
        writer.writerow(["id", "age", "city", "joined", "const", "churn"])
        for i in range(160):
            age = rng.normal(40, 10)
            city = rng.choice(["Oslo", "Rome", "São Paulo"])
            joined = np.datetime64("2020-01-01") + int(rng.integers(900))
            writer.writerow(
                [i + 1, "" if i % 13 == 0 else f"{age:.1f}", city, joined, "k", int(age + 10 * (city == "Rome") > 45)]
            )
    invoke("fit", folder / "people.csv", "-t", "churn", "-o", folder / "map.pbdn", *QUICK)
    invoke("fit", folder / "people.csv", "-t", "churn", "-o", folder / "gibbs.pbdn", *SAMPLED)
    return folder


def test_fit_says_what_became_of_each_column_and_how_good_it_is(folder, tmp_path):
    result = invoke("fit", folder / "people.csv", "-t", "churn", "-o", tmp_path / "m.pbdn", *QUICK)
    for words in (
        "row number",
        "median",
        "category of 3 values",
        "days since 1970",
        "always 'k'",
        "error",
        "95 % interval",
    ):
        assert words in result.stdout
    assert "semicolon" in result.stderr
    assert os.listdir(tmp_path) == ["m.pbdn"]


def test_fit_in_json(folder, tmp_path):
    result = invoke("fit", folder / "people.csv", "-t", "churn", "-o", tmp_path / "m.pbdn", "--json", *QUICK)
    said = json.loads(result.stdout)
    assert said["classes"] == [0, 1]
    assert {c["name"]: c["kind"] for c in said["columns"]}["joined"] == "date"
    assert said["validation"]["n_rows"] == 32
    assert said["validation"]["n_train"] == 128
    assert (
        said["validation"]["error"]["low"]
        <= said["validation"]["error"]["value"]
        <= said["validation"]["error"]["high"]
    )


def test_only_rows_that_the_fit_learns_from_become_features(folder, tmp_path, monkeypatch):
    from pbdn.cli import table_model
    from pbdn.estimators.frames import PreparedRows

    made = []

    def prepared(values, preparation):
        made.append(len(values))
        return PreparedRows(values, preparation)

    monkeypatch.setattr(table_model, "PreparedRows", prepared)
    monkeypatch.setattr("pbdn.data.labelled_rows.MOST_TRAINED", 1)
    monkeypatch.setattr("pbdn.data.labelled_rows.FEWEST_TRAINED", 100)
    by_rows_kept_back = ["--inference", "map", "--criterion", "holdout", "--max-depth", "1"]
    for options in (by_rows_kept_back, QUICK):
        said = invoke("fit", folder / "people.csv", "-t", "churn", "-o", tmp_path / "m.pbdn", "--json", *options).stdout
        assert json.loads(said)["validation"]["n_train"] == 128
    assert made == [100, 128]


def test_the_seed_decides_the_bytes(folder, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        invoke("fit", folder / "people.csv", "-t", "churn", "-o", tmp_path / name, "--seed", seed, *QUICK, "-q")
    # timings are in the header, so networks are compared
    from pbdn import PBDNClassifier

    a, b, c = (PBDNClassifier.load(tmp_path / name).network_.layers[0].sides[0].hyperplanes for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert a.shape != c.shape or not np.allclose(a, c)


def test_predict_gives_labels_probabilities_and_intervals(folder, tmp_path):
    out = tmp_path / "p.csv"
    invoke("predict", folder / "gibbs.pbdn", folder / "people.csv", "-o", out, "--keep", "id")
    with open(out, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 160
    for i, row in enumerate(rows, 1):
        assert row["id"] == str(i)
        p = [float(row[f"probability {c}"]) for c in (0, 1)]
        assert row["label"] == str(int(p[1] > p[0]))
        assert abs(sum(p) - 1) < 1e-12
        assert float(row["lower 1"]) <= float(row["upper 1"])


def test_predict_from_stdin_to_stdout_and_to_parquet(folder, tmp_path):
    text = (folder / "people.csv").read_bytes()
    result = invoke("predict", folder / "map.pbdn", "-", stdin=text)
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows[0] == ["label", "probability 0", "probability 1"]
    assert len(rows) == 161
    assert "No intervals" in result.stderr
    pa = pytest.importorskip("pyarrow.parquet")
    invoke("predict", folder / "map.pbdn", folder / "people.csv", "-o", tmp_path / "p.parquet")
    assert pa.read_table(tmp_path / "p.parquet").num_rows == 160


def test_fit_reads_stdin_and_writes_the_model_to_stdout(folder):
    result = invoke("fit", "-", "-t", "churn", "-o", "-", *QUICK, "-q", stdin=(folder / "people.csv").read_bytes())
    assert result.stdout_bytes.startswith(b"\x89PBDN")


def test_a_table_is_predicted_piece_by_piece(folder, tmp_path, monkeypatch):
    names = ["p.csv", "p.parquet", "p.arrow"]
    whole = [invoke("predict", folder / "map.pbdn", folder / "people.csv", "--json", "-o", tmp_path / n) for n in names]
    kept = [pq_or_text(tmp_path / name) for name in names]
    monkeypatch.setattr("pbdn.tables.read_csv.PIECE_CELLS", 60)
    pieces = [
        invoke("predict", folder / "map.pbdn", folder / "people.csv", "--json", "-o", tmp_path / n) for n in names
    ]
    assert [one.stdout for one in pieces] == [one.stdout for one in whole]
    assert [pq_or_text(tmp_path / name) for name in names] == kept


def pq_or_text(path):
    """What a file of predictions holds."""
    if path.suffix == ".csv":
        return path.read_text()
    from pbdn.tables import read_table

    return {name: values.tolist() for name, values in read_table(path).columns.items()}


def test_a_prediction_that_is_refused_leaves_the_old_file(folder, tmp_path, monkeypatch):
    """The first piece is fine and staged; the table as a whole is not."""
    monkeypatch.setattr("pbdn.tables.read_csv.PIECE_CELLS", 60)
    lines = (folder / "people.csv").read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join([*lines[:30], "1;2;3"]))
    (tmp_path / "p.csv").write_text("old")
    assert "Line 31" in fails("predict", folder / "map.pbdn", tmp_path / "t.csv", "-o", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv", "t.csv"]


def test_a_side_that_uses_all_experts_is_noted(folder, tmp_path):
    place = [folder / "people.csv", "-t", "churn", "-o", tmp_path / "m.pbdn", *QUICK]
    said = invoke("fit", *place, "--max-experts", 1).stderr
    assert "uses all of its experts (--max-experts 1); raise --max-experts" in said
    assert "uses all of its experts" not in invoke("fit", *place).stderr


def test_predictions_do_not_depend_on_the_other_rows(folder, tmp_path):
    lines = (folder / "people.csv").read_text().splitlines()
    whole = invoke("predict", folder / "map.pbdn", folder / "people.csv").stdout.splitlines()
    one = invoke("predict", folder / "map.pbdn", "-", stdin="\n".join([lines[0], lines[7]])).stdout.splitlines()
    left, right = (next(csv.reader([line])) for line in (whole[7], one[1]))
    np.testing.assert_allclose([float(cell) for cell in left], [float(cell) for cell in right], rtol=1e-12)


def test_inspect_and_explain(folder):
    said = json.loads(invoke("inspect", folder / "map.pbdn", "--json").stdout)
    assert said["target"] == "churn"
    assert said["depth"] == 1
    assert said["validation"]["n_rows"] == 32
    text = invoke("inspect", folder / "gibbs.pbdn").stdout
    assert "criterion" in text
    assert "layer" in text
    for asked in (["inspect"], ["explain", folder / "people.csv"], ["explain", folder / "people.csv", "--row", 2]):
        arguments = [asked[0], folder / "map.pbdn", *asked[1:]]
        assert invoke(*arguments, "-q").stdout == invoke(*arguments).stdout  # what was asked for is no talk
    text = invoke("explain", folder / "map.pbdn", folder / "people.csv").stdout
    assert text.index("age") < text.index("joined")  # what decides comes first
    said = json.loads(invoke("explain", folder / "map.pbdn", folder / "people.csv", "--row", 2, "--json").stdout)
    assert said["rows"][0]["features"][0]["feature"] in ("age", "city = Rome")
    assert "rows 1 to 160" in fails("explain", folder / "map.pbdn", folder / "people.csv", "--row", 161)


@pytest.mark.parametrize("kind", ["c", "python"])
def test_export(folder, tmp_path, kind):
    invoke("export", folder / "map.pbdn", "--to", kind, "-o", tmp_path / "out")
    text = (tmp_path / "out").read_text()
    assert {"c": "#include", "python": "def predict_proba"}[kind] in text


def test_python_export_agrees_with_predict(folder, tmp_path):
    source = invoke("export", folder / "map.pbdn", "--to", "python", "-o", "-").stdout
    scope = {}
    exec(source, scope)
    from pbdn.cli.table_model import load_model
    from pbdn.tables import read_table

    model = load_model(folder / "map.pbdn")
    features, _ = model.features(read_table(folder / "people.csv"))
    expected = model.estimator.predict_proba(features)
    got = np.array([scope["score"](row) for row in np.asarray(features).tolist()])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_reports_and_cards(folder, tmp_path):
    pytest.importorskip("jinja2")
    table, model = folder / "people.csv", folder / "gibbs.pbdn"
    invoke("report", model, table, "-o", tmp_path / "r.html", "--card", tmp_path / "card.md")
    page, card = (tmp_path / "r.html").read_text(), (tmp_path / "card.md").read_text()
    for text in (page, card):
        assert "churn" in text
        assert "days since 1970" in text
    assert len(page) < 2_000_000
    with without_pictures():
        piped = invoke("report", model, table, "-o", "-").stdout
        invoke("fit", table, "-t", "churn", "-o", tmp_path / "m.pbdn", "--report", tmp_path / "f.html", *QUICK)
    assert piped.startswith("<!doctype html>")
    assert "held-out rows" in (tmp_path / "f.html").read_text()
    assert sorted(os.listdir(tmp_path)) == ["card.md", "f.html", "m.pbdn", "r.html"]


def test_onnx_export(folder, tmp_path):
    onnx = pytest.importorskip("onnx")
    invoke("export", folder / "map.pbdn", "--to", "onnx", "-o", tmp_path / "m.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"))


def test_a_model_saved_from_python_can_be_used(tmp_path):
    from fitted import optimised

    model, X, _ = optimised()
    model.save(tmp_path / "m.pbdn")
    text = "x0,x1\n" + "\n".join(f"{a!r},{b!r}" for a, b in X[:5].tolist())
    rows = list(csv.DictReader(io.StringIO(invoke("predict", tmp_path / "m.pbdn", "-", stdin=text).stdout)))
    np.testing.assert_allclose([float(r["probability 1"]) for r in rows], model.predict_proba(X[:5])[:, 1], rtol=1e-12)
    gap = invoke("predict", tmp_path / "m.pbdn", "-", stdin="x0,x1\n1,\n2,3\n")
    assert "x1: 1 missing, almost none in training; the median stands in" in gap.stderr
    without = copy.copy(model)
    without._stand_ins = None  # as after a fit on sparse rows
    without.save(tmp_path / "m.pbdn")
    assert "missing values" in fails("predict", tmp_path / "m.pbdn", "-", stdin="x0,x1\n1,\n2,3\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "empty"),
        (b"a,b\n", "no rows"),
        (b"\x7fELF\0\0\0" * 30, "binary"),
        (b"x,churn\n1,0\n", "two classes"),
        (b"x,churn\n1,0\n2,1\n", "once"),
        (b"x,churn\n1,0\n2,1\n3,0\n4,1\n", "too few to hold out"),
        (b"x,chrun\n1,0\n2,1\n", "did you mean 'chrun'"),
        (b"churn\n0\n1\n0\n1\n0\n1\n0\n1\n0\n1\n", "No column is left"),
    ],
)
def test_bad_tables_give_one_sentence_and_leave_nothing(tmp_path, text, words):
    (tmp_path / "t.csv").write_bytes(text)
    assert words in fails("fit", tmp_path / "t.csv", "-t", "churn", *QUICK)
    assert os.listdir(tmp_path) == ["t.csv"]


def test_folders_and_missing_files(tmp_path):
    assert "folder" in fails("fit", tmp_path, "-t", "y")
    assert "no file" in fails("fit", tmp_path / "none.csv", "-t", "y")
    assert "Cannot read" in fails("inspect", tmp_path / "none.pbdn")
    (tmp_path / "x.pbdn").write_bytes(b"hello")
    assert "not a pbdn file" in fails("inspect", tmp_path / "x.pbdn")


def test_errors_in_json_too(tmp_path):
    result = invoke("inspect", tmp_path / "none.pbdn", "--json", code=2)
    assert "Cannot read" in json.loads(result.stdout)["error"]


def test_full_disk_leaves_nothing_behind(folder, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pbdn.files.atomic.os.fsync", full)
    sentence = fails("fit", folder / "people.csv", "-t", "churn", "-o", tmp_path / "m.pbdn", "-q", *QUICK)
    assert "No space left" in sentence
    assert "fails" not in sentence
    assert os.listdir(tmp_path) == []
    assert "No space left" in fails("predict", folder / "map.pbdn", folder / "people.csv", "-o", tmp_path / "p.csv")
    assert os.listdir(tmp_path) == []


def test_output_folder_that_is_not_there(folder, tmp_path):
    assert "Cannot write" in fails(
        "predict", folder / "map.pbdn", folder / "people.csv", "-o", tmp_path / "no" / "p.csv"
    )


def test_unexpected_errors_are_ours_and_debug_shows_where(folder, monkeypatch):
    def broken(*_):
        raise NotFittedError("broken on purpose")

    monkeypatch.setattr("pbdn.cli.table_model.load_model", broken)
    result = invoke("inspect", folder / "map.pbdn", code=1)
    assert "broken on purpose" in result.stderr
    shown = CliRunner().invoke(app, ["inspect", str(folder / "map.pbdn"), "--debug"])
    assert "Traceback" in shown.stderr


def test_usage_errors_exit_with_2(folder):
    assert CliRunner().invoke(app, ["fit", "x.csv"]).exit_code == 2
    assert CliRunner().invoke(app, ["export", str(folder / "map.pbdn"), "--to", "cobol"]).exit_code == 2


def test_shell_completion(tmp_path):
    environment = {**os.environ, "_PBDN_COMPLETE": "bash_complete", "COMP_WORDS": "pbdn ins", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "pbdn"]
    # click names the variable after the program
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "inspect" in found.stdout


def test_without_click_the_extra_is_named(tmp_path):
    code = "import sys; sys.modules['click'] = None; from pbdn.cli import main; main()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert found.returncode == 2
    assert "needs click: pip install 'click>=" in found.stderr
    assert "Traceback" not in found.stderr


def test_warm_up_compiles_what_fits_and_predictions_need():
    assert "on the disk" in invoke("warm-up").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "t.csv", "-t", "y", "-o", "m.pbdn", "--checkpoint", "m.pbdn"],
        ["fit", "t.csv", "-t", "y", "-o", "m.pbdn", "--report", "m.pbdn"],
        ["fit", "t.csv", "-t", "y", "-o", "t.csv"],
        ["predict", "t.pbdn", "t.csv", "-o", "t.pbdn"],
        ["predict", "t.pbdn", "t.csv", "-o", "./t.csv"],
        ["report", "t.pbdn", "t.csv", "-o", "r.html", "--card", "r.html"],
        ["export", "t.pbdn", "--to", "python", "-o", "t.pbdn"],
    ],
)
def test_no_output_is_written_over_another_or_over_what_is_read(folder, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text((folder / "people.csv").read_text())
    (tmp_path / "t.pbdn").write_bytes((folder / "map.pbdn").read_bytes())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    said = fails(*arguments)
    assert "give another file" in said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("labels", "note", "measured"),
    [
        (["2", "2", "3"], "3 rows have a 'churn' that no training row had, such as '2'", None),
        (["1", "", "0"], "1 row(s) without a value of 'churn' were not measured", 2),
        (["1", "1", "1"], "", 3),
        (["1", "0", "0"], "", 3),
        (["1.0", "0.0", "x"], "1 row has a 'churn' that no training row had, such as 'x'", 2),
    ],
)
def test_rows_are_predicted_whatever_their_labels_and_measured_where_these_are_known(
    folder, tmp_path, labels, note, measured
):
    rows = [f"40,Oslo,2020-01-01,{label}" for label in labels]
    (tmp_path / "new.csv").write_text("\n".join(["age,city,joined,churn", *rows]) + "\n")
    result = invoke("predict", folder / "map.pbdn", tmp_path / "new.csv", "-o", tmp_path / "p.csv", "--json")
    found = json.loads(result.stdout)
    assert found["rows"] == 3
    assert (found["quality"] or {}).get("n_rows") == measured
    assert note in " ".join(found["notes"])
    invoke("report", folder / "map.pbdn", tmp_path / "new.csv", "-o", tmp_path / "r.html")


def test_cells_that_are_all_missing_are_a_row(folder, tmp_path):
    (tmp_path / "new.csv").write_text("\nage,city,joined\n40,Oslo,2020-01-01\n,,\n\n50,Rome,2020-01-01\n")
    result = invoke("predict", folder / "map.pbdn", tmp_path / "new.csv", "--json", "-o", tmp_path / "p.csv")
    assert json.loads(result.stdout)["rows"] == 3


def test_kept_columns_are_not_lost_or_rounded(folder, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    (tmp_path / "new.csv").write_text("age,city,joined,label\n40,Oslo,2020-01-01,7\n")
    said = fails("predict", folder / "map.pbdn", tmp_path / "new.csv", "--keep", "label", "-o", tmp_path / "p.csv")
    assert "--keep label: the predictions have a column of this name" in said
    assert not (tmp_path / "p.csv").exists()
    keys = [2**53 + 1, None, 3]
    columns = {"key": pa.array(keys), "age": [1.0, 2.0, 3.0], "city": ["Oslo", " Oslo ", "Rome"]}
    pq.write_table(pa.table({**columns, "joined": ["2020-01-01"] * 3}), tmp_path / "new.parquet")
    out = tmp_path / "out.parquet"
    invoke("predict", folder / "map.pbdn", tmp_path / "new.parquet", "--keep", "key", "-o", out)
    assert pq.read_table(out)["key"].to_pylist() == keys
    assert "not .gz" in fails("predict", folder / "map.pbdn", tmp_path / "new.csv", "-o", tmp_path / "p.csv.gz")
