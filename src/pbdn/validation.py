"""Checks of parameters: each names the parameter, what came and what is allowed."""

import numbers
from typing import Any

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
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not float(value) > 0:
        raise InvalidInputError(f"{name}={value!r} must be a positive number.")


def check_kind(name: str, value: Any, kind: type) -> None:
    """The parameter is None or of the kind."""
    if value is not None and not isinstance(value, kind):
        raise InvalidInputError(f"{name}={value!r} must be None or a {kind.__module__}.{kind.__name__}.")
