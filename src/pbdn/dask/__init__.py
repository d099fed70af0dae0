"""Fits on a Dask cluster: `DaskPBDNClassifier`. Needs the extra ``dask``; docs/scaling.md tells how it works and what it costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from pbdn import config as options
from pbdn.config import FitConfig, GibbsConfig, MapConfig
from pbdn.data.frames import NamedArray
from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.streams import StreamedSource
from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.estimators.classifier import PBDNClassifier
from pbdn.estimators.frames import forget_preparation
from pbdn.gibbs.responses import RowResponse
from pbdn.gibbs.rows import Rows, RowsElsewhere
from pbdn.growth.depth import Engine
from pbdn.growth.engines import GibbsEngine, MapEngine
from pbdn.growth.run import FitTasks, Run, with_callbacks
from pbdn.model.network import Layer
from pbdn.model.priors import Hyperpriors
from pbdn.model.response import Response
from pbdn.model.scaling import Scaling
from pbdn.model.wiring import sources_of

try:
    import dask
    from distributed import default_client

    from pbdn.dask import workers
    from pbdn.dask.cluster import Cluster
    from pbdn.dask.rows import ClusterRows, make_shards, read_rows
except ModuleNotFoundError as error:
    if error.name not in ("dask", "distributed"):
        raise
    raise MissingExtraError("pbdn.dask needs Dask", "dask") from error

__all__ = ["DaskPBDNClassifier"]


class ClusterGibbsEngine(GibbsEngine):
    """Layers by Gibbs sampling on rows that workers hold; everything but the local steps is done here."""

    def __init__(self, rows: ClusterRows, response: Response, config: FitConfig, run: Run, path: int = 0) -> None:
        self.rows, self.response, self.config, self.run, self.path = rows, response, config, run, path
        self.initial = None
        self.settings, self.n_chains, self.n_rows = config.chain, config.n_chains, rows.n_rows
        self.n_sides = response.labelling.n_sides
        self.seen, self.inputs = [rows.inputs], rows.inputs

    @contextmanager
    def held_rows(self, side: int) -> Iterator[tuple[Rows | RowsElsewhere, RowResponse | None]]:
        """Rows of one side on the workers, for one chain."""
        rows = self.rows.with_inputs(self.inputs)
        assert isinstance(rows, ClusterRows)
        number = self.response.labelling.sides[side]
        held, group = rows.side(number, self.settings.sampler != "event_times")
        try:
            yield held, None
        finally:
            if group is not None:
                group.close()

    def advance(self, layer: Layer) -> None:
        """Move to the inputs of the next layer, on the workers."""
        n_units = sum(layer.n_experts)
        self.seen.append(self.inputs.mapped(workers.units_of, layer, n_features=n_units))
        parts = [self.seen[source] for source in sources_of(len(self.seen))]
        width = sum(part.n_features for part in parts)
        self.inputs = parts[0].mapped(workers.join_columns, *parts[1:], n_features=width)


class DaskPBDNClassifier(PBDNClassifier):
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

    def __init__(
        self,
        *,
        client: Any = None,
        inference: str = "auto",
        criterion: Any = "auto",
        max_depth: int = 5,
        max_experts: int = 20,
        standardize: bool = True,
        priors: Hyperpriors | None = None,
        gibbs_config: GibbsConfig | None = None,
        map_config: MapConfig | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            inference=inference, criterion=criterion, max_depth=max_depth, max_experts=max_experts, standardize=standardize,
            priors=priors, gibbs_config=gibbs_config, map_config=map_config, class_weight=class_weight, n_jobs=n_jobs,
            random_state=random_state, verbose=verbose, checkpoint=checkpoint, time_limit=time_limit,
        )  # fmt: skip
        self.client = client

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
        self.__dict__.pop("network_", None)
        forget_preparation(self)
        tasks = FitTasks(self, X, y)
        cluster = Cluster(self.client or default_client(), self._words_on_resuming())
        is_gibbs = inference == "gibbs"
        parts = cluster.start(_read_lazily(X, y, sample_weight))
        read = read_rows(cluster, parts, self.class_weight, classes, repeats=is_gibbs)
        check_classification_targets(read.classes)
        self.classes_, self.n_features_in_ = read.classes, read.n_features
        self.__dict__.pop("feature_names_in_", None)
        if read.names is not None:
            self.feature_names_in_ = np.asarray(read.names, dtype=object)
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
        if options.set_fields(self.gibbs_config).get("sampler") == "counts":
            raise InvalidInputError("DaskPBDNClassifier does not do sampler='counts'; use 'first_events'.")
        for name, given in (("gibbs_config", self.gibbs_config), ("map_config", self.map_config)):
            if options.set_fields(given).get("device") is not None:
                raise InvalidInputError(f"DaskPBDNClassifier works on CPUs; leave device of {name} out.")
        if self.criterion in (options.FOLDS, options.HOLDOUT):
            raise InvalidInputError(
                f"criterion={self.criterion!r} needs rows in memory; use 'auto', or PBDNClassifier on a sample of the rows."
            )
        return inference, options.choose_criterion(self.criterion, 2, inference, None)

    def _words_on_resuming(self) -> str:
        """The end of a message about a loss."""
        return "" if self.checkpoint is None else f"; it goes on from checkpoint={str(self.checkpoint)!r}"

    def _scaling(self, rows: LabelledRows | StreamedSource) -> Scaling:
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
        return MapEngine(rows.source(response.n_outputs), response, config.map, run)

    def to_local(self) -> PBDNClassifier:
        """The fitted model as a `pbdn.PBDNClassifier`, which needs no Dask: to predict, explain, save and export."""
        check_is_fitted(self)
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "client"}
        local = PBDNClassifier(**parameters)
        own = {name: value for name, value in vars(self).items() if name not in (*parameters, "client")}
        local.__dict__.update(own)
        return local

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities; of a Dask collection a dask array, computed partition by partition when it is asked for."""
        if not dask.is_dask_collection(X):
            return super().predict_proba(X)
        check_is_fitted(self)
        return _by_partition(X, self.to_local(), "predict_proba", self.classes_.size)

    def predict(self, X: Any) -> Any:
        """The most probable class of each row; of a Dask collection a dask array."""
        if not dask.is_dask_collection(X):
            return super().predict(X)
        check_is_fitted(self)
        return _by_partition(X, self.to_local(), "predict", None)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; X, y and sample_weight as in `fit`."""
        if not dask.is_dask_collection(X):
            return super().score(X, y, sample_weight)
        local = self.to_local()
        parts = [dask.delayed(_right)(part, local) for part in _read_lazily(X, y, sample_weight)]
        right, total = np.sum(dask.compute(*parts, scheduler=self.client), axis=0)
        return float(right / total)

    def save(self, path: Any) -> None:
        """Write the fitted model as a `pbdn.PBDNClassifier`."""
        self.to_local().save(path)


def _read_lazily(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Checked partitions, not yet computed."""
    parts = _blocks("X", X)
    columns = []
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if isinstance(values, str) or (values is None and name == "sample_weight"):
            columns.append([values] * len(parts))
            continue
        if getattr(values, "chunks", None) is not None and getattr(X, "chunks", None) is not None:
            known = not np.isnan(X.chunks[0]).any() and not np.isnan(values.chunks[0]).any()
            if known and values.chunks[0] != X.chunks[0]:
                if sum(values.chunks[0]) != sum(X.chunks[0]):
                    raise InvalidInputError(f"X has {sum(X.chunks[0])} rows, but {name} has {sum(values.chunks[0])}.")
                values = values.rechunk({0: X.chunks[0]})
        columns.append(_blocks(name, values))
        if len(columns[-1]) != len(parts):
            raise InvalidInputError(
                f"X has {len(parts)} partitions, but {name} has {len(columns[-1])}; partition them alike."
            )
    read = dask.delayed(workers.read_part)
    return [read(part, *rest, number) for number, (part, *rest) in enumerate(zip(parts, *columns, strict=True))]


def _blocks(name: str, collection: Any) -> list[Any]:
    """The partitions of a collection, not yet computed."""
    if not dask.is_dask_collection(collection) or not hasattr(collection, "to_delayed"):
        raise InvalidInputError(
            f"{name} is a {type(collection).__name__}; give a dask array or dataframe (PBDNClassifier takes rows in memory)."
        )
    if getattr(collection, "chunks", None) is not None and collection.ndim == 2:
        collection = collection.rechunk({1: -1})
    return np.asarray(collection.to_delayed(), dtype=object).ravel().tolist()


def _by_partition(X: Any, model: PBDNClassifier, method: str, n_columns: int | None) -> Any:
    """What the model says of every partition, as a dask array."""
    import dask.array as da

    blocks, shared = _blocks("X", X), dask.delayed(model)
    sizes = X.chunks[0] if getattr(X, "chunks", None) is not None else [np.nan] * len(blocks)
    kind = np.dtype(np.float64) if n_columns else model.classes_.dtype
    parts = [
        da.from_delayed(
            dask.delayed(_predict)(shared, block, method), (size, n_columns) if n_columns else (size,), kind
        )
        for block, size in zip(blocks, sizes, strict=True)
    ]
    return da.concatenate(parts)


def _predict(model: PBDNClassifier, block: Any, method: str) -> Any:
    """The prediction of one partition, which may be empty."""
    if len(block):
        return getattr(model, method)(block)
    return np.empty((0, model.classes_.size)) if method == "predict_proba" else np.empty(0, model.classes_.dtype)


def _right(part: workers.RawPart, model: PBDNClassifier) -> Any:
    """Weight of the rows of a partition that are predicted right, and of all."""
    if not len(part.labels):
        return np.zeros(2)
    weights = np.ones(len(part.labels)) if part.weights is None else part.weights
    rows = part.inputs if part.names is None else NamedArray(part.inputs, list(part.names))
    return np.array([weights[model.predict(rows) == part.labels].sum(), weights.sum()])
