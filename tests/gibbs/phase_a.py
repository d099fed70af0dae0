"""Run phase A of a sweep on all rows, for tests of its laws."""

from functools import partial

import numpy as np

from pbdn.gibbs.event_times import draw_events
from pbdn.gibbs.first_events import draw_first_events
from pbdn.gibbs.kernel_arguments import Blocks, BlockSums, Experts
from pbdn.variates.random_stream import SweepStreams, stream_buffer, stream_key

WEIGHTS = np.array([0.4, 1.5, 0.05])


def streams_of(seed, sweep=0):
    return SweepStreams(stream_buffer(), stream_key(seed), sweep)


def empty_sums(n_blocks, n_experts):
    return BlockSums(np.empty((n_blocks, n_experts)), np.empty((n_blocks, n_experts)), np.empty(n_blocks))


def events_of(rows, planes, weights, seed, first_only, sweep=0, in_blocks=False):
    """`Tables` (or the winners), watched, tables of experts, exposure sums, log-likelihood."""
    watched, winner = np.empty(rows.n_rows), np.empty(rows.n_rows, int)
    draw = draw_first_events if in_blocks else partial(draw_events, first_only)
    experts = Experts(planes, np.log(weights), np.ones(len(weights), bool))
    sums = empty_sums(rows.n_blocks, len(weights))
    found = draw(
        rows.arrays, experts, streams_of(seed, sweep), Blocks(0, rows.n_blocks), watched,
        *([winner] if in_blocks else []), sums,
    )  # fmt: skip
    return winner if in_blocks else found, watched, sums.n_tables.sum(0), sums.exposure.sum(0), sums.log_lik.sum()
