"""Which columns the predictions move with."""

from dataclasses import dataclass, field
from typing import Any

from pbdn.inspection.access import dense_rows
from pbdn.inspection.effects import feature_effects
from pbdn.inspection.subtypes import as_frame
from pbdn.plots.base import ACCENT, Marks, axes, shown

MOST_BARS = 10


@dataclass
class ImportanceDisplay:
    """A bar per column: the share of all movement of predictions when columns are shuffled, strongest first."""

    effects: list[dict[str, Any]] = field(repr=False)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Any = None, draw: bool = True) -> "ImportanceDisplay":
        """Shuffle each column in the rows X and, unless ``draw`` is False, draw."""
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
            title = f"{one['feature']}: {width:.1f} % of all movement, probability moves by {one['moved']:.3f}"
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
