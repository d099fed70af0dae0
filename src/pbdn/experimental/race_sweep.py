"""One likelihood for all classes: a race of Lomax variables (experimental; after Lomax delegate racing).

Class s has the process of `pbdn.experimental.race`, and the label is the class of its first point: y_i = argmin_s T_is. Given the log-time
u_i of that point, class y_i saw an event exactly at u_i and the others none before it, so every class is updated by the
ordinary sweep with rows of kind EXACT or NOTHING and offset u_i. Given the globals, u_i is drawn by way of gamma rates:

    k_i ∝ r_{y_i k} σ(ψ_{y_i k} + u_i),   θ_sk ~ Gamma(r_sk + [s = y_i, k = k_i], e^{-ψ_sk} + e^{u_i}),
    u_i = ln(E / Σ_sk θ_sk), E ~ Exp(1),

because T_is is exponential given its rate θ_s = Σ_k θ_sk, and who wins does not depend on when.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbdn.gibbs.kernel_arguments import PriorValues
from pbdn.gibbs.rows import BLOCK_ROWS, EXACT, NOTHING, Rows, make_rows
from pbdn.gibbs.state import GlobalState
from pbdn.gibbs.sweep import Workers, sweep
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import kernel
from pbdn.numerics.softplus import softplus
from pbdn.variates.gamma import log_gamma_variate
from pbdn.variates.poisson import choose
from pbdn.variates.random_stream import TABLES, exponential, open_stream, stream_buffer, stream_key


class RaceState(NamedTuple):
    """Globals of every class, and the log-time u_i at which each row's race was won."""

    classes: tuple[GlobalState, ...]
    log_time: FloatArray


def race_rows(inputs: FloatArray, codes: NDArray[np.int64], n_classes: int) -> tuple[Rows, ...]:
    """Rows of every class, at log-time 0 for now."""
    kinds = [np.where(codes == s, EXACT, NOTHING) for s in range(n_classes)]
    return tuple(make_rows(inputs, codes == s, kind=kinds[s], merge=False) for s in range(n_classes))


@kernel
def draw_log_times(
    distance: Any, log_weights: Any, starts: Any, codes: Any, log_time: Any, key: Any, index: int, buffer: Any
) -> Any:
    """New u_i of every row given the globals, from its block's stream; ``distance`` are x'β_sk, experts of class s lie at starts[s] to starts[s + 1]."""
    n, n_experts = distance.shape
    out, level = np.empty(n), np.empty(n_experts)
    stream = open_stream(buffer, key, index, 0, TABLES)
    for i in range(n):
        if i % BLOCK_ROWS == 0:
            stream = open_stream(buffer, key, index, i // BLOCK_ROWS, TABLES)
        first, last, top = starts[codes[i]], starts[codes[i] + 1], -np.inf
        for k in range(n_experts):
            psi = distance[i, k] + log_time[i]
            level[k] = softplus(psi)
            if first <= k < last:
                top = max(top, log_weights[k] + psi - level[k])
        hazard, whole = np.empty(last - first), 0.0
        for k in range(first, last):
            psi = distance[i, k] + log_time[i]
            hazard[k - first] = np.exp(log_weights[k] + psi - level[k] - top)
            whole += hazard[k - first]
        winner = first + choose(stream, hazard, whole)
        top = -np.inf
        for k in range(n_experts):  # ln θ = ln G - ln(e^{-ψ} + e^u) = ln G + ψ - s(ψ + u)
            shape = max(np.exp(log_weights[k]), 1e-300) + (1.0 if k == winner else 0.0)
            level[k] = log_gamma_variate(stream, shape) + distance[i, k] - level[k]
            top = max(top, level[k])
        total = 0.0
        for k in range(n_experts):
            total += np.exp(level[k] - top)
        out[i] = np.log(exponential(stream)) - top - np.log(total)
    return out


def race_sweep(
    rows: tuple[Rows, ...],
    codes: NDArray[np.int64],
    state: RaceState,
    priors: PriorValues,
    seed: int,
    where: tuple[int, ...],
    index: int,
    workers: Workers,
) -> tuple[RaceState, tuple[FloatArray, ...]]:
    """One sweep: the log-times given all classes, then every class given the log-times; returns also their tables."""
    starts = np.cumsum([0, *(one.n_experts for one in state.classes)]).astype(np.int64)
    planes = np.concatenate([one.hyperplanes for one in state.classes])
    log_weights = np.concatenate([one.log_weights for one in state.classes])
    distance = rows[0].arrays.dense @ planes.T
    key = stream_key(seed, *where, len(state.classes))
    log_time = draw_log_times(distance, log_weights, starts, codes, state.log_time, key, index, stream_buffer())
    classes, tables = [], []
    for s, (one, own_rows) in enumerate(zip(state.classes, rows, strict=True)):
        timed = Rows(own_rows.arrays._replace(offset=log_time), own_rows.n_inputs)
        active = np.ones(one.n_experts, bool)
        key = stream_key(seed, *where, s)
        new, _, info = sweep("event_times", timed, one, None, active, priors, key, index, workers)
        classes.append(new)
        tables.append(info.tables)
    return RaceState(tuple(classes), log_time), tuple(tables)
