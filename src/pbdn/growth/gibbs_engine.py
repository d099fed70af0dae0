"""Train layers by Gibbs sampling: sides and chains are independent tasks on the cores."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pbdn.config import FitConfig
from pbdn.data.labelled_rows import LabelledRows
from pbdn.gibbs.chain import ChainResult, ChainSettings, ChainState, run_chain
from pbdn.gibbs.rows import Rows, make_rows
from pbdn.gibbs.state import state_from_side
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.growth.checkpoint import Task
from pbdn.growth.depth import LayerFit, most_inputs_above
from pbdn.growth.run import Run
from pbdn.model.network import Layer, Side
from pbdn.model.response import Response
from pbdn.model.wiring import Inputs, inputs_of
from pbdn.sgd.train_layer import fit_map

STEPS_PER_SWEEP = 4  # most minibatches of a MAP start for each sweep of the chain
MOST_ENTRIES = 100_000_000  # of the matrices that one sweep of a layer of many sides factors, before pruning


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
        self.targets = response.labelling.targets(rows.codes)
        self.n_sides = response.labelling.n_sides
        self.n_chains = config.n_chains
        self.n_rows = rows.n_rows
        self.seen: list[Inputs] = [rows.inputs]
        self.inputs: Inputs = rows.inputs

    def side_rows(self, side: int) -> Rows:
        """Rows of one side on the current inputs."""
        return make_rows(
            self.inputs,
            self.targets[:, side],
            weight=self.rows.weights,
            single_events=self.settings.sampler != "event_times",
            merge=self.settings.sampler != "counts",
        )

    def run_task(self, task: Task, start: Side | None) -> ChainResult:
        """One chain of one side, resumed where the checkpoint has seen it."""
        checkpoint = self.run.checkpoint
        saved = checkpoint.finished(task) if checkpoint is not None else None

        def on_sweep(chain: ChainState) -> None:
            if checkpoint is not None:
                checkpoint.saw(task, chain)
            if self.run.bar.enabled:
                self._tell(task, chain)

        result = run_chain(
            self.side_rows(task[1]),
            self.settings,
            self.run.seed,
            task,
            n_threads=max(1, self.run.n_jobs // (self.n_sides * self.n_chains)),
            start=None if start is None else state_from_side(start, self.settings.max_experts),
            resume=saved,
            on_sweep=on_sweep,
            should_stop=self.run.stop,
        )
        if checkpoint is not None and not result.complete:
            checkpoint.stopped(task, result.final)
        return result

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
        found = fit_map(
            self.rows.with_inputs(self.inputs).source(self.response.n_outputs),
            self.response.labelling,
            depth=depth,
            config=settings,
            seed=int(seed),
            should_stop=self.run.stop,
        )
        return found.sides

    def advance(self, layer: Layer) -> None:
        """Move to the inputs of the next layer."""
        self.seen.append(layer.units(self.inputs))
        self.inputs = inputs_of(len(self.seen), self.seen)

    def has_room(self, layer: Layer) -> bool:
        """Whether the next layer's hyperplanes can be drawn in a few seconds per sweep."""
        return sweep_fits(self.n_sides, self.settings.max_experts, most_inputs_above(layer), self.n_rows)


def sweep_fits(n_sides: int, max_experts: int, n_inputs: int, n_rows: int) -> bool:
    """Two sides always fit; a sweep of many sides factors matrices whose size grows with their number."""
    return n_sides <= 2 or n_sides * max_experts * n_inputs * min(n_inputs, n_rows) <= MOST_ENTRIES


def _interleave(chains: list[Any]) -> list[Side]:
    """Draws of several chains in turn, so that a cut takes equally from all."""
    longest = max(len(chain.draws) for chain in chains)
    return [chain.draws[g] for g in range(longest) for chain in chains if g < len(chain.draws)]
