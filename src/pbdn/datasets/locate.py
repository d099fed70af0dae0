"""Where data files are looked for: ``PBDN_DATA``, then the user's cache folder."""

import os
import sys
from pathlib import Path

from pbdn.errors import InvalidInputError, PBDNError

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
