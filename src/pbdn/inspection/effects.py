"""Which features matter: how far predictions move when the values of one column are shuffled."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.data.labelled_rows import LabelledRows
from pbdn.inspection.access import network_of
from pbdn.inspection.columns import column_groups
from pbdn.inspection.narrowed import Offsets
from pbdn.model.network import Network
from pbdn.model.scaling import clip_features
from pbdn.numerics.arrays import FloatArray

MAX_ROWS = 1000
FEWEST_ROWS = 64
MAX_CELLS = 1_000_000  # rows times columns shuffled at the end of a fit; fewer rows of wide data


def some_rows(rows: Any, n: int = MAX_ROWS, seed: int = 0) -> NDArray[np.int64]:
    """Numbers of at most ``n`` rows, at random but always the same."""
    if rows.shape[0] <= n:
        return np.arange(rows.shape[0])
    return np.sort(np.random.default_rng(seed).choice(rows.shape[0], n, replace=False))


def shuffled_moves(
    network: Network, rows: Any, groups: Sequence[tuple[int, ...]], seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Per group of features, shuffled together: mean move of probability, and share of labels that flip."""
    rng = np.random.default_rng(seed)
    before = network.predict(rows)
    label = np.argmax(before, axis=1)
    offsets = Offsets(network, rows)
    moved, flips = np.zeros(len(groups)), np.zeros(len(groups))
    for g, features in enumerate(groups):
        order = rng.permutation(rows.shape[0])
        small, changed = offsets.narrowed(features)
        own = slice(changed.shape[1] - len(features), None)
        if np.array_equal(changed[order, own], changed[:, own]):
            continue
        changed[:, own] = changed[order, own]
        after = small.predict(changed)
        moved[g] = 0.5 * np.abs(after - before).sum(axis=1).mean()
        flips[g] = np.mean(np.argmax(after, axis=1) != label)
    return moved, flips


def feature_effects(estimator: Any, rows: FloatArray, seed: int = 0) -> list[dict[str, Any]]:
    """Per column: how far probabilities move and how many labels flip when its values are shuffled.

    The recorded point of the network predicts, without an average over draws. It needs no labels, unlike
    `sklearn.inspection.permutation_importance`. It measures what the network uses, not causes; features that say the
    same share the effect. Features of one column are shuffled together.
    """
    rows = rows[some_rows(rows)]
    groups = column_groups(estimator)
    moved, flips = shuffled_moves(network_of(estimator), rows, [group.features for group in groups], seed)
    out = [
        {"feature": group.name, "moved": float(moved[g]), "flips": float(flips[g]), "share": float(share)}
        for (g, group), share in zip(enumerate(groups), _shares(moved), strict=True)
    ]
    return sorted(out, key=lambda one: -one["moved"])


def training_importances(estimator: Any, rows: Any) -> FloatArray:
    """What `feature_importances_` keeps of a fit: moves of probability on training rows, as shares that sum to one.

    ``rows`` are `LabelledRows`, a stream (its first block is used) or an array. All zero where nothing moves.
    """
    network = network_of(estimator)
    if isinstance(rows, LabelledRows):
        rows = rows.inputs
    elif hasattr(rows, "blocks"):
        rows = next(iter(rows.blocks())).inputs
    groups = column_groups(estimator)
    n = min(MAX_ROWS, max(FEWEST_ROWS, MAX_CELLS // max(len(groups), 1)))
    rows = clip_features(rows[some_rows(rows, n)], network.feature_limits)
    return _shares(shuffled_moves(network, rows, [group.features for group in groups])[0])


def _shares(moved: FloatArray) -> FloatArray:
    total = float(moved.sum())
    return moved / total if total > 0.0 else np.zeros_like(moved)
