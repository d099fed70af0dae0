"""Data larger than memory in the estimators: which inputs are streams, and how they are fitted and predicted.

A stream is a path to a Parquet file or folder, a ``pyarrow.dataset.Dataset``, an iterable of batches, a
source of ``pbdn.data``, or a NumPy memory map of 64 MiB or more. Smaller memory maps are loaded: they are what
joblib hands to its workers, and results should not depend on that.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight

from pbdn.data.arrow_parquet import ArrowSource
from pbdn.data.columns import column_moments
from pbdn.data.labelled_rows import LabelledRows, dense_rows, weigh_rows
from pbdn.data.row_source import Block, join
from pbdn.data.streams import BatchSource, MemmapSource, StreamedSource, rows_within
from pbdn.errors import InvalidInputError
from pbdn.model.scaling import CONSTANT_BELOW, Scaling, scaling_by_most, standard_scaling
from pbdn.numerics.arrays import FloatArray, NamedArray
from pbdn.validation import check_are_classes

LOAD_BELOW = 1 << 26  # bytes of a memory map that is simply loaded
PREDICT_ROWS = 16_384  # rows of a memory map predicted at a time
FEWEST_KEPT, MOST_KEPT, KEPT_NUMBERS = 32, 1000, 1 << 18  # rows and values of a sample of batches


def _is_path(X: Any) -> bool:
    return isinstance(X, str | os.PathLike)


def _is_dataset(X: Any) -> bool:
    return type(X).__module__.startswith("pyarrow") and hasattr(X, "get_fragments")


def _is_large_memmap(X: Any) -> bool:
    return isinstance(X, np.memmap) and X.nbytes >= LOAD_BELOW


def _has_rows(item: Any) -> bool:
    return len(getattr(item, "shape", ())) == 2


def _is_batches(X: Any) -> bool:
    """A function, an iterator, a foreign iterable or a list of batches; not a nested list of numbers."""
    if callable(X):
        return True
    if any(hasattr(X, name) for name in ("shape", "__array__", "__dataframe__", "iloc")) or _is_path(X):
        return False
    if isinstance(X, list | tuple):
        first = X[0] if X else None
        return _has_rows(first) or (isinstance(first, list | tuple) and bool(first) and _has_rows(first[0]))
    return hasattr(X, "__iter__") and not isinstance(X, dict | set)


def _are_names(y: Any) -> bool:
    return isinstance(y, list | tuple) and len(y) in (2, 3) and all(isinstance(name, str) for name in y)


def is_stream(X: Any, y: Any = None) -> bool:
    """Whether X is read piece by piece; an Arrow table counts if y names its target column."""
    if isinstance(X, StreamedSource) or _is_path(X) or _is_dataset(X) or _is_large_memmap(X):
        return True
    if (isinstance(y, str) or _are_names(y)) and type(X).__module__.startswith("pyarrow"):
        return True
    return y is None and _is_batches(X)


def check_can_stream(X: Any, inference: str) -> bool:
    """True for the MAP engine; a memory map is loaded by the others, any other stream is refused."""
    if inference == "map":
        return True
    if isinstance(X, np.memmap):
        return False
    raise InvalidInputError(
        f"X is a {type(X).__name__} to be read in pieces, which inference={inference!r} cannot do: it needs "
        "all rows in memory. Use inference='map', or load the rows into an array or a data frame."
    )


def open_source(
    X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None, features: Any = None
) -> StreamedSource:
    """A stream of labelled rows.

    Parameters
    ----------
    X : stream
    y : str, two or three str, array or None
        Name of the target column (Parquet, Arrow; two names for values on a line, three for times with entries), labels
        (memory map), or None (batches that hold them).
    sample_weight : str, array or None
        Name of a column, or weights of a memory map's rows; batches bring theirs as a third member.
    classes : array or None
        Declared labels; otherwise found in one pass.
    features : sequence of str or None
        Columns of Parquet or Arrow data to use; all others but target and weight by default.
    """
    if isinstance(X, StreamedSource):
        _refuse(X, y=y, sample_weight=sample_weight, classes=classes)
        return X
    declared = None if classes is None else np.unique(np.asarray(classes))
    if isinstance(X, np.memmap):
        if y is None or isinstance(y, str):
            raise InvalidInputError(f"y={y!r}; a memory map needs one label per row.")
        return MemmapSource(X, np.asarray(y), weights=sample_weight, classes=declared)
    if _is_path(X) or _is_dataset(X) or not _is_batches(X):
        y = tuple(y) if _are_names(y) else y
        if not isinstance(y, str | tuple):
            raise InvalidInputError(
                f"y is a {type(y).__name__}; with Parquet or Arrow data it names the target column."
            )
        if sample_weight is not None and not isinstance(sample_weight, str):
            raise InvalidInputError("sample_weight must be the name of a column of the Parquet or Arrow data.")
        return ArrowSource(existing(X), y, features=features, weight=sample_weight, classes=declared)
    _refuse(X, y=y, sample_weight=sample_weight)
    return BatchSource(X, classes=declared)


def _refuse(X: Any, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(f"{name} must be None: the {type(X).__name__} brings its own.")


def existing(X: Any) -> Any:
    """The path as text, if it is there; anything else unchanged."""
    if not _is_path(X):
        return X
    if not os.path.exists(X):
        raise InvalidInputError(f"X={os.fspath(X)!r} is neither a Parquet file nor a folder of them: nothing is there.")
    return os.fspath(X)


def weigh_classes(source: StreamedSource, class_weight: Any) -> StreamedSource:
    """The source with class_weight ("balanced" costs one pass)."""
    if class_weight is None:
        return source
    labels = source.classes
    if isinstance(class_weight, str):
        counts = source.class_totals[0]
        if class_weight != "balanced":
            raise InvalidInputError(f"class_weight={class_weight!r}; use a dict, 'balanced' or None.")
        present = counts > 0
        return source.weighted(np.where(present, counts.sum() / (present.sum() * np.maximum(counts, 1.0)), 1.0))
    return source.weighted(np.asarray(compute_class_weight(class_weight, classes=labels, y=labels), np.float64))


def classes_of(source: StreamedSource) -> NDArray[Any]:
    """The classes of a stream: labels rather than measurements."""
    if isinstance(getattr(source, "target", None), tuple):
        raise InvalidInputError("y names several columns; a classifier has one target column.")
    labels = source.classes
    check_are_classes(labels)
    return labels


def check_declared(declared: Any, found: NDArray[Any]) -> None:
    """Declared classes of rows in memory are those found."""
    if declared is not None and not np.array_equal(np.unique(declared), found):
        raise InvalidInputError(
            f"classes={list(declared)!r} but y holds {found.tolist()!r}; with rows in memory leave it out."
        )


def scaling_of(rows: LabelledRows | StreamedSource, by_most: bool = False) -> Scaling:
    """Standardisation of the features; a stream is read once (CSR batches: by largest absolute values).

    ``by_most`` is for who pulls in what is far: a few far cells of dense rows in memory are then not scaled down with the others.
    """
    if isinstance(rows, LabelledRows):
        dense = by_most and not sp.issparse(rows.inputs)
        return (scaling_by_most if dense else standard_scaling)(rows.inputs, rows.weights)
    blocks = rows.blocks()
    is_sparse = sp.issparse(next(blocks).inputs)
    blocks.close()  # type: ignore[attr-defined]
    if is_sparse:
        largest = np.zeros(rows.n_features)
        for block in rows.blocks():
            np.maximum(largest, abs(block.inputs).max(axis=0).toarray().ravel(), out=largest)
        return Scaling(np.zeros(largest.size), np.where(largest > 0, largest, 1.0), quantum=0.0)
    mean, deviation = column_moments(rows)
    if not np.isfinite(deviation).all():
        column = int(np.flatnonzero(~np.isfinite(deviation))[0])
        raise InvalidInputError(f"The spread of column {column} is not a finite number; rescale it before the fit.")
    scale = np.where(deviation > CONSTANT_BELOW * np.abs(mean), deviation, 1.0)
    return Scaling(mean, scale, quantum=0.0)  # rounding, which steadies long chains, would cost a pass


def spread_sample(source: StreamedSource, most: int) -> LabelledRows:
    """Up to ``most`` rows of values on a line, evenly from the first to the last, and those of the outermost finite bounds.

    Fewer where they would fill more than a buffer. Rows without weight are left out.
    """
    parts, ends = [], []
    for block, part in _spread(source, most):
        parts.append(part)
        ends.append(block.take(_outermost(block.targets) if len(part) < len(block) else slice(0)))
    last = join(ends)
    whole = join([*parts, last.take(_outermost(last.targets))])
    return weigh_rows(whole.inputs, None, whole.targets, whole.weights)


def spread_inputs(source: StreamedSource, most: int) -> Any:
    """Inputs of up to ``most`` rows, evenly from the first to the last; fewer where they would fill more than a buffer."""
    return join([part for _, part in _spread(source, most)]).inputs


def _spread(source: StreamedSource, most: int) -> Iterator[tuple[Block, Block]]:
    """Every block, and those of its rows that are in a sample spread evenly over the stream."""
    step, seen = -(-source.n_rows // rows_within(most, source.n_features)), 0
    for block in source.blocks():
        yield block, block.take(np.arange(-seen % step, len(block), step))
        seen += len(block)


@dataclass(frozen=True)
class KeptRows:
    """A sample of rows that come in batches: each row so far is as likely to be in it.

    Every row draws a number; the rows with the smallest ones stay, at most ``MOST_KEPT`` of them and ``KEPT_NUMBERS`` values.
    Fewer than ``fewest`` do not tell anything.
    """

    inputs: FloatArray
    drawn: FloatArray
    fewest: int
    n_seen: int = 0

    @classmethod
    def none(cls, n_features: int, after_a_fit: bool) -> "KeptRows":
        """No rows yet; after a fit a handful of rows does not tell more than it did."""
        return cls(np.empty((0, n_features)), np.empty(0), FEWEST_KEPT if after_a_fit else 0)

    def joined_by(self, inputs: Any) -> "KeptRows":
        """The sample after one batch more."""
        (n, n_features), n_held = inputs.shape, len(self.drawn)
        drawn = np.concatenate([self.drawn, np.random.default_rng(self.n_seen).random(n)])
        stay = np.sort(np.argsort(drawn)[: max(FEWEST_KEPT, min(MOST_KEPT, KEPT_NUMBERS // max(n_features, 1)))])
        new = dense_rows(inputs, stay[stay >= n_held] - n_held)
        kept = np.concatenate([self.inputs[stay[stay < n_held]], new])
        return KeptRows(kept, drawn[stay], self.fewest, self.n_seen + n)


def _outermost(bounds: FloatArray) -> NDArray[np.int64]:
    """Rows of the smallest and the largest finite bound, lower and upper."""
    rows = np.arange(len(bounds))
    finite = [(rows[np.isfinite(column)], column[np.isfinite(column)]) for column in bounds.T]
    return np.unique([own[at(values)] for own, values in finite if own.size for at in (np.argmin, np.argmax)]).astype(
        int
    )


def marks_of(rows: LabelledRows | StreamedSource) -> list[Any]:
    """What a checkpoint remembers of the data: the arrays themselves, or a stream's size and first rows."""
    if isinstance(rows, LabelledRows):
        return rows.marks()
    blocks = rows.blocks()
    first = next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    return [
        np.array([rows.n_rows, rows.n_features, rows.total_weight]),
        first.inputs,
        first.targets,
    ]


def pieces(X: Any, names: Any = None) -> Iterator[Any]:
    """Rows of a stream in order, as arrays; ``names`` are the columns to read of Parquet or Arrow data."""
    if isinstance(X, np.memmap):
        for low in range(0, X.shape[0], PREDICT_ROWS):
            yield np.asarray(X[low : low + PREDICT_ROWS])
        return
    if _is_batches(X) and not isinstance(X, StreamedSource):
        for batch in X() if callable(X) else X:
            yield batch[0] if isinstance(batch, tuple | list) else batch
        return
    source = X if isinstance(X, StreamedSource) else ArrowSource(existing(X), None, features=names)
    for block in source.blocks():
        yield named(block.inputs, source.feature_names)


def named(inputs: Any, names: Any) -> Any:
    """Rows with their column names, where these are known."""
    return inputs if names is None else NamedArray(inputs, list(names))


def predict_stream(predict: Callable[[Any], FloatArray], X: Any, names: Any, n_outputs: int) -> FloatArray:
    """What ``predict`` says of a stream: only a piece of its rows is in memory at a time."""
    parts = [predict(piece) for piece in pieces(X, names)]
    return np.concatenate(parts) if parts else np.zeros((0, n_outputs))


def accuracy(predict: Callable[[Any], FloatArray], source: StreamedSource) -> float:
    """Weighted share of rows of a stream whose most probable class is theirs."""
    right = 0.0
    for block in source.blocks():
        best = np.argmax(predict(named(block.inputs, source.feature_names)), axis=1)
        right += float(block.weights[best == block.codes].sum())
    return right / source.total_weight
