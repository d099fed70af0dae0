"""Checks at the door: tables to arrays, labels to codes, parameters in range."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError


def check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """The parameter is one of the allowed values."""
    if value not in allowed:
        choices = ", ".join(repr(one) for one in allowed)
        raise InvalidInputError(f"{name}={value!r} is not known; use one of {choices}.")


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> None:
    """The parameter is a whole number in range."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        upper = "" if high is None else f" and at most {high}"
        raise InvalidInputError(f"{name}={value!r} must be a whole number of at least {low}{upper}.")


def check_positive(name: str, value: Any) -> None:
    """The parameter is a positive number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not value > 0:
        raise InvalidInputError(f"{name}={value!r} must be a positive number.")


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

    frame = nw.from_native(X, strict=False)
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


def check_finite_labels(y: Any) -> None:
    """None or NaN among the labels is named, not left to a comparison deep inside."""
    values = np.asarray(y, dtype=object).ravel() if not hasattr(y, "dtype") or y.dtype == object else None
    if values is None:
        return
    missing = [i for i, value in enumerate(values) if value is None or value != value]
    if missing:
        raise InvalidInputError(
            f"y has {len(missing)} missing label(s) (None or NaN), the first at position {missing[0]}; "
            "drop those rows or label them."
        )


def anchors_of(features: Any, rows: NDArray[np.int64]) -> Any:
    """A few rows, dense."""
    chosen = features[rows]
    return chosen.toarray() if hasattr(chosen, "toarray") else chosen
