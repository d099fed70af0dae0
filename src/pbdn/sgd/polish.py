"""Polish a grown network of many sides: its layers are trained together for as many steps as one layer took, up to a limit.

The rows get Gaussian noise: two noisy copies of a row lie as far apart as a row and its nearest neighbour. What that needs can be
compiled ahead by a second process, while the first layer of the first fit on a machine is compiled and trained.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pbdn.data.row_source import ArraySource
from pbdn.model.labelling import Labelling, for_each_class
from pbdn.model.network import Layer, Side
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.sgd.joint_training import Noise, Packed, neighbour_noise, train_together
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import pack
from pbdn.sgd.pruning import log_likelihoods
from pbdn.sgd.trainer import POLISH, falling_rates

MOST_STEPS = 8000
MOST_PASSES = 400  # over the rows, which few rows make many times with the minibatches of a layer
SHARE_OF_RATE = 0.25  # learning rate at the start, of that of the top layer


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
    inputs, codes, weights, should_stop, on_progress
        As in `pbdn.sgd.joint_training.train_together`.
    labelling : Labelling
        Which codes are "yes" for each side.
    config : MapSettings
        The objective, the batch size, and what the number and length of steps are taken from.
    seed : int
        Same seed, same bits.

    Returns
    -------
    tuple of Layer or None
        As `pbdn.sgd.joint_training.train_together`.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(len(layers), POLISH)))
    some = inputs if weights is None or weights.all() else inputs[weights > 0]
    size = min(config.batch_size, len(codes))
    n_steps = max(1, round(min(config.n_minibatches, MOST_STEPS, MOST_PASSES * len(codes) / size)))
    return train_together(
        Packed.of(layers, inputs.shape[1], labelling, config),
        inputs,
        codes,
        weights,
        noise=Noise(neighbour_noise(some, rng)),
        rates=falling_rates(SHARE_OF_RATE * config.rate_at(len(layers)), n_steps),
        batch_size=size,
        rng=rng,
        should_stop=should_stop,
        on_progress=on_progress,
    )


def compile_the_rest() -> None:
    """Call the kernels that a fit of classes needs after its first layer, on the smallest network."""
    inputs, codes, labelling = np.ones((2, 1)), np.arange(2), for_each_class(2)
    sides = tuple(Side(np.zeros((1, 2)), np.ones(1)) for _ in labelling.sides)
    log_likelihoods(ArraySource(inputs, codes), *pack(sides), labelling.positive)
    network = Packed.of([Layer(sides)], 1, labelling, MapSettings()).with_gaussian_penalty(1.0)
    rng = np.random.default_rng(0)
    train_together(network, inputs, codes, None, noise=Noise(np.zeros(1)), rates=np.zeros(1), batch_size=2, rng=rng)
