"""What the text in a cell means: a number, a date, a word, or nothing."""

import math
import re
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "."])
DATE_FORMATS = ("iso", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?|[+-]?\d+")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")


def is_missing(value: Any) -> bool:
    """None, NaN, NaT, or a word for nothing."""
    if value is None:
        return True
    return value.strip().lower() in MISSING if isinstance(value, str) else bool(value != value)


def to_number(text: str, decimal: str = ".") -> float | None:
    """A finite number, or None."""
    if decimal == ",":
        if not _DECIMAL_COMMA.fullmatch(text.strip()):
            return None
        text = text.replace(",", ".")
    if "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_number(text: str) -> bool:
    """Whether the text is a finite number."""
    return to_number(text) is not None


def to_date(text: str, style: str) -> datetime | None:
    """A date (with time, if any) in the given style, or None."""
    text = text.strip()
    try:
        if style == "iso":
            return datetime.fromisoformat(text).replace(tzinfo=None) if _ISO.fullmatch(text) else None
        return datetime.strptime(text, style)
    except ValueError:
        return None


def decimal_of(texts: list[str]) -> str | None:
    """The decimal mark with which every text is a number; None if there is none."""
    return next((mark for mark in (".", ",") if all(to_number(text, mark) is not None for text in texts)), None)


def date_style_of(texts: list[str]) -> str | None:
    """The first style in which every text is a date; None if there is none."""
    return next((style for style in DATE_FORMATS if all(to_date(text, style) is not None for text in texts)), None)


def numbers(values: NDArray[Any], decimal: str = ".") -> tuple[NDArray[np.float64], list[int]]:
    """Float array with NaN for missing ones, and the positions of texts that are neither."""
    if values.dtype.kind != "O":
        out = values.astype(np.float64)
        return np.where(np.isfinite(out), out, np.nan), []
    out, bad = np.full(len(values), np.nan), []
    for i, value in enumerate(values):
        if is_missing(value):
            continue
        number = to_number(str(value), decimal)
        if number is None:
            bad.append(i)
        else:
            out[i] = number
    return out, bad


def seconds(values: NDArray[Any], style: str = "iso") -> tuple[NDArray[np.float64], list[int]]:
    """Seconds since 1970 with NaN for missing ones, and the positions of texts that are no dates."""
    if values.dtype.kind == "M":
        stamps = values.astype("datetime64[s]")
        return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64)).astype(np.float64), []
    out, bad = np.full(len(values), np.nan), []
    epoch = datetime(1970, 1, 1)
    for i, value in enumerate(values):
        if is_missing(value):
            continue
        date = to_date(str(value), style)
        if date is None:
            bad.append(i)
        else:
            out[i] = (date - epoch).total_seconds()
    return out, bad


def words(values: NDArray[Any]) -> list[str | None]:
    """Text with None for missing ones; whole numbers without a decimal point."""
    if values.dtype.kind == "f":
        return [None if x != x else str(int(x)) if x == int(x) else repr(float(x)) for x in values]
    return [None if is_missing(value) else str(value) for value in values]
