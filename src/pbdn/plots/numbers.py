"""Predicted numbers and times beside what was observed: values, intervals, whole distributions, survival."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from pbdn.inspection.access import dense_rows, intervals, predictions, with_names
from pbdn.inspection.effects import some_rows
from pbdn.inspection.quality import inside_central, kaplan_meier, probability_transform, wilson
from pbdn.inspection.subtypes import as_frame
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import (
    ACCENT,
    NUMBERS,
    RAISES,
    SOFT,
    Marks,
    axes,
    check_estimator,
    observed_numbers,
    observed_times,
    shown,
)

MOST_POINTS = 400
N_BINS = 10
COVERAGES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
N_GROUPS = 3


@dataclass
class PredictedObservedDisplay:
    """Predicted against observed values, with the intervals that hold 90 % of the values.

    Attributes
    ----------
    predicted, observed, low, high : arrays (n_rows,)
    target : str
        What the values are called.
    """

    predicted: FloatArray = field(repr=False)
    observed: FloatArray = field(repr=False)
    low: FloatArray = field(repr=False)
    high: FloatArray = field(repr=False)
    target: str = "value"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, target: str = "value", ax: Any = None, draw: bool = True
    ) -> "PredictedObservedDisplay":
        """Predict the rows X, best ones that were not fitted on, and compare with y."""
        check_estimator(estimator, cls, *NUMBERS)
        rows = dense_rows(estimator, X)
        observed = observed_numbers(estimator, y, len(rows), cls)
        low, high = intervals(estimator, rows).T
        display = cls(predictions(estimator, rows)[:, 0], observed, low, high, target)
        return display.plot(ax) if draw else display

    @property
    def inside(self) -> Any:
        """Whether each value lies in its interval."""
        return (self.low <= self.observed) & (self.observed <= self.high)

    def plot(self, ax: Any = None) -> "PredictedObservedDisplay":
        """Points beside the diagonal, the intervals as bars; values outside them are red."""
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        chosen = some_rows(self.observed[:, None], MOST_POINTS)
        ends = [
            float(min(self.predicted.min(), self.observed.min())),
            float(max(self.predicted.max(), self.observed.max())),
        ]
        self.ax_.plot(ends, ends, color="gray", linewidth=0.8)
        self.ax_.vlines(
            self.predicted[chosen], self.low[chosen], self.high[chosen], color=SOFT, alpha=0.18, linewidth=2
        )
        for hit, colour, name in ((True, ACCENT, "inside its 90 % interval"), (False, RAISES, "outside")):
            mine = chosen[self.inside[chosen] == hit]
            (points,) = self.ax_.plot(
                self.predicted[mine], self.observed[mine], ".", color=colour, markersize=4, label=name
            )
            self.marks_.put(points, f"{mine.size} of {chosen.size} rows: {name}")
        self.ax_.set(xlabel="predicted", ylabel=shown(f"observed {self.target}", 30))
        self.ax_.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, borderaxespad=0.1)
        return self

    def table(self) -> Any:
        """One line per row."""
        return as_frame({key: getattr(self, key) for key in ("predicted", "observed", "low", "high")})


@dataclass
class PITDisplay:
    """P(Y ≤ y) of the observed values, in ten bins: evenly filled where the predicted distributions are right.

    A hill says that they are too wide, a valley too narrow, a slope that they lie too high or too low. Of counts, each row has a
    random number between P(Y < y) and P(Y ≤ y).
    """

    values: FloatArray = field(repr=False)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, draw: bool = True) -> "PITDisplay":
        """From the rows X, best ones that were not fitted on, and their values."""
        below, upto = _transformed(estimator, X, y, cls)
        display = cls(below + (upto - below) * np.random.default_rng(0).uniform(size=len(upto)))
        return display.plot(ax) if draw else display

    @property
    def shares(self) -> FloatArray:
        """Shares of the rows in the bins."""
        return np.histogram(self.values, N_BINS, (0.0, 1.0))[0] / max(len(self.values), 1)

    def plot(self, ax: Any = None) -> "PITDisplay":
        """Bars, with the band in which 95 % of the bars would lie."""
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        n = max(len(self.values), 1)
        low, high = stats.binom.ppf([0.025, 0.975], n, 1.0 / N_BINS) / n
        for j, (share, bar) in enumerate(zip(self.shares, self._bars(), strict=True)):
            self.marks_.put(bar, f"{j / N_BINS:.1f} to {(j + 1) / N_BINS:.1f}: {share:.1%} of the rows")
        self.ax_.axhspan(
            100 * low, 100 * high, color=SOFT, alpha=0.25, linewidth=0, zorder=0, label="chance alone, 95 %"
        )
        self.ax_.axhline(100.0 / N_BINS, color="gray", linewidth=0.8)
        self.ax_.set(xlabel="predicted probability of at most the observed value", ylabel="rows, %", xlim=(0, 1))
        self.ax_.grid(axis="x", visible=False)
        self.ax_.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, borderaxespad=0.1)
        return self

    def _bars(self) -> Any:
        left = np.arange(N_BINS) / N_BINS
        return self.ax_.bar(left, 100 * self.shares, 0.92 / N_BINS, align="edge", color=ACCENT)

    def table(self) -> Any:
        """One line per bin."""
        left = np.arange(N_BINS) / N_BINS
        return as_frame({"from": left, "to": left + 1.0 / N_BINS, "share": self.shares})


def _transformed(estimator: Any, X: Any, y: Any, display: type) -> tuple[FloatArray, FloatArray]:
    """`probability_transform` of rows and values, checked."""
    check_estimator(estimator, display, *NUMBERS)
    rows = dense_rows(estimator, X)
    observed = observed_numbers(estimator, y, len(rows), display)
    return probability_transform(estimator, with_names(estimator, rows), observed)


@dataclass
class CoverageDisplay:
    """Share of the observed values inside central intervals, against the probability for which these are made.

    A count, or an amount of zero, on the edge of an interval is inside in part.
    """

    covered: FloatArray = field(repr=False)
    n_rows: int

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, draw: bool = True) -> "CoverageDisplay":
        """From the rows X, best ones that were not fitted on, and their values."""
        below, upto = _transformed(estimator, X, y, cls)
        display = cls(np.array([inside_central(below, upto, level).mean() for level in COVERAGES]), len(upto))
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "CoverageDisplay":
        """Points with 95 % intervals beside the diagonal."""
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        self.ax_.plot([0, 100], [0, 100], color="gray", linewidth=0.8)
        for level, share, low, high in zip(COVERAGES, self.covered, *self._ends(), strict=True):
            error = [[100 * max(share - low, 0.0)], [100 * max(high - share, 0.0)]]
            drawn = self.ax_.errorbar(
                [100 * level], [100 * share], error, fmt="o", color=ACCENT, markersize=4, capsize=2
            )
            for part in (drawn.lines[0], *drawn.lines[2]):
                self.marks_.put(part, f"intervals of {level:.0%} hold {share:.1%} ({low:.1%} to {high:.1%})")
        self.ax_.set(xlabel="probability of the interval, %", ylabel="values inside, %", xlim=(0, 100), ylim=(0, 102))
        return self

    def _ends(self) -> tuple[list[float], list[float]]:
        found = [wilson(share * self.n_rows, self.n_rows) for share in self.covered]
        return [one.low for one in found], [one.high for one in found]

    def table(self) -> Any:
        """One line per probability."""
        low, high = self._ends()
        return as_frame(
            {"probability": COVERAGES, "covered": self.covered, "low": np.array(low), "high": np.array(high)}
        )


@dataclass
class SurvivalCurvesDisplay:
    """Mean predicted survival of rows of low, middle and high risk and, where times are known, the Kaplan-Meier curves.

    Attributes
    ----------
    times : array (n_times,)
    predicted : array (n_groups, n_times)
    observed : array (n_groups, n_times) or None
    counts : list of int
        Rows of the groups.
    """

    times: FloatArray = field(repr=False)
    predicted: FloatArray = field(repr=False)
    observed: FloatArray | None = field(repr=False)
    counts: list[int]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None, draw: bool = True
    ) -> "SurvivalCurvesDisplay":
        """Thirds of the rows X by risk; y as in ``fit``, seen or right-censored."""
        check_estimator(estimator, cls, "time")
        named = with_names(estimator, dense_rows(estimator, X))
        survival = estimator.predict_survival_function(named, return_array=True)
        order = np.argsort(estimator.predict(named), kind="stable")
        groups = np.array_split(order, min(N_GROUPS, order.size))
        times = estimator.unique_times_
        observed = None
        if y is not None:
            time, event, entry = observed_times(estimator, y, len(named), cls)
            observed = np.stack([kaplan_meier(time[rows], event[rows], times, entry[rows])[0] for rows in groups])
        predicted = np.stack([survival[rows].mean(axis=0) for rows in groups])
        display = cls(times, predicted, observed, [len(rows) for rows in groups])
        return display.plot(ax) if draw else display

    @property
    def names(self) -> list[str]:
        """What the groups are called."""
        return ["low risk", "middle risk", "high risk"] if len(self.counts) == N_GROUPS else ["rows"] * len(self.counts)

    def plot(self, ax: Any = None) -> "SurvivalCurvesDisplay":
        """A line per group, and steps of what was observed."""
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        for g, (name, count) in enumerate(zip(self.names, self.counts, strict=True)):
            (line,) = self.ax_.plot(self.times, 100 * self.predicted[g], color=f"C{g}", label=name)
            self.marks_.put(line, f"{name}, {count} rows: predicted")
            if self.observed is not None:
                self.ax_.step(self.times, 100 * self.observed[g], color=f"C{g}", where="post", linewidth=0.9, alpha=0.6)
        self.ax_.set(xlabel="time" + ("" if self.observed is None else " (steps: observed)"), ylabel="no event yet, %")
        self.ax_.set_ylim(0, 102)
        self.ax_.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, borderaxespad=0.1,
                        columnspacing=1.0, handlelength=1.2)  # fmt: skip
        return self

    def table(self) -> Any:
        """One line per group and time."""
        n, k = len(self.counts), len(self.times)
        columns: dict[str, Any] = {
            "group": np.repeat(np.array(self.names, dtype=object), k),
            "time": np.tile(self.times, n),
        }
        columns |= {"predicted": self.predicted.ravel()}
        return as_frame(columns if self.observed is None else columns | {"observed": self.observed.ravel()})
