"""Networks with the shapes that fits give, for the tests of the files."""

import numpy as np

from pbdn.model.network import Layer, Network, Side, next_inputs


def random_side(rng, n_experts, n_inputs):
    return Side(rng.normal(size=(n_experts, n_inputs)), rng.gamma(1.0, size=n_experts))


def random_network(rng, experts=((3, 2), (2, 4)), n_features=4, skip="last_two", n_draws=0):
    """``experts[t][s]`` experts on side s of layer t; draws on top, each with its own number of experts."""
    layers = []
    inputs = previous = np.empty((0, n_features))
    for t, counts in enumerate(experts):
        width = inputs.shape[1] + 1
        draws = ()
        if t == len(experts) - 1:
            draws = tuple(
                tuple(random_side(rng, int(rng.integers(0, 2 * count + 1)), width) for count in counts)
                for _ in range(n_draws)
            )
        layers.append(Layer(tuple(random_side(rng, count, width) for count in counts), draws))
        newest = np.empty((0, sum(counts)))
        inputs, previous = next_inputs(skip, inputs, previous, newest), newest
    return Network(tuple(layers), n_features, skip)
