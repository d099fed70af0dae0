"""What every loader and generator returns: a table, its labels and its train/test row numbers."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray, IntArray

Table: TypeAlias = FloatArray | csr_array
Splits = tuple[tuple[IntArray, ...], tuple[IntArray, ...]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with labels and predefined splits.

    Attributes
    ----------
    name : str
    X : float array or CSR matrix of shape (n_rows, n_features)
    y : array of shape (n_rows,)
        Class numbers from 0 (binary sets: 0 and 1); counts or real values for the regression sets.
    train, test : tuple of int arrays
        Row numbers, one array per split; empty tuples where the set has no agreed split.
    feature_names : tuple of str or None
    description : str
    split_is_original : tuple of bool
        Whether split k is the published one (True) or a stated reconstruction (False).
    """

    name: str
    X: Table
    y: NDArray[np.int64] | FloatArray
    train: tuple[IntArray, ...] = ()
    test: tuple[IntArray, ...] = ()
    feature_names: tuple[str, ...] | None = None
    description: str = ""
    split_is_original: tuple[bool, ...] = ()

    @property
    def n_splits(self) -> int:
        """Number of predefined splits."""
        return len(self.train)

    def split(self, k: int) -> tuple[Table, NDArray[np.int64] | FloatArray, Table, NDArray[np.int64] | FloatArray]:
        """Return ``X_train, y_train, X_test, y_test`` of split ``k`` (0-based)."""
        if not 0 <= k < self.n_splits:
            have = f"0 to {self.n_splits - 1}" if self.n_splits else "none; split the rows yourself"
            raise InvalidInputError(f"split k={k!r} of dataset {self.name!r} does not exist; it has {have}.")
        train, test = self.train[k], self.test[k]
        return self.X[train], self.y[train], self.X[test], self.y[test]


def alternate_rows(n: int) -> tuple[IntArray, IntArray]:
    """Even rows train, odd rows test."""
    rows = np.arange(n)
    return rows[::2], rows[1::2]


def every_tenth_row(n: int, tries: int = 5, step: int = 10) -> Splits:
    """The paper's protocol for ijcnn1 and a9a: try i trains on rows i, i + 10, ..., tests on all others."""
    rows = np.arange(n)
    train = tuple(rows[i::step] for i in range(tries))
    test = tuple(rows[rows % step != i] for i in range(tries))
    return train, test
