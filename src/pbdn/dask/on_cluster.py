"""What the estimators on a Dask cluster share, and the two that others are made of."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from typing import Any, ClassVar, Self

import dask
import numpy as np
from distributed import default_client
from sklearn.utils.validation import check_is_fitted

from pbdn import config as options
from pbdn.config import FitConfig, GibbsConfig, MapConfig
from pbdn.dask import workers
from pbdn.dask.cluster import Cluster, blocks_of
from pbdn.dask.engines import ClusterGibbsEngine, ClusterLineEngine, right_of, squares_of
from pbdn.dask.rows import ClusterRows, ReadRows, make_shards, read_lazily, read_rows
from pbdn.data.labelled_rows import LabelledRows, numeric_bounds, positive_bounds
from pbdn.data.streams import StreamedSource
from pbdn.errors import InvalidInputError
from pbdn.estimators.classifier import PBDNClassifier
from pbdn.estimators.frames import forget_preparation
from pbdn.estimators.on_a_line import LineEstimator
from pbdn.estimators.regressor import PBDNRegressor
from pbdn.growth.depth import Engine
from pbdn.growth.engines import MapEngine
from pbdn.growth.run import FitTasks, Run, with_callbacks
from pbdn.model.response import Response
from pbdn.model.scaling import Scaling
from pbdn.model.timed import OnALine
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_are_classes


def by_partition(X: Any, model: Any, method: str, shape: tuple[int, ...], kind: Any) -> Any:
    """What the model says of every partition, ``shape`` numbers of every row, as a dask array."""
    import dask.array as da

    blocks = blocks_of("X", X)
    sizes = X.chunks[0] if getattr(X, "chunks", None) is not None else [np.nan] * len(blocks)
    predict, shared = dask.delayed(_predict), dask.delayed(model)
    parts = [
        da.from_delayed(predict(shared, block, method, shape, kind), (size, *shape), kind)
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return da.concatenate(parts)


def _predict(model: Any, block: Any, method: str, shape: tuple[int, ...], kind: Any) -> Any:
    """The prediction of one partition, which may be empty."""
    return getattr(model, method)(block) if len(block) else np.empty((0, *shape), kind)


def parameters_of(local: Any) -> Callable[..., None]:
    """The constructor of an estimator that has the parameters of the local one, and ``client``."""

    def __init__(self: Any, *, client: Any = None, **parameters: Any) -> None:
        local.__init__(self, **parameters)
        self.client = client

    told = signature(local.__init__)
    own, (this, *others) = Parameter("client", Parameter.KEYWORD_ONLY, default=None), told.parameters.values()
    __init__.__signature__ = told.replace(parameters=[this, own, *others])  # type: ignore[attr-defined]
    return __init__


class OnCluster:
    """What the estimators of this module share; ``_local`` is the estimator that a fit leaves."""

    _local: ClassVar[type]
    client: Any
    checkpoint: Any
    standardize: bool
    gibbs_config: GibbsConfig | None
    map_config: MapConfig | None
    n_features_in_: int

    def _start(
        self, X: Any, y: Any, sample_weight: Any, bounds_of: workers.BoundsOf | None = None
    ) -> tuple[Cluster, list[Any]]:
        """The cluster, and the partitions on it."""
        self.__dict__.pop("network_", None)
        forget_preparation(self)
        resume = "" if self.checkpoint is None else f"; it goes on from checkpoint={str(self.checkpoint)!r}"
        cluster = Cluster(self.client or default_client(), resume)
        return cluster, cluster.start(read_lazily(X, y, sample_weight, bounds_of))

    def _note_columns(self, n_features: int, names: Sequence[str] | None) -> None:
        self.n_features_in_ = n_features
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _refuse(self) -> None:
        """What no estimator does on a cluster."""
        if options.set_fields(self.gibbs_config).get("sampler") == "counts":
            raise InvalidInputError(f"{type(self).__name__} does not do sampler='counts'; use 'first_events'.")
        for name, given in (("gibbs_config", self.gibbs_config), ("map_config", self.map_config)):
            if options.set_fields(given).get("device") is not None:
                raise InvalidInputError(f"{type(self).__name__} works on CPUs; leave device of {name} out.")

    def _scaling(self, rows: LabelledRows | StreamedSource, config: FitConfig) -> Scaling:
        """How the features are scaled for the fit."""
        assert isinstance(rows, ClusterRows)
        return rows.scaling(self.standardize)

    def _make_engine(
        self, rows: LabelledRows | StreamedSource, response: Response, config: FitConfig, run: Run, path: int = 0
    ) -> Engine:
        """What trains the layers."""
        assert isinstance(rows, ClusterRows)
        if config.inference == "gibbs":
            return ClusterGibbsEngine(rows, response, config, run, path)
        if response.timed:
            return ClusterLineEngine(rows, config.map, run)
        return MapEngine(rows.source(response.n_outputs), response, config.map, run)

    def to_local(self) -> Any:
        """The fitted model as an estimator of `pbdn`, which needs no Dask: to predict, explain, save and export."""
        check_is_fitted(self)
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "client"}  # type: ignore[attr-defined]
        local = self._local(**parameters)
        local.__dict__.update((name, own) for name, own in vars(self).items() if name not in (*parameters, "client"))
        return local

    def save(self, path: Any) -> None:
        """Write the fitted model as the estimator of `to_local`."""
        self.to_local().save(path)

    def _predicted(self, X: Any, method: str, shape: tuple[int, ...] = (), kind: Any = np.float64) -> Any:
        """What a method of the local estimator says of rows here or, of a Dask collection, a dask array."""
        local = self.to_local()
        if not dask.is_dask_collection(X):
            return getattr(local, method)(X)
        return by_partition(X, local, method, shape, np.dtype(kind))


class PredictsClasses(OnCluster):
    """Predictions and scores of those that have classes."""

    classes_: Any

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of ``classes_``; of a Dask collection a dask array, computed partition by partition when asked for."""
        check_is_fitted(self)
        return self._predicted(X, "predict_proba", (self.classes_.size,))

    def predict(self, X: Any) -> Any:
        """The most probable class of each row; of a Dask collection a dask array."""
        check_is_fitted(self)
        return self._predicted(X, "predict", (), self.classes_.dtype)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; X, y and sample_weight as in `fit`."""
        local = self.to_local()
        if not dask.is_dask_collection(X):
            return float(local.score(X, y, sample_weight))
        parts = [dask.delayed(right_of)(part, local) for part in read_lazily(X, y, sample_weight)]
        right, total = np.sum(dask.compute(*parts, scheduler=self.client), axis=0)
        return float(right / total)


class LineOnCluster(OnCluster, LineEstimator):
    """What the estimators of values on a line share."""

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, by name, and what is not done on a cluster."""
        super()._check_parameters()
        self._refuse()

    def _shards(self, read: ReadRows) -> ClusterRows:
        """Rows with bounds, put into shards; workers may let go of the partitions then."""
        self._note_columns(read.n_features, read.names)
        return make_shards(read, True, self.standardize)

    def _fit_shards(self, rows: ClusterRows, tasks: FitTasks, log: bool | str, cuts: Sequence[float] = ()) -> None:
        """Grow a network on rows that workers hold; ``log`` and ``cuts`` as in `pbdn.estimators.on_a_line.line_facts`."""
        facts = rows.inputs.cluster.call(workers.facts_of_line, list(rows.labels), log, cuts)
        self._fit_line(rows, facts, tasks)

    def _settled(self, response: OnALine, rows: LabelledRows) -> FitConfig:
        """The options in force: folds need rows in memory, so AIC decides the depth."""
        config = super()._settled(response, rows)
        if config.map.is_monotonic:
            raise InvalidInputError(f"{type(self).__name__} does not do monotonic_cst; use {self._local.__name__}.")
        return replace(config, criterion="aic_inputs")


class PredictsNumbers(LineOnCluster):
    """Predictions and scores of those whose targets are numbers."""

    def predict(self, X: Any) -> Any:
        """Means; of a Dask collection a dask array."""
        return self._predicted(X, "predict")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R²; X, y and sample_weight as in `fit`, y being numbers."""
        local = self.to_local()
        if not dask.is_dask_collection(X):
            return float(local.score(X, y, sample_weight))
        parts = [dask.delayed(squares_of)(part, local) for part in read_lazily(X, y, sample_weight)]
        total, first, second, missed = np.sum(dask.compute(*parts, scheduler=self.client), axis=0)
        return float(1.0 - missed / (second - first * first / total))


class DaskPBDNClassifier(PredictsClasses, PBDNClassifier):
    """`pbdn.PBDNClassifier` on a Dask cluster: rows stay on the workers, and every one of them counts.

    ``inference="gibbs"`` gives the bits of `pbdn.PBDNClassifier` on the same rows in memory, for any number of workers and any
    partitions. ``inference="map"`` takes the steps of ``criterion="aic_inputs"`` on the same rows in memory, up to rounding. A
    worker that is lost is made up for by the others, and the result stays the same.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        None: the client in use.
    inference : {"auto", "gibbs", "map"}, default="auto"
        "auto" is "map".
    criterion, max_depth, max_experts, standardize, priors, gibbs_config, map_config, class_weight, random_state, verbose, \
checkpoint, time_limit
        As in `pbdn.PBDNClassifier`. Of ``criterion`` all but "folds" and "holdout", which need rows in memory; "auto" is
        "aic_inputs". ``checkpoint`` is a file of the process that calls ``fit``.
    n_jobs : int or None, default=None
        Chains of sides that run at the same time. Each worker uses as many threads as Dask gave it.

    Attributes
    ----------
    The attributes of `pbdn.PBDNClassifier`.
    """

    _local: ClassVar[type] = PBDNClassifier
    __init__ = parameters_of(PBDNClassifier)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None) -> Self:
        """Grow a network on a Dask collection.

        Parameters
        ----------
        X : dask array or dataframe of shape (n_samples, n_features)
            Present numbers. Parquet and other files: ``dask.dataframe.read_parquet`` and its kin.
        y : dask array or series of shape (n_samples,), or str
            Labels of any kind, in the partitions of X; or the name of a column of X.
        sample_weight : dask array or series of shape (n_samples,), or str, optional
        classes : array, optional
            Labels that are allowed.

        Returns
        -------
        self
        """
        self._check_parameters()
        inference, criterion = self._settle()
        self._increment, self._grow_next = None, False
        tasks = FitTasks(self, X, y)
        is_gibbs = inference == "gibbs"
        cluster, parts = self._start(X, y, sample_weight)
        read = read_rows(cluster, parts, is_gibbs, self.class_weight, classes)
        check_are_classes(read.classes)
        self.classes_ = read.classes
        self._note_columns(read.n_features, read.names)
        response = self._response()
        self.config_ = self._resolve(response, inference, criterion, sum(read.sizes), read.n_features)
        if read.present.size < 2:
            self._adopt_one_class(int(read.present[0]))
        else:
            rows = make_shards(read, is_gibbs, self.standardize)
            del parts, read  # workers may let go of them; Dask knows how to make them again
            self._fit_network(rows, response, tasks)
        tasks.end()
        return self

    def _settle(self) -> tuple[str, Any]:
        """Inference and criterion; refuses what a cluster does not do."""
        inference = options.choose_inference(self.inference, self.gibbs_config)
        if inference == "map+gibbs":
            raise InvalidInputError("DaskPBDNClassifier does not do inference='map+gibbs'; use 'map' or 'gibbs'.")
        self._refuse()
        if self.criterion in (options.FOLDS, options.HOLDOUT):
            raise InvalidInputError(
                f"criterion={self.criterion!r} needs rows in memory; use 'auto', or PBDNClassifier on a sample of the rows."
            )
        return inference, options.choose_criterion(self.criterion, 2, inference, None)


def _positive_values(y: Any) -> FloatArray:
    """Bounds of values whose logarithms are modelled."""
    return positive_bounds(numeric_bounds(y))


class DaskPBDNRegressor(PredictsNumbers, PBDNRegressor):
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
    __init__ = parameters_of(PBDNRegressor)

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
