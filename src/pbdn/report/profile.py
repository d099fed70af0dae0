"""The columns of the table: what became of each, what is in it, and what a reader should check."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from pbdn.inspection.columns import MISSING, ColumnGroup, column_groups, percent_text
from pbdn.numerics.arrays import FloatArray

N_BARS = 16
ALMOST_PERFECT = 0.995  # area under the ROC curve of a column alone
MANY_MISSING = 0.2
FEWEST_ROWS = 40  # under which a column that tells everything, or counts the rows, may do so by chance
MAX_PROFILED = 500
LEAK = "Alone it tells the class almost perfectly. Check that it is known before the outcome is."


@dataclass(frozen=True)
class ColumnProfile:
    """One column.

    Attributes
    ----------
    name, kind, decision : str
        ``kind`` is "number", "category", "date" or "left out".
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
        alerts += [text for text in found if text not in alerts]
        out.append(
            ColumnProfile(name, group.kind, str(one[1]) or group.kind, summary, missing, bars, shares[name], alerts)
        )
    return out


def _seen(
    group: ColumnGroup, rows: FloatArray, y: NDArray[Any] | None
) -> tuple[str, float | None, list[float], list[str]]:
    """Words, share of missing values, bars and alerts of one column."""
    values = rows[:, list(group.features)]
    gone = values[:, -1] == 1.0 if group.parts[-1] == MISSING else np.zeros(len(rows), dtype=bool)
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
    tallest = float(bars.max(initial=0.0)) or 1.0
    return words, missing, [round(float(bar) / tallest, 3) for bar in bars], alerts


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
