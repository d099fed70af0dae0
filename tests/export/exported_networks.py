"""Networks and rows on which every export is compared with the library."""

import numpy as np

from pbdn.model.network import Layer, Network, Side, next_inputs

HOSTILE = [
    'a"b',
    "it's; DROP TABLE data; --",
    "</script><script>alert(1)</script>",
    "*/ int main(void) { return 1; } /*",
    '"""\nimport os\n"""',
    "back\\slash\\",
    "??/",
    "новый é 😀",
    "{name}%s%n",
    "x" * 10_000,
]

SHAPES = {
    "machine": (((5,),), "last_two"),
    "pair": (((3, 2),), "last_two"),
    "deep pair": (((3, 2), (2, 4), (3, 3)), "last_two"),
    "deep pair without skips": (((3, 2), (2, 4), (3, 3)), "none"),
    "deep pair with all skips": (((3, 2), (2, 4), (3, 3)), "all"),
    "three classes": (((2, 1, 3), (1, 2, 2)), "last_two"),
    "seven classes": (((2,) * 7, (1,) * 7), "all"),
    "three pairs": (((2, 1, 3, 1, 2, 2), (1, 2, 2, 3, 1, 1)), "last_two"),
    "seven pairs": (((1,) * 14,), "last_two"),
    "nobody in pairs": (((0,) * 6,), "last_two"),
    "empty side": (((3, 0), (0, 2)), "last_two"),
    "empty layer": (((2, 2), (0, 0), (2, 1)), "none"),
    "nobody": (((0, 0, 0),), "last_two"),
}


def network_of(shape, rng, n_features=4):
    experts, skip = SHAPES[shape]
    layers = []
    inputs = previous = np.empty((0, n_features))
    for counts in experts:
        width = inputs.shape[1] + 1
        scale = 2.0 / np.sqrt(width)
        layers.append(Layer(tuple(Side(rng.normal(size=(k, width)) * scale, rng.gamma(0.7, size=k)) for k in counts)))
        newest = np.empty((0, sum(counts)))
        inputs, previous = next_inputs(skip, inputs, previous, newest), newest
    return Network(tuple(layers), n_features, skip, complements="pairs" in shape)


def labels_of(network):
    return np.array([f"class {c}" for c in range(network.n_classes)])


def rows_with_extremes(rng, n_rows, n_features=4):
    """Ordinary rows, and rows and single values from 1e-30 to 1e12 of either sign."""
    rows = rng.normal(size=(n_rows, n_features))
    rows[n_rows // 2 :] *= 10.0 ** rng.uniform(-4, 4, size=(n_rows - n_rows // 2, 1))
    special = np.array([0.0, -0.0, 1e-30, -1e-30, 1e6, -1e6, 1e12, -1e12, 37.0, -745.0])
    n_special = n_rows // 10
    rows[:n_special, 0] = rng.choice(special, n_special)
    rows[n_special // 2 : n_special] = rng.choice(special, (n_special - n_special // 2, n_features))
    return rows
