"""Names for the arrays of the library, and rows that stand for many."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def spread_rows(n_rows: int, most: int) -> IntArray:
    """Numbers of rows: all of them, or some of many, evenly spread."""
    return np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.int64)
