"""Public homes of the datasets, and how the files that lie there become arrays.

Homes are fixed commits of public repositories, each with one SHA-256 over its files. A set that is not listed here has no home whose
contents could be verified; it is read from local copies only.
"""

import bz2
import io
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from sklearn.datasets import load_svmlight_file

from pbdn.datasets.fetch import Arrays, Source
from pbdn.errors import FileFormatError
from pbdn.numerics.arrays import FloatArray

N_SPLITS = 10


def ida_with_splits(contents: list[bytes]) -> Arrays:
    """Rows from a MATLAB file, the ten original splits from 40 tables.

    ``contents`` is the MATLAB file, then for each realisation training rows and labels, test rows and labels.
    """
    X, y = _ida_rows(contents[0])
    train, test = [], []
    for k in range(N_SPLITS):
        train_X, train_y, test_X, test_y = (_ascii_table(part) for part in contents[1 + 4 * k : 5 + 4 * k])
        rows = _RowNumbers(X, y)
        train.append(rows.take(train_X, train_y))
        test.append(rows.take(test_X, test_y))
    return _ida_arrays(X, y, np.array(train), np.array(test), np.ones(N_SPLITS, bool))


def ida_codes(n_train: int) -> Any:
    """Converter for a MATLAB file of small integer codes, with reconstructed splits."""

    def convert(contents: list[bytes]) -> Arrays:
        X, y = _ida_rows(contents[0])
        train, test = reconstructed_splits(len(y), n_train)
        return _ida_arrays(X.astype(np.uint8), y, train, test, np.zeros(N_SPLITS, bool))

    return convert


def pima_as_diabetis(contents: list[bytes]) -> Arrays:
    """Pima Indians diabetes with columns standardised over all rows, and reconstructed splits."""
    X, y = _ida_rows(contents[0])
    train, test = reconstructed_splits(len(y), 468)
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    return _ida_arrays(X, y, train, test, np.zeros(N_SPLITS, bool))


def twonorm(contents: list[bytes]) -> Arrays:
    """Realisation 1 of twonorm as rows and split 0; splits 1 to 9 are reconstructed."""
    train_X, train_y, test_X, test_y = (_ascii_table(part) for part in contents)
    X, y = np.concatenate([train_X, test_X]), np.concatenate([train_y, test_y]).ravel()
    train, test = reconstructed_splits(len(y), len(train_X), N_SPLITS - 1)
    rows = np.arange(len(y))
    train = np.concatenate([rows[None, : len(train_X)], train])
    test = np.concatenate([rows[None, len(train_X) :], test])
    return _ida_arrays(X, y > 0, train, test, np.arange(N_SPLITS) == 0)


def ijcnn1(contents: list[bytes]) -> Arrays:
    """LIBSVM text, packed with bzip2: training part and test part."""
    arrays: Arrays = {}
    for part, content in zip(("train", "test"), contents, strict=True):
        X, y = load_svmlight_file(io.BytesIO(bz2.decompress(content)), n_features=22, zero_based=False)
        arrays[f"x_{part}"], arrays[f"y_{part}"] = X.toarray().astype(np.float32), (y > 0).astype(np.int8)
    return arrays


def a9a(contents: list[bytes]) -> Arrays:
    """MATLAB file of sparse binary features; the test part lacks the never-used column 123."""
    fields = loadmat(io.BytesIO(contents[0]), variable_names=["x_train", "t_train", "x_test", "t_test"])
    arrays: Arrays = {}
    for part in ("train", "test"):
        found = fields[f"x_{part}"].toarray()
        X = np.zeros((found.shape[0], 123), np.uint8)
        X[:, : found.shape[1]] = found
        arrays[f"x_{part}"], arrays[f"y_{part}"] = X, (fields[f"t_{part}"].ravel() > 0).astype(np.int8)
    return arrays


def codrna(contents: list[bytes]) -> Arrays:
    """MATLAB file of the cod-RNA training part, columns standardised."""
    fields = loadmat(io.BytesIO(contents[0]), variable_names=["X", "y"])
    X = fields["X"]
    X = X.toarray() if hasattr(X, "toarray") else X
    return {"X": X.astype(np.float32), "y": (fields["y"].ravel() > 0).astype(np.int8)}


def mnist(contents: list[bytes]) -> Arrays:
    """Four idx files: training images and labels, test images and labels."""
    names = ("x_train", "y_train", "x_test", "y_test")
    return {name: _idx(content) for name, content in zip(names, contents, strict=True)}


def reconstructed_splits(n: int, n_train: int, n_splits: int = N_SPLITS) -> tuple[NDArray[Any], NDArray[Any]]:
    """Plain permutations of one seeded stream; the first ``n_train`` rows of each train."""
    rng = np.random.default_rng(0)
    orders = np.array([rng.permutation(n) for _ in range(n_splits)])
    return orders[:, :n_train], orders[:, n_train:]


class _RowNumbers:
    """Row numbers by exact content; identical rows are handed out in order, each once."""

    def __init__(self, X: FloatArray, y: NDArray[Any]) -> None:
        self._rows: dict[bytes, list[int]] = defaultdict(list)
        for i in reversed(range(len(y))):
            self._rows[self._key(X[i], y[i])].append(i)

    @staticmethod
    def _key(row: FloatArray, label: Any) -> bytes:
        return bytes((row + 0.0).tobytes()) + (b"+" if label > 0 else b"-")  # + 0.0: no negative zero

    def take(self, X: FloatArray, y: FloatArray) -> NDArray[Any]:
        try:
            return np.array([self._rows[self._key(row, label)].pop() for row, label in zip(X, y.ravel(), strict=True)])
        except IndexError:
            raise FileFormatError("a split holds a row that the table of all rows does not hold.") from None


def _ida_rows(content: bytes) -> tuple[FloatArray, NDArray[Any]]:
    fields = loadmat(io.BytesIO(content), variable_names=["data", "target"])
    return np.ascontiguousarray(fields["data"], dtype=np.float64), fields["target"].ravel() > 0


def _ida_arrays(
    X: NDArray[Any], y: NDArray[Any], train: NDArray[Any], test: NDArray[Any], original: NDArray[Any]
) -> Arrays:
    return {
        "X": X,
        "y": y.astype(np.int8),
        "train": train.astype(np.int16),
        "test": test.astype(np.int16),
        "split_is_original": original,
    }


def _ascii_table(content: bytes) -> FloatArray:
    return np.loadtxt(io.BytesIO(content), ndmin=2)


def _idx(content: bytes) -> NDArray[Any]:
    n_axes = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=n_axes, offset=4).astype(int)
    values = np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * n_axes)
    return values.reshape(shape[0], -1) if n_axes > 1 else values


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
    return Source(_raw(ROWS, f"{name}.mat") + _raw(SPLITS, *tables), sha256, ida_with_splits)


SOURCES: dict[str, Source] = {
    **{name: _ida(name, sha256) for name, sha256 in _IDA_DIGESTS.items()},
    "flare_solar": Source(
        _raw(ROWS, "flare_solar.mat"),
        "3aff418ff82953890854803613eb9e04fd3730114bff8e1a8e98ff59e7bc430c",
        ida_codes(666),
    ),
    "splice": Source(
        _raw(ROWS, "splice.mat"),
        "3ab9843787885143d61b6141c42d40e4b94b662637c2b6e14522bdb5dce2f8d1",
        ida_codes(1000),
    ),
    "diabetis": Source(
        _raw(ROWS, "pimadiabetes.mat"),
        "6be5ba7095ffe5ae5e3381584f0753a89a9bc082b744f882c6e438bc28dfb139",
        pima_as_diabetis,
    ),
    "twonorm": Source(
        _raw(
            TWONORM,
            *(f"twonorm_{part}_{kind}_1.asc" for part in ("train", "test") for kind in ("data", "labels")),
        ),
        "7c96a8c0a7a0c65b1e7afc220fddf309c0051e3404670f268c91510849a8a9e0",
        twonorm,
    ),
    "ijcnn1": Source(
        _raw(IJCNN1, "ijcnn1.trn.bz2", "ijcnn1.tst.bz2"),
        "942bcf0ddf917bfed6953522d23564ba3176a1d89e6baa1a6900c7efe05a1ede",
        ijcnn1,
    ),
    "a9a": Source(
        _raw(A9A, "a9a.mat"),
        "6413e580e7575ac8bb49652462c479fb462452e6cf1efa5434b1f25c4bdb121a",
        a9a,
    ),
    "codrna": Source(
        _raw(CODRNA, "cor_rna_scaled.mat"),
        "16f63aba8339cdf7e8c2efe47a5c7ed5e983f1b99ad2f9afb3774ebf81877fbf",
        codrna,
    ),
    "mnist": Source(
        tuple(
            f"{MNIST}/{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
        ),
        "b2d8f5bf39174ee5ffeefa97e42d673c35432b411bb5d1f74fbbeddae7f1690a",
        mnist,
        gzipped=True,
    ),
}
