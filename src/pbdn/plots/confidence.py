"""How sure the model is of its answers, and how often it is right when it is so sure."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn.inspection.subtypes import as_frame
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import ACCENT, RAISES, Marks, axes

N_BINS = 10


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
