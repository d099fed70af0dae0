"""The paper's tables (Zhou, NeurIPS 2018) as plain numbers, read from paper_values.json beside this module."""

import json
from pathlib import Path
from typing import Any

_VALUES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

Cell = tuple[float, float]
"""Mean and standard deviation over the splits."""


def _cells(table: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, Cell]]:
    """Two-level tables of cells."""
    return {row: {name: (cell[0], cell[1]) for name, cell in cells.items()} for row, cells in table.items()}


DATASETS: tuple[str, ...] = tuple(_VALUES["datasets"])
METHODS: tuple[str, ...] = tuple(_VALUES["methods"])

ERROR = _cells(_VALUES["error"])
"""Table 2: test error in percent, by data set and method."""
NORMALISED_ERROR: dict[str, float] = _VALUES["normalised_error"]
"""Table 2, last rows: mean over the data sets of error divided by the error of the SVM."""
COMPLEXITY = _cells(_VALUES["complexity"])
"""Table 5: equivalent number of support vectors or hyperplanes; the Gibbs columns use the published code's divisor."""
NORMALISED_COMPLEXITY: dict[str, float] = _VALUES["normalised_complexity"]
"""Table 5, last rows."""
DEPTH = _cells(_VALUES["depth"])
"""Table 3: inferred depth, by method and data set."""
MNIST_ERROR = _cells(_VALUES["mnist_error"])
"""Table 1: test error in percent over five trials, by method and pair of digits."""
DATA_SIZES: dict[str, tuple[int, int, int]] = {name: tuple(size) for name, size in _VALUES["data_sizes"].items()}
"""Table 4: training rows, test rows, features."""
STACKED_CPM_ERROR: dict[str, dict[int, float]] = {
    name: {int(depth): error for depth, error in errors.items()}
    for name, errors in _VALUES["stacked_cpm_error"].items()
}
"""Section 4, text: test error in percent of CPMs stacked 2, 3 and 4 deep."""
PBDN_ARCHITECTURE_DNN: dict[str, float] = _VALUES["pbdn_architecture_dnn"]
"""Section 4, text: SVM-normalised mean error of a DNN with the architecture a PBDN inferred."""
TWO_SPIRALS_WIDTHS: tuple[int, ...] = tuple(_VALUES["two_spirals_widths"])
"""Section 4, text: hidden units of layers 1 to 10 (both sides together)."""
TWO_SPIRALS_DEPTH: int = _VALUES["two_spirals_depth"]
"""Depth chosen by both criteria."""
