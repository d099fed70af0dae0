"""Whether probabilities mean what they say."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn.inspection.quality import wilson
from pbdn.inspection.subtypes import as_frame
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import Marks, axes, shown


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
