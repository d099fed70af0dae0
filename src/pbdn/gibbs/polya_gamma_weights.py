"""Phase B: every row gets its Polya-Gamma weights ω_ik, given the *new* expert weights, and these are summed.

The sums are A_k = Σ_i ω_ik x_i x_i' and h_k (`pbdn.gibbs.gram`), all that the draw of the hyperplanes needs. With ω and the
linear terms of a row kept apart instead, the same serves data of fewer rows than inputs.
"""

from typing import Any, NamedTuple

import numpy as np

from pbdn.gibbs.gram import add_block, gram_scratch
from pbdn.gibbs.kernel_arguments import Blocks, RowTerms, Statistics, Tables
from pbdn.gibbs.matrices import as_vector, block_distances, transposed
from pbdn.gibbs.rows import BLOCK_ROWS, RowArrays
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import inlined, internal, kernel
from pbdn.variates.polya_gamma import block_work, polya_gamma_block
from pbdn.variates.random_stream import PG_WEIGHTS, SweepStreams, stream_at


class BlockScratch(NamedTuple):
    """Memory for the signed distances of a block, and for drawing its Polya-Gamma variates."""

    distance: FloatArray
    work: Any


@internal
def block_scratch(n_experts):
    """Scratch for blocks of rows and so many experts."""
    return BlockScratch(np.empty((BLOCK_ROWS, n_experts)), block_work(BLOCK_ROWS * n_experts))


@internal
def row_terms(n_experts):
    """Memory for the terms of a block."""
    return RowTerms(np.empty((BLOCK_ROWS, n_experts)), np.empty((BLOCK_ROWS, n_experts)))


@inlined
def draw_pg_weights(
    rows: RowArrays, watched, winner, tables, planes_t, weights, block, streams: SweepStreams, scratch: BlockScratch,
    terms: RowTerms,
):  # fmt: skip
    """ω and linear terms of one block's rows, with those of their events. Returns first row and number.

    The base draws ω_ik ~ PG(e_i r_k, ψ_ik), linear -(e_i r_k / 2 + ω_ik o_i). Where the base was watched up to the row's only
    event, of expert k = ``winner`` (-1: none), that event has the same ψ_ik, and by additivity one draw PG(1 + e_i r_k, ψ_ik)
    is both, with ½ more in the linear term. ``winner`` or ``tables`` (events that have ω and linear terms) is None.
    """
    n_experts = weights.shape[0]
    pg_weights, linear = terms
    low = block * BLOCK_ROWS
    n = min(BLOCK_ROWS, watched.shape[0] - low)
    stream = stream_at(streams, block, PG_WEIGHTS)
    block_distances(rows.dense, rows.sparse, watched, planes_t, low, low + n, scratch.distance)
    for i in range(n):
        exposure = rows.exposure[low + i]
        for k in range(n_experts):
            linear[i, k] = exposure * weights[k]
    if winner is not None:
        for i in range(n):
            if winner[low + i] >= 0:
                linear[i, winner[low + i]] += 1.0
    polya_gamma_block(
        stream, as_vector(linear), as_vector(scratch.distance), n * n_experts, scratch.work, as_vector(pg_weights)
    )
    for i in range(n):
        offset = watched[low + i]
        for k in range(n_experts):
            linear[i, k] = -0.5 * linear[i, k] - pg_weights[i, k] * offset
    if winner is not None:
        for i in range(n):
            if winner[low + i] >= 0:
                linear[i, winner[low + i]] += 1.0  # -½(1 + e r) + 1 = ½ - ½ e r
    if tables is not None:
        begin = 0 if block == tables.first else tables.ends[block - tables.first - 1]
        for j in range(begin, tables.ends[block - tables.first]):
            i, k = tables.row[j] - low, tables.expert[j]
            pg_weights[i, k] += tables.pg_weight[j]
            linear[i, k] += tables.linear[j]
    return low, n


@inlined
def draw_count_weights(
    rows: RowArrays, counts, planes_t, weights, block, streams: SweepStreams, scratch: BlockScratch, terms: RowTerms
):
    """The same for the `counts` sampler: ω_ik ~ PG(m_ik + e_i r_k, ψ_ik) and ½(m_ik - e_i r_k) - ω_ik o_i."""
    n_experts = weights.shape[0]
    pg_weights, linear = terms
    low = block * BLOCK_ROWS
    n = min(BLOCK_ROWS, rows.exposure.shape[0] - low)
    stream = stream_at(streams, block, PG_WEIGHTS)
    block_distances(rows.dense, rows.sparse, rows.offset, planes_t, low, low + n, scratch.distance)
    for i in range(n):
        for k in range(n_experts):
            linear[i, k] = counts[low + i, k] + rows.exposure[low + i] * weights[k]
    polya_gamma_block(
        stream, as_vector(linear), as_vector(scratch.distance), n * n_experts, scratch.work, as_vector(pg_weights)
    )
    for i in range(n):
        for k in range(n_experts):
            base = rows.exposure[low + i] * weights[k]
            linear[i, k] = 0.5 * (counts[low + i, k] - base) - pg_weights[i, k] * rows.offset[low + i]
    return low, n


@kernel
def sum_statistics(
    rows: RowArrays, watched, planes, weights, winner, tables: Tables | None, streams: SweepStreams, blocks: Blocks,
    statistics: Statistics,
):  # fmt: skip
    """Phase B of `event_times` and `first_events` on some blocks: add to the statistics of their groups."""
    n_experts = planes.shape[0]
    planes_t, scratch, terms = transposed(planes), block_scratch(n_experts), row_terms(n_experts)
    products = gram_scratch(planes.shape[1], n_experts)
    for block in range(blocks.first, blocks.last):
        low, n = draw_pg_weights(rows, watched, winner, tables, planes_t, weights, block, streams, scratch, terms)
        group = block // statistics.group_blocks
        add_block(rows.dense, rows.sparse, low, n, terms, products, statistics.gram[group], statistics.moment[group])


@kernel
def sum_count_statistics(
    rows: RowArrays, planes, weights, counts, streams: SweepStreams, blocks: Blocks, statistics: Statistics
):
    """Phase B of `counts` on some blocks."""
    n_experts = planes.shape[0]
    planes_t, scratch, terms = transposed(planes), block_scratch(n_experts), row_terms(n_experts)
    products = gram_scratch(planes.shape[1], n_experts)
    for block in range(blocks.first, blocks.last):
        low, n = draw_count_weights(rows, counts, planes_t, weights, block, streams, scratch, terms)
        group = block // statistics.group_blocks
        add_block(rows.dense, rows.sparse, low, n, terms, products, statistics.gram[group], statistics.moment[group])


@kernel
def row_statistics(
    rows: RowArrays, watched, planes, weights, winner, tables: Tables | None, streams: SweepStreams, terms: RowTerms
):
    """Phase B where there are fewer rows than inputs: the terms of every row, unsummed."""
    planes_t, scratch = transposed(planes), block_scratch(planes.shape[0])
    for block in range((rows.exposure.shape[0] + BLOCK_ROWS - 1) // BLOCK_ROWS):
        own = RowTerms(terms.pg_weights[block * BLOCK_ROWS :], terms.linear[block * BLOCK_ROWS :])
        draw_pg_weights(rows, watched, winner, tables, planes_t, weights, block, streams, scratch, own)


@kernel
def row_count_statistics(rows: RowArrays, planes, weights, counts, streams: SweepStreams, terms: RowTerms):
    """The same for `counts`."""
    planes_t, scratch = transposed(planes), block_scratch(planes.shape[0])
    for block in range((rows.exposure.shape[0] + BLOCK_ROWS - 1) // BLOCK_ROWS):
        own = RowTerms(terms.pg_weights[block * BLOCK_ROWS :], terms.linear[block * BLOCK_ROWS :])
        draw_count_weights(rows, counts, planes_t, weights, block, streams, scratch, own)
