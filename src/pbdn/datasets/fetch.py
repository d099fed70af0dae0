"""Where data files are looked for, their public homes, and how a dataset is fetched once from there: verified by SHA-256, converted, written whole or not at all."""

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

from pbdn.datasets import convert
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
ROWS = "Devn913/AGMR_entropy_sparse/7d5f7cfd8ca4c0f7130bfda3201084db5c093174/twin_datasets"
SPLITS = "fernando2393/Relevance-Vector-Machine/4692830b9a8cf938e6b319be4a42e2a3ddde5457/Classification/datasets"
TWONORM = "yzhang00/Python-ML-Project-2/3052697b406ebddce0f9c3032f7e1943e017b36e/Data"
IJCNN1 = "X-DataInitiative/tick-datasets/9d959b6e53e17145e93e9849ff1f9f6d2de8ae51/binary/ijcnn1"
A9A = "mingyuanzhou/PBDN/a6713e0938d51c7a105840fbe7ecc71b9a525ffc/data"
CODRNA = "g2clv7fwl945/convex_dataset/3d8f83c73359ab9fa28b0272dde94236cc26b7ec"
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"

_IDA_DIGESTS = {
    "banana": "5bda42e10a8f2ae98d502abc6c92dcb00d25b9c1c3841ff4d8a32590407258a7",
    "breast_cancer": "9d5854b13b343944f77dfa6106c55db15bdbe04040244433c6285db6dca8ad5a",
    "titanic": "7d5f840bd9c6abaf6af5d270bca975fab0d80c5537464eb916f35168143d032e",
    "waveform": "81105607c94c162d4c68927d8a93569a13d6f91faf5d586f9452caf3d1a2827e",
    "german": "8b1c8aa734ebb14b21ea4ec5a33f64ede5ea752750ae10e14c07eddd9fe9fec2",
    "image": "055b43ceb40c2ce2b0c73a8f1aac24fd77988240256bd7eab4be68c21d90ba6d",
}


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


# Public homes of the datasets: fixed commits of public repositories, each with one SHA-256 over its files.
#
# A set that is not listed here has no home whose contents could be verified; it is read from local copies only.


def _raw(folder: str, *files: str) -> tuple[str, ...]:
    return tuple(f"https://raw.githubusercontent.com/{folder}/{file}" for file in files)


def _ida(name: str, sha256: str) -> Source:
    stem = name.replace("_", "-")
    tables = [
        f"{stem}/{stem}_{part}_{kind}_{k}.asc"
        for k in range(1, 11)
        for part in ("train", "test")
        for kind in ("data", "labels")
    ]
    return Source(_raw(ROWS, f"{name}.mat") + _raw(SPLITS, *tables), sha256, convert.ida_with_splits)


SOURCES: dict[str, Source] = {
    **{name: _ida(name, sha256) for name, sha256 in _IDA_DIGESTS.items()},
    "flare_solar": Source(
        _raw(ROWS, "flare_solar.mat"),
        "3aff418ff82953890854803613eb9e04fd3730114bff8e1a8e98ff59e7bc430c",
        convert.ida_codes(666),
    ),
    "splice": Source(
        _raw(ROWS, "splice.mat"),
        "3ab9843787885143d61b6141c42d40e4b94b662637c2b6e14522bdb5dce2f8d1",
        convert.ida_codes(1000),
    ),
    "diabetis": Source(
        _raw(ROWS, "pimadiabetes.mat"),
        "6be5ba7095ffe5ae5e3381584f0753a89a9bc082b744f882c6e438bc28dfb139",
        convert.pima_as_diabetis,
    ),
    "twonorm": Source(
        _raw(
            TWONORM,
            *(f"twonorm_{part}_{kind}_1.asc" for part in ("train", "test") for kind in ("data", "labels")),
        ),
        "7c96a8c0a7a0c65b1e7afc220fddf309c0051e3404670f268c91510849a8a9e0",
        convert.twonorm,
    ),
    "ijcnn1": Source(
        _raw(IJCNN1, "ijcnn1.trn.bz2", "ijcnn1.tst.bz2"),
        "942bcf0ddf917bfed6953522d23564ba3176a1d89e6baa1a6900c7efe05a1ede",
        convert.ijcnn1,
    ),
    "a9a": Source(
        _raw(A9A, "a9a.mat"),
        "6413e580e7575ac8bb49652462c479fb462452e6cf1efa5434b1f25c4bdb121a",
        convert.a9a,
    ),
    "codrna": Source(
        _raw(CODRNA, "cor_rna_scaled.mat"),
        "16f63aba8339cdf7e8c2efe47a5c7ed5e983f1b99ad2f9afb3774ebf81877fbf",
        convert.codrna,
    ),
    "mnist": Source(
        tuple(
            f"{MNIST}/{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
        ),
        "b2d8f5bf39174ee5ffeefa97e42d673c35432b411bb5d1f74fbbeddae7f1690a",
        convert.mnist,
        gzipped=True,
    ),
}
