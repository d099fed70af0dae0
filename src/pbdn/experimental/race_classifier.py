"""A classifier whose classes race (experimental)."""

from dataclasses import replace
from typing import Any

import scipy.sparse as sp

from pbdn.config import FOLDS, HOLDOUT, FitConfig, GibbsConfig, set_fields
from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.streams import StreamedSource
from pbdn.errors import InvalidInputError
from pbdn.estimators.fitting import NetworkClassifier
from pbdn.experimental.race import Race
from pbdn.experimental.race_engine import RaceEngine
from pbdn.growth.depth import Engine
from pbdn.growth.run import Run
from pbdn.model.priors import Hyperpriors
from pbdn.model.response import Response

ONLY: dict[str, tuple[Any, ...]] = {
    "sampler": ("first_events",),
    "record": ("collection",),
    "n_chains": (1,),
    "pruning": ("window", "none"),
    "prediction": ("auto", "point", "posterior"),
}


class RaceClassifier(NetworkClassifier):
    """One likelihood for all classes: the class whose process has the first point wins.

    Stands beside `pbdn.PBDNClassifier`, whose sides answer yes or no. One chain of Gibbs sampling draws all classes; it starts
    at the prior. Rows must be dense and have no fractional weights. Such networks cannot be exported.

    Parameters
    ----------
    criterion, max_depth, max_experts, standardize, priors, gibbs_config, class_weight, n_jobs, random_state, verbose, \
time_limit
        As in `pbdn.PBDNClassifier`. Of ``gibbs_config`` only the default sampler and record, one chain, pruning by window or
        none, and no averaging over paths. Of ``criterion`` all but "folds" and "holdout".
    """

    def __init__(
        self,
        *,
        criterion: Any = "auto",
        max_depth: int = 5,
        max_experts: int = 20,
        standardize: bool = True,
        priors: Hyperpriors | None = None,
        gibbs_config: GibbsConfig | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            inference="gibbs", max_experts=max_experts, class_weight=class_weight, standardize=standardize, priors=priors,
            gibbs_config=gibbs_config, random_state=random_state, n_jobs=n_jobs, verbose=verbose, time_limit=time_limit,
        )  # fmt: skip
        self.criterion = criterion
        self.max_depth = max_depth

    def _response(self) -> Response:
        """A race of all classes."""
        return Race(self.classes_.size)

    def _make_engine(
        self, rows: LabelledRows | StreamedSource, response: Response, config: FitConfig, run: Run
    ) -> Engine:
        """The engine of the race; it takes dense rows of whole weight."""
        assert isinstance(rows, LabelledRows)
        assert isinstance(response, Race)
        if sp.issparse(rows.inputs) or rows.weights is not None:
            what = "a sparse X" if sp.issparse(rows.inputs) else "fractional weights"
            raise InvalidInputError(f"RaceClassifier does not take {what}; give dense rows of whole weight.")
        return RaceEngine(rows, response, config, run)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.criterion in (FOLDS, HOLDOUT):
            raise InvalidInputError(
                f"RaceClassifier does not do criterion={self.criterion!r}; use PBDNClassifier for that."
            )
        for name, value in set_fields(self.gibbs_config).items():
            if value not in ONLY.get(name, (value,)):
                choices = " or ".join(repr(one) for one in ONLY[name])
                raise InvalidInputError(
                    f"RaceClassifier does not do {name}={value!r}; use {choices}, or PBDNClassifier for that."
                )

    def _resolve(
        self,
        response: Response,
        inference: str,
        criterion: Any,
        n_rows: int | None = None,
        n_features: int | None = None,
    ) -> FitConfig:
        """Two classes race too; their draws are averaged without paths."""
        config = super()._resolve(response, inference, criterion, n_rows, n_features)
        if config.prediction != "paths":
            return config
        return replace(config, gibbs=replace(config.gibbs, prediction="posterior"))
