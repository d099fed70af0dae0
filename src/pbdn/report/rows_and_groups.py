"""Rows and groups of rows for the page: scores for thresholds, rows with what each column adds, the groups that experts lead."""

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection.access import (
    has_intervals,
    lighter,
    network_of,
    side_labels,
    side_names,
    titled,
    with_names,
)
from pbdn.inspection.columns import column_groups
from pbdn.inspection.effects import some_rows
from pbdn.inspection.shapley import shapley_values
from pbdn.inspection.subtypes import votes
from pbdn.numerics.arrays import FloatArray

MAX_CELLS = 24_000  # probabilities in the page, for thresholds
MAX_WRONG, MAX_ROWS = 30, 90
N_COLUMNS = 10
N_BACKGROUND, N_ORDERS = 20, 40
MOST_EXACT = 5  # columns of which all coalitions are cheaper than orders
MAX_WORK = 3_000_000  # cells predicted for all rows; fewer rows are shown of wide tables
N_EXAMPLES = 3
N_EXAMPLE_COLUMNS = 4
MAX_CARDS = 24


def scores(y: NDArray[Any], probability: FloatArray, classes: list[Any]) -> dict[str, Any]:
    """Class codes and probabilities in thousandths of at most so many rows as fit in a page."""
    chosen = some_rows(probability, max(200, MAX_CELLS // len(classes)))
    code = {label: j for j, label in enumerate(classes)}
    return {
        "classes": [str(label) for label in classes],
        "codes": [code.get(label, -1) for label in np.asarray(y)[chosen].tolist()],
        "p": np.rint(1000 * probability[chosen]).astype(int).T.tolist(),
        "of": len(probability),
    }


def explored_rows(
    estimator: Any,
    rows: FloatArray,
    y: NDArray[Any] | None,
    probability: FloatArray,
    effects: list[dict[str, Any]],
) -> dict[str, Any]:
    """Some rows, wrong ones among them: values, probabilities, and what each column adds (Shapley values)."""
    groups = column_groups(estimator)
    classes = estimator.classes_.tolist()
    best = np.argmax(probability, axis=1)
    places = {group.name: g for g, group in enumerate(groups)}
    shown = [places[one["feature"]] for one in effects[:N_COLUMNS]]
    per_row = 2 * (len(groups) + 1) * N_ORDERS * rows.shape[1]
    chosen = _chosen(rows, y, best, classes, max(10, min(MAX_ROWS, 20 * MAX_WORK // per_row)))
    light = lighter(estimator)
    found = shapley_values(
        light,
        with_names(estimator, rows[chosen]),
        with_names(estimator, rows[some_rows(rows, N_BACKGROUND)]),
        method="exact" if len(groups) <= MOST_EXACT else "orders",
        n_orders=N_ORDERS,
    )
    interval = _interval(estimator, rows[chosen])
    code = {label: j for j, label in enumerate(classes)}
    records = []
    for at, i in enumerate(chosen.tolist()):
        adds = found.values[at, :, best[i]]
        records.append(
            {
                "n": i + 1,
                "y": -1 if y is None else code.get(np.asarray(y)[i : i + 1].tolist()[0], -2),
                "p": np.rint(1000 * probability[i]).astype(int).tolist(),
                "i": None if interval is None else np.rint(1000 * interval[at, best[i]]).astype(int).tolist(),
                "v": [groups[g].row_text(rows[i])[:40] for g in shown],
                "a": np.rint(1000 * adds[shown]).astype(int).tolist(),
                "r": int(np.rint(1000 * (adds.sum() - adds[shown].sum()))),
            }
        )
    return {
        "columns": [groups[g].name for g in shown],
        "classes": [str(label) for label in classes],
        "base": np.rint(1000 * found.base_values).astype(int).tolist(),
        "exact": found.exact,
        "error": None if found.standard_error is None else float(found.standard_error.mean()),
        "rows": records,
        "of": len(rows),
    }


def _chosen(
    rows: FloatArray, y: NDArray[Any] | None, best: NDArray[np.int64], classes: list[Any], n: int
) -> NDArray[np.int64]:
    """Places of rows to show, wrong ones first among them, in the order of the table."""
    wrong = np.empty(0, dtype=np.int64)
    if y is not None:
        wrong = np.flatnonzero(np.asarray(classes, dtype=object)[best] != np.asarray(y, dtype=object))
        wrong = wrong[some_rows(wrong[:, None], min(MAX_WRONG, n // 3))]
    return np.unique(np.concatenate([wrong, some_rows(rows, n - wrong.size)]))


def _interval(estimator: Any, rows: FloatArray) -> FloatArray | None:
    """95 % intervals of the class probabilities, where there are any."""
    if not has_intervals(estimator):
        return None
    return np.asarray(estimator.predict_proba_interval(with_names(estimator, rows)))


def group_cards(
    estimator: Any,
    rows: FloatArray,
    numbers: NDArray[np.int64],
    y: list[Any] | None,
    spoken_for: NDArray[Any] | None,
    rules: list[dict[str, Any]],
    effects: list[dict[str, Any]],
    model: str = "",
) -> list[dict[str, Any]]:
    """One card per kind of expert of a network that leads some rows, largest group first.

    A row belongs to the expert for a class, in the top layer, that votes for it most strongly. Experts for one class whose
    rules name the same features in the same directions are alike and share a card: networks that are averaged find the
    same groups. ``numbers`` are the places of ``rows`` among the rows of the report. ``y`` is how the targets are written.
    ``spoken_for`` is, for each row, what the side that is right about it speaks for, or None. ``model`` names the network.
    """
    network, classes = network_of(estimator), side_labels(estimator)
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
    own = [rule for rule in rules if rule["model"] == model and rule["layer"] == network.depth]
    said = {(rule["number"], rule["expert"]): rule for rule in own}
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
        known = [] if spoken_for is None else [one == name for one in spoken_for[mine] if one is not None]
        cards.append(
            {
                "side": titled(model, name),
                "experts": len(places),
                "layer": network.depth,
                "key": f"u{model}{network.depth}.{s}.{k}",
                "rows": int(mine.size),
                "share": float(mine.size / len(rows)),
                "agree": float(np.mean(known)) if known else None,
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
    return [groups[name] for name in names[:N_EXAMPLE_COLUMNS]]
