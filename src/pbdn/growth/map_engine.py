"""Train layers by SGD to the MAP: all sides in one step, data in memory or streamed."""

import time
from typing import Any

import numpy as np

from pbdn.data.row_source import RowSource
from pbdn.growth.checkpoint import Arrays, arrays_of_sides, sides_from_arrays
from pbdn.growth.depth import LayerFit, most_inputs_above
from pbdn.growth.run import Run
from pbdn.model.labelling import Labelling
from pbdn.model.network import Layer, inputs_above
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.train_layer import MapResult, fit_map

MOST_COEFFICIENTS = 3_000_000  # of a layer of many sides before pruning: a step then takes some tenths of a second


class MapEngine:
    """Layers by MAP.

    Parameters
    ----------
    source : RowSource
        Rows with scaled features and class codes.
    labelling : Labelling
    settings : MapSettings
    run : Run
    """

    def __init__(self, source: RowSource, labelling: Labelling, settings: MapSettings, run: Run) -> None:
        self.source, self.labelling, self.settings, self.run = source, labelling, settings, run
        self.layers: list[Layer] = []
        self.n_rows = source.n_rows

    def inputs_source(self) -> RowSource:
        """The rows as the next layer sees them: units of the lower layers computed on the fly."""
        layers = tuple(self.layers)
        return self.source.mapped(lambda features: inputs_above(layers, features)) if layers else self.source

    def fit_layer(self, depth: int) -> LayerFit:
        """Optimise all sides of a layer."""
        began = time.perf_counter()
        name, checkpoint = f"map.{depth}", self.run.checkpoint
        if checkpoint is not None and name in checkpoint.saved:
            result = _from_arrays(checkpoint.saved[name])
        else:
            result = fit_map(
                self.inputs_source(),
                self.labelling,
                depth=depth,
                config=self.settings,
                seed=self.run.seed,
                on_progress=lambda info: self._tell(depth, info),
                should_stop=self.run.stop,
            )
            if checkpoint is not None and self._complete(result):
                checkpoint.store(name, _to_arrays(result))
        sides = tuple(side.strongest_first() for side in result.sides)
        scores = tuple(float(value) for value in result.log_likelihood)
        return LayerFit(Layer(sides), scores, result, self._complete(result), time.perf_counter() - began)

    def _tell(self, depth: int, info: dict[str, Any]) -> None:
        note = f"experts {info['n_experts']}, loss {info['loss']:.4g}"
        self.run.bar.update(f"layer {depth}", info["n_steps"], "map", info["step"], note)

    def _complete(self, result: MapResult) -> bool:
        """Whether training ran to its end."""
        return bool(result.trace["loss"].size == self.settings.n_minibatches)

    def advance(self, layer: Layer) -> None:
        """Let the next layer see this one's units."""
        self.layers.append(layer)

    def has_room(self, layer: Layer) -> bool:
        """Two sides always have; the links between layers of S sides grow like S²."""
        n_sides = self.labelling.n_sides
        return n_sides <= 2 or n_sides * self.settings.max_experts * most_inputs_above(layer) <= MOST_COEFFICIENTS


def _to_arrays(result: MapResult) -> Arrays:
    arrays = {f"trace.{name}": np.asarray(values) for name, values in result.trace.items()}
    arrays["log_likelihood"] = np.asarray(result.log_likelihood)
    return arrays | arrays_of_sides(result.sides)


def _from_arrays(arrays: Arrays) -> MapResult:
    trace = {name.removeprefix("trace."): values for name, values in arrays.items() if name.startswith("trace.")}
    return MapResult(sides_from_arrays(arrays), trace, arrays["log_likelihood"])
