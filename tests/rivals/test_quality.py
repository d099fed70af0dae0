"""Records of measurements, and the programs that make them."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from benchmarks import paper_values as paper
from benchmarks import quality, record, speed_tables, waiting
from benchmarks import quality_tables as tables
from benchmarks.data_and_methods import IDA, MULTICLASS, NAMES, OURS, RIVALS, RIVALS_OF_SEVERAL, n_splits
from benchmarks.quality import Task, fit_ours, missing, plan, products
from benchmarks.record import metrics, reliability
from benchmarks.rivals import RIVALS as KNOWN_RIVALS
from benchmarks.rivals import fit_rival, protocol
from sklearn.metrics import brier_score_loss, log_loss

from pbdn import GibbsConfig, MapConfig, PBDNClassifier
from pbdn.datasets import make_xor

LINE = {"method": "lr", "data": "banana", "split": 0, "seed": 0, "config": {}}
SHORT = {"n_sweeps": 20, "n_draws": 6, "n_paths": 2}


# Records: lines that survive, newest line of a key, writers side by side.


def test_a_record_comes_back_with_its_origin(tmp_path):
    record.append(
        "a/b", {**LINE, "config": {"C": np.float64(0.5)}, "error": np.float32(0.25), "rows": np.arange(3)}, tmp_path
    )
    (line,) = record.read("a/b", tmp_path)
    assert line["config"] == {"C": 0.5}
    assert line["error"] == 0.25
    assert line["rows"] == [0, 1, 2]
    assert {"numpy", "scipy", "scikit-learn", "numba"} <= set(line["versions"])
    assert set(line["machine"]) == {"cpu", "cores", "architecture", "python"}
    assert line["commit"] == "unknown" or len(line["commit"]) == 40
    assert line["dirty"] in (True, False, None)
    assert line["when"].endswith("+00:00")
    assert record.experiments("a", tmp_path) == ["a/b"]


def test_no_file_is_no_records(tmp_path):
    assert record.read("nothing", tmp_path) == []


def test_the_newest_line_of_a_key_counts(tmp_path):
    for error in (1.0, 2.0):
        record.append("x", {**LINE, "error": error}, tmp_path)
    record.append("x", {**LINE, "seed": 1, "error": 3.0}, tmp_path)
    assert [line["error"] for line in record.read("x", tmp_path)] == [2.0, 3.0]
    record.append("x", {**LINE, "method": "svm", "error": 4.0}, tmp_path)
    assert [line["error"] for line in record.read("x", tmp_path, "svm")] == [4.0]
    assert len(record.path_of("x", tmp_path).read_text().splitlines()) == 4


def test_lines_are_sorted_by_number_not_by_digit(tmp_path):
    for split in (10, 2):
        record.append("x", {**LINE, "split": split}, tmp_path)
    assert [line["split"] for line in record.read("x", tmp_path)] == [2, 10]


def test_a_record_without_seed_or_config_is_refused(tmp_path):
    with pytest.raises(ValueError, match="config, seed"):
        record.append("x", {"error": 0.1}, tmp_path)


def test_what_cannot_be_written_leaves_the_file(tmp_path):
    record.append("x", {**LINE, "error": 0.1}, tmp_path)
    for bad in (float("nan"), object()):
        with pytest.raises((ValueError, TypeError)):
            record.append("x", {**LINE, "error": bad}, tmp_path)
    assert [line["error"] for line in record.read("x", tmp_path)] == [0.1]


def test_part_of_a_line_is_left_out_and_written_over(tmp_path):
    record.append("x", {**LINE, "error": 0.1}, tmp_path)
    path = record.path_of("x", tmp_path)
    path.write_text(path.read_text() + '{"method":"lr","da')
    assert len(record.read("x", tmp_path)) == 1
    record.append("x", {**LINE, "split": 1}, tmp_path)
    assert [line["split"] for line in record.read("x", tmp_path)] == [0, 1]
    for line in path.read_text().splitlines():
        json.loads(line)


WRITES_MANY = """
import json, pathlib, sys
from benchmarks import record
root, line = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
for split in range(50):
    record.append("x", {**line, "split": split, "filler": "x" * 20_000}, root)
"""


def test_processes_may_append_at_the_same_time(tmp_path):
    command = [sys.executable, "-c", WRITES_MANY, str(tmp_path)]
    writers = [
        subprocess.Popen([*command, json.dumps({**LINE, "seed": seed})], cwd=record.RESULTS.parents[1])
        for seed in range(2)
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert len(record.read("x", tmp_path)) == 100


def test_committed_records_are_small_whole_and_say_where_they_come_from():
    files = sorted(record.RESULTS.rglob("*"))
    assert {path.suffix for path in files if path.is_file()} == {".jsonl"}
    for path in (path for path in files if path.is_file()):
        assert path.stat().st_size < 1_000_000, path
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            assert {"seed", "config", "commit", "dirty", "versions", "machine"} <= set(line), path


# The transcription agrees with the averages that the paper itself prints.


@pytest.mark.parametrize("method", paper.METHODS)
def test_normalised_means_follow_from_the_cells(method):
    for cells, means, tolerance in (
        (paper.ERROR, paper.NORMALISED_ERROR, 0.0015),
        (paper.COMPLEXITY, paper.NORMALISED_COMPLEXITY, 0.0015),
    ):
        ratios = [cells[name][method][0] / cells[name]["svm"][0] for name in paper.DATASETS]
        assert np.mean(ratios) == pytest.approx(means[method], abs=tolerance)


@pytest.mark.parametrize("name", paper.DATASETS)
@pytest.mark.parametrize(("method", "units"), [("dnn_8_4", (8, 4)), ("dnn_32_16", (32, 16)), ("dnn_128_64", (128, 64))])
def test_dnn_complexity_is_the_stated_formula(name, method, units):
    width = paper.DATA_SIZES[name][2] + 1
    first, second = units
    assert paper.COMPLEXITY[name][method][0] == pytest.approx(first + first * second / width, abs=0.051)


def test_tables_are_complete():
    for table in (paper.ERROR, paper.COMPLEXITY):
        assert set(table) == set(paper.DATASETS)
        assert all(set(row) == set(paper.METHODS) for row in table.values())
    assert all(set(row) == set(paper.DATASETS) for row in paper.DEPTH.values())


# What is measured of the estimators, and how figures are put together from it.


def quietly(model, X, y):
    """A fit without the warnings of short chains."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def keep(root, method, data, split, seed, error, commit="c" * 40, **fields):
    """A line as `record.append` would write it, of any commit."""
    line = {"method": method, "data": data, "split": split, "seed": seed, "config": {}, "error": error, **fields}
    path = record.path_of(quality.experiment_of(method), root)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.write(json.dumps({**line, "when": "2026-01-02T00:00:00+00:00", "commit": commit}) + "\n")


def test_every_method_is_known():
    assert set(quality.ESTIMATORS) == set(OURS)
    assert {*RIVALS, *RIVALS_OF_SEVERAL} <= set(KNOWN_RIVALS)
    assert {*OURS, *RIVALS, *RIVALS_OF_SEVERAL} <= set(NAMES)


def test_the_default_is_the_estimator_without_parameters():
    make, parameters = quality.ESTIMATORS["default"]
    assert make is PBDNClassifier
    assert parameters == {}


def test_seeds_come_whole_and_differ():
    tasks = plan(["default", "lr"], ["banana", "digits"], 20, 3)
    assert len(tasks) == 2 * (10 + 5) * 3
    assert [task.seed for task in tasks] == sorted(task.seed for task in tasks)
    of_one = [task.random_state for task in tasks if (task.method, task.data) == ("lr", "banana")]
    assert len(set(of_one)) == len(of_one)
    assert Task("lr", "banana", 3, 0).random_state == 3


def test_what_is_recorded_is_not_run_again(tmp_path):
    tasks = plan(["default", "lr"], ["banana"], 2, 1)
    keep(tmp_path, "default", "banana", 0, 0, 1.0)
    keep(tmp_path, "default", "banana", 1, 0, 1.0, commit=record.UNKNOWN)  # ours of old: again
    keep(tmp_path, "lr", "banana", 0, 0, 1.0, commit=record.UNKNOWN)
    assert {(task.method, task.split) for task in missing(tasks, root=tmp_path)} == {("default", 1), ("lr", 1)}
    assert len(missing(tasks, since="2026-01-01", root=tmp_path)) == 2
    assert len(missing(tasks, since="2026-01-03", root=tmp_path)) == 4


def test_a_run_appends_and_resumes(tmp_path):
    tasks = plan(["lr"], ["two_spirals"], 1, 2)
    quality.run(tasks, root=tmp_path)
    lines = record.read("rivals/machines", tmp_path)
    assert [line["seed"] for line in lines] == [0, 1]
    assert [line["random_state"] for line in lines] == [0, 1000]
    assert missing(tasks, root=tmp_path) == []


def test_ours_is_scored_as_a_user_would(monkeypatch):
    config = MapConfig(n_minibatches=20)
    monkeypatch.setitem(quality.ESTIMATORS, "default", (PBDNClassifier, {"map_config": config, "max_depth": 2}))
    split = make_xor(120, seed=0).split(0)
    X, y, X_test, y_test = split
    model = quietly(PBDNClassifier(map_config=config, max_depth=2, random_state=5), X, y)
    line = fit_ours("default", split, 5)
    assert line["error"] == pytest.approx(100 * np.mean(model.predict(X_test) != y_test))
    assert line["config"] == {"map_config": {"n_minibatches": 20}, "max_depth": 2}
    assert line["inference"] == "map"
    assert line["chosen"] == [trial for trial in model.trials_ if trial["kept"]][-1]
    json.dumps(line)


def test_products_count_every_network_that_predicts():
    X, y = make_xor(100, seed=0).X, make_xor(100, seed=0).y
    default = quietly(PBDNClassifier(map_config=MapConfig(n_minibatches=20), random_state=0), X, y)
    assert products(default) == default.complexity_ > 0
    sampled = PBDNClassifier(inference="gibbs", max_depth=1, gibbs_config=GibbsConfig(**SHORT), random_state=0)
    model = quietly(sampled, X, y)
    draws = [side for path in model.paths_ for draw in path.top.draws for side in draw]
    assert products(model) == sum(side.n_experts for side in draws)


def test_metrics_are_those_of_scikit_learn(rng):
    two, three = rng.dirichlet([1, 1], 200), rng.dirichlet([1, 1, 1], 200)
    y2, y3 = rng.integers(2, size=200), rng.integers(3, size=200)
    assert metrics(y2, two)["log_loss"] == pytest.approx(log_loss(y2, two))
    assert metrics(y3, three)["log_loss"] == pytest.approx(log_loss(y3, three))
    assert metrics(y2, two)["brier"] == pytest.approx(brier_score_loss(y2, two[:, 1]))
    sure = np.eye(3)[y3]
    assert set(metrics(y3, sure).values()) == {0.0}


def test_what_chance_makes_of_the_calibration_error(rng):
    """Labels drawn from the stated probabilities have that calibration error on average."""
    p = rng.beta(0.5, 1.0, size=300)
    stated = np.stack([1 - p, p], axis=1)
    found = [metrics(rng.random(300) < p, stated) for _ in range(400)]
    assert np.mean([one["ece"] for one in found]) == pytest.approx(found[0]["ece_by_chance"], rel=0.05)


def test_errors_of_fits_that_miss_in_turn_on_either_side_cancel_over_splits(rng):
    """A table tells how far one fit misses, and how far the method does."""
    y, lines = rng.random(4000) < 0.45, []
    for split, p in enumerate((0.42, 0.48)):
        stated = np.tile([1 - p, p], (4000, 1))
        lines.append({"seed": 0, "split": split, "reliability": reliability(y, stated)})
        assert metrics(y, stated)["ece"] == pytest.approx(abs(p - y.mean()))
    assert float(tables._over_splits(lines)) == pytest.approx(abs(0.45 - y.mean()), abs=6e-4)
    assert tables._over_splits([*lines, {"seed": 1, "split": 0}]) == ""


def test_rivals_of_several_classes(rng):
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) + 100.0 * y[:, None]
    line = fit_rival("svm", "wine", (X[:60], y[:60], X[60:], y[60:]), 0, {"step": 5})
    assert line["error"] < 10
    assert protocol("svm", "letter") != protocol("svm", "wine") == {}


def test_both_spreads():
    spread = tables.Spread(np.array([[1.0, 3.0], [2.0, 6.0]]))
    assert spread.mean == 3.0
    assert spread.over_splits == pytest.approx(np.std([1.5, 4.5], ddof=1))
    assert spread.over_seeds == pytest.approx(np.std([2.0, 4.0], ddof=1))
    assert spread.text(1) == "3.0 ± 2.1 ± 1.4"
    assert tables.Spread(np.array([[1.0, 3.0]])).text(1) == "2.0 ± 1.4"


def test_only_whole_seeds_count_and_new_lines_replace_those_of_old(tmp_path):
    for split in range(n_splits("banana")):
        keep(tmp_path, "default", "banana", split, 0, 50.0, commit=record.UNKNOWN)
    assert tables.spreads("default", ["banana"], root=tmp_path)["banana"].mean == 50.0
    for seed in range(3):
        for split in range(n_splits("banana") - (seed == 2)):
            keep(tmp_path, "default", "banana", split, seed, float(seed))
    spread = tables.spreads("default", ["banana"], root=tmp_path)["banana"]
    assert spread.n_seeds == 2
    assert spread.mean == 0.5
    assert tables.spreads("default", ["banana", "image"], root=tmp_path) == {}


def test_old_lines_of_rivals_are_their_first_seed(tmp_path):
    for seed, commit in ((0, record.UNKNOWN), (1, "c" * 40)):
        for split in range(n_splits("wine")):
            keep(tmp_path, "svm", "wine", split, seed, float(seed), commit=commit)
    assert tables.spreads("svm", MULTICLASS, together=False, root=tmp_path)["wine"].n_seeds == 2


def test_the_readme_table_needs_all_sets(tmp_path):
    with pytest.raises(ValueError, match="run benchmarks.quality"):
        tables.readme_table(tmp_path)


def test_the_readme_table_shows_seeds_and_spreads(tmp_path):
    for method in ("default", "single", *RIVALS):
        for seed in range(3):
            for name in IDA:
                for split in range(10):
                    scores = {"complexity": 7.0, "products": 100.0}
                    keep(tmp_path, method, name, split, seed, 10.0 + seed + split % 2, **scores)
    text = tables.readme_table(tmp_path)
    assert "| **pbdn (default)** | 11.5 ± 0.5 ± 1.0 |" in text
    assert "| 1.000 ± 0.087 | 100 | 3 |" in text
    assert "before commits" not in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1


@pytest.mark.long
def test_small_versions_run_and_are_shown(tmp_path):
    lines = []
    waiting.run(["wide", "time_limit", waiting.FILE], True, 0.05, lines.append)
    assert [line["case"] for line in lines] == ["wide", "time_limit", "pbdn fit", "pbdn predict"]
    assert set(lines[0]["results"]) == set(waiting.METHODS)
    for line in lines:
        record.append("speed", line, tmp_path)
    shown = speed_tables.waiting(tmp_path)
    assert "wide (60 x 200)" in shown
    assert "time_limit (300 x 14)" in shown
    assert speed_tables.waiting_file(tmp_path).count("pbdn") == 2
    assert waiting.rows_of("cover", quick=True)[0].shape == (300, 14)
