"""The engines that train a layer, Gibbs sampling and MAP; the one that a configuration asks for."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pbdn.config import FitConfig, starts_for
from pbdn.data.labelled_rows import LabelledRows, dense_rows
from pbdn.data.row_source import RowSource
from pbdn.data.streams import StreamedSource
from pbdn.gibbs.chain import ChainResult, ChainSettings, ChainState, run_chain
from pbdn.gibbs.responses import RowResponse, SideRows
from pbdn.gibbs.rows import BLOCK_ROWS, Rows, RowsElsewhere, make_rows
from pbdn.gibbs.state import Extras, GlobalState, state_from_side
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.gibbs.timed_responses import common_scale, timed_rows, with_scale
from pbdn.growth.checkpoint import (
    Task,
    arrays_of_layers,
    arrays_of_map_result,
    layers_from_arrays,
    map_result_from_arrays,
)
from pbdn.growth.depth import Engine, LayerFit, most_inputs_above
from pbdn.growth.run import Run
from pbdn.model.labelling import flipped
from pbdn.model.network import Layer, Network, Side, inputs_above
from pbdn.model.response import Response
from pbdn.model.wiring import Inputs, inputs_of
from pbdn.numerics.arrays import FloatArray
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.starts import START_ROWS, fit_from_starts, fit_timed_from_starts
from pbdn.sgd.timed_trainer import log_likelihoods_of, train_from_source
from pbdn.sgd.train_layer import MapResult, fit_map

START_PENALTY = 0.3  # precision of the coefficients of a MAP start of values on a line
STEPS_PER_SWEEP = 4  # most minibatches of a MAP start for each sweep of the chain
MOST_ENTRIES = 100_000_000  # of the matrices that one sweep of a layer of many sides factors, before pruning
MOST_COEFFICIENTS = 3_000_000  # of a layer of many sides before pruning: a step then takes some tenths of a second
EngineMaker = Callable[..., Engine]  # of rows, response, configuration, run and, if not 0, the path


class GibbsEngine:
    """Layers by Gibbs sampling.

    Parameters
    ----------
    rows : LabelledRows
        Inputs of the first layer already scaled.
    response : Response
    config : FitConfig
    run : Run
    path : int
        0 for the network itself. Other numbers are runs from bottom to top that hand one posterior draw upward instead of
        the recorded one.
    initial : sequence of Side or None
        Where the chains of every side start; None: where the configuration says.
    """

    def __init__(
        self,
        rows: LabelledRows,
        response: Response,
        config: FitConfig,
        run: Run,
        path: int = 0,
        initial: Sequence[Side] | None = None,
    ) -> None:
        self.rows, self.response, self.config, self.run, self.path = rows, response, config, run, path
        self.initial = initial
        self.settings: ChainSettings = config.chain
        self.targets = (
            [rows.targets, flipped(rows.targets)] if response.timed else list(response.labelling.targets(rows.codes).T)
        )
        self.n_sides = response.labelling.n_sides
        self.n_chains = config.n_chains
        self.n_rows = rows.n_rows
        self.seen: list[Inputs] = [rows.inputs]
        self.inputs: Inputs = rows.inputs

    def side_rows(self, side: int) -> SideRows:
        """Rows of one side on the current inputs, and what it learns beside its experts."""
        targets, single_events = self.targets[side], self.settings.sampler != "event_times"
        if self.response.timed:
            low, high, *limits = targets.T
            limit = limits[0] if limits else None
            return timed_rows(
                self.inputs, low, high, limit=limit, weight=self.rows.weights, single_events=single_events
            )
        rows = make_rows(
            self.inputs,
            targets,
            weight=self.rows.weights,
            single_events=single_events,
            merge=self.settings.sampler != "counts",
        )
        return SideRows(rows, None)

    def chain_start(self, side: Side | None) -> tuple[GlobalState | None, Extras | None]:
        """State and extras at the beginning of a chain; None: what the sampler starts with by itself."""
        if side is None:
            return None, None
        extras = None
        if side.time_coefs is not None:
            side, extras = common_scale(side)
        return state_from_side(side, self.settings.max_experts), extras

    @contextmanager
    def held_rows(self, side: int) -> Iterator[tuple[Rows | RowsElsewhere, RowResponse | None]]:
        """`side_rows` for as long as a chain runs on them."""
        yield self.side_rows(side)

    def run_task(self, task: Task, start: Side | None) -> ChainResult:
        """One chain of one side, resumed where the checkpoint has seen it."""
        checkpoint = self.run.checkpoint
        saved = checkpoint.finished(task) if checkpoint is not None else None

        def on_sweep(chain: ChainState) -> None:
            if checkpoint is not None:
                checkpoint.saw(task, chain)
            if self.run.bar.enabled:
                self._tell(task, chain)

        state, extras = self.chain_start(start)
        with self.held_rows(task[1]) as (rows, response):
            result = run_chain(
                rows,
                self.settings,
                self.run.seed,
                task,
                n_threads=max(1, self.run.n_jobs // (self.n_sides * self.n_chains)),
                response=response,
                start=state,
                start_extras=extras,
                resume=saved,
                on_sweep=on_sweep,
                should_stop=self.run.stop,
            )
        if checkpoint is not None and not result.complete:
            checkpoint.stopped(task, result.final)
        return with_scale(result) if self.response.timed else result

    def _tell(self, task: Task, chain: ChainState) -> None:
        """Move the progress bar: a phase is all chains of a layer, or of all paths."""
        depth = task[0]
        note = f"experts {int(chain.active.sum())}, ln L {chain.trace[chain.done - 1, 0]:.1f}"
        n_paths = self.config.n_paths
        n_chains = self.n_sides * (n_paths * self.config.max_depth if self.path else self.n_chains)
        phase = f"{n_paths} paths" if self.path else f"sampling layer {depth}"
        self.run.bar.update(phase, n_chains * self.settings.n_sweeps, task, chain.done, note)

    def fit_layer(self, depth: int) -> LayerFit:
        """Sample every side with every chain; the recorded draw is the best over chains."""
        began = time.perf_counter()
        starts = [self.start(depth, chain) for chain in range(self.n_chains)]
        tasks = [(depth, side, chain, self.path) for side in range(self.n_sides) for chain in range(self.n_chains)]
        with single_blas_thread():
            results = self.run.on_threads(lambda task: self.run_task(task, starts[task[2]][task[1]]), tasks)
        of_side = [results[s * self.n_chains : (s + 1) * self.n_chains] for s in range(self.n_sides)]
        best = [max(chains, key=lambda chain: chain.log_likelihood) for chains in of_side]
        n_draws = min(sum(len(chain.draws) for chain in chains) for chains in of_side)
        draws = zip(*(_interleave(chains)[:n_draws] for chains in of_side), strict=True)
        layer = Layer(tuple(chain.side.strongest_first() for chain in best), tuple(draws))
        if self.path:
            layer = replace(layer, sides=layer.draws[-1])
        complete = all(chain.complete for chain in results)
        scores = tuple(chain.log_likelihood for chain in best)
        return LayerFit(layer, scores, of_side, complete, time.perf_counter() - began)

    def start(self, depth: int, chain: int) -> Sequence[Side | None]:
        """Where a chain of each side starts: as told, at the prior (None), or at a MAP fit of its own on the same inputs.

        Another seed finds another mode. A start for a short chain is short too.
        """
        if self.initial is not None:
            return self.initial
        if self.config.gibbs.start == "prior":
            return [None] * self.n_sides
        most = STEPS_PER_SWEEP * self.settings.n_sweeps
        settings = replace(self.config.map, n_minibatches=min(self.config.map.n_minibatches, most))
        seed = np.random.SeedSequence(self.run.seed, spawn_key=(self.path, chain)).generate_state(1)[0]
        if self.response.timed:
            return self.timed_start(depth, settings, int(seed))
        found = fit_map(
            self.rows.with_inputs(self.inputs).source(self.response.n_outputs),
            self.response.labelling,
            depth=depth,
            config=settings,
            seed=int(seed),
            should_stop=self.run.stop,
        )
        return found.sides

    def timed_start(self, depth: int, settings: MapSettings, seed: int) -> Sequence[Side | None]:
        """`start` by a MAP fit of values on a line, with few experts; the prior where it was cut short."""
        n_starts, n_experts = starts_for(self.inputs.shape[1], self.n_sides, settings.max_experts)
        with self.values() as values:
            found, done = fit_timed_from_starts(
                *values,
                penalty=START_PENALTY,
                depth=depth,
                config=replace(settings, max_experts=n_experts),
                seed=seed,
                n_starts=n_starts,
                should_stop=self.run.stop,
            )
        return found.sides if done else [None] * self.n_sides

    @contextmanager
    def values(self) -> Iterator[tuple[Any, Any, Any]]:
        """Dense inputs, bounds and weights of the rows."""
        inputs = self.inputs.toarray() if hasattr(self.inputs, "toarray") else self.inputs
        yield np.ascontiguousarray(inputs), self.rows.targets, self.rows.weights

    def advance(self, layer: Layer) -> None:
        """Move to the inputs of the next layer."""
        self.seen.append(units_in_blocks(layer, self.inputs))
        self.inputs = inputs_of(len(self.seen), self.seen)

    def has_room(self, layer: Layer) -> bool:
        """Whether the next layer's hyperplanes can be drawn in a few seconds per sweep."""
        return sweep_fits(self.n_sides, self.settings.max_experts, most_inputs_above(layer), self.n_rows)


def units_in_blocks(layer: Layer, inputs: Inputs) -> FloatArray:
    """Hidden units, a block of rows at a time: the same bits whichever other rows are here."""
    return np.concatenate(
        [layer.units(inputs[low : low + BLOCK_ROWS]) for low in range(0, inputs.shape[0], BLOCK_ROWS)]
    )


def sweep_fits(n_sides: int, max_experts: int, n_inputs: int, n_rows: int) -> bool:
    """Two sides always fit; a sweep of many sides factors matrices whose size grows with their number."""
    return n_sides <= 2 or n_sides * max_experts * n_inputs * min(n_inputs, n_rows) <= MOST_ENTRIES


def _interleave(chains: list[Any]) -> list[Side]:
    """Draws of several chains in turn, so that a cut takes equally from all."""
    longest = max(len(chain.draws) for chain in chains)
    return [chain.draws[g] for g in range(longest) for chain in chains if g < len(chain.draws)]


class MapEngine:
    """Layers by MAP.

    Parameters
    ----------
    source : RowSource
        Rows with scaled features and class codes, or bounds of values on a line.
    response : Response
    settings : MapSettings
    run : Run
    """

    def __init__(self, source: RowSource, response: Response, settings: MapSettings, run: Run) -> None:
        self.source, self.response, self.settings, self.run = source, response, settings, run
        self.layers: tuple[Layer, ...] = ()
        self._below: tuple[Layer, ...] = ()  # the same, as the layer trained last has changed them
        self.n_rows = source.n_rows

    def inputs_source(self) -> RowSource:
        """The rows as the next layer sees them: units of the lower layers computed on the fly."""
        layers = self.layers
        return self.source.mapped(lambda features: inputs_above(layers, features)) if layers else self.source

    def fit_layer(self, depth: int) -> LayerFit:
        """Optimise all sides of a layer; values on a line then train all layers together."""
        began = time.perf_counter()
        name, checkpoint = f"{self.run.name}map.{depth}", self.run.checkpoint
        if checkpoint is not None and name in checkpoint.saved:
            result = map_result_from_arrays(checkpoint.saved[name])
        else:
            result = self._train(depth)
            if checkpoint is not None and self._complete(result):
                checkpoint.store(name, arrays_of_map_result(result))
        layer, self._below = Layer(tuple(side.strongest_first() for side in result.sides)), self.layers
        scores, complete = tuple(float(value) for value in result.log_likelihood), self._complete(result)
        fit = LayerFit(layer, scores, result, complete, time.perf_counter() - began)
        return self._together(fit, began) if self.response.timed and self.layers and complete else fit

    def _train(self, depth: int) -> MapResult:
        """A new layer on the units of those below."""
        source, run = self.inputs_source(), self.run
        settings: dict[str, Any] = {"depth": depth, "seed": run.seed, "should_stop": run.stop}
        settings["on_progress"] = lambda info: self._tell(
            f"layer {depth}", info, f"experts {info['n_experts']}, loss {info['loss']:.4g}"
        )
        labelling = self.response.labelling
        if not self.response.timed:
            return fit_map(source, labelling, config=self.settings, n_threads=run.n_jobs, **settings)
        rng = np.random.default_rng(np.random.SeedSequence(run.seed, spawn_key=(depth,)))
        some = next(iter(source.minibatches(rng, min(START_ROWS, source.n_rows), 1)))
        rows = dense_rows(some.block.inputs, some.order)
        n_starts, n_experts = starts_for(source.n_features, labelling.n_sides, self.settings.max_experts)
        config = replace(self.settings, max_experts=n_experts)
        return fit_from_starts(source, rows, labelling, config=config, n_starts=n_starts, **settings)

    def _together(self, fit: LayerFit, began: float) -> LayerFit:
        """The same layers after training together; as they were, and not complete, where there was no time."""
        grown = Network((*self.layers, fit.layer), self.source.n_features, self.response)
        checkpoint, labelling, name = self.run.checkpoint, self.response.labelling, f"together.{grown.depth}"
        if checkpoint is not None and name in checkpoint.saved:
            layers = layers_from_arrays(checkpoint.saved[name])
        else:
            trained = train_from_source(
                self.source, grown.layers, labelling, self.settings, self.run.seed, should_stop=self.run.stop,
                on_progress=lambda info: self._tell(f"{grown.depth} layers", info, f"loss {info['loss']:.4g}"),
            )  # fmt: skip
            if trained is None:
                return replace(fit, complete=not self.run.stop(), whole=grown)
            layers = trained
            if checkpoint is not None:
                checkpoint.store(name, arrays_of_layers(layers))
        below = self._below = layers[:-1]
        source = self.source.mapped(lambda features: inputs_above(below, features))
        scores = tuple(log_likelihoods_of(source, layers[-1], self.run.stop).tolist())
        whole, seconds = replace(grown, layers=layers), time.perf_counter() - began
        return replace(fit, layer=layers[-1], log_likelihood=scores, seconds=seconds, whole=whole)

    def _tell(self, phase: str, info: dict[str, Any], note: str) -> None:
        self.run.bar.update(phase, info["n_steps"], "map", info["step"], note)

    def _complete(self, result: MapResult) -> bool:
        """Whether training ran to its end."""
        return bool(result.trace["loss"].size == self.settings.n_minibatches)

    def advance(self, layer: Layer) -> None:
        """Let the next layer see this one's units."""
        self.layers = self._below = (*self._below, layer)

    def has_room(self, layer: Layer) -> bool:
        """Two sides always have; the links between layers of S sides grow like S²."""
        n_sides = self.response.labelling.n_sides
        return n_sides <= 2 or n_sides * self.settings.max_experts * most_inputs_above(layer) <= MOST_COEFFICIENTS


def make_engine(
    rows: LabelledRows | StreamedSource, response: Response, config: FitConfig, run: Run, path: int = 0
) -> Engine:
    """Gibbs sampling or MAP on these rows, whose features are scaled; ``path`` as in `GibbsEngine`."""
    if isinstance(rows, StreamedSource):
        return MapEngine(rows, response, config.map, run)
    if config.inference != "gibbs":
        return MapEngine(rows.source(response.n_outputs), response, config.map, run)
    return GibbsEngine(rows, response, config, run, path)
