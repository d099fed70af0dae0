"""Plain values and labels as JSON text and back, with their types."""

import json
import math
import re
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import FileFormatError, InvalidInputError

MAX_ARRAY_BYTES = 1 << 25  # of all arrays in one text together: a few bytes may not ask for gigabytes
_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U\d{1,7}|\|O|<[mM]8\[(Y|M|W|D|h|m|s|ms|us|ns)\]")
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_json(value: Any) -> bytes:
    """ASCII JSON of nested dicts, lists, tuples, arrays and scalars; equal values give equal bytes.

    JSON has neither NaN nor types, so three tagged objects are used: ``{"$float": "nan" | "inf" | "-inf"}``,
    ``{"$tuple": [...]}`` and ``{"$array": [dtype, shape, values]}``. NumPy scalars become Python scalars;
    arrays may be boolean, integer, float, string, date or object arrays of plain scalars. Keys are strings
    without a leading ``$``, and come back sorted.
    """
    try:
        text = json.dumps(
            _encode(value), ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")
        ).encode("ascii")
        from_json(text)  # what is written can be read
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(
            f"This value cannot be stored: {error}. Allowed: dicts with string keys, lists, tuples, numbers, "
            "strings, booleans, None and NumPy arrays of these."
        ) from error
    return text


def from_json(text: bytes) -> Any:
    """Inverse of `to_json`; anything that `to_json` does not write raises FileFormatError."""
    try:
        parsed = json.loads(text.decode("ascii"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
        return _Decoder().decode(parsed)
    except FileFormatError:
        raise
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"malformed header ({error})") from error


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return {"$float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if isinstance(value, np.bool_ | np.integer | np.floating) and value.dtype.itemsize <= 8:
        return _encode(value.item())
    if isinstance(value, np.ndarray | np.datetime64 | np.timedelta64):
        return {"$array": _encode_array(np.asarray(value))}
    if isinstance(value, list):
        return [_encode(item) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [_encode(item) for item in value]}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key.startswith("$"):
                raise TypeError(f"key {key!r} is not a string without a leading $")
        return {str(key): _encode(item) for key, item in value.items()}
    raise TypeError(f"no rule for {type(value).__name__}")


def _encode_array(array: NDArray[Any]) -> list[Any]:
    dtype = array.dtype.newbyteorder("<")
    if not _DTYPE.fullmatch(dtype.str):
        raise TypeError(f"no rule for arrays of dtype {array.dtype}")
    plain = array.astype("<i8") if dtype.kind in "mM" else array
    return [dtype.str, list(array.shape), [_encode(item) for item in plain.ravel().tolist()]]


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Decoder:
    """Decodes one text; ``room`` is what its arrays may still take."""

    def __init__(self) -> None:
        self.room = MAX_ARRAY_BYTES

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        tag = next((key for key in value if key.startswith("$")), None)
        if tag is None:
            return {key: self.decode(item) for key, item in value.items()}
        content = value[tag]
        if len(value) == 1 and tag == "$float" and isinstance(content, str) and content in _NON_FINITE:
            return _NON_FINITE[content]
        if len(value) == 1 and tag == "$tuple" and isinstance(content, list):
            return tuple(self.decode(item) for item in content)
        if len(value) == 1 and tag == "$array" and isinstance(content, list) and len(content) == 3:
            return self._array(*content)
        raise ValueError(f"unknown tag {tag[:20]!r}")

    def _array(self, dtype_text: Any, shape: Any, values: Any) -> NDArray[Any]:
        if not (isinstance(dtype_text, str) and _DTYPE.fullmatch(dtype_text)):
            raise ValueError("unknown dtype")
        if not (isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)):
            raise ValueError("bad shape")
        if not isinstance(values, list) or math.prod(shape) != len(values) or len(shape) > 8:
            raise ValueError("shape and values differ")
        dtype = np.dtype(dtype_text)
        self.room -= dtype.itemsize * len(values)
        if self.room < 0:
            raise ValueError(f"arrays of more than {MAX_ARRAY_BYTES} bytes")
        items = [self.decode(item) for item in values]
        if not all(_fits(item, dtype) for item in items):
            raise ValueError(f"a value that is not {dtype}")
        flat = np.empty(len(items), dtype="<i8" if dtype.kind in "mM" else dtype)
        flat[:] = items
        return flat.view(dtype).reshape(shape) if dtype.kind in "mM" else flat.reshape(shape)


def _fits(item: Any, dtype: np.dtype[Any]) -> bool:
    """Whether an element is what `_encode_array` writes for this dtype."""
    if dtype.kind == "U":
        return isinstance(item, str) and len(item) <= dtype.itemsize // 4
    if dtype.kind == "O":
        return item is None or isinstance(item, bool | int | float | str)
    if dtype.kind == "f":
        return type(item) is float
    return type(item) is (bool if dtype.kind == "b" else int)


def pack_strings(strings: list[str]) -> NDArray[np.uint8]:
    """Strings as one byte array: for lists too long for a file's header (many feature names)."""
    return np.frombuffer(to_json([str(string) for string in strings]), dtype=np.uint8)


def unpack_strings(packed: NDArray[np.uint8]) -> list[str]:
    """Inverse of `pack_strings`."""
    if packed.dtype != np.uint8 or packed.ndim != 1:
        raise FileFormatError("packed strings are not a byte array")
    strings = from_json(packed.tobytes())
    if not (isinstance(strings, list) and all(isinstance(string, str) for string in strings)):
        raise FileFormatError("packed strings are not a list of strings")
    return strings
