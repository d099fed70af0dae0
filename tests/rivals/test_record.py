"""Records: lines that survive, newest line of a key, writers side by side."""

import json
from multiprocessing import get_context

import numpy as np
import pytest
from benchmarks import record

LINE = {"method": "lr", "data": "banana", "split": 0, "seed": 0, "config": {}}


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


def write_many(root, seed):
    for split in range(50):
        record.append("x", {**LINE, "split": split, "seed": seed, "filler": "x" * 20_000}, root)


def test_processes_may_append_at_the_same_time(tmp_path):
    context = get_context("spawn")
    writers = [context.Process(target=write_many, args=(tmp_path, seed)) for seed in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(record.read("x", tmp_path)) == 100


def test_committed_records_are_small_whole_and_say_where_they_come_from():
    files = sorted(record.RESULTS.rglob("*"))
    assert {path.suffix for path in files if path.is_file()} == {".jsonl"}
    for path in (path for path in files if path.is_file()):
        assert path.stat().st_size < 1_000_000, path
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            assert {"seed", "config", "commit", "dirty", "versions", "machine"} <= set(line), path
