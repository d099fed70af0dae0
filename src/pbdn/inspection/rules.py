"""Experts in words: which side each one votes for, how the rows it votes for differ from the usual, and why one row is what it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pbdn.inspection.access import (
    feature_names,
    intervals,
    network_of,
    parts_of,
    predictions,
    side_names,
    titled,
)
from pbdn.inspection.columns import date_features, date_text, number_text, percent_text
from pbdn.inspection.effects import some_rows
from pbdn.inspection.subtypes import subtype_means, votes
from pbdn.model.network import Layer, Network
from pbdn.model.wiring import TWO_VALUES
from pbdn.numerics.arrays import FloatArray

EDGE = 0.1  # of the rows on either side: an interval that leaves out fewer makes a slope, not an interval
MOST_BINS = 100  # into which the values of a feature are cut
MOST_FEATURES = 500  # along which intervals are looked for
OF_A_SHIFT = 0.4  # largest difference between two bell curves' distributions, one standard deviation apart
BY_CHANCE = 2.0  # over the root of the number of votes: a smaller excess in an interval is chance
N_PLACES = 4  # of intervals along a feature that are told apart when experts are compared
N_NAMED = 3  # features named in a rule
MOVED_ROWS = 300  # on which the moves of medians are measured
CLEAR = 0.25  # differences below this many standard deviations are not worth a word


@dataclass(frozen=True)
class Interval:
    """More votes of an expert than of rows lie between two values of a feature, or outside of them.

    Attributes
    ----------
    inside : bool
    low, high : float
        The smallest and the largest value between which (outside: between which no) rows are meant.
    votes, rows : float
        Shares of the expert's votes and of all rows that are there.
    place : float
        Share of the rows below the middle of the interval.
    """

    inside: bool
    low: float
    high: float
    votes: float
    rows: float
    place: float

    @property
    def step(self) -> float:
        """How many standard deviations a bell curve must move for as large a difference."""
        return (self.votes - self.rows) / OF_A_SHIFT

    @property
    def direction(self) -> tuple[bool, int]:
        """Inside or outside, and roughly where: alike for intervals that mean the same."""
        return self.inside, round(N_PLACES * self.place)

    def phrase(self, name: str, text: Callable[[float], str]) -> str:
        """In words."""
        low, high = text(self.low), text(self.high)
        where = f"between {low} and {high}" if self.inside else f"below {low} or above {high}"
        shares = f"{percent_text(self.votes)} of its votes, {percent_text(self.rows)} of all rows"
        return f"{name} {'mostly' if self.votes > 0.5 else 'often'} {where} ({shares})"


@dataclass(frozen=True)
class Bins:
    """The values of some features of rows, each cut into bins of about as many rows.

    Attributes
    ----------
    columns : list of int
        Features with more than two values.
    ends : list of int
        Where the bins of each of them end among all bins.
    low, high, share : array (n_bins,)
        The smallest and the largest value in a bin, and its share of the rows.
    holds : CSR matrix (n_bins, n_rows)
        Which rows it holds.
    """

    columns: list[int]
    ends: list[int]
    low: FloatArray
    high: FloatArray
    share: FloatArray
    holds: Any

    @classmethod
    def of(cls, rows: FloatArray, columns: Sequence[int]) -> "Bins":
        """Bins of these columns of rows."""
        used, ends, low, high, held = [], [0], [], [], []
        for j in columns if len(rows) else ():
            values = np.unique(rows[:, j])
            if values.size > MOST_BINS:
                cuts = np.quantile(rows[:, j], np.linspace(0.0, 1.0, MOST_BINS + 1)[1:], method="inverted_cdf")
                values = np.unique(cuts)
            if values.size <= TWO_VALUES:
                continue
            own = np.searchsorted(values, rows[:, j])
            first = np.full(values.size, np.inf)
            np.minimum.at(first, own, rows[:, j])
            used.append(j)
            low.append(first)
            high.append(values)
            held.append(ends[-1] + own)
            ends.append(ends[-1] + values.size)
        which = np.concatenate([*held, np.empty(0, np.int64)])
        numbers = np.tile(np.arange(len(rows)), len(used))
        holds = sp.csr_array((np.ones(which.size), (which, numbers)), shape=(ends[-1], len(rows)))
        share = np.bincount(which, minlength=ends[-1]) / max(len(rows), 1)
        nothing = [np.empty(0)]
        return cls(used, ends[1:], np.concatenate(low or nothing), np.concatenate(high or nothing), share, holds)

    def intervals(self, cast: FloatArray) -> list[dict[int, Interval]]:
        """Per expert, whose votes are ``cast`` on the rows: features along which these neither rise nor fall all the way.

        The interval of the largest excess of votes over rows, or of rows over votes, has rows on either side.
        """
        out: list[dict[int, Interval]] = [{} for _ in range(cast.shape[1])]
        total = np.maximum(cast.sum(axis=0), 1e-300)
        chance = BY_CHANCE * np.sqrt((cast**2).sum(axis=0)) / total
        shares = self.holds @ (cast / total)
        begin = 0
        for j, end in zip(self.columns, self.ends, strict=True):
            own = slice(begin, end)
            rows = np.append(0.0, np.cumsum(self.share[own]))
            excess = np.pad(np.cumsum(shares[own], axis=0), ((1, 0), (0, 0))) - rows[:, None]
            rise, fall = excess - np.minimum.accumulate(excess), np.maximum.accumulate(excess) - excess
            for k in np.flatnonzero(np.maximum(rise.max(axis=0), fall.max(axis=0)) > chance).tolist():
                inside = bool(rise[:, k].max() >= fall[:, k].max())
                b = int(np.argmax((rise if inside else fall)[:, k]))
                a = int(np.argmin((excess if inside else -excess)[: b + 1, k]))
                if rows[a] < EDGE or 1.0 - rows[b] < EDGE:
                    continue
                there = float(rows[b] - rows[a])
                of_votes, place = there + float(excess[b, k] - excess[a, k]), float(rows[a] + rows[b]) / 2.0
                if not inside:
                    there, of_votes = 1.0 - there, 1.0 - of_votes
                low, high = float(self.low[begin + a]), float(self.high[begin + b - 1])
                out[k][j] = Interval(inside, low, high, of_votes, there, place)
            begin = end
        return out


def telling_features(network: Network, spread: FloatArray) -> list[int]:
    """The features that first layers weigh most, `MOST_FEATURES` at the most, in rising order."""
    planes = np.concatenate([side.hyperplanes[:, 1:] for side in network.layers[0].sides])
    weight = np.sqrt((planes[:, : network.n_features] ** 2).sum(axis=0)) * spread
    if network.curve is not None:
        bent = np.sqrt((planes[:, network.n_features :] ** 2).sum(axis=0))
        np.add.at(weight, network.curve.columns, bent)
    return [int(j) for j in np.sort(np.argsort(-weight, kind="stable")[:MOST_FEATURES])]


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
        for feature, column in date_features(estimator).items():
            names[feature], texts[feature] = column, date_text
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
    some = some_rows(rows)
    bins = Bins.of(rows[some], telling_features(network, background.spread))
    out = []
    for t, (layer, inputs) in enumerate(zip(network.layers, network.layer_inputs(rows), strict=True), 1):
        for s, side in enumerate(layer.sides):
            means, share = subtype_means(side, inputs, rows)
            step = np.where(background.spread > 0, (means - background.mean) / scale, 0.0)
            for k, found in enumerate(bins.intervals(votes(side, inputs[some]))):
                between = {j: one for j, one in found.items() if one.step > abs(step[k, j])}
                size = np.abs(step[k])
                size[list(between)] = [one.step for one in between.values()]
                order = [int(j) for j in np.argsort(-size)[:N_NAMED] if size[j] >= CLEAR]
                phrases = [
                    between[j].phrase(background.names[j], background.texts[j])
                    if j in between
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
                        "directions": [
                            (background.names[j], between[j].direction if j in between else bool(step[k, j] > 0))
                            for j in order
                        ],
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
