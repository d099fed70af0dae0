"""Labelled rows in memory, as a fit carries them around."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.data.ordering import row_order
from pbdn.data.row_source import ArraySource
from pbdn.errors import InvalidInputError

MAX_REPEATED_NUMBERS = 1 << 27  # inputs of rows repeated by their weights: a gigabyte


@dataclass(frozen=True)
class LabelledRows:
    """Inputs (dense array or CSR matrix), what each row says, and row weights (None: all one).

    ``targets`` are class codes or, for values on a line, bounds of shape (n_rows, 2) (`pbdn.model.statements`).
    """

    inputs: Any
    targets: NDArray[Any]
    weights: NDArray[np.float64] | None = None

    @property
    def codes(self) -> NDArray[np.int64]:
        """The targets, where they are class codes."""
        return self.targets

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.inputs.shape[0])

    @property
    def n_features(self) -> int:
        """Number of inputs."""
        return int(self.inputs.shape[1])

    @property
    def total_weight(self) -> float:
        """Sum of the row weights."""
        return float(self.n_rows if self.weights is None else self.weights.sum())

    def take(self, index: Any) -> "LabelledRows":
        """The rows of a mask or an index array."""
        weights = None if self.weights is None else self.weights[index]
        return LabelledRows(self.inputs[index], self.targets[index], weights)

    def with_inputs(self, inputs: Any) -> "LabelledRows":
        """The same rows, seen through other inputs."""
        return replace(self, inputs=inputs)

    def source(self, n_codes: int) -> ArraySource:
        """The rows as minibatches and blocks; codes run from 0 to ``n_codes`` - 1."""
        return ArraySource(self.inputs, self.codes, classes=np.arange(n_codes), weights=self.weights)

    def in_content_order(self) -> "LabelledRows":
        """The rows in an order that depends on what they hold, not on where they stand."""
        return self.take(row_order(self.inputs, self.targets, self.weights))

    def repeated(self, can_merge: bool) -> "LabelledRows":
        """Rows of whole weights as that many rows; left alone where a weight is fractional or, if ``can_merge``, too large."""
        if self.weights is None:
            return self
        n_copies = float(np.ceil(self.weights).sum())
        if n_copies * (self.n_features + 1) > MAX_REPEATED_NUMBERS:
            if can_merge:
                return self
            raise InvalidInputError(
                f"sample_weight times class_weight adds up to {n_copies:g}, which this sampler would hold as that many rows; "
                "divide the weights by a common factor, or use sampler='event_times' or inference='map'."
            )
        if np.any(self.weights != np.floor(self.weights)):
            return self
        place = np.repeat(np.arange(self.n_rows), self.weights.astype(np.int64))
        return LabelledRows(self.inputs[place], self.targets[place])


def dense_rows(inputs: Any, rows: NDArray[np.int64]) -> Any:
    """A few rows, dense."""
    chosen = inputs[rows]
    return chosen.toarray() if hasattr(chosen, "toarray") else chosen
