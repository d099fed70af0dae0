"""Train layers by Gibbs sampling: sides and chains are independent tasks on the cores."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pbdn.gibbs.chain import ChainResult, ChainSettings, ChainState, run_chain
from pbdn.gibbs.rows import Rows, make_rows
from pbdn.gibbs.state import state_from_side
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.growth.grow import LayerFit, most_inputs_above
from pbdn.model.network import Inputs, Layer, Side, Skip, next_inputs

Task = tuple[int, int, int, int]  # depth, side, chain, path
T = TypeVar("T")
Result = TypeVar("Result")


class ChainKeeper(Protocol):
    """Remembers chains, finished or under way, so that a fit can be resumed."""

    def finished(self, task: Task) -> ChainState | None:
        """The saved state of a task, if there is one."""

    def saw(self, task: Task, chain: ChainState) -> None:
        """Called after every sweep."""


@dataclass
class StopSignal:
    """Stops chains between sweeps: at a deadline, or when set."""

    deadline: float | None = None
    flag: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> bool:
        """Whether to stop now."""
        return self.flag.is_set() or (self.deadline is not None and time.monotonic() > self.deadline)

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Within, the first Ctrl-C asks for a stop and the second interrupts at once.

        Only Python's own handler is replaced: a program that handles SIGINT itself keeps its ways.
        """
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def ask(number: int, frame: Any) -> None:
            if self.flag.is_set():
                raise KeyboardInterrupt
            self.flag.set()

        signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)


MOST_ENTRIES = 100_000_000  # of the matrices that one sweep of a layer of several classes factors, before pruning


class GibbsEngine:
    """Layers by Gibbs sampling.

    Parameters
    ----------
    inputs : dense array or CSR matrix
        Inputs of the first layer, already scaled.
    targets : bool array (n_rows, n_sides)
        One labelling per side.
    weights : array or None
        Row weights.
    settings : ChainSettings
    seed : int
    n_chains, n_jobs : int
    skip : "last_two", "none" or "all"
    pass_draw : bool
        Hand one posterior draw upward instead of the recorded one ("paths").
    warm_start : callable, optional
        Maps (inputs, depth, chain) to the sides at which a chain starts, e.g. a MAP fit.
    on_sweep : callable, optional
        Called as on_sweep(task, chain) after every sweep.
    """

    def __init__(
        self,
        inputs: Inputs,
        targets: NDArray[np.bool_],
        weights: NDArray[np.float64] | None,
        settings: ChainSettings,
        seed: int,
        *,
        n_chains: int = 1,
        n_jobs: int = 1,
        skip: Skip = "last_two",
        path: int = 0,
        pass_draw: bool = False,
        stop: StopSignal | None = None,
        keeper: ChainKeeper | None = None,
        warm_start: Callable[[Inputs, int, int], tuple[Side, ...]] | None = None,
        on_sweep: Callable[[Task, ChainState], None] | None = None,
    ) -> None:
        self.inputs, self.previous = inputs, inputs
        self.targets, self.weights, self.settings, self.seed = targets, weights, settings, seed
        self.n_chains, self.n_jobs, self.skip = n_chains, n_jobs, skip
        self.path, self.pass_draw = path, pass_draw
        self.stop = StopSignal() if stop is None else stop
        self.keeper, self.warm_start, self.on_sweep = keeper, warm_start, on_sweep
        self.n_rows = int(inputs.shape[0])

    def rows(self, side: int) -> Rows:
        """Rows of one side on the current inputs."""
        target = self.targets[:, side]
        single = self.settings.sampler != "event_times"
        return make_rows(
            self.inputs,
            target,
            weight=self.weights,
            single_events=single,
            merge=self.settings.sampler != "counts",
        )

    def run_task(self, task: Task, start: Side | None, rows: Rows) -> ChainResult:
        """One chain of one side, resumed where the keeper has seen it."""
        saved = self.keeper.finished(task) if self.keeper is not None else None

        def on_sweep(chain: ChainState) -> None:
            if self.keeper is not None:
                self.keeper.saw(task, chain)
            if self.on_sweep is not None:
                self.on_sweep(task, chain)

        n_tasks = self.targets.shape[1] * self.n_chains
        return run_chain(
            rows,
            self.settings,
            self.seed,
            task,
            n_threads=max(1, self.n_jobs // n_tasks),
            start=None if start is None else state_from_side(start, self.settings.max_experts),
            resume=saved,
            on_sweep=on_sweep,
            should_stop=self.stop,
        )

    def fit_layer(self, depth: int) -> LayerFit:
        """Sample every side with every chain; the recorded draw is the best over chains."""
        n_sides = self.targets.shape[1]
        began = time.perf_counter()
        starts = [self.start(depth, chain) for chain in range(self.n_chains)]
        tasks = [(depth, side, chain, self.path) for side in range(n_sides) for chain in range(self.n_chains)]

        def work(task: Task) -> ChainResult:
            return self.run_task(task, starts[task[2]][task[1]], self.rows(task[1]))

        with single_blas_thread():
            results = run_on_threads(work, tasks, self.n_jobs, self.stop)
        of_side = [results[s * self.n_chains : (s + 1) * self.n_chains] for s in range(n_sides)]
        best = [max(chains, key=lambda chain: chain.log_likelihood) for chains in of_side]
        n_draws = min(sum(len(chain.draws) for chain in chains) for chains in of_side)
        draws = zip(*(_interleave(chains)[:n_draws] for chains in of_side), strict=True)
        sides = tuple(chain.side.strongest_first() for chain in best)
        layer = Layer(sides, tuple(draws))
        complete = all(chain.complete for chain in results)
        scores = tuple(chain.log_likelihood for chain in best)
        if self.pass_draw:
            layer = replace(layer, sides=layer.draws[-1])
        return LayerFit(layer, scores, of_side, complete, time.perf_counter() - began)

    def start(self, depth: int, chain: int) -> Sequence[Side | None]:
        """Where a chain of each side starts; None: at the prior."""
        if self.warm_start is None:
            return [None] * self.targets.shape[1]
        return self.warm_start(self.inputs, depth, chain)

    def advance(self, layer: Layer) -> None:
        """Move to the inputs of the next layer."""
        newest = layer.units(self.inputs)
        self.inputs, self.previous = next_inputs(self.skip, self.inputs, self.previous, newest), newest

    def has_room(self, layer: Layer) -> bool:
        """Two classes always have; a sweep of S classes factors matrices whose size grows with S."""
        return sweep_fits(self.targets.shape[1], self.settings.max_experts, most_inputs_above(layer), self.n_rows)


def sweep_fits(n_sides: int, max_experts: int, n_inputs: int, n_rows: int) -> bool:
    """Whether the next layer's hyperplanes can be drawn in a few seconds per sweep."""
    return n_sides <= 2 or n_sides * max_experts * n_inputs * min(n_inputs, n_rows) <= MOST_ENTRIES


def run_on_threads(work: Callable[[T], Result], tasks: Sequence[T], n_jobs: int, stop: StopSignal) -> list[Result]:
    """Do independent tasks on up to n_jobs threads; when one fails the others are asked to stop."""
    n_threads = min(n_jobs, len(tasks))
    if n_threads == 1:
        return [work(task) for task in tasks]
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            return list(pool.map(work, tasks))
        except BaseException:
            stop.flag.set()
            raise


def _interleave(chains: list[Any]) -> list[Side]:
    """Draws of several chains in turn, so that a cut takes equally from all."""
    longest = max(len(chain.draws) for chain in chains)
    return [chain.draws[g] for g in range(longest) for chain in chains if g < len(chain.draws)]
