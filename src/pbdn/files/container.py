"""The file of models and checkpoints: a JSON header and arrays under one checksum; only data, never code.

Layout, all integers little-endian::

    8 bytes   signature 89 50 42 44 4E 0D 0A 0A
    4 bytes   format version
    4 bytes   length of the header, at most 1 MB
    8 bytes   length of the payload
    …         header: ASCII JSON (see `pbdn.files.encoding`)
    …         payload: arrays in safetensors format
    32 bytes  SHA-256 of everything before

The first 24 bytes and the last 32 mean the same in every version.
"""

import hashlib
import os
import stat
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.files.atomic import atomic_write
from pbdn.files.encoding import from_json, to_json

MAGIC = b"\x89PBDN\r\n\n"
FORMAT_VERSION = 1
MAX_HEADER = 1 << 20
_PREFIX = struct.Struct("<8sIIQ")
_DIGEST = hashlib.sha256().digest_size
_DTYPES = frozenset(["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"])
_RESCUE = "Restore it from a copy or write it again."

Header = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def write_container(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write header and arrays to ``path``, all or nothing (see `pbdn.files.atomic.atomic_write`).

    Parameters
    ----------
    path : str or path
    header : mapping
        JSON-like values (see `pbdn.files.encoding.to_json`); its ``kind`` says what the file holds.
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
