"""Maps over two features: the probability of a class, and how many inequalities of Theorem 1 are violated."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection.access import known_labels, network_of, side_names, with_names
from pbdn.inspection.subtypes import violations
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import CLASSES, Marks, axes, check_estimator, observed_labels, shown
from pbdn.plots.plane import Plane
from pbdn.validation import check_choice

MAX_LINES = 24  # hyperplanes drawn, strongest first; a remark says how many are left out
STYLES = ("-", "--", ":", "-.")
LEGEND_LETTERS = 56  # in one line of the legend


@dataclass
class DecisionMapDisplay:
    """Probability of one class over two features, with the hyperplanes of the first layer.

    Attributes
    ----------
    plane : Plane
    label : object
        The class whose probability is shown.
    probability : array (grid, grid)
    segments : list of (side, weight, points of a line)
    labels : array or None
        Of the rows drawn on top.
    """

    plane: Plane
    label: Any
    probability: FloatArray = field(repr=False)
    segments: list[tuple[Any, float, list[tuple[float, float]]]] = field(repr=False)
    labels: NDArray[Any] | None = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: tuple[Any, Any] | None = None,
        label: Any = None,
        grid: int = 100,
        ax: Any = None,
        draw: bool = True,
    ) -> "DecisionMapDisplay":
        """Compute the map around the rows X and, unless ``draw`` is False, draw it.

        ``features`` are two numbers or dates, each by its name or by the place of its column in X; a category has a feature
        for each value, by its name (default: the two features that move predictions most). ``label`` is the class whose
        probability is shown (default: the last).
        """
        check_estimator(estimator, cls, *CLASSES)
        y = None if y is None else known_labels(y, estimator.classes_)
        labels = None if label is None else [label]
        display = cls.per_class(estimator, X, y, features=features, labels=labels, grid=grid)[-1]
        return display.plot(ax) if draw else display

    @classmethod
    def per_class(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: tuple[Any, Any] | None = None,
        labels: list[Any] | None = None,
        grid: int = 100,
    ) -> list["DecisionMapDisplay"]:
        """One map for each of the classes ``labels`` (default: all), not drawn; the cells are predicted once."""
        check_estimator(estimator, cls, *CLASSES)
        classes = estimator.classes_.tolist()
        for label in labels or ():
            check_choice("label", label, tuple(classes))
        plane = Plane.of(estimator, X, features, grid)
        y = None if y is None else observed_labels(y, len(plane.points))
        probability = estimator.predict_proba(with_names(estimator, plane.rows()))
        segments = []
        network = network_of(estimator)
        for name, side in zip(side_names(estimator), network.layers[0].sides, strict=True):
            drawn = plane.curves(network, side) if network.curve or network.tails else plane.segments(side.hyperplanes)
            for parts, weight in zip(drawn, side.expert_weights.tolist(), strict=True):
                segments += [(name, weight, part) for part in parts]
        return [
            cls(plane, label, plane.cells(probability[:, classes.index(label)]), segments, y)
            for label in (classes if labels is None else labels)
        ]

    @property
    def figure_size(self) -> tuple[float, float]:
        """Width and height in inches, with room for the legend below."""
        entries = min(len(set(self.sides)), len(STYLES)) + (0 if self.labels is None else np.unique(self.labels).size)
        return 6.0, 4.8 + 0.12 * entries

    @property
    def sides(self) -> list[Any]:
        """Sides whose hyperplanes cross the map."""
        return list(dict.fromkeys(side for side, _, _ in self.segments))

    def plot(self, ax: Any = None) -> "DecisionMapDisplay":
        """Draw on ``ax`` or on new axes; they are kept as ``ax_`` and ``figure_``."""
        self.figure_, self.ax_ = axes(ax, figsize=self.figure_size)
        self.marks_ = Marks()
        image = self.ax_.imshow(
            self.probability,
            origin="lower",
            extent=self.plane.extent,
            aspect="auto",
            interpolation="none",
            cmap="RdBu_r",
            vmin=0,
            vmax=1,
        )
        self.marks_.put(image, css="heat")
        self.figure_.colorbar(image, ax=self.ax_, label=shown(f"P({self.label})"))
        self._draw_points()
        self._draw_hyperplanes()
        self.plane.label_axes(self.ax_)
        handles, labels = self.ax_.get_legend_handles_labels()
        if labels:
            below = {
                "loc": "upper center",
                "bbox_to_anchor": (0.5, 0.0),
                "borderaxespad": 4.5,
                "ncols": _columns(labels),
            }
            light = {"facecolor": "#f7f7f7", "labelcolor": "black", "framealpha": 1.0}  # lines are black on any page
            self.ax_.legend(handles, labels, fontsize="small", columnspacing=1.2, handlelength=1.8, **below, **light)
        return self

    def _draw_points(self) -> None:
        """The rows: the class of the map in light red, the others in other colours and shapes."""
        if self.labels is None:
            self.ax_.plot(*self.plane.points.T, ".", color="black", markersize=2, alpha=0.4)
            return
        classes = np.unique(self.labels).tolist()
        others = [value for value in classes if value != self.label]
        size = 5.0 if len(self.labels) <= 500 else 3.5
        for value in classes:
            chosen = self.plane.points[self.labels == value]
            if value == self.label:
                colour, mark = "#f4a582", "o"
            elif len(others) == 1:
                colour, mark = "#92c5de", "s"
            else:
                j = others.index(value)
                colour, mark = f"C{(2, 4, 1, 8, 5, 9, 6, 0, 7)[j % 9]}", "s^vD<>pPX"[j % 9]
            edge = {"markeredgecolor": "black", "markeredgewidth": 0.4}
            (dots,) = self.ax_.plot(*chosen.T, mark, color=colour, markersize=size, label=shown(value), **edge)
            self.marks_.put(dots, str(value))

    def _draw_hyperplanes(self) -> None:
        """The strongest hyperplanes, thicker where their expert weighs more, in a style per side while styles last."""
        drawn = sorted(self.segments, key=lambda one: -one[1])[:MAX_LINES]
        styled = len(self.sides) <= len(STYLES)
        named = set()
        what = "curve" if any(len(points) > 2 for _, _, points in drawn) else "hyperplane"
        for side, weight, ends in drawn:
            text = shown(f"{what} for {side}", 30) if styled else f"{what} of layer 1"
            style = STYLES[self.sides.index(side)] if styled else STYLES[0]
            width = 0.5 + 2.0 * weight / drawn[0][1]
            label = None if text in named else text
            named.add(text)
            (line,) = self.ax_.plot(*zip(*ends, strict=True), style, color="black", linewidth=width, label=label)
            self.marks_.put(line, f"layer 1, a {what} for {side}, weight {weight:.3g}")
        if len(drawn) < len(self.segments):
            self.ax_.plot([], [], " ", label=f"{len(self.segments) - len(drawn)} weaker ones left out")

    def table(self) -> Any:
        """One line per cell of the map."""
        return self.plane.table("probability", self.probability)


def _columns(labels: list[str]) -> int:
    """Most columns of a legend, filled downwards, that fit beside each other; at most five."""
    for n in range(min(5, len(labels)), 1, -1):
        rows = -(-len(labels) // n)
        widest = [max(map(len, labels[j : j + rows])) + 5 for j in range(0, len(labels), rows)]
        if sum(widest) <= LEGEND_LETTERS:
            return n
    return 1


@dataclass
class PolytopeViolationDisplay:
    """How many inequalities of Theorem 1 one side of the top layer sees violated, over two features."""

    plane: Plane
    side: Any
    p0: float
    violations: NDArray[np.int64] = field(repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        features: tuple[Any, Any] | None = None,
        side: int = -1,
        p0: float = 0.5,
        grid: int = 100,
        ax: Any = None,
        draw: bool = True,
    ) -> "PolytopeViolationDisplay":
        """Compute the map around the rows X and, unless ``draw`` is False, draw it.

        ``side`` counts the sides (default: the last), ``p0`` is the probability of Theorem 1; ``features`` as in
        `DecisionMapDisplay`.
        """
        check_estimator(estimator, cls)
        network = network_of(estimator)
        plane = Plane.of(estimator, X, features, grid)
        inputs = network.top_inputs(plane.rows())
        counts = violations(network.top.sides[side], inputs, p0)
        display = cls(plane, side_names(estimator)[side], p0, plane.cells(counts))
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "PolytopeViolationDisplay":
        """Draw on ``ax`` or on new axes, a colour per count."""
        self.figure_, self.ax_ = axes(ax)
        from matplotlib import colormaps
        from matplotlib.colors import BoundaryNorm, ListedColormap

        most = max(1, int(self.violations.max()))
        colours = ListedColormap(colormaps["viridis"](np.linspace(0.0, 1.0, most + 1)))
        image = self.ax_.imshow(
            self.violations,
            origin="lower",
            extent=self.plane.extent,
            aspect="auto",
            cmap=colours,
            norm=BoundaryNorm(np.arange(most + 2) - 0.5, most + 1),
        )
        step = -(-most // 8)
        text = shown(f"violated inequalities, side {self.side}, p₀ = {self.p0:g}", 60)
        self.figure_.colorbar(image, ax=self.ax_, label=text, ticks=range(0, most + 1, step))
        self.ax_.plot(*self.plane.points.T, ".", color="white", markersize=2, alpha=0.5)
        self.plane.label_axes(self.ax_)
        return self

    def table(self) -> Any:
        """One line per cell of the map."""
        return self.plane.table("violations", self.violations)
