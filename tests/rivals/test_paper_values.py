"""The transcription agrees with the averages that the paper itself prints."""

import numpy as np
import pytest
from benchmarks import paper_values as paper


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
