"""Maps over two features: class probability with hyperplanes, violated inequalities of Theorem 1."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.inspection import subtypes as interpret
from pbdn.plots.base import FloatArray, axes, dense_rows, feature_number, frame, shown, side_labels

MARGIN = 0.05


def leading_features(estimator: Any, rows: FloatArray) -> tuple[int, int]:
    """The two features that move predictions most, in the order of the columns."""
    from pbdn.report.insight import feature_effects

    names = estimator._names()
    if len(names) < 2:
        raise InvalidInputError("A map needs two features; the model has one.")
    first, second = sorted(names.index(one["feature"]) for one in feature_effects(estimator, rows)[:2])
    return first, second


@dataclass
class Plane:
    """A rectangle of two features, the others at their medians, and the rows that were given."""

    features: tuple[int, int]
    names: tuple[str, str]
    x: FloatArray = field(repr=False)
    y: FloatArray = field(repr=False)
    base: FloatArray = field(repr=False)
    points: FloatArray = field(repr=False)

    @classmethod
    def of(cls, estimator: Any, X: Any, features: tuple[Any, Any] | None, grid: int) -> "Plane":
        """Around the rows X, over the features given or the two that move predictions most."""
        rows = dense_rows(estimator, X)
        features = leading_features(estimator, rows) if features is None else features
        first, second = (feature_number(estimator, feature) for feature in features)
        names = estimator._names()
        ticks = []
        for j in (first, second):
            low, high = float(rows[:, j].min()), float(rows[:, j].max())
            edge = MARGIN * ((high - low) or 1.0)
            ticks.append(np.linspace(low - edge, high + edge, grid))
        base = np.median(rows, axis=0)
        return cls((first, second), (names[first], names[second]), ticks[0], ticks[1], base, rows[:, [first, second]])

    @property
    def remark(self) -> str:
        """What became of the other features."""
        return "" if self.base.size <= 2 else f"the other {self.base.size - 2} features at their medians"

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom, top."""
        return float(self.x[0]), float(self.x[-1]), float(self.y[0]), float(self.y[-1])

    def rows(self) -> FloatArray:
        """One row per cell, the y feature slowest."""
        out = np.repeat(self.base[None], self.x.size * self.y.size, axis=0)
        out[:, self.features[0]] = np.tile(self.x, self.y.size)
        out[:, self.features[1]] = np.repeat(self.y, self.x.size)
        return out

    def cells(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of `rows` as a picture (y, x)."""
        return values.reshape(self.y.size, self.x.size)

    def table(self, name: str, values: NDArray[Any]) -> Any:
        """One line per cell."""
        rows = self.rows()
        names = self.names if self.names[0] != self.names[1] else (self.names[0], self.names[1] + " (2)")
        return frame({names[0]: rows[:, self.features[0]], names[1]: rows[:, self.features[1]], name: values.ravel()})

    def lines(self, hyperplanes: FloatArray) -> list[tuple[float, float, float]]:
        """(a, b, c) with a x + b y + c = 0 for every hyperplane, the other features at their medians."""
        first, second = self.features
        rest = np.delete(np.arange(self.base.size), list(self.features))
        out = []
        for plane in hyperplanes:
            constant = plane[0] + float(plane[1:][rest] @ self.base[rest])
            out.append((float(plane[1 + first]), float(plane[1 + second]), float(constant)))
        return out

    def segment(self, line: tuple[float, float, float]) -> list[tuple[float, float]]:
        """The part of a line inside the rectangle: two points, or none."""
        a, b, c = line
        left, right, bottom, top = self.extent
        found = []
        if b != 0.0:
            found += [(x, -(a * x + c) / b) for x in (left, right)]
        if a != 0.0:
            found += [(-(b * y + c) / a, y) for y in (bottom, top)]
        near_x, near_y = 1e-9 * (right - left), 1e-9 * (top - bottom)
        inside = [
            (x, y) for x, y in found if left - near_x <= x <= right + near_x and bottom - near_y <= y <= top + near_y
        ]
        return [min(inside), max(inside)] if len(inside) >= 2 and min(inside) != max(inside) else []


@dataclass
class DecisionMapDisplay:
    """Probability of one class over two features, with the hyperplanes of the first layer.

    Attributes
    ----------
    plane : Plane
    label : object
        The class whose probability is shown.
    probability : array (grid, grid)
    segments : list of (side, weight, two points)
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

        ``features`` are two names or numbers (default: the two that move predictions most), ``label`` the class
        whose probability is shown (default: the last).
        """
        from pbdn.report.insight import with_names

        plane = Plane.of(estimator, X, features, grid)
        classes = estimator.classes_.tolist()
        chosen = classes[-1] if label is None else label
        values = estimator.predict_proba(with_names(estimator, plane.rows()))[:, classes.index(chosen)]
        segments = []
        for name, side in zip(side_labels(estimator), estimator._network().layers[0].sides, strict=True):
            for line, weight in zip(plane.lines(side.hyperplanes), side.expert_weights.tolist(), strict=True):
                segment = plane.segment(line)
                if segment:
                    segments.append((name, weight, segment))
        display = cls(plane, chosen, plane.cells(values), segments, None if y is None else np.asarray(y))
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "DecisionMapDisplay":
        """Draw on ``ax`` or on new axes; they are kept as ``ax_`` and ``figure_``."""
        self.figure_, self.ax_ = axes(ax, figsize=(6.4, 5.4))
        image = self.ax_.imshow(
            self.probability,
            origin="lower",
            extent=self.plane.extent,
            aspect="auto",
            cmap="RdBu_r",
            vmin=0,
            vmax=1,
        )
        self.figure_.colorbar(image, ax=self.ax_, label=shown(f"P({self.label})"))
        self._draw_points()
        sides = list(dict.fromkeys(side for side, _, _ in self.segments))
        for j, (side, weight, ends) in enumerate(self.segments):
            style = ("-", "--", ":", "-.")[sides.index(side) % 4]
            width = 0.5 + 2.0 * weight / max(one[1] for one in self.segments)
            first = [one[0] for one in self.segments].index(side) == j
            text = shown(f"hyperplane for {side}", 30) if first else None
            self.ax_.plot(*zip(*ends, strict=True), style, color="black", linewidth=width, label=text)
        left, right, bottom, top = self.plane.extent
        self.ax_.set(
            xlabel=shown(self.plane.names[0]), ylabel=shown(self.plane.names[1]), xlim=(left, right), ylim=(bottom, top)
        )
        self.ax_.set_title(self.plane.remark, fontsize="small")
        handles, labels = self.ax_.get_legend_handles_labels()
        if labels:
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "fontsize": "small"}
            self.ax_.legend(handles, labels, ncols=min(3, len(labels)), columnspacing=1.2, handlelength=1.8, **below)
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
            self.ax_.plot(*chosen.T, mark, color=colour, markersize=size, label=shown(value), **edge)

    def table(self) -> Any:
        """One line per cell of the map."""
        return self.plane.table("probability", self.probability)


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
        plane = Plane.of(estimator, X, features, grid)
        network = estimator._network()
        inputs = network.top_inputs(plane.rows())
        counts = interpret.violations(network.top.sides[side], inputs, p0)
        display = cls(plane, side_labels(estimator)[side], p0, plane.cells(counts))
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
        left, right, bottom, top = self.plane.extent
        self.ax_.set(
            xlabel=shown(self.plane.names[0]), ylabel=shown(self.plane.names[1]), xlim=(left, right), ylim=(bottom, top)
        )
        self.ax_.set_title(self.plane.remark, fontsize="small")
        return self

    def table(self) -> Any:
        """One line per cell of the map."""
        return self.plane.table("violations", self.violations)
