"""From validated arrays to a grown network: the one place where engines, growth and scaling meet."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.diagnostics import Convergence, anchor_rows, layer_convergence
from pbdn.errors import ConvergenceWarning, DepthLimitWarning
from pbdn.gibbs.chain import ChainSettings, ChainState
from pbdn.growth.checkpoint import Checkpoint
from pbdn.growth.gibbs_engine import GibbsEngine, StopSignal, Task
from pbdn.growth.grow import Engine, Growth, LayerFit, grow
from pbdn.growth.map_engine import MapEngine
from pbdn.model.criteria import Criterion
from pbdn.model.network import Inputs, Layer, Network, Side, Skip
from pbdn.progress import ProgressBar
from pbdn.scaling import Scaling
from pbdn.sgd.config import MapConfig
from pbdn.sgd.rows import ArraySource
from pbdn.sgd.train import fit_map
from pbdn.validation import anchors_of


@dataclass(frozen=True)
class FitPlan:
    """Everything a fit is told, after validation.

    ``inference`` is "gibbs", "map" or "map+gibbs"; ``codes`` are class numbers; ``n_sides`` is 1 (a single iSHM for code
    1) or the number of classes.
    """

    inference: str
    codes: NDArray[np.int64]
    n_sides: int
    weights: NDArray[np.float64] | None
    chain: ChainSettings
    map_config: MapConfig
    criterion: Criterion | list[Criterion]
    max_depth: int
    skip: Skip
    seed: int
    n_chains: int = 1
    n_jobs: int = 1
    n_paths: int = 0
    time_limit: float | None = None
    verbose: int = 0

    @property
    def targets(self) -> NDArray[np.bool_]:
        """One labelling per side."""
        if self.n_sides == 1:
            return (self.codes == 1)[:, None]
        return np.asarray(self.codes[:, None] == np.arange(self.n_sides))


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
    on_layer: Callable[[LayerFit, int], None] | None = None,
) -> FitResult:
    """Grow a network on ``features`` (scaled inside, unscaled again in the result)."""
    scaled = scaling.apply(features)
    deadline = None if plan.time_limit is None else time.monotonic() + plan.time_limit
    stop = StopSignal(deadline)
    bar = ProgressBar(plan.verbose > 0)
    try:
        engine = make_engine(scaled, plan, stop, checkpoint, bar)
        try:
            growth = grow(engine, plan.criterion, plan.max_depth, on_layer)
        except KeyboardInterrupt:
            if not stop.flag.is_set():
                raise
            raise
        paths = _grow_paths(scaled, plan, stop, checkpoint, bar, len(growth.fits)) if plan.n_paths else ()
    finally:
        bar.close()
    _say_how_it_ended(growth, plan, stop)
    network = Network(tuple(_lean(growth.fits)), int(features.shape[1]), plan.skip)
    convergence = _diagnose(growth, plan, scaled, network)
    return FitResult(scaling.fold(network), growth, convergence, tuple(scaling.fold(path) for path in paths))


def make_engine(
    scaled: Inputs, plan: FitPlan, stop: StopSignal, checkpoint: Checkpoint | None, bar: ProgressBar, path: int = 0
) -> Engine:
    """The engine that the plan asks for."""
    if plan.inference == "map":
        source = ArraySource(scaled, plan.codes, classes=np.arange(max(plan.n_sides, 2)), weights=plan.weights)

        def minibatch_note(depth: int, info: dict[str, Any]) -> None:
            note = f"experts {info['n_experts']}, loss {info['loss']:.4g}"
            bar.update(depth, "map", info["step"], info["n_steps"], note)

        return MapEngine(
            source,
            plan.n_sides,
            plan.map_config,
            plan.seed,
            skip=plan.skip,
            stop=stop,
            keeper=checkpoint,
            on_progress=minibatch_note,
        )

    def sweep_note(task: Task, chain: ChainState) -> None:
        note = f"side {task[1]}: {int(chain.active.sum())} experts, ln L {chain.trace[chain.done - 1, 0]:.1f}"
        bar.update(task[0], task, chain.done, plan.chain.n_sweeps, note)

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
        keeper=checkpoint if path == 0 else None,
        warm_start=_map_start(plan) if plan.inference == "map+gibbs" else None,
        on_sweep=sweep_note if bar.enabled else None,
    )


def _map_start(plan: FitPlan) -> Callable[[Inputs, int], tuple[Side, ...]]:
    """Start chains from a MAP fit on the same inputs."""

    def start(inputs: Inputs, depth: int) -> tuple[Side, ...]:
        source = ArraySource(inputs, plan.codes, classes=np.arange(max(plan.n_sides, 2)), weights=plan.weights)
        return fit_map(source, plan.n_sides, depth=depth, config=plan.map_config, seed=plan.seed).sides

    return start


def _grow_paths(
    scaled: Inputs, plan: FitPlan, stop: StopSignal, checkpoint: Checkpoint | None, bar: ProgressBar, depth: int
) -> tuple[Network, ...]:
    """Independent runs from bottom to top at the chosen depth, each passing one posterior draw upward."""
    networks = []
    for path in range(1, plan.n_paths + 1):
        engine = make_engine(scaled, plan, stop, checkpoint, bar, path)
        layers = []
        for t in range(1, depth + 1):
            fit = engine.fit_layer(t)
            layers.append(fit.layer if t == depth else Layer(fit.layer.sides))
            if t < depth:
                engine.advance(fit.layer)
        if stop():
            break
        networks.append(Network(tuple(layers), int(scaled.shape[1]), plan.skip))
    return tuple(networks)


def _lean(fits: tuple[LayerFit, ...]) -> list[Layer]:
    """Layers with draws kept on the top one only: lower layers act by their recorded point."""
    return [fit.layer if t == len(fits) - 1 else Layer(fit.layer.sides) for t, fit in enumerate(fits)]


def _say_how_it_ended(growth: Growth, plan: FitPlan, stop: StopSignal) -> None:
    """Warn when growth did not end by itself."""
    kept = len(growth.fits)
    if stop.flag.is_set():
        warnings.warn(f"Interrupted: the network keeps the {kept} layer(s) finished so far.", stacklevel=5)
    elif stop():
        warnings.warn(
            f"time_limit={plan.time_limit} s reached: the network keeps {kept} layer(s). Raise time_limit, or lower "
            "n_sweeps, to let it grow by its criterion.",
            stacklevel=5,
        )
    elif growth.reason == "max_depth" and plan.max_depth > 1:
        warnings.warn(
            f"The criterion was still falling at max_depth={plan.max_depth}; raise max_depth to let the network grow.",
            DepthLimitWarning,
            stacklevel=5,
        )


def _diagnose(growth: Growth, plan: FitPlan, scaled: Inputs, network: Network) -> list[Convergence]:
    """Convergence of the top layer's chains, with one warning that says what to raise."""
    if plan.inference == "map":
        return []
    anchors = network.top_inputs(anchors_of(scaled, anchor_rows(scaled.shape[0])))
    found = layer_convergence(growth.fits[-1].details, plan.chain.n_burn_in, anchors)
    bad = [one for one in found if one.fails(plan.n_chains)]
    if bad:
        finite = [one for one in bad if np.isfinite(one.r_hat)]
        worst = max(finite, key=lambda one: one.r_hat) if finite else bad[0]
        warnings.warn(
            f"The chains of layer {network.depth} have not converged in {len(bad)} of {len(found)} quantities (worst: "
            f"{worst.quantity}, R-hat {worst.r_hat:.2f}, effective draws {worst.ess_bulk:.0f}). Predictions are usable; for "
            f"trustworthy posterior intervals raise n_sweeps (now {plan.chain.n_sweeps}) and n_chains (now {plan.n_chains}).",
            ConvergenceWarning,
            stacklevel=5,
        )
    return found
