"""A layer by MAP from several starts at once, the best taken for every side.

Sides share the inputs and no parameter. So several starts of a side are trained as if they were sides of their own, in one
pass of the compiled kernel over the rows.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from pbdn.data.row_source import RowSource
from pbdn.model.labelling import Labelling
from pbdn.model.network import Layer
from pbdn.model.timed import timed_log_likelihoods
from pbdn.numerics.arrays import FloatArray
from pbdn.sgd.joint_training import Noise, Packed, RowsElsewhere, train_together
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.train_layer import MapResult, fit_map
from pbdn.sgd.trainer import INITIAL, falling_rates, start_of

START_ROWS = 4096  # rows among which hyperplanes are placed


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
        Rows of classes, or of values on a line.
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
        initial=start_of(source.timed, depth, rng, rows, config.max_experts, n_sides * n_starts),
        should_stop=should_stop,
        on_progress=on_progress,
    )

    def charge(place: int) -> float:
        return float(2 * result.sides[place].hyperplanes.size - 2 * result.log_likelihood[place])

    chosen = [min(range(s, n_sides * n_starts, n_sides), key=charge) for s in range(n_sides)]
    return replace(
        result, sides=tuple(result.sides[place] for place in chosen), log_likelihood=result.log_likelihood[chosen]
    )


class ValuesElsewhere(RowsElsewhere, Protocol):
    """Rows with values on a line that other processes hold."""

    def __getitem__(self, index: Any) -> FloatArray:
        """Inputs of a few rows."""

    def log_likelihoods(self, layer: Layer) -> list[float]:
        """Log-likelihood of every side over all rows; sides stand for low and for high values in turn."""


def fit_timed_from_starts(
    inputs: Any,
    bounds: FloatArray | None,
    weights: FloatArray | None,
    *,
    penalty: float,
    depth: int,
    config: MapSettings,
    seed: int,
    n_starts: int,
    should_stop: Callable[[], bool] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[Layer, bool]:
    """Fit a pair of sides to values on a line from scattered starts; every side is the start of highest likelihood.

    Parameters
    ----------
    inputs : array (n_rows, n_inputs), or ValuesElsewhere
        Dense.
    bounds : array (n_rows, 2 or 3) or None
        What the rows say (`pbdn.model.labelling`); rows elsewhere have their own.
    weights : array (n_rows,) or None
    penalty : float
        Precision of the coefficients.
    depth, config, seed, should_stop, on_progress
        As in `pbdn.sgd.train_layer.fit_map`.
    n_starts : int

    Returns
    -------
    Layer and bool
        The first start as it was, and False, where ``should_stop`` said so or numbers overflowed.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(depth, INITIAL)))
    n_rows = inputs.shape[0]
    some = inputs[np.linspace(0, n_rows - 1, min(n_rows, START_ROWS)).astype(np.int64)]
    begun = Layer(start_of(True, depth, rng, some, config.max_experts, 2 * n_starts))
    free = replace(config, monotonic_cst=())  # signs are set when the layer stands in its network
    trained = train_together(
        Packed.of([begun], inputs.shape[1], Labelling((0, 1) * n_starts), free).with_gaussian_penalty(penalty),
        inputs,
        bounds,
        weights,
        noise=Noise(np.zeros(inputs.shape[1])),
        rates=falling_rates(config.rate_at(depth), config.n_minibatches),
        batch_size=config.batch_size,
        rng=rng,
        should_stop=should_stop,
        on_progress=on_progress,
    )
    if trained is None:
        return Layer(begun.sides[:2]), False
    if bounds is None:
        likelihood = inputs.log_likelihoods(trained[0])
    else:
        likelihood = timed_log_likelihoods(trained[0], inputs, bounds, weights)
    best = (max(range(s, 2 * n_starts, 2), key=likelihood.__getitem__) for s in range(2))
    return Layer(tuple(trained[0].sides[place] for place in best)), True
