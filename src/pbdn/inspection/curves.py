"""How predictions move as one column moves: a curve per column, with where the rows lie."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn.inspection.access import dense_rows, has_draws, lone_networks, predictions
from pbdn.inspection.columns import MISSING, ColumnGroup, column_group, column_groups, number_text, percent_text
from pbdn.inspection.effects import some_rows
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_choice

N_POINTS = 24
N_ROWS = 60
N_BARS = 20
N_DRAWS = 40  # posterior draws that say how sure a curve is
MOST_VALUES = 50  # categories that a curve shows, the commonest ones
FEW_VALUES = 8  # a number with at most so many different values is shown value by value
HARDLY = 0.01  # of the range of predictions; a curve that moves less is told to move hardly
AGAINST = 0.005  # of that range; a curve that rises may fall by so much in all, and the other way round
SMALLEST = 1e-6  # probabilities are kept off 0 and 1 by so much before log-odds are taken


@dataclass(frozen=True)
class EffectCurve:
    """The prediction as one column moves and the other columns stay as they are in some rows.

    Attributes
    ----------
    group : ColumnGroup
    classes : list
        Of numbers: empty.
    at : array (n_points,)
        Values of the column (places 0, 1, … where it has named values).
    labels : list of str
        The values as text; all points of categories, else of the same length as ``at``.
    discrete : bool
        Whether the points are single values, not points of a line.
    probability, low, high : array (n_points, n_classes)
        Mean over the rows, and where 80 % of the rows lie. Of numbers: what is predicted, in one column.
    log_odds : array (n_points, n_classes)
        Mean over the rows of ln p/(1 - p); of numbers, nothing.
    edges, counts : arrays
        Where the rows lie: bars over the line, or one count for each single value.
    lone : array (n_networks, n_points, n_classes)
        The curve of each single network, or posterior draw, of those that say how sure the curve is; one network: none.
    by_draws : bool
        Whether these are posterior draws.
    of : str
        What is predicted, where there are no classes: "prediction", of times "median time".
    """

    group: ColumnGroup
    classes: list[Any]
    at: FloatArray
    labels: list[str]
    discrete: bool
    probability: FloatArray
    low: FloatArray
    high: FloatArray
    log_odds: FloatArray
    edges: FloatArray
    counts: FloatArray
    lone: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)), repr=False)
    by_draws: bool = False
    of: str = "prediction"

    @property
    def band(self) -> tuple[FloatArray, FloatArray] | None:
        """How sure the curve is: the lowest and the highest network, or 90 % of the draws, and the curve itself."""
        if not len(self.lone):
            return None
        tail = 0.05 if self.by_draws else 0.0
        low, high = np.quantile(self.lone, [tail, 1.0 - tail], axis=0)
        return np.minimum(low, self.probability), np.maximum(high, self.probability)

    @property
    def span(self) -> FloatArray:
        """Per class: how far the mean probability moves over the curve."""
        return np.asarray(self.probability.max(axis=0) - self.probability.min(axis=0))


def effect_curves(
    estimator: Any,
    X: Any,
    columns: Sequence[str | int] | None = None,
    *,
    n_points: int = N_POINTS,
    n_rows: int = N_ROWS,
) -> list[EffectCurve]:
    """One curve per column (names, or places in X; default: all).

    Each is the average, over at most ``n_rows`` rows of X, of what is predicted when the column takes each value in turn
    (a partial dependence). Numbers and dates run over the middle 98 % of the rows. As a date moves, its month moves with
    it; weekday and hour stay.
    """
    rows = dense_rows(estimator, X)
    groups = column_groups(estimator) if columns is None else [column_group(estimator, one) for one in columns]
    base = rows[some_rows(rows, n_rows)]
    lone = lone_networks(estimator, N_DRAWS)
    return [_curve(estimator, lone, rows, base, group, n_points) for group in groups]


def _curve(
    estimator: Any, lone: Sequence[Any], rows: FloatArray, base: FloatArray, group: ColumnGroup, n_points: int
) -> EffectCurve:
    own = list(group.features)
    values = rows[:, own]
    moving = group.moving
    present = values[:, 0]
    if group.parts[-1] == MISSING and moving is not None:
        present = present[values[:, -1] == 0.0]
    distinct = np.unique(present)
    if moving is None:
        of_all = [float(np.all(values == setting, axis=1).sum()) for _, setting in group.choices]
        shown = np.sort(np.argsort(np.negative(of_all), kind="stable")[:MOST_VALUES])
        settings = np.array([group.choices[j][1] for j in shown])
        labels, counts = [group.choices[j][0] for j in shown], np.array(of_all)[shown]
        at, edges, discrete = np.arange(len(labels), dtype=float), np.empty(0), True
    else:
        discrete = distinct.size <= FEW_VALUES and group.parts[0] != "days"
        at = distinct if discrete else _grid(present, n_points)
        settings = np.repeat(np.full((1, len(own)), np.nan), at.size, axis=0)  # NaN: as it is in the row
        settings[:, 0] = at
        for place, part in enumerate(group.parts):
            if part == MISSING:
                settings[:, place] = 0.0
            elif part == "month":
                months = np.rint(at).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
                settings[:, place] = months % 12 + 1
        labels = [group.text(value) for value in at]
        if discrete:
            edges, counts = np.empty(0), np.array([float(np.sum(present == value)) for value in at])
        else:
            bars, edges = np.histogram(np.clip(present, at[0], at[-1]), bins=min(N_BARS, max(1, at.size - 1)))
            counts = bars.astype(float)
    changed = np.repeat(base[None], at.size, axis=0)
    for place, feature in enumerate(own):
        new = settings[:, place]
        kept = np.isnan(new)
        changed[~kept, :, feature] = new[~kept, None]
    flat = changed.reshape(-1, rows.shape[1])
    probability, *alone = (predictions(one, flat).reshape(at.size, len(base), -1) for one in (estimator, *lone))
    has_classes = estimator._has_classes
    cut = np.clip(probability, SMALLEST, 1.0 - SMALLEST) if has_classes else np.full_like(probability, np.nan)
    low, high = np.quantile(probability, [0.1, 0.9], axis=1)
    return EffectCurve(
        group=group,
        classes=estimator.classes_.tolist() if has_classes else [],
        at=at,
        labels=labels,
        discrete=discrete,
        probability=probability.mean(axis=1),
        low=low,
        high=high,
        log_odds=np.log(cut / (1.0 - cut)).mean(axis=1),
        edges=edges,
        counts=counts,
        lone=np.array([one.mean(axis=1) for one in alone]) if alone else np.empty((0, 0, 0)),
        by_draws=has_draws(estimator),
        of="median time" if estimator._predicts == "time" else "prediction",
    )


def _grid(present: FloatArray, n_points: int) -> FloatArray:
    """Evenly spaced values over the middle 98 % of the rows."""
    low, high = np.quantile(present, [0.01, 0.99]) if present.size else (0.0, 1.0)
    if low == high:
        low, high = float(present.min()), float(present.max())
    return np.linspace(low, high, n_points)


def band_words(curve: EffectCurve) -> str:
    """One sentence: what the band of a curve shows; empty where there is none."""
    n = len(curve.lone)
    if not n:
        return ""
    what = f"90 % of {n} posterior draws" if curve.by_draws else f"{n} networks that each saw another part of the rows"
    return f"Dashed lines (bars with ends at single values) enclose the curves of {what}: the wider, the less sure."


def curve_words(curve: EffectCurve, label: Any = None, spread: float = 1.0) -> str:
    """One sentence: where the column takes the probability of a class, or a number; ``spread`` is the range of predictions."""
    if curve.classes:
        check_choice("label", label, tuple(curve.classes))
    p = curve.probability[:, curve.classes.index(label) if curve.classes else 0]
    low, high = int(np.argmin(p)), int(np.argmax(p))
    name, moves = " ".join(curve.group.name.split()), float(p[high] - p[low])
    if moves < HARDLY * spread:
        return f"{name} hardly moves the {f'probability of {label}' if curve.classes else curve.of}."
    of = f"P({label})" if curve.classes else f"The {curve.of}"

    def written(value: float) -> str:
        return percent_text(value, int(moves < 0.02)) if curve.classes else number_text(value)

    steps = np.diff(p)
    if curve.group.moving is None or curve.discrete:
        ends = [f"{curve.labels[j]} ({written(p[j])})" for j in (low, high)]
        return f"{of} is lowest at {ends[0]} and highest at {ends[1]}."
    goes, against = ("rises", -steps) if p[-1] > p[0] else ("falls", steps)
    if against[against > 0.0].sum() <= AGAINST * spread:
        return f"{of} {goes} from {written(p[0])} to {written(p[-1])} as {name} grows."
    return (
        f"{of} is highest, {written(p[high])}, near {name} = {curve.labels[high]} "
        f"and lowest, {written(p[low])}, near {curve.labels[low]}."
    )
