"""Whether probabilities mean what they say, and how sure the model is of its answers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn.inspection.quality import wilson
from pbdn.inspection.subtypes import as_frame
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import ACCENT, RAISES, Marks, axes, shown

N_BINS = 10


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
        """From labels and class probabilities (n, n_classes)."""
        probability, classes = np.asarray(probability, dtype=float), np.asarray(classes)
        best = np.argmax(probability, axis=1)
        if classes.size == 2:
            score, hit, of = probability[:, 1], np.asarray(y) == classes[1], f"class {classes[1]}"
        else:
            score, hit, of = probability.max(axis=1), np.asarray(y) == classes[best], "the predicted class"
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
        probability = estimator.predict_proba(X)
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
        """From labels (None: not known) and class probabilities (n, n_classes)."""
        probability, classes = np.asarray(probability, dtype=float), np.asarray(classes)
        best = np.argmax(probability, axis=1)
        sure = probability[np.arange(len(best)), best]
        start = 0.5 if classes.size == 2 else np.floor(10.0 / classes.size) / 10.0
        edges = np.linspace(start, 1.0, N_BINS + 1)
        wrong = None
        if y is not None:
            wrong = np.histogram(sure[classes[best] != np.asarray(y)], edges)[0].astype(float)
        display = cls(edges, np.histogram(sure, edges)[0].astype(float), wrong)
        return display.plot(ax) if draw else display

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None, draw: bool = True
    ) -> "ConfidenceDisplay":
        """Predict the rows X, best ones that were not fitted on."""
        return cls.from_predictions(y, estimator.predict_proba(X), estimator.classes_, ax=ax, draw=draw)

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
