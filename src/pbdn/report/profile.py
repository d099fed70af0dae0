"""The columns of the table: what became of each, what is in it, and what a reader should check."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import column_or_1d

from pbdn.data.labelled_rows import numeric_bounds
from pbdn.errors import InvalidInputError, TableWarning, warn
from pbdn.inspection.columns import MISSING, ColumnGroup, column_groups, number_text, percent_text
from pbdn.numerics.arrays import FloatArray
from pbdn.tables.target_to_labels import labels_among
from pbdn.validation import check_labels_present

N_BARS = 16
ALMOST_PERFECT = 0.995  # area under the ROC curve of a column alone
MANY_MISSING = 0.2
FEWEST_ROWS = 40  # under which a column that tells everything, or counts the rows, may do so by chance
MAX_PROFILED = 500
ALIKE = 0.95  # rank correlation, up or down, from which on two columns say almost the same
MAX_COMPARED = 200  # columns
COMPARED_ROWS = 1000
ONE_SIDED = 0.9  # share of the commonest class
LEAK = "Alone it tells the class almost perfectly. Check that it is known before the outcome is."


@dataclass(frozen=True)
class ColumnProfile:
    """One column.

    Attributes
    ----------
    name, kind, decision : str
        ``kind`` is "number", "category", "date", "left out" or "target".
    summary : str
        What its values are like, in words.
    missing : float or None
        Share of missing values; None where that is not known.
    bars : list of float
        Heights between 0 and 1 of a small picture of its values.
    share : float or None
        Of importance; None for a column that is left out.
    alerts : list of str
        What to check.
    """

    name: str
    kind: str
    decision: str
    summary: str
    missing: float | None
    bars: list[float]
    share: float | None
    alerts: list[str]


def column_profiles(
    estimator: Any,
    rows: FloatArray,
    y: NDArray[Any] | None,
    effects: Sequence[dict[str, Any]],
    columns: Sequence[Sequence[Any]],
) -> list[ColumnProfile]:
    """Profiles of the columns in use, and of those that ``columns`` says were left out.

    ``columns`` are (name, decision) or (name, decision, alerts): what the preparation of the table decided and noted.
    """
    groups = {group.name: group for group in column_groups(estimator)}
    alike = _alike(list(groups.values()), rows[:COMPARED_ROWS])
    shares = {one["feature"]: one["share"] for one in effects}
    told = {str(one[0]): one for one in columns}
    names = list(told) + [name for name in groups if name not in told]
    out = []
    for name in names[:MAX_PROFILED]:
        one = told.get(name, (name, ""))
        alerts = [str(text) for text in one[2]] if len(one) > 2 else []
        group = groups.get(name)
        if group is None:
            kind = "left out" if "left out" in str(one[1]) or groups else ""
            out.append(ColumnProfile(name, kind, str(one[1]), "", None, [], None, alerts))
            continue
        summary, missing, bars, found = _seen(group, rows, y)
        alerts += [text for text in [*found, *alike.get(name, [])] if text not in alerts]
        out.append(
            ColumnProfile(name, group.kind, str(one[1]) or group.kind, summary, missing, bars, shares[name], alerts)
        )
    return out


def target_profile(name: str, y: NDArray[Any], has_classes: bool) -> ColumnProfile:
    """What is predicted: its values in the rows of the report."""
    alerts = []
    if has_classes:
        labels, counts = np.unique(y, return_counts=True)
        common, share = labels[np.argmax(counts)], counts.max() / len(y)
        words = f"{len(labels)} values, most often {common} ({percent_text(share)})"
        bars = np.sort(counts)[::-1][:N_BARS].astype(float)
        if len(labels) == 1:
            alerts = [f"All are {common}: how well others are found cannot be seen in these rows."]
        elif share >= ONE_SIDED:
            alerts = [
                f"{percent_text(share)} are {common}: always saying so is right as often. Look at what is found of the rest."
            ]
    else:
        low, middle, high = np.quantile(y.astype(float), [0.0, 0.5, 1.0])
        words = f"{number_text(low)} to {number_text(high)}, median {number_text(middle)}"
        bars = np.histogram(y.astype(float), bins=N_BARS)[0].astype(float) if high > low else np.empty(0)
    return ColumnProfile(name, "target", "what is predicted", words, None, _heights(bars), None, alerts)


def _alike(groups: Sequence[ColumnGroup], rows: FloatArray) -> dict[str, list[str]]:
    """What to say of numbers and dates that order the rows almost as an earlier column does, or the other way round."""
    moving = [group for group in groups if group.moving is not None][:MAX_COMPARED]
    if len(rows) < FEWEST_ROWS or len(moving) < 2:
        return {}
    values = np.array([np.where(_gone(group, rows), np.nan, rows[:, group.features[0]]) for group in moving])
    ranks = rankdata(values, axis=1, nan_policy="omit")
    ranks -= np.nanmean(ranks, axis=1, keepdims=True)
    known = np.isfinite(ranks)
    ranks = np.where(
        known, ranks, 0.0
    )  # nothing where a value is missing: each pair is compared on the rows that both have
    squares = ranks**2 @ known.T
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.where(
            known.astype(float) @ known.T >= FEWEST_ROWS, ranks @ ranks.T / np.sqrt(squares * squares.T), 0.0
        )
    close = np.tril(np.nan_to_num(found), -1)
    best = np.abs(close).argmax(axis=1)
    return {
        group.name: [
            f"Says almost the same as {moving[j].name} (rank correlation {close[i, j]:.2f}): they share importance, and one may do."
        ]
        for i, (group, j) in enumerate(zip(moving, best, strict=True))
        if abs(close[i, j]) >= ALIKE
    }


def _gone(group: ColumnGroup, rows: FloatArray) -> NDArray[np.bool_]:
    """Where the column is missing."""
    return rows[:, group.features[-1]] == 1.0 if group.parts[-1] == MISSING else np.zeros(len(rows), dtype=bool)


def _heights(bars: FloatArray) -> list[float]:
    """Bars between 0 and 1."""
    tallest = float(bars.max(initial=0.0)) or 1.0
    return [round(float(bar) / tallest, 3) for bar in bars]


def _seen(
    group: ColumnGroup, rows: FloatArray, y: NDArray[Any] | None
) -> tuple[str, float | None, list[float], list[str]]:
    """Words, share of missing values, bars and alerts of one column."""
    values = rows[:, list(group.features)]
    gone = _gone(group, rows)
    missing = float(gone.mean()) if group.parts[-1] == MISSING else None
    alerts = []
    if missing is not None and missing >= MANY_MISSING:
        alerts.append(f"Missing in {percent_text(missing)} of the rows.")
    if np.all(values == values[0]) and len(rows) > 1:
        alerts.append("The same in all rows of this report.")
    if group.moving is None:
        counts = np.array([np.all(values == setting, axis=1).sum() for _, setting in group.choices], dtype=float)
        common = int(np.argmax(counts)) if counts.size else 0
        words = f"{len(group.choices)} values"
        if counts.size:
            words += f", most often {group.choices[common][0]} ({percent_text(counts[common] / len(rows))})"
        score = counts_by_class(values, y)
        bars = np.sort(counts)[::-1][:N_BARS]
    else:
        present = values[~gone, 0]
        low, middle, high = np.quantile(present, [0.0, 0.5, 1.0]) if present.size else (0.0, 0.0, 0.0)
        words = f"{group.text(low)} to {group.text(high)}, median {group.text(middle)}"
        if group.kind == "number" and _counts_rows(present):
            alerts.append("Counts the rows: a row number or key tells nothing about new rows.")
        score = values[:, 0]
        bars = np.histogram(present, bins=N_BARS)[0].astype(float) if present.size and high > low else np.empty(0)
    if y is not None and _tells_all(score, y):
        alerts.append(LEAK)
    return words, missing, _heights(bars), alerts


def known_targets(estimator: Any, y: Any, n_rows: int, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """What the rows say that a model can be measured on, as an array, and the mask of those rows.

    Rows of classes that no training row had are left out, which is told.

    Raises
    ------
    InvalidInputError
        There is not one target for each row, some are missing, numbers are not exact, or no label is known.
    """
    values = estimator._as_array(y)
    if len(values) != n_rows:
        raise InvalidInputError(f"X has {n_rows} rows but y has {len(values)}; give one label or value for each row.")
    known = np.ones(n_rows, dtype=bool)
    if estimator._predicts == "time":
        return values, known
    check_labels_present(values)
    if not estimator._has_classes:
        low, high = numeric_bounds(values.ravel() if values.size == n_rows else values).T
        if not np.array_equal(low, high):
            i = int(np.argmax(low != high))
            raise InvalidInputError(
                f"y has the bounds ({low[i]:g}, {high[i]:g}) in row {i}; a report compares predictions with exact numbers. Leave "
                "such rows out."
            )
        return low, known
    values, classes = column_or_1d(values), estimator.classes_
    alike = values.dtype.kind == classes.dtype.kind or {values.dtype.kind, classes.dtype.kind} <= set("biuf")
    if alike and values.dtype != object and np.isin(values, classes).all():
        return values, known
    labels, known, notes = labels_among(values, classes, name)
    if not known.any():
        raise InvalidInputError(
            f"y has labels such as {values[:1].tolist()[0]!r}, but the model was fitted on the classes {classes[:10].tolist()!r}. Give "
            "labels as in the fit, or leave y out."
        )
    for note in notes:
        warn(note, TableWarning)
    return labels, known


def counts_by_class(values: FloatArray, y: NDArray[Any] | None) -> FloatArray:
    """Per row: the share of the last class among rows with the same values, a score for categories."""
    if y is None:
        return np.zeros(len(values))
    _, code = np.unique(values, axis=0, return_inverse=True)
    hit = (y == np.unique(y)[-1]).astype(float)
    code = code.ravel()
    return np.asarray((np.bincount(code, hit) / np.bincount(code))[code])


def _counts_rows(present: FloatArray) -> bool:
    """Whether sorted values go up in steps of one."""
    return present.size >= FEWEST_ROWS and bool(np.all(np.diff(np.sort(present)) == 1.0))


def _tells_all(score: FloatArray, y: NDArray[Any]) -> bool:
    """Whether the column orders the rows by class, for two classes or one class against the others."""
    classes = np.unique(y)
    if len(y) < FEWEST_ROWS or classes.size < 2 or np.ptp(score) == 0.0:
        return False
    areas = [roc_auc_score(y == label, score) for label in classes]
    return all(max(area, 1.0 - area) >= ALMOST_PERFECT for area in areas)
