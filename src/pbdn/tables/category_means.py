"""What the categories of a column tell of the target: the share of each class among their rows, or the mean of a number.

It is for columns that have too many categories for a feature each. The mean of a few rows is drawn towards that of all rows. How far,
and whether categories tell more than the frequent ones do, is judged by rows that were not counted. In the features of training
rows no row is counted for itself: rows fall into parts, and means for one part are those of the others. A network that saw a row's
own target in its features would trust these means too much.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbdn.data.labelled_rows import order_of_digests, row_digests
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.tables.table import Table, words

N_PARTS = 5
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # rows for which the mean of all rows counts
MOST_CLASSES = 20
MOST_LOOKED_AT = 8  # columns that tell rows apart
MOST_CATEGORIES = 1000  # of a column whose means are kept, the commonest ones


class Targets(NamedTuple):
    """What rows say, and the part of the rows that each row belongs to.

    Attributes
    ----------
    names : tuple of str
        What the means of the columns of ``values`` are called.
    values : (n_rows, n_names)
        Ones where a row is of a class and else zeros, or a number.
    weights : (n_rows,)
    parts : (n_rows,)
    has_classes : bool
    """

    names: tuple[str, ...]
    values: FloatArray
    weights: FloatArray
    parts: IntArray
    has_classes: bool

    def take(self, which: IntArray) -> "Targets":
        """Those of some rows."""
        return self._replace(values=self.values[which], weights=self.weights[which], parts=self.parts[which])

    @property
    def n_kept(self) -> int:
        """How many of the means are features, the last ones: of two classes that of the second."""
        return 1 if len(self.names) == 2 else len(self.names)

    def losses(self, means: FloatArray) -> FloatArray:
        """Minus the log-likelihood of each row by these means; of numbers, the square of the distance."""
        own = -np.log((self.values * means).sum(axis=1)) if self.has_classes else (self.values - means)[:, 0] ** 2
        return np.asarray(self.weights * own)


def targets_of(
    table: Table, labels: NDArray[Any] | None, numbers: NDArray[np.float64] | None, weights: NDArray[np.float64] | None
) -> Targets | None:
    """What the rows of a table say, in classes or in numbers; None where there is neither, or where classes are too many.

    Rows are dealt into parts at random, but in the same way whatever order they come in.
    """
    if labels is not None:
        classes, said = np.unique(labels, return_inverse=True)
        names, values = tuple(f"share of {label}" for label in classes.tolist()), np.eye(classes.size)[said]
        if not 2 <= classes.size <= MOST_CLASSES:
            return None
    elif numbers is not None and np.isfinite(numbers).all():
        names, values, said = ("mean of the target",), numbers[:, None], np.unique(numbers, return_inverse=True)[1]
    else:
        return None
    digests = np.zeros(table.n_rows, np.uint64)
    for v, name in enumerate(table.names[:MOST_LOOKED_AT]):
        cells = table.columns[name]
        if cells.dtype.kind == "O":
            texts = words(cells)
            cells = category_codes(texts, sorted({text for text in texts if text is not None}))
        digests += row_digests(cells[:, None], v)
    parts = np.empty(table.n_rows, np.int64)
    parts[order_of_digests(digests, said, None)] = np.random.default_rng(0).permutation(table.n_rows) % N_PARTS
    counts = np.ones(table.n_rows) if weights is None else weights
    return Targets(names, values, counts, parts, labels is not None)


def category_codes(cells: Sequence[str | None], categories: Sequence[str]) -> IntArray:
    """The place of each cell among the categories, -1 for all others."""
    place: dict[str | None, int] = {category: j for j, category in enumerate(categories)}
    return np.array([place.get(cell, -1) for cell in cells], dtype=np.int64)


def means(codes: IntArray, rows: Targets, n_categories: int, strength: float, some: Any = slice(None)) -> FloatArray:
    """Mean of what some rows say in each category; the last row is that of all of them, which also stands for other cells.

    (n_j m_j + strength m) / (n_j + strength), where n_j rows of category j have mean m_j, and all have mean m.
    """
    codes, weights = codes[some], rows.weights[some]
    weighted = rows.values[some] * weights[:, None]
    sums = np.stack([np.bincount(codes + 1, own, n_categories + 1)[1:] for own in weighted.T], axis=1)
    counts = np.bincount(codes + 1, weights, n_categories + 1)[1:, None]
    one = 1.0 if rows.has_classes else 0.0  # a row more of every class in equal parts: no share is zero
    of_all = (weighted.sum(axis=0) + one / len(rows.names)) / max(weights.sum() + one, np.finfo(float).tiny)
    return np.vstack([(sums + strength * of_all) / (counts + strength), of_all])


def means_in_other_parts(codes: IntArray, rows: Targets, n_categories: int, strength: float) -> FloatArray:
    """For every row, the means of its category in the parts of the rows that it does not belong to."""
    out = np.empty_like(rows.values)
    for part in range(N_PARTS):
        own = rows.parts == part
        out[own] = means(codes, rows, n_categories, strength, ~own)[codes[own]]
    return out


def best_strength(codes: IntArray, rows: Targets, n_categories: int) -> tuple[float, FloatArray]:
    """The strength with which rows are likeliest by the means in other parts, and their losses."""
    tried = [(one, rows.losses(means_in_other_parts(codes, rows, n_categories, one))) for one in STRENGTHS]
    return min(tried, key=lambda one: float(one[1].sum()))


def tell_more(
    codes: IntArray, n_categories: int, known: Sequence[IntArray], rows: Targets, n_errors: float, share: float
) -> bool:
    """Whether the means in all categories tell clearly more than those in the best of some coarser groups, ``known``.

    By so many standard errors, and by this share of what is to be told: the loss where all rows are one group.
    """
    groups = [best_strength(one, rows, int(one.max(initial=-1)) + 1)[1] for one in known]
    gain = min(groups, key=np.sum) - best_strength(codes, rows, n_categories)[1]
    whole = best_strength(np.zeros_like(codes), rows, 1)[1].sum() if share else 0.0
    return bool(gain.sum() > max(n_errors * np.sqrt(gain.size) * gain.std(), share * whole))
