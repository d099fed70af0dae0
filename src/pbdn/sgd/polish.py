"""Polish a grown network: the hyperplanes of all its layers learn together for what the top layer says.

Growth trains a layer, freezes it and trains the next one on its units. Polishing starts there and minimises

    f = Σ_s f_s(top layer, on the units of the layers below) + (a_β + ½) Σ_{lower layers} Σ_{v,k} ln(1 + β_vk²/2b)

over all hyperplanes and the weights of the top layer (f_s: `pbdn.sgd.objective`), by Adam on rows with Gaussian noise:
two noisy copies of a row lie as far apart as a row and its nearest neighbour. No expert comes or goes. Prediction does
not need the weights r of the lower layers; they follow the objective of their own layer as its units change, so that
they still say how strongly an expert speaks for its side.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from pbdn.model.labelling import Labelling
from pbdn.model.network import Layer
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.sgd.adam import Prior
from pbdn.sgd.joint_gradient import (
    NoisyRows,
    Stack,
    add_network_penalty,
    joint_workspace,
    make_stack,
    network_gradient,
    run_joint_steps,
)
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import pack, prior_constants, unpack
from pbdn.sgd.train_layer import falling_rates
from pbdn.sgd.trainer import POLISH

SHARE_OF_STEPS = 0.5  # minibatches, of those that one layer took
MOST_PASSES = 400  # over the rows, which few rows make many times with half the minibatches of a layer
SHARE_OF_RATE = 0.25  # learning rate at the start, of that of the top layer
NEIGHBOUR_ROWS = 256  # rows whose nearest neighbours are looked up
STEPS_PER_CHECK = 100  # between two looks at whether to stop


def neighbour_noise(inputs: FloatArray, rng: Generator) -> FloatArray:
    """Standard deviation of the noise on every feature.

    In proportion to the features' own, and of expected squared length δ²/2 in all, where δ is the median distance from a row
    to its nearest neighbour.
    """
    from sklearn.neighbors import NearestNeighbors

    spread = inputs.std(axis=0)
    if len(inputs) < 2 or not spread.any():
        return np.zeros_like(spread)
    rows = rng.choice(len(inputs), min(len(inputs), NEIGHBOUR_ROWS), replace=False)
    distance, _ = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(inputs).kneighbors(inputs[rows])
    return np.asarray(spread * np.median(distance[:, 1]) / np.sqrt(2.0 * (spread**2).sum()))


def network_loss_and_gradient(
    inputs: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    layers: Sequence[Layer],
    labelling: Labelling,
    config: MapSettings,
) -> tuple[float, list[FloatArray]]:
    """f on these rows and its gradient by every layer's parameters (packed as in `pbdn.sgd.objective`).

    The first row of a lower layer's gradient is that of its own objective by ln r.
    """
    network = Packed.of(layers, inputs.shape[1], labelling, config)
    rows = NoisyRows(inputs, codes, weights, np.zeros_like(inputs))
    gradient, work = np.empty_like(network.parameters), joint_workspace(network.stack)
    loss = network_gradient(rows, np.arange(len(codes)), 0, 1.0, network.parameters, network.stack, work, gradient)
    loss += add_network_penalty(network.parameters, network.stack, network.slopes, network.prior, gradient)
    return float(loss), network.by_layer(gradient)


class Packed(NamedTuple):
    """A network for compiled code: its shape, all parameters in one array, and the constants of its penalty."""

    stack: Stack
    parameters: FloatArray
    slopes: FloatArray  # of ln r in the penalty, expert after expert
    prior: Prior

    @classmethod
    def of(cls, layers: Sequence[Layer], n_features: int, labelling: Labelling, config: MapSettings) -> "Packed":
        """Pack the layers."""
        packed = [pack(layer.sides) for layer in layers]
        priors = [prior_constants(config, starts) for _, starts in packed]
        return cls(
            make_stack([starts for _, starts in packed], n_features, labelling.positive),
            np.concatenate([parameters.ravel() for parameters, _ in packed]),
            np.concatenate([prior.log_weight_slope for prior in priors]),
            priors[-1],
        )

    def by_layer(self, numbers: FloatArray) -> list[FloatArray]:
        """Numbers in the order of the parameters as one array per layer, (n_inputs + 2, n_units)."""
        first, n_units = self.stack.first, self.stack.n_units
        return [numbers[a:b].reshape(-1, count) for (a, b), count in zip(pairwise(first), n_units, strict=True)]

    def layers(self) -> tuple[Layer, ...]:
        """The layers held in the parameters."""
        arrays = self.by_layer(self.parameters)
        return tuple(Layer(unpack(one, starts)) for one, starts in zip(arrays, self.stack.starts, strict=True))


def polish(
    layers: Sequence[Layer],
    inputs: FloatArray,
    codes: IntArray,
    weights: FloatArray | None,
    *,
    labelling: Labelling,
    config: MapSettings,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[Layer, ...] | None:
    """Tune the layers of a network together.

    Parameters
    ----------
    layers : sequence of Layer
        From bottom to top, as grown on these rows.
    inputs : array (n_rows, n_features)
        Dense and scaled.
    codes : array (n_rows,)
        Class codes.
    weights : array (n_rows,) or None
    labelling : Labelling
        Which codes are "yes" for each side.
    config : MapSettings
        The objective, the batch size, and what the number and length of steps are taken from.
    seed : int
        Same seed, same bits.
    should_stop : callable or None
        Asked every hundred steps.
    on_progress : callable or None
        Called every hundred steps with step, n_steps and loss.

    Returns
    -------
    tuple of Layer or None
        None where ``should_stop`` said so, or numbers overflowed. The experts of lower layers keep their order; those of the
        top are sorted by weight.
    """
    network = Packed.of(layers, inputs.shape[1], labelling, config)
    parameters = network.parameters
    first, second = np.zeros_like(parameters), np.zeros_like(parameters)
    row_weights = np.ones(len(codes)) if weights is None else weights
    total = float(row_weights.sum())
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(len(layers), POLISH)))
    noise = neighbour_noise(inputs if row_weights.all() else inputs[row_weights > 0], rng)

    n_rows, size = len(codes), min(config.batch_size, len(codes))
    n_steps = max(1, round(min(SHARE_OF_STEPS * config.n_minibatches, MOST_PASSES * n_rows / size)))
    rates = falling_rates(SHARE_OF_RATE * config.rate_at(len(layers)), n_steps)
    rest = np.empty(0, np.int64)
    for step in range(0, n_steps, STEPS_PER_CHECK):
        if should_stop is not None and should_stop():
            return None
        some = rates[step : step + STEPS_PER_CHECK]
        while len(rest) < len(some) * size:
            rest = np.concatenate([rest, rng.permutation(n_rows)])
        order, rest = rest[: len(some) * size], rest[len(some) * size :]
        rows = NoisyRows(inputs, codes, row_weights, noise * rng.standard_normal((len(order), inputs.shape[1])))
        loss = run_joint_steps(
            rows,
            order,
            size,
            some,
            step,
            total,
            network.stack,
            parameters,
            first,
            second,
            network.slopes,
            network.prior,
        )
        if not np.isfinite(loss) or not np.isfinite(parameters).all():
            return None
        if on_progress is not None:
            on_progress({"step": step + len(some), "n_steps": n_steps, "loss": loss})
    polished = network.layers()
    return (*polished[:-1], Layer(tuple(side.strongest_first() for side in polished[-1].sides)))
