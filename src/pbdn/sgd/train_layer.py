"""MAP by SGD of one layer: all sides in one Adam step, experts pruned as they die."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.data.row_source import Minibatches, RowSource
from pbdn.errors import InvalidInputError
from pbdn.model.labelling import Labelling
from pbdn.model.network import Side
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import wait_for_helper
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.timed_trainer import TimedTrainer
from pbdn.sgd.trainer import BATCHES, Trainer, falling_rates


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


def _rates(config: MapSettings, depth: int) -> FloatArray:
    """Learning rate of every step."""
    base = config.rate_at(depth)
    if config.schedule == "constant":
        return np.full(config.n_minibatches, base)
    return falling_rates(base, config.n_minibatches)


def _segments(config: MapSettings) -> Iterator[tuple[int, bool]]:
    """(end, averaging) of the steps between prunings; averaging starts after the last inner pruning."""
    n, every = config.n_minibatches, config.prune_every
    average_from = n if config.average_last == 0 else math.floor(n * (1 - config.average_last))
    inner = [step for step in range(every, n, every) if step <= average_from]
    edges = sorted({0, *inner, average_from, n})
    for begin, end in pairwise(edges):
        yield end, begin >= average_from


def fit_map(
    source: RowSource,
    labelling: Labelling,
    *,
    depth: int = 1,
    config: MapSettings | None = None,
    seed: int = 0,
    initial: tuple[Side, ...] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    n_threads: int = 1,
) -> MapResult:
    """Fit all sides of one layer by Adam on the MAP objective.

    Parameters
    ----------
    source : RowSource
        Inputs without the constant column, and class codes.
    labelling : Labelling
        Which codes are "yes" for each side.
    depth : int
        Layer number T, counted from 1; sets the learning rate and the random streams.
    config : MapSettings
    seed : int
        Same seed, same bits; of the traced losses the last digits depend on the number of threads.
    initial : tuple of Side or None
        Starting point instead of a random one.
    on_progress : callable or None
        Called after each compiled call with step, n_steps, loss and n_experts.
    should_stop : callable or None
        Asked between compiled calls; True ends the training with what there is.
    n_threads : int
        That share the sides, where there are many.

    Returns
    -------
    MapResult
    """
    config = MapSettings() if config is None else config
    trainer = make_trainer(source, labelling, depth, config, seed)
    trainer.n_threads = n_threads
    trainer.start(initial)
    batches = source.minibatches(trainer.stream(BATCHES), trainer.batch_size, config.n_minibatches, config.replacement)
    held: Minibatches | None = None
    stopped = should_stop is not None and should_stop()
    rates = np.empty(0) if stopped else _rates(config, depth)
    losses: list[FloatArray] = []
    pruned_at: list[int] = []
    experts: list[NDArray[Any]] = []
    step = 0
    for end, averaging in () if stopped else _segments(config):
        if stopped:
            break
        while step < end:
            chunk, held = (held or next(batches)).split(min(end - step, trainer.batches_per_call))
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
        trainer.prune(end < config.n_minibatches and not stopped, should_stop)
        pruned_at.append(step)
        experts.append(np.diff(trainer.starts))
    wait_for_helper()
    likelihood = trainer.log_likelihoods(should_stop)
    trainer.release()
    trace = {
        "loss": np.concatenate(losses) if losses else np.empty(0),
        "pruned_at": np.array(pruned_at, np.int64),
        "n_experts": np.array(experts, np.int64).reshape(len(experts), labelling.n_sides),
        "step_halvings": trainer.state.counters[1:2].copy(),
        "reinitialised": trainer.reinitialised,
        "kept_strongest": trainer.kept_strongest,
        "objective": np.array(trainer.penalty() - likelihood.sum()),
    }
    return MapResult(trainer.sides, trace, likelihood)


def make_trainer(source: RowSource, labelling: Labelling, depth: int, config: MapSettings, seed: int) -> Trainer:
    """The CPU trainer of classes or of values on a line, or the torch one of classes when a device is asked for."""
    if depth < 1:
        raise InvalidInputError(f"depth={depth}; layers are counted from 1.")
    if source.n_rows == 0:
        raise InvalidInputError("The data have no rows; at least one is needed to fit.")
    if hasattr(source, "trainer"):  # rows that other processes hold
        made: Trainer = source.trainer(labelling, depth, config, seed)
        return made
    if source.timed:
        return TimedTrainer(source, labelling, depth, config, seed)
    if config.device is None:
        return Trainer(source, labelling, depth, config, seed)
    from pbdn.sgd.torch_engine import TorchTrainer

    return TorchTrainer(source, labelling, depth, config, seed)
