"""Train layers by SGD to the MAP: all sides in one step, data in memory or streamed."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pbdn.data.source import RowSource
from pbdn.growth.gibbs_engine import StopSignal
from pbdn.growth.grow import LayerFit, most_inputs_above
from pbdn.model.network import Inputs, Layer, Network, Side, Skip
from pbdn.sgd.config import MapConfig
from pbdn.sgd.train import MapResult, fit_map

MOST_COEFFICIENTS = 3_000_000  # of a layer of several classes before pruning: a step then takes some tenths of a second


class LayerKeeper(Protocol):
    """Remembers finished layers."""

    saved: dict[str, dict[str, NDArray[Any]]]

    def store(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Keep one finished layer."""


class MapEngine:
    """Layers by MAP.

    Parameters
    ----------
    source : RowSource
        Rows with scaled features and class codes.
    n_sides : int
    config : MapConfig
    seed : int
    complements : bool
        As in `pbdn.sgd.train.fit_map`.
    skip : "last_two", "none" or "all"
    on_progress : callable, optional
        Called as on_progress(depth, info).
    """

    def __init__(
        self,
        source: RowSource,
        n_sides: int,
        config: MapConfig,
        seed: int,
        *,
        complements: bool = False,
        skip: Skip = "last_two",
        stop: StopSignal | None = None,
        keeper: LayerKeeper | None = None,
        on_progress: Callable[[int, dict[str, Any]], None] | None = None,
    ) -> None:
        self.source, self.n_sides, self.config, self.seed = source, n_sides, config, seed
        self.complements, self.skip, self.keeper, self.on_progress = complements, skip, keeper, on_progress
        self.stop = StopSignal() if stop is None else stop
        self.layers: list[Layer] = []
        self.n_rows = source.n_rows

    def inputs_source(self) -> RowSource:
        """The rows as the next layer sees them: units of the lower layers computed on the fly."""
        if not self.layers:
            return self.source
        network = Network((*self.layers, self.layers[-1]), self.source.n_features, self.skip)

        def to_inputs(features: Inputs) -> Inputs:
            return network.top_inputs(features)

        return self.source.mapped(to_inputs)

    def fit_layer(self, depth: int) -> LayerFit:
        """Optimise all sides of a layer."""
        began = time.perf_counter()
        name = f"map.{depth}"
        if self.keeper is not None and name in self.keeper.saved:
            result = _from_arrays(self.keeper.saved[name])
        else:
            report = self.on_progress
            result = fit_map(
                self.inputs_source(),
                self.n_sides,
                depth=depth,
                config=self.config,
                seed=self.seed,
                complements=self.complements,
                on_progress=None if report is None else (lambda info: report(depth, info)),
                should_stop=self.stop,
            )
            if self.keeper is not None and self._complete(result):
                self.keeper.store(name, _to_arrays(result))
        sides = tuple(side.strongest_first() for side in result.sides)
        scores = tuple(float(value) for value in result.log_likelihood)
        return LayerFit(Layer(sides), scores, result, self._complete(result), time.perf_counter() - began)

    def _complete(self, result: MapResult) -> bool:
        """Whether training ran to its end."""
        return bool(result.trace["loss"].size == self.config.n_minibatches)

    def advance(self, layer: Layer) -> None:
        """Let the next layer see this one's units."""
        self.layers.append(layer)

    def has_room(self, layer: Layer) -> bool:
        """Two classes always have; the links between layers of S classes grow like S²."""
        size = self.n_sides * self.config.width(self.n_rows) * most_inputs_above(layer)
        return self.n_sides <= 2 or size <= MOST_COEFFICIENTS


def _to_arrays(result: MapResult) -> dict[str, NDArray[Any]]:
    arrays = {f"trace.{name}": np.asarray(values) for name, values in result.trace.items()}
    arrays["log_likelihood"] = np.asarray(result.log_likelihood)
    for s, side in enumerate(result.sides):
        arrays[f"hyperplanes.{s}"] = side.hyperplanes
        arrays[f"expert_weights.{s}"] = side.expert_weights
    return arrays


def _from_arrays(arrays: dict[str, NDArray[Any]]) -> MapResult:
    n_sides = sum(name.startswith("hyperplanes.") for name in arrays)
    sides = tuple(Side(arrays[f"hyperplanes.{s}"], arrays[f"expert_weights.{s}"]) for s in range(n_sides))
    trace = {name.removeprefix("trace."): values for name, values in arrays.items() if name.startswith("trace.")}
    return MapResult(sides, trace, arrays["log_likelihood"])
