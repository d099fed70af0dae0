"""The state of a MAP fit between compiled calls: starting point, steps, pruning."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from pbdn.data.row_source import ArraySource, Minibatches, RowSource
from pbdn.errors import InvalidInputError, NumericalError
from pbdn.model.labelling import Labelling
from pbdn.model.network import Side
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.sgd.adam import AdamState, run_minibatches
from pbdn.sgd.kernel_arguments import CALL_NUMBERS, MAX_HALVINGS, LabelledRows, SideColumns, Steps, workspace
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import as_labelled_rows, pack, penalty, prior_constants, unpack
from pbdn.sgd.pruning import log_inactivity, log_likelihoods, surviving

SIDES_OF_PART = 5  # of a layer, at least, for each of the threads that share them
INITIAL_SPREAD = 0.1
START_GAIN = 3.0  # standard deviation of x'β over standardised rows at a scattered start
LEAST_SPREAD = (0.001, 0.01)  # of an input above units, for classes and on a line: what hardly speaks is not shouted at
START_TIME = 2.0  # τ at the start, for values of standard deviation one
INITIAL, BATCHES, PRUNING, POLISH = range(4)  # purposes of the random streams


def initial_parameters(rng: Generator, n_inputs: int, width: int, config: MapSettings, n_sides: int = 1) -> FloatArray:
    """Random start of ``n_sides`` sides: (n_inputs + 2, n_sides * width)."""
    parameters = INITIAL_SPREAD * rng.standard_normal((n_inputs + 2, n_sides * width))
    if config.initial == "balanced":
        parameters[0] -= math.log(width)
    return parameters


def falling_rates(base: float, n_steps: int) -> FloatArray:
    """From ``base`` to zero along half a cosine."""
    progress = (np.arange(n_steps) + 0.5) / n_steps
    return base * 0.5 * (1.0 + np.cos(np.pi * progress))


def scattered_sides(
    rng: Generator, rows: FloatArray, n_experts: int, n_sides: int, least_spread: float = 0.0
) -> tuple[Side, ...]:
    """Random hyperplanes, each through a random row; inputs that vary no more than ``least_spread`` get no coefficient.

    Started near zero, all experts of a side learn the same direction, and all but one die. Scattered ones differ.
    """
    spread = rows.std(axis=0)
    gain = START_GAIN / math.sqrt(max(1, int(np.count_nonzero(spread))))
    slope = np.divide(gain, spread, out=np.zeros_like(spread), where=spread > least_spread)
    sides = []
    for _ in range(n_sides):
        coefficients = slope * rng.standard_normal((n_experts, rows.shape[1]))
        anchors = rows[rng.integers(len(rows), size=n_experts)]
        bias = -np.einsum("kv,kv->k", coefficients, anchors)
        planes = np.column_stack([bias, coefficients])
        sides.append(Side(np.ascontiguousarray(planes), np.full(n_experts, 1.0 / n_experts)))
    return tuple(sides)


def start_of(
    timed: bool, depth: int, rng: Generator, rows: FloatArray, n_experts: int, n_sides: int
) -> tuple[Side, ...]:
    """Scattered sides of layer 1, 2, … for classes, or for values on a line.

    A unit that is silent on these rows may speak on others, so that nothing large is multiplied by it.
    """
    sides = scattered_sides(rng, rows, n_experts, n_sides, LEAST_SPREAD[timed] if depth > 1 else 0.0)
    if not timed:
        return sides
    return tuple(replace(side, time_coefs=np.full(side.n_experts, START_TIME)) for side in sides)


class Trainer:
    """The state of a fit between compiled calls."""

    def __init__(self, source: RowSource, labelling: Labelling, depth: int, config: MapSettings, seed: int) -> None:
        """Read what the source knows without a pass over the rows."""
        self.source, self.config, self.n_sides, self.depth = source, config, labelling.n_sides, depth
        self.n_rows = source.n_rows
        self.total_weight = max(source.total_weight, 1e-300)
        self.n_inputs = source.n_features
        self.batch_size = min(config.batch_size, self.n_rows)
        self.labelling, self.positive = labelling, labelling.positive
        self.width = config.max_experts
        self._seed = seed
        self.n_threads = 1  # that share the sides
        self.rng = self.stream(PRUNING)
        self.reinitialised = np.zeros(self.n_sides, np.int64)
        self.kept_strongest = np.zeros(self.n_sides, np.int64)

    def stream(self, purpose: int, *more: int) -> Generator:
        """Random stream of this layer, by purpose."""
        return np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(self.depth, purpose, *more)))

    def start(self, initial: tuple[Side, ...] | None) -> None:
        """Set the starting point."""
        self.starts: IntArray
        if initial is None:
            parameters = self.fresh(self.stream(INITIAL), self.width, self.n_sides)
            self.starts = np.arange(self.n_sides + 1, dtype=np.int64) * self.width
        else:
            if len(initial) != self.n_sides or any(
                side.hyperplanes.shape[1] != self.n_inputs + 1 or side.n_experts == 0 for side in initial
            ):
                raise InvalidInputError(
                    f"initial does not fit: {self.n_sides} sides with at least one expert on "
                    f"{self.n_inputs} inputs are needed."
                )
            parameters, self.starts = self.packed(initial)
        self.state = AdamState.start(parameters)

    def fresh(self, rng: Generator, width: int, n_sides: int) -> FloatArray:
        """A starting point of sides of the same width, where none is given."""
        return initial_parameters(rng, self.n_inputs, width, self.config, n_sides)

    def packed(self, sides: tuple[Side, ...]) -> tuple[FloatArray, IntArray]:
        """Parameters of sides, one column per expert, and where sides start."""
        return pack(sides)

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides as they are now."""
        return unpack(self.state.parameters, self.starts)

    def penalty(self) -> float:
        """Minus log-prior of the sides as they are now, up to a constant."""
        return penalty(self.state.parameters, prior_constants(self.config, self.starts))

    def evidence(self, rows: ArraySource) -> tuple[FloatArray, FloatArray]:
        """ln P(expert inactive) on these rows, and the weight of the rows that say "yes" to each side."""
        weights = rows.block.weights
        weight = np.array([weights[yes].sum() for yes in self.labelling.targets(rows.block.codes).T])
        return log_inactivity(rows, self.state.parameters, self.starts, self.positive), weight

    def run(self, chunk: Minibatches, rates: FloatArray, averaging: bool) -> FloatArray:
        """Steps on some minibatches; returns the minibatch losses.

        Sides are independent given the rows, so threads share them; only the last digits of the losses depend on how many there
        are. Where a step of a part is not finite, all sides go through these steps together.
        """
        block = chunk.block
        data = as_labelled_rows(block.inputs, block.codes, block.weights)
        steps = Steps(chunk.order, chunk.batch_size, rates, averaging, float(self.n_rows), self.total_weight)
        n_parts = min(self.n_threads, self.n_sides // SIDES_OF_PART)
        if n_parts > 1:
            ends = np.unique(np.searchsorted(self.starts, np.linspace(0, self.starts[-1], n_parts + 1)))
            columns = [slice(*self.starts[[a, b]]) for a, b in pairwise(ends)]
            states = [self.state.keep(own).apart() for own in columns]
            with ThreadPoolExecutor(n_parts) as pool:
                losses = np.sum(
                    list(pool.map(partial(self._run_part, data, steps), states, ends[:-1], ends[1:])), axis=0
                )
            if all(state.counters[1] == self.state.counters[1] for state in states):
                self.state.take_back(states, columns)
                return np.asarray(losses)
        return self._run_part(data, steps, self.state, 0, self.n_sides)

    def _run_part(self, data: LabelledRows, steps: Steps, state: AdamState, first: int, end: int) -> FloatArray:
        """One compiled call for some sides, whose state changes in place."""
        losses = np.full(len(steps.rates), np.nan)
        starts = self.starts[first : end + 1] - self.starts[first]
        sides, prior = SideColumns(starts, self.positive[first:end]), prior_constants(self.config, starts)
        done = run_minibatches(
            data, steps, sides, state, prior, workspace(len(data.rows) == 1, self.n_inputs, starts), losses
        )
        if done < len(steps.rates) and state is self.state:
            raise self.not_finite()
        return losses

    def halve_steps(self) -> None:
        """After a step that is not finite, where `run` is not the compiled one: Adam begins anew, with steps half as long."""
        self.state.counters[0] = 0
        self.state.counters[1] += 1
        self.state.step_factor[0] *= 0.5
        if self.state.counters[1] > MAX_HALVINGS:
            raise self.not_finite()

    def not_finite(self) -> NumericalError:
        """What to say when halving does not help."""
        return NumericalError(
            f"The MAP objective of layer {self.depth} is not finite even after {int(self.state.counters[1])} halvings of the "
            "step; the inputs are too large. Standardise them, or lower learning_rate."
        )

    @property
    def batches_per_call(self) -> int:
        """Minibatches between two looks at the clock."""
        return max(1, int(CALL_NUMBERS / (self.batch_size * max(self.state.parameters.size, 1))))

    def prune(self, may_restart: bool, should_stop: Callable[[], bool] | None = None) -> None:
        """Drop experts that all rows find inactive; none where there was no time to look at all rows."""
        keep, score = self.surviving(should_stop)
        self.drop(keep, score, may_restart)

    def surviving(self, should_stop: Callable[[], bool] | None) -> tuple[Any, FloatArray]:
        """Which experts to keep, and how much each is needed."""
        return surviving(
            self.rng, self.source, self.state.parameters, self.starts, self.positive, self.config, should_stop
        )

    def log_likelihoods(self, should_stop: Callable[[], bool] | None = None) -> FloatArray:
        """Log-likelihood of every side over all rows."""
        return log_likelihoods(self.source, self.state.parameters, self.starts, self.positive, should_stop)

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
        self.state.parameters[:, a:b] = self.fresh(self.stream(INITIAL, 1 + s), int(b - a), 1)
        self.state.first_moment[:, a:b] = 0.0
        self.state.second_moment[:, a:b] = 0.0

    def release(self) -> None:
        """Let go of rows held outside the source; there are none on the CPU."""

    def adopt_average(self) -> None:
        """Replace the last iterate by the mean of those averaged, if any."""
        if self.state.counters[2]:
            self.state.parameters[:] = self.state.average
