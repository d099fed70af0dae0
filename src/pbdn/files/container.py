"""The file of models and checkpoints: a JSON header and arrays under one checksum; only data, never code.

Layout, all integers little-endian::

    8 bytes   signature 89 50 42 44 4E 0D 0A 0A
    4 bytes   format version
    4 bytes   length of the header, at most 1 MB
    8 bytes   length of the payload
    …         header: ASCII JSON (see `pbdn.files.container`)
    …         payload: arrays in safetensors format
    32 bytes  SHA-256 of everything before

The first 24 bytes and the last 32 mean the same in every version.
"""

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO, NoReturn

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.files.atomic import atomic_write

MAX_ARRAY_BYTES = 1 << 25  # of all arrays in one text together: a few bytes may not ask for gigabytes
_DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U\d{1,7}|\|O|<[mM]8\[(Y|M|W|D|h|m|s|ms|us|ns)\]")
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
MAGIC = b"\x89PBDN\r\n\n"
FORMAT_VERSION = 1
MAX_HEADER = 1 << 20
_PREFIX = struct.Struct("<8sIIQ")
_DIGEST = hashlib.sha256().digest_size
_DTYPES = frozenset(["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"])
_RESCUE = "Restore it from a copy or write it again."

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


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


def write_container(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write header and arrays to ``path``, all or nothing (see `pbdn.files.atomic.atomic_write`).

    Parameters
    ----------
    path : str or path
    header : mapping
        JSON-like values (see `pbdn.files.container.to_json`); its ``kind`` says what the file holds.
    arrays : mapping of names to arrays
        Boolean, integer or real arrays; stored exactly.
    """
    atomic_write(path, container_bytes(header, arrays))


def read_container(path: str | os.PathLike[str], kind: str | None = None) -> tuple[Header, Arrays]:
    """Header and arrays of the file at ``path``. Sizes are checked before anything is allocated.

    Parameters
    ----------
    path : str or path
    kind : str, optional
        Refuse files whose header names another ``kind``.

    Raises
    ------
    FileFormatError
        The file is damaged, not one of pbdn, of another kind, or written by a newer version.
    FileNotFoundError, IsADirectoryError, PermissionError, OSError
        The file cannot be read.
    """
    name = repr(os.fspath(path))
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "it is a folder; give a file in it")
        if not stat.S_ISREG(mode):
            raise FileFormatError(f"{name} is not a pbdn file but a device or pipe. Give a regular file.")
        with open(path, "rb") as stream:
            return _read(stream, os.fstat(stream.fileno()).st_size, name, kind)
    except OSError as error:
        raise OSError(error.errno, f"Cannot read {name}: {error.strerror or error}.") from error


def container_bytes(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes that `write_container` writes; equal contents give equal bytes."""
    text = to_json(dict(header))
    if len(text) > MAX_HEADER:
        raise InvalidInputError(
            f"header takes {len(text)} bytes, at most {MAX_HEADER} are allowed: move long lists into arrays "
            "(pbdn.files.pack_strings)."
        )
    payload = safetensors.numpy.save({name: _storable(name, array) for name, array in sorted(arrays.items())})
    body = _PREFIX.pack(MAGIC, FORMAT_VERSION, len(text), len(payload)) + text + payload
    return bytes(body + hashlib.sha256(body).digest())


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in _DTYPES or not name or name == "__metadata__":
        raise InvalidInputError(
            f"array {name!r} of dtype {array.dtype} cannot be stored: allowed are boolean, integer and real "
            "arrays under a non-empty name other than '__metadata__'."
        )
    return np.asarray(array, dtype=dtype, order="C")


def _read(stream: BinaryIO, size: int, name: str, kind: str | None) -> tuple[Header, Arrays]:
    prefix = stream.read(_PREFIX.size)
    if not prefix.startswith(MAGIC):
        whole = MAGIC.startswith(prefix)  # nothing but the beginning of a signature
        raise FileFormatError(
            f"{name} is {'cut short' if whole and prefix else 'empty' if whole else 'not a pbdn file'}. "
            "Give a file written by pbdn."
        )
    if len(prefix) < _PREFIX.size:
        raise FileFormatError(f"{name} is damaged: it is cut short. {_RESCUE}")
    _, version, header_length, payload_length = _PREFIX.unpack(prefix)
    if _PREFIX.size + header_length + payload_length + _DIGEST != size:
        raise FileFormatError(f"{name} is damaged: it has {size} bytes, other than it declares. {_RESCUE}")
    body = stream.read(size - _PREFIX.size)
    checksum = hashlib.sha256(prefix)
    checksum.update(memoryview(body)[:-_DIGEST])
    if len(body) != size - _PREFIX.size or checksum.digest() != body[-_DIGEST:]:
        raise FileFormatError(f"{name} is damaged: its checksum does not match its contents. {_RESCUE}")
    if version > FORMAT_VERSION:
        raise FileFormatError(
            f"{name} was written by a newer version of pbdn (format {version}; this one reads up to "
            f"{FORMAT_VERSION}): upgrade pbdn."
        )
    if version < 1:
        raise FileFormatError(f"{name} is damaged: there is no format version {version}. {_RESCUE}")
    if header_length > MAX_HEADER:
        raise FileFormatError(f"{name} is damaged: its header is longer than {MAX_HEADER} bytes. {_RESCUE}")
    text, payload = body[:header_length], body[header_length:-_DIGEST]
    del body  # the payload and the arrays made of it are all that is held from here on
    try:
        header = from_json(text)
        if not isinstance(header, dict):
            raise FileFormatError("malformed header (not an object)")
        arrays = _parse_arrays(payload)
    except FileFormatError as error:
        raise FileFormatError(f"{name} is damaged: {error}. {_RESCUE}") from error
    if kind is not None and header.get("kind") != kind:
        raise FileFormatError(
            f"{name} holds a {str(header.get('kind'))[:40]!r}, not a {kind!r}. Give a file of the right kind."
        )
    return header, arrays


def _parse_arrays(payload: bytes) -> Arrays:
    if int.from_bytes(payload[:8], "little") > MAX_HEADER:
        raise FileFormatError("the list of arrays is too long")
    try:
        return dict(safetensors.numpy.load(payload))
    except Exception as error:  # whatever the parser objects to, the file is at fault
        raise FileFormatError(f"malformed arrays ({error})") from error
