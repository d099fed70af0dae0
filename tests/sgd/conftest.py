"""Small problems for the tests of the MAP engine."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from networks import labelling_of
from pbdn.model.labelling import Labelling


@dataclass
class Problem:
    """Rows, and the packed parameters of sides on them."""

    inputs: Any
    codes: Any
    weights: Any
    parameters: Any
    starts: Any
    labelling: Labelling

    @property
    def csr(self) -> Any:
        """The rows as a sparse matrix."""
        return sp.csr_array(self.inputs)

    @property
    def rows(self) -> tuple[Any, Any, Any]:
        """What the objective takes first."""
        return self.inputs, self.codes, self.weights

    @property
    def sides(self) -> tuple[Any, Any, Any]:
        """What the passes over all rows take after the source."""
        return self.parameters, self.starts, self.labelling.positive


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
