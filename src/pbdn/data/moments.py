"""Means and standard deviations of streamed columns, in one pass."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from pbdn.data.columns import Columns
from pbdn.data.row_source import RowSource
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import summing_kernel
from pbdn.numerics.products import number_at


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
