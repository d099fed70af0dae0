"""The paper's fits, tables and pages."""

import re
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import paper_values as paper
from benchmarks import record
from benchmarks.data_and_methods import IDA, LARGE, PAIRS
from benchmarks.paper import cells as paper_cells
from benchmarks.paper import figures, render, tables
from benchmarks.paper.cells import Comparison
from benchmarks.paper.fits import GIBBS, MAP, PUBLISHED_GIBBS, PUBLISHED_MAP, TARGETS, Job, jobs
from benchmarks.paper.run import estimator, fit, fit_depths, inferred_widths, run
from benchmarks.record import pack, pack_picture, unpack
from benchmarks.rivals import available
from benchmarks.rivals.cpm import StackedCpm
from benchmarks.tables import MARKED, pages

from pbdn.datasets import make_circles, make_xor

SHORT = {"prediction": "posterior", "n_sweeps": 40, "n_draws": 10, "n_paths": 2}
TINY = {"gibbs": SHORT, "max_experts": 4}
SPIRALS = Job("figure1", "two_spirals", 0, {**GIBBS, **TINY, "paths": False, "min_depth": 2, "max_depth": 2})
LARGEST_PICTURE = 150_000  # bytes


# What is fitted, and that a record is made once.


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


# Cells, tables and the page, from records made by hand and from a small fit.


def entry(error, units=(2, 3), complexity=5.0):
    criteria = {"aic": 10.0, "aic_eps": 9.0, "aic_inputs": 11.0, "bic": 12.0}
    return {
        "point": {"error": error},
        "posterior": {"error": error - 1},
        "n_experts": list(units),
        "expert_weights": [[0.5] * units[0], [0.25] * units[1]],
        "complexity": complexity,
        "complexity_code": complexity / 2,
        "criteria": criteria,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two splits of banana for LR, SVM, a Gibbs and a MAP run; a pair of digits; two spirals."""

    home = tmp_path_factory.mktemp("records")

    def keep(column, data, split, **fields):
        job = Job(column, data, split, {})
        record.append(job.experiment, {**job.identity, "config": {}, "cpu_seconds": 1.0, **fields}, home)

    for split in (0, 1):
        keep("lr", "banana", split, error=46.0 + 2 * split, complexity=1.0)
        keep("svm", "banana", split, error=10.0, complexity=100.0)
        depths = [entry(20.0 + split), entry(12.0 + split, complexity=20.0), entry(11.0), entry(10.0 + split)]
        keep("gibbs", "banana", split, depths=depths, chosen={"aic": 2, "aic_eps": 3, "aic_inputs": 1, "bic": 1})
        keep("map", "banana", split, depths=depths, chosen={"aic": 4, "aic_eps": 1, "aic_inputs": 2, "bic": 1})
    pictures = [[pack_picture(np.linspace(0, 1, 784))] * 2, [pack_picture(np.zeros(784))] * 3]
    chosen = {"aic": 1, "aic_eps": 1, "aic_inputs": 1, "bic": 1}
    keep("mnist", PAIRS[0], 0, depths=[entry(2.0)], chosen=chosen, subtypes=pictures)
    for split in range(10):
        fields = {"method": "default", "data": "banana", "split": split, "seed": 0, "config": {}, "error": 19.0 + split}
        record.append("quality", fields, home)
    short = {"prediction": "posterior", "n_sweeps": 40, "n_draws": 10}
    tiny = {"gibbs": short, "max_experts": 4, "paths": False, "min_depth": 2, "max_depth": 2}
    run([Job("figure1", "two_spirals", 0, {**GIBBS, **tiny})], home, verbose=False)
    return home


def test_a_cell_shows_paper_ours_and_the_difference_in_standard_deviations():
    cell = Comparison("lr", "banana", (10.0, 2.0), (12.0, 14.0), 10)
    assert cell.gap == pytest.approx(1.5)
    assert cell.text() == "10.00 ± 2.00<br>13.00 ± 1.41 (2 of 10)<br>**+1.5**"
    assert Comparison("lr", "banana", (10.0, 2.0), (), 10).text() == "10.00 ± 2.00<br>not run"
    assert Comparison("lr", "banana", (9.5, 0.0), (9.4545, 9.4545), 2, 1).text() == "9.5 ± 0.0<br>9.5 ± 0.0<br>+0.0"
    assert Comparison("lr", "banana", (1.0, 0.0), (2.0, 1.0), 2).gap is None


def test_values_come_from_the_right_depth(folder):
    records = paper_cells.read(folder)

    def of(method, what="error"):
        return paper_cells.values(records, method, "banana", what)

    assert of("lr") == (46.0, 48.0)
    assert of("pbdn1") == (20.0, 21.0)
    assert of("pbdn4") == (10.0, 11.0)
    assert of("aic_gibbs") == (12.0, 13.0)
    assert of("aic_eps_gibbs", "depth") == (3.0, 3.0)
    assert of("aic_sgd") == (10.0, 11.0)
    assert of("default") == tuple(19.0 + split for split in range(10))
    assert of("single") == ()
    assert of("aic_gibbs", "complexity") == (20.0, 20.0)
    assert of("aic_gibbs", "complexity_code") == (10.0, 10.0)
    assert of("svm", "complexity_code") == (100.0, 100.0)
    assert of("rvm") == ()


def test_means_are_relative_to_our_svm(folder):
    records = paper_cells.read(folder)
    cells = tables.error_cells(records)
    assert paper_cells.normalised_ratios(cells, records, "lr", "error") == [4.7]
    assert paper_cells.normalised(cells, records, paper.NORMALISED_ERROR, "error")["lr"] == "2.237<br>4.700 (1 sets)"


def test_worse_cells_are_named(folder):
    cells = tables.error_cells(paper_cells.read(folder))
    worse = {"pbdn2", "aic_gibbs", "aic_eps_sgd"}  # 12.5 against 10.94 and 10.97, 20.5 against 11.79
    assert {(c.method, c.data) for c in paper_cells.beyond(cells)} == {(method, "banana") for method in worse}


def test_the_pages_have_every_section_and_picture(folder, tmp_path):
    records = paper_cells.read(folder)
    page = render.write(records, "full", tmp_path / "page")
    text = page.read_text(encoding="utf-8")
    appendix = (page.parent / "reproduction_tables.md").read_text(encoding="utf-8")
    for name in ("Table 1", "Table 2", "Table 3", "Figure 1", "Sorted weights"):
        assert f"## {name}" in text
    for name in ("Table 1", "Table 5", "CPU seconds"):
        assert f"## {name}" in appendix
    assert "no measurement" not in text
    assert "no measurement" in render.texts(records, "quick")["reproduction.md"]
    assert "47.76 ± 4.38<br>47.00 ± 1.41" in text
    links = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert len(links) == 4  # subtypes, spirals with one and two pairs, weights
    for link in links:
        assert 0 < (page.parent / link).stat().st_size < LARGEST_PICTURE


def table_rows(text):
    """The tables of a page, as lists of lines."""
    found = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [rows for rows in found if rows]


@pytest.fixture(scope="module")
def texts():
    """Every page that holds tables, and what it should say."""
    return pages()


def test_pages_are_what_the_records_say(texts):
    stale = [path.name for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    assert not stale, "run: python -m benchmarks.tables"


def test_tables_are_short_and_every_row_has_the_cells_of_its_head(texts):
    for path, text in texts.items():
        for rows in table_rows(text):
            assert len(rows) - 2 <= 30, (path.name, rows[0])
            assert len({row.count("|") for row in rows}) == 1, (path.name, rows[0])


def test_every_table_of_the_command_stands_somewhere(texts):
    from benchmarks.tables import TABLES

    marked = {name for text in texts.values() for _, name, _ in MARKED.findall(text)}
    assert marked == set(TABLES)


def test_every_picture_of_the_pages_is_committed(texts):
    for path, text in texts.items():
        for link in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text):
            assert (path.parent / link).stat().st_size < LARGEST_PICTURE


def test_spirals_drawn_from_the_record_are_the_network_that_was_fitted(folder, tmp_path):
    records = paper_cells.read(folder)
    pictures = figures.figure1(records, tmp_path)
    assert sorted(pictures) == [1, 2]
    network, scaling = figures.spirals_network(records)
    X, y = figures.spirals_rows(test=True)
    wrong = np.mean((network.predict(scaling.apply(X))[:, 1] > 0.5) != y)
    assert 100 * wrong == pytest.approx(records["figure1", "two_spirals"][0]["depths"][1]["point"]["error"], abs=0.2)
