"""The groups of rows that the experts of the top layer lead: size, rule in words, examples."""

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection.access import network_of, side_names
from pbdn.inspection.columns import column_groups
from pbdn.inspection.subtypes import votes
from pbdn.numerics.arrays import FloatArray

N_EXAMPLES = 3
N_COLUMNS = 4  # of an example
MAX_CARDS = 24


def group_cards(
    estimator: Any,
    rows: FloatArray,
    numbers: NDArray[np.int64],
    y: NDArray[Any] | None,
    rules: list[dict[str, Any]],
    effects: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """One card per kind of expert that leads some rows, largest group first.

    A row belongs to the expert for a class, in the top layer, that votes for it most strongly. Experts for one class whose
    rules name the same features in the same directions are alike and share a card: networks that are averaged find the
    same groups. ``numbers`` are the places of ``rows`` among the rows of the report.
    """
    network, classes = network_of(estimator), estimator.classes_.tolist()
    inputs = network.top_inputs(rows)
    sides = [
        (name, s, votes(side, inputs))
        for s, (name, side) in enumerate(zip(side_names(estimator), network.top.sides, strict=True))
        if name in classes and side.n_experts
    ]
    owners = [(name, s, k) for name, s, vote in sides for k in range(vote.shape[1])]
    if not owners:
        return []
    strength = np.concatenate([vote for _, _, vote in sides], axis=1)
    leads = np.argmax(strength, axis=1)
    said = {(rule["number"], rule["expert"]): rule for rule in rules if rule["layer"] == network.depth}
    order = [one["feature"] for one in effects]
    led = np.bincount(leads, minlength=len(owners))
    alike: dict[Any, list[int]] = defaultdict(list)
    for place in np.argsort(-led, kind="stable").tolist():
        if led[place]:
            _, s, k = owners[place]
            alike[s, frozenset(said[s, k + 1]["directions"])].append(place)
    cards = []
    for places in alike.values():
        name, s, k = owners[places[0]]
        mine = np.flatnonzero(np.isin(leads, places))
        rule = said[s, k + 1]
        best = mine[np.argsort(-strength[mine].max(axis=1), kind="stable")[:N_EXAMPLES]]
        named = _named_columns(estimator, rule["features"], order)
        cards.append(
            {
                "side": name,
                "experts": len(places),
                "layer": network.depth,
                "key": f"u{network.depth}.{s}.{k}",
                "rows": int(mine.size),
                "share": float(mine.size / len(rows)),
                "agree": None if y is None else float(np.mean(y[mine] == name)),
                "phrases": rule["phrases"] or ["much like the average row"],
                "columns": [group.name for group in named],
                "examples": [
                    {
                        "row": int(numbers[i]) + 1,
                        "label": None if y is None else y[i],
                        "values": [group.row_text(rows[i]) for group in named],
                    }
                    for i in best
                ],
            }
        )
    return sorted(cards, key=lambda card: -card["rows"])[:MAX_CARDS]


def _named_columns(estimator: Any, features: list[str], order: list[str]) -> list[Any]:
    """The columns of a rule first, then the most important ones."""
    groups = {group.name: group for group in column_groups(estimator)}
    names = list(dict.fromkeys([name for name in features if name in groups] + order))
    return [groups[name] for name in names[:N_COLUMNS]]
