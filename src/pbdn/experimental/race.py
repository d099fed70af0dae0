"""The race of all classes: class probabilities, and one Gibbs sweep."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbdn.gibbs.kernel_arguments import PriorValues
from pbdn.gibbs.rows import BLOCK_ROWS, EXACT, NOTHING, Rows, make_rows
from pbdn.gibbs.state import GlobalState
from pbdn.gibbs.sweep import Workers, sweep
from pbdn.model.labelling import Labelling, for_each_class
from pbdn.model.likelihood import signed_distances
from pbdn.model.network import Layer
from pbdn.model.response import RESPONSES, Classes
from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.numerics.compiled import kernel
from pbdn.numerics.softplus import logistic, softplus
from pbdn.variates.counts import choose
from pbdn.variates.random_stream import TABLES, exponential, log_gamma_variate, open_stream, stream_buffer, stream_key

N_QUANTILES = 32  # Gauss-Legendre nodes; the test compares with a fine grid in u
POWER = 4  # nodes lie in (1 - q)^{1/4}: late shares move like (1 - q)^{1/Σr}, which is not smooth in q itself
MOST_STEPS = 200
LARGEST_LOG_TIME = 1e6  # where weights are so small that nothing ever happens


# Class probabilities of a race: the class whose process has the first point wins.
#
# Class s has the cumulative rate H_s(u) = Σ_k r_sk s(x'β_sk + u) on log-time u, hence the hazard
# h_s(u) = Σ_k r_sk σ(x'β_sk + u), and P(s wins) = ∫ h_s(u) e^{-H(u)} du with H = Σ_s H_s. With q = 1 - e^{-H(u)} this is
# ∫₀¹ h_s(u(q)) / h(u(q)) dq: an average of hazard shares over the quantiles of the winning time, which sums to one
# whatever the quadrature.


@kernel
def _rate_and_hazard(distance: Any, weights: Any, u: float) -> tuple[float, float]:
    """H(u) and h(u) of all experts together."""
    rate, hazard = 0.0, 0.0
    for k in range(weights.shape[0]):
        psi = distance[k] + u
        rate += weights[k] * softplus(psi)
        hazard += weights[k] * logistic(psi)
    return rate, hazard


@kernel
def _log_time(distance: Any, weights: Any, target: float, low: float) -> float:
    """u with H(u) = target, by Newton steps on ln H inside a bracket that starts at ``low``."""
    step = 1.0
    high = low + step
    while _rate_and_hazard(distance, weights, high)[0] < target and high < LARGEST_LOG_TIME:
        low, step = high, 2.0 * step
        high = low + step
    u = 0.5 * (low + high)
    for _ in range(MOST_STEPS):
        rate, hazard = _rate_and_hazard(distance, weights, u)
        if rate < target:
            low = u
        else:
            high = u
        new = u + np.log(target / rate) * rate / hazard if rate > 0.0 and hazard > 0.0 else 0.5 * (low + high)
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - u) < 1e-9 * (1.0 + abs(u)):
            return new
        u = new
    return u


@kernel
def _win_chances(distance: Any, weights: Any, starts: Any, nodes: Any, node_weights: Any, out: Any) -> None:
    """P(s wins) of every row; experts of class s are starts[s] ≤ k < starts[s + 1]."""
    n_sides = starts.shape[0] - 1
    for i in range(distance.shape[0]):
        top = -np.inf
        for k in range(weights.shape[0]):
            if weights[k] > 0.0:
                top = max(top, distance[i, k] + max(np.log(weights[k]), -700.0))
        if top == -np.inf:
            out[i] = 1.0 / n_sides
            continue
        u = -top - 40.0  # H(u) ≤ n e^{-40} here: before every quantile
        out[i] = 0.0
        for q in range(nodes.shape[0]):
            u = _log_time(distance[i], weights, nodes[q], u)
            whole = _rate_and_hazard(distance[i], weights, u)[1]
            for s in range(n_sides):
                own = _rate_and_hazard(distance[i, starts[s] : starts[s + 1]], weights[starts[s] : starts[s + 1]], u)[1]
                out[i, s] += node_weights[q] * own / whole


def race_probability(distance: FloatArray, expert_weights: FloatArray, n_experts: tuple[int, ...]) -> FloatArray:
    """P(class wins), shape (n, n_classes).

    Parameters
    ----------
    distance : array (n, experts of all classes)
        x'β_sk, class by class.
    expert_weights : array (experts of all classes,)
    n_experts : tuple of int
        Experts of each class.
    """
    nodes, weights = np.polynomial.legendre.leggauss(N_QUANTILES)
    left = 0.5 * (1.0 - nodes)  # 1 - q = left^POWER
    out = np.empty((distance.shape[0], len(n_experts)))
    starts = np.cumsum([0, *n_experts]).astype(np.int64)
    weights = weights * left ** (POWER - 1)
    _win_chances(
        np.ascontiguousarray(distance), expert_weights, starts, -POWER * np.log(left), weights / weights.sum(), out
    )
    return out


@dataclass(frozen=True)
class Race:
    """The response of a race: a side for each class, and the class whose process has the first point."""

    kind: ClassVar[str] = "race"
    timed: ClassVar[bool] = False
    n_outputs: int

    @property
    def labelling(self) -> Labelling:
        """A side for each class."""
        return for_each_class(self.n_outputs)

    def prediction(self, layer: Layer, inputs: Inputs) -> FloatArray:
        """P(class wins), shape (n, n_classes)."""
        distance = np.concatenate([signed_distances(side.hyperplanes, inputs) for side in layer.sides], axis=1)
        weights = np.concatenate([side.expert_weights for side in layer.sides])
        return race_probability(distance, weights, layer.n_experts)

    def losses(self, layer: Layer, inputs: Inputs, targets: IntArray) -> FloatArray:
        """-2 ln P(the row's own class)."""
        return Classes(self.n_outputs).deviance(self.prediction(layer, inputs), targets)

    @staticmethod
    def strata(targets: IntArray) -> IntArray:
        """The classes."""
        return targets


RESPONSES[Race.kind] = Race  # so that its model files can be read


# One likelihood for all classes: a race of Lomax variables (experimental; after Lomax delegate racing).
#
# Class s has the process above, and the label is the class of its first point: y_i = argmin_s T_is. Given the log-time
# u_i of that point, class y_i saw an event exactly at u_i and the others none before it, so every class is updated by the
# ordinary sweep with rows of kind EXACT or NOTHING and offset u_i. Given the globals, u_i is drawn by way of gamma rates:
#
#     k_i ∝ r_{y_i k} σ(ψ_{y_i k} + u_i),   θ_sk ~ Gamma(r_sk + [s = y_i, k = k_i], e^{-ψ_sk} + e^{u_i}),
#     u_i = ln(E / Σ_sk θ_sk), E ~ Exp(1),
#
# because T_is is exponential given its rate θ_s = Σ_k θ_sk, and who wins does not depend on when.


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
