"""What every loader and generator returns, and the loaders of public data."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pbdn.datasets.fetch import (
    EXTRA_FILES,
    IDA_MORE_NAMES,
    IDA_NAMES,
    Arrays,
    Downloader,
    cache_folder,
    fetch,
    file_of,
    find_local,
    unavailable,
)
from pbdn.datasets.sources import SOURCES
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.numerics.arrays import FloatArray, IntArray

Table: TypeAlias = FloatArray | csr_array
Splits = tuple[tuple[IntArray, ...], tuple[IntArray, ...]]
Protocol = Literal["paper", "original"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with labels and predefined splits.

    Attributes
    ----------
    name : str
    X : float array or CSR matrix of shape (n_rows, n_features)
    y : array of shape (n_rows,)
        Class numbers from 0 (binary sets: 0 and 1); counts or real values for the regression sets.
    train, test : tuple of int arrays
        Row numbers, one array per split; empty tuples where the set has no agreed split.
    feature_names : tuple of str or None
    description : str
    split_is_original : tuple of bool
        Whether split k is the published one (True) or a stated reconstruction (False).
    """

    name: str
    X: Table
    y: NDArray[np.int64] | FloatArray
    train: tuple[IntArray, ...] = ()
    test: tuple[IntArray, ...] = ()
    feature_names: tuple[str, ...] | None = None
    description: str = ""
    split_is_original: tuple[bool, ...] = ()

    @property
    def n_splits(self) -> int:
        """Number of predefined splits."""
        return len(self.train)

    def split(self, k: int) -> tuple[Table, NDArray[np.int64] | FloatArray, Table, NDArray[np.int64] | FloatArray]:
        """Return ``X_train, y_train, X_test, y_test`` of split ``k`` (0-based)."""
        if not 0 <= k < self.n_splits:
            have = f"0 to {self.n_splits - 1}" if self.n_splits else "none; split the rows yourself"
            raise InvalidInputError(f"split k={k!r} of dataset {self.name!r} does not exist; it has {have}.")
        train, test = self.train[k], self.test[k]
        return self.X[train], self.y[train], self.X[test], self.y[test]


def alternate_rows(n: int) -> tuple[IntArray, IntArray]:
    """Even rows train, odd rows test."""
    rows = np.arange(n)
    return rows[::2], rows[1::2]


def every_tenth_row(n: int, tries: int = 5, step: int = 10) -> Splits:
    """The paper's protocol for ijcnn1 and a9a: try i trains on rows i, i + 10, ..., tests on all others."""
    rows = np.arange(n)
    train = tuple(rows[i::step] for i in range(tries))
    test = tuple(rows[rows % step != i] for i in range(tries))
    return train, test


def load_ida(name: str) -> Dataset:
    """One of the IDA benchmark sets, with ten train/test splits.

    Parameters
    ----------
    name : str
        banana, breast_cancer, titanic, waveform, german or image (rows and splits as published), or diabetis,
        flare_solar, splice or twonorm (some splits reconstructed: see ``split_is_original``).

    Returns
    -------
    Dataset
        Features as published; y = 1 is the original label +1.
    """
    if name not in IDA_NAMES + IDA_MORE_NAMES:
        known = ", ".join(IDA_NAMES + IDA_MORE_NAMES)
        raise InvalidInputError(f"name={name!r} is not an IDA set; known: {known}.")
    arrays = read_arrays(name, ("X", "y", "train", "test", "split_is_original"))
    original = tuple(bool(flag) for flag in arrays["split_is_original"])
    return Dataset(
        name=name,
        X=arrays["X"].astype(np.float64),
        y=arrays["y"].astype(np.int64),
        train=tuple(arrays["train"].astype(np.int64)),
        test=tuple(arrays["test"].astype(np.int64)),
        description=f"IDA benchmark {name}; {sum(original)} of {len(original)} splits are the published ones",
        split_is_original=original,
    )


def load_ijcnn1(protocol: Protocol = "paper") -> Dataset:
    """IJCNN-2001 challenge data, 141,691 rows of 22 features.

    ``protocol="paper"``: five tries, try i trains on rows i, i + 10, ... of the stacked parts and tests on
    all others; ``"original"``: the one published split.
    """
    arrays = _stacked("ijcnn1")
    splits = _splits("ijcnn1", protocol, arrays["n_train"].item(), len(arrays["y"]))
    return _binary("ijcnn1", arrays["X"].astype(np.float64), arrays["y"], splits, protocol)


def load_a9a(protocol: Protocol = "paper") -> Dataset:
    """Adult, 48,842 rows of 123 binary features as a CSR matrix; ``protocol`` as in :func:`load_ijcnn1`."""
    arrays = _stacked("a9a")
    splits = _splits("a9a", protocol, arrays["n_train"].item(), len(arrays["y"]))
    return _binary("a9a", csr_array(arrays["X"].astype(np.float64)), arrays["y"], splits, protocol)


def load_mnist() -> Dataset:
    """MNIST digits: 70,000 rows of 784 pixels scaled to [0, 1], y the digit, the one published split."""
    arrays = _stacked("mnist")
    train, test = _splits("mnist", "original", arrays["n_train"].item(), len(arrays["y"]))
    return Dataset(
        name="mnist",
        X=arrays["X"] / 255.0,
        y=arrays["y"].astype(np.int64),
        train=train,
        test=test,
        feature_names=_pixel_names(),
        description="MNIST, all ten digits, published split",
        split_is_original=(True,),
    )


def load_mnist_pair(a: int, b: int, protocol: Protocol = "original") -> Dataset:
    """Digits ``a`` (y = 0) against ``b`` (y = 1), pixels scaled to [0, 1].

    ``protocol="original"``: the published split; ``"paper"``: five tries on every tenth row of the stacked
    pair, which is what the published script for the paper's MNIST table does.
    """
    if a == b or not {a, b} <= set(range(10)):
        raise InvalidInputError(f"a and b must be two different digits 0 to 9; got a={a!r}, b={b!r}.")
    arrays = _stacked("mnist")
    rows = np.flatnonzero(np.isin(arrays["y"], (a, b)))
    n_train = int(np.searchsorted(rows, arrays["n_train"].item()))
    name = f"mnist_{a}v{b}"
    splits = _splits(name, protocol, n_train, len(rows))
    return _binary(name, arrays["X"][rows] / 255.0, arrays["y"][rows] == b, splits, protocol, _pixel_names())


def load_extra(name: str) -> Dataset:
    """A further real dataset, without splits.

    Parameters
    ----------
    name : str
        Binary: spambase, kr_vs_kp, codrna; multiclass: satimage, penbased, letter; count: bikeshare;
        regression: concrete, abalone.
    """
    if name not in EXTRA_FILES:
        raise InvalidInputError(f"name={name!r} is not an extra set; known: {', '.join(EXTRA_FILES)}.")
    arrays = read_arrays(name, ("X", "y"))
    X, y = arrays["X"].astype(np.float64), arrays["y"]
    features = arrays.get("features")
    return Dataset(
        name=name,
        X=X,
        y=y.astype(np.float64) if np.issubdtype(y.dtype, np.floating) else y.astype(np.int64),
        feature_names=None if features is None else tuple(str(feature) for feature in features),
        description=f"{name}, {X.shape[0]} rows x {X.shape[1]} features, no predefined split",
    )


def read_arrays(name: str, required: tuple[str, ...], downloader: Downloader | None = None) -> Arrays:
    """Arrays of a dataset's file: from ``PBDN_DATA``, else the cache, else fetched into the cache."""
    path = find_local(name)
    if path is None:
        target = cache_folder() / file_of(name)
        if name not in SOURCES:
            raise unavailable(name, target, "no public home with verified contents is known for it")
        path = fetch(name, SOURCES[name], target, downloader)
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise FileFormatError(f"{path} is not a readable .npz file ({error}); delete or replace it.") from error
    missing = [key for key in required if key not in arrays]
    if missing:
        raise FileFormatError(f"{path} lacks the arrays {', '.join(missing)}; delete or replace it.")
    return arrays


def _stacked(name: str) -> Arrays:
    """Training part over test part, with the number of training rows."""
    arrays = read_arrays(name, ("x_train", "y_train", "x_test", "y_test"))
    return {
        "X": np.concatenate([arrays["x_train"], arrays["x_test"]]),
        "y": np.concatenate([arrays["y_train"], arrays["y_test"]]),
        "n_train": np.array(len(arrays["y_train"])),
    }


def _splits(name: str, protocol: str, n_train: int, n: int) -> Splits:
    if protocol == "paper":
        return every_tenth_row(n)
    if protocol == "original":
        return (np.arange(n_train),), (np.arange(n_train, n),)
    raise InvalidInputError(f"protocol={protocol!r} of {name} must be 'paper' or 'original'.")


def _binary(
    name: str, X: Any, y: NDArray[Any], splits: Splits, protocol: str, features: tuple[str, ...] | None = None
) -> Dataset:
    return Dataset(
        name=name,
        X=X,
        y=y.astype(np.int64),
        train=splits[0],
        test=splits[1],
        feature_names=features,
        description=f"{name}, {X.shape[0]} rows x {X.shape[1]} features, {protocol} splits",
        split_is_original=(protocol == "original",) * len(splits[0]),
    )


def _pixel_names() -> tuple[str, ...]:
    return tuple(f"row{i}_col{j}" for i in range(28) for j in range(28))
