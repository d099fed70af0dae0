"""The command line on numbers, counts, grades and times: what is found out and said, predicted, explained and exported."""

import csv
import json
import sqlite3
import subprocess
from contextlib import contextmanager

import numpy as np
import pytest

from fitted import without_pictures, without_tuning
from networks import COMPILER

pytest.importorskip("click")

from test_cli import fails, invoke

from pbdn.cli.table_model import load_model
from pbdn.cli.target import Target, find_target
from pbdn.config import defaults
from pbdn.errors import InvalidInputError
from pbdn.tables import parse_table, read_table

SHORT = ("--max-depth", 1, "--members", 1, "--max-experts", 4)
N = 80


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Flats and houses with a price, a number of calls, a grade and the days until they were sold, some not yet."""
    folder = tmp_path_factory.mktemp("responses")
    rng = np.random.default_rng(1)
    size, kind = rng.uniform(20, 200, N), rng.choice(["flat", "house"], N)
    day = [np.datetime64("2020-01-01") + int(days) for days in rng.integers(900, size=N)]
    price = 2.0 * size + 50.0 * (kind == "house") + rng.normal(0, 5, N)
    calls = rng.poisson(np.exp(0.01 * size))
    grade = np.array(["poor", "fair", "good"])[np.digitize(size + rng.normal(0, 10, N), [80, 140])]
    sold = np.exp(3.0 - 0.01 * size + 0.3 * rng.normal(size=N))
    seen = sold < 25.0
    rented = np.exp(3.5 - 0.5 * (kind == "house") + 0.3 * rng.normal(size=N))
    why = np.where(np.minimum(sold, rented) >= 25.0, 0, np.where(sold < rented, 1, 2))
    damage = np.where(rng.uniform(size=N) < 0.3, 0.0, np.exp(0.005 * size + 0.3 * rng.normal(size=N)))
    with open(folder / "homes.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["size", "kind", "since", "price", "calls", "grade", "days", "sold", "gone", "why", "damage"])
        for i in range(N):
            known = "" if i % 17 == 0 else f"{size[i]:.1f}"
            cells = [known, kind[i], day[i], f"{price[i]:.2f}", calls[i], grade[i], f"{min(sold[i], 25.0):.2f}"]
            cells += ["yes" if seen[i] else "no", f"{min(sold[i], rented[i], 25.0):.2f}", why[i], f"{damage[i]:.3f}"]
            writer.writerow(cells)
    return folder


TARGETS = {  # target, options
    "number": ("price",),
    "count": ("calls", "--response", "count"),
    "grade": ("grade", "--grades", "poor,fair,good"),
    "time": ("days", "--event", "sold"),
    "causes": ("gone", "--event", "why"),
    "amount": ("damage",),
}
COLUMNS = ("price", "calls", "grade", "days", "sold", "gone", "why", "damage")
WORDS = {"grade": "log loss", "time": "concordance", "causes": "concordance"}
TOLD = {
    "grade": "3 grades; depth 1",
    "causes": "a time with 2 causes; cause 1: depth 1",
    "amount": "an amount; zero or more: depth",
}


@contextmanager
def few_steps():
    """Within, default fits are short."""
    with pytest.MonkeyPatch.context() as patch, without_tuning():
        patch.setitem(defaults.ON_A_LINE, "n_minibatches", 300)
        patch.setitem(defaults.OF_FOLDS, "n_minibatches", 150)
        yield


@pytest.fixture(scope="module")
def fitted(folder):
    """What was said by the fit of every kind of target, with few steps of training."""
    said = {}
    with few_steps(), without_pictures():
        for kind, (target, *options) in TARGETS.items():
            others = [name for name in COLUMNS if name not in (target, *options)]
            drops = [part for name in others for part in ("--drop", name)]
            arguments = ["fit", folder / "homes.csv", "-t", target, *drops, *options, "-o", folder / f"{kind}.pbdn"]
            page = ("--report", folder / "time.html") if kind == "time" else ()
            said[kind] = invoke(*arguments, *SHORT, *page)
    return folder, said


@pytest.mark.parametrize("kind", TARGETS)
def test_fit_and_inspect_say_what_is_predicted(fitted, kind):
    folder, said = fitted
    assert WORDS.get(kind, "mean absolute error") in said[kind].stdout
    assert TOLD.get(kind, f"a {kind}; depth 1") in said[kind].stdout
    found = json.loads(invoke("inspect", folder / f"{kind}.pbdn", "--json").stdout)
    assert found["response"] == ("time" if kind == "causes" else kind)
    assert not {"sold", "why"} & set(found["features"])
    assert found["weights"] > 0
    assert found["depth"] == 1


def test_what_was_found_out_is_said_with_how_to_say_otherwise(fitted):
    _, said = fitted
    assert "predicted as a number (--response)" in said["number"].stderr
    assert "so it is predicted as an amount that may be zero; --response number" in said["amount"].stderr
    lines = ["x,stars,calls", *(f"{i % 7},{1 + i % 4},{i}" for i in range(60))]
    table = parse_table(("\n".join(lines) + "\n").encode(), "t.csv")
    target, notes = find_target(table, "stars", "auto")
    assert target.kind == "class"
    assert "4 different numbers, so they are predicted as classes; --response grade" in notes[0]
    target, notes = find_target(table, "calls", "auto")
    assert target.kind == "number"
    assert "--response count is for counts" in notes[0]


@pytest.mark.parametrize("kind", ["number", "count", "time", "causes", "amount"])
def test_predictions_have_intervals(fitted, kind):
    folder, _ = fitted
    result = invoke("predict", folder / f"{kind}.pbdn", folder / "homes.csv", "-o", folder / "p.csv", "--level", 0.8)
    assert ("concordance" if kind in ("time", "causes") else "root mean square") in result.stdout
    with open(folder / "p.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["prediction", "lower", "upper"]
    assert len(rows) == N
    assert all(float(row["lower"]) <= float(row["upper"]) for row in rows)
    inside = [float(row["lower"]) < float(row["prediction"]) < float(row["upper"]) for row in rows]
    assert np.mean(inside) > (0.5 if kind == "count" else 0.95)


@pytest.mark.parametrize("kind", ["time", "causes"])
def test_predictions_tell_how_probable_events_are_by_a_time(fitted, kind):
    folder, _ = fitted
    invoke("predict", folder / f"{kind}.pbdn", folder / "homes.csv", "-o", folder / "p.csv", "--by", 10, "--by", 20)
    with open(folder / "p.csv") as stream:
        rows = list(csv.DictReader(stream))
    causes = [f"cause {c} by {t}" for c in (1, 2) for t in (10, 20)] if kind == "causes" else []
    assert list(rows[0]) == ["prediction", "lower", "upper", "event by 10", "event by 20", *causes]
    if causes:
        both = [float(row["cause 1 by 10"]) + float(row["cause 2 by 10"]) for row in rows]
        np.testing.assert_allclose(both, [float(row["event by 10"]) for row in rows], atol=1e-6)
    assert "--by 3: it is for times" in fails(
        "predict", folder / "number.pbdn", folder / "homes.csv", "-o", folder / "q.csv", "--by", 3
    )


@pytest.mark.parametrize("kind", TARGETS)
def test_a_page_about_every_kind(fitted, kind, tmp_path):
    folder, _ = fitted
    arguments = ["report", folder / f"{kind}.pbdn", folder / "homes.csv", "-o", tmp_path / "page.html"]
    with without_pictures():
        invoke(*arguments, "--card", tmp_path / "card.md")
    assert "How sure is it?" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "## Quality" in (tmp_path / "card.md").read_text(encoding="utf-8")


def test_a_report_of_held_out_times_has_their_events(fitted):
    folder, _ = fitted
    page = (folder / "time.html").read_text(encoding="utf-8")
    assert "steps are Kaplan-Meier curves" in page
    assert "held-out rows of the fit" in page


def test_grades_are_predicted_as_labels(fitted):
    folder, _ = fitted
    result = invoke("predict", folder / "grade.pbdn", folder / "homes.csv", "-o", folder / "p.csv")
    assert "error" in result.stdout
    with open(folder / "p.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["label", *(f"probability {grade}" for grade in ("poor", "fair", "good"))]


@pytest.mark.parametrize("kind", TARGETS)
def test_explain(fitted, kind):
    folder, _ = fitted
    said = invoke("explain", folder / f"{kind}.pbdn", folder / "homes.csv").stdout
    assert ("mean moves" if kind == "amount" else "median moves") in said
    assert "size" in said
    if kind in ("causes", "amount"):
        assert ("cause 2: at most" if kind == "causes" else "zero or more: above 0") in said
    said = invoke("explain", folder / f"{kind}.pbdn", folder / "homes.csv", "--row", 2).stdout
    assert ("with probability" if kind == "grade" else "with 90 % between") in said


def raw_rows(folder):
    with open(folder / "homes.csv") as stream:
        return list(csv.DictReader(stream))


def exported(folder, kind, to, *options):
    return invoke("export", folder / f"{kind}.pbdn", "--to", to, *options, "-o", "-", "-q").stdout


@pytest.mark.parametrize("kind", ["number", "time", "causes", "amount"])
def test_exports_score_raw_rows(fitted, kind, tmp_path):
    """Missing numbers, categories and dates in, means and quantiles out, as the model predicts them."""
    folder, _ = fitted
    model = load_model(folder / f"{kind}.pbdn")
    features, _ = model.features(read_table(folder / "homes.csv", None, model.needs_text))
    ours = model.estimator.predict_distribution(features)
    mean, quantiles = ours.mean(), ours.ppf(np.array([[0.1], [0.9]])).T
    close = 1e-6 * np.ptp(mean)
    module, rows = {}, raw_rows(folder)
    exec(exported(folder, kind, "python"), module)
    np.testing.assert_allclose([module["predict"](row) for row in rows[:5]], mean[:5], atol=close)
    assert module["quantile"](rows[1], 0.9) == pytest.approx(quantiles[1, 1], abs=close)
    connection = sqlite3.connect(":memory:")
    columns = list(rows[0])
    connection.execute(f"CREATE TABLE data ({', '.join(columns)})")
    marks = ", ".join("?" * len(columns))
    connection.executemany(f"INSERT INTO data VALUES ({marks})", [list(row.values()) for row in rows[:6]])
    options = ("--dialect", "sqlite", "--quantile", 0.1, "--quantile", 0.9, "--above", 20)
    cursor = connection.execute(exported(folder, kind, "sql", *options))
    names = [one[0] for one in cursor.description]
    assert names[:4] == ["mean", "quantile_0.1", "quantile_0.9", "probability_above_20"]
    expected, answer = np.column_stack([mean, quantiles, ours.sf(20.0)]), np.array(cursor.fetchall())
    np.testing.assert_allclose(answer[:, :4], expected[:6], atol=close)
    if kind == "causes":
        assert names[4:] == ["incidence_1_20", "incidence_2_20"]
        chances = model.estimator.predict_cumulative_incidence(features, [20.0])[:, :, 0]
        np.testing.assert_allclose(answer[:, 4:], chances[:6], atol=1e-6)
        np.testing.assert_allclose(
            [module["cumulative_incidence"](row, 20.0) for row in rows[:2]], chances[:2], atol=1e-6
        )
    if COMPILER is not None:
        cells = [f'{{{row["size"] or "NAN"}, "{row["kind"]}", "{row["since"]}"}}' for row in rows[:6]]
        (tmp_path / "model.h").write_text(exported(folder, kind, "c"))
        (tmp_path / "main.c").write_text(
            '#include <stdio.h>\n#include "model.h"\nint main(void) {\n'
            f"const pbdn_row rows[] = {{{', '.join(cells)}}};\n"
            'for (int i = 0; i < 6; ++i)\nprintf("%.17g %.17g %.17g %.17g\\n", pbdn_predict(rows + i), '
            "pbdn_quantile(rows + i, 0.1), pbdn_quantile(rows + i, 0.9), pbdn_probability_above(rows + i, 20.0));\n}"
        )
        subprocess.run([COMPILER, "-std=c99", "main.c", "-o", "main", "-lm"], cwd=tmp_path, check=True)
        said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
        found = np.array([line.split() for line in said.splitlines()], dtype=float)
        np.testing.assert_allclose(found, expected[:6], atol=close)
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    data = model.estimator.to_onnx(quantiles=(0.1, 0.9), above=(20.0,), dtype=np.float64)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    days = np.array([row["since"] for row in rows], dtype="datetime64[D]").astype(float)
    inputs = {
        "size": np.array([float(row["size"] or "nan") for row in rows])[:, None],
        "kind": np.array([row["kind"] for row in rows], dtype=object)[:, None],
        "since": days[:, None],
    }
    found = dict(zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True))
    theirs = np.column_stack([found["mean"], found["quantiles"], found["probability_above"]])
    np.testing.assert_allclose(theirs, expected, atol=close)


def test_counts_export_means_and_whole_quantiles(fitted):
    folder, _ = fitted
    model = load_model(folder / "count.pbdn")
    features, _ = model.features(read_table(folder / "homes.csv", None, model.needs_text))
    module = {}
    exec(exported(folder, "count", "python"), module)
    rows = raw_rows(folder)[:8]
    np.testing.assert_allclose(
        [module["predict"](row) for row in rows], model.estimator.predict(features)[:8], rtol=1e-9
    )
    ours = model.estimator.predict_quantiles(features, 0.9)[:8]
    np.testing.assert_array_equal([module["quantile"](row, 0.9) for row in rows], ours)
    none = model.estimator.predict_probability(features, [0])[:8, 0]
    np.testing.assert_allclose([1.0 - module["probability_above"](row, 0) for row in rows], none, atol=1e-12)


def test_grades_export_as_classes_do(fitted):
    folder, _ = fitted
    model = load_model(folder / "grade.pbdn")
    features, _ = model.features(read_table(folder / "homes.csv", None, model.needs_text))
    module = {}
    exec(exported(folder, "grade", "python"), module)
    assert module["CLASSES"] == ("poor", "fair", "good")
    ours = model.estimator.predict_proba(features)[:5]
    np.testing.assert_allclose([module["predict_proba"](row) for row in raw_rows(folder)[:5]], ours, atol=1e-9)


def test_times_may_have_an_entry(folder, tmp_path):
    """It is no feature, is kept with the model, and counts in what is measured."""
    with open(folder / "homes.csv") as stream:
        rows = list(csv.DictReader(stream))
    with open(tmp_path / "late.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, ["size", "days", "sold", "listed"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row | {"listed": f"{0.4 * float(row['days']):.2f}"} for row in rows)
    options = ("-t", "days", "--event", "sold", *SHORT)
    arguments = ("fit", tmp_path / "late.csv", *options, "--entry", "listed", "-o", tmp_path / "m.pbdn", "--json")
    with few_steps():
        made = json.loads(invoke(*arguments).stdout)
    assert [column["name"] for column in made["columns"]] == ["size"]
    model = load_model(tmp_path / "m.pbdn")
    assert (model.event, model.entry) == ("sold", "listed")
    assert model.labels(read_table(str(tmp_path / "late.csv")))[0].dtype.names == ("event", "time", "entry")
    head, first, *rest = (tmp_path / "late.csv").read_text().splitlines()
    (tmp_path / "gap.csv").write_text("\n".join([head, first.rsplit(",", 1)[0] + ",", *rest]))
    assert "--entry listed: row 1 has no number" in fails("fit", tmp_path / "gap.csv", *options, "--entry", "listed")


def test_wrong_options_are_named(fitted, tmp_path):
    folder, _ = fitted
    (folder / "negative.csv").write_text("x,y\n" + "".join(f"{i},{i - 1.5}\n" for i in range(20)))
    table, out = folder / "homes.csv", ("-o", tmp_path / "m.pbdn")
    assert "not a class" in fails("fit", table, "-t", "price", *out, "--response", "class")
    assert "not a column of numbers" in fails("fit", table, "-t", "kind", *out, "--response", "number")
    assert "--class-weight" in fails("fit", table, "-t", "price", *out, "--class-weight", "balanced")
    assert "no count" in fails("fit", table, "-t", "price", *out, "--response", "count")
    assert "--event kind: row 1" in fails("fit", table, "-t", "days", *out, "--event", "kind")
    assert "it is the target" in fails("fit", table, "-t", "days", *out, "--event", "days")
    assert "--entry days: it is the target" in fails("fit", table, "-t", "days", *out, "--entry", "days")
    assert "it is for times" in fails("fit", table, "-t", "price", *out, "--event", "sold", "--response", "number")
    assert "--grades poor,fair: the target has 'good'" in fails(
        "fit", table, "-t", "grade", *out, "--grades", "poor,fair"
    )
    assert "strictly between 0 and 1" in fails("export", folder / "number.pbdn", "--to", "onnx", "--quantile", 2)
    assert "take any" in fails("export", folder / "number.pbdn", "--to", "c", "--quantile", 0.5)
    assert "which is no amount" in fails("fit", folder / "negative.csv", "-t", "y", *out, "--response", "amount")


def test_numbers_can_be_sampled(fitted, tmp_path):
    folder, _ = fitted
    drops = [part for name in COLUMNS[1:] for part in ("--drop", name)]
    options = ("--inference", "gibbs", "--sweeps", 20, "--members", 1, "--max-depth", 1)
    invoke("fit", folder / "homes.csv", "-t", "price", *drops, *options, "-o", tmp_path / "m.pbdn")
    found = json.loads(invoke("inspect", tmp_path / "m.pbdn", "--json").stdout)
    assert (found["inference"], found["response"]) == ("gibbs", "number")
    assert "90 % between" in invoke("explain", tmp_path / "m.pbdn", folder / "homes.csv", "--row", 1).stdout
    assert "map+gibbs are for classes" in fails(
        "fit", folder / "homes.csv", "-t", "price", "--inference", "map+gibbs", "-o", tmp_path / "m.pbdn"
    )


def decimal_commas(rng, n=60):
    x = rng.normal(5.0, 0.1, size=(n, 2))
    return ["a;y", *(f"{a:.3f};{b:.3f}".replace(".", ",") for a, b in x)]


@pytest.mark.parametrize("options", [[], ["--format", "y=,."]])
def test_a_target_between_semicolons_has_decimal_commas_as_other_columns_do(tmp_path, rng, options):
    (tmp_path / "eu.csv").write_text("\n".join(decimal_commas(rng)))
    invoke("fit", tmp_path / "eu.csv", "-t", "y", "--members", "1", "--max-depth", "1", *options)
    model = load_model(tmp_path / "eu.pbdn")
    assert model.validation["mae"]["value"] < 1.0
    (tmp_path / "new.csv").write_text("a;y\n5,123;5,100\n")
    labels, known, _ = model.labels(read_table(str(tmp_path / "new.csv"), None, model.needs_text))
    assert labels.tolist() == [5.1]
    assert known.all()


def test_the_format_of_a_target_may_be_given(tmp_path, rng):
    (tmp_path / "eu.csv").write_text("\n".join(decimal_commas(rng)))
    invoke("fit", tmp_path / "eu.csv", "-t", "y", "--members", "1", "--max-depth", "1", "--format", "y=.,")
    assert load_model(tmp_path / "eu.pbdn").validation["mae"]["value"] > 1.0


def test_columns_that_say_much_about_a_number_are_not_keys_and_leaks_are_told(tmp_path, rng):
    code = rng.choice(np.arange(10**7, 10**8), size=100, replace=False)
    y = code / 1e6 + rng.normal(size=100)
    rows = [f"{a},{b},{c},{c}" for a, b, c in zip(rng.normal(size=100), code, y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,cents,copy,y", *rows]))
    result = invoke("fit", tmp_path / "t.csv", "-t", "y", "--members", "1", "--max-depth", "1")
    assert "copy alone predicts the target almost perfectly" in result.stderr
    assert "cents alone" not in result.stderr
    assert {plan.name for plan in load_model(tmp_path / "t.pbdn").preparation.used} == {"a", "cents", "copy"}


def test_grades_without_an_order_are_told(tmp_path, rng):
    words = rng.choice(["low", "medium", "high"], size=60)
    numbers = np.where(words == "low", "1.0", np.where(words == "medium", "2.0", "3.0"))
    rows = [f"{x},{a},{b}" for x, a, b in zip(rng.normal(size=60), words, numbers, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y,n", *rows]))
    table = read_table(str(tmp_path / "t.csv"), None, ["y", "n"])
    assert "order of the alphabet: high, low, medium" in find_target(table, "y", "grade")[1][0]
    assert find_target(table, "y", "auto", grades="low,medium,high")[1] == []
    assert find_target(table, "n", "grade")[1] == []
    assert find_target(table, "n", "auto", grades="1.0,2.0,3.0")[0].grades == ("1", "2", "3")
    with pytest.raises(InvalidInputError, match="'low' is there twice"):
        find_target(table, "y", "auto", grades="low,low,medium,high")


def test_a_wrong_time_is_named_by_its_row_in_the_file(tmp_path, rng):
    days = rng.exponential(30.0, size=80).round(1)
    days[59] = -3.0
    rows = [
        f"{x},{'' if i == 4 else d},{i % 2},{i % 3 * 1e-3}"
        for i, (x, d) in enumerate(zip(rng.normal(size=80), days, strict=True))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["x,days,seen,entered", *rows]))
    table = read_table(str(tmp_path / "t.csv"), None, ["days", "seen", "entered"])
    with pytest.raises(InvalidInputError, match="'days' has the time -3 in row 60"):
        Target("days", "time", "seen").read(table)
    table.columns["days"][59] = "0.0001"
    table.columns["entered"][59] = "7"
    with pytest.raises(InvalidInputError, match="--entry entered: row 60 has 7, which is not before its time 0.0001"):
        Target("days", "time", "seen", entry="entered").read(table)


def test_times_without_an_event_are_predicted_and_reported_but_not_measured(folder, tmp_path):
    with open(folder / "homes.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    invoke("fit", folder / "homes.csv", "-t", "days", "--event", "sold", "-o", tmp_path / "m.pbdn", *SHORT)
    with open(tmp_path / "new.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "sold": "no"} for row in rows[:10])
    for command in ("predict", "report"):
        result = invoke(command, tmp_path / "m.pbdn", tmp_path / "new.csv", "-o", tmp_path / f"{command}.html")
        assert "Not measured: no event comes before another time" in result.stderr
