"""MAP by SGD of one layer: all sides in one Adam step, experts pruned as they die."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from pbdn.data.source import Minibatches, RowSource
from pbdn.errors import InvalidInputError, NumericalError
from pbdn.model.likelihood import FloatArray
from pbdn.model.network import Side
from pbdn.sgd.activity import log_likelihoods, surviving
from pbdn.sgd.adam import AdamState, run_minibatches
from pbdn.sgd.config import MapConfig
from pbdn.sgd.objective import IntArray, as_rows, pack, penalty, positive_codes, prior_constants, unpack
from pbdn.sgd.structs import LabelledRows, SideColumns, Steps

INITIAL_SPREAD = 0.1
INITIAL, BATCHES, PRUNING = range(3)  # purposes of the random streams


@dataclass(frozen=True)
class MapResult:
    """What a MAP fit of one layer leaves.

    Attributes
    ----------
    sides : tuple of Side
        Active experts only.
    trace : dict of arrays
        ``loss``: minibatch loss per unit of weight, one value per step (NaN where a step was undone);
        ``pruned_at``: steps at which experts were pruned; ``n_experts``: experts per side after each, shape
        (n_prunings, n_sides); ``step_halvings``; ``reinitialised``: restarts per side; ``kept_strongest``:
        how often a side was about to lose all its experts; ``objective``: the full objective at the end.
    log_likelihood : array (n_sides,)
        Log-likelihood of every side over all rows, weights included.
    """

    sides: tuple[Side, ...]
    trace: dict[str, NDArray[Any]]
    log_likelihood: FloatArray


def initial_parameters(rng: Generator, n_inputs: int, width: int, config: MapConfig, n_sides: int = 1) -> FloatArray:
    """Random start of ``n_sides`` sides: (n_inputs + 2, n_sides * width)."""
    parameters = INITIAL_SPREAD * rng.standard_normal((n_inputs + 2, n_sides * width))
    if config.initial == "balanced":
        parameters[0] -= math.log(width)
    return parameters


class Trainer:
    """The state of a fit between compiled calls."""

    def __init__(
        self, source: RowSource, n_sides: int, depth: int, config: MapConfig, seed: int, complements: bool = False
    ) -> None:
        """Read what the source knows without a pass over the rows."""
        self.source, self.config, self.n_sides, self.depth = source, config, n_sides, depth
        self.n_rows = source.n_rows
        self.total_weight = max(source.total_weight, 1e-300)
        self.n_inputs = source.n_features
        self.batch_size = min(config.batch_size, self.n_rows)
        self.positive = positive_codes(n_sides, complements)
        self.width = config.width(self.n_rows)
        self._seed = seed
        self.rng = self.stream(PRUNING)
        self.reinitialised = np.zeros(n_sides, np.int64)
        self.kept_strongest = np.zeros(n_sides, np.int64)

    def stream(self, purpose: int, *more: int) -> Generator:
        """Random stream of this layer, by purpose."""
        return np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(self.depth, purpose, *more)))

    def start(self, initial: tuple[Side, ...] | None) -> None:
        """Set the starting point."""
        if initial is None:
            rng = self.stream(INITIAL)
            parameters = initial_parameters(rng, self.n_inputs, self.width, self.config, self.n_sides)
            self.starts: IntArray = np.arange(self.n_sides + 1, dtype=np.int64) * self.width
        else:
            if len(initial) != self.n_sides or any(
                side.hyperplanes.shape[1] != self.n_inputs + 1 or side.n_experts == 0 for side in initial
            ):
                raise InvalidInputError(
                    f"initial does not fit: {self.n_sides} sides with at least one expert on "
                    f"{self.n_inputs} inputs are needed."
                )
            parameters, self.starts = pack(initial)
        self.state = AdamState.start(parameters)

    def run(self, chunk: Minibatches, rates: FloatArray, averaging: bool) -> FloatArray:
        """One compiled call; returns the minibatch losses."""
        losses = np.full(len(rates), np.nan)
        block = chunk.block
        data = LabelledRows(as_rows(block.inputs), block.codes, block.weights)
        steps = Steps(chunk.order, chunk.batch_size, rates, averaging, float(self.n_rows), self.total_weight)
        sides, prior = SideColumns(self.starts, self.positive), prior_constants(self.config, self.starts)
        done = run_minibatches(data, steps, sides, self.state, prior, losses)
        if done < len(rates):
            raise NumericalError(
                f"The MAP objective of layer {self.depth} is not finite even after "
                f"{int(self.state.counters[1])} halvings of the step; the inputs are too large for double "
                "precision. Standardise them, or lower learning_rate."
            )
        return losses

    def prune(self, may_restart: bool) -> None:
        """Drop experts that all rows find inactive."""
        keep, score = surviving(self.rng, self.source, self.state.parameters, self.starts, self.positive, self.config)
        self.drop(keep, score, may_restart)

    def drop(self, keep: Any, score: FloatArray, may_restart: bool) -> None:
        """Keep the marked experts; a side about to lose all is restarted or keeps that of highest score."""
        restart: list[int] = []
        for s in range(self.n_sides):
            a, b = self.starts[s], self.starts[s + 1]
            if keep[a:b].any():
                continue
            if self.config.when_empty == "reinitialise" and may_restart:
                if self.reinitialised[s]:
                    raise NumericalError(
                        f"Side {s} of layer {self.depth} lost all its experts twice; raise "
                        f"n_minibatches (now {self.config.n_minibatches}) or prune_every (now "
                        f"{self.config.prune_every}), or use "
                        "when_empty='keep_strongest'."
                    )
                self.reinitialised[s] += 1
                restart.append(s)
                keep[a:b] = True
            else:
                self.kept_strongest[s] += 1
                keep[a + int(np.argmax(score[a:b]))] = True
        counts = np.add.reduceat(keep, self.starts[:-1])
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.state = self.state.keep(np.flatnonzero(keep))
        for s in restart:
            self._restart(s)
        if not self.config.keep_moments:
            self.state = AdamState(
                self.state.parameters, *AdamState.start(self.state.parameters)[1:5], self.state.step_factor
            )

    def _restart(self, s: int) -> None:
        a, b = self.starts[s], self.starts[s + 1]
        rng = self.stream(INITIAL, 1 + s)
        self.state.parameters[:, a:b] = initial_parameters(rng, self.n_inputs, int(b - a), self.config)
        self.state.first_moment[:, a:b] = 0.0
        self.state.second_moment[:, a:b] = 0.0

    def release(self) -> None:
        """Let go of rows held outside the source; there are none on the CPU."""

    def adopt_average(self) -> None:
        """Replace the last iterate by the mean of those averaged, if any."""
        if self.state.counters[2]:
            self.state.parameters[:] = self.state.average


def _rates(config: MapConfig, depth: int) -> FloatArray:
    """Learning rate of every step."""
    base = config.rate_at(depth)
    if config.schedule == "constant":
        return np.full(config.n_minibatches, base)
    return falling_rates(base, config.n_minibatches)


def falling_rates(base: float, n_steps: int) -> FloatArray:
    """From ``base`` to zero along half a cosine."""
    progress = (np.arange(n_steps) + 0.5) / n_steps
    return base * 0.5 * (1.0 + np.cos(np.pi * progress))


def _segments(config: MapConfig) -> Iterator[tuple[int, bool]]:
    """(end, averaging) of the steps between prunings; averaging starts after the last inner pruning."""
    n, every = config.n_minibatches, config.prune_every
    average_from = n if config.average_last == 0 else math.floor(n * (1 - config.average_last))
    inner = [step for step in range(every, n, every) if step <= average_from]
    edges = sorted({0, *inner, average_from, n})
    for begin, end in pairwise(edges):
        yield end, begin >= average_from


def fit_map(
    source: RowSource,
    n_sides: int,
    *,
    depth: int = 1,
    config: MapConfig | None = None,
    seed: int = 0,
    complements: bool = False,
    initial: tuple[Side, ...] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> MapResult:
    """Fit all sides of one layer by Adam on the MAP objective.

    Parameters
    ----------
    source : RowSource
        Inputs without the constant column, class codes 0 … n_sides - 1 (side s is "code == s"; a single
        side is "code == 1").
    n_sides : int
        Number of sides.
    depth : int
        Layer number T, counted from 1; sets the learning rate and the random streams.
    config : MapConfig
        Options.
    seed : int
        Same seed, same bits: nothing depends on thread counts.
    complements : bool
        The second half of the sides stand against the classes of the first half ("code != s").
    initial : tuple of Side or None
        Starting point instead of a random one.
    on_progress : callable or None
        Called after each compiled call with step, n_steps, loss and n_experts.
    should_stop : callable or None
        Asked between compiled calls; True ends the training with what there is.

    Returns
    -------
    MapResult
    """
    config = MapConfig() if config is None else config
    trainer = make_trainer(source, n_sides, depth, config, seed, complements)
    trainer.start(initial)
    batches = source.minibatches(trainer.stream(BATCHES), trainer.batch_size, config.n_minibatches, config.replacement)
    held: Minibatches | None = None
    rates = _rates(config, depth)
    losses: list[FloatArray] = []
    pruned_at: list[int] = []
    experts: list[NDArray[Any]] = []
    step = 0
    stopped = should_stop is not None and should_stop()
    for end, averaging in _segments(config):
        if stopped:
            break
        while step < end:
            chunk, held = (held or next(batches)).split(end - step)
            losses.append(trainer.run(chunk, rates[step : step + chunk.n_batches], averaging))
            step += chunk.n_batches
            if on_progress is not None:
                on_progress(
                    {
                        "step": step,
                        "n_steps": config.n_minibatches,
                        "loss": float(np.nanmean(losses[-1])) if np.isfinite(losses[-1]).any() else math.nan,
                        "n_experts": tuple(int(k) for k in np.diff(trainer.starts)),
                    }
                )
            if should_stop is not None and should_stop():
                stopped = True
                break
        if averaging:
            trainer.adopt_average()
        trainer.prune(may_restart=end < config.n_minibatches and not stopped)
        pruned_at.append(step)
        experts.append(np.diff(trainer.starts))
    parameters = trainer.state.parameters
    likelihood = log_likelihoods(source, parameters, trainer.starts, trainer.positive)
    trace = {
        "loss": np.concatenate(losses) if losses else np.empty(0),
        "pruned_at": np.array(pruned_at, np.int64),
        "n_experts": np.array(experts, np.int64).reshape(len(experts), n_sides),
        "step_halvings": trainer.state.counters[1:2].copy(),
        "reinitialised": trainer.reinitialised,
        "kept_strongest": trainer.kept_strongest,
        "objective": np.array(penalty(parameters, prior_constants(config, trainer.starts)) - likelihood.sum()),
    }
    return MapResult(unpack(parameters, trainer.starts), trace, likelihood)


def make_trainer(
    source: RowSource, n_sides: int, depth: int, config: MapConfig, seed: int, complements: bool = False
) -> Trainer:
    """The CPU trainer, or the torch one when a device is asked for (imported only then)."""
    if n_sides < 1 or depth < 1:
        raise InvalidInputError(f"n_sides={n_sides}, depth={depth}; both must be at least 1.")
    if source.n_rows == 0:
        raise InvalidInputError("The data have no rows; at least one is needed to fit.")
    if config.device is None:
        return Trainer(source, n_sides, depth, config, seed, complements)
    from pbdn.sgd.torch_engine import TorchTrainer

    return TorchTrainer(source, n_sides, depth, config, seed, complements)
