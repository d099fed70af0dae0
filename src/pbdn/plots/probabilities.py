"""Whether probabilities mean what they say, of classes and of events up to a time, and how sure the model is of its answers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.inspection.access import dense_rows, with_names
from pbdn.inspection.quality import kaplan_meier, wilson
from pbdn.inspection.subtypes import as_frame
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import (
    ACCENT,
    CLASSES,
    RAISES,
    Marks,
    axes,
    check_estimator,
    observed_labels,
    observed_times,
    shown,
)

N_BINS = 10
MOST_TIMES = 100  # at which incidences are drawn
N_GROUPS = 5  # of rows with similar survival


@dataclass
class CalibrationDisplay:
    """Predicted probability against observed frequency, in bins of equally many rows, with 95 % intervals.

    Two classes: the probability of the second. More: the probability of the predicted class.
    """

    of: str
    predicted: FloatArray = field(repr=False)
    observed: FloatArray = field(repr=False)
    low: FloatArray = field(repr=False)
    high: FloatArray = field(repr=False)
    count: FloatArray = field(repr=False)

    @classmethod
    def from_predictions(
        cls, y: Any, probability: Any, classes: Any, *, n_bins: int = 10, ax: Any = None, draw: bool = True
    ) -> "CalibrationDisplay":
        """From labels and class probabilities (n, n_classes). A label that is not among the classes counts as another one."""
        probability, classes = np.asarray(probability, dtype=float), np.asarray(classes)
        y = observed_labels(y, len(probability))
        best = np.argmax(probability, axis=1)
        if classes.size == 2:
            score, hit, of = probability[:, 1], y == classes[1], f"class {classes[1]}"
        else:
            score, hit, of = probability.max(axis=1), y == classes[best], "the predicted class"
        # scikit-learn's calibration_curve does not count the rows of a bin, which the intervals need
        order = np.argsort(score, kind="stable")
        bins = [part for part in np.array_split(order, min(n_bins, order.size)) if part.size]
        ends = [wilson(int(hit[part].sum()), part.size) for part in bins]
        display = cls(
            of,
            np.array([score[part].mean() for part in bins]),
            np.array([one.value for one in ends]),
            np.array([one.low for one in ends]),
            np.array([one.high for one in ends]),
            np.array([float(part.size) for part in bins]),
        )
        return display.plot(ax) if draw else display

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_bins: int = 10, ax: Any = None, draw: bool = True
    ) -> "CalibrationDisplay":
        """Predict the rows X, best ones that were not fitted on, and compare with y."""
        check_estimator(estimator, cls, *CLASSES, method="predict_proba")
        probability = estimator.predict_proba(X)
        y = observed_labels(y, len(probability), estimator.classes_)
        return cls.from_predictions(y, probability, estimator.classes_, n_bins=n_bins, ax=ax, draw=draw)

    def plot(self, ax: Any = None) -> "CalibrationDisplay":
        """Points with intervals beside the diagonal."""
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        (diagonal,) = self.ax_.plot([0, 1], [0, 1], color="gray", linewidth=0.8, label="perfect calibration")
        self.marks_.put(diagonal, "perfect calibration")
        bins = zip(self.predicted, self.observed, self.low, self.high, self.count, strict=True)
        for j, (p, o, low, high, n) in enumerate(bins):
            error = [[max(o - low, 0.0)], [max(high - o, 0.0)]]
            label = None if j else f"bins of about {np.mean(self.count):.0f} rows, 95 % intervals"
            drawn = self.ax_.errorbar([p], [o], error, fmt="o", color="C0", markersize=4, capsize=2, label=label)
            for part in (drawn.lines[0], *drawn.lines[2]):
                title = f"predicted {p:.3f}, observed {o:.3f} ({low:.3f} to {high:.3f}), {n:.0f} rows"
                self.marks_.put(part, title)
        self.ax_.set(xlabel=shown(f"predicted probability of {self.of}", 60), ylabel="observed frequency")
        self.ax_.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        self.ax_.legend(loc="upper left")
        return self

    def table(self) -> Any:
        """One line per bin."""
        return as_frame(
            {
                "predicted": self.predicted,
                "observed": self.observed,
                "low": self.low,
                "high": self.high,
                "rows": self.count,
            }
        )


@dataclass
class ConfidenceDisplay:
    """Rows by the probability of the class they were given: how many, and how many of them wrongly.

    ``wrong`` is None where there are no labels.
    """

    edges: FloatArray = field(repr=False)
    rows: FloatArray = field(repr=False)
    wrong: FloatArray | None = field(repr=False)

    @classmethod
    def from_predictions(
        cls, y: Any, probability: Any, classes: Any, *, ax: Any = None, draw: bool = True
    ) -> "ConfidenceDisplay":
        """From labels (None: not known) and class probabilities (n, n_classes). A label that is not among the classes is wrong."""
        probability, classes = np.asarray(probability, dtype=float), np.asarray(classes)
        best = np.argmax(probability, axis=1)
        sure = probability[np.arange(len(best)), best]
        start = 0.5 if classes.size == 2 else np.floor(10.0 / classes.size) / 10.0
        edges = np.linspace(start, 1.0, N_BINS + 1)
        wrong = None
        if y is not None:
            wrong = np.histogram(sure[classes[best] != observed_labels(y, len(best))], edges)[0].astype(float)
        display = cls(edges, np.histogram(sure, edges)[0].astype(float), wrong)
        return display.plot(ax) if draw else display

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None, draw: bool = True
    ) -> "ConfidenceDisplay":
        """Predict the rows X, best ones that were not fitted on."""
        check_estimator(estimator, cls, *CLASSES, method="predict_proba")
        probability = estimator.predict_proba(X)
        y = None if y is None else observed_labels(y, len(probability), estimator.classes_)
        return cls.from_predictions(y, probability, estimator.classes_, ax=ax, draw=draw)

    def plot(self, ax: Any = None) -> "ConfidenceDisplay":
        """Stacked bars."""
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        wrong = np.zeros_like(self.rows) if self.wrong is None else self.wrong
        left, wide = 100.0 * self.edges[:-1], 92.0 * np.diff(self.edges)
        name = "rows" if self.wrong is None else "right"
        right = self.ax_.bar(left, self.rows - wrong, wide, align="edge", color=ACCENT, label=name)
        bad = self.ax_.bar(left, wrong, wide, self.rows - wrong, align="edge", color=RAISES, label="wrong")
        for j, bars in enumerate(zip(right, bad, strict=True)):
            low, high = 100.0 * self.edges[j], 100.0 * self.edges[j + 1]
            title = f"{low:.0f} to {high:.0f} % sure: {self.rows[j]:.0f} rows"
            title += "" if self.wrong is None else f", {wrong[j]:.0f} wrong"
            for bar in bars:
                self.marks_.put(bar, title)
        self.ax_.set(xlabel="how sure the model was of its answer, %", ylabel="rows", xlim=(left[0] - 1, 101))
        self.ax_.grid(axis="x", visible=False)
        if self.wrong is not None:
            self.ax_.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, borderaxespad=0.1)
        return self

    def table(self) -> Any:
        """One line per bar."""
        columns: dict[str, Any] = {"from": self.edges[:-1], "to": self.edges[1:], "rows": self.rows}
        return as_frame(columns if self.wrong is None else columns | {"wrong": self.wrong})


@dataclass
class SurvivalCalibrationDisplay:
    """Predicted probability of no event up to some times against Kaplan-Meier estimates, in groups of rows alike, with 95 % intervals.

    Attributes
    ----------
    times : array (n_times,)
        By default the quartiles of the times of events in y.
    predicted, observed, low, high : arrays (n_times, n_groups)
    """

    times: FloatArray
    predicted: FloatArray = field(repr=False)
    observed: FloatArray = field(repr=False)
    low: FloatArray = field(repr=False)
    high: FloatArray = field(repr=False)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, times: Any = None, ax: Any = None, draw: bool = True
    ) -> "SurvivalCalibrationDisplay":
        """Predict the rows X, best ones that were not fitted on, and compare with y, seen or right-censored."""
        check_estimator(estimator, cls, "time")
        rows = dense_rows(estimator, X)
        time, event, entry = observed_times(estimator, y, len(rows), cls)
        if times is None and not event.any():
            raise InvalidInputError("No event was seen in y, so it does not say at which times to compare; give times.")
        at = np.unique(np.quantile(time[event], [0.25, 0.5, 0.75]) if times is None else np.asarray(times, dtype=float))
        survival = estimator.predict_distribution(with_names(estimator, rows)).sf(at[:, None])
        found = []
        for t, p in zip(at, survival, strict=True):
            groups = np.array_split(np.argsort(p, kind="stable"), min(N_GROUPS, len(p)))
            ends = [kaplan_meier(time[some], event[some], np.array([t]), entry[some]) for some in groups]
            shares, halves = np.array([one[0][0] for one in ends]), np.array([one[1][0] for one in ends])
            low, high = np.maximum(shares - halves, 0.0), np.minimum(shares + halves, 1.0)
            found.append((np.array([p[some].mean() for some in groups]), shares, low, high))
        display = cls(at, *(np.stack(parts) for parts in zip(*found, strict=True)))
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "SurvivalCalibrationDisplay":
        """Points with intervals beside the diagonal, a colour for each time."""
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        self.ax_.plot([0, 100], [0, 100], color="gray", linewidth=0.8)
        for j, t in enumerate(self.times):
            rows = zip(self.predicted[j], self.observed[j], self.low[j], self.high[j], strict=True)
            for g, (p, o, low, high) in enumerate(rows):
                error = [[100 * max(o - low, 0.0)], [100 * max(high - o, 0.0)]]
                label = None if g else f"time {t:.4g}"
                drawn = self.ax_.errorbar(
                    [100 * p], [100 * o], error, fmt="o", color=f"C{j}", markersize=4, capsize=2, label=label
                )
                for part in (drawn.lines[0], *drawn.lines[2]):
                    self.marks_.put(part, f"at {t:.4g}: predicted {p:.1%}, observed {o:.1%} ({low:.1%} to {high:.1%})")
        self.ax_.set(xlabel="predicted: no event yet, %", ylabel="observed: no event yet, %")
        self.ax_.set(xlim=(-2, 102), ylim=(-2, 102))
        self.ax_.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, borderaxespad=0.1)
        return self

    def table(self) -> Any:
        """One line per time and group."""
        columns = {"time": np.repeat(self.times, self.predicted.shape[1])}
        return as_frame(columns | {key: getattr(self, key).ravel() for key in ("predicted", "observed", "low", "high")})


@dataclass
class CumulativeIncidenceDisplay:
    """Mean predicted probability of an event of each cause up to a time and, where causes are known, the Aalen-Johansen estimate.

    Attributes
    ----------
    times : array (n_times,)
    predicted : array (n_causes, n_times)
    observed : array (n_causes, n_times) or None
    causes : list of str
    """

    times: FloatArray = field(repr=False)
    predicted: FloatArray = field(repr=False)
    observed: FloatArray | None = field(repr=False)
    causes: list[str]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None, draw: bool = True
    ) -> "CumulativeIncidenceDisplay":
        """The mean over the rows X; y as in ``fit``, with numbered causes."""
        check_estimator(estimator, cls, "time")
        named, times, observed = with_names(estimator, dense_rows(estimator, X)), estimator.unique_times_, None
        times = times[np.unique(np.linspace(0, len(times) - 1, MOST_TIMES).round().astype(int))]
        if y is not None:
            time, _, entry = observed_times(estimator, y, len(named), cls)
            observed = _aalen_johansen(time, entry, estimator._causes_said(y), estimator.causes_, times)
        predicted = estimator.predict_cumulative_incidence(named, times).mean(axis=0)
        display = cls(times, predicted, observed, [f"cause {cause:g}" for cause in estimator.causes_])
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "CumulativeIncidenceDisplay":
        """A line per cause, and steps of what was observed."""
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        for c, name in enumerate(self.causes):
            (line,) = self.ax_.plot(self.times, 100 * self.predicted[c], color=f"C{c}", label=name)
            self.marks_.put(line, f"{name}: predicted")
            if self.observed is not None:
                self.ax_.step(self.times, 100 * self.observed[c], color=f"C{c}", where="post", linewidth=0.9, alpha=0.6)
        self.ax_.set(xlabel="time" + ("" if self.observed is None else " (steps: observed)"), ylabel="event so far, %")
        self.ax_.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, borderaxespad=0.1)
        return self

    def table(self) -> Any:
        """One line per cause and time."""
        n, k = len(self.causes), len(self.times)
        columns: dict[str, Any] = {"cause": np.repeat(np.array(self.causes, dtype=object), k)}
        columns |= {"time": np.tile(self.times, n), "predicted": self.predicted.ravel()}
        return as_frame(columns if self.observed is None else columns | {"observed": self.observed.ravel()})


def _aalen_johansen(time: FloatArray, entry: FloatArray, cause: Any, causes: FloatArray, at: FloatArray) -> FloatArray:
    """Share with an event of each cause, at some times, (n_causes, n_times); rows count from their entry."""
    moments = np.unique(time[cause > 0])
    waiting = np.searchsorted(np.sort(entry), moments) - np.searchsorted(np.sort(time), moments)
    lived = np.concatenate([[1.0], kaplan_meier(time, cause > 0, moments, entry)[0]])[:-1]
    place = np.searchsorted(moments, at, side="right")
    out = []
    for own in causes:
        events = np.array([np.sum((time == moment) & (cause == own)) for moment in moments], dtype=float)
        out.append(np.concatenate([[0.0], np.cumsum(lived * events / waiting)])[place])
    return np.stack(out)
