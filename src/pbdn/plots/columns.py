"""The columns: which ones the predictions move with, and the prediction as one of them moves."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.inspection.access import dense_rows
from pbdn.inspection.curves import EffectCurve, effect_curves
from pbdn.inspection.effects import feature_effects
from pbdn.inspection.subtypes import as_frame
from pbdn.numerics.arrays import IntArray
from pbdn.plots.base import ACCENT, SOFT, Marks, axes, check_estimator, shown

MOST_BARS = 10
MOST_CLASSES = 5
MOST_VALUES = 12
FIGURE_SIZE = (3.7, 2.35)


@dataclass
class ImportanceDisplay:
    """A bar per column: the share of all movement of predictions when columns are shuffled, strongest first."""

    effects: list[dict[str, Any]] = field(repr=False)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Any = None, draw: bool = True) -> "ImportanceDisplay":
        """Shuffle each column in the rows X and, unless ``draw`` is False, draw."""
        check_estimator(estimator, cls)
        display = cls(feature_effects(estimator, dense_rows(estimator, X)))
        return display.plot(ax) if draw else display

    @property
    def drawn(self) -> list[dict[str, Any]]:
        """The columns that get a bar."""
        return self.effects[:MOST_BARS]

    @property
    def figure_size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return 4.6, 0.75 + 0.26 * max(len(self.drawn), 4)

    def plot(self, ax: Any = None) -> "ImportanceDisplay":
        """Bars from the top, each with its share."""
        self.figure_, self.ax_ = axes(ax, figsize=self.figure_size)
        self.marks_ = Marks()
        widths = [100.0 * one["share"] for one in self.drawn]
        bars = self.ax_.barh(range(len(widths)), widths, color=ACCENT, height=0.68)
        for one, width, bar in zip(self.drawn, widths, bars, strict=True):
            title = f"{one['feature']}: {width:.1f} % of all movement, by {one['moved']:.3g} on average"
            self.marks_.put(bar, title)
            self.ax_.annotate(f"{width:.0f} %", (width, bar.get_y() + bar.get_height() / 2), (3, 0),
                              textcoords="offset points", va="center", fontsize="small")  # fmt: skip
        self.ax_.set_yticks(range(len(widths)), [shown(one["feature"], 22) for one in self.drawn])
        self.ax_.invert_yaxis()
        self.ax_.set_xlim(0, 1.14 * max([*widths, 1.0]))
        left = len(self.effects) - len(self.drawn)
        more = f" ({left} weaker left out)" if left else ""
        self.ax_.set_xlabel(f"share, %{more}")
        self.ax_.grid(axis="y", visible=False)
        self.ax_.tick_params(axis="y", length=0)
        return self

    def table(self) -> Any:
        """One line per column."""
        keys = ("feature", "moved", "flips", "share")
        return as_frame({key: [one[key] for one in self.effects] for key in keys})


@dataclass
class EffectCurveDisplay:
    """Mean prediction as one column moves, with where 80 % of the rows lie and, below, where the rows are.

    Dashed lines say how sure the mean is (`pbdn.inspection.curves.EffectCurve.band`); one network without posterior draws
    has none. Two classes: of the second class. More: a line per class. ``scale`` is "probability" or "log_odds". Numbers have one line.
    """

    curve: EffectCurve = field(repr=False)
    scale: str = "probability"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        column: str | int,
        *,
        scale: str = "probability",
        ax: Any = None,
        draw: bool = True,
    ) -> "EffectCurveDisplay":
        """Compute the curve of one column, by its name or its place in X, on the rows X and, unless ``draw`` is False, draw it."""
        check_estimator(estimator, cls)
        if scale not in ("probability", "log_odds"):
            raise InvalidInputError(f"scale={scale!r} must be 'probability' or 'log_odds'.")
        display = cls(effect_curves(estimator, X, [column])[0], scale)
        return display.plot(ax) if draw else display

    @property
    def shown_classes(self) -> list[int]:
        """Places of the classes drawn: the second of two, else the ones that move most; of numbers, the one place."""
        if len(self.curve.classes) <= 2:
            return [len(self.curve.classes[1:])]
        return sorted(np.argsort(-self.curve.span, kind="stable")[:MOST_CLASSES].tolist())

    @property
    def leading_class(self) -> int:
        """Place of the class drawn that moves most."""
        return self.shown_classes[int(np.argmax(self.curve.span[self.shown_classes]))]

    @property
    def drawn(self) -> IntArray:
        """Places of the points drawn: of many single values the commonest, and where the prediction is lowest and highest."""
        curve = self.curve
        if not curve.discrete:
            return np.arange(curve.at.size)
        first, moves = curve.counts.copy(), curve.probability[:, self.leading_class]
        first[[np.argmin(moves), np.argmax(moves)]] = np.inf
        return np.sort(np.argsort(-first, kind="stable")[:MOST_VALUES])

    def plot(self, ax: Any = None) -> "EffectCurveDisplay":
        """A line (points for single values) over a strip of bars that count rows."""
        self.figure_, self.ax_ = axes(ax, figsize=FIGURE_SIZE)
        self.marks_ = Marks()
        curve, one = self.curve, len(self.curve.classes) <= 2
        kept = self.drawn
        at = np.arange(kept.size, dtype=float) if curve.discrete else curve.at
        values = (curve.probability if self.scale == "probability" else curve.log_odds)[kept]
        for j in self.shown_classes:
            colour = ACCENT if one else f"C{j % 10}"
            if one and self.scale == "probability":
                if curve.discrete:
                    self.ax_.vlines(at, curve.low[kept, j], curve.high[kept, j], color=colour, alpha=0.35, linewidth=5)
                else:
                    self.ax_.fill_between(at, curve.low[:, j], curve.high[:, j], color=colour, alpha=0.15, linewidth=0)
            if self.scale == "probability" and curve.band is not None:
                self._band(at, curve.band[0][kept, j], curve.band[1][kept, j], colour)
            style = {"marker": "o", "linestyle": "none"} if curve.discrete else {"linewidth": 2.0}
            name = curve.classes[j] if curve.classes else curve.of
            (line,) = self.ax_.plot(at, values[:, j], color=colour, label=shown(name, 16), **style)
            self.marks_.put(line, f"{name}: {values[:, j].min():.4g} to {values[:, j].max():.4g}")
        self._strip(at, kept)
        self._ticks(at, kept)
        if not one:
            self.ax_.legend(fontsize="x-small", loc="best", framealpha=0.6)
        of = curve.of if not curve.classes else f"P({curve.classes[1]})" if one else "probability"
        self.ax_.set_ylabel(shown(of if self.scale == "probability" else f"log-odds of {of}", 24))
        return self

    def _band(self, at: Any, low: Any, high: Any, colour: str) -> None:
        """How sure the curve is: dashed lines around it, and between the ends of single values."""
        if self.curve.discrete:
            part = self.ax_.errorbar(at, low, [0.0 * low, high - low], color=colour, fmt="none", elinewidth=1.2,
                                     capsize=4)[2][0]  # fmt: skip
            part.set_linestyle((0, (3, 2)))
        else:
            part = self.ax_.fill_between(at, low, high, facecolor=(colour, 0.18), edgecolor=colour,
                                         linewidth=0.9, linestyle=(0, (3, 2)))  # fmt: skip
        widest = int(np.argmax(high - low))
        self.marks_.put(part, f"how sure: at the widest {low[widest]:.4g} to {high[widest]:.4g}")

    def _strip(self, at: Any, kept: Any) -> None:
        """Where the rows lie: bars along the foot of the picture."""
        curve = self.curve
        if self.scale == "probability" and curve.classes:
            self.ax_.set_ylim(-0.2, 1.03)
            self.ax_.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
            foot, height = -0.2, 0.16
        else:
            low, high = self.ax_.get_ylim()
            foot, height = low - 0.18 * (high - low), 0.14 * (high - low)
            self.ax_.set_ylim(foot, high)
        counts = curve.counts[kept] if curve.discrete else curve.counts
        tall = height * counts / max(float(counts.max(initial=0.0)), 1.0)
        if curve.discrete:
            self.ax_.bar(at, tall, bottom=foot, width=0.5, color=SOFT, alpha=0.5, linewidth=0)
        else:
            wide = np.diff(curve.edges)
            self.ax_.bar(curve.edges[:-1], tall, bottom=foot, width=wide, align="edge", color=SOFT, alpha=0.5)

    def _ticks(self, at: Any, kept: Any) -> None:
        """The name of the column, and of single values; dates as dates."""
        curve = self.curve
        self.ax_.set_xlabel(shown(curve.group.name))
        if curve.discrete:
            names = [shown(curve.labels[j], 12) for j in kept]
            crowded = sum(map(len, names)) > 30
            self.ax_.set_xticks(at, names, rotation=40 if crowded else 0, ha="right" if crowded else "center")
            self.ax_.set_xlim(-0.6, at.size - 0.4)
            self.ax_.grid(axis="x", visible=False)
            if at.size < curve.at.size:
                few = f"{at.size} of {curve.at.size} values, the ends among them"
                self.ax_.set_xlabel(f"{shown(curve.group.name)}\n{few}")
        elif curve.group.parts[0] == "days":
            ticks = np.linspace(at[0], at[-1], 3)
            self.ax_.set_xticks(ticks, [curve.group.text(tick) for tick in ticks])
        elif at[-1] > at[0]:
            self.ax_.set_xlim(at[0], at[-1])

    def table(self) -> Any:
        """One line per point and class."""
        curve = self.curve
        n, k = curve.probability.shape
        ends = zip(("band_low", "band_high"), curve.band or (), strict=False)
        return as_frame(
            {
                "value": np.repeat(np.array(curve.labels, dtype=object), k),
                "class": np.tile(np.array(curve.classes or [curve.of], dtype=object), n),
                "probability": curve.probability.ravel(),
                "low": curve.low.ravel(),
                "high": curve.high.ravel(),
                "log_odds": curve.log_odds.ravel(),
                **{name: values.ravel() for name, values in ends},
            }
        )
