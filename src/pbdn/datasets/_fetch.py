"""Fetch a dataset once from its public home: verified by SHA-256, converted, written whole or not at all."""

import gzip
import hashlib
import io
import os
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pbdn.datasets._locate import DataUnavailableError
from pbdn.errors import FileFormatError

Arrays = dict[str, NDArray[Any]]
Opener = Callable[[str], AbstractContextManager[IO[bytes]]]

TIMEOUT_SECONDS = 60.0
MAX_BYTES = 64 * 2**20
"""Largest single file accepted, packed or unpacked; the largest in use has 47 MB."""


@dataclass(frozen=True)
class Source:
    """A public home: files at fixed addresses, one digest over their contents, and the way into our layout.

    Attributes
    ----------
    urls : tuple of str
    sha256 : str
        Digest of the files' contents joined in the order of ``urls`` (after unpacking, where ``gzipped``).
    convert : callable
        Turns the list of contents into the arrays of the ``.npz`` file.
    gzipped : bool
        Whether each file is unpacked before it is verified.
    """

    urls: tuple[str, ...]
    sha256: str
    convert: Callable[[list[bytes]], Arrays]
    gzipped: bool = False


def open_url(url: str) -> AbstractContextManager[IO[bytes]]:
    """Open an address for reading, with a time limit."""
    return urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)  # type: ignore[no-any-return]


def fetch(name: str, source: Source, target: Path, opener: Opener = open_url) -> Path:
    """Download, verify and convert a dataset into the file ``target``.

    Nothing is written before every byte has been verified, and the file appears in one step.

    Raises
    ------
    DataUnavailableError
        The public home cannot be reached or a file arrived incomplete.
    FileFormatError
        The contents are not those recorded here.
    """
    contents = [_download(name, url, source.gzipped, target, opener) for url in source.urls]
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    if digest.hexdigest() != source.sha256:
        raise FileFormatError(
            f"dataset {name!r}: what came from {source.urls[0]} has SHA-256 {digest.hexdigest()}, "
            f"expected {source.sha256}; nothing was stored. Get {target.name} elsewhere and put it into "
            f"{target.parent} or the folder named by PBDN_DATA."
        )
    write_arrays(target, source.convert(contents))
    return target


def write_arrays(target: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a compressed ``.npz`` under a temporary name, then rename it into place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def unavailable(name: str, target: Path, why: str) -> DataUnavailableError:
    """The one message for data that is not here and cannot be had."""
    return DataUnavailableError(
        f"dataset {name!r} is not available: {why}. Put the file {target.name} into {target.parent}, "
        f"or into a folder named by the environment variable PBDN_DATA."
    )


def _download(name: str, url: str, gzipped: bool, target: Path, opener: Opener) -> bytes:
    try:
        with opener(url) as response:
            content = response.read(MAX_BYTES + 1)
            expected = _content_length(response)
    except (OSError, HTTPException) as error:
        raise unavailable(name, target, f"fetching {url} failed ({type(error).__name__}: {error})") from error
    if len(content) > MAX_BYTES:
        raise FileFormatError(f"dataset {name!r}: {url} is larger than {MAX_BYTES} bytes; nothing was stored.")
    if expected is not None and len(content) < expected:
        raise unavailable(name, target, f"{url} broke off after {len(content)} of {expected} bytes")
    return _unpack(name, url, content) if gzipped else content


def _content_length(response: IO[bytes]) -> int | None:
    headers = getattr(response, "headers", None)
    value = headers.get("Content-Length") if headers is not None else None
    return int(value) if value is not None and value.isdigit() else None


def _unpack(name: str, url: str, content: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(MAX_BYTES + 1)
    except (OSError, EOFError) as error:
        raise FileFormatError(f"dataset {name!r}: {url} is not a whole gzip file; nothing was stored.") from error
    if len(unpacked) > MAX_BYTES:
        raise FileFormatError(f"dataset {name!r}: {url} unpacks to over {MAX_BYTES} bytes; nothing was stored.")
    return unpacked
