"""Columns of cells as arrays: numbers, seconds or words, with the places of cells that are none of them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.tables.read_cell import is_missing, to_date, to_number

EPOCH = datetime(1970, 1, 1)


def numbers(values: NDArray[Any], style: str = ".") -> tuple[NDArray[np.float64], list[int]]:
    """Float array with NaN for missing ones, and the positions of cells that are no finite numbers."""
    if values.dtype.kind in "fiub":
        out = values.astype(np.float64)
        return np.where(np.isfinite(out), out, np.nan), np.flatnonzero(np.isinf(out)).tolist()
    return _read(values, lambda text: to_number(text, style))


def seconds(values: NDArray[Any], style: str = "iso") -> tuple[NDArray[np.float64], list[int]]:
    """Seconds since 1970 with NaN for missing ones, and the positions of cells that are no dates."""
    if values.dtype.kind == "M":
        stamps = values.astype("datetime64[s]")
        return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64)).astype(np.float64), []
    if values.dtype.kind == "f":
        values = np.array([*words(values), None], dtype=object)[:-1]

    def stamp(text: str) -> float | None:
        date = to_date(text, style)
        return None if date is None else (date - EPOCH).total_seconds()

    return _read(values, stamp)


def words(values: NDArray[Any]) -> list[str | None]:
    """Text with None for missing ones; whole numbers without a decimal point."""
    if values.dtype.kind == "f":
        return [
            None if x != x else str(int(x)) if x == round(x, 0) and abs(x) < 2**63 else repr(float(x)) for x in values
        ]
    known: dict[Any, str | None] = {}
    out = []
    for value in values.tolist():
        kind = (type(value), value)
        if kind not in known:
            known[kind] = None if is_missing(value) else str(value)
        out.append(known[kind])
    return out


def _read(values: NDArray[Any], meaning: Callable[[str], float | None]) -> tuple[NDArray[np.float64], list[int]]:
    out, bad = np.full(len(values), np.nan), []
    known: dict[str, float | None] = {}
    for i, value in enumerate(values):
        if is_missing(value):
            continue
        text = str(value)
        if text not in known:
            known[text] = meaning(text)
        number = known[text]
        if number is None:
            bad.append(i)
        else:
            out[i] = number
    return out, bad
