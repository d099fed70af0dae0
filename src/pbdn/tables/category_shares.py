"""What a category says of the classes: their shares among its rows, where a column has too many categories for a feature each.

The share of a few rows is drawn towards that of all rows. How far, and whether categories tell more than the frequent ones do, is
judged by rows that were not counted. In the features of training rows no row is counted for itself: rows fall into parts, and
shares for one part are those of the others. A network that saw a row's own class in its features would trust shares too much.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbdn.data.labelled_rows import order_of_digests, row_digests
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.tables.table import Table, words

N_PARTS = 5
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # rows for which the share of all rows counts
CLEARLY = 3.0  # standard errors by which shares must make rows that were not counted likelier
MOST_CLASSES = 20
MOST_CATEGORIES = 1000  # of a column whose shares are kept, the commonest ones
DIGITS = 6  # of a share that is kept


class LabelledParts(NamedTuple):
    """Classes of rows, as weights, and the part of the rows that each row belongs to.

    Attributes
    ----------
    classes : tuple of str
    weights : (n_rows, n_classes)
        The weight of a row in the column of its class.
    parts : (n_rows,)
    """

    classes: tuple[str, ...]
    weights: FloatArray
    parts: IntArray


def labelled_parts(table: Table, labels: NDArray[Any], weights: NDArray[np.float64] | None) -> LabelledParts:
    """Rows dealt into parts at random, but in the same way whatever order they come in."""
    classes, codes = np.unique(labels, return_inverse=True)
    digests = np.zeros(table.n_rows, np.uint64)
    for v, name in enumerate(table.names):
        values = table.columns[name]
        if values.dtype.kind == "O":
            said = words(values)
            values = category_codes(said, sorted({value for value in said if value is not None}))
        digests += row_digests(values[:, None], v)
    parts = np.empty(table.n_rows, np.int64)
    parts[order_of_digests(digests, codes, None)] = np.random.default_rng(0).permutation(table.n_rows) % N_PARTS
    own = np.zeros((table.n_rows, classes.size))
    own[np.arange(table.n_rows), codes] = 1.0 if weights is None else weights
    return LabelledParts(tuple(map(str, classes.tolist())), own, parts)


def category_codes(values: Sequence[str | None], categories: Sequence[str]) -> IntArray:
    """The place of each value among the categories, -1 for all others."""
    place: dict[str | None, int] = {category: j for j, category in enumerate(categories)}
    return np.array([place.get(value, -1) for value in values], dtype=np.int64)


def shares(codes: IntArray, weights: FloatArray, n_categories: int, strength: float) -> FloatArray:
    """Share of each class in each category; the last row is that of all rows, which also stands for other values.

    With n_jk rows of class k in category j of n_j, and p_k the share in all rows: (n_jk + strength p_k) / (n_j + strength).
    """
    found = np.stack([np.bincount(codes + 1, own, n_categories + 1)[1:] for own in weights.T], axis=1)
    total = weights.sum(axis=0)
    of_all = (total + 1.0 / total.size) / (total.sum() + 1.0)
    own = (found + strength * of_all) / (found.sum(axis=1, keepdims=True) + strength)
    return np.vstack([own, of_all])


def shares_in_other_parts(codes: IntArray, rows: LabelledParts, n_categories: int, strength: float) -> FloatArray:
    """For every row, the shares of its category in the parts of the rows that it does not belong to."""
    out = np.empty_like(rows.weights)
    for part in range(N_PARTS):
        own = rows.parts == part
        out[own] = shares(codes[~own], rows.weights[~own], n_categories, strength)[codes[own]]
    return out


def best_strength(codes: IntArray, rows: LabelledParts, n_categories: int) -> tuple[float, FloatArray]:
    """The strength with which rows are likeliest by the shares in other parts, and their log-likelihoods."""

    def log_likelihoods(strength: float) -> FloatArray:
        seen = shares_in_other_parts(codes, rows, n_categories, strength)
        return np.asarray((rows.weights * np.log(seen)).sum(axis=1))

    tried = [(strength, log_likelihoods(strength)) for strength in STRENGTHS]
    return max(tried, key=lambda one: float(one[1].sum()))


def tell_more(codes: IntArray, n_categories: int, known: IntArray, rows: LabelledParts) -> bool:
    """Whether the shares in all categories tell clearly more than those in fewer, ``known`` ones."""
    before = best_strength(known, rows, int(known.max(initial=-1)) + 1)[1]
    gain = best_strength(codes, rows, n_categories)[1] - before
    return bool(gain.sum() > CLEARLY * np.sqrt(gain.size) * gain.std())
