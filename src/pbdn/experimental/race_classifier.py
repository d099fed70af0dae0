"""A classifier whose classes race (experimental), and how its layers are trained: one chain for all classes."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pbdn.config import FOLDS, HOLDOUT, FitConfig, GibbsConfig, set_fields
from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.streams import StreamedSource
from pbdn.errors import InvalidInputError
from pbdn.estimators.fitting import NetworkClassifier
from pbdn.experimental.race import Race, RaceState, race_rows, race_sweep
from pbdn.gibbs.chain import WINDOW, WINDOW_FLOOR
from pbdn.gibbs.state import initial_state, prior_values
from pbdn.gibbs.sweep import Workers, single_blas_thread
from pbdn.growth.depth import Engine, LayerFit, most_inputs_above
from pbdn.growth.engines import sweep_fits
from pbdn.growth.run import Run
from pbdn.model.network import Layer, Side
from pbdn.model.priors import Hyperpriors
from pbdn.model.response import Response
from pbdn.model.wiring import Inputs, inputs_of
from pbdn.numerics.arrays import FloatArray

LEAST_PROBABILITY = 1e-300
ONLY: dict[str, tuple[Any, ...]] = {
    "sampler": ("first_events",),
    "record": ("collection",),
    "n_chains": (1,),
    "pruning": ("window", "none"),
    "prediction": ("auto", "point", "posterior"),
}


class RaceTrace:
    """What the chain leaves for the user: ``trace`` holds active experts per sweep and log-likelihoods of the kept draws."""

    def __init__(self, trace: dict[str, NDArray[Any]]) -> None:
        self.trace = trace


class RaceEngine:
    """Layers whose classes race; settings as for a chain of `pbdn.gibbs.chain` ("window" pruning or none)."""

    def __init__(self, rows: LabelledRows, response: Race, config: FitConfig, run: Run) -> None:
        self.seen: list[Inputs] = [rows.inputs]
        self.inputs: Inputs = rows.inputs
        self.codes, self.response, self.run = rows.codes, response, run
        self.n_classes, self.settings = response.n_outputs, config.chain
        self.n_rows = rows.n_rows

    def fit_layer(self, depth: int) -> LayerFit:
        """Run the chain; the recorded draw is the kept one of highest likelihood."""
        began = time.perf_counter()
        settings, priors = self.settings, prior_values(self.settings.priors)
        rows = race_rows(self.inputs, self.codes, self.n_classes)
        start = initial_state(settings.max_experts, rows[0].n_inputs)
        state = RaceState((start,) * self.n_classes, np.zeros(self.n_rows))
        activity = [np.ones(settings.max_experts) for _ in range(self.n_classes)]
        kept = set(settings.kept_sweeps().tolist())
        draws: list[tuple[Side, ...]] = []
        scores: list[float] = []
        counts = np.zeros((settings.n_sweeps, self.n_classes), np.int64)
        workers = Workers(self.run.n_jobs)
        done = 0
        try:
            with single_blas_thread():
                while done < settings.n_sweeps and not self.run.stop():
                    state, tables = race_sweep(rows, self.codes, state, priors, self.run.seed, (depth,), done, workers)
                    counts[done] = [np.count_nonzero(one) for one in tables]
                    done += 1
                    activity = [(1.0 - 1.0 / WINDOW) * a + t for a, t in zip(activity, tables, strict=True)]
                    if done in kept or done == settings.n_sweeps:
                        draws.append(tuple(one.to_side(t > 0) for one, t in zip(state.classes, tables, strict=True)))
                        scores.append(self._log_likelihood(draws[-1]))
                    due = done % settings.prune_every == 0 and done <= settings.n_burn_in
                    if settings.pruning == "window" and due:
                        state, activity = _prune(state, activity)
        finally:
            workers.close()
        if not draws:
            draws.append(tuple(one.to_side(np.ones(one.n_experts, bool)) for one in state.classes))
            scores.append(self._log_likelihood(draws[-1]))
        best = int(np.argmax(scores))
        trace = {"n_active": counts[:done], "log_likelihood": np.array(scores)}
        layer = Layer(draws[best], tuple(draws))
        seconds = time.perf_counter() - began
        return LayerFit(layer, (scores[best],), RaceTrace(trace), done >= settings.n_sweeps, seconds)

    def _log_likelihood(self, sides: tuple[Side, ...]) -> float:
        chosen = self.response.prediction(Layer(sides), self.inputs)[np.arange(self.n_rows), self.codes]
        return float(np.log(np.maximum(chosen, LEAST_PROBABILITY)).sum())

    def advance(self, layer: Layer) -> None:
        """Move to the inputs of the next layer."""
        self.seen.append(layer.units(self.inputs))
        self.inputs = inputs_of(len(self.seen), self.seen)

    def has_room(self, layer: Layer) -> bool:
        """As for sides."""
        return sweep_fits(self.n_classes, self.settings.max_experts, most_inputs_above(layer), self.n_rows)


def _prune(state: RaceState, activity: list[FloatArray]) -> tuple[RaceState, list[FloatArray]]:
    """Drop experts that have won no race for long; every class keeps one at least."""
    classes, left = [], []
    for one, remembered in zip(state.classes, activity, strict=True):
        keep = remembered >= WINDOW_FLOOR
        if not keep.any():
            keep[int(np.argmax(one.log_weights))] = True
        classes.append(one.select(keep))
        left.append(remembered[keep])
    return RaceState(tuple(classes), state.log_time), left


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
        self, rows: LabelledRows | StreamedSource, response: Response, config: FitConfig, run: Run, path: int = 0
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
