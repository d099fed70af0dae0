"""What Dask's workers do before a fit: read partitions, and put rows into order and into shards.

All functions here are tasks: they depend on their arguments alone, so that Dask may compute them again on another worker when
one is lost.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbdn.dask.cluster import with_columns
from pbdn.data.labelled_rows import LabelledRows, Words, content_marks, order_of_digests, row_digests
from pbdn.data.row_source import encode
from pbdn.errors import InvalidInputError
from pbdn.estimators.on_a_line import LineFacts, line_facts
from pbdn.gibbs.rows import BEFORE, NOTHING, WORTH_MERGING, Part, RowArrays, Rows, combine, make_rows
from pbdn.gibbs.timed_responses import timed_rows
from pbdn.growth.engines import units_in_blocks
from pbdn.model.labelling import flipped, says_yes
from pbdn.model.network import Layer
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.validation import check_labels_present

# ----------------------------------------------------------------------------- reading partitions


BoundsOf = Callable[[Any], FloatArray]  # of targets on a line


class RawPart(NamedTuple):
    """A partition as numbers: features, labels as they came (or bounds on a line), and weights if there are any."""

    inputs: FloatArray
    labels: NDArray[Any]
    weights: FloatArray | None
    names: tuple[str, ...] | None


class LabelCounts(NamedTuple):
    """What the driver has to know of a partition."""

    n_rows: int
    n_features: int
    names: tuple[str, ...] | None
    labels: NDArray[Any]
    counts: IntArray


class WeightFacts(NamedTuple):
    """What the driver has to know of weighted rows; rows of weight zero are gone."""

    n_rows: int
    counts: IntArray  # rows of every class
    all_one: bool
    all_whole: bool
    n_copies: float


def read_part(X: Any, columns: dict[str, Any], number: int, bounds_of: BoundsOf | None = None) -> RawPart:
    """One partition, checked; y and sample_weight are arrays, or names of columns of X."""
    where = f"Partition {number} of X"
    X, columns = with_columns(X, columns)
    y, weight = columns["y"], columns["sample_weight"]
    names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    if hasattr(X, "toarray") or not hasattr(X, "shape") or len(X.shape) != 2:
        raise InvalidInputError(
            f"{where} is a {type(X).__name__}; dense arrays and data frames of shape (rows, features) are taken."
        )
    try:
        inputs = X.to_numpy(dtype=np.float64, na_value=np.nan) if names else np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{where} holds something that is no number ({error}); make numbers of it first, for instance with "
            "pbdn.tables.TablePreparation and map_partitions."
        ) from error
    inputs = np.ascontiguousarray(inputs)
    if not np.isfinite(inputs).all():
        row, column = (int(at[0]) for at in np.nonzero(~np.isfinite(inputs)))
        what = repr(names[column]) if names else str(column)
        raise InvalidInputError(
            f"{where} has a missing or infinite value in column {what}, row {row}; fill or drop it before the fit."
        )
    labels = as_array(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.ravel()
    if len(labels) != len(inputs) or (bounds_of is None and (labels.ndim != 1 or labels.dtype.names)):
        raise InvalidInputError(f"{where} has {len(inputs)} rows, but y there has the shape {labels.shape}.")
    if bounds_of is None:
        check_labels_present(labels)
    else:
        try:
            labels = bounds_of(labels) if len(labels) else np.empty((0, 2))
        except ValueError as error:
            raise InvalidInputError(f"Partition {number}: {error}") from error
    weights = None if weight is None else np.asarray(weight, dtype=np.float64).ravel()
    if weights is not None and (len(weights) != len(inputs) or not (np.isfinite(weights) & (weights >= 0)).all()):
        raise InvalidInputError(f"{where}: sample_weight must have {len(inputs)} finite values that are not negative.")
    return RawPart(inputs, labels, weights, names)


def as_array(y: Any) -> NDArray[Any]:
    """Targets; several columns whose first has whole numbers or booleans are the fields of one array."""
    has_fields = getattr(y, "ndim", 1) == 2 and hasattr(y, "dtypes") and y.dtypes.iloc[0].kind in "biu"
    return np.asarray(y.to_records(index=False) if has_fields else y)


def count_labels(part: RawPart) -> LabelCounts:
    """Labels and their numbers, none of values on a line; those of an empty partition say nothing."""
    labels, counts = np.unique(part.labels if part.labels.ndim == 1 else (), return_counts=True)
    n_rows, n_features = part.inputs.shape
    return LabelCounts(n_rows, n_features, part.names, labels, counts)


def encode_part(part: RawPart, classes: NDArray[Any], factors: FloatArray | None) -> LabelledRows:
    """Class codes or bounds, and weights; rows of weight zero, and those without any bound, are left out."""
    if part.labels.ndim == 2:
        counts = np.isfinite(part.labels).any(axis=1) & (True if part.weights is None else part.weights > 0)
        return LabelledRows(part.inputs, part.labels, part.weights).take(counts)
    codes = encode(part.labels, classes) if len(part.labels) else np.zeros(0, np.int64)
    if factors is None and part.weights is None:
        return LabelledRows(part.inputs, codes)
    weights = np.ones(len(codes)) if part.weights is None else part.weights.copy()
    if factors is not None:
        weights *= factors[codes]
    return LabelledRows(part.inputs, codes, weights).take(weights > 0)


def weight_facts(rows: LabelledRows, n_classes: int) -> WeightFacts:
    """Facts about the weights of a partition."""
    counts, n = np.bincount(rows.codes, minlength=n_classes) if n_classes else np.zeros(0, np.int64), rows.n_rows
    if rows.weights is None:
        return WeightFacts(n, counts, True, True, float(n))
    w = rows.weights
    whole = bool(np.all(w == np.floor(w)))
    return WeightFacts(n, counts, bool(np.all(w == 1.0)), whole, float(np.ceil(w).sum()))


def facts_of_line(
    labels: Sequence[tuple[FloatArray, FloatArray | None]], log: bool | str, cuts: Sequence[float]
) -> LineFacts:
    """What all values say together."""
    every = joined([LabelledRows(np.empty((len(own[0]), 0)), *own) for own in labels])
    return line_facts(every.targets, every.weights, log, cuts)


def without_weights(rows: LabelledRows, repeat: bool) -> LabelledRows:
    """Rows of weight one; rows of other whole weights are repeated."""
    return rows.repeated(can_merge=False) if repeat else LabelledRows(rows.inputs, rows.codes)


# ------------------------------------------------------------------------------ putting into order


def columns_of(rows: LabelledRows, first: int, last: int) -> FloatArray:
    """Some columns."""
    return np.ascontiguousarray(rows.inputs[:, first:last])


def digests_of(columns: Sequence[FloatArray], first: int) -> Words:
    """Digests of all rows from some of their columns, which ranks need whole."""
    return row_digests(np.concatenate(columns), first)


def labels_of(rows: LabelledRows) -> tuple[IntArray, FloatArray | None]:
    """Codes and weights."""
    return rows.codes, rows.weights


def places_of(digests: Words, labels: Sequence[tuple[IntArray, FloatArray | None]]) -> IntArray:
    """The place of every row in content order."""
    codes = np.concatenate([part[0] for part in labels])
    weights = None if labels[0][1] is None else np.concatenate([part[1] for part in labels])
    order = order_of_digests(digests, codes, weights)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def pick(
    rows: LabelledRows, places: IntArray | None, offset: int, low: int, high: int
) -> tuple[IntArray, LabelledRows]:
    """Those of the rows whose place is between low and high; they stand at ``offset`` among all, None: in order already."""
    place = np.arange(offset, offset + rows.n_rows) if places is None else places[offset : offset + rows.n_rows]
    chosen = np.flatnonzero((place >= low) & (place < high))
    return place[chosen], rows.take(chosen)


def assemble(picked: Sequence[tuple[IntArray, LabelledRows]]) -> LabelledRows:
    """A shard from what was picked of every partition."""
    order = np.argsort(np.concatenate([place for place, _ in picked]), kind="stable")
    return joined([part for _, part in picked]).take(order)


def joined(parts: Sequence[LabelledRows]) -> LabelledRows:
    """Rows of several parts, one after another."""
    weights = None if parts[0].weights is None else np.concatenate([part.weights for part in parts])
    return LabelledRows(
        np.concatenate([part.inputs for part in parts]), np.concatenate([part.targets for part in parts]), weights
    )


def inputs_of_shard(rows: LabelledRows) -> FloatArray:
    """The inputs alone."""
    return np.asarray(rows.inputs)


def take_rows(inputs: FloatArray, index: IntArray) -> FloatArray:
    """A few rows."""
    return inputs[index]


def marks_of_shard(inputs: FloatArray, labels: tuple[Any, FloatArray | None]) -> Words:
    """Marks of the rows that do not depend on their order or split."""
    weights = np.ones(len(inputs)) if labels[1] is None else labels[1]
    marks = content_marks(np.column_stack([inputs, labels[0], weights]))
    return np.asarray(marks.sum(axis=0, dtype=np.uint64))


# -------------------------------------------------------------------------------------- moments


def largest_of(rows: LabelledRows) -> FloatArray:
    """Largest absolute value of every column."""
    return np.asarray(np.abs(rows.inputs).max(axis=0, initial=0.0))


def add_moment(
    total: FloatArray | None, shards: Sequence[LabelledRows], unit: FloatArray, mean: FloatArray | None
) -> FloatArray:
    """The sums of relative values (or squares of their distance from the mean) of these rows, added one after another to ``total``.

    NumPy adds the rows of several columns in their order, so that adding shard after shard gives the bits of one sum.
    """
    inputs = np.concatenate([rows.inputs for rows in shards]) / unit
    values = inputs if mean is None else (inputs - mean) ** 2
    if shards[0].weights is not None:
        values = values * np.concatenate([rows.weights for rows in shards])[:, None]
    return np.asarray(values.sum(axis=0) if total is None else np.concatenate([total[None], values]).sum(axis=0))


def sum_of_weights(shards: Sequence[tuple[IntArray, FloatArray]]) -> float:
    """As NumPy's average sums them."""
    return float(np.concatenate([weights for _, weights in shards])[:, None].sum(axis=0)[0])


def units_of(inputs: FloatArray, layer: Layer) -> FloatArray:
    """Hidden units of a shard, as `pbdn.growth.engines.units_in_blocks` makes them of all rows."""
    return units_in_blocks(layer, inputs)


def join_columns(*parts: FloatArray) -> FloatArray:
    """Inputs side by side."""
    return np.concatenate(parts, axis=1)


# ------------------------------------------------------------------------------- rows of one side


class MergePlan(NamedTuple):
    """The place of every row after identical rows are merged, and how many places there are; None: nothing is merged."""

    places: IntArray | None
    n_rows: int


def side_rows(inputs: FloatArray, labels: tuple[IntArray, FloatArray | None], side: int, single_events: bool) -> Rows:
    """The rows of one side, not yet merged."""
    codes, weights = labels
    return make_rows(inputs, says_yes(codes, side), weight=weights, single_events=single_events, merge=False)


def timed_side_rows(
    inputs: FloatArray, labels: tuple[FloatArray, FloatArray | None], side: int, single_events: bool
) -> Rows:
    """The rows of a side of values on a line, not yet merged; the second side sees the line the other way round."""
    bounds, weights = labels
    low, high = (flipped(bounds) if side else bounds).T
    return timed_rows(inputs, low, high, weight=weights, single_events=single_events, merge=False).rows


def silent_marks(rows: Rows, only_silent: bool, timed: bool) -> tuple[int, IntArray, Words]:
    """Number of rows, which of them may be merged with others, and marks of their inputs and, if ``timed``, offsets."""
    alone = (rows.arrays.kind != NOTHING) & only_silent
    which = np.flatnonzero(~alone)
    seen = rows.arrays.dense[which]
    return rows.n_rows, which, content_marks(np.column_stack([seen, rows.arrays.offset[which]]) if timed else seen)


def plan_merging(parts: Sequence[tuple[int, IntArray, Words]]) -> MergePlan:
    """Which rows become one, as `pbdn.gibbs.rows.merge_identical` decides it."""
    offsets = np.cumsum([0, *(n for n, _, _ in parts)])
    n = int(offsets[-1])
    which = np.concatenate([index + offset for (_, index, _), offset in zip(parts, offsets, strict=False)])
    marks = np.ascontiguousarray(np.concatenate([part[2] for part in parts]))
    _, first, group = np.unique(marks.view(np.dtype((np.void, 16))).ravel(), return_index=True, return_inverse=True)
    n_left = n - which.size + first.size
    if n < 2 or n_left > WORTH_MERGING * n:
        return MergePlan(None, n)
    stands_for = np.arange(n)
    stands_for[which] = which[first[group.ravel()]]
    kept = np.unique(stands_for)
    return MergePlan(np.searchsorted(kept, stands_for), n_left)


def size_of_plan(plan: MergePlan) -> tuple[bool, int]:
    """Whether rows are merged, and how many are left."""
    return plan.places is not None, plan.n_rows


def size_of_rows(rows: Rows) -> tuple[int, bool, bool]:
    """Number of rows, whether all events are single, and whether identical rows may be merged."""
    return rows.n_rows, rows.single_events, not np.any(rows.arrays.kind > BEFORE)


def pick_side(rows: Rows, plan: MergePlan, offset: int, low: int, high: int) -> tuple[IntArray, Rows]:
    """`pick` for rows of one side."""
    place = (
        np.arange(offset, offset + rows.n_rows) if plan.places is None else plan.places[offset : offset + rows.n_rows]
    )
    chosen = np.flatnonzero((place >= low) & (place < high))
    dense = np.ascontiguousarray(rows.arrays.dense[chosen])
    fields: Any = (field[chosen] for field in rows.arrays[2:])
    return place[chosen] - low, Rows(RowArrays(dense, None, *fields), rows.n_inputs)


def assemble_side(picked: Sequence[tuple[IntArray, Rows]], part: Part | None) -> Rows:
    """Whole groups of blocks of one side, identical rows merged; None: all rows."""
    group = np.concatenate([place for place, _ in picked])
    columns = zip(*(rows.arrays for _, rows in picked), strict=True)
    arrays = RowArrays(*(None if field[0] is None else np.concatenate(field) for field in columns))  # type: ignore[arg-type]
    first = np.unique(group, return_index=True)[1]
    if first.size < group.size:
        arrays = combine(arrays, group, first)
    return Rows(arrays, picked[0][1].n_inputs, part)


def as_part(rows: Rows, part: Part) -> Rows:
    """Rows that are whole groups of blocks already."""
    return Rows(rows.arrays, rows.n_inputs, part)
