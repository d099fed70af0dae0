"""Names for the arrays of the library, rows that stand for many, the spread of most cells, and data frames as arrays that keep their
column names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

FAR_TIMES = 10.0  # as large as the spread of most cells is a standard deviation that a few far cells make
OUTERMOST = 0.01  # of the cells on either side, one at least
QUARTILES = 1.349  # standard deviations of a bell curve between its quartiles


def spread_rows(n_rows: int, most: int) -> IntArray:
    """Numbers of rows: all of them, or some of many, evenly spread."""
    return np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.int64)


def spread_of_most(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Median and standard deviation of columns whatever a few far cells are: by the quartiles, or without the outermost cells.

    The latter where the quartiles are the same. Zero where all cells but the outermost are.
    """
    n_far = min(max(1, int(OUTERMOST * len(values))), (len(values) - 1) // 2)
    places = [n_far, len(values) // 4, len(values) // 2, len(values) - 1 - len(values) // 4, len(values) - 1 - n_far]
    low, first, median, third, high = np.partition(values, places, axis=0)[places]
    inner = np.clip(values, low, high) - median
    largest = np.maximum(np.abs(inner).max(axis=0), 1e-300)  # so that squares do not overflow
    spread = np.where(third > first, (third - first) / QUARTILES, largest * np.std(inner / largest, axis=0))
    return median, spread


def as_table(X: Any) -> Any:
    """Data frames that scikit-learn does not know (polars lazy, Arrow, …) as something it does.

    pandas frames and arrays pass through. Other frames become NumPy arrays wrapped so that column names are kept.
    """
    if isinstance(X, np.ndarray) or hasattr(X, "iloc") or hasattr(X, "tocsr"):
        return X
    module = type(X).__module__.split(".")[0]
    if module not in ("polars", "pyarrow", "modin", "cudf", "duckdb", "ibis"):
        return X
    import narwhals as nw

    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        return NamedArray(np.asarray(frame.to_numpy(), dtype=float), list(frame.columns))
    return X


class NamedArray(np.ndarray):
    """A float array that remembers its column names through validation."""

    columns: list[str]

    def __new__(cls, values: NDArray[Any], columns: list[str]) -> "NamedArray":
        """Wrap values."""
        array = np.asarray(values).view(cls)
        array.columns = columns
        return array

    def __array_finalize__(self, source: Any) -> None:
        """Views and slices keep the names."""
        self.columns = getattr(source, "columns", [])
