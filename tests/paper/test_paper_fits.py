"""What is fitted, and that a record is made once."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.paper.arrays import pack, pack_picture, unpack
from benchmarks.paper.fits import GIBBS, IDA, LARGE, MAP, RESULTS, TARGETS, Job, jobs
from benchmarks.paper.run import fit_rival, inferred_widths, run
from benchmarks.quality import fit_rows
from benchmarks.record import load_result, save_result
from benchmarks.rivals import available
from benchmarks.rivals.cpm import StackedCpm

from pbdn.datasets import make_circles, make_xor

TINY = {"n_sweeps": 40, "n_draws": 10, "max_experts": 4}
SPIRALS = Job("figure1", "two_spirals", 0, {**GIBBS, **TINY, "min_depth": 2, "max_depth": 2})


def columns_of(found):
    return {(job.column, job.data, job.split) for job in found}


def test_every_job_has_its_own_record():
    for profile in ("quick", "full"):
        found = jobs("all", profile)
        assert len({job.path(RESULTS[profile]) for job in found}) == len(found)


def test_the_full_profile_has_every_column_of_table_2():
    found = columns_of(jobs("table2", "full"))
    everywhere = [(data, split) for data in IDA for split in range(10)] + [(d, s) for d in LARGE for s in range(5)]
    for column in ("lr", "svm", "gibbs", "map"):
        assert {(column, *where) for where in everywhere} <= found
    stacked = {name for name in available() if name.startswith("cpm_stacked")}
    for column in set(available()) - stacked:
        assert {(column, data, split) for data in IDA for split in range(10)} <= found


def test_quick_is_a_part_of_full_and_targets_are_parts_of_all():
    for target in TARGETS:
        assert columns_of(jobs(target, "quick")) <= columns_of(jobs(target, "full"))
        assert 0 < len(jobs(target, "full")) < len(jobs("all", "full"))
        assert columns_of(jobs(target, "full")) <= columns_of(jobs("all", "full"))


def test_a_finished_fit_is_not_run_again(tmp_path):
    run([SPIRALS], tmp_path, verbose=False)
    path = SPIRALS.path(tmp_path)
    record = load_result(path)
    assert record["config"]["n_sweeps"] == 40
    assert len(record["layers"]) == len(record["depths"]) == 2
    save_result(path, {**record, "marked": True})
    run([SPIRALS], tmp_path, verbose=False)
    assert load_result(path)["marked"]


def test_shallow_results_are_prefixes_of_a_deep_run(seed):
    X, y, X_test, y_test = make_circles(300, seed=seed % 1000).split(0)
    shallow, deep = (
        fit_rows(X, y, X_test, y_test, {**MAP, "min_depth": depth, "max_depth": depth}, 1)[0] for depth in (1, 3)
    )
    assert len(deep["depths"]) == 3
    assert {**shallow["depths"][0], "seconds": 0} == {**deep["depths"][0], "seconds": 0}


def test_growth_goes_on_to_the_wanted_depth_and_not_beyond_need(seed):
    X, y, X_test, y_test = make_xor(200, seed=seed % 1000).split(0)
    record, fits = fit_rows(X, y, X_test, y_test, {**GIBBS, **TINY, "min_depth": 3, "max_depth": 6}, 0)
    rises = max(record["chosen"].values()) + 1
    assert len(fits) == min(6, max(3, rises))


def test_both_complexity_formulas(seed):
    X, y, X_test, y_test = make_xor(200, seed=seed % 1000).split(0)
    config = {**GIBBS, **TINY, "min_depth": 3, "max_depth": 3}
    record, fits = fit_rows(X, y, X_test, y_test, config, 0)
    n_weights = [sum(side.hyperplanes.size for side in fit.layer.sides) for fit in fits]
    units = [sum(fit.layer.n_experts) for fit in fits]
    inputs = [3, 1 + 2 + units[0], 1 + units[0] + units[1]]
    for t, entry in enumerate(record["depths"]):
        assert entry["complexity"] == pytest.approx(sum(n_weights[: t + 1]) / 3)
        assert entry["complexity_code"] == pytest.approx(sum(n_weights[: t + 1]) / inputs[t])


def test_the_lower_part_of_a_stack_is_the_shallower_stack(seed):
    X, y, X_test, _ = make_circles(200, seed=seed % 1000).split(0)
    options = {"share": 1e-4, "c_grid": (1e-3,), "k_grid": (1, 3)}
    deep, shallow = StackedCpm(3, **options).fit(X, y, 5), StackedCpm(2, **options).fit(X, y, 5)
    assert np.array_equal(deep.prefix(2).decision_function(X_test), shallow.decision_function(X_test))
    assert deep.prefix(2).complexity == shallow.complexity


def test_a_network_gets_the_widths_that_were_inferred(tmp_path):
    job = Job("dnn_of_aic_eps_gibbs", "banana", 3, {})
    with pytest.raises(FileNotFoundError, match="gibbs/banana-3"):
        inferred_widths(tmp_path, "aic_eps_gibbs", job)
    depths = [{"n_experts": [3, 5]}, {"n_experts": [2, 2]}, {"n_experts": [7, 1]}]
    record = {"seed": 3, "config": {}, "depths": depths, "chosen": {"aic": 1, "aic_eps": 2}}
    save_result(replace(job, column="gibbs").path(tmp_path), record)
    assert inferred_widths(tmp_path, "aic_eps_gibbs", job) == [8, 4]
    X, y, X_test, y_test = make_circles(100).split(0)
    result = fit_rival(job, tmp_path, X, y, X_test, y_test)
    assert result["complexity"] == pytest.approx(8 + 8 * 4 / 3)


def test_arrays_survive_packing(rng):
    array = rng.standard_normal((3, 5)).astype(np.float32)
    assert np.array_equal(unpack(pack(array)), array)
    picture = rng.random(784)
    assert np.abs(unpack(pack_picture(picture)) / 255 - picture).max() <= 0.5 / 255 + 1e-12
