"""Why one row is what it is: the experts that voted, and what each feature adds."""

from typing import Any

import numpy as np

from pbdn.inspection.access import feature_names, network_of, side_names, with_names
from pbdn.inspection.subtypes import votes
from pbdn.numerics.arrays import FloatArray


def explain_row(estimator: Any, row: FloatArray, rows: FloatArray) -> dict[str, Any]:
    """One row: its class, who voted for it, and what each feature adds against its median over ``rows``."""
    classes = estimator.classes_.tolist()
    before = estimator.predict_proba(with_names(estimator, row[None]))[0]
    best = int(np.argmax(before))
    usual = np.median(rows, axis=0)
    moved = np.repeat(row[None], row.size, axis=0)
    np.fill_diagonal(moved, usual)
    change = before[best] - estimator.predict_proba(with_names(estimator, moved))[:, best]
    names = feature_names(estimator)
    network = network_of(estimator)
    inputs = network.top_inputs(row[None])
    cast = []
    for s, (name, side) in enumerate(zip(side_names(estimator), network.top.sides, strict=True)):
        if s >= len(classes) and s - len(classes) != best:
            continue  # votes against classes that are not in question say little
        for k, vote in enumerate(votes(side, inputs)[0].tolist()):
            cast.append({"side": name, "expert": k + 1, "vote": vote})
    return {
        "label": classes[best],
        "probability": float(before[best]),
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
