"""What is fitted, and that a record is made once."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import record
from benchmarks.data import IDA, LARGE
from benchmarks.paper.fits import GIBBS, MAP, PUBLISHED_GIBBS, PUBLISHED_MAP, TARGETS, Job, jobs
from benchmarks.paper.growth import estimator, fit_depths
from benchmarks.paper.run import fit, inferred_widths, run
from benchmarks.record import pack, pack_picture, unpack
from benchmarks.rivals import available
from benchmarks.rivals.cpm import StackedCpm

from pbdn.datasets import make_circles, make_xor

SHORT = {"prediction": "posterior", "n_sweeps": 40, "n_draws": 10, "n_paths": 2}
TINY = {"gibbs": SHORT, "max_experts": 4}
SPIRALS = Job("figure1", "two_spirals", 0, {**GIBBS, **TINY, "paths": False, "min_depth": 2, "max_depth": 2})


def columns_of(found):
    return {(job.column, job.data, job.split) for job in found}


def test_every_job_has_its_own_record():
    for profile in ("quick", "full"):
        found = jobs("all", profile)
        assert len({(job.experiment, job.key) for job in found}) == len(found)


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
    (line,) = record.read("paper/further", tmp_path)
    assert line["config"]["gibbs"]["n_sweeps"] == 40
    assert len(line["layers"]) == len(line["depths"]) == 2
    run([SPIRALS], tmp_path, verbose=False)
    assert len(record.path_of("paper/further", tmp_path).read_text().splitlines()) == 1


def test_shallow_results_are_prefixes_of_a_deep_run(seed):
    split = make_circles(300, seed=seed % 1000).split(0)
    shallow, deep = (fit_depths(split, {**MAP, "min_depth": depth, "max_depth": depth}, 1)[0] for depth in (1, 3))
    assert len(deep["depths"]) == 3
    assert shallow["depths"][0] == deep["depths"][0]


def test_growth_goes_on_to_the_wanted_depth_and_not_beyond_need(seed):
    split = make_xor(200, seed=seed % 1000).split(0)
    line, watcher, _ = fit_depths(split, {**GIBBS, **TINY, "paths": False, "min_depth": 3, "max_depth": 6}, 0)
    rises = max(line["chosen"].values()) + 1
    assert len(watcher.layers) == min(6, max(3, rises))


def test_paths_predict_at_the_depth_of_the_default_rule():
    line, _, _ = fit_depths(make_xor(200, seed=1).split(0), {**GIBBS, **TINY, "min_depth": 3}, 0)
    with_paths = [depth for depth, entry in enumerate(line["depths"], 1) if "paths" in entry]
    assert with_paths == [line["chosen"]["aic_inputs"]]
    assert all("posterior" in entry for entry in line["depths"])


def test_both_complexity_formulas(seed):
    split = make_xor(200, seed=seed % 1000).split(0)
    line, watcher, _ = fit_depths(split, {**GIBBS, **TINY, "paths": False, "min_depth": 3, "max_depth": 3}, 0)
    n_weights = [sum(side.hyperplanes.size for side in layer.sides) for layer in watcher.layers]
    units = [sum(layer.n_experts) for layer in watcher.layers]
    inputs = [3, 1 + 2 + units[0], 1 + units[0] + units[1]]
    for t, entry in enumerate(line["depths"]):
        assert entry["complexity"] == pytest.approx(sum(n_weights[: t + 1]) / 3)
        assert entry["complexity_code"] == pytest.approx(sum(n_weights[: t + 1]) / inputs[t])


def test_published_settings_reach_the_estimator():
    script = estimator(PUBLISHED_MAP, 400, 0)
    assert script.max_experts == 26  # round(10 log10 400)
    assert script.map_config.pruning == "published_draw"
    code = estimator(PUBLISHED_GIBBS, 400, 0)
    assert (code.gibbs_config.sampler, code.gibbs_config.n_sweeps) == ("counts", 5000)
    assert (code.priors.mass_shape, code.priors.precision_floor) == (0.01, 1e-3)


def test_the_lower_part_of_a_stack_is_the_shallower_stack(seed):
    X, y, X_test, _ = make_circles(200, seed=seed % 1000).split(0)
    options = {"share": 1e-4, "c_grid": (1e-3,), "k_grid": (1, 3)}
    deep, shallow = StackedCpm(3, **options).fit(X, y, 5), StackedCpm(2, **options).fit(X, y, 5)
    assert np.array_equal(deep.prefix(2).decision_function(X_test), shallow.decision_function(X_test))
    assert deep.prefix(2).complexity == shallow.complexity


def test_a_network_gets_the_widths_that_were_inferred(tmp_path):
    job = Job("dnn_of_aic_eps_gibbs", "two_spirals", 0, {})
    with pytest.raises(LookupError, match="paper/gibbs of two_spirals-0"):
        inferred_widths(tmp_path, "aic_eps_gibbs", job)
    depths = [{"n_experts": [3, 5]}, {"n_experts": [2, 2]}, {"n_experts": [7, 1]}]
    source = replace(job, column="gibbs")
    line = {**source.identity, "config": {}, "depths": depths, "chosen": {"aic": 1, "aic_eps": 2}}
    record.append(source.experiment, line, tmp_path)
    assert inferred_widths(tmp_path, "aic_eps_gibbs", job) == [8, 4]
    assert fit(job, tmp_path)["complexity"] == pytest.approx(8 + 8 * 4 / 3)


def test_arrays_survive_packing(rng):
    array = rng.standard_normal((3, 5)).astype(np.float32)
    assert np.array_equal(unpack(pack(array)), array)
    picture = rng.random(784)
    assert np.abs(unpack(pack_picture(picture)) / 255 - picture).max() <= 0.5 / 255 + 1e-12
