"""Checks of parameters and labels: each names the parameter, what came and what is allowed."""

import math
import numbers
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

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
    if not _is_number(value) or not float(value) > 0:
        raise InvalidInputError(f"{name}={value!r} must be a positive number.")


def check_finite(name: str, value: Any, zero: bool = False) -> None:
    """The parameter is a positive number that is not infinite; 0 too if ``zero``."""
    if not _is_number(value) or not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise InvalidInputError(f"{name}={value!r} must be a finite number {'of at least' if zero else 'above'} 0.")


def check_share(name: str, value: Any, zero: bool = False) -> None:
    """The parameter lies between 0 and 1; 0 too if ``zero``."""
    if not _is_number(value) or not 0 <= value < 1 or (value == 0 and not zero):
        raise InvalidInputError(
            f"{name}={value!r} must be a number {'of at least' if zero else 'above'} 0 and below 1."
        )


def check_flag(name: str, value: Any) -> None:
    """The parameter is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{name}={value!r} must be True or False.")


def check_device(value: Any) -> None:
    """The device is named; whether it is there is seen when it is used."""
    if not isinstance(value, str):
        raise InvalidInputError(f"device={value!r} must be None or the name of a torch device, such as 'cuda'.")


def check_kind(name: str, value: Any, kind: Any, words: str = "") -> None:
    """The parameter is None or of the kind, which ``words`` may describe."""
    if value is not None and not isinstance(value, kind):
        raise InvalidInputError(f"{name}={value!r} must be None or {words or f'a {kind.__module__}.{kind.__name__}'}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


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


def check_are_classes(labels: Any, otherwise: str = "if they are classes, give them as text") -> None:
    """Refuse measurements, which are no classes; the message says what else they may be."""
    if type_of_target(labels, input_name="y") == "continuous":
        some = ", ".join(f"{label:g}" for label in np.unique(labels)[:3])
        raise InvalidInputError(
            f"Unknown label type: continuous. y holds numbers that are not whole, such as {some}. PBDNRegressor learns numbers; "
            f"{otherwise}."
        )
    check_classification_targets(labels)


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or pandas' NA (whose comparisons are neither true nor false)."""
    if label is None:
        return True
    differs = label != label
    return not isinstance(differs, bool | np.bool_) or bool(differs)
