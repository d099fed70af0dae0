"""From the forms found at public homes (MATLAB files, ASCII tables, LIBSVM text, idx) to our arrays."""

import bz2
import io
from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from sklearn.datasets import load_svmlight_file

from pbdn.datasets.fetch import Arrays
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
