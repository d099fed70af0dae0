from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp


@dataclass
class Problem:
    inputs: Any
    codes: Any
    weights: Any
    parameters: Any
    starts: Any

    @property
    def csr(self):
        return sp.csr_array(self.inputs)


@pytest.fixture
def problem(rng):
    """Random rows with zeros in them, random weights, and sides of different widths."""

    def make(n_rows=37, n_inputs=7, widths=(3, 5), spread=0.7):
        inputs = rng.normal(size=(n_rows, n_inputs)) * (rng.random((n_rows, n_inputs)) < 0.6)
        codes = rng.integers(0, max(len(widths), 2), n_rows)
        starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        parameters = spread * rng.normal(size=(n_inputs + 2, starts[-1]))
        return Problem(inputs, codes, rng.gamma(2.0, size=n_rows), parameters, starts)

    return make
