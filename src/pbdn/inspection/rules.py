"""Experts in words: which side each one votes for, how the rows it votes for differ from the usual, and why one row is what it is."""

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection.access import (
    feature_names,
    intervals,
    network_of,
    parts_of,
    predictions,
    side_names,
    titled,
    untamed,
)
from pbdn.inspection.columns import column_groups, date_text, number_text, percent_text
from pbdn.inspection.effects import some_rows
from pbdn.inspection.subtypes import subtype_means, votes
from pbdn.model.network import Layer, Network, Side
from pbdn.model.wiring import Inputs, sees_features
from pbdn.numerics.arrays import FloatArray

MOST = 0.8  # of the votes lie within the distance that is told
MATTERS = 0.2  # of the largest effect of a feature on the expert: what has less is not told
EDGE = 0.1  # of the rows on either side: a vertex out there makes a slope, not a bend
N_NAMED = 3  # features named in a rule
MOVED_ROWS = 300  # on which the moves of medians are measured
CLEAR = 0.25  # differences below this many standard deviations are not worth a word


@dataclass(frozen=True)
class Bend:
    """Most votes of an expert go to rows near the value ``vertex`` of a feature, or far from it.

    Attributes
    ----------
    near : bool
    vertex : float
        Where what the feature adds to the expert's distance is largest (near) or smallest.
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

    def phrase(self, name: str, is_date: bool = False) -> str:
        """In words."""
        what, link = ("within", "of") if self.near else ("more than", "from")
        if is_date:
            near, usual = (f"{number_text(round(days))} days" for days in (self.distance, self.usual))
            return f"{name} mostly {what} {near} {link} {date_text(self.vertex)} (usually {what} {usual})"
        digits = max(3, 2 + _magnitude(self.vertex) - _magnitude(self.distance))
        place = f"{self.vertex:.{min(digits, 12)}g}"
        return f"{name} mostly {what} {self.distance:.3g} {link} {place} (usually {what} {self.usual:.3g})"


def bends(network: Network, layer: int, side: Side, inputs: Inputs, rows: FloatArray) -> list[dict[int, Bend]]:
    """Per expert of a side of layer 1, 2, …: the features along which it does not only rise or fall.

    A bend counts where its feature matters to the expert, its vertex lies among the rows, and the votes are as near to it (or
    as far from it) as what the feature adds says.
    """
    out: list[dict[int, Bend]] = [{} for _ in range(side.n_experts)]
    curve = network.curve
    if curve is None or not sees_features(layer) or not len(rows):
        return out
    chosen = some_rows(rows)
    rows, cast = rows[chosen], votes(side, inputs[chosen])
    n, expanded = network.n_features, network.expand(rows)
    own = [np.append(j, n + np.flatnonzero(curve.columns == j)) for j in range(n)]  # inputs that tell of a feature
    planes = side.hyperplanes[:, 1:]
    effect = np.column_stack([(expanded[:, of] @ planes[:, of].T).std(axis=0) for of in own])
    matters = effect >= MATTERS * effect.max(axis=1, keepdims=True, initial=0.0)
    low, high = np.quantile(rows, [EDGE, 1.0 - EDGE], axis=0)
    for k, j in np.argwhere(matters & np.isin(np.arange(n), curve.columns)).tolist():
        added = expanded[:, own[j]] @ planes[k, own[j]]
        found = _vertex(network, side.hyperplanes[k], j, rows[:, j], added, (low[j], high[j]))
        if found is None or not cast[:, k].any():
            continue
        vertex, near = found
        far = np.abs(rows[:, j] - vertex)
        share = MOST if near else 1.0 - MOST
        distance, usual = _quantile(far, cast[:, k], share), _quantile(far, np.ones(far.size), share)
        step = (distance - usual) / float(rows[:, j].std())
        if step < 0.0 if near else step > 0.0:
            out[k][j] = Bend(near, vertex, distance, usual, step)
    return out


def _vertex(
    network: Network, plane: FloatArray, j: int, values: FloatArray, added: FloatArray, among: tuple[float, float]
) -> tuple[float, bool] | None:
    """Where what feature j adds is largest (True) or smallest (False) ``among`` two values; None where it is at neither."""
    curve = network.curve
    assert curve is not None
    if curve.ramps:
        outside = [added[values <= among[0]].mean(), added[values >= among[1]].mean()]
        least = MATTERS * float(np.ptp(added))
        for near, place in ((True, np.argmax(added)), (False, np.argmin(added))):
            turns = np.abs(added[place] - outside).min() > least
            if turns and among[0] < values[place] < among[1]:
                return float(values[place]), near
        return None
    i = int(np.flatnonzero(curve.columns == j)[0])
    bend, unit = float(plane[1 + network.n_features + i]), curve.scales[i]
    if bend == 0.0:
        return None
    vertex = curve.centers[i] - unit * (unit * plane[1 + j] / (2.0 * bend))
    vertex = float(untamed(network, j, np.array([vertex]))[0])
    return (vertex, bend < 0.0) if among[0] < vertex < among[1] else None


def _quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """The value below which this share of the weights lies."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order[min(int(np.searchsorted(total, share * total[-1])), values.size - 1)]])


def _magnitude(value: float) -> int:
    return floor(log10(abs(value))) if value else 0


@dataclass(frozen=True)
class Background:
    """What is usual in the rows: mean, spread, whether a feature is a yes/no, and how its values are written."""

    names: list[str]
    texts: list[Callable[[float], str]]
    mean: FloatArray
    spread: FloatArray
    yes_no: NDArray[np.bool_]

    @classmethod
    def of(cls, estimator: Any, rows: FloatArray) -> "Background":
        """From rows."""
        names = feature_names(estimator)
        texts: list[Callable[[float], str]] = [number_text] * len(names)
        for group in column_groups(estimator):
            for feature, part in zip(group.features, group.parts, strict=True):
                if part == "days":
                    names[feature], texts[feature] = group.name, date_text
        yes_no = np.all((rows == 0.0) | (rows == 1.0), axis=0)
        return cls(names, texts, rows.mean(axis=0), rows.std(axis=0), yes_no)

    def phrase(self, j: int, value: float) -> str:
        """How a group's mean of feature j differs from the usual."""
        name, usual = self.names[j], self.mean[j]
        if self.yes_no[j]:
            return f"{name}: {percent_text(value)} (usually {percent_text(usual)})"
        side = "above" if value > usual else "below"
        step = abs(value - usual) / self.spread[j]
        far = "far " if step >= 1.0 else "" if step >= 0.5 else "a little "
        if self.texts[j] is date_text:
            side = "later" if value > usual else "earlier"
            return f"{name} {far}{side} than usual ({date_text(value)}, usually {date_text(usual)})"
        return f"{name} {far}{side} average ({self.texts[j](value)}, usually {self.texts[j](usual)})"


def expert_moves(network: Network, rows: FloatArray) -> list[list[float | None]]:
    """Per side and expert of the top layer on a line: how far it moves the medians of the rows that it votes for.

    A median with all experts less the median without this one, averaged with its votes as weights. None: a lone expert.
    """
    inputs = network.top_inputs(rows[some_rows(rows, MOVED_ROWS)])
    before = network.response.prediction(network.top, inputs)[:, 0]
    out: list[list[float | None]] = []
    for s, side in enumerate(network.top.sides):
        out.append([])
        for k, vote in enumerate(votes(side, inputs).T):
            if side.n_experts == 1:
                out[-1].append(None)
                continue
            others = (*network.top.sides[:s], side.take(np.arange(side.n_experts) != k), *network.top.sides[s + 1 :])
            after = network.response.prediction(Layer(others), inputs)[:, 0]
            out[-1].append(float(vote @ (before - after) / max(float(vote.sum()), 1e-300)))
    return out


def subtype_rules(estimator: Any, rows: FloatArray) -> list[dict[str, Any]]:
    """Every expert as a rule: the side it votes for, how much, and which rows (eq. 2 of the paper).

    Experts of the top layer on a line also have ``moves``: how far they move the medians of those rows. ``model`` names the
    network, where an estimator has several.
    """
    return [rule for name, part in parts_of(estimator) for rule in _rules(part, rows, name)]


def _rules(estimator: Any, rows: FloatArray, model: str) -> list[dict[str, Any]]:
    """Those of one network."""
    network = network_of(estimator)
    moves = expert_moves(network, rows) if network.response.timed else None
    background = Background.of(estimator, rows)
    scale = np.where(background.spread > 0, background.spread, 1.0)
    sides = side_names(estimator)
    out = []
    for t, (layer, inputs) in enumerate(zip(network.layers, network.layer_inputs(rows), strict=True), 1):
        for s, side in enumerate(layer.sides):
            means, share = subtype_means(side, inputs, rows)
            step = np.where(background.spread > 0, (means - background.mean) / scale, 0.0)
            for k, found in enumerate(bends(network, t, side, inputs, rows)):
                bent = {j: bend for j, bend in found.items() if abs(bend.step) > abs(step[k, j])}
                size = np.abs(step[k])
                size[list(bent)] = [abs(bend.step) for bend in bent.values()]
                order = [int(j) for j in np.argsort(-size)[:N_NAMED] if size[j] >= CLEAR]
                phrases = [
                    bent[j].phrase(background.names[j], background.texts[j] is date_text)
                    if j in bent
                    else background.phrase(j, float(means[k, j]))
                    for j in order
                ]
                out.append(
                    {
                        "model": model,
                        "layer": t,
                        "number": s,
                        "side": titled(model, sides[s]),
                        "expert": k + 1,
                        "weight": float(side.expert_weights[k]),
                        "share": float(share[k]),
                        "moves": moves[s][k] if moves is not None and t == network.depth else None,
                        "rule": "; ".join(phrases) or "rows much like the average",
                        "phrases": phrases,
                        "directions": [(background.names[j], bool(step[k, j] > 0)) for j in order],
                        "features": [background.names[j] for j in order],
                    }
                )
    return out


def explain_row(estimator: Any, row: FloatArray, rows: FloatArray) -> dict[str, Any]:
    """One row: its class, who voted for it, and what each feature adds against its median over ``rows``.

    Of a number: the prediction, the ends of the interval that holds the value in 90 of 100 cases, and the same.
    """
    before = predictions(estimator, row[None])[0]
    best = int(np.argmax(before))
    usual = np.median(rows, axis=0)
    moved = np.repeat(row[None], row.size, axis=0)
    np.fill_diagonal(moved, usual)
    change = before[best] - predictions(estimator, moved)[:, best]
    names = feature_names(estimator)
    cast = []
    for model, part in parts_of(estimator):
        network = network_of(part)
        inputs, n_classes = network.top_inputs(row[None]), network.response.n_outputs
        for s, (name, side) in enumerate(zip(side_names(part), network.top.sides, strict=True)):
            if estimator._predicts == "class" and s >= n_classes and s - n_classes != best:
                continue  # votes against classes that are not in question say little
            for k, vote in enumerate(votes(side, inputs)[0].tolist()):
                cast.append({"side": titled(model, name), "expert": k + 1, "vote": vote})
    if estimator._has_classes:
        said = {"label": estimator.classes_.tolist()[best], "probability": float(before[best])}
    else:
        low, high = intervals(estimator, row[None])[0]
        said = {"prediction": float(before[0]), "low": float(low), "high": float(high)}
    return {
        **said,
        "votes": sorted(cast, key=lambda one: -one["vote"]),
        "features": [
            {
                "feature": names[j],
                "value": float(row[j]),
                "usual": float(usual[j]),
                "change": float(change[j]),
            }
            for j in np.argsort(-np.abs(change))
        ],
    }
