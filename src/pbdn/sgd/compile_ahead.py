"""What a second process compiles while the first layer of the first fit on a machine is compiled and trained."""

import numpy as np

from pbdn.data.row_source import ArraySource
from pbdn.model.labelling import for_each_class
from pbdn.model.network import Layer, Side
from pbdn.sgd.joint_training import Noise, Packed, train_together
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import pack
from pbdn.sgd.pruning import log_likelihoods


def compile_the_rest() -> None:
    """Call the kernels that a fit of classes needs after its first layer, on the smallest network."""
    inputs, codes, labelling = np.ones((2, 1)), np.arange(2), for_each_class(2)
    sides = tuple(Side(np.zeros((1, 2)), np.ones(1)) for _ in labelling.sides)
    log_likelihoods(ArraySource(inputs, codes), *pack(sides), labelling.positive)
    network = Packed.of([Layer(sides)], 1, labelling, MapSettings()).with_gaussian_penalty(1.0)
    rng = np.random.default_rng(0)
    train_together(network, inputs, codes, None, noise=Noise(np.zeros(1)), rates=np.zeros(1), batch_size=2, rng=rng)
