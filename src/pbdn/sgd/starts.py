"""A layer by MAP from several starts at once, the best taken for every side.

Sides share the inputs and no parameter. So several starts of a side are trained as if they were sides of their own, in one
pass of the compiled kernel over the rows.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from pbdn.data.row_source import RowSource
from pbdn.model.labelling import Labelling
from pbdn.model.network import Side
from pbdn.numerics.arrays import FloatArray
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.train_layer import MapResult, fit_map
from pbdn.sgd.trainer import INITIAL

START_GAIN = 3.0  # standard deviation of x'β over standardised rows at the start
START_ROWS = 4096  # rows among which hyperplanes are placed


def scattered_sides(rng: Generator, rows: FloatArray, n_experts: int, n_sides: int) -> tuple[Side, ...]:
    """Random hyperplanes, each through a random row; inputs that do not vary get no coefficient.

    Started near zero, all experts of a side learn the same direction, and all but one die. Scattered ones differ.
    """
    spread = rows.std(axis=0)
    gain = START_GAIN / math.sqrt(max(1, int(np.count_nonzero(spread))))
    slope = np.divide(gain, spread, out=np.zeros_like(spread), where=spread > 0)
    sides = []
    for _ in range(n_sides):
        coefficients = slope * rng.standard_normal((n_experts, rows.shape[1]))
        anchors = rows[rng.integers(len(rows), size=n_experts)]
        bias = -np.einsum("kv,kv->k", coefficients, anchors)
        planes = np.column_stack([bias, coefficients])
        sides.append(Side(np.ascontiguousarray(planes), np.full(n_experts, 1.0 / n_experts)))
    return tuple(sides)


def fit_from_starts(
    source: RowSource,
    rows: FloatArray,
    labelling: Labelling,
    *,
    depth: int,
    config: MapSettings,
    seed: int,
    n_starts: int,
    should_stop: Callable[[], bool] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> MapResult:
    """Fit a layer from scattered starts; every side is the start of least AIC: 2 × coefficients - 2 ln L.

    Parameters
    ----------
    source : RowSource
    rows : array
        Some rows of the source, dense, through which the first hyperplanes are laid.
    labelling, depth, config, seed, should_stop, on_progress
        As in `pbdn.sgd.train_layer.fit_map`.
    n_starts : int

    Returns
    -------
    MapResult
        Of the starts chosen; the trace is that of all starts.
    """
    n_sides = labelling.n_sides
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(depth, INITIAL)))
    result = fit_map(
        source,
        Labelling(labelling.sides * n_starts),
        depth=depth,
        config=config,
        seed=seed,
        initial=scattered_sides(rng, rows, config.max_experts, n_sides * n_starts),
        should_stop=should_stop,
        on_progress=on_progress,
    )

    def charge(place: int) -> float:
        return float(2 * result.sides[place].hyperplanes.size - 2 * result.log_likelihood[place])

    chosen = [min(range(s, n_sides * n_starts, n_sides), key=charge) for s in range(n_sides)]
    return replace(
        result, sides=tuple(result.sides[place] for place in chosen), log_likelihood=result.log_likelihood[chosen]
    )
