"""Experts in words: which side each one votes for, and how the rows it votes for differ from the usual."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection.access import feature_names, network_of, side_names
from pbdn.inspection.bends import bends
from pbdn.inspection.columns import column_groups, date_text, number_text, percent_text
from pbdn.inspection.subtypes import subtype_means
from pbdn.numerics.arrays import FloatArray

N_NAMED = 3  # features named in a rule
CLEAR = 0.25  # differences below this many standard deviations are not worth a word


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


def subtype_rules(estimator: Any, rows: FloatArray) -> list[dict[str, Any]]:
    """Every expert as a rule: the side it votes for, how much, and which rows (eq. 2 of the paper)."""
    network = network_of(estimator)
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
                    bent[j].phrase(background.names[j]) if j in bent else background.phrase(j, float(means[k, j]))
                    for j in order
                ]
                out.append(
                    {
                        "layer": t,
                        "number": s,
                        "side": sides[s],
                        "expert": k + 1,
                        "weight": float(side.expert_weights[k]),
                        "share": float(share[k]),
                        "rule": "; ".join(phrases) or "rows much like the average",
                        "phrases": phrases,
                        "directions": [(background.names[j], bool(step[k, j] > 0)) for j in order],
                        "features": [background.names[j] for j in order],
                    }
                )
    return out
