import numpy as np
import pytest
from map_problems import Problem, labelling_of


@pytest.fixture
def problem(rng):
    """Random rows with zeros in them, random weights, and sides of different widths."""

    def make(n_rows=37, n_inputs=7, widths=(3, 5), spread=0.7, labelling=None):
        labelling = labelling_of(len(widths)) if labelling is None else labelling
        inputs = rng.normal(size=(n_rows, n_inputs)) * (rng.random((n_rows, n_inputs)) < 0.6)
        n_codes = max(max(labelling.sides) + 1, 2)
        codes = rng.integers(0, n_codes, n_rows)
        starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        parameters = spread * rng.normal(size=(n_inputs + 2, starts[-1]))
        return Problem(inputs, codes, rng.gamma(2.0, size=n_rows), parameters, starts, labelling)

    return make
