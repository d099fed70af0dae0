"""Random networks with the shapes that fits give; networks and rows on which every export is compared with the library."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from pbdn.model.committee import committee
from pbdn.model.labelling import SECOND_CLASS, for_each_class
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import OneSide, SeveralClasses, TwoClasses
from pbdn.model.tails import POWERS, Tails
from pbdn.model.wiring import Curve, width_of_inputs

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler found (cc, gcc or clang)")


def response_of(n_sides):
    """What layers of so many sides predict in a classifier."""
    if n_sides == 1:
        return OneSide()
    assert n_sides % 2 == 0
    return TwoClasses() if n_sides == 2 else SeveralClasses(n_sides // 2)


def labelling_of(n_sides):
    """A lone side says yes to the second class; otherwise a side for every class."""
    return SECOND_CLASS if n_sides == 1 else for_each_class(n_sides)


def random_side(rng, n_experts, n_inputs, spread=1.0, weight_shape=1.0):
    """A side on ``n_inputs`` inputs, the constant included."""
    return Side(spread * rng.normal(size=(n_experts, n_inputs)), rng.gamma(weight_shape, size=n_experts))


def random_curve(rng, n_features, n_squares=None):
    """Squares of some features (default: all), each around a centre and in a unit of its own."""
    columns = np.sort(rng.permutation(n_features)[:n_squares]).astype(np.int64)
    return Curve(columns, rng.normal(size=columns.size), rng.uniform(0.5, 2.0, size=columns.size))


def random_ramps(rng, n_features, n_columns=None, n_ramps=3):
    """Ramps of some features (default: all), each beginning where another ends."""
    columns = np.sort(rng.permutation(n_features)[:n_columns]).astype(np.int64)
    knots = np.sort(rng.normal(size=(columns.size, n_ramps + 1)), axis=1)
    return Curve(np.repeat(columns, n_ramps), knots[:, :-1].ravel(), np.diff(knots, axis=1).ravel(), ramps=True)


def split_ramps(curve, n_features, n_parts):
    """Ramps cut into equal parts, and the matrix that turns hyperplanes on features and ramps, bias first, into those on the parts."""
    lengths = np.repeat(curve.scales / n_parts, n_parts)
    begin = np.repeat(curve.centers, n_parts) + lengths * np.tile(np.arange(n_parts), curve.n_bent)
    first = n_features + 1
    matrix = np.zeros((first + curve.n_bent, first + lengths.size))
    matrix[:first, :first] = np.eye(first)
    matrix[first:, first:] = np.repeat(np.eye(curve.n_bent) / n_parts, n_parts, axis=1)
    return Curve(np.repeat(curve.columns, n_parts), begin, lengths, ramps=True), matrix


def random_tails(rng, n_features, n_columns=None):
    """Tails of some features (default: all), each around a centre and in a unit of its own."""
    columns = np.sort(rng.permutation(n_features)[:n_columns]).astype(np.int64)
    centers, scales = rng.normal(size=columns.size), rng.uniform(0.5, 2.0, size=columns.size)
    return Tails(columns, centers, scales, rng.choice(POWERS, size=columns.size))


def random_network(
    rng,
    experts=((3, 2), (2, 4)),
    n_features=4,
    *,
    curve=None,
    response=None,
    n_draws=0,
    total_spread=None,
    weight_shape=1.0,
):
    """``experts[t][s]`` experts on side s of layer t; draws on top, each with its own number of experts.

    Coefficients are standard normal, or have the standard deviation ``total_spread`` over the root of their number.
    """
    widths = [n_features + (0 if curve is None else curve.n_bent), *(sum(counts) for counts in experts)]
    layers = []
    for t, counts in enumerate(experts, 1):
        n_inputs = width_of_inputs(t, widths) + 1
        spread = 1.0 if total_spread is None else total_spread / n_inputs**0.5
        draws = ()
        if t == len(experts):
            draws = tuple(
                tuple(random_side(rng, int(rng.integers(0, 2 * k + 1)), n_inputs, spread, weight_shape) for k in counts)
                for _ in range(n_draws)
            )
        sides = tuple(random_side(rng, k, n_inputs, spread, weight_shape) for k in counts)
        layers.append(Layer(sides, draws))
    return Network(tuple(layers), n_features, response_of(len(experts[0])) if response is None else response, curve)


def random_committee(rng, experts, n_features=4, **options):
    """Several random networks as one; ``experts[m]`` are those of member m. The members are returned too."""
    members = [random_network(rng, counts, n_features, **options) for counts in experts]
    return committee(members), members


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
    "tailed pair": ((3, 2), (2, 4)),
    "curved tailed deep pair": ((3, 2), (2, 4), (3, 3)),
    "curved three classes": ((2, 1, 3, 1, 2, 2), (1, 2, 2, 3, 1, 1)),
    "ramped side": ((5,),),
    "ramped deep pair": ((3, 2), (2, 4), (3, 3)),
    "committee": ((3, 2),),
    "deep committee": ((3, 2), (2, 4), (3, 3)),
    "curved committee": ((3, 2), (2, 4)),
    "curved deep committee": ((3, 2), (2, 4), (3, 3)),
    "curved tailed committee": ((3, 2), (2, 4)),
    "ramped tailed committee": ((3, 2), (2, 4)),
    "committee of three classes": ((2, 1, 3, 1, 2, 2), (1, 2, 2, 3, 1, 1)),
    "curved committee of two depths": ((2, 1, 3, 1, 2, 2), (1, 2, 2, 3, 1, 1)),
}  # experts per layer, per side, of one member


def network_of(shape, rng, n_features=4):
    make = random_curve if "curved" in shape else random_ramps if "ramped" in shape else None
    curve = None if make is None else make(rng, n_features, 3)
    options = {"curve": curve, "total_spread": 2.0, "weight_shape": 0.7}
    if "committee" in shape:
        members = [SHAPES[shape]] * 5
        if "two depths" in shape:
            members[1:3] = [SHAPES[shape][:1]] * 2
        network = random_committee(rng, members, n_features, **options)[0]
    else:
        network = random_network(rng, SHAPES[shape], n_features, **options)
    return replace(network, tails=random_tails(rng, n_features, 2)) if "tailed" in shape else network


def tolerance_of(network):
    """Of exports in double precision: squares and powers of large features lose more digits in the sums."""
    return 1e-12 if network.curve is None and network.tails is None else 1e-9


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
