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
SMALLEST = np.finfo(float).tiny
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


class Cells(NamedTuple):
    """Sums over the rows of each part and category; category 0 is any other cell, j + 1 the one with the code j.

    Attributes
    ----------
    counts : (n_parts, n_categories + 1)
        Weights of the rows.
    sums : (n_parts, n_categories + 1, n_names)
        Weights times what they say.
    has_classes : bool
    """

    counts: FloatArray
    sums: FloatArray
    has_classes: bool

    @classmethod
    def of(cls, codes: IntArray, rows: Targets, n_categories: int) -> "Cells":
        """Count rows."""
        shape = (N_PARTS, n_categories + 1)
        place = rows.parts * shape[1] + codes + 1
        counts = np.bincount(place, rows.weights, shape[0] * shape[1]).reshape(shape)
        sums = [np.bincount(place, rows.weights * own, shape[0] * shape[1]).reshape(shape) for own in rows.values.T]
        return cls(np.asarray(counts, dtype=np.float64), np.stack(sums, axis=-1), rows.has_classes)

    def means(self, strength: float) -> FloatArray:
        """Of every part and category: (n_j m_j + s m) / (n_j + s), where n_j rows of category j have mean m_j, and all have mean m.

        ``strength`` is s. Any other cell has the mean m of all rows.
        """
        one = 1.0 if self.has_classes else 0.0  # a row more of every class in equal parts: no share is zero
        counts = self.counts.sum(axis=1)[:, None, None] + one
        of_all = (self.sums.sum(axis=1, keepdims=True) + one / self.sums.shape[-1]) / np.maximum(counts, SMALLEST)
        found = (self.sums + strength * of_all) / (self.counts[..., None] + strength)
        found[:, :1] = of_all
        return np.asarray(found)

    def whole(self) -> "Cells":
        """All parts as one."""
        return self._replace(counts=self.counts.sum(axis=0)[None], sums=self.sums.sum(axis=0)[None])

    def others(self) -> "Cells":
        """For every part, the rows of all other parts."""
        whole = self.whole()
        return self._replace(counts=whole.counts - self.counts, sums=whole.sums - self.sums)

    def best_strength(self) -> float:
        """The strength with which rows are likeliest by the means of their category in other parts."""
        others = self.others()

        def loss(strength: float) -> float:
            seen = others.means(strength)
            if self.has_classes:
                return -float((self.sums * np.log(seen)).sum())
            return float((seen * (seen * self.counts[..., None] - 2.0 * self.sums)).sum())  # but for a constant

        return min(STRENGTHS, key=loss)


def means_in_other_parts(codes: IntArray, rows: Targets, n_categories: int) -> FloatArray:
    """For every row, the means of its category in the parts of the rows that it does not belong to."""
    cells = Cells.of(codes, rows, n_categories)
    return np.asarray(cells.others().means(cells.best_strength())[rows.parts, codes + 1])


def means(codes: IntArray, rows: Targets, n_categories: int, strength: float) -> FloatArray:
    """Mean of what the rows of each category say; the last row is that of all rows, which also stands for other cells."""
    return np.roll(Cells.of(codes, rows, n_categories).whole().means(strength)[0], -1, axis=0)


def tell_more(
    codes: IntArray, n_categories: int, known: Sequence[IntArray], rows: Targets, n_errors: float, share: float
) -> bool:
    """Whether the means in all categories tell clearly more than those in each of some coarser groups, ``known``.

    By so many standard errors, and by this share of what is to be told: the loss where all rows are one group.
    """

    def losses(groups: IntArray, n_groups: int) -> FloatArray:
        return rows.losses(means_in_other_parts(groups, rows, n_groups))

    own = losses(codes, n_categories)
    least = share * float(losses(np.zeros_like(codes), 1).sum()) if share else 0.0
    for groups in known:
        gain = losses(groups, int(groups.max(initial=-1)) + 1) - own
        if gain.sum() <= max(n_errors * np.sqrt(gain.size) * gain.std(), least):
            return False
    return True
