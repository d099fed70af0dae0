"""Steps on values on a line, from rows that come in pieces: one layer (`TimedTrainer`), or all layers of a network together.

The parameters of a layer have one more row than those of classes, ln τ. Rows are dense for the compiled steps; sparse pieces are
made so one at a time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from pbdn.data.row_source import ArraySource, Block, Minibatches, RowSource
from pbdn.errors import NumericalError
from pbdn.model.labelling import Labelling, flipped
from pbdn.model.likelihood import log_probability, signed_distances, softplus
from pbdn.model.network import Layer, Side
from pbdn.model.timed import timed_log_likelihoods
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.sgd.joint_gradient import run_joint_steps
from pbdn.sgd.joint_training import FLAT, Packed
from pbdn.sgd.joint_workspace import NoisyRows, Stack, make_stack
from pbdn.sgd.kernel_arguments import CALL_NUMBERS, TIME_PRECISION, TINY_RATE
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import pack, penalty, prior_constants, unpack
from pbdn.sgd.trainer import POLISH, Trainer, falling_rates, start_of

FIRST_PENALTY = 0.3  # precision of a Gaussian prior on the coefficients of standardised inputs
PENALTY_ABOVE = 2.0  # in layers above the first, which can follow every row
JOINT_RATE = 0.01  # learning rate at the start of training all layers together
ROWS_OF_START = 4096  # rows among which hyperplanes are placed
PASS_ROWS = 4096  # rows whose rates are worked out at a time


def penalty_at(depth: int) -> float:
    """Precision of the coefficients of a layer."""
    return FIRST_PENALTY if depth == 1 else PENALTY_ABOVE


class Steps(NamedTuple):
    """A network in training: its shape, its parameters in one array, Adam's moments, and the constants of its penalty."""

    stack: Stack
    parameters: FloatArray
    first_moment: FloatArray
    second_moment: FloatArray
    slopes: FloatArray
    prior: Any

    def run(self, chunk: Minibatches, rates: FloatArray, done: int, n_rows: int, total_weight: float) -> FloatArray:
        """One compiled call on a chunk that stands for ``n_rows`` rows; returns the losses, NaN from a failure on."""
        block, losses = chunk.block, np.full(len(rates), np.nan)
        width = self.stack.n_inputs[0]
        nothing = np.zeros(width)
        rows = NoisyRows(
            block.inputs, block.targets, block.weights, nothing,
            np.zeros(len(chunk.order), np.int64), nothing, np.empty((0, 0)), np.empty(0, np.int64),
            np.empty((4, 0)), np.zeros(1, np.int64),
        )  # fmt: skip
        run_joint_steps(
            rows, chunk.order, chunk.batch_size, rates, done, n_rows, total_weight, self.stack, self.parameters,
            self.first_moment, self.second_moment, self.slopes, self.prior, np.empty(0), losses,
        )  # fmt: skip
        return losses


def dense_block(block: Block) -> Block:
    """The block with dense rows of doubles, as the compiled steps take them.

    They would be compiled once more for arrays that cannot be written to, such as those of Arrow.
    """
    inputs = block.inputs.toarray() if sp.issparse(block.inputs) else block.inputs
    inputs, weights = (np.require(part, np.float64, ["C", "W"]) for part in (inputs, block.weights))
    same = inputs is block.inputs and weights is block.weights
    return block if same else replace(block, inputs=inputs, weights=weights)


class TimedTrainer(Trainer):
    """The state of a fit of values on a line between compiled calls."""

    _block: Block | None = None
    _dense: Block

    def fresh(self, rng: Generator, width: int, n_sides: int) -> FloatArray:
        """Scattered experts, laid through rows of the source."""
        blocks = iter(self.source.blocks())
        rows = dense_block(next(blocks)).inputs
        some = rows[np.linspace(0, len(rows) - 1, min(len(rows), ROWS_OF_START)).astype(np.int64)]
        return self.packed(start_of(True, self.depth, rng, some, width, n_sides))[0]

    def packed(self, sides: tuple[Side, ...]) -> tuple[FloatArray, IntArray]:
        """Parameters of sides, ln τ last."""
        parameters, starts = pack(sides)
        times = [np.log(side.time_coefs) for side in sides if side.time_coefs is not None]
        return np.vstack([parameters, np.concatenate(times)]), starts

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides as they are now."""
        times = np.exp(self.state.parameters[-1])
        plain = unpack(self.state.parameters[:-1], self.starts)
        return tuple(
            replace(side, time_coefs=times[a:b]) for side, (a, b) in zip(plain, pairwise(self.starts), strict=True)
        )

    def _prior(self) -> Any:
        """A Gaussian penalty on the coefficients, and the prior of classes on the weights."""
        power = penalty_at(self.depth) * FLAT
        return prior_constants(self.config, self.starts)._replace(coef_power=power, coef_rate=FLAT, bias_power=0.0)

    def penalty(self) -> float:
        """Minus log-prior of the sides as they are now, up to a constant."""
        plain, times = self.state.parameters[:-1], self.state.parameters[-1]
        return penalty(plain, self._prior()) + 0.5 * TIME_PRECISION * float(times @ times)

    def run(self, chunk: Minibatches, rates: FloatArray, averaging: bool) -> FloatArray:
        """One compiled call; returns the minibatch losses. Iterates are not averaged."""
        if self._block is not chunk.block:
            self._block, self._dense = chunk.block, dense_block(chunk.block)
        state, prior = self.state, self._prior()
        parameters, first, second = (array.reshape(-1) for array in state[:3])
        stack = make_stack([self.starts], self.n_inputs, self.positive)
        steps = Steps(stack, parameters, first, second, prior.log_weight_slope, prior)
        done = int(state.counters[0])
        losses = steps.run(replace(chunk, block=self._dense), rates, done, self.n_rows, self.total_weight)
        if not np.isfinite(losses).all() or not np.isfinite(state.parameters).all():
            raise NumericalError(
                f"The MAP objective of layer {self.depth} is not finite; some values lie too far out. Take logarithms of y, "
                "standardise the columns of X, or lower learning_rate."
            )
        state.counters[0] += len(rates)
        return losses

    def release(self) -> None:
        """Let go of the rows of the last call."""
        self._block = None
        self.__dict__.pop("_dense", None)

    def evidence(self, rows: ArraySource) -> tuple[FloatArray, FloatArray]:
        """ln P(expert inactive) on these rows, and the weight of the rows in which an event was seen."""
        seen = [np.isfinite(bounds[:, 1]) for bounds in self._seen_by_sides(rows.block.targets)]
        weight = np.array([rows.block.weights[some].sum() for some in seen])
        return self._log_inactivity(rows, -math.inf, None), weight

    def surviving(self, should_stop: Callable[[], bool] | None) -> tuple[Any, FloatArray]:
        """Which experts to keep, and how much each is needed: the exact rule, whichever is asked for."""
        if self.config.pruning == "none":
            return np.ones(self.state.parameters.shape[1], bool), self.state.parameters[0].copy()
        threshold = math.log(self.config.prune_above)
        log_inactive = self._log_inactivity(self.source, threshold, should_stop)
        return log_inactive <= threshold, -log_inactive

    def _seen_by_sides(self, bounds: FloatArray) -> list[FloatArray]:
        """What rows say to each side."""
        turned = flipped(bounds)
        return [turned if positive == 1 else bounds for positive in self.positive]

    def _log_inactivity(self, source: RowSource, floor: float, should_stop: Callable[[], bool] | None) -> FloatArray:
        """ln P(expert inactive | what the rows say); -∞, which no rule prunes, where there was no time."""
        total, seen, sides = np.zeros(self.state.parameters.shape[1]), 0, self.sides
        for block in source.blocks():
            for begin in range(0, len(block), PASS_ROWS):
                part = block.take(slice(begin, begin + PASS_ROWS))
                said = self._seen_by_sides(part.targets)
                own = [
                    part.weights @ _log_inactive(side, part.inputs, bounds)
                    for side, bounds in zip(sides, said, strict=True)
                ]
                total += np.concatenate(own)
            seen += len(block)
            if not (total > floor).any():
                break
            if should_stop is not None and source.n_rows > seen and should_stop():
                return np.full_like(total, -math.inf)
        return total

    def log_likelihoods(self, should_stop: Callable[[], bool] | None = None) -> FloatArray:
        """Log-likelihood of every side over all rows."""
        return log_likelihoods_of(self.source, Layer(self.sides), should_stop)


def _log_inactive(side: Side, inputs: Any, bounds: FloatArray) -> FloatArray:
    """ln P(no event of an expert | what each row says), shape (n_rows, n_experts); 0 where no event was seen.

    An event exactly at u is another expert's with probability 1 - h_k/Σ_j h_j, h_k = r_k τ_k σ(ψ_k + τ_k u). Given one event or
    more in (a, c], none of them is the expert's with probability (e^{-d_k} - e^{-D}) / (1 - e^{-D}), d_k = r_k (s_c - s_a).
    """
    times, weights = side.time_coefs, side.expert_weights
    assert times is not None
    distance, (low, high) = signed_distances(side.hyperplanes, inputs), bounds.T[:2]
    out = np.zeros((len(bounds), side.n_experts))
    exact = low == high
    inside = ~exact & np.isfinite(high)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if exact.any():
            hazard = weights * times / (1.0 + np.exp(-(distance[exact] + times * high[exact, None])))
            share = hazard / np.maximum(hazard.sum(axis=1, keepdims=True), TINY_RATE)
            out[exact] = np.log1p(-np.minimum(share, 1.0))
        if inside.any():
            start = np.where(np.isfinite(low[inside, None]), low[inside, None], -math.inf)
            before = np.where(
                np.isfinite(start), softplus(distance[inside] + times * np.where(np.isfinite(start), start, 0.0)), 0.0
            )
            added = weights * (softplus(distance[inside] + times * high[inside, None]) - before)
            whole = np.maximum(added.sum(axis=1, keepdims=True), TINY_RATE)
            rest = np.maximum(whole - added, 0.0)
            out[inside] = -added + log_probability(rest) - log_probability(whole)
    return out


def log_likelihoods_of(source: RowSource, layer: Layer, should_stop: Callable[[], bool] | None = None) -> FloatArray:
    """Log-likelihood of every side of a layer over all rows of the source, which are its inputs.

    ``should_stop`` is asked between blocks of rows; what the rows left would add is then guessed from those seen.
    """
    total, weight = np.zeros(len(layer.sides)), 0.0
    for block in source.blocks():
        for begin in range(0, len(block), PASS_ROWS):
            part = block.take(slice(begin, begin + PASS_ROWS))
            total += timed_log_likelihoods(layer, part.inputs, part.targets, part.weights)
            weight += float(part.weights.sum())
        if should_stop is not None and 0.0 < weight < source.total_weight and should_stop():
            return total * (source.total_weight / weight)
    return total


def train_from_source(
    source: RowSource,
    layers: Sequence[Layer],
    labelling: Labelling,
    config: MapSettings,
    seed: int,
    *,
    should_stop: Callable[[], bool] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[Layer, ...] | None:
    """All layers trained together on rows that come in pieces, for as many steps as one layer took.

    Parameters
    ----------
    source : RowSource
        Of what the first layer sees.
    layers, labelling, config, seed
        The network as it was grown; the number of steps and rows per step are those of ``config``.
    should_stop, on_progress
        As in `pbdn.sgd.joint_training.train_together`.

    Returns
    -------
    tuple of Layer or None
        None where ``should_stop`` said so, or numbers overflowed.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(len(layers), POLISH)))
    packed = Packed.of(layers, source.n_features, labelling, config).with_gaussian_penalty(penalty_at(len(layers)))
    flat = packed.parameters
    steps = Steps(packed.stack, flat, np.zeros_like(flat), np.zeros_like(flat), packed.slopes, packed.prior)
    size, n_steps, done = min(config.batch_size, source.n_rows), config.n_minibatches, 0
    rates, per_call = falling_rates(JOINT_RATE, n_steps), max(1, int(CALL_NUMBERS / (size * flat.size)))
    for chunk in source.minibatches(rng, size, n_steps):
        rest: Minibatches | None = replace(chunk, block=dense_block(chunk.block))
        while rest is not None:
            if should_stop is not None and should_stop():
                return None
            some, rest = rest.split(per_call)
            own = rates[done : done + some.n_batches]
            losses = steps.run(some, own, done, source.n_rows, max(source.total_weight, 1e-300))
            if not np.isfinite(losses).all() or not np.isfinite(flat).all():
                return None
            done += some.n_batches
            if on_progress is not None:
                on_progress({"step": done, "n_steps": n_steps, "loss": float(losses[-1])})
    trained = packed.layers()
    return (*trained[:-1], Layer(tuple(side.strongest_first() for side in trained[-1].sides)))
