"""Arrays inside JSON records: shape, type and base64 of the bytes."""

import base64
from typing import Any

import numpy as np


def pack(array: Any, dtype: str = "<f4") -> dict[str, Any]:
    """A JSON value that holds an array."""
    array = np.ascontiguousarray(array, dtype=dtype)
    return {"dtype": dtype, "shape": list(array.shape), "base64": base64.b64encode(array.tobytes()).decode("ascii")}


def unpack(value: dict[str, Any]) -> np.ndarray:
    """Inverse of `pack`."""
    return np.frombuffer(base64.b64decode(value["base64"]), dtype=value["dtype"]).reshape(value["shape"])


def pack_picture(pixels: Any) -> dict[str, Any]:
    """Values in [0, 1] as bytes."""
    return pack(np.rint(255 * np.clip(pixels, 0.0, 1.0)), "|u1")
