"""A rectangle of two features, on which maps are computed: its cells, and the lines that hyperplanes draw on it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.inspection.access import dense_rows, feature_names, network_of
from pbdn.inspection.columns import column_group, column_groups, date_text
from pbdn.inspection.effects import shuffled_moves, some_rows
from pbdn.inspection.subtypes import as_frame
from pbdn.model.likelihood import signed_distances
from pbdn.model.network import Network, Side
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import shown

MARGIN = 0.05


def leading_features(estimator: Any, rows: FloatArray) -> tuple[int, int]:
    """The two features that move predictions most, in the order of the columns."""
    names = feature_names(estimator)
    if len(names) < 2:
        raise InvalidInputError("A map needs two features; the model has one.")
    moved, _ = shuffled_moves(network_of(estimator), rows[some_rows(rows)], [(j,) for j in range(len(names))])
    first, second = sorted(np.argsort(-moved, kind="stable")[:2].tolist())
    return first, second


def feature_number(estimator: Any, feature: Any) -> int:
    """The place of a feature given by its name, or by the name or place in X of a column that is a number or date."""
    names = feature_names(estimator)
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    group = column_group(estimator, feature)
    if group.moving is None:
        own = ", ".join(repr(names[j]) for j in group.features[:10])
        raise InvalidInputError(f"The column {group.name!r} has a feature for each of its values; use one of {own}.")
    return group.features[group.moving]


@dataclass
class Plane:
    """A rectangle of two features, the others at their medians, and the rows that were given."""

    features: tuple[int, int]
    names: tuple[str, str]
    x: FloatArray = field(repr=False)
    y: FloatArray = field(repr=False)
    base: FloatArray = field(repr=False)
    points: FloatArray = field(repr=False)
    dates: tuple[bool, bool] = (False, False)

    @classmethod
    def of(cls, estimator: Any, X: Any, features: tuple[Any, Any] | None, grid: int) -> "Plane":
        """Around the rows X, over the features given or the two that move predictions most."""
        rows = dense_rows(estimator, X)
        if features is not None and len(features) != 2:
            raise InvalidInputError(f"features={features!r} must be two features, such as (0, 1).")
        first, second = (
            leading_features(estimator, rows)
            if features is None
            else (feature_number(estimator, feature) for feature in features)
        )
        names = feature_names(estimator)
        ticks = []
        for j in (first, second):
            low, high = float(rows[:, j].min()), float(rows[:, j].max())
            edge = MARGIN * ((high - low) or 1.0)
            ticks.append(np.linspace(low - edge, high + edge, grid))
        base = np.median(rows, axis=0)
        days = {group.features[0]: group.name for group in column_groups(estimator) if group.parts[0] == "days"}
        shown_names = (days.get(first, names[first]), days.get(second, names[second]))
        dates = (first in days, second in days)
        return cls((first, second), shown_names, ticks[0], ticks[1], base, rows[:, [first, second]], dates)

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

    def lines(self, hyperplanes: FloatArray) -> list[tuple[float, float, float]]:
        """(a, b, c) with a x + b y + c = 0 for every hyperplane, the other features at their medians."""
        first, second = self.features
        rest = np.delete(np.arange(self.base.size), list(self.features))
        out = []
        for plane in hyperplanes:
            constant = plane[0] + float(plane[1:][rest] @ self.base[rest])
            out.append((float(plane[1 + first]), float(plane[1 + second]), float(constant)))
        return out

    def segments(self, hyperplanes: FloatArray) -> list[list[list[tuple[float, float]]]]:
        """Per flat hyperplane: its line inside the rectangle, if it crosses it."""
        found = [self.segment(line) for line in self.lines(hyperplanes)]
        return [[segment] if segment else [] for segment in found]

    def curves(self, network: Network, side: Side) -> list[list[list[tuple[float, float]]]]:
        """Per expert of a first layer that sees squares or tails pulled in: the lines inside the rectangle on which it begins to vote."""
        from contourpy import contour_generator  # comes with matplotlib

        distance = signed_distances(side.hyperplanes, network.expand(self.rows()))
        return [
            [
                [(float(x), float(y)) for x, y in np.asarray(line)]
                for line in contour_generator(self.x, self.y, self.cells(one)).lines(0.0)
            ]
            for one in distance.T
        ]

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
        for is_date, axis, (low, high) in zip(
            self.dates, (ax.xaxis, ax.yaxis), ((left, right), (bottom, top)), strict=True
        ):
            if is_date:
                ticks = np.linspace(low, high, 4)
                axis.set_ticks(ticks, [date_text(tick) for tick in ticks])
        ax.grid(False)
