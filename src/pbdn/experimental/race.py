"""Class probabilities of a race: the class whose process has the first point wins.

Class s has the cumulative rate H_s(u) = Σ_k r_sk s(x'β_sk + u) on log-time u, hence the hazard
h_s(u) = Σ_k r_sk σ(x'β_sk + u), and P(s wins) = ∫ h_s(u) e^{-H(u)} du with H = Σ_s H_s. With q = 1 - e^{-H(u)} this is
∫₀¹ h_s(u(q)) / h(u(q)) dq: an average of hazard shares over the quantiles of the winning time, which sums to one
whatever the quadrature.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pbdn.model.labelling import Labelling, for_each_class
from pbdn.model.likelihood import signed_distances
from pbdn.model.network import Layer
from pbdn.model.response import RESPONSES, Classes
from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.numerics.compiled import kernel
from pbdn.numerics.softplus import logistic, softplus

N_QUANTILES = 32  # Gauss-Legendre nodes; the test compares with a fine grid in u
POWER = 4  # nodes lie in (1 - q)^{1/4}: late shares move like (1 - q)^{1/Σr}, which is not smooth in q itself
MOST_STEPS = 200
LARGEST_LOG_TIME = 1e6  # where weights are so small that nothing ever happens


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
