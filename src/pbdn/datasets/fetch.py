"""Where data files are looked for, and how a dataset is fetched once from its public home: verified by SHA-256, converted, written whole or not at all."""

import gzip
import hashlib
import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import FileFormatError, InvalidInputError, MissingExtraError, PBDNError
from pbdn.files.atomic import atomic_write

IDA_NAMES = ("banana", "breast_cancer", "titanic", "waveform", "german", "image")
IDA_MORE_NAMES = ("diabetis", "flare_solar", "splice", "twonorm")
EXTRA_FILES = {
    "spambase": "extra_spambase.npz",
    "kr_vs_kp": "extra_kr_vs_kp.npz",
    "codrna": "extra_codrna.npz",
    "satimage": "extra_mc_satimage.npz",
    "penbased": "extra_mc_penbased.npz",
    "letter": "extra_mc_letter.npz",
    "bikeshare": "extra_count_bikeshare.npz",
    "concrete": "extra_reg_concrete.npz",
    "abalone": "extra_reg_abalone.npz",
}
FILES: dict[str, str] = {
    **{name: f"ida_{name}.npz" for name in IDA_NAMES + IDA_MORE_NAMES},
    "ijcnn1": "ijcnn1.npz",
    "a9a": "a9a.npz",
    "mnist": "mnist.npz",
    **EXTRA_FILES,
}
"""File of each dataset, in ``PBDN_DATA`` and in the cache alike."""
Arrays = dict[str, NDArray[Any]]
Downloader = Callable[[str, Any, Any], Any]
"""As pooch has them: takes an address, a stream to write to, and a Pooch (here None)."""

TIMEOUT_SECONDS = 60.0
MAX_BYTES = 64 * 2**20
"""Largest single file accepted, packed or unpacked; the largest in use has 47 MB."""


class DataUnavailableError(PBDNError, FileNotFoundError):
    """A dataset is neither local nor could be fetched; the message says which file to put where."""


def cache_folder() -> Path:
    """Folder for fetched data: ``PBDN_CACHE``, else the platform's user cache folder.

    By hand, as data that is already there is found without pooch, which has the same rule as ``os_cache``.
    """
    override = os.environ.get("PBDN_CACHE")
    if override:
        return Path(override).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pbdn"
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "pbdn" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pbdn"


def data_folder() -> Path | None:
    """The folder named by ``PBDN_DATA``, or None where the variable is unset or empty."""
    value = os.environ.get("PBDN_DATA")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise InvalidInputError(f"PBDN_DATA={value!r} is not a folder; name one with the .npz files, or unset it.")
    return folder


def file_of(name: str) -> str:
    """File name of a dataset."""
    try:
        return FILES[name]
    except KeyError:
        raise InvalidInputError(f"name={name!r} is not a known dataset; known: {', '.join(sorted(FILES))}.") from None


def find_local(name: str) -> Path | None:
    """Path of a dataset's file in ``PBDN_DATA`` or the cache, or None."""
    file = file_of(name)
    folders = [folder for folder in (data_folder(), cache_folder()) if folder is not None]
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def data_available(name: str) -> bool:
    """Whether a dataset can be loaded without fetching anything."""
    return find_local(name) is not None


@dataclass(frozen=True)
class Source:
    """A public home: files at fixed addresses, one digest over their contents, and the way into our layout.

    One digest stands for up to 41 files, where pooch's registry would hold one for each.

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


def fetch(name: str, source: Source, target: Path, downloader: Downloader | None = None) -> Path:
    """Download, verify and convert a dataset into the file ``target``.

    Nothing is written before every byte has been verified, and the file appears in one step. The default downloader is
    pooch's.

    Raises
    ------
    DataUnavailableError
        The public home cannot be reached or a file arrived incomplete.
    FileFormatError
        The contents are not those recorded here.
    MissingExtraError
        pooch is not installed.
    """
    downloader = _pooch_downloader(name, target) if downloader is None else downloader
    contents = [_download(name, url, target, downloader) for url in source.urls]
    if source.gzipped:
        contents = [_unpack(name, url, content) for url, content in zip(source.urls, contents, strict=True)]
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    if digest.hexdigest() != source.sha256:
        raise FileFormatError(
            f"dataset {name!r}: what came from {source.urls[0]} has SHA-256 {digest.hexdigest()}, "
            f"expected {source.sha256}; nothing was stored. Get {target.name} elsewhere and put it into "
            f"{target.parent} or the folder named by PBDN_DATA."
        )
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **source.convert(contents))
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(target, packed.getvalue())
    return target


def unavailable(name: str, target: Path, why: str) -> DataUnavailableError:
    """The one message for data that is not here and cannot be had."""
    return DataUnavailableError(f"dataset {name!r} is not available: {why}. {_by_hand(target)}")


def _by_hand(target: Path) -> str:
    return f"Put the file {target.name} into {target.parent}, or into a folder named by the environment variable PBDN_DATA."


def _pooch_downloader(name: str, target: Path) -> Downloader:
    try:
        import pooch
    except ImportError:
        raise MissingExtraError(f"Fetching dataset {name!r} needs pooch", "datasets", _by_hand(target)) from None
    downloader: Downloader = pooch.HTTPDownloader(chunk_size=1 << 16, timeout=TIMEOUT_SECONDS)
    return downloader


class _TooLargeError(Exception):
    """More bytes came than any of the files has."""


class _Bounded(io.BytesIO):
    """Memory that takes at most MAX_BYTES."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > MAX_BYTES:
            raise _TooLargeError
        return super().write(data)


def _download(name: str, url: str, target: Path, downloader: Downloader) -> bytes:
    received = _Bounded()
    try:
        downloader(url, received, None)
    except _TooLargeError:
        message = f"dataset {name!r}: {url} is larger than {MAX_BYTES} bytes; nothing was stored."
        raise FileFormatError(message) from None
    except OSError as error:  # what requests raises is one, too
        raise unavailable(name, target, f"fetching {url} failed ({type(error).__name__}: {error})") from error
    return received.getvalue()


def _unpack(name: str, url: str, content: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(MAX_BYTES + 1)
    except (OSError, EOFError) as error:
        raise FileFormatError(f"dataset {name!r}: {url} is not a whole gzip file; nothing was stored.") from error
    if len(unpacked) > MAX_BYTES:
        raise FileFormatError(f"dataset {name!r}: {url} unpacks to over {MAX_BYTES} bytes; nothing was stored.")
    return unpacked
