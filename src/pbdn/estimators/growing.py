"""How every estimator grows its network, at once or batch by batch: options, scaling, what accompanies the fit, attributes."""

import numbers
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Self, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pbdn import config as options
from pbdn.config import FitConfig, GibbsConfig, MapConfig
from pbdn.data import open_stream as opening
from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.open_stream import KeptRows
from pbdn.data.streams import StreamedSource
from pbdn.estimators.frames import column_importances, forget_preparation, remember_medians, with_signs_of_features
from pbdn.growth.checkpoint import Checkpoint, fingerprint
from pbdn.growth.depth import Engine, Growth, LayerFit
from pbdn.growth.engines import make_engine
from pbdn.growth.fit_network import FitResult, Increment, assemble, fit_network
from pbdn.growth.progress import ProgressBar
from pbdn.growth.run import CallbackSupportMixin, FitTasks, Method, Run, StopSignal, n_threads
from pbdn.growth.views import in_span
from pbdn.inspection.effects import MAX_ROWS
from pbdn.model.network import Network
from pbdn.model.priors import Hyperpriors
from pbdn.model.response import Response
from pbdn.model.scaling import Scaling, identity_scaling
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_flag, check_integer, check_kind, check_positive

TRIAL_SEED = 0
TRIAL_ROWS = 20_000  # the first in content order, which is as good as at random
FREE = {"n_jobs", "verbose", "checkpoint", "time_limit", "random_state", "client"}  # may change when a fit is resumed


class GrowsNetworks(CallbackSupportMixin):  # type: ignore[misc]
    """The part of ``fit`` that does not depend on the response; the parameters are those of the estimators."""

    max_depth: Any
    max_experts: int
    standardize: bool
    priors: Hyperpriors | None
    map_config: MapConfig | None
    random_state: Any
    n_jobs: int | None
    verbose: int
    time_limit: float | None
    checkpoint: Any
    gibbs_config: GibbsConfig | None = None
    config_: FitConfig
    network_: Network | None
    _importances: FloatArray | None
    _unmeasured: FloatArray | None

    def _make_engine(
        self, rows: LabelledRows | StreamedSource, response: Response, config: FitConfig, run: Run, path: int = 0
    ) -> Engine:
        """What trains the layers."""
        return make_engine(rows, response, config, run, path)

    def _fit_network(self, rows: LabelledRows | StreamedSource, response: Response, tasks: FitTasks) -> None:
        """Grow the network and fill the fitted attributes."""
        n_features = rows.n_features
        scaling = self._scaling(rows, self.config_)
        run = self._run(rows, tasks.stop)

        def attributes(fits: Sequence[LayerFit]) -> dict[str, Any]:
            return {"network_": assemble(Growth(tuple(fits), (), ""), scaling, response, n_features), "paths_": ()}

        tasks.attributes = attributes
        self._adopt(fit_network(rows, scaling, response, self.config_, run, tasks, self._make_engine), rows)

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, by name."""
        check_integer("max_depth", self.max_depth, 1)
        check_integer("max_experts", self.max_experts, 1)
        if self.time_limit is not None:
            check_positive("time_limit", self.time_limit)
        check_flag("standardize", self.standardize)
        check_kind("n_jobs", self.n_jobs, numbers.Integral, "a whole number")
        check_kind("verbose", self.verbose, numbers.Integral, "a whole number")
        check_kind("checkpoint", self.checkpoint, str | os.PathLike, "the path of a file")
        check_kind("priors", self.priors, Hyperpriors)
        check_kind("gibbs_config", self.gibbs_config, GibbsConfig)
        check_kind("map_config", self.map_config, MapConfig)

    def _resolve(
        self,
        response: Response,
        inference: str,
        criterion: Any,
        n_rows: int | None = None,
        n_features: int | None = None,
    ) -> FitConfig:
        """The options in force for this problem."""
        return options.resolve(
            response,
            inference=inference,
            criterion=criterion,
            max_depth=self.max_depth,
            max_experts=self.max_experts,
            priors=self.priors,
            gibbs_config=self.gibbs_config,
            map_config=with_signs_of_features(self, self.map_config),
            n_rows=n_rows,
            n_features=n_features,
        )

    def _scaling(self, rows: LabelledRows | StreamedSource, config: FitConfig) -> Scaling:
        """How the features are scaled for the fit."""
        if not self.standardize:
            return identity_scaling(rows.n_features)
        by_most = config.criterion == options.FOLDS and not in_span(rows.n_rows, rows.n_features)
        return opening.scaling_of(rows, by_most)

    def _on_trial(self, rows: LabelledRows, response: Response, tasks: FitTasks) -> tuple[LabelledRows, FitConfig, Run]:
        """Some of the rows, which are in content order, scaled; the options of networks of folds; and what accompanies a trial."""
        config = self._resolve(response, "map", options.FOLDS, rows.n_rows, rows.n_features)
        some = rows.some(TRIAL_ROWS)
        some = some.with_inputs(self._scaling(rows, config).apply(some.inputs))
        return some, config, Run(TRIAL_SEED, n_threads(self.n_jobs, True), tasks.stop)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _run(self, rows: LabelledRows | StreamedSource, stop: StopSignal) -> Run:
        """What accompanies the fit."""
        run = Run(
            seed=self._seed(),
            n_jobs=n_threads(self.n_jobs, self.config_.criterion in (options.FOLDS, options.HOLDOUT)),
            stop=stop,
            bar=ProgressBar(self.verbose > 0),
        )
        if self.checkpoint is None:
            return run
        settings = {key: value for key, value in self.get_params(deep=False).items() if key not in FREE}
        if isinstance(self.random_state, int | np.integer):
            settings["random_state"] = int(self.random_state)  # a fixed seed may not
        settings["estimator"] = type(self).__name__
        marks = fingerprint(opening.marks_of(rows), settings)
        kept = Checkpoint(self.checkpoint, marks, run.seed, self.config_.chain.n_sweeps)
        return replace(run, checkpoint=kept, seed=kept.seed)

    def _adopt(self, result: FitResult, rows: LabelledRows | StreamedSource | KeptRows) -> None:
        """Fill the fitted attributes; importances are measured on some of the rows."""
        self.network_, self.paths_ = result.network, result.paths
        self.criterion_path_ = [asdict(step) for step in result.growth.path]
        self.trials_ = [asdict(one) for one in result.growth.trials]
        self.trace_ = [fit.traces() for fit in result.growth.fits]
        self.convergence_ = [asdict(one) for one in result.convergence]
        if isinstance(rows, KeptRows):  # measured when they are asked for
            self._unmeasured = rows.inputs if len(rows.inputs) >= rows.fewest else None
        elif isinstance(rows, StreamedSource):
            sample = opening.spread_inputs(rows, MAX_ROWS)
            remember_medians(self, sample)
            self._importances = column_importances(self, sample)
        else:
            self._importances = column_importances(self, rows)


def _learns_in_steps(model: Any) -> bool:
    """Only MAP has batches to learn from; Gibbs sampling needs all rows in every sweep."""
    if model.inference != "map":
        raise AttributeError(
            f"partial_fit and grow need inference='map'; this estimator has inference={model.inference!r}."
        )
    return True


def in_steps(method: Method) -> Method:
    """Offer the method only where the estimator learns in steps; it keeps its type."""
    return cast(Method, available_if(_learns_in_steps)(method))


class LearnsFromStreams(GrowsNetworks):
    """What data that come in pieces ask of an estimator, whatever its response."""

    _increment: Increment | None = None
    _kept: KeptRows
    _grow_next = False

    def _begin_anew(self) -> None:
        """A fit that does not end leaves nothing of the one before, nor of steps."""
        self._increment, self._grow_next, self._unmeasured = None, False, None
        self.__dict__.pop("network_", None)

    def _take_columns_of(self, source: StreamedSource) -> None:
        """The number and the names of the features are those of a stream."""
        forget_preparation(self)
        self.n_features_in_ = source.n_features
        self.__dict__.pop("feature_names_in_", None)
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)

    def _learn(self, rows: LabelledRows, response: Response, criterion: Any, network: Network | None) -> None:
        """Take the steps of one batch, from the network where there is one, and fill the fitted attributes."""
        if self._increment is None:
            self.config_ = self._resolve(response, "map", criterion)  # `grow` decides the depth
            settings, scaling = self.config_.map, self._scaling(rows, self.config_)
            self._increment = Increment.begin(scaling, response, settings, self._seed(), network)
            self._kept = KeptRows.none(rows.n_features, network is not None)
        self._increment.response = response
        self._increment.learn(rows, self._grow_next)
        self._grow_next = False
        learnt = self._increment.network(rows.n_features)
        self._kept = self._kept.joined_by(rows.inputs)
        self._adopt(FitResult(learnt, Growth((), (), "incremental"), []), self._kept)

    @in_steps
    def grow(self) -> Self:
        """Let the next `partial_fit` freeze the present layers and start a new one on top.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._check_can_grow()
        for model in getattr(self, "models_", ()):
            model.grow()
        self._grow_next = True
        return self

    def _check_can_grow(self) -> None:
        """Refuse where there can only be one layer."""
