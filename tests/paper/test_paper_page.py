"""Cells, tables and the page, from records made by hand and from a small fit."""

import re

import numpy as np
import pytest
from benchmarks import paper_values as paper
from benchmarks.paper import figures, tables
from benchmarks.paper.arrays import pack_picture
from benchmarks.paper.fits import GIBBS, PAIRS, Job
from benchmarks.paper.render import images, render
from benchmarks.paper.run import run
from benchmarks.paper.tables import Comparison
from benchmarks.record import save_result

LARGEST_PICTURE = 150_000  # bytes


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
        record = {
            "column": column,
            "data": data,
            "split": split,
            "seed": split,
            "config": {},
            "cpu_seconds": 1.0,
            **fields,
        }
        save_result(home / column / f"{data}-{split}.json", record)

    for split in (0, 1):
        keep("lr", "banana", split, error=46.0 + 2 * split, complexity=1.0)
        keep("svm", "banana", split, error=10.0, complexity=100.0)
        depths = [entry(20.0 + split), entry(12.0 + split, complexity=20.0), entry(11.0), entry(10.0 + split)]
        keep("gibbs", "banana", split, depths=depths, chosen={"aic": 2, "aic_eps": 3, "aic_inputs": 1, "bic": 1})
        keep("map", "banana", split, depths=depths, chosen={"aic": 4, "aic_eps": 1, "aic_inputs": 2, "bic": 1})
    pictures = [[pack_picture(np.linspace(0, 1, 784))] * 2, [pack_picture(np.zeros(784))] * 3]
    chosen = {"aic": 1, "aic_eps": 1, "aic_inputs": 1, "bic": 1}
    keep("mnist", PAIRS[0], 0, depths=[entry(2.0)], chosen=chosen, subtypes=pictures)
    tiny = {"n_sweeps": 40, "n_draws": 10, "max_experts": 4, "min_depth": 2, "max_depth": 2}
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
    records = tables.read(folder)

    def of(method, what="error"):
        return tables.values(records, method, "banana", what)

    assert of("lr") == (46.0, 48.0)
    assert of("pbdn1") == (20.0, 21.0)
    assert of("pbdn4") == (10.0, 11.0)
    assert of("aic_gibbs") == (12.0, 13.0)
    assert of("aic_eps_gibbs", "depth") == (3.0, 3.0)
    assert of("aic_sgd") == (10.0, 11.0)
    assert of("default_gibbs") == (19.0, 20.0)  # the posterior average
    assert of("default_sgd") == (12.0, 13.0)
    assert of("aic_gibbs", "complexity") == (20.0, 20.0)
    assert of("aic_gibbs", "complexity_code") == (10.0, 10.0)
    assert of("svm", "complexity_code") == (100.0, 100.0)
    assert of("rvm") == ()


def test_means_are_relative_to_our_svm(folder):
    records = tables.read(folder)
    cells = tables.error_cells(records)
    assert tables.normalised_ratios(cells, records, "lr", "error") == [4.7]
    assert tables.normalised(cells, records, paper.NORMALISED_ERROR, "error")["lr"] == "2.237<br>4.700 (1 sets)"


def test_worse_cells_are_named(folder):
    cells = tables.error_cells(tables.read(folder))
    worse = {"pbdn2", "aic_gibbs", "aic_eps_sgd"}  # 12.5 against 10.94 and 10.97, 20.5 against 11.79
    assert {(c.method, c.data) for c in tables.beyond(cells)} == {(method, "banana") for method in worse}


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_the_page_has_every_section_and_picture(folder, tmp_path, profile):
    page = tmp_path / "page" / "reproduction.md"
    assert render("render", profile, folder, page) == str(page)
    text = page.read_text(encoding="utf-8")
    for name in ("Table 1", "Table 2", "Table 3", "Table 5", "Figure 1", "Sorted weights"):
        assert f"## {name}" in text
    assert ("no measurement" in text) == (profile == "quick")
    assert "47.76 ± 4.38<br>47.00 ± 1.41" in text
    links = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert len(links) == 4  # subtypes, spirals with one and two pairs, weights
    for link in links:
        assert 0 < (page.parent / link).stat().st_size < LARGEST_PICTURE


def test_every_row_of_a_table_has_the_cells_of_its_head(folder, tmp_path):
    page = tmp_path / "page" / "reproduction.md"
    render("render", "full", folder, page)
    width = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            width = None
            continue
        width = line.count("|") if width is None else width
        assert line.count("|") == width, line


def test_spirals_drawn_from_the_record_are_the_network_that_was_fitted(folder, tmp_path):
    records = tables.read(folder)
    pictures = figures.figure1(records, images(tmp_path / "page.md"))
    assert sorted(pictures) == [1, 2]
    network, scaling = figures.spirals_network(records)
    X, y = figures.spirals_rows(test=True)
    wrong = np.mean((network.class_probability(scaling.apply(X))[:, 1] > 0.5) != y)
    assert 100 * wrong == pytest.approx(records["figure1", "two_spirals"][0]["depths"][1]["point"]["error"], abs=0.2)
