"""Which features matter: how far predictions move when the values of one feature are shuffled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection.access import feature_names, network_of
from pbdn.numerics.arrays import FloatArray

MAX_ROWS = 1000


def some_rows(rows: FloatArray, n: int = MAX_ROWS, seed: int = 0) -> NDArray[np.int64]:
    """Numbers of at most ``n`` rows, at random but always the same."""
    if rows.shape[0] <= n:
        return np.arange(rows.shape[0])
    return np.sort(np.random.default_rng(seed).choice(rows.shape[0], n, replace=False))


def feature_effects(estimator: Any, rows: FloatArray, seed: int = 0) -> list[dict[str, Any]]:
    """Per feature: how far probabilities move and how many labels flip when its values are shuffled.

    The recorded point of the network predicts, without an average over draws. It needs no labels, unlike
    `sklearn.inspection.permutation_importance`. It measures what the network uses, not causes; features that say the
    same share the effect.
    """
    rows = rows[some_rows(rows)]
    rng = np.random.default_rng(seed)
    network = network_of(estimator)
    before = network.predict(rows)
    out = []
    for j, name in enumerate(feature_names(estimator)):
        shuffled = rows.copy()
        shuffled[:, j] = rows[rng.permutation(len(rows)), j]
        after = network.predict(shuffled)
        flips = np.argmax(after, axis=1) != np.argmax(before, axis=1)
        moved = 0.5 * np.abs(after - before).sum(axis=1)
        out.append({"feature": name, "moved": float(moved.mean()), "flips": float(flips.mean())})
    return sorted(out, key=lambda one: -one["moved"])
