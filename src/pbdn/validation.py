"""Checks at the door: tables to arrays, labels to codes, parameters in range."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError

MAX_REPEATED_NUMBERS = 1 << 27  # inputs of rows repeated by their weights: a gigabyte


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
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not float(value) > 0:
        raise InvalidInputError(f"{name}={value!r} must be a positive number.")


def check_kind(name: str, value: Any, kind: type) -> None:
    """The parameter is None or of the kind."""
    if value is not None and not isinstance(value, kind):
        raise InvalidInputError(f"{name}={value!r} must be None or a {kind.__module__}.{kind.__name__}.")


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


def check_labels_present(y: Any) -> None:
    """None, NaN or NA among the labels is named, not left to a comparison deep inside."""
    labels = np.asarray(y).ravel()
    if labels.dtype.kind == "f":
        missing = np.flatnonzero(np.isnan(labels)).tolist()
    else:
        missing = [i for i, label in enumerate(labels) if _is_missing(label)] if labels.dtype == object else []
    if missing:
        raise InvalidInputError(
            f"y has {len(missing)} missing label(s) (None, NaN or NA), the first at position {missing[0]}; "
            "drop those rows or label them."
        )


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or pandas' NA (whose comparisons are neither true nor false)."""
    if label is None:
        return True
    differs = label != label
    return not isinstance(differs, bool | np.bool_) or bool(differs)


def repeat_rows(
    X: Any, codes: NDArray[np.int64], weights: NDArray[np.float64], can_merge: bool
) -> tuple[Any, NDArray[np.int64], NDArray[np.float64] | None]:
    """Rows of whole weights as that many rows; left alone where a weight is fractional or, if ``can_merge``, too large."""
    n_copies = float(np.ceil(weights).sum())
    if n_copies * (X.shape[1] + 1) > MAX_REPEATED_NUMBERS:
        if can_merge:
            return X, codes, weights
        raise InvalidInputError(
            f"sample_weight times class_weight adds up to {n_copies:g}, which this sampler would hold as that many rows; "
            "divide the weights by a common factor, or use sampler='event_times' or inference='map'."
        )
    if np.any(weights != np.floor(weights)):
        return X, codes, weights
    place = np.repeat(np.arange(weights.size), weights.astype(np.int64))
    return X[place], codes[place], None


def anchors_of(features: Any, rows: NDArray[np.int64]) -> Any:
    """A few rows, dense."""
    chosen = features[rows]
    return chosen.toarray() if hasattr(chosen, "toarray") else chosen
