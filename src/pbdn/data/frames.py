"""Data frames of any library as arrays that keep their column names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


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
