"""One Gibbs sweep: local step over row blocks, ordered sums, global step. Three samplers of one posterior.

Given the globals, all row variables are independent across rows, and every global conditional depends on the rows
only through sums; so a sweep may be split over blocks, threads or machines without changing its law. Two phases:

A. Events of the rows that had some, hence per expert their number l_k and the exposure S_k = Σ_i e_i s(ψ_ik)
   (`pbdn.gibbs.first_events`, `pbdn.gibbs.event_times`, `pbdn.gibbs.counts`); then γ₀, r and c₀ (`pbdn.gibbs.expert_weights`).
B. Polya-Gamma weights given the new expert weights (`pbdn.gibbs.polya_gamma_weights`), hence A_k = Σ ω x x' and h_k; then
   β, α and b (`pbdn.gibbs.hyperplanes`).

Between the phases only the events are kept and the log-time o_i up to which a row was watched. Kernels take a range of blocks
and write into per-block or per-group slots, so results do not depend on how it was cut.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from pbdn.errors import InvalidInputError, NumericalError
from pbdn.gibbs import counts, event_times, expert_weights, first_events, hyperplanes, polya_gamma_weights
from pbdn.gibbs.kernel_arguments import Blocks, BlockSums, Experts, PriorValues, RowTerms, Statistics, Tables
from pbdn.gibbs.rows import BEFORE, Holder, Rows, RowsElsewhere
from pbdn.gibbs.state import GlobalState
from pbdn.numerics.arrays import BoolArray, FloatArray
from pbdn.variates.random_stream import WEIGHTS, SweepStreams, open_stream, stream_buffer

SamplerName = Literal["first_events", "event_times", "counts"]
Latent = FloatArray | None  # counts m (n, K) of the `counts` sampler; the others keep nothing per row


class SweepInfo(NamedTuple):
    """What a sweep saw on its way.

    ``log_likelihood`` is that of the state *before* the sweep, with its active experts; ``tables`` l_k and ``rescues``
    (ridges added in factorisations) are those of the sweep itself.
    """

    log_likelihood: float
    tables: FloatArray
    rescues: int


class Workers:
    """Threads that share the row blocks of one chain; one worker runs in the calling thread."""

    def __init__(self, n_threads: int = 1) -> None:
        self.n_threads = max(1, int(n_threads))
        self._pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None

    def map(self, task: Callable[[int, int], Any], rows: Rows) -> list[Any]:
        """Run task(first block, last block) over cuts of the blocks that respect the groups; results in order."""
        n_groups = -(-rows.n_blocks // rows.group_blocks)
        if self._pool is None or n_groups < 2:
            return [task(0, rows.n_blocks)]
        cuts = np.linspace(0, n_groups, min(self.n_threads, n_groups) + 1).astype(int) * rows.group_blocks
        cuts = np.minimum(cuts, rows.n_blocks)
        return list(self._pool.map(task, cuts[:-1].tolist(), cuts[1:].tolist()))

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()


_blas_lock = Lock()
_blas_users = 0
_blas_limit: Any = None


@cache
def _thread_pools() -> Any:
    """Of all libraries that are loaded. Looking for them takes as long as a small fit, so it is done once."""
    return ThreadpoolController()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while any chain runs: same bits everywhere, no oversubscription."""
    global _blas_users, _blas_limit
    with _blas_lock:
        if _blas_users == 0:
            _blas_limit = _thread_pools().limit(limits=1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limit.restore_original_limits()
                _blas_limit = None


def initial_latent(sampler: SamplerName, rows: Rows | RowsElsewhere, n_experts: int) -> Latent:
    """Per-row state before the first sweep: nothing, or zero counts."""
    if sampler != "counts":
        return None
    if not isinstance(rows, Rows):
        raise InvalidInputError("sampler='counts' keeps a count per row and expert here; use sampler='first_events'.")
    if np.any(rows.arrays.kind > BEFORE) or np.any((rows.arrays.copies != 0) & (rows.arrays.copies != 1)):
        raise InvalidInputError(
            "sampler='counts' takes binary rows with one copy each; repeat rows instead of weighting them, "
            "or use sampler='first_events'."
        )
    return np.zeros((rows.n_rows, n_experts))


class RowsHere:
    """The local steps of one sweep on rows of this process.

    Parameters
    ----------
    sampler : str
    rows : Rows
    planes : array (K, D)
        Hyperplanes that the sweep starts from.
    latent : array or None
        Counts of the `counts` sampler, which are changed in place.
    key, index
        Name the random streams.
    workers : Workers
    """

    def __init__(
        self,
        sampler: SamplerName,
        rows: Rows,
        planes: FloatArray,
        latent: Latent,
        key: np.uint64,
        index: int,
        workers: Workers,
    ) -> None:
        self.sampler, self.rows, self.planes, self.latent, self.workers = sampler, rows, planes, latent, workers
        self.key, self.index = key, index
        self.watched = np.empty(rows.n_rows)  # log-time up to which each row's base process counts
        one_event = sampler == "first_events" and rows.single_events
        self.winner = (
            np.empty(rows.n_rows, np.int64) if one_event else None
        )  # expert of each row's only event, -1: none
        self.tables: dict[tuple[int, int], Tables | None] = {}  # or events, for each range of blocks

    def _streams(self) -> SweepStreams:
        return SweepStreams(stream_buffer(), self.key, self.index, self.rows.first_block)

    def draw_events(self, experts: Experts) -> BlockSums:
        """Phase A: events of all rows (or their counts, in ``latent``), and sums per group of blocks."""
        rows, sampler = self.rows, self.sampler
        shape = rows.n_blocks, len(experts.log_weights)
        sums = BlockSums(np.empty(shape), np.empty(shape), np.empty(rows.n_blocks))

        def task(first: int, last: int) -> None:
            common = (rows.arrays, experts, self._streams(), Blocks(first, last))
            if sampler == "counts":
                counts.draw_counts(*common, self.latent, sums)
            elif self.winner is not None:
                first_events.draw_first_events(*common, self.watched, self.winner, sums)
            else:
                found = event_times.draw_events(sampler == "first_events", *common, self.watched, sums)
                self.tables[first, last] = found

        self.workers.map(task, rows)
        return sums.by_group(rows.group_blocks)

    @property
    def is_wide(self) -> bool:
        """Whether there are fewer rows than inputs, so that a D × D matrix is never formed."""
        return self.rows.n_rows < self.rows.n_inputs and self.rows.arrays.sparse is None

    def row_terms(self, weights: FloatArray) -> RowTerms:
        """Phase B of few rows: what every row adds, unsummed."""
        rows, base = self.rows, (self.planes, weights)
        terms = RowTerms(np.empty((rows.n_rows, len(weights))), np.empty((rows.n_rows, len(weights))))
        if self.latent is not None:
            polya_gamma_weights.row_count_statistics(rows.arrays, *base, self.latent, self._streams(), terms)
        else:
            events = (self.winner, _join(self.tables))
            polya_gamma_weights.row_statistics(rows.arrays, self.watched, *base, *events, self._streams(), terms)
        return terms

    def sum_statistics(self, weights: FloatArray) -> Statistics:
        """Phase B: Polya-Gamma weights of all rows, summed per group of blocks."""
        rows, planes = self.rows, self.planes
        n_experts, n_inputs = planes.shape
        n_groups = -(-rows.n_blocks // rows.group_blocks)
        gram = np.zeros((n_groups, n_inputs * (n_inputs + 1) // 2, n_experts))
        statistics = Statistics(gram, np.zeros((n_groups, n_inputs, n_experts)), rows.group_blocks)

        def task(first: int, last: int) -> None:
            where = (self._streams(), Blocks(first, last), statistics)
            if self.latent is not None:
                polya_gamma_weights.sum_count_statistics(rows.arrays, planes, weights, self.latent, *where)
            else:
                found = self.tables.get((first, last))
                polya_gamma_weights.sum_statistics(
                    rows.arrays, self.watched, planes, weights, self.winner, found, *where
                )

        self.workers.map(task, rows)
        return statistics


def sweep(
    sampler: SamplerName,
    rows: Rows | RowsElsewhere,
    state: GlobalState,
    latent: Latent,
    active: BoolArray,
    priors: PriorValues,
    key: np.uint64,
    index: int,
    workers: Workers,
) -> tuple[GlobalState, Latent, SweepInfo]:
    """One sweep of the posterior's Markov chain: state in, state out.

    ``key`` and ``index`` name the random streams, ``active`` the experts that count in the reported log-likelihood.
    """
    latent = None if latent is None else latent.copy()
    holder: Holder
    if isinstance(rows, Rows):
        holder = RowsHere(sampler, rows, state.hyperplanes, latent, key, index, workers)
    else:
        holder = rows.holder(sampler, state.hyperplanes, key, index)
    sums = holder.draw_events(Experts(state.hyperplanes, state.log_weights, active))
    n_tables = sums.n_tables.sum(axis=0)
    buffer = stream_buffer()
    stream = np.uint64(open_stream(buffer, key, index, 0, WEIGHTS))  # the type it has inside kernels
    mass, log_weights, inv_scale = expert_weights.draw_expert_weights(
        stream, n_tables, sums.exposure.sum(axis=0), state.mass, state.inv_scale, priors
    )
    weights = np.exp(log_weights)
    prior = (state.coef_precision, state.coef_rate, priors, SweepStreams(stream_buffer(), key, index))
    if isinstance(holder, RowsHere) and holder.is_wide:
        drawn = hyperplanes.draw_experts_dual(holder.rows.arrays.dense, holder.row_terms(weights), *prior)
    else:
        drawn = hyperplanes.draw_experts(holder.sum_statistics(weights), *prior)
    planes, precision, coef_rate, rescues = drawn
    _check_finite(planes, index, rows)
    new = GlobalState(planes, log_weights, mass, inv_scale, precision, coef_rate)
    return new, latent, SweepInfo(float(sums.log_lik.sum()), n_tables, rescues)


def _join(tables: dict[tuple[int, int], Tables | None]) -> Tables | None:
    """Tables of all ranges of blocks as one; None where there are none."""
    parts = [part for _, part in sorted(tables.items()) if part is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    shifts = np.cumsum([0, *(len(part.row) for part in parts)])
    return Tables(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.expert for part in parts]),
        np.concatenate([part.pg_weight for part in parts]),
        np.concatenate([part.linear for part in parts]),
        np.concatenate([part.ends + shift for part, shift in zip(parts, shifts[:-1], strict=True)]),
        parts[0].first,
    )


def _check_finite(planes: FloatArray, index: int, rows: Rows | RowsElsewhere) -> None:
    if np.isfinite(planes).all():
        return
    largest = ""
    if isinstance(rows, Rows):
        values = rows.arrays.dense if rows.arrays.sparse is None else rows.arrays.sparse.values
        largest = f" (largest |input| {np.abs(values).max(initial=0.0):.3g})"
    raise NumericalError(f"The hyperplanes of sweep {index + 1} are not finite{largest}; standardise the features.")
