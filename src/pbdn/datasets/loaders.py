"""Real datasets of the paper and some more, each read from a local copy or fetched once and cached."""

from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pbdn.datasets.dataset import Dataset, Splits, every_tenth_row
from pbdn.datasets.fetch import Arrays, Downloader, fetch, unavailable
from pbdn.datasets.locate import EXTRA_FILES, IDA_MORE_NAMES, IDA_NAMES, cache_folder, file_of, find_local
from pbdn.datasets.sources import SOURCES
from pbdn.errors import FileFormatError, InvalidInputError

Protocol = Literal["paper", "original"]


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
