"""A rectangle of two features, on which maps are computed: its cells, and the borders that experts draw on it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.inspection.access import dense_rows, feature_names
from pbdn.inspection.effects import feature_effects
from pbdn.inspection.subtypes import as_frame
from pbdn.model.network import Network
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import shown

MARGIN = 0.05
FINE = 201  # points along each side of the rectangle, between which curves are drawn


def leading_features(estimator: Any, rows: FloatArray) -> tuple[int, int]:
    """The two features that move predictions most, in the order of the columns."""
    names = feature_names(estimator)
    if len(names) < 2:
        raise InvalidInputError("A map needs two features; the model has one.")
    first, second = sorted(names.index(one["feature"]) for one in feature_effects(estimator, rows)[:2])
    return first, second


def feature_number(estimator: Any, feature: Any) -> int:
    """The column of a feature given by name or number."""
    names = feature_names(estimator)
    if isinstance(feature, str):
        if feature not in names:
            raise InvalidInputError(f"There is no feature {feature!r}; the model has {', '.join(names[:10])}.")
        return int(names.index(feature))
    if not 0 <= int(feature) < len(names):
        raise InvalidInputError(f"feature {feature!r} must lie between 0 and {len(names) - 1}.")
    return int(feature)


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
        names = feature_names(estimator)
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
        n = self.base.size - 2
        return ("", "the third feature at its median")[n] if n < 2 else f"the other {n} features at their medians"

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
        return as_frame(
            {names[0]: rows[:, self.features[0]], names[1]: rows[:, self.features[1]], name: values.ravel()}
        )

    def borders(self, network: Network, hyperplane: FloatArray) -> list[list[tuple[float, float]]]:
        """Where an expert of the first layer changes its mind, the other features at their medians.

        The two ends of a line, or many points of every curve of a curved network; empty where it is outside.
        """
        if network.curve is not None:
            return self._curves(network, hyperplane)
        first, second = self.features
        rest = np.delete(np.arange(self.base.size), list(self.features))
        constant = hyperplane[0] + float(hyperplane[1:][rest] @ self.base[rest])
        ends = self.segment((float(hyperplane[1 + first]), float(hyperplane[1 + second]), float(constant)))
        return [ends] if ends else []

    def _curves(self, network: Network, hyperplane: FloatArray) -> list[list[tuple[float, float]]]:
        """The distance is the sum of what the two features add; contours of it at zero."""
        try:
            from contourpy import contour_generator
        except ImportError:  # it comes with matplotlib, and without that nothing is drawn
            return []
        ticks, added = [], []
        for j, (low, high) in zip(self.features, (self.extent[:2], self.extent[2:]), strict=True):
            rows = np.repeat(self.base[None], FINE, axis=0)
            rows[:, j] = np.linspace(low, high, FINE)
            ticks.append(rows[:, j])
            added.append(network.expand(rows) @ hyperplane[1:])
        middle = float((network.expand(self.base[None]) @ hyperplane[1:])[0]) - float(hyperplane[0])
        distance = added[0][None, :] + added[1][:, None] - middle
        lines: Any = contour_generator(x=ticks[0], y=ticks[1], z=distance).lines(0.0)
        return [[(float(x), float(y)) for x, y in line] for line in lines]

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

    def label_axes(self, ax: Any) -> None:
        """Names and limits of the two features, and what became of the others."""
        left, right, bottom, top = self.extent
        ax.set(xlabel=shown(self.names[0]), ylabel=shown(self.names[1]), xlim=(left, right), ylim=(bottom, top))
        ax.set_title(self.remark, fontsize="small")
        ax.grid(False)
