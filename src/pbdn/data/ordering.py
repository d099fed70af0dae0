"""An order of rows that depends on what they hold, not on where they stand or in which units they are measured.

Random streams belong to blocks of rows. Putting the rows into this order first makes a Gibbs fit the same to the last
bit for any order in which the rows were given, and a row of weight 2 the same as the row given twice.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

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
