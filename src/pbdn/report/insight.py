"""What a network learned, in words: which features matter, what each expert looks for, why a row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection import subtypes as interpret
from pbdn.validation import NamedArray

FloatArray = NDArray[np.float64]

MAX_ROWS = 1000
N_NAMED = 3  # features named in a rule
CLEAR = 0.25  # differences below this many standard deviations are not worth a word


def point_probability(estimator: Any, features: FloatArray) -> FloatArray:
    """Class probabilities of the recorded point (no average over draws: it is what the words describe)."""
    return np.asarray(estimator._network().class_probability(features))


def with_names(estimator: Any, features: FloatArray) -> FloatArray:
    """Features under the names that the estimator was fitted with, so that its checks are silent."""
    if not hasattr(estimator, "feature_names_in_"):
        return features
    return NamedArray(features, estimator._names())


def some_rows(features: FloatArray, n: int = MAX_ROWS, seed: int = 0) -> NDArray[np.int64]:
    """Numbers of at most ``n`` rows, at random but always the same."""
    if features.shape[0] <= n:
        return np.arange(features.shape[0])
    return np.sort(np.random.default_rng(seed).choice(features.shape[0], n, replace=False))


def feature_effects(estimator: Any, features: FloatArray, seed: int = 0) -> list[dict[str, Any]]:
    """Per feature: how far probabilities move and how many labels flip when its values are shuffled.

    A measure of what the network uses, not of cause; features that say the same share the effect.
    """
    rows = features[some_rows(features)]
    rng = np.random.default_rng(seed)
    before = point_probability(estimator, rows)
    out = []
    for j, name in enumerate(estimator._names()):
        shuffled = rows.copy()
        shuffled[:, j] = rows[rng.permutation(len(rows)), j]
        after = point_probability(estimator, shuffled)
        flips = np.argmax(after, axis=1) != np.argmax(before, axis=1)
        moved = 0.5 * np.abs(after - before).sum(axis=1)
        out.append({"feature": name, "moved": float(moved.mean()), "flips": float(flips.mean())})
    return sorted(out, key=lambda one: -one["moved"])


@dataclass(frozen=True)
class Background:
    """What is usual in the rows: mean, spread, and whether a feature is a yes/no."""

    names: list[str]
    mean: FloatArray
    spread: FloatArray
    yes_no: NDArray[np.bool_]

    @classmethod
    def of(cls, names: list[str], features: FloatArray) -> "Background":
        """From rows."""
        yes_no = np.all((features == 0.0) | (features == 1.0), axis=0)
        return cls(names, features.mean(axis=0), features.std(axis=0), yes_no)

    def phrase(self, j: int, value: float) -> str:
        """How a group's mean of feature j differs from the usual."""
        name, usual = self.names[j], self.mean[j]
        if self.yes_no[j]:
            return f"{name}: {value:.0%} (usually {usual:.0%})"
        side = "above" if value > usual else "below"
        step = abs(value - usual) / self.spread[j]
        far = "far " if step >= 1.0 else "" if step >= 0.5 else "a little "
        return f"{name} {far}{side} average ({value:.3g}, usually {usual:.3g})"


def subtype_rules(estimator: Any, features: FloatArray) -> list[dict[str, Any]]:
    """Every expert as a rule: the side it votes for, how much, and which rows (eq. 2 of the paper)."""
    network = estimator._network()
    background = Background.of(estimator._names(), features)
    inputs = list(network.layer_inputs(features))
    scale = np.where(background.spread > 0, background.spread, 1.0)
    labels = [_plain(label) for label in interpret.side_labels(network, estimator.classes_)]
    out = []
    for t, (layer, seen) in enumerate(zip(network.layers, inputs, strict=True), 1):
        for s, side in enumerate(layer.sides):
            means, share = interpret.subtype_means(side, seen, features)
            step = np.where(background.spread > 0, (means - background.mean) / scale, 0.0)
            for k in range(side.n_experts):
                order = [int(j) for j in np.argsort(-np.abs(step[k]))[:N_NAMED] if abs(step[k, j]) >= CLEAR]
                phrases = [background.phrase(j, float(means[k, j])) for j in order]
                out.append(
                    {
                        "layer": t,
                        "number": s,
                        "side": labels[s],
                        "expert": k + 1,
                        "weight": float(side.expert_weights[k]),
                        "share": float(share[k]),
                        "rule": "; ".join(phrases) or "rows much like the average",
                        "features": [background.names[j] for j in order],
                    }
                )
    return out


def explain_row(estimator: Any, row: FloatArray, features: FloatArray) -> dict[str, Any]:
    """One row: its class, who voted for it, and what each feature adds against its median."""
    before = estimator.predict_proba(with_names(estimator, row[None]))[0]
    best = int(np.argmax(before))
    usual = np.median(features, axis=0)
    moved = np.repeat(row[None], row.size, axis=0)
    np.fill_diagonal(moved, usual)
    change = before[best] - estimator.predict_proba(with_names(estimator, moved))[:, best]
    names = estimator._names()
    order = np.argsort(-np.abs(change))
    network = estimator._network()
    inputs = network.top_inputs(row[None])
    votes = []
    labels = [_plain(label) for label in interpret.side_labels(network, estimator.classes_)]
    for s, (label, side) in enumerate(zip(labels, network.top.sides, strict=True)):
        if s >= len(estimator.classes_) and s - len(estimator.classes_) != best:
            continue  # votes against classes that are not in question say little
        for k, vote in enumerate(interpret.votes(side, inputs)[0].tolist()):
            votes.append({"side": label, "expert": k + 1, "vote": vote})
    return {
        "label": _plain(estimator.classes_[best]),
        "probability": float(before[best]),
        "votes": sorted(votes, key=lambda one: -one["vote"]),
        "features": [
            {
                "feature": names[j],
                "value": float(row[j]),
                "usual": float(usual[j]),
                "change": float(change[j]),
            }
            for j in order
        ],
    }


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
