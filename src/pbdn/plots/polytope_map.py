"""How many inequalities of Theorem 1 are violated, over two features."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.inspection.access import network_of, side_names
from pbdn.inspection.subtypes import violations
from pbdn.plots.base import axes, shown
from pbdn.plots.plane import Plane


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
        network = network_of(estimator)
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
