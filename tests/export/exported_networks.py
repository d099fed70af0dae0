"""Networks and rows on which every export is compared with the library."""

import numpy as np

from networks import random_committee, random_curve, random_network

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
    "one side": ((5,),),
    "pair": ((3, 2),),
    "deep pair": ((3, 2), (2, 4), (3, 3)),
    "deeper pair": ((2, 2), (1, 2), (2, 1), (1, 1)),
    "three classes": ((2, 1, 3, 1, 2, 2), (1, 2, 2, 3, 1, 1)),
    "seven classes": ((1,) * 14, (1,) * 14),
    "empty side": ((3, 0), (0, 2)),
    "empty layer": ((2, 2), (0, 0), (2, 1)),
    "two empty layers": ((2, 2), (0, 0), (0, 0), (2, 1)),
    "nobody": ((0, 0),),
    "nobody in three classes": ((0,) * 6,),
    "curved side": ((5,),),
    "curved pair": ((3, 2), (2, 4)),
    "curved deep pair": ((3, 2), (2, 4), (3, 3)),
    "curved three classes": ((2, 1, 3, 1, 2, 2), (1, 2, 2, 3, 1, 1)),
    "committee": ((3, 2),),
    "deep committee": ((3, 2), (2, 4), (3, 3)),
    "curved committee": ((3, 2), (2, 4)),
    "curved deep committee": ((3, 2), (2, 4), (3, 3)),
    "committee of three classes": ((2, 1, 3, 1, 2, 2), (1, 2, 2, 3, 1, 1)),
}  # experts per layer, per side, of one member


def network_of(shape, rng, n_features=4):
    curve = random_curve(rng, n_features, 3) if "curved" in shape else None
    options = {"curve": curve, "total_spread": 2.0, "weight_shape": 0.7}
    if "committee" in shape:
        return random_committee(rng, [SHAPES[shape]] * 5, n_features, **options)[0]
    return random_network(rng, SHAPES[shape], n_features, **options)


def tolerance_of(network):
    """Of exports in double precision: squares of large features lose more digits in the sums."""
    return 1e-12 if network.curve is None else 1e-9


def labels_of(network):
    return np.array([f"class {c}" for c in range(network.response.n_outputs)])


def rows_with_extremes(rng, n_rows, n_features=4):
    """Ordinary rows, and rows and single values from 1e-30 to 1e12 of either sign."""
    rows = rng.normal(size=(n_rows, n_features))
    rows[n_rows // 2 :] *= 10.0 ** rng.uniform(-4, 4, size=(n_rows - n_rows // 2, 1))
    special = np.array([0.0, -0.0, 1e-30, -1e-30, 1e6, -1e6, 1e12, -1e12, 37.0, -745.0])
    n_special = n_rows // 10
    rows[:n_special, 0] = rng.choice(special, n_special)
    rows[n_special // 2 : n_special] = rng.choice(special, (n_special - n_special // 2, n_features))
    return rows
