"""How every estimator grows its network: options, scaling, what accompanies the fit, attributes."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from pbdn import config as options
from pbdn.config import FitConfig, GibbsConfig, MapConfig
from pbdn.data import open_stream as opening
from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.streams import StreamedSource
from pbdn.estimators.frames import per_column, with_signs_of_features
from pbdn.growth.checkpoint import Checkpoint, fingerprint
from pbdn.growth.depth import Engine, Growth, LayerFit
from pbdn.growth.engines import make_engine
from pbdn.growth.fit_network import FitResult, assemble, fit_network
from pbdn.growth.progress import ProgressBar
from pbdn.growth.run import CallbackSupportMixin, FitTasks, Run, StopSignal, n_threads
from pbdn.inspection.effects import MAX_ROWS, training_importances
from pbdn.model.network import Network
from pbdn.model.priors import Hyperpriors
from pbdn.model.response import Response
from pbdn.model.scaling import Scaling, identity_scaling
from pbdn.validation import check_integer, check_kind, check_positive

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

    def _make_engine(
        self, rows: LabelledRows | StreamedSource, response: Response, config: FitConfig, run: Run, path: int = 0
    ) -> Engine:
        """What trains the layers."""
        return make_engine(rows, response, config, run, path)

    def _fit_network(self, rows: LabelledRows | StreamedSource, response: Response, tasks: FitTasks) -> None:
        """Grow the network and fill the fitted attributes."""
        n_features = rows.n_features
        scaling = self._scaling(rows)
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

    def _scaling(self, rows: LabelledRows | StreamedSource) -> Scaling:
        """How the features are scaled for the fit."""
        return opening.scaling_of(rows) if self.standardize else identity_scaling(rows.n_features)

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

    def _adopt(self, result: FitResult, rows: LabelledRows | StreamedSource, n_rows: int = MAX_ROWS) -> None:
        """Fill the fitted attributes."""
        self.network_, self.paths_ = result.network, result.paths
        self.criterion_path_ = [asdict(step) for step in result.growth.path]
        self.trials_ = [asdict(one) for one in result.growth.trials]
        self.trace_ = [fit.traces() for fit in result.growth.fits]
        self.convergence_ = [asdict(one) for one in result.convergence]
        self._importances = per_column(self, training_importances(self, rows, n_rows))
