"""Labelled rows in memory, as a fit carries them around: their labels and weights checked, in an order of their own.

The order depends on what rows hold, not on where they stand or in which units they are measured. Random streams belong to blocks
of rows. Putting the rows into this order first makes a Gibbs fit the same to the last bit for any order in which the rows were
given, and a row of weight 2 the same as the row given twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite, compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from pbdn.data.row_source import ArraySource, as_counts
from pbdn.errors import InvalidInputError
from pbdn.model.scaling import Scaling
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_are_classes

MOST_TRAINED = 4_000_000  # numbers of the rows from which a fit in memory learns
FEWEST_TRAINED = 20_000  # rows that are never thinned
MAX_REPEATED_NUMBERS = 1 << 27  # inputs of rows repeated by their weights: a gigabyte


@dataclass(frozen=True)
class LabelledRows:
    """Inputs (dense array or CSR matrix), what each row says, and row weights (None: all one).

    ``targets`` are class codes or, for values on a line, bounds and maybe limits, (n_rows, 2 or 3) (`pbdn.model.labelling`).
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

    @property
    def n_meant(self) -> int:
        """Number of rows that these stand for: a row of whole weight w for w rows."""
        return int(self.total_weight) if self._has_whole_weights else self.n_rows

    @property
    def _has_whole_weights(self) -> bool:
        return self.weights is None or bool(np.all(self.weights == np.floor(self.weights)))

    def take(self, index: Any) -> "LabelledRows":
        """The rows of a mask or an index array."""
        weights = None if self.weights is None else self.weights[index]
        return LabelledRows(self.inputs[index], self.targets[index], weights)

    def with_inputs(self, inputs: Any) -> "LabelledRows":
        """The same rows, seen through other inputs."""
        return replace(self, inputs=inputs)

    def with_targets(self, change: Callable[[Any], Any]) -> "LabelledRows":
        """The same rows, which say something else."""
        return replace(self, targets=change(self.targets))

    def some(self, n: int) -> "LabelledRows":
        """The first rows."""
        return self.take(slice(0, n))

    def scaled(self, scaling: Scaling) -> "LabelledRows":
        """The same rows with scaled features."""
        return self.with_inputs(scaling.apply(self.inputs))

    def marks(self) -> list[Any]:
        """What a checkpoint remembers of the rows."""
        return [self.inputs, self.targets, self.weights]

    def source(self, n_codes: int) -> ArraySource:
        """The rows as minibatches and blocks; codes run from 0 to ``n_codes`` - 1."""
        return ArraySource(self.inputs, self.codes, classes=np.arange(n_codes), weights=self.weights)

    def in_content_order(self) -> "LabelledRows":
        """The rows in an order that depends on what they hold, not on where they stand."""
        return self.take(row_order(self.inputs, self.targets, self.weights))

    @property
    def most_trained(self) -> int:
        """Rows of this kind from which a fit in memory learns, at most."""
        numbers = self.inputs.nnz if hasattr(self.inputs, "nnz") else self.inputs.size
        return most_trained(numbers / max(self.n_rows, 1))

    def thinned(self, most: int) -> "LabelledRows":
        """About ``most`` rows at most, in content order: those of small classes stay, those of larger ones get more weight."""
        if self.n_rows <= most:
            return self
        order = row_order(self.inputs, self.codes, self.weights)
        classes, codes, counts = np.unique(self.codes[order], return_inverse=True, return_counts=True)
        quota, left = counts.copy(), most
        for j, c in enumerate(np.argsort(counts, kind="stable")):
            quota[c] = min(counts[c], max(1, left // (classes.size - j)))
            left -= quota[c]
        by_class = np.argsort(codes, kind="stable")
        rank = np.empty(order.size, np.int64)
        rank[by_class] = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
        keep = rank < quota[codes]
        share = (counts / quota)[codes[keep]]
        kept = self.take(order[keep])
        return replace(kept, weights=share if kept.weights is None else share * kept.weights)

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
        if not self._has_whole_weights:
            return self
        place = np.repeat(np.arange(self.n_rows), self.weights.astype(np.int64))
        return LabelledRows(self.inputs[place], self.targets[place])


def most_trained(n_features: float) -> int:
    """Rows of so many features from which a fit in memory learns, at most."""
    return max(FEWEST_TRAINED, int(MOST_TRAINED / n_features)) if n_features else FEWEST_TRAINED


def rows_to_prepare(
    codes: NDArray[np.int64], weights: NDArray[np.float64] | None, n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Numbers of the rows from which a fit in memory would learn, chosen before their features are made, and their weights."""
    numbers = np.arange(codes.size) if weights is None else np.flatnonzero(weights)
    rows = LabelledRows(numbers[:, None], codes[numbers], None if weights is None else weights[numbers])
    thin = rows.thinned(most_trained(n_features))
    if thin is rows:
        return np.arange(codes.size), weights
    order = np.argsort(thin.inputs[:, 0])
    return thin.inputs[order, 0], None if thin.weights is None else thin.weights[order]


def dense_rows(inputs: Any, rows: NDArray[np.int64]) -> Any:
    """A few rows, dense."""
    chosen = inputs[rows]
    return chosen.toarray() if hasattr(chosen, "toarray") else chosen


def numeric_bounds(y: Any) -> FloatArray:
    """Targets of a regressor as bounds: numbers say "exactly here", pairs of numbers "between these".

    Raises
    ------
    InvalidInputError
        Something is no number, or bounds are the wrong way round.
    """
    values = np.asarray(y)
    if values.dtype.names is not None and len(values.dtype.names) == 2:
        values = np.column_stack([values[name] for name in values.dtype.names])
    if values.ndim != 2 or values.shape[1] != 2:
        values = column_or_1d(y, warn=True)
        if values.dtype.kind not in "fiub":
            values = _as_numbers(values)
        assert_all_finite(values, input_name="y")
        exact = values.astype(np.float64)
        return np.column_stack([exact, exact])
    bounds = _as_numbers(values)
    low, high = bounds.T
    wrong = np.flatnonzero(np.isnan(bounds).any(axis=1))
    if wrong.size:
        raise InvalidInputError(f"y has NaN in row {wrong[0]}; give -inf or inf where there is no bound.")
    wrong = np.flatnonzero((low > high) | ((low == high) & np.isinf(low)))
    if wrong.size:
        i = wrong[0]
        raise InvalidInputError(
            f"y has the bounds ({low[i]:g}, {high[i]:g}) in row {i}; the first must not be above the second, and equal "
            "bounds must be finite."
        )
    return bounds


def positive_bounds(bounds: FloatArray) -> FloatArray:
    """Bounds whose logarithms are bounds too: a lower one of 0 is none.

    Raises
    ------
    InvalidInputError
        A value is not above 0.
    """
    wrong = np.flatnonzero((bounds[:, 1] <= 0.0) | (bounds[:, 0] < 0.0) & np.isfinite(bounds[:, 0]))
    if wrong.size:
        raise InvalidInputError(
            f"y has {bounds[wrong[0], 1]:g} in row {wrong[0]}, but only values above 0 have a logarithm; use log=False, or "
            "mend the rows that are not."
        )
    return np.column_stack([np.where(bounds[:, 0] > 0.0, bounds[:, 0], -np.inf), bounds[:, 1]])


def _as_numbers(values: Any) -> FloatArray:
    if values.dtype.kind in "mM":
        raise InvalidInputError("y must be numbers, but holds dates or lengths of time; give days or seconds.")
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"y must be numbers: {error}.") from None


def settled_classes(declared: Any, known: NDArray[Any] | None, most: int | None) -> NDArray[Any]:
    """The classes of a model that learns in batches: declared in the first one, where none are known; later ones may repeat them."""
    if known is not None:
        if declared is not None and not np.array_equal(np.unique(declared), known):
            raise InvalidInputError(
                f"classes={list(declared)!r} is not the same as on the last call to partial_fit: {known.tolist()!r}."
            )
        return known
    if declared is None:
        raise InvalidInputError("classes must be passed on the first call to partial_fit.")
    labels = np.unique(declared)
    check_are_classes(labels)
    if labels.size < 2 or (most is not None and labels.size > most):
        needed = "at least two" if most is None else "exactly two"
        raise InvalidInputError(f"classes={labels.tolist()!r}; {needed} are needed.")
    return labels


def weigh_rows(X: Any, y: Any, codes: NDArray[Any], sample_weight: Any, class_weight: Any = None) -> LabelledRows:
    """Rows that count, with sample_weight times class_weight; weights are None where all are one."""
    if sample_weight is None and class_weight is None:
        return LabelledRows(X, codes)
    weights = as_counts(np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64)).copy())
    if np.any(weights < 0):
        raise InvalidInputError(
            f"sample_weight must not be negative (smallest: {weights.min():g}); weight 0 leaves a row out."
        )
    if class_weight is not None:
        weights *= compute_sample_weight(class_weight, y)
        if np.any(weights < 0):
            raise InvalidInputError(f"class_weight={class_weight!r} must not be negative; 0 leaves a class out.")
    counts = weights > 0
    if not counts.any():
        raise InvalidInputError("sample_weight is zero for every row; give at least one row a positive weight.")
    rows = LabelledRows(X, codes, None if np.all(weights[counts] == 1.0) else weights)
    return rows if counts.all() else rows.take(counts)


Words = NDArray[np.uint64]


def row_order(X: Any, targets: NDArray[Any], weights: NDArray[np.float64] | None) -> NDArray[np.int64]:
    """Row numbers sorted by a digest of the row, then by class or bounds, then by weight."""
    return order_of_digests(row_digests(X), targets, weights)


def order_of_digests(digests: Words, targets: NDArray[Any], weights: NDArray[np.float64] | None) -> NDArray[np.int64]:
    """`row_order` of rows with these digests."""
    last = np.zeros(len(targets)) if weights is None else weights
    return np.lexsort((last, *targets.reshape(len(targets), -1).T[::-1], digests))


def row_digests(X: Any, first_column: int = 0) -> Words:
    """Σ_v mix(column v, rank of x_v among the distinct values of its column), modulo 2^64; dense array or CSR.

    Digests of some dense columns, the first of which has the number ``first_column``, add up to those of all.
    """
    if sp.issparse(X):
        rows, columns, ranks = _stored_ranks(X)
        digests = np.zeros(X.shape[0], np.uint64)
        np.add.at(digests, rows, _mix(columns, ranks))
        return digests
    digests = np.zeros(X.shape[0], np.uint64)
    for v in range(X.shape[1]):
        digests += _mix(np.array([first_column + v]), np.unique(X[:, v], return_inverse=True)[1])
    return digests


def content_marks(X: NDArray[np.float64]) -> Words:
    """128 bits of every dense row, shape (n, 2): equal for equal rows, and else different for all that will ever be seen."""
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    marks = np.zeros((len(bits), 2), np.uint64)
    for v in range(bits.shape[1]):
        for j in range(2):
            marks[:, j] += _mix(np.array([2 * v + j]), bits[:, v])
    return marks


def _stored_ranks(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Row, column and rank of every stored entry that is not zero."""
    entries = X.tocoo()
    rows, columns, values = entries.row, entries.col, entries.data
    order = np.lexsort((values, columns))
    order = order[values[order] != 0.0]
    rows, columns, values = rows[order], columns[order], values[order]
    if values.size == 0:
        return rows, columns, np.zeros(0, np.int64)
    new_column = np.r_[True, columns[1:] != columns[:-1]]
    distinct = np.cumsum(new_column | np.r_[True, values[1:] != values[:-1]])
    first = np.maximum.accumulate(np.where(new_column, distinct, 0))
    return rows, columns, distinct - first


def _mix(columns: NDArray[Any], ranks: NDArray[Any]) -> Words:
    """Well-mixed 64 bits of each (column, rank)."""
    return _scramble(ranks.astype(np.uint64) ^ _scramble(columns.astype(np.uint64)))


def _scramble(words: Words) -> Words:
    """The finaliser of SplitMix64, a bijection of 64-bit words."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))
