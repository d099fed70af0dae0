"""Which features matter: how far predictions move when the values of one column are shuffled.

What a network predicts when a few features of known rows change has the cost of a few features, not of all (`ChangedColumns`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.data.labelled_rows import LabelledRows
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.inspection.access import network_of, predictions
from pbdn.inspection.columns import column_groups
from pbdn.model.likelihood import softplus
from pbdn.model.network import Layer, Network
from pbdn.model.scaling import clip_features
from pbdn.model.wiring import FEATURES, sees_features, sources_of
from pbdn.numerics.arrays import FloatArray

MAX_ROWS = 1000
FEWEST_ROWS = 32
MAX_WORK = 3_000_000  # rows times columns times units at the end of a fit; fewer rows of large networks
MOST_SHUFFLED = 500  # columns shuffled at the end of a fit; weaker ones are judged by their coefficients


class ChangedColumns:
    """The recorded point of a network on fixed rows, of which some columns change."""

    def __init__(self, network: Network, rows: FloatArray) -> None:
        """Compute once, for every layer, what the features and the bias add to its distances."""
        self.network, self.rows = network, rows
        self._planes = [np.concatenate([side.hyperplanes for side in layer.sides]) for layer in network.layers]
        self._on_distances = replace(network, layers=(_on_distances(network.top),))
        widths = [network.n_expanded, *(len(planes) for planes in self._planes)]
        self._parts = []  # per layer: [(source, its coefficients)]
        for t, planes in enumerate(self._planes, 1):
            ends = np.cumsum([1, *(widths[source] for source in sources_of(t))])
            parts = [(s, planes[:, ends[j] : ends[j + 1]]) for j, s in enumerate(sources_of(t))]
            self._parts.append(parts)
        expanded = network.expand(rows)
        self._still = [self._features_add(expanded, parts, slice(None)) for parts in self._parts]

    @staticmethod
    def _features_add(values: FloatArray, parts: list[tuple[int, FloatArray]], chosen: Any) -> FloatArray | float:
        """What some features add to the distances of a layer."""
        return sum((values @ planes[:, chosen].T for source, planes in parts if source == FEATURES), start=0.0)

    def _expanded_change(self, chosen: list[int], values: FloatArray) -> tuple[list[int], FloatArray]:
        """The columns of `Network.expand` that change with the chosen features, and by how much."""
        old, values, curve = self._tamed(chosen, self.rows[:, chosen]), self._tamed(chosen, values), self.network.curve
        if curve is None:
            return chosen, values - old
        which = [j for j, column in enumerate(curve.columns.tolist()) if column in chosen]
        place = [chosen.index(int(curve.columns[j])) for j in which]
        bent = curve.bend(values[:, place], which) - curve.bend(old[:, place], which)
        return chosen + [self.network.n_features + j for j in which], np.column_stack([values - old, bent])

    def _tamed(self, chosen: list[int], values: FloatArray) -> FloatArray:
        """Values of the chosen features, tails pulled in."""
        tails = self.network.tails
        inside = [] if tails is None else [i for i, column in enumerate(chosen) if column in tails.columns]
        if tails is not None and inside:
            values = values.copy()
            which = np.searchsorted(tails.columns, [chosen[i] for i in inside])
            values[:, inside] = tails.pull_in(values[:, inside], which)
        return values

    def predict(self, features: tuple[int, ...], values: FloatArray) -> FloatArray:
        """The prediction of all rows with other values (n, n_chosen) of the chosen features."""
        chosen, change = self._expanded_change(list(features), values)
        units: list[FloatArray] = []
        for parts, planes, still in zip(self._parts, self._planes, self._still, strict=True):
            distance = planes[:, 0] + still + self._features_add(change, parts, chosen)
            for source, coefficients in parts:
                if source != FEATURES:
                    distance = distance + units[source - 1] @ coefficients.T
            if len(units) + 1 == self.network.depth:
                break
            units.append(softplus(distance))
        return self._on_distances.predict_above(distance)


def _on_distances(layer: Layer) -> Layer:
    """A layer that takes the distances from its hyperplanes as inputs, whatever the response asks of it."""
    total, sides, at = sum(layer.n_experts), [], 0
    for side in layer.sides:
        sides.append(replace(side, hyperplanes=np.eye(side.n_experts, total + 1, at + 1)))
        at += side.n_experts
    return Layer(tuple(sides))


def some_rows(rows: Any, n: int = MAX_ROWS, seed: int = 0) -> NDArray[np.int64]:
    """Numbers of at most ``n`` rows, at random but always the same."""
    if rows.shape[0] <= n:
        return np.arange(rows.shape[0])
    return np.sort(np.random.default_rng(seed).choice(rows.shape[0], n, replace=False))


def shuffled_moves(
    network: Network, rows: FloatArray, groups: Sequence[tuple[int, ...]], seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Per group of features, shuffled together: mean move of probability or median, and share of labels that flip."""
    rng = np.random.default_rng(seed)
    before = network.predict(rows)
    label = np.argmax(before, axis=1)
    changed = ChangedColumns(network, rows)
    moved, flips = np.zeros(len(groups)), np.zeros(len(groups))
    with single_blas_thread():  # many small products: threads would wait for each other
        for g, features in enumerate(groups):
            own = rows[:, list(features)]
            shuffled = own[rng.permutation(rows.shape[0])]
            if np.array_equal(shuffled, own):
                continue
            after = changed.predict(features, shuffled)
            moved[g] = np.abs(after - before).sum(axis=1).mean() / min(
                before.shape[1], 2
            )  # what one class gains, others lose
            flips[g] = np.mean(np.argmax(after, axis=1) != label)
    return moved, flips


def _moves_together(
    estimator: Any, rows: FloatArray, groups: Sequence[tuple[int, ...]], seed: int
) -> tuple[FloatArray, FloatArray]:
    """`shuffled_moves` of what several networks predict together, a number."""
    rng, before, moved = np.random.default_rng(seed), predictions(estimator, rows)[:, 0], []
    for features in groups:
        after = rows.copy()
        after[:, list(features)] = rows[:, list(features)][rng.permutation(rows.shape[0])]
        moved.append(float(np.abs(predictions(estimator, after)[:, 0] - before).mean()))
    return np.array(moved), np.zeros(len(groups))


def feature_effects(estimator: Any, rows: FloatArray, seed: int = 0) -> list[dict[str, Any]]:
    """Per column: how far probabilities (of values on a line, medians) move and how many labels flip when it is shuffled.

    The recorded point of the network predicts, without an average over draws. It needs no labels, unlike
    `sklearn.inspection.permutation_importance`. It measures what the network uses, not causes; features that say the
    same share the effect. Features of one column are shuffled together.
    """
    rows = rows[some_rows(rows)]
    groups = column_groups(estimator)
    if getattr(estimator, "models_", ()):
        moved, flips = _moves_together(estimator, rows, [group.features for group in groups], seed)
    else:
        moved, flips = shuffled_moves(network_of(estimator), rows, [group.features for group in groups], seed)
    out = [
        {"feature": group.name, "moved": float(moved[g]), "flips": float(flips[g]), "share": float(share)}
        for (g, group), share in zip(enumerate(groups), _shares(moved), strict=True)
    ]
    return sorted(out, key=lambda one: -one["moved"])


def training_importances(estimator: Any, rows: Any) -> FloatArray:
    """What `feature_importances_` keeps of a fit: moves of probability on training rows, as shares that sum to one.

    ``rows`` are `LabelledRows`, an array or a sparse matrix. All zero where nothing moves.
    At most 1000 rows are used, fewer for large networks. Of more than 500 columns the 500 with the largest
    coefficients are shuffled; the others have the share that their coefficients suggest.
    """
    network = network_of(estimator)
    if isinstance(rows, LabelledRows):
        rows = rows.inputs
    groups = [group.features for group in column_groups(estimator)]
    n_shuffled = min(len(groups), MOST_SHUFFLED)
    n = min(MAX_ROWS, max(FEWEST_ROWS, MAX_WORK // max(n_shuffled * sum(network.n_units), 1)))
    rows = rows[some_rows(rows, n)]
    rows = clip_features(rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows), network.feature_limits)
    if len(groups) <= MOST_SHUFFLED:
        return _shares(shuffled_moves(network, rows, groups)[0])
    size = _coefficient_size(network, rows)
    strength = np.array([size[list(features)].sum() for features in groups])
    order = np.argsort(-strength, kind="stable")
    first = order[:MOST_SHUFFLED]
    moved = np.zeros(len(groups))
    moved[first] = shuffled_moves(network, rows, [groups[g] for g in first])[0]
    weakest = first[MOST_SHUFFLED // 2 :]
    rest = order[MOST_SHUFFLED:]
    moved[rest] = strength[rest] * moved[weakest].sum() / max(float(strength[weakest].sum()), 1e-300)
    return _shares(moved)


def _coefficient_size(network: Network, rows: FloatArray) -> FloatArray:
    """Per feature: the sum of its absolute coefficients times its spread."""
    n = network.n_expanded
    layers = [layer for t, layer in enumerate(network.layers, 1) if sees_features(t)]
    planes = np.concatenate([side.hyperplanes[:, 1 : n + 1] for layer in layers for side in layer.sides])
    size = np.abs(planes).sum(axis=0) * network.expand(rows).std(axis=0)
    if network.curve is not None:  # squares and ramps count for the features that they are of
        np.add.at(size, network.curve.columns, size[network.n_features :])
    return np.asarray(size[: network.n_features])


def _shares(moved: FloatArray) -> FloatArray:
    total = float(moved.sum())
    return moved / total if total > 0.0 else np.zeros_like(moved)
