"""Passes over all rows: which experts the data need, by exact probabilities or by a draw, and the sides' likelihoods."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from pbdn.data.columns import Columns
from pbdn.data.row_source import Block, RowSource
from pbdn.model.labelling import says_yes
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.sgd.kernel_arguments import TINY_RATE, LabelledRows, SideColumns, Work, workspace
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import as_labelled_rows, unpack
from pbdn.sgd.side_kernels import add_log_inactivity, side_log_likelihood

COLUMN_WINDOW = 4096  # rows of columns sorted by class at a time: they stay in cache
_DRAW_ROWS = 4096


def _prepared(block: Block, parameters: FloatArray, starts: IntArray) -> tuple[LabelledRows, Work]:
    """A block of data as the kernels take it, and the memory that they need for it."""
    data = as_labelled_rows(block.inputs, block.codes, block.weights)
    return data, workspace(not sp.issparse(block.inputs), parameters.shape[0] - 2, starts)


# What is done with a block stands at the level of the module: sent to another process it is found there by name. Sent with all
# that it is made of, as functions within functions are, its kernels would be compiled anew in every process.


def _block_inactivity(
    parameters: FloatArray, sides: SideColumns, floor: float, so_far: FloatArray, block: Block
) -> tuple[FloatArray, int]:
    """What a block adds to ``so_far``, and its rows."""
    sums = np.where(so_far > floor, 0.0, so_far)  # who is decided stays out, whatever the others' sums
    is_columns = isinstance(block.inputs, Columns)
    data, work = _prepared(block, parameters, sides.starts)
    window = COLUMN_WINDOW if is_columns else max(len(block), 1)
    check = add_log_inactivity(data, parameters, sides, floor, window, work, sums)
    if is_columns:
        block.inputs.refuse_not_finite(check)
    return sums, len(block)


def _block_likelihoods(parameters: FloatArray, sides: SideColumns, block: Block) -> tuple[FloatArray, float]:
    """Log-likelihoods of the sides on a block, and the weight of its rows."""
    sums = np.zeros(len(sides.starts) - 1)
    data, work = _prepared(block, parameters, sides.starts)
    check = side_log_likelihood(data, parameters, sides, work, sums)
    if isinstance(block.inputs, Columns):
        block.inputs.refuse_not_finite(check)
    return sums, float(block.weights.sum())


def log_inactivity(
    source: RowSource,
    parameters: FloatArray,
    starts: IntArray,
    positive: IntArray,
    *,
    floor: float = -math.inf,
    should_stop: Callable[[], bool] | None = None,
) -> FloatArray:
    """ln P(expert inactive | all labels) of every expert, in one pass.

    The pass ends as soon as every expert has fallen below ``floor``; values under that are then only upper
    bounds, which is all that a pruning rule with that threshold needs. ``should_stop`` is asked between blocks of rows;
    a pass that it ends says -∞, which no rule prunes.
    """
    result = np.zeros(parameters.shape[1])
    sides = SideColumns(starts, positive)
    seen = 0
    for sums, n_rows in source.each(partial(_block_inactivity, parameters, sides, floor, result)):
        seen += n_rows
        result += np.where(result > floor, sums, 0.0)
        if not (result > floor).any():
            break
        if should_stop is not None and source.n_rows > seen and should_stop():
            return np.full_like(result, -math.inf)
    return result


def log_likelihoods(
    source: RowSource,
    parameters: FloatArray,
    starts: IntArray,
    positive: IntArray,
    should_stop: Callable[[], bool] | None = None,
) -> FloatArray:
    """Log-likelihood of every side over all rows.

    ``should_stop`` is asked between blocks of rows; what the rows left would add is then guessed from those seen.
    """
    total, weight = np.zeros(len(starts) - 1), 0.0
    sides = SideColumns(starts, positive)
    for sums, of_rows in source.each(partial(_block_likelihoods, parameters, sides)):
        total += sums
        weight += of_rows
        if should_stop is not None and 0.0 < weight < source.total_weight and should_stop():
            return total * (source.total_weight / weight)
    return total


def _truncated_poisson(rng: Generator, rate: FloatArray) -> IntArray:
    """Poisson given one event or more: the first at t (truncated exponential), then Pois(λ - t)."""
    first = -np.log1p(rng.random(rate.shape) * np.expm1(-rate))
    return 1 + rng.poisson(np.clip(rate - first, 0.0, 1e9))


def _draw_active(rng: Generator, rates: FloatArray, is_positive: Any, published: bool) -> Any:
    """Which experts are active on at least one row, from one draw; rates r_k s(ψ_ik) of one side."""
    if published:
        probability = -np.expm1(-rates)
        drawn = rng.random(rates.shape) < probability
        alone = is_positive & ~drawn.any(axis=1)
        chance = np.cumsum(probability[alone], axis=1)
        place = (rng.random((len(chance), 1)) * chance[:, -1:] > chance).sum(axis=1)
        active: Any = drawn.any(axis=0)
        active[np.minimum(place, rates.shape[1] - 1)] = True
        return active
    shares = np.maximum(rates[is_positive], TINY_RATE)
    total = shares.sum(axis=1)
    counts = rng.multinomial(_truncated_poisson(rng, total), shares / total[:, None])
    return counts.any(axis=0)


def draw_activity(
    rng: Generator,
    source: RowSource,
    parameters: FloatArray,
    starts: IntArray,
    positive: IntArray,
    *,
    published: bool,
) -> Any:
    """One draw of the activities of all experts over all rows (rows of weight zero left out)."""
    sides = unpack(parameters, starts)
    active = np.zeros(parameters.shape[1], bool)
    for block in source.blocks():
        for begin in range(0, len(block), _DRAW_ROWS):
            part: Block = block.take(slice(begin, begin + _DRAW_ROWS))
            part = part.take(np.flatnonzero(part.weights > 0))
            for s, side in enumerate(sides):
                is_positive = says_yes(part.codes, int(positive[s]))
                if published or is_positive.any():
                    rates = side.units(part.inputs) * side.expert_weights
                    active[starts[s] : starts[s + 1]] |= _draw_active(rng, rates, is_positive, published)
    return active


def surviving(
    rng: Generator,
    source: RowSource,
    parameters: FloatArray,
    starts: IntArray,
    positive: IntArray,
    config: MapSettings,
    should_stop: Callable[[], bool] | None = None,
) -> tuple[Any, FloatArray]:
    """Which experts to keep, and how much each is needed (for sides that would lose all)."""
    if config.pruning == "none":
        return np.ones(parameters.shape[1], bool), parameters[0].copy()
    if config.pruning == "exact":
        threshold = math.log(config.prune_above)
        log_inactive = log_inactivity(source, parameters, starts, positive, floor=threshold, should_stop=should_stop)
        return log_inactive <= threshold, -log_inactive
    published = config.pruning == "published_draw"
    return draw_activity(rng, source, parameters, starts, positive, published=published), parameters[0].copy()
