"""One network in training on part of the rows: layers are added, and all of them trained together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from pbdn.config import starts_for
from pbdn.data.labelled_rows import LabelledRows, dense_rows
from pbdn.growth.checkpoint import arrays_of_layers, layers_from_arrays
from pbdn.growth.run import Run
from pbdn.growth.views import USUAL_RELEVANCE, Layers, View, relevance_stretch, stretched
from pbdn.model.network import Layer, inputs_above
from pbdn.model.response import Response
from pbdn.numerics.arrays import FloatArray, spread_rows
from pbdn.sgd.joint_training import Packed, train_together
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.starts import START_ROWS, fit_from_starts, fit_timed_from_starts
from pbdn.sgd.trainer import POLISH, falling_rates

IDLE = 1e-4  # rate that an expert of the top layer adds to a row, at most, to be left out at the end

JOINT_RATE = 0.01
JOINT_BATCH = 200  # rows per step of training together, and more where there are many rows
JOINT_PASSES = 10  # over the rows, at most
JOINT_NUMBERS = 5e8  # rows x coefficients that training together goes through, at most
FEWEST_STEPS = 200


class Step(NamedTuple):
    """What the networks do next: add a layer or not, then train all layers together with this penalty and noise.

    ``relevance`` says how unlike the penalties of inputs are (`pbdn.growth.views`); with 0 they are equal.
    """

    adds_layer: bool
    penalty: float
    noise: float
    n_steps: int
    relevance: float = USUAL_RELEVANCE

    @property
    def name(self) -> str:
        """For checkpoints."""
        kind = "layer" if self.adds_layer else "on"
        return f"{kind}_{self.penalty:g}_{self.noise:g}_{self.relevance:g}".replace(".", "p")


class Trainee:
    """Trains one network on the rows of a mask.

    Parameters
    ----------
    view : View
    mask : array of bool
        The rows to learn from.
    number : int
        Which of the networks this is; sets its random streams.
    response : Response
    config : MapSettings
    run : Run
    n_fellows : int
        Networks that are trained in the same phase, this one included.
    """

    def __init__(
        self,
        view: View,
        mask: NDArray[np.bool_],
        number: int,
        response: Response,
        config: MapSettings,
        run: Run,
        n_fellows: int = 1,
    ) -> None:
        self.view, self.number, self.response, self.run, self.n_fellows = view, number, response, run, n_fellows
        self.config = config
        self.rows = view.rows.take(mask)
        noise = view.noise
        self.noise = noise if noise.slopes is None else noise._replace(slopes=noise.slopes[mask])

    def take(self, layers: Layers, history: tuple[Step, ...], step: Step) -> tuple[Layers, bool]:
        """The layers after one more step, and whether it was done to its end; looked up in the checkpoint first."""
        checkpoint, name = self.run.checkpoint, self._name((*history, step))
        if checkpoint is not None and name in checkpoint.saved:
            return layers_from_arrays(checkpoint.saved[name]), True
        layers, done = self._take(layers, len(history), step)
        if checkpoint is not None and done:
            checkpoint.store(name, arrays_of_layers(layers))
        return layers, done

    def follow(self, history: tuple[Step, ...]) -> Layers | None:
        """The layers after all these steps; None where the time was up."""
        layers: Layers = ()
        for n_taken, step in enumerate(history):
            layers, done = self.take(layers, history[:n_taken], step)
            if not done:
                return None
        return layers

    def _take(self, layers: Layers, n_taken: int, step: Step) -> tuple[Layers, bool]:
        if step.adds_layer:
            layers, done = self._add_layer(layers, step)
            if not done:
                return layers, False
        trained = self._train(layers, n_taken, step)
        return (layers, not self.run.stop()) if trained is None else (trained, True)

    def _add_layer(self, layers: Layers, step: Step) -> tuple[Layers, bool]:
        """One more layer, trained on the units of those below."""
        depth = len(layers) + 1
        if self.response.timed and layers:
            layers = without_idle(layers, self.rows)
        inputs = np.ascontiguousarray(inputs_above(layers, self.rows.inputs))
        rows = self.rows.with_inputs(inputs)
        some = dense_rows(inputs, spread_rows(rows.n_rows, START_ROWS))
        seed = SeedSequence(self.run.seed, spawn_key=(self.number, depth)).generate_state(1)[0]
        most = 1 if self.view.plain and depth == 1 else self.config.max_experts
        n_starts, n_experts = starts_for(inputs.shape[1], self.response.labelling.n_sides, most)
        if self.response.timed:
            fitted, done = fit_timed_from_starts(
                inputs,
                rows.targets,
                rows.weights,
                penalty=step.penalty,
                depth=depth,
                config=replace(self.config, max_experts=n_experts),
                seed=int(seed),
                n_starts=n_starts,
                should_stop=self.run.stop,
                on_progress=lambda info: self._tell(step, depth, info["step"], info["loss"]),
            )
            if layers and not done:
                return layers, False
            return self._in_signs((*layers, _busy(fitted, inputs, rows.targets))), done
        result = fit_from_starts(
            rows.source(self.response.n_outputs),
            some,
            self.response.labelling,
            depth=depth,
            config=replace(self.config, max_experts=n_experts),
            seed=int(seed),
            n_starts=n_starts,
            should_stop=self.run.stop,
            on_progress=lambda info: self._tell(step, depth, info["step"], info["loss"]),
        )
        layers = self._in_signs((*layers, Layer(tuple(side.strongest_first() for side in result.sides))))
        return layers, bool(result.trace["loss"].size == self.config.n_minibatches)

    def _in_signs(self, layers: Layers) -> Layers:
        """The same layers without coefficients whose sign monotonicity forbids."""
        if not self.config.is_monotonic:
            return layers
        return Packed.of(layers, self.rows.n_features, self.response.labelling, self.config).projected().layers()

    def _train(self, layers: Layers, n_taken: int, step: Step) -> Layers | None:
        """All layers trained together; None where the time was up or numbers overflowed."""
        rows, labelling = self.rows, self.response.labelling
        stretch = relevance_stretch(layers, rows.n_features, step.relevance if self.view.has_relevance else 0.0)
        done = self.config.n_minibatches if step.adds_layer else 0
        n_coefficients = sum(side.hyperplanes.size for layer in layers for side in layer.sides)
        n_steps, batch_size = joint_work(rows.n_rows, n_coefficients, step.n_steps)
        packed = Packed.of(stretched(layers, stretch), rows.n_features, labelling, self.config)
        trained = train_together(
            packed.with_gaussian_penalty(step.penalty),
            np.ascontiguousarray(rows.inputs * stretch),
            rows.targets,
            rows.weights,
            noise=self.noise._replace(scale=step.noise * self.noise.scale).stretched(stretch),
            rates=falling_rates(JOINT_RATE, n_steps),
            batch_size=batch_size,
            rng=np.random.default_rng(SeedSequence(self.run.seed, spawn_key=(self.number, n_taken, POLISH))),
            should_stop=self.run.stop,
            on_progress=lambda info: self._tell(
                step, len(layers), done + info["step"] * step.n_steps // n_steps, info["loss"]
            ),
        )
        return trained if trained is None else stretched(trained, 1.0 / stretch)

    def _tell(self, step: Step, depth: int, done: int, loss: float) -> None:
        """Move the progress bar: a phase is one step of all networks."""
        total = self.n_fellows * (step.n_steps + (self.config.n_minibatches if step.adds_layer else 0))
        phase = f"layer {depth}" if step.adds_layer else f"penalty {step.penalty:g}, noise {step.noise:g}"
        self.run.bar.update(phase, total, (self.view.shape, self.number), done, f"loss {loss:.4g}")

    def _name(self, history: tuple[Step, ...]) -> str:
        shape = f"{self.view.shape}{self.view.n_ramps or ''}"
        return ".".join([shape, str(self.number), *(step.name for step in history)])


def joint_work(n_rows: int, n_coefficients: int, n_steps: int) -> tuple[int, int]:
    """Steps of training together, and rows per step: larger batches of many rows, fewer steps of a large network."""
    visits = min(max(n_steps * JOINT_BATCH, JOINT_PASSES * n_rows), JOINT_NUMBERS / max(n_coefficients, 1))
    steps = min(n_steps, max(FEWEST_STEPS, int(visits / JOINT_BATCH)))
    return steps, max(JOINT_BATCH, int(visits / steps))


def without_idle(layers: Layers, rows: LabelledRows) -> Layers:
    """The same network without experts of the top layer that add nothing to any of these rows; a side keeps one at least."""
    return (*layers[:-1], _busy(layers[-1], inputs_above(layers[:-1], rows.inputs), rows.targets))


def _busy(layer: Layer, inputs: FloatArray, targets: NDArray[Any]) -> Layer:
    """A layer without idle experts."""
    timed = layer.sides[0].time_coefs is not None
    latest = latest_values(targets) if timed else [0.0] * len(layer.sides)
    return only_busy(layer, most_added(layer, inputs, latest))


def latest_values(bounds: FloatArray) -> tuple[float, float]:
    """The largest values that the two sides of a line see; the second one sees it the other way round."""
    finite = bounds[np.isfinite(bounds)]
    return float(finite.max(initial=0.0)), float(-finite.min(initial=0.0))


def most_added(layer: Layer, inputs: FloatArray, latest: Sequence[float]) -> list[FloatArray]:
    """The rate that every expert adds to any row up to the ``latest`` value of its side, at most."""
    return [
        side.expert_weights * side.units(inputs, at).max(axis=0) for side, at in zip(layer.sides, latest, strict=True)
    ]


def only_busy(layer: Layer, most: Sequence[FloatArray]) -> Layer:
    """A layer without experts that add nothing; a side keeps one at least."""
    return Layer(
        tuple(side.take((own > IDLE) | (own == own.max())) for side, own in zip(layer.sides, most, strict=True))
    )
