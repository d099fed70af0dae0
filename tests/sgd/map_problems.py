"""Small problems for the tests of the MAP engine."""

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from pbdn.model.labelling import SECOND_CLASS, Labelling, for_each_class


def labelling_of(n_sides: int) -> Labelling:
    """A lone side says yes to the second class; otherwise a side for every class."""
    return SECOND_CLASS if n_sides == 1 else for_each_class(n_sides)


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
