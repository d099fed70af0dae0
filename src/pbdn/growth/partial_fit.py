"""A network that learns batch by batch and grows only when told to."""

from dataclasses import dataclass

from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.row_source import ArraySource
from pbdn.model.curve import Curve
from pbdn.model.network import Layer, Network, Side, inputs_above
from pbdn.model.response import Response
from pbdn.model.scaling import Scaling
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.online import IncrementalLayer


@dataclass
class Increment:
    """What is kept between batches: the frozen layers on scaled features, and the layer in training.

    ``initial`` are the sides that a layer which has not begun starts from; None: a random start.
    """

    scaling: Scaling
    response: Response
    settings: MapSettings
    seed: int
    frozen: tuple[Layer, ...] = ()
    initial: tuple[Side, ...] | None = None
    layer: IncrementalLayer | None = None
    curve: Curve | None = None

    @classmethod
    def begin(
        cls, scaling: Scaling, response: Response, settings: MapSettings, seed: int, network: Network | None
    ) -> "Increment":
        """A fresh start, or one from a fitted network: its top layer goes on, the layers below are frozen."""
        if network is None:
            return cls(scaling, response, settings, seed)
        scaled = scaling.unfold(network)
        frozen = tuple(Layer(layer.sides) for layer in scaled.layers[:-1])
        return cls(scaling, response, settings, seed, frozen, scaled.top.sides, curve=scaled.curve)

    def learn(self, rows: LabelledRows, start_layer: bool) -> None:
        """Take the steps of one call, on a new layer if asked to."""
        top = self.initial if self.layer is None else self.layer.sides
        if start_layer and top is not None:
            self.frozen = (*self.frozen, Layer(top))
            self.layer = self.initial = None
        features = self.scaling.apply(rows.inputs)
        inputs = inputs_above(self.frozen, features if self.curve is None else self.curve.expand(features))
        classes = range(self.response.n_outputs)
        batch = ArraySource(inputs, rows.codes, classes=list(classes), weights=rows.weights, sparse_below=0.0)
        if self.layer is None:
            depth = len(self.frozen) + 1
            self.layer = IncrementalLayer(batch, self.response.labelling, depth, self.settings, self.seed, self.initial)
        self.layer.learn(batch)

    def network(self, n_features: int) -> Network:
        """The network so far, on raw features."""
        assert self.layer is not None
        top = Layer(tuple(side.strongest_first() for side in self.layer.sides))
        return self.scaling.fold(Network((*self.frozen, top), n_features, self.response, self.curve))
