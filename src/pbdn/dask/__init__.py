"""Fits on a Dask cluster: an estimator for every response. Needs the extra ``dask``; docs/scaling.md tells how it works and what it costs."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from pbdn.config import GibbsConfig, MapConfig
from pbdn.data.labelled_rows import numeric_bounds, positive_bounds
from pbdn.data.row_source import encode
from pbdn.errors import MissingExtraError
from pbdn.estimators.counts import PBDNCountRegressor, count_bounds
from pbdn.estimators.grades import PBDNOrdinalClassifier, grade_bounds
from pbdn.estimators.regressor import PBDNRegressor
from pbdn.growth.run import FitTasks, with_callbacks
from pbdn.model.priors import Hyperpriors
from pbdn.numerics.arrays import FloatArray

try:
    from pbdn.dask.on_cluster import DaskPBDNClassifier, LineOnCluster, PredictsClasses, PredictsNumbers
    from pbdn.dask.rows import ReadRows, read_rows
except ModuleNotFoundError as error:
    if error.name not in ("dask", "distributed"):
        raise
    raise MissingExtraError("pbdn.dask needs Dask", "dask") from error

__all__ = ["DaskPBDNClassifier", "DaskPBDNCountRegressor", "DaskPBDNOrdinalClassifier", "DaskPBDNRegressor"]


def _positive_values(y: Any) -> FloatArray:
    """Bounds of values whose logarithms are modelled."""
    return positive_bounds(numeric_bounds(y))


class DaskPBDNRegressor(PredictsNumbers, PBDNRegressor):  # type: ignore[misc]
    """`pbdn.PBDNRegressor` on a Dask cluster: rows stay on the workers, and every one of them counts.

    ``inference="gibbs"`` gives the bits of `pbdn.PBDNRegressor` on the same rows in memory, for any number of workers and any
    partitions. ``inference="map"`` trains one network layer by layer while AIC falls, each layer from several starts;
    networks of folds, which `pbdn.PBDNRegressor` averages, need rows in memory. Its result does not depend on the workers
    either. A worker that is lost is made up for by the others, and the result stays the same.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        None: the client in use.
    inference, log, max_depth, max_experts, standardize, priors, gibbs_config, map_config, random_state, verbose, checkpoint, \
time_limit
        As in `pbdn.PBDNRegressor`.
    n_jobs : int or None, default=None
        Chains of sides that run at the same time. Each worker uses as many threads as Dask gave it.

    Attributes
    ----------
    The attributes of `pbdn.PBDNRegressor`.
    """

    _local: ClassVar[type] = PBDNRegressor

    def __init__(
        self,
        *,
        client: Any = None,
        inference: str = "auto",
        log: bool | str = "auto",
        max_depth: int = 5,
        max_experts: int = 20,
        standardize: bool = True,
        priors: Hyperpriors | None = None,
        gibbs_config: GibbsConfig | None = None,
        map_config: MapConfig | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            client=client, inference=inference, max_depth=max_depth, max_experts=max_experts, standardize=standardize,
            priors=priors, gibbs_config=gibbs_config, map_config=map_config, n_jobs=n_jobs, random_state=random_state,
            verbose=verbose, checkpoint=checkpoint, time_limit=time_limit,
        )  # fmt: skip
        self.log = log

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow a network on a Dask collection.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Present numbers.
        y : dask array or series of shape (n_samples,) or (n_samples, 2), str, or list of str
            Values or bounds, in the partitions of X; or the name of a column of X, or of the two of bounds.
        sample_weight : dask array or series of shape (n_samples,), or str, optional

        Returns
        -------
        self
        """
        self._check_parameters()
        tasks = FitTasks(self, X, y)
        bounds_of = _positive_values if self.log is True else numeric_bounds
        rows = self._shards(read_rows(*self._start(X, y, sample_weight, bounds_of), repeats=True))
        self._fit_shards(rows, tasks, self.log)
        tasks.end()
        return self

    def predict(self, X: Any) -> Any:
        """Means; of a Dask collection a dask array."""
        return self._predicted(X, "predict")


class DaskPBDNCountRegressor(PredictsNumbers, PBDNCountRegressor):  # type: ignore[misc]
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

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, exposure: Any = None) -> Self:
        """Grow a network on a Dask collection.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Present numbers.
        y : dask array or series of shape (n_samples,), or str
            Counts of 0 or more, in the partitions of X; or the name of a column of X.
        sample_weight, exposure : dask array or series of shape (n_samples,), or str, optional

        Returns
        -------
        self
        """
        self._check_parameters()
        tasks = FitTasks(self, X, y)
        started = self._start(X, y, sample_weight, count_bounds, exposure=exposure)
        rows = self._shards(read_rows(*started, repeats=True))
        del started
        self._fit_shards(rows, tasks, True)
        tasks.end()
        return self

    def predict(self, X: Any, exposure: Any = None) -> Any:
        """Means; of a Dask collection a dask array, and ``exposure`` is one with the partitions of X."""
        return self._predicted(X, "predict", exposure=exposure)


class DaskPBDNOrdinalClassifier(PredictsClasses, LineOnCluster, PBDNOrdinalClassifier):  # type: ignore[misc]
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

    def __init__(
        self,
        *,
        client: Any = None,
        inference: str = "auto",
        categories: Any = None,
        max_depth: int = 5,
        max_experts: int = 20,
        standardize: bool = True,
        priors: Hyperpriors | None = None,
        gibbs_config: GibbsConfig | None = None,
        map_config: MapConfig | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            client=client, inference=inference, max_depth=max_depth, max_experts=max_experts, standardize=standardize,
            priors=priors, gibbs_config=gibbs_config, map_config=map_config, n_jobs=n_jobs, random_state=random_state,
            verbose=verbose, checkpoint=checkpoint, time_limit=time_limit,
        )  # fmt: skip
        self.categories = categories

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
        check_classification_targets(read.classes)
        column = X[y] if isinstance(y, str) else y
        ordered = getattr(column.dtype, "ordered", False)
        order = self._order(column.cat.as_known(scheduler=self.client) if ordered else read.classes)
        cuts = self._settle_grades(read.classes, read.class_totals(), order)
        bounds = np.zeros((read.classes.size, 2))
        if cuts:
            bounds[read.present] = grade_bounds(encode(read.classes[read.present], self.classes_), cuts)
        return read.with_bounds(bounds), cuts
