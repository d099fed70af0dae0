"""Rows of a Dask collection as a fit sees them: in shards on the workers, in an order that does not depend on partitions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import dask
import numpy as np
from distributed import Future
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight

from pbdn.dask import workers
from pbdn.dask.cluster import Cluster, Group, SharedRows, partitions_alike
from pbdn.dask.engines import ClusterSource
from pbdn.data.labelled_rows import MAX_REPEATED_NUMBERS, LabelledRows
from pbdn.errors import InvalidInputError
from pbdn.gibbs.rows import BLOCK_ROWS, Part, Rows, group_blocks
from pbdn.model.scaling import Scaling, identity_scaling, scaling_of_moments
from pbdn.numerics.arrays import FloatArray, IntArray

PARTITION = "Partition {} of X"
COLUMN_CHUNKS = 4  # groups of columns per worker in which rows are ranked


class Shards(NamedTuple):
    """One array on the workers, cut into consecutive rows."""

    cluster: Cluster
    futures: tuple[Future, ...]
    cuts: IntArray  # first row of every shard, and the number of rows
    n_features: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.cuts[-1]), self.n_features

    def __getitem__(self, index: Any) -> FloatArray:  # type: ignore[override]
        """A few rows, brought here."""
        index = np.asarray(index)
        place = np.searchsorted(self.cuts, index, side="right") - 1
        where = [(s, np.flatnonzero(place == s)) for s in np.unique(place)]
        tasks = [self.cluster.submit(workers.take_rows, self.futures[s], index[own] - self.cuts[s]) for s, own in where]
        out = np.empty((len(index), self.n_features))
        for (_, own), rows in zip(where, self.cluster.results(tasks, "Rows of shard {}"), strict=True):
            out[own] = rows
        return out

    def mapped(self, task: Callable[..., Any], *more: Any, n_features: int) -> "Shards":
        """``task`` of every shard and of the shards of ``more``, or of plain values."""
        futures = tuple(
            self.cluster.submit(task, own, *(one.futures[s] if isinstance(one, Shards) else one for one in more))
            for s, own in enumerate(self.futures)
        )
        return self._replace(futures=futures, n_features=n_features)


@dataclass(frozen=True)
class ClusterRows(LabelledRows):
    """Labelled rows on the workers; ``inputs`` are `Shards`, and the targets stay where they are.

    Attributes
    ----------
    labels : tuple of Future
        Codes and weights of every shard.
    total : float
        Sum of the weights.
    moments : tuple of arrays
        Largest value, mean and spread of the columns: the unit of measurement, and both in this unit.
    """

    labels: tuple[Future, ...] = ()
    total: float = 0.0
    moments: tuple[FloatArray, FloatArray, FloatArray] | None = field(default=None, repr=False)

    def scaled(self, scaling: Scaling) -> "ClusterRows":
        """The same rows with scaled features."""
        return replace(self, inputs=self.inputs.mapped(_scale, scaling, n_features=self.n_features))

    def with_targets(self, change: Callable[[Any], Any]) -> "ClusterRows":
        """The same rows, which say something else."""

        def changed(labels: tuple[Any, FloatArray | None]) -> tuple[Any, FloatArray | None]:
            return change(labels[0]), labels[1]

        return replace(self, labels=tuple(self.inputs.cluster.submit(changed, own) for own in self.labels))

    def some(self, n: int) -> LabelledRows:
        """The first rows, brought here."""
        cluster, sizes = self.inputs.cluster, np.diff(np.minimum(self.inputs.cuts, n)).tolist()
        found = [
            cluster.submit(lambda own, labels, size: LabelledRows(own, *labels).some(size), own, labels, size)
            for own, labels, size in zip(self.inputs.futures, self.labels, sizes, strict=True)
            if size
        ]
        return workers.joined(cluster.results(found, "Shard {}"))

    def scaling(self, standardize: bool) -> Scaling:
        """How the features are scaled, to the bits of `pbdn.model.scaling.standard_scaling`."""
        if not standardize:
            return identity_scaling(self.n_features)
        assert self.moments is not None
        return scaling_of_moments(*self.moments)

    def marks(self) -> list[Any]:
        """What a checkpoint remembers of the rows: nothing that depends on workers or partitions."""
        cluster = self.inputs.cluster
        pairs = zip(self.inputs.futures, self.labels, strict=True)
        found = cluster.results([cluster.submit(workers.marks_of_shard, *pair) for pair in pairs], "Shard {}")
        return [np.array(self.inputs.shape), np.sum(found, axis=0)]

    def source(self, n_codes: int) -> Any:
        """The rows as minibatches, for MAP."""
        return ClusterSource(self.inputs, self.labels, np.arange(n_codes), self.total)

    def side(self, side: int, single_events: bool, timed: bool) -> tuple[Rows | SharedRows, Group | None]:
        """The rows of one side, in whole groups of blocks on the workers; few rows of many inputs come here."""
        cluster, shards = self.inputs.cluster, self.inputs.futures
        make = workers.timed_side_rows if timed else workers.side_rows
        rows = [
            cluster.submit(make, inputs, labels, side, single_events)
            for inputs, labels in zip(shards, self.labels, strict=True)
        ]
        sizes = cluster.results([cluster.submit(workers.size_of_rows, one) for one in rows], "Rows of shard {}")
        offsets = np.cumsum([0, *(n for n, _, _ in sizes)])
        merges, n_rows = False, int(offsets[-1])
        plan: Any = workers.MergePlan(None, n_rows)
        if all(can_merge for _, _, can_merge in sizes):
            marks = [cluster.submit(workers.silent_marks, one, single_events, timed) for one in rows]
            plan = cluster.submit(workers.plan_merging, marks)
            merges, n_rows = cluster.call(workers.size_of_plan, plan)
        single, n_inputs = all(one for _, one, _ in sizes), self.n_features + 1

        def put_together(low: int, high: int, part: Part | None) -> Future:
            picked = [
                cluster.submit(workers.pick_side, one, plan, int(offset), low, high)
                for one, offset in zip(rows, offsets, strict=False)
            ]
            return cluster.submit(workers.assemble_side, picked, part)

        if n_rows < n_inputs:
            here: Rows = cluster.results([put_together(0, n_rows, None)], "Rows of a side")[0]
            return here, None
        size = group_blocks(n_rows)
        cuts = cuts_between_groups(n_rows, len(shards))
        parts = [Part(int(low) // BLOCK_ROWS, size, single) for low in cuts[:-1]]
        if not merges and np.array_equal(cuts, offsets):
            held = [cluster.submit(workers.as_part, one, part) for one, part in zip(rows, parts, strict=True)]
        else:
            held = [
                put_together(int(low), int(high), part) for (low, high), part in zip(pairwise(cuts), parts, strict=True)
            ]
        group = Group(cluster, held)
        return SharedRows(group, n_rows, n_inputs, size), group


def _scale(inputs: FloatArray, scaling: Scaling) -> FloatArray:
    """Scaled features of one shard."""
    return np.asarray(scaling.apply(inputs))


def cuts_between_groups(n_rows: int, n_parts: int) -> IntArray:
    """First rows of at most so many parts that are whole groups of blocks, and the number of rows."""
    size = group_blocks(n_rows) * BLOCK_ROWS
    n_groups = max(1, -(-n_rows // size))
    return np.minimum(np.linspace(0, n_groups, min(n_parts, n_groups) + 1).astype(np.int64) * size, n_rows)


# ---------------------------------------------------------------------------------------- reading


def check_named(X: Any, name: str, values: Any) -> None:
    """What names columns of X, one or several, names columns that are there; anything else is not looked at."""
    asked = [values] if isinstance(values, str) else values if isinstance(values, list | tuple) else ()
    known = list(getattr(X, "columns", ()))
    unknown = [one for one in asked if one not in known]
    if unknown:
        there = f"has the columns {known[:20]}" if known else f"is a {type(X).__name__} without names of columns"
        raise InvalidInputError(f"{name}={values!r} names {unknown[0]!r}, but X {there}.")


def read_lazily(X: Any, y: Any, sample_weight: Any = None, bounds_of: workers.BoundsOf | None = None) -> list[Any]:
    """Checked partitions, not yet computed; ``bounds_of`` makes bounds of targets on a line."""
    check_named(X, "y", y)
    check_named(X, "sample_weight", sample_weight)
    parts, own = partitions_alike(X, {"y": y, "sample_weight": sample_weight})
    read = dask.delayed(workers.read_part)
    return [read(part, mine, number, bounds_of) for number, (part, mine) in enumerate(zip(parts, own, strict=True))]


@dataclass(frozen=True)
class ReadRows:
    """Partitions with class codes and weights, before they are put into shards."""

    cluster: Cluster
    parts: list[Future]
    sizes: list[int]
    n_features: int
    names: tuple[str, ...] | None
    classes: NDArray[Any]
    present: IntArray  # codes of classes that have rows of positive weight
    weighted: bool

    def class_totals(self) -> FloatArray:
        """Weight of every class, to the bits of the same rows in memory."""
        labels = [self.cluster.submit(workers.labels_of, part) for part in self.parts]
        return self.cluster.call(_class_totals, labels, self.classes.size)

    def with_bounds(self, bounds: FloatArray) -> "ReadRows":
        """The same rows, which say the bounds of their class."""
        return replace(self, parts=[self.cluster.submit(_with_bounds, part, bounds) for part in self.parts])


def _class_totals(labels: Sequence[tuple[IntArray, FloatArray | None]], n_classes: int) -> FloatArray:
    weights = None if labels[0][1] is None else np.concatenate([part[1] for part in labels])
    return np.bincount(np.concatenate([part[0] for part in labels]), weights, n_classes).astype(float)


def _with_bounds(rows: LabelledRows, bounds: FloatArray) -> LabelledRows:
    return rows.with_targets(lambda codes: bounds[codes])


def read_rows(
    cluster: Cluster, partitions: Sequence[Any], repeats: bool, class_weight: Any = None, declared: Any = None
) -> ReadRows:
    """Labels or bounds, and weights, of all partitions; with ``repeats`` rows of whole weight are given that often."""
    found = cluster.results([cluster.submit(workers.count_labels, part) for part in partitions], PARTITION)
    partitions = [part for part, one in zip(partitions, found, strict=True) if one.n_rows]
    filled = [one for one in found if one.n_rows]
    if not filled:
        raise InvalidInputError("X has no rows; at least one partition must have some.")
    widths = {(one.n_features, one.names) for one in filled}
    if len(widths) > 1:
        raise InvalidInputError(f"The partitions of X differ in their columns: {sorted(map(str, widths))[:2]}.")
    classes = np.unique(np.concatenate([one.labels for one in filled]))
    if declared is not None:
        unknown = np.setdiff1d(classes, declared)
        if unknown.size:
            raise InvalidInputError(
                f"classes={list(declared)!r} does not hold {unknown[:1].tolist()[0]!r}, which y has."
            )
    counts = np.zeros(classes.size)
    for one in filled:
        counts[np.searchsorted(classes, one.labels)] += one.counts
    factors = _factors(class_weight, classes, counts)
    parts = [cluster.submit(workers.encode_part, part, classes, factors) for part in partitions]
    facts = cluster.results([cluster.submit(workers.weight_facts, part, classes.size) for part in parts], "Rows {}")
    if not sum(one.n_rows for one in facts):
        raise InvalidInputError("sample_weight is zero for every row; give at least one row a positive weight.")
    ones, whole = all(one.all_one for one in facts), all(one.all_whole for one in facts)
    sizes = [one.n_rows for one in facts]
    weighted = not ones
    n_features, names = filled[0].n_features, filled[0].names
    whole = whole and sum(one.n_copies for one in facts) * (n_features + 1) <= MAX_REPEATED_NUMBERS
    if ones or (repeats and whole):
        parts = [cluster.submit(workers.without_weights, part, not ones) for part in parts]
        weighted, sizes = False, [int(one.n_copies) for one in facts]
    present = np.flatnonzero(sum(one.counts for one in facts))
    return ReadRows(cluster, parts, sizes, n_features, names, classes, present, weighted)


def _factors(class_weight: Any, classes: NDArray[Any], counts: FloatArray) -> FloatArray | None:
    """Weight of every class."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise InvalidInputError(f"class_weight={class_weight!r}; use a dict, 'balanced' or None.")
        return np.asarray(counts.sum() / (classes.size * counts))
    return np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), np.float64)


def make_shards(rows: ReadRows, in_content_order: bool, standardize: bool) -> ClusterRows:
    """Rows in shards of consecutive rows, about equal ones on every worker."""
    cluster, parts, n_rows = rows.cluster, rows.parts, sum(rows.sizes)
    n_workers = max(1, cluster.n_workers)
    places = _content_places(rows, n_workers) if in_content_order else None
    if in_content_order:
        cuts = cuts_between_groups(n_rows, n_workers)
    else:
        cuts = np.linspace(0, n_rows, min(n_workers, n_rows) + 1).astype(np.int64)
    offsets = np.cumsum([0, *rows.sizes])
    shards = []
    for low, high in pairwise(cuts.tolist()):
        picked = [
            cluster.submit(workers.pick, part, places, int(offset), low, high)
            for part, offset, size in zip(parts, offsets, rows.sizes, strict=False)
            if size and (places is not None or (offset < high and offset + size > low))
        ]
        shards.append(cluster.submit(workers.assemble, picked))
    inputs = Shards(
        cluster, tuple(cluster.submit(workers.inputs_of_shard, one) for one in shards), cuts, rows.n_features
    )
    labels = tuple(cluster.submit(workers.labels_of, one) for one in shards)
    total = cluster.call(workers.sum_of_weights, list(labels)) if rows.weighted else float(n_rows)
    moments = _moments(cluster, shards, rows.n_features, total) if standardize else None
    return ClusterRows(inputs, np.empty(0, np.int64), None, labels, total, moments)


def _content_places(rows: ReadRows, n_workers: int) -> Future:
    """The place of every row in content order (`pbdn.data.ordering`)."""
    cluster, n = rows.cluster, rows.n_features
    edges = np.linspace(0, n, min(n, COLUMN_CHUNKS * n_workers) + 1).astype(int).tolist()
    digests = [
        cluster.submit(workers.digests_of, [cluster.submit(workers.columns_of, part, a, b) for part in rows.parts], a)
        for a, b in pairwise(edges)
    ]
    while len(digests) > 1:  # two at a time: no worker holds many of them
        digests = [
            cluster.submit(np.add, *pair) if len(pair) == 2 else pair[0]
            for pair in (digests[at : at + 2] for at in range(0, len(digests), 2))
        ]
    labels = [cluster.submit(workers.labels_of, part) for part in rows.parts]
    return cluster.submit(workers.places_of, digests[0], labels)


def _moments(
    cluster: Cluster, shards: list[Future], n_features: int, total_weight: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Unit, mean and spread of the columns, summed in the order of rows: the bits of the same rows in memory."""
    largest = np.max(cluster.results([cluster.submit(workers.largest_of, one) for one in shards], "Shard {}"), axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    steps = [[one] for one in shards] if n_features > 1 else [shards]  # a single column is summed otherwise

    def average(mean: FloatArray | None) -> FloatArray:
        total: Any = None
        for some in steps:
            total = cluster.submit(workers.add_moment, total, some, unit, mean)
        summed: FloatArray = cluster.results([total], "The moments of the columns")[0]
        return summed / total_weight

    mean = average(None)
    return unit, mean, np.sqrt(average(mean))
