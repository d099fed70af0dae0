"""Names for the arrays of the library, rows that stand for many, and data frames as arrays that keep their column names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def spread_rows(n_rows: int, most: int) -> IntArray:
    """Numbers of rows: all of them, or some of many, evenly spread."""
    return np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.int64)


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
