"""One Gibbs sweep: local step over row blocks, ordered sums, global step. Three samplers of one posterior."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pbdn.errors import InvalidInputError, NumericalError
from pbdn.gibbs import first_events, local, local_counts, updates
from pbdn.gibbs.rows import BEFORE, RowArrays, Rows
from pbdn.gibbs.state import FloatArray, GlobalState, PriorValues
from pbdn.model.likelihood import log_probability, softplus
from pbdn.variates.stream import WEIGHTS, open_stream, stream_buffer

SamplerName = Literal["first_events", "event_times", "counts"]
ROWS_AT_ONCE = 8192  # of the plain log-likelihood
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


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread while any chain runs: same bits everywhere, no oversubscription."""
    global _blas_users, _blas_limit
    with _blas_lock:
        if _blas_users == 0:
            _blas_limit = threadpool_limits(1, user_api="blas")
        _blas_users += 1
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _blas_limit.unregister()
                _blas_limit = None


def initial_latent(sampler: SamplerName, rows: Rows, n_experts: int) -> Latent:
    """Per-row state before the first sweep: nothing, or zero counts."""
    if sampler != "counts":
        return None
    if np.any(rows.arrays.kind > BEFORE) or np.any((rows.arrays.copies != 0) & (rows.arrays.copies != 1)):
        raise InvalidInputError(
            "sampler='counts' takes binary rows with one copy each; repeat rows instead of weighting them, "
            "or use sampler='first_events'."
        )
    return np.zeros((rows.n_rows, n_experts))


def sweep(
    sampler: SamplerName,
    rows: Rows,
    state: GlobalState,
    latent: Latent,
    active: NDArray[np.bool_],
    priors: PriorValues,
    key: np.uint64,
    index: int,
    workers: Workers,
) -> tuple[GlobalState, Latent, SweepInfo]:
    """One sweep of the posterior's Markov chain: state in, state out.

    ``key`` and ``index`` name the random streams, ``active`` the experts that count in the reported log-likelihood.
    """
    events, latent, log_likelihood, n_tables, exposure = _phase_a(
        sampler, rows, state, latent, active, key, index, workers
    )
    buffer = stream_buffer()
    stream = np.uint64(open_stream(buffer, key, index, 0, WEIGHTS))  # the type it has inside kernels
    mass, log_weights, inv_scale = updates.draw_expert_weights(
        stream, n_tables, exposure, state.mass, state.inv_scale, priors
    )
    weights = np.exp(log_weights)
    planes, precision, coef_rate, rescues = _phase_b(
        sampler, rows, state, events, latent, weights, priors, key, index, workers
    )
    _check_finite(planes, index, rows)
    new = GlobalState(planes, log_weights, mass, inv_scale, precision, coef_rate)
    return new, latent, SweepInfo(log_likelihood, n_tables, rescues)


def _phase_a(
    sampler: SamplerName,
    rows: Rows,
    state: GlobalState,
    latent: Latent,
    active: NDArray[np.bool_],
    key: np.uint64,
    index: int,
    workers: Workers,
) -> tuple[Any, Latent, float, FloatArray, FloatArray]:
    """Tables (or counts) of all rows, and the sums l_k, S_k."""
    n_tables = np.empty((rows.n_blocks, state.n_experts))
    exposure = np.empty((rows.n_blocks, state.n_experts))
    log_lik = np.empty(rows.n_blocks)
    watched, winner = np.empty(rows.n_rows), np.empty(rows.n_rows, np.int64)
    one_event = sampler == "first_events" and rows.single_events
    if latent is not None:
        latent = latent.copy()

    def task(first: int, last: int) -> Any:
        common = (rows.arrays, state.hyperplanes, state.log_weights, active, key, index, first, last, stream_buffer())
        if sampler == "counts":
            return first, last, local_counts.draw_counts(*common, latent, n_tables, exposure, log_lik)
        out = (n_tables, exposure, log_lik)
        if one_event:
            return first, last, first_events.draw_first_events(*common, watched, winner, *out)
        return first, last, local.draw_events(sampler == "first_events", *common, watched, *out)

    events = (watched, winner if one_event else None, workers.map(task, rows))
    return events, latent, float(log_lik.sum()), n_tables.sum(axis=0), exposure.sum(axis=0)


def _phase_b(
    sampler: SamplerName,
    rows: Rows,
    state: GlobalState,
    events: Any,
    latent: Latent,
    weights: FloatArray,
    priors: PriorValues,
    key: np.uint64,
    index: int,
    workers: Workers,
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Polya-Gamma weights of all rows, their sums, and the draw of the hyperplanes."""
    n_experts, n_inputs = state.hyperplanes.shape
    watched, winner, tables = events
    drawn: tuple[FloatArray, FloatArray, FloatArray, int]
    if rows.n_rows < n_inputs and rows.arrays.sparse is None:  # few rows: never form a D × D matrix
        pg_weights, linear = np.empty((rows.n_rows, n_experts)), np.empty((rows.n_rows, n_experts))
        where = (key, index, stream_buffer(), pg_weights, linear)
        if sampler == "counts":
            local_counts.row_count_statistics(rows.arrays, state.hyperplanes, weights, latent, *where)
        else:
            local.row_statistics(rows.arrays, watched, state.hyperplanes, weights, winner, _join(tables), *where)
        drawn = updates.draw_experts_dual(
            rows.arrays.dense,
            pg_weights,
            linear,
            state.coef_precision,
            state.coef_rate,
            priors,
            key,
            index,
            stream_buffer(),
        )
        return drawn
    n_groups = -(-rows.n_blocks // rows.group_blocks)
    gram = np.zeros((n_groups, n_inputs * (n_inputs + 1) // 2, n_experts))
    moment = np.zeros((n_groups, n_inputs, n_experts))
    of_range = {(first, last): part for first, last, part in tables}

    def task(first: int, last: int) -> None:
        where = (key, index, first, last, rows.group_blocks, stream_buffer(), gram, moment)
        if sampler == "counts":
            local_counts.sum_count_statistics(rows.arrays, state.hyperplanes, weights, latent, *where)
        else:
            part = of_range[first, last]
            local.sum_statistics(rows.arrays, watched, state.hyperplanes, weights, winner, part, *where)

    workers.map(task, rows)
    drawn = updates.draw_experts(
        gram,
        moment,
        state.coef_precision,
        state.coef_rate,
        priors,
        key,
        index,
        stream_buffer(),
    )
    return drawn


def _join(tables: Any) -> Any:
    """Tables of all cuts as one."""
    if len(tables) == 1:
        return tables[0][2]
    parts = [part for _, _, part in tables]
    ends, shift = [], 0
    for part in parts:
        ends.append(part[4] + shift)
        shift += part[0].shape[0]
    return (*(np.concatenate([part[j] for part in parts]) for j in range(4)), np.concatenate(ends))


def _check_finite(planes: FloatArray, index: int, rows: Rows) -> None:
    if np.isfinite(planes).all():
        return
    sparse = rows.arrays.sparse
    values = rows.arrays.dense if sparse is None else sparse.values
    raise NumericalError(
        f"The hyperplanes of sweep {index + 1} are not finite (largest |input| "
        f"{np.abs(values).max(initial=0.0):.3g}); standardise the features."
    )


def log_likelihood(rows: Rows, state: GlobalState, active: NDArray[np.bool_]) -> float:
    """Log-likelihood of the rows under the active experts of ``state``."""
    weights = np.exp(state.log_weights) * active
    if np.all(rows.arrays.kind <= BEFORE):  # asked for once in a chain, so that compiling for it would not pay
        return sum(binary_log_likelihood(rows.arrays, state.hyperplanes, weights))
    out = np.empty(rows.n_blocks)
    local.total_log_likelihood(rows.arrays, state.hyperplanes, weights, out)
    return float(out.sum())


def binary_log_likelihood(arrays: RowArrays, planes: FloatArray, weights: FloatArray) -> Iterator[float]:
    """Log-likelihood of rows that say NOTHING or BEFORE, in parts of many rows."""
    inputs: Any = arrays.dense
    if arrays.sparse is not None:
        pointers, columns, values = arrays.sparse
        inputs = sp.csr_array((values, columns, pointers), shape=(pointers.size - 1, planes.shape[1]))
    for low in range(0, arrays.exposure.shape[0], ROWS_AT_ONCE):
        part = slice(low, low + ROWS_AT_ONCE)
        copies, unit = arrays.copies[part], arrays.unit[part]
        rate = softplus(inputs[part] @ planes.T + arrays.offset[part, None]) @ weights
        event = np.maximum(log_probability(unit * rate), local.LOG_TINY)
        yield float(np.sum(copies * event - (arrays.exposure[part] - copies * unit) * rate))
