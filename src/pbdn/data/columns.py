"""Columns of a stream: worked on as they are in ordered passes, turned into rows for minibatches.

Values are standardised on the way and checked to be finite. One ordered pass takes means and standard deviations.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pbdn.data.row_source import NOT_FINITE, RowSource, contiguous
from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import summing_kernel
from pbdn.numerics.products import number_at

_TURN = 256  # rows turned together: they stay in cache


class Columns:
    """Columns x of equal length, as they come from a file; they stand for inputs (x - center) / scale."""

    def __init__(self, columns: list[NDArray[Any]]) -> None:
        """Convert what is not float64; nothing else is copied."""
        self.columns = [np.ascontiguousarray(column, np.float64) for column in columns]
        self.addresses = np.array([column.__array_interface__["data"][0] for column in self.columns], np.uintp)
        self.affine: FloatArray = np.array([np.zeros(len(columns)), np.ones(len(columns))])  # centre, 1 / scale

    def standardise(self, center: FloatArray | None, scale: FloatArray | None) -> None:
        """Set centre and scale; None leaves them at zero and one."""
        if center is not None and scale is not None:
            self.affine = np.array([center, 1.0 / scale])

    def refuse_not_finite(self, total: float) -> None:
        """Raise if ``total``, a sum in which all values have a share, is not finite because one of them is not."""
        if not np.isfinite(total) and not all(np.isfinite(column).all() for column in self.columns):
            raise InvalidInputError(NOT_FINITE)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.columns[0]), len(self.columns)


@summing_kernel
def _turn(addresses: Any, center: Any, factor: Any, rows: Any) -> float:
    """rows[i, d] = (column d [i] - center) factor; returns their sum, which is not finite if a value is not."""
    total, n_columns = 0.0, rows.shape[1]
    for top in range(0, rows.shape[0], _TURN):
        bottom = min(top + _TURN, rows.shape[0])
        for d in range(0, n_columns - 3, 4):  # four columns at a time write half a cache line
            a0, a1, a2, a3 = addresses[d], addresses[d + 1], addresses[d + 2], addresses[d + 3]
            c0, c1, c2, c3 = center[d], center[d + 1], center[d + 2], center[d + 3]
            f0, f1, f2, f3 = factor[d], factor[d + 1], factor[d + 2], factor[d + 3]
            for i in range(top, bottom):
                x0, x1 = (number_at(a0, i) - c0) * f0, (number_at(a1, i) - c1) * f1
                x2, x3 = (number_at(a2, i) - c2) * f2, (number_at(a3, i) - c3) * f3
                rows[i, d], rows[i, d + 1], rows[i, d + 2], rows[i, d + 3] = x0, x1, x2, x3
                total += (x0 + x1) + (x2 + x3)
        for d in range(n_columns - n_columns % 4, n_columns):
            for i in range(top, bottom):
                value = (number_at(addresses[d], i) - center[d]) * factor[d]
                rows[i, d] = value
                total += value
    return total


@summing_kernel
def _standardise(table: Any, center: Any, factor: Any, rows: Any) -> float:
    """The same for a table that has rows already."""
    total = 0.0
    for i in range(rows.shape[0]):
        for d in range(rows.shape[1]):
            value = (table[i, d] - center[d]) * factor[d]
            rows[i, d] = value
            total += value
    return total


def to_rows(inputs: Any, center: FloatArray | None, scale: FloatArray | None) -> Any:
    """Rows (x - center) / scale as contiguous floats or CSR (then only scaled); refuses what is not finite.

    Without a center the values are left as they are.
    """
    if sp.issparse(inputs):
        return contiguous(inputs if scale is None else inputs @ sp.diags_array(1.0 / scale))
    rows = np.empty(inputs.shape)
    if isinstance(inputs, Columns):
        inputs.standardise(center, scale)
        inputs.refuse_not_finite(_turn(inputs.addresses, inputs.affine[0], inputs.affine[1], rows))
        return rows
    if center is None or scale is None:
        return contiguous(inputs)
    total = _standardise(np.ascontiguousarray(inputs), center, 1.0 / scale, rows)
    return rows if np.isfinite(total) else contiguous(rows)


@summing_kernel
def add_moments(table: Any, weights: Any, pivot: Any, sums: Any, squares: Any) -> float:
    """Add Σ w (x - p) and Σ w (x - p)² per column; returns Σ w."""
    total = 0.0
    for i in range(table.shape[0]):
        weight = weights[i]
        total += weight
        for d in range(table.shape[1]):
            shifted = table[i, d] - pivot[d]
            sums[d] += weight * shifted
            squares[d] += weight * shifted * shifted
    return total


@summing_kernel
def add_column_moments(addresses: Any, affine: Any, weights: Any, pivot: Any, sums: Any, squares: Any) -> float:
    """The same for columns."""
    total = 0.0
    for i in range(weights.shape[0]):
        total += weights[i]
    for d in range(addresses.shape[0]):
        start, middle, factor = addresses[d], affine[0, d], affine[1, d]
        first = second = 0.0
        for i in range(weights.shape[0]):
            shifted = (number_at(start, i) - middle) * factor - pivot[d]
            first += weights[i] * shifted
            second += weights[i] * shifted * shifted
        sums[d] += first
        squares[d] += second
    return total


def _means(table: Columns) -> FloatArray:
    """Mean of every column, rows not weighted."""
    means = np.array([column.mean() for column in table.columns])
    return np.asarray((means - table.affine[0]) * table.affine[1])


def column_moments(source: RowSource) -> tuple[FloatArray, FloatArray]:
    """Weighted mean and standard deviation of every input, merged block by block.

    Blocks are shifted by the mean so far, so that large means do not cost digits.
    """
    total = 0.0
    mean: FloatArray = np.zeros(source.n_features)
    squares: FloatArray = np.zeros(source.n_features)
    for block in source.each(lambda block: block):
        table = block.inputs.toarray() if sp.issparse(block.inputs) else block.inputs
        sums, block_squares = np.zeros_like(mean), np.zeros_like(mean)
        if isinstance(table, Columns):
            pivot = mean if total > 0.0 else _means(table)
            weight = add_column_moments(table.addresses, table.affine, block.weights, pivot, sums, block_squares)
            table.refuse_not_finite(sums.sum())
        else:
            pivot = mean if total > 0.0 else np.asarray(table, np.float64).mean(axis=0)
            weight = add_moments(table, block.weights, pivot, sums, block_squares)
        if weight == 0.0:
            continue
        shift = pivot - mean + sums / weight  # the block's mean less the mean so far
        squares += block_squares - sums * sums / weight + shift * shift * (total * weight / (total + weight))
        total += weight
        mean = mean + shift * (weight / total)
    return mean, np.sqrt(np.maximum(squares, 0.0) / max(total, 1e-300))
