"""From validated arrays to a grown network: the one place where engines, growth and scaling meet."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pbdn.data.source import ArraySource, RowSource
from pbdn.data.streams import StreamedSource
from pbdn.errors import ConvergenceWarning, DepthLimitWarning
from pbdn.experimental.race_engine import RaceEngine
from pbdn.gibbs.chain import ChainSettings, ChainState
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.growth.checkpoint import Checkpoint
from pbdn.growth.gibbs_engine import GibbsEngine, StopSignal, Task, run_on_threads
from pbdn.growth.grow import Engine, Growth, LayerFit, Observer, grow
from pbdn.growth.holdout import N_FOLDS, KeptBack, Polisher, RowLosses, folds_of_rows
from pbdn.growth.map_engine import MapEngine
from pbdn.growth.progress import ProgressBar
from pbdn.inspection.convergence import Convergence, anchor_rows, layer_convergence
from pbdn.model.criteria import Criterion
from pbdn.model.network import Head, Inputs, Layer, Network, Side, Skip
from pbdn.model.scaling import Scaling
from pbdn.sgd.config import MapConfig
from pbdn.sgd.polish import polish
from pbdn.sgd.train import fit_map
from pbdn.validation import anchors_of

HOLDOUT: Literal["holdout"] = "holdout"
FOLDED_ROWS = 2000  # up to so many rows every row is kept back once to find the depth, above every fifth
STEPS_PER_SWEEP = 4  # most minibatches of a MAP start for each sweep of the chain
SMALLEST_PROBABILITY = 1e-12  # of a class on a row kept back


@dataclass(frozen=True)
class FitPlan:
    """Everything a fit is told, after validation.

    ``inference`` is "gibbs", "map" or "map+gibbs"; ``codes`` are class numbers; ``n_sides`` is 1 (a single iSHM for code
    1), the number of classes, or twice that: with ``complements`` the second half of the sides stand against the classes.
    """

    inference: str
    codes: NDArray[np.int64]
    n_sides: int
    weights: NDArray[np.float64] | None
    chain: ChainSettings
    map_config: MapConfig
    criterion: Criterion | list[Criterion] | Literal["holdout"]
    max_depth: int
    skip: Skip
    seed: int
    complements: bool = False
    head: Head = "sides"
    n_chains: int = 1
    n_jobs: int = 1
    n_paths: int = 0
    time_limit: float | None = None
    verbose: int = 0

    @property
    def n_classes(self) -> int:
        """Classes that the sides tell apart."""
        return max(2, self.n_sides // 2 if self.complements else self.n_sides)

    @property
    def targets(self) -> NDArray[np.bool_]:
        """One labelling per side."""
        if self.n_sides == 1:
            return np.asarray(self.codes == 1)[:, None]
        own = np.asarray(self.codes[:, None] == np.arange(self.n_classes))
        return np.concatenate([own, ~own], axis=1) if self.complements else own


@dataclass(frozen=True)
class FitResult:
    """A grown network on unscaled features, its path, and what the engines saw."""

    network: Network
    growth: Growth
    convergence: list[Convergence] = field(repr=False)
    paths: tuple[Network, ...] = field(default=(), repr=False)


def fit_network(
    features: Inputs,
    scaling: Scaling,
    plan: FitPlan,
    checkpoint: Checkpoint | None = None,
    observer: Observer | None = None,
) -> FitResult:
    """Grow a network on ``features`` (scaled inside, unscaled again in the result)."""
    is_stream = isinstance(features, StreamedSource)
    scaled = features.standardised(scaling.center, scaling.scale) if is_stream else scaling.apply(features)
    stop = StopSignal(None if plan.time_limit is None else time.monotonic() + plan.time_limit)
    bar = ProgressBar(plan.verbose > 0)
    paths: list[list[LayerFit]] = []
    try:
        with stop.on_interrupt():
            if plan.criterion == HOLDOUT:
                with single_blas_thread():
                    growth = _grow_by_holdout(scaled, plan, stop, checkpoint, bar, observer)
            else:
                engine = make_engine(scaled, plan, stop, checkpoint, bar)
                growth = grow(engine, plan.criterion, plan.max_depth, observer)
            if plan.n_paths and growth.reason != "interrupted":
                paths = grow_paths(scaled, plan, stop, checkpoint, bar, len(growth.fits))
    finally:
        bar.close()
        if checkpoint is not None:
            checkpoint.write()
    _say_how_it_ended(growth, plan, stop, len(paths))
    convergence = _diagnose(growth, plan, scaled)
    network = assemble(growth.fits, scaling, plan, features.shape[1])
    others = tuple(assemble(fits, scaling, plan, features.shape[1]) for fits in paths)
    return FitResult(network, growth, convergence, others)


def _grow_by_holdout(
    scaled: Inputs,
    plan: FitPlan,
    stop: StopSignal,
    checkpoint: Checkpoint | None,
    bar: ProgressBar,
    observer: Observer | None,
) -> Growth:
    """Find the depth on rows kept back, then grow to that depth on all rows, and polish if that paid.

    Few rows are all kept back once, in five folds; of many, and with chains, one fold is.
    """
    folds = folds_of_rows(plan.codes, plan.seed)
    in_turn = plan.inference == "map" and plan.codes.size <= FOLDED_ROWS
    kept = [folds == fold for fold in (range(N_FOLDS) if in_turn else (N_FOLDS - 1,))]
    n_jobs = min(plan.n_jobs, len(kept))

    def part_without(rows: NDArray[np.bool_]) -> FitPlan:
        weights = None if plan.weights is None else plan.weights[~rows]
        return replace(plan, codes=plan.codes[~rows], weights=weights, n_jobs=max(1, plan.n_jobs // n_jobs))

    def loss_on(rows: NDArray[np.bool_]) -> RowLosses:
        inputs, codes = scaled[rows], plan.codes[rows]
        weights = 1.0 if plan.weights is None else plan.weights[rows]

        def losses(layers: Sequence[Layer]) -> NDArray[np.float64]:
            chosen = _stack(layers, scaled.shape[1], plan).class_probability(inputs)[np.arange(codes.size), codes]
            return np.asarray(-2.0 * weights * np.log(np.maximum(chosen, SMALLEST_PROBABILITY)))

        return losses

    parts = [(scaled[~rows], part_without(rows)) for rows in kept]
    trials = KeptBack(
        [make_engine(inputs, part, stop, None, bar) for inputs, part in parts],
        [loss_on(rows) for rows in kept],
        n_jobs,
        stop,
        [make_polisher(inputs, part, stop, bar) for inputs, part in parts],
    )
    trial = grow(trials, trials.criterion, plan.max_depth)
    if trial.reason == "interrupted":
        return trial
    pays = trials.polish_pays(len(trial.fits))
    if stop():
        return replace(trial, reason="interrupted")
    whole = grow(
        make_engine(scaled, plan, stop, checkpoint, bar),
        lambda layers, log_likelihood, n_rows: float(-len(layers)),
        len(trial.fits),
        observer,
    )
    path = [
        replace(whole.path[at], criterion=step.criterion) if at < len(whole.path) else step
        for at, step in enumerate(trial.path)
    ]
    fits, reason = whole.fits, trial.reason if whole.reason == "max_depth" else whole.reason
    if pays and reason != "interrupted":
        layers = make_polisher(scaled, plan, stop, bar)([fit.layer for fit in fits])
        if layers is not None:
            fits = tuple(replace(fit, layer=layer) for fit, layer in zip(fits, layers, strict=True))
            path[len(fits) - 1] = replace(path[len(fits) - 1], polished=True)
        elif stop():
            reason = "interrupted"
    return Growth(fits, tuple(path), reason)


def make_polisher(scaled: Inputs, plan: FitPlan, stop: StopSignal, bar: ProgressBar) -> Polisher:
    """Tunes the layers of a network together on these rows, where the plan asks for it and there are several."""

    def polisher(layers: Sequence[Layer]) -> Sequence[Layer] | None:
        if plan.inference != "map" or not plan.map_config.polish or sp.issparse(scaled) or len(layers) < 2:
            return None
        return polish(
            layers,
            np.asarray(scaled, dtype=np.float64),
            plan.codes,
            plan.weights,
            config=plan.map_config,
            seed=plan.seed,
            complements=plan.complements,
            skip=plan.skip,
            should_stop=stop,
            on_progress=lambda info: bar.update(
                f"polish {len(layers)} layers", info["n_steps"], "map", info["step"], f"loss {info['loss']:.4g}"
            ),
        )

    return polisher


def assemble(fits: Sequence[LayerFit], scaling: Scaling, plan: FitPlan, n_features: int) -> Network:
    """The network of finished layers, acting on unscaled features."""
    return scaling.fold(_stack([fit.layer for fit in fits], n_features, plan))


def _stack(layers: Sequence[Layer], n_features: int, plan: FitPlan) -> Network:
    """A network with draws kept on the top layer only: lower layers act by their recorded point."""
    lower = [Layer(layer.sides) for layer in layers[:-1]]
    return Network((*lower, layers[-1]), int(n_features), plan.skip, plan.complements, plan.head)


def make_engine(
    scaled: Inputs,
    plan: FitPlan,
    stop: StopSignal,
    checkpoint: Checkpoint | None,
    bar: ProgressBar,
    path: int = 0,
) -> Engine:
    """The engine that the plan asks for."""
    if plan.inference == "map":
        source: RowSource = scaled
        if not isinstance(scaled, StreamedSource):
            source = ArraySource(scaled, plan.codes, classes=np.arange(plan.n_classes), weights=plan.weights)

        def minibatch_note(depth: int, info: dict[str, Any]) -> None:
            note = f"experts {info['n_experts']}, loss {info['loss']:.4g}"
            bar.update(f"layer {depth}", info["n_steps"], "map", info["step"], note)

        return MapEngine(
            source,
            plan.n_sides,
            plan.map_config,
            plan.seed,
            complements=plan.complements,
            skip=plan.skip,
            stop=stop,
            keeper=checkpoint,
            on_progress=minibatch_note,
        )

    if plan.head == "race":
        return RaceEngine(
            scaled, plan.codes, plan.n_classes, plan.chain, plan.seed, skip=plan.skip, n_threads=plan.n_jobs, stop=stop
        )

    def sweep_note(task: Task, chain: ChainState) -> None:
        depth, side, _, _ = task
        note = f"side {side}: {int(chain.active.sum())} experts, ln L {chain.trace[chain.done - 1, 0]:.1f}"
        n_chains = plan.n_sides * (plan.n_paths * plan.max_depth if path else plan.n_chains)
        phase = f"{plan.n_paths} paths" if path else f"layer {depth}"
        bar.update(phase, n_chains * plan.chain.n_sweeps, task, chain.done, note)

    return GibbsEngine(
        scaled,
        plan.targets,
        plan.weights,
        plan.chain,
        plan.seed,
        n_chains=plan.n_chains,
        n_jobs=plan.n_jobs,
        skip=plan.skip,
        path=path,
        pass_draw=path > 0,
        stop=stop,
        keeper=checkpoint,
        warm_start=_map_start(plan, path, stop) if plan.inference == "map+gibbs" else None,
        on_sweep=sweep_note if bar.enabled else None,
    )


def _map_start(plan: FitPlan, path: int, stop: StopSignal) -> Callable[[Inputs, int, int], tuple[Side, ...]]:
    """Start every chain from a MAP fit of its own on the same inputs: another seed finds another mode.

    A start for a short chain is short too.
    """
    most = STEPS_PER_SWEEP * plan.chain.n_sweeps
    config = replace(plan.map_config, n_minibatches=min(plan.map_config.n_minibatches, most))

    def start(inputs: Inputs, depth: int, chain: int) -> tuple[Side, ...]:
        seed = np.random.SeedSequence(plan.seed, spawn_key=(path, chain)).generate_state(1)[0]
        source = ArraySource(inputs, plan.codes, classes=np.arange(plan.n_classes), weights=plan.weights)
        found = fit_map(
            source,
            plan.n_sides,
            depth=depth,
            config=config,
            seed=int(seed),
            complements=plan.complements,
            should_stop=stop,
        )
        return found.sides

    return start


def grow_paths(
    scaled: Inputs,
    plan: FitPlan,
    stop: StopSignal,
    checkpoint: Checkpoint | None,
    bar: ProgressBar,
    depth: int,
) -> list[list[LayerFit]]:
    """The layers of independent runs from bottom to top, each passing one posterior draw upward.

    Each run has one chain, and the runs share the number of draws that the plan asks for. Those cut short are left out.
    """
    n_draws = -(-plan.chain.n_draws * plan.n_chains // plan.n_paths)
    n_jobs = max(1, plan.n_jobs // plan.n_paths)
    chain = replace(plan.chain, n_draws=n_draws)
    part = replace(plan, chain=chain, n_chains=1, n_jobs=n_jobs, max_depth=depth)

    def climb(path: int) -> list[LayerFit]:
        engine = make_engine(scaled, part, stop, checkpoint, bar, path)
        fits = [engine.fit_layer(1)]
        while len(fits) < depth and fits[-1].complete:
            engine.advance(fits[-1].layer)
            fits.append(engine.fit_layer(len(fits) + 1))
        return fits

    with single_blas_thread():
        paths = run_on_threads(climb, range(1, plan.n_paths + 1), plan.n_jobs, stop)
    return [fits for fits in paths if fits[-1].complete]


def _say_how_it_ended(growth: Growth, plan: FitPlan, stop: StopSignal, n_paths: int) -> None:
    """Warn when growth did not end by itself."""
    kept = len(growth.fits)
    what = f"keeps {kept} layer(s)" if growth.fits[-1].complete else "is one unfinished layer and may predict badly"
    if n_paths < plan.n_paths:
        what += f" and {n_paths} of {plan.n_paths} paths"
    if growth.reason == "interrupted" or n_paths < plan.n_paths:
        if stop() and not stop.flag.is_set():
            advice = "Raise time_limit, or lower n_sweeps, to let it grow by its criterion."
            warnings.warn(f"time_limit={plan.time_limit} s reached: the network {what}. {advice}", stacklevel=6)
        else:
            warnings.warn(f"Interrupted: the network {what}.", stacklevel=6)
    elif growth.reason == "too_large":
        units = sum(growth.fits[-1].layer.n_experts)
        warnings.warn(
            f"Growth stopped at {kept} layer(s): another on its {units} units would be too large for {plan.n_classes} classes "
            f"with max_experts={plan.chain.max_experts}. Lower max_experts to let the network grow.",
            DepthLimitWarning,
            stacklevel=6,
        )
    elif growth.reason == "max_depth" and plan.max_depth > 1:
        warnings.warn(
            f"The criterion was still falling at max_depth={plan.max_depth}; raise max_depth to let the network grow.",
            DepthLimitWarning,
            stacklevel=6,
        )


def _diagnose(growth: Growth, plan: FitPlan, scaled: Inputs) -> list[Convergence]:
    """Convergence of the top layer's chains, with one warning that says what to raise."""
    if plan.inference == "map" or plan.head == "race":
        return []
    network = _stack([fit.layer for fit in growth.fits], scaled.shape[1], plan)
    anchors = network.top_inputs(anchors_of(scaled, anchor_rows(scaled.shape[0])))
    found = layer_convergence(growth.fits[-1].details, plan.chain.n_burn_in, anchors)
    bad = [one for one in found if one.fails]
    if bad:
        worst = min(bad, key=lambda one: min(one.ess_bulk, one.ess_tail) / one.ess_wanted)
        warnings.warn(
            f"The chains of layer {network.depth} have not converged in {len(bad)} of {len(found)} quantities (worst: "
            f"{worst.quantity}, R-hat {worst.r_hat:.2f}, effective draws {worst.ess_bulk:.0f}). Predictions are "
            f"usable; for trustworthy posterior intervals raise n_sweeps (now {plan.chain.n_sweeps}) and n_chains "
            f"(now {plan.n_chains}).",
            ConvergenceWarning,
            stacklevel=6,
        )
    return found
