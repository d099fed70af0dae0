"""Fits on a Dask cluster: an estimator for every response. Needs the extra ``dask``; docs/scaling.md tells how it works and what it costs."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pbdn.data.row_source import encode
from pbdn.errors import InvalidInputError, MissingExtraError, warn
from pbdn.estimators.amounts import PBDNAmountRegressor, checked_amounts
from pbdn.estimators.counts import PBDNCountRegressor, count_bounds
from pbdn.estimators.grades import PBDNOrdinalClassifier, grade_bounds
from pbdn.estimators.survival import MOST_TIMES, PBDNSurvival
from pbdn.estimators.times import bounds_of, causes_of, event_times, settled_bounds, time_bounds
from pbdn.growth.run import FitTasks, with_callbacks
from pbdn.inspection.quality import concordance
from pbdn.numerics.arrays import FloatArray

try:
    import dask
    import dask.array as da

    from pbdn.dask.cluster import blocks_of
    from pbdn.dask.engines import risks_of
    from pbdn.dask.on_cluster import (
        DaskPBDNClassifier,
        DaskPBDNRegressor,
        LineOnCluster,
        PredictsClasses,
        PredictsNumbers,
        parameters_of,
    )
    from pbdn.dask.rows import ClusterRows, ReadRows, check_named, read_lazily, read_rows
except ModuleNotFoundError as error:
    if error.name not in ("dask", "distributed"):
        raise
    raise MissingExtraError("pbdn.dask needs Dask", "dask") from error

__all__ = [
    "DaskPBDNAmountRegressor",
    "DaskPBDNClassifier",
    "DaskPBDNCountRegressor",
    "DaskPBDNOrdinalClassifier",
    "DaskPBDNRegressor",
    "DaskPBDNSurvival",
]


class DaskPBDNAmountRegressor(PredictsNumbers, PBDNAmountRegressor):
    """`pbdn.PBDNAmountRegressor` on a Dask cluster: a `DaskPBDNClassifier` and a `DaskPBDNRegressor`, with their promises.

    Parameters
    ----------
    client, n_jobs
        As in `DaskPBDNRegressor`.
    inference, max_depth, max_experts, standardize, priors, gibbs_config, map_config, random_state, verbose, checkpoint, \
time_limit
        As in `pbdn.PBDNAmountRegressor`.

    Attributes
    ----------
    The attributes of `pbdn.PBDNAmountRegressor`.
    """

    _local: ClassVar[type] = PBDNAmountRegressor
    __init__ = parameters_of(PBDNAmountRegressor)

    @classmethod
    def _kinds_of_models(cls, n: int) -> tuple[type, ...]:
        """What fits both networks."""
        return (DaskPBDNClassifier, DaskPBDNRegressor)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit both networks on a Dask collection, which is read twice.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Present numbers.
        y : dask array or series of shape (n_samples,), or str
            Amounts of 0 or more, in the partitions of X; or the name of a column of X.
        sample_weight : dask array or series of shape (n_samples,), or str, optional

        Returns
        -------
        self
        """
        self._check_parameters()
        self._begin_anew()
        tasks = FitTasks(self, X, y)
        check_named(X, "y", y)
        check_named(X, "sample_weight", sample_weight)
        named = [name for name in (y, sample_weight) if isinstance(name, str)]
        y, sample_weight = (X[one] if isinstance(one, str) else one for one in (y, sample_weight))
        blocks_of("y", y)
        with dask.config.set(scheduler=self.client):
            amounts = _as_dask_array(y).map_blocks(checked_amounts, dtype=float, meta=np.empty(0))
            weights = da.ones_like(amounts) if sample_weight is None else _as_dask_array(sample_weight)
            self._fit_models(X.drop(columns=named) if named else X, amounts, weights)
        tasks.end()
        return self

    def _adopt_models(self, either: Any, positive: Any) -> None:
        """Fill the fitted attributes; the models are local ones."""
        self._note_columns(positive.n_features_in_, getattr(positive, "feature_names_in_", None))
        super()._adopt_models(either.to_local(), positive.to_local())


def _as_dask_array(column: Any) -> Any:
    """A series as an array whose parts have known lengths."""
    return column.to_dask_array(lengths=True) if hasattr(column, "to_dask_array") else column


class DaskPBDNCountRegressor(PredictsNumbers, PBDNCountRegressor):
    """`pbdn.PBDNCountRegressor` on a Dask cluster, with the promises of `DaskPBDNRegressor`.

    Parameters
    ----------
    client, n_jobs
        As in `DaskPBDNRegressor`.
    inference, max_depth, max_experts, standardize, priors, gibbs_config, map_config, random_state, verbose, checkpoint, \
time_limit
        As in `pbdn.PBDNCountRegressor`.

    Attributes
    ----------
    The attributes of `pbdn.PBDNCountRegressor`.
    """

    _local: ClassVar[type] = PBDNCountRegressor
    __init__ = parameters_of(PBDNCountRegressor)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow a network on a Dask collection.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Present numbers.
        y : dask array or series of shape (n_samples,), or str
            Counts of 0 or more, in the partitions of X; or the name of a column of X.
        sample_weight : dask array or series of shape (n_samples,), or str, optional

        Returns
        -------
        self
        """
        self._check_parameters()
        tasks = FitTasks(self, X, y)
        rows = self._shards(read_rows(*self._start(X, y, sample_weight, count_bounds), repeats=True))
        self._fit_shards(rows, tasks, True)
        tasks.end()
        return self


class DaskPBDNOrdinalClassifier(PredictsClasses, LineOnCluster, PBDNOrdinalClassifier):
    """`pbdn.PBDNOrdinalClassifier` on a Dask cluster, with the promises of `DaskPBDNRegressor`.

    Parameters
    ----------
    client, n_jobs
        As in `DaskPBDNRegressor`.
    inference, categories, max_depth, max_experts, standardize, priors, gibbs_config, map_config, random_state, verbose, \
checkpoint, time_limit
        As in `pbdn.PBDNOrdinalClassifier`.

    Attributes
    ----------
    The attributes of `pbdn.PBDNOrdinalClassifier`.
    """

    _local: ClassVar[type] = PBDNOrdinalClassifier
    __init__ = parameters_of(PBDNOrdinalClassifier)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow a network on a Dask collection.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Present numbers.
        y : dask array or series of shape (n_samples,), or str
            Grades, in the partitions of X; or the name of a column of X. The cuts between them follow from their shares in
            all partitions.
        sample_weight : dask array or series of shape (n_samples,), or str, optional

        Returns
        -------
        self
        """
        self._check_parameters()
        tasks = FitTasks(self, X, y)
        read, cuts = self._graded(read_rows(*self._start(X, y, sample_weight), repeats=True), X, y)
        rows = self._shards(read)
        del read  # workers may let go of the partitions; Dask knows how to make them again
        self._fit_shards(rows, tasks, False, cuts)
        tasks.end()
        return self

    def _graded(self, read: ReadRows, X: Any, y: Any) -> tuple[ReadRows, list[float]]:
        """The rows with the bounds of their grades, and the cuts; a single grade is a value."""
        column = X[y] if isinstance(y, str) else y
        ordered = getattr(getattr(column, "dtype", None), "ordered", False)
        order = self._order(column.cat.as_known(scheduler=self.client) if ordered else read.classes)
        cuts = self._settle_grades(read.classes, read.class_totals(), order)
        bounds = np.zeros((read.classes.size, 2))
        if cuts:
            bounds[read.present] = grade_bounds(encode(read.classes[read.present], self.classes_), cuts)
        return read.with_bounds(bounds), cuts


class DaskPBDNSurvival(LineOnCluster, PBDNSurvival):
    """`pbdn.PBDNSurvival` on a Dask cluster, with the promises of `DaskPBDNRegressor`.

    Parameters
    ----------
    client, n_jobs
        As in `DaskPBDNRegressor`.
    inference, max_depth, max_experts, standardize, priors, gibbs_config, map_config, random_state, verbose, checkpoint, \
time_limit
        As in `pbdn.PBDNSurvival`.

    Attributes
    ----------
    The attributes of `pbdn.PBDNSurvival`; ``unique_times_`` are about 2000 at most.
    """

    _local: ClassVar[type] = PBDNSurvival
    __init__ = parameters_of(PBDNSurvival)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow a network, or one for each cause, on a Dask collection.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Present numbers.
        y : dask array or dataframe, or list of str
            Events and times, or bounds, as `pbdn.PBDNSurvival` takes them, in the partitions of X; or the names of the columns
            of X. The columns of a dataframe are the fields of a structured array if the first has booleans or whole numbers.
        sample_weight : dask array or series of shape (n_samples,), or str, optional

        Returns
        -------
        self
        """
        self._check_parameters()
        tasks, self.models_ = FitTasks(self, X, y), ()
        cluster, parts = self._start(X, y, sample_weight, np.asarray)
        times = cluster.submit(_all_times, [cluster.submit(lambda part: part.labels, part) for part in parts])
        self.causes_, event_times_of, has_entries, words = cluster.call(_told, times)
        self.unique_times_ = event_times_of[0.0]
        if has_entries and self._chosen_inference() == "gibbs":
            raise InvalidInputError(
                "DaskPBDNSurvival does not sample times with entries into a study; use inference='map', or PBDNSurvival."
            )
        if words:
            warn(words)

        def shards(model: "DaskPBDNSurvival", own: float) -> ClusterRows:
            """The rows as one cause sees them."""
            said = [cluster.submit(_times_of_part, times, number, own) for number in range(len(parts))]
            own_parts = [
                cluster.submit(lambda part, bounds: part._replace(labels=bounds), *pair)
                for pair in zip(parts, said, strict=True)
            ]
            read = read_rows(cluster, own_parts, repeats=True)
            self._note_columns(read.n_features, read.names)
            return model._shards(read)

        def fitted(model: "DaskPBDNSurvival", own: float) -> Any:
            model.causes_, model.unique_times_ = np.ones(1), event_times_of[own]
            model._fit_shards(shards(model, own), FitTasks(model, X, y), True)
            return model.to_local()

        if self.causes_.size > 1:
            self._fit_causes(fitted)
        else:
            rows = shards(self, 0.0)
            parts.clear()  # workers may let go of them
            self._fit_shards(rows, tasks, True)
        tasks.end()
        return self

    def predict(self, X: Any) -> Any:
        """Risk, as in memory; of a Dask collection a dask array."""
        return self._predicted(X, "predict")

    def predict_median(self, X: Any) -> Any:
        """Median survival times; of a Dask collection a dask array."""
        return self._predicted(X, "predict_median")

    def score(self, X: Any, y: Any = None) -> float:
        """Concordance, as in memory; X and y as in `fit`. A number for each row comes to the driver."""
        local = self.to_local()
        if not dask.is_dask_collection(X):
            return float(local.score(X, y))
        parts = [dask.delayed(risks_of)(part, local) for part in read_lazily(X, y, bounds_of=np.asarray)]
        found = [one for one in dask.compute(*parts, scheduler=self.client) if one is not None]
        said, risks = (np.concatenate(column) for column in zip(*found, strict=True))
        return float(concordance(time_bounds(said), risks).value)


class _Times(NamedTuple):
    """What all rows say, the causes of their events, and where partitions begin and end."""

    bounds: FloatArray
    cause: NDArray[np.int64]
    cuts: NDArray[np.int64]
    words: str

    def seen_by(self, own: float, rows: slice = slice(None)) -> FloatArray:
        """What rows say of a cause, or of all (0)."""
        return bounds_of(self.bounds[rows], self.cause[rows], own) if own else self.bounds[rows]


def _all_times(said: Sequence[NDArray[Any]]) -> _Times:
    """The times of all partitions."""
    y = np.concatenate([own for own in said if len(own)] or [np.empty((0, 2))])
    bounds, words = settled_bounds(y)
    return _Times(bounds, causes_of(y), np.cumsum([0, *map(len, said)]), words)


def _told(times: _Times) -> tuple[FloatArray, dict[float, FloatArray], bool, str]:
    """The causes, and the times of their events (0 stands for all); whether there are entries, and words on times of zero."""
    causes = np.unique(times.cause[times.cause > 0]).astype(float)
    found = {own: event_times(times.seen_by(own)) for own in (0.0, *(causes.tolist() if causes.size > 1 else ()))}
    some = {own: all_of[:: 1 + len(all_of) // MOST_TIMES] for own, all_of in found.items()}
    return causes, some, times.bounds.shape[1] > 2, times.words


def _times_of_part(times: _Times, number: int, own: float) -> FloatArray:
    """What the rows of a partition say of a cause."""
    return times.seen_by(own, slice(*times.cuts[number : number + 2]))
