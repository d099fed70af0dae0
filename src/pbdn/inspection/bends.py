"""Experts of a curved network in words: the values that they vote near, or far from."""

from dataclasses import dataclass
from math import floor, log10

import numpy as np

from pbdn.inspection.effects import some_rows
from pbdn.inspection.subtypes import votes
from pbdn.model.network import Network, Side
from pbdn.model.wiring import Inputs, sees_features
from pbdn.numerics.arrays import FloatArray, IntArray

MOST = 0.8  # of the votes lie within the distance that is told
MATTERS = 0.2  # of the largest effect of a feature on the expert: what has less is not told
EDGE = 0.1  # of the rows on either side: a vertex out there makes a slope, not a bend


@dataclass(frozen=True)
class Bend:
    """Most votes of an expert go to rows near the value ``vertex`` of a feature, or far from it.

    Attributes
    ----------
    near : bool
    vertex : float
        Where b x + γ ((x - c)/s)² has its largest (near) or smallest value.
    distance, usual : float
        From the vertex, within which (far: beyond which) most votes lie, and most rows.
    step : float
        Their difference in standard deviations of the feature.
    """

    near: bool
    vertex: float
    distance: float
    usual: float
    step: float

    def phrase(self, name: str) -> str:
        """In words."""
        what, link = ("within", "of") if self.near else ("more than", "from")
        digits = max(3, 2 + _magnitude(self.vertex) - _magnitude(self.distance))
        place = f"{self.vertex:.{min(digits, 12)}g}"
        return f"{name} mostly {what} {self.distance:.3g} {link} {place} (usually {what} {self.usual:.3g})"


def bends(network: Network, layer: int, side: Side, inputs: Inputs, rows: FloatArray) -> list[dict[int, Bend]]:
    """Per expert of a side of layer 1, 2, …: the features whose square decides where it votes.

    A square counts where its feature matters to the expert, its vertex lies among the rows, and the votes are as near to
    it (or as far from it) as the sign of the square says.
    """
    out: list[dict[int, Bend]] = [{} for _ in range(side.n_experts)]
    curve = network.curve
    if curve is None or not sees_features(layer) or not len(rows):
        return out
    chosen = some_rows(rows)
    rows, cast = rows[chosen], votes(side, inputs[chosen])
    columns, n = curve.columns, network.n_features
    slope, bend = side.hyperplanes[:, 1 : n + 1], side.hyperplanes[:, n + 1 : n + 1 + columns.size]
    effect = _effects(slope, bend, columns, network.expand(rows))
    matters = effect >= MATTERS * effect.max(axis=1, keepdims=True, initial=0.0)
    low, high = np.quantile(rows, [EDGE, 1.0 - EDGE], axis=0)
    for k, i in np.argwhere((bend != 0.0) & matters[:, columns]).tolist():
        j, near = int(columns[i]), bool(bend[k, i] < 0.0)
        unit = curve.scales[i]
        vertex = float(curve.centers[i] - unit * (unit * slope[k, j] / (2.0 * bend[k, i])))
        if not low[j] < vertex < high[j] or not cast[:, k].any():
            continue
        far = np.abs(rows[:, j] - vertex)
        share = MOST if near else 1.0 - MOST
        distance, usual = _quantile(far, cast[:, k], share), _quantile(far, np.ones(far.size), share)
        step = (distance - usual) / float(rows[:, j].std())
        if step < 0.0 if near else step > 0.0:
            out[k][j] = Bend(near, vertex, distance, usual, step)
    return out


def _effects(slope: FloatArray, bend: FloatArray, columns: IntArray, expanded: FloatArray) -> FloatArray:
    """Standard deviation over the rows of b x + γ ((x - c)/s)², (n_experts, n_features)."""
    n = slope.shape[1]
    spread = expanded.std(axis=0)
    effect = np.abs(slope) * spread[:n]
    centred = expanded - expanded.mean(axis=0)
    both = (centred[:, columns] * centred[:, n:]).mean(axis=0)
    line = slope[:, columns]
    variance = (line * spread[columns]) ** 2 + 2.0 * line * bend * both + (bend * spread[n:]) ** 2
    effect[:, columns] = np.sqrt(np.maximum(variance, 0.0))
    return np.asarray(effect)


def _quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """The value below which this share of the weights lies."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order[min(int(np.searchsorted(total, share * total[-1])), values.size - 1)]])


def _magnitude(value: float) -> int:
    return floor(log10(abs(value))) if value else 0
