"""What a user says about columns and rows on the command line: kinds, formats, weights."""

import csv
import json
import os
import re
import weakref

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from messy_tables import csv_bytes, messy_tables
from pbdn import PBDNClassifier
from pbdn.cli.app import app
from pbdn.cli.command import counted, text_table
from pbdn.cli.table_model import fit_table, load_model
from pbdn.cli.target import Target
from pbdn.config import GibbsConfig
from pbdn.inspection.quality import measure
from pbdn.tables import ColumnOptions, parse_table, read_table

# What `pbdn fit` decides about columns, says about them, and how a user changes it.


pytest.importorskip("click")


QUICK = ["--inference", "map", "--criterion", "aic_inputs", "--max-depth", "1"]
MESSY = {messy.name: messy for messy in messy_tables()}


def invoke(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, (arguments, result.output, result.exception)
    return result


def fit(folder, name, *options):
    (folder / "t.csv").write_bytes(MESSY[name].data)
    result = invoke("fit", folder / "t.csv", "-t", "y", "-o", folder / "m.pbdn", "--json", *QUICK, *options)
    return json.loads(result.stdout)


def error_of(said):
    return said["validation"]["error"]["value"]


@pytest.mark.parametrize("name", ["row number", "in tens", "a part of a longer file", "a stray in a row number"])
def test_row_numbers_in_a_file_sorted_by_class_are_not_learned(tmp_path, name):
    said = fit(tmp_path, name)
    assert error_of(said) > 0.3  # what is left is noise
    assert any("number" in note and "sorted by the target" in note for note in said["notes"])
    assert error_of(fit(tmp_path, name, "--numeric", "number")) < 0.1  # asked for, it is used


def test_a_stray_cell_leaves_the_predictor_in(tmp_path):
    said = fit(tmp_path, "stray <0.1")
    assert error_of(said) < 0.3
    assert any("1 of 300 cells is no number" in note and "'<0.1'" in note for note in said["notes"])


def test_leaks_are_told_by_fit_report_and_card(tmp_path):
    said = fit(tmp_path, "leak")
    assert any("paid_back alone predicts the target almost perfectly" in note for note in said["notes"])
    pytest.importorskip("jinja2")
    invoke("report", tmp_path / "m.pbdn", tmp_path / "t.csv", "-o", tmp_path / "r.html", "--card", tmp_path / "c.md")
    for path in ("r.html", "c.md"):
        text = (tmp_path / path).read_text().replace("\\_", "_")
        assert "paid_back alone predicts the target almost perfectly" in text
    said = fit(tmp_path, "leak", "--drop", "paid_back")
    assert not any("paid_back alone" in note for note in said["notes"])
    assert error_of(said) > 0.3


def test_fit_prints_the_options_that_change_a_decision(tmp_path):
    (tmp_path / "t.csv").write_bytes(MESSY["row number"].data)
    said = invoke("fit", tmp_path / "t.csv", "-t", "y", *QUICK).stdout
    assert "to change it" in said
    assert "--numeric number" in said
    assert "--categorical x" in said


def test_options_change_decisions_and_are_kept_in_the_model(tmp_path):
    (tmp_path / "t.csv").write_bytes(
        csv_bytes(
            {
                "a b": [str(i % 7) for i in range(60)],
                "zip": [f"{i % 5:03d}" for i in range(60)],
                "d": [f"{i % 9 + 1}/{i % 11 + 1}/2020" for i in range(60)],
                "n": [i * i for i in range(60)],
                "w": [i % 3 for i in range(60)],
                "y": [str(i % 2) for i in range(60)],
            }
        )
    )
    options = ["--categorical", "a b", "--numeric", "zip", "--format", "d=%d/%m/%Y", "--id", "n", "--drop", "w"]
    invoke("fit", tmp_path / "t.csv", "-t", "y", *QUICK, *options)
    plans = {plan.name: plan for plan in load_model(tmp_path / "t.pbdn").preparation.columns}
    kinds = {name: plan.kind for name, plan in plans.items()}
    assert kinds == {"a b": "category", "zip": "number", "d": "date", "n": "dropped", "w": "dropped"}
    assert plans["d"].style == "%d/%m/%Y"
    result = invoke("fit", tmp_path / "t.csv", "-t", "y", "--format", "d", *QUICK, code=2)
    assert "COLUMN=FORMAT" in result.stderr
    result = invoke("fit", tmp_path / "t.csv", "-t", "y", "--date", "n", "--id", "n", *QUICK, code=2)
    assert "both --date and --id" in result.stderr


def test_a_model_of_another_table_is_not_overwritten_by_default(tmp_path):
    rows = {"x": [str(value) for value in np.random.default_rng(0).normal(size=40)], "y": ["a", "b"] * 20}
    (tmp_path / "code.tsv").write_bytes(csv_bytes(rows, "\t"))
    (tmp_path / "code.psv").write_bytes(csv_bytes(rows, "|"))
    invoke("fit", tmp_path / "code.tsv", "-t", "y", *QUICK, "-q")
    before = (tmp_path / "code.pbdn").read_bytes()
    said = invoke("fit", tmp_path / "code.psv", "-t", "y", *QUICK, code=2).stderr
    assert "holds the model of 'code.tsv'" in said
    assert "--output" in said
    assert (tmp_path / "code.pbdn").read_bytes() == before
    invoke("fit", tmp_path / "code.psv", "-t", "y", *QUICK, "-o", tmp_path / "psv.pbdn")
    invoke("fit", tmp_path / "code.tsv", "-t", "y", *QUICK)  # the same table again may
    assert sorted(os.listdir(tmp_path)) == ["code.pbdn", "code.psv", "code.tsv", "psv.pbdn"]


def test_tables_for_people_have_one_line_for_each_column(tmp_path):
    columns = {"c\nd": ["a\nb", "c", "e"] * 20, "x": list(range(0, 300, 5)), "y": ["0", "1"] * 30}
    (tmp_path / "t.csv").write_bytes(csv_bytes(columns))
    said = invoke("fit", tmp_path / "t.csv", "-t", "y", *QUICK, "--numeric", "x").stdout
    assert re.search(r"^c.{1,2}d +category of 3 values", said, re.MULTILINE)
    text = invoke("explain", tmp_path / "t.pbdn", tmp_path / "t.csv").stdout
    assert "c d = a b" in text


# Options of ``pbdn fit`` that go to the estimator: weights, paths, seed; and words that are right for one.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    rng = np.random.default_rng(1)
    with open(folder / "t.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["x", "z", "count", "answer"])
        for i in range(150):
            yes = i % 5 == 0
            x, z = rng.normal(1.0 * yes), rng.normal()
            writer.writerow([f"{x:.3f}", f"{z:.3f}", int(rng.integers(4)), "yes" if yes else "no"])
    return folder


def planes(path):
    return [side.hyperplanes for side in PBDNClassifier.load(path).network_.layers[0].sides]


def same(a, b):
    return all(one.shape == other.shape and np.array_equal(one, other) for one, other in zip(a, b, strict=True))


def test_a_column_of_weights_is_no_feature_and_counts(folder, tmp_path):
    table = folder / "t.csv"
    invoke("fit", table, "-t", "answer", "-o", tmp_path / "w.pbdn", "--weight", "count", *QUICK, "--holdout", 0)
    model = load_model(tmp_path / "w.pbdn")
    assert model.preparation.feature_names == ["x", "z"]
    with open(table, newline="") as stream:
        rows = list(csv.DictReader(stream))
    X = np.array([[float(row["x"]), float(row["z"])] for row in rows])
    counts = [float(row["count"]) for row in rows]
    direct = PBDNClassifier(inference="map", criterion="aic_inputs", max_depth=1, random_state=0)
    direct.fit(X, [row["answer"] for row in rows], sample_weight=counts)
    assert same(planes(tmp_path / "w.pbdn"), [side.hyperplanes for side in direct.layers_[0].sides])
    for name, words in (("answer", "it is the target"), ("nothing", "no weight column 'nothing'"), ("x", "at least 0")):
        said = invoke(
            "fit", table, "-t", "answer", "-o", tmp_path / "no.pbdn", "--weight", name, *QUICK, "--holdout", 0, code=2
        ).stderr
        assert words in said
    assert not (tmp_path / "no.pbdn").exists()


def test_what_is_measured_counts_rows_by_their_weights(folder, tmp_path):
    """A model that is measured on the same rows with and without weights; weights of classes are for the fit."""
    common = ["fit", folder / "t.csv", "-t", "answer", "--holdout", 0.4, *QUICK]
    said = invoke(*common, "-o", tmp_path / "w.pbdn", "--weight", "count", "--class-weight", "yes=3").stdout
    assert "On 60 held-out rows, each counted by 'count':" in said
    assert "each counted by 'count'" in invoke("inspect", tmp_path / "w.pbdn").stdout
    model = load_model(tmp_path / "w.pbdn")
    table = read_table(folder / "t.csv")
    _, test = train_test_split(
        np.arange(150), test_size=0.4, random_state=0, stratify=table.columns["answer"].astype(str)
    )
    test = np.sort(test)
    y, counts = table.columns["answer"][test].astype(str), table.columns["count"][test].astype(float)
    p = model.estimator.predict_proba(model.features(table.rows(test))[0])
    measured = model.validation
    assert measured["error"]["value"] == pytest.approx(
        1 - accuracy_score(y, model.estimator.classes_[p.argmax(1)], sample_weight=counts)
    )
    assert measured["log_loss"]["value"] == pytest.approx(log_loss(y, p, sample_weight=counts))
    assert measured["area"]["value"] == pytest.approx(roc_auc_score(y, p[:, 1], sample_weight=counts))
    for name in ("error", "log_loss", "brier", "area"):
        assert measured[name]["low"] < measured[name]["value"] < measured[name]["high"]


def test_weights_are_as_repeated_rows(rng):
    p = rng.dirichlet([1, 1], size=40)
    y = rng.integers(2, size=40)
    times = rng.integers(4, size=40)
    classes = np.array([0, 1])
    weighted = measure(y, p, classes, sample_weight=times.astype(float))
    repeated = measure(np.repeat(y, times), np.repeat(p, times, axis=0), classes)
    for name in ("error", "log_loss", "brier", "area"):
        assert getattr(weighted, name).value == pytest.approx(getattr(repeated, name).value)
    assert weighted.baseline_error == pytest.approx(repeated.baseline_error)
    assert weighted.error.high - weighted.error.low > repeated.error.high - repeated.error.low


def test_weights_of_classes(folder, tmp_path):
    table = folder / "t.csv"
    for name, options in (
        ("plain", []),
        ("balanced", ["--class-weight", "balanced"]),
        ("same", ["--class-weight", f"yes={150 / 60}", "--class-weight", f"no={150 / 240}"]),
    ):
        invoke("fit", table, "-t", "answer", "-o", tmp_path / name, "--drop", "count", *options, *QUICK, "--holdout", 0)
    assert not same(planes(tmp_path / "plain"), planes(tmp_path / "balanced"))
    assert same(planes(tmp_path / "same"), planes(tmp_path / "balanced"))
    for text, words in (("maybe=3", "one of no, yes"), ("yes=-3", "above 0"), ("even", "give 'balanced'")):
        said = invoke("fit", table, "-t", "answer", "--class-weight", text, *QUICK, "--holdout", 0, code=2).stderr
        assert words in said


@pytest.mark.parametrize(("members", "n_paths", "prediction"), [(2, 2, "paths"), (1, 0, "posterior")])
def test_the_size_of_the_committee(folder, tmp_path, members, n_paths, prediction):
    chain = ["--inference", "gibbs", "--sweeps", 20, "--max-depth", 1, "--holdout", 0, "--members", members]
    invoke("fit", folder / "t.csv", "-t", "answer", "-o", tmp_path / "m.pbdn", *chain)
    model = PBDNClassifier.load(tmp_path / "m.pbdn")
    assert len(model.paths_) == n_paths
    assert model.config_.prediction == prediction
    invoke(
        "fit", folder / "t.csv", "-t", "answer", "-o", tmp_path / "m.pbdn", "--members", members, *QUICK, "--holdout", 0
    )
    assert PBDNClassifier.load(tmp_path / "m.pbdn").config_.map.n_members == members


def test_numbers_that_make_no_sense_are_named(folder):
    said = CliRunner().invoke(app, ["fit", str(folder / "t.csv"), "-t", "answer", "--seed", "-4"])
    assert said.exit_code == 2
    assert "--seed" in said.stderr
    assert "-4" in said.stderr
    assert "--jobs" in invoke("fit", folder / "t.csv", "-t", "answer", "--jobs", 0, code=2).stderr


def test_notes_name_classes_instead_of_sides(folder, tmp_path):
    chain = ["--inference", "gibbs", "--sweeps", 30, "--max-depth", 1, "--holdout", 0]
    said = invoke("fit", folder / "t.csv", "-t", "answer", "-o", tmp_path / "m.pbdn", *chain).stderr
    assert "side 0" not in said
    assert "side 1" not in said
    told = json.loads(invoke("inspect", tmp_path / "m.pbdn", "--json").stdout)["convergence"]
    assert {one["quantity"].split("side ")[1].split(" ")[0] for one in told} == {"no", "yes"}


def test_one_is_singular():
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert [counted(n, "class") for n in (1, 3)] == ["1 class", "3 classes"]


def test_ends_of_lines_in_cells_do_not_break_tables():
    table = text_table(["column", "what"], [["a\nb", "x\ty\x1b[31m"], ["c", "Zürich"]])
    assert len(table.splitlines()) == 3
    assert "a\\nb" in table
    assert "\x1b" not in table
    assert "Zürich" in table


# What a fit no longer needs takes no memory while it runs.


def test_the_table_and_its_labels_are_let_go_before_the_fit(monkeypatch):
    held = []

    def read():
        table = parse_table(MESSY["row number"].data, "x")
        held.extend(map(weakref.ref, table.columns.values()))
        return table

    def labels(self, table):
        found = read_target(self, table)
        held.extend(map(weakref.ref, found[:2]))
        return found

    def count(*arguments):
        raise InterruptedError(sum(ref() is not None for ref in held))

    read_target = Target.read
    monkeypatch.setattr(Target, "read", labels)
    monkeypatch.setattr("pbdn.cli.table_model.make_model", count)
    parameters = {"inference": "map", "criterion": "aic_inputs", "gibbs_config": GibbsConfig()}
    with pytest.raises(InterruptedError, match="^0$"):
        fit_table(read, "y", holdout=0.2, seed=0, refit=False, options=ColumnOptions(), **parameters)
    assert len(held) > 3
