"""Raw pieces of a stream become rows: columns turned, values standardised and checked in one compiled pass."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from pbdn.model.likelihood import FloatArray
from pbdn.sgd.products import kernel
from pbdn.sgd.rows import contiguous

_intrinsic: Callable[[Any], Any] = intrinsic
_TURN = 256  # rows turned together: they stay in cache


class Columns:
    """Columns of equal length, as they come from a file."""

    def __init__(self, columns: list[NDArray[Any]]) -> None:
        """Convert what is not float64; nothing else is copied."""
        self.columns = [np.ascontiguousarray(column, np.float64) for column in columns]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.columns[0]), len(self.columns)


@_intrinsic
def _number_at(typing_context: Any, address: Any) -> Any:
    """The double at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.DoubleType().as_pointer()), align=8)

    return types.float64(types.uintp), generate


@kernel
def _turn(addresses: Any, center: Any, factor: Any, rows: Any) -> float:
    """rows[i, d] = (column d [i] - center) factor; returns their sum, which is not finite if a value is not."""
    total, n_columns = 0.0, rows.shape[1]
    for top in range(0, rows.shape[0], _TURN):
        skip, n = np.uint64(8 * top), min(_TURN, rows.shape[0] - top)
        for d in range(0, n_columns - 3, 4):  # four columns at a time write half a cache line
            a0, a1, a2, a3 = addresses[d], addresses[d + 1], addresses[d + 2], addresses[d + 3]
            c0, c1, c2, c3 = center[d], center[d + 1], center[d + 2], center[d + 3]
            f0, f1, f2, f3 = factor[d], factor[d + 1], factor[d + 2], factor[d + 3]
            for i in range(n):
                place = skip + np.uint64(8 * i)
                x0, x1 = (_number_at(a0 + place) - c0) * f0, (_number_at(a1 + place) - c1) * f1
                x2, x3 = (_number_at(a2 + place) - c2) * f2, (_number_at(a3 + place) - c3) * f3
                rows[top + i, d], rows[top + i, d + 1], rows[top + i, d + 2], rows[top + i, d + 3] = x0, x1, x2, x3
                total += (x0 + x1) + (x2 + x3)
        for d in range(n_columns - n_columns % 4, n_columns):
            for i in range(n):
                value = (_number_at(addresses[d] + skip + np.uint64(8 * i)) - center[d]) * factor[d]
                rows[top + i, d] = value
                total += value
    return total


@kernel
def _standardise(table: Any, center: Any, factor: Any, rows: Any) -> float:
    """The same for a table that has rows already."""
    total = 0.0
    for i in range(rows.shape[0]):
        for d in range(rows.shape[1]):
            value = (table[i, d] - center[d]) * factor[d]
            rows[i, d] = value
            total += value
    return total


def to_rows(inputs: Any, center: FloatArray | None, scale: FloatArray | None) -> Any:
    """Rows (x - center) / scale as contiguous floats or CSR (then only scaled); refuses what is not finite.

    Without a center the values are left as they are.
    """
    if sp.issparse(inputs):
        return contiguous(inputs if scale is None else inputs @ sp.diags_array(1.0 / scale))
    if center is None or scale is None:
        if not isinstance(inputs, Columns):
            return contiguous(inputs)
        center, scale = np.zeros(inputs.shape[1]), np.ones(inputs.shape[1])
    rows = np.empty(inputs.shape)
    if isinstance(inputs, Columns):
        addresses = np.array([column.ctypes.data for column in inputs.columns], np.uintp)
        total = _turn(addresses, center, 1.0 / scale, rows)
    else:
        total = _standardise(np.ascontiguousarray(inputs), center, 1.0 / scale, rows)
    return rows if np.isfinite(total) else contiguous(rows)
