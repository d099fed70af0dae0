"""What the kernels of a whole network are given: its shape, its rows, and memory for one tile of them."""

from typing import Any, NamedTuple

import numpy as np

from pbdn.model.wiring import FEATURES, sources_of
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.numerics.compiled import inlined, internal
from pbdn.numerics.products import padded_size

TILE = 128  # rows that are worked on together
NOISE_POOL = 1 << 16  # normal numbers; every noisy copy of a row takes a run of them that begins anywhere


class Stack(NamedTuple):
    """The layers of a network for compiled code; arrays have one entry, or one row, per layer.

    Attributes
    ----------
    first : (n_layers + 1,)
        Where a layer's parameters begin in the flat array. Values on a line have ln τ of all experts after the last layer.
    n_inputs, n_units : (n_layers,)
        Inputs without the constant, and experts of all sides.
    starts : (n_layers, n_sides + 1)
        Columns of every side.
    sources : (n_layers, 2)
        Whose units a layer sees (`pbdn.model.wiring.sources_of`); -1 fills the row of the first layer.
    positive : (n_sides,)
        What is "yes" for each side (`pbdn.model.labelling`).
    """

    first: IntArray
    n_inputs: IntArray
    n_units: IntArray
    starts: IntArray
    sources: IntArray
    positive: IntArray


class NoisyRows(NamedTuple):
    """Rows, what they say, their weights, and what is added to each row of each minibatch.

    ``targets`` are class codes, or bounds of values on a line and maybe their limits, shape (n_rows, 2 or 3); their type chooses
    what is compiled.
    A row of a minibatch gets ``scale`` times the numbers of ``pool`` from its offset on. The square of feature ``columns[j]``
    moves by ``slopes[row, j]`` times what the feature does. A ramp of feature ``columns[j]`` is taken anew: ``ramps[:, j]`` says
    where it begins, one over its length, its lowest value and how far it rises. The ramps of a feature stand side by side, from
    ``groups[g]`` to ``groups[g + 1]``, and each begins where the one before it ends: a row is half-way up one of them only.
    """

    inputs: FloatArray
    targets: Any
    weights: FloatArray
    pool: FloatArray  # standard normal numbers
    offsets: IntArray  # (rows of all minibatches,)
    scale: FloatArray  # (n_features without squares and ramps,)
    slopes: FloatArray  # (n_rows, n_squares)
    columns: IntArray  # (n_squares or n_ramps,)
    ramps: FloatArray  # (4, n_ramps)
    groups: IntArray  # (features with ramps + 1,)


class LayerWork(NamedTuple):
    """Memory of one tile, layer by layer: flat arrays, and where each layer's part begins.

    Ramps are not among the inputs. A row has passed all ramps of a feature before ``ramp``, and ``along`` of that one.
    """

    inputs: FloatArray  # a leading one, then what the layer sees but ramps: (TILE, stride)
    units: FloatArray  # softplus: (TILE, padded units)
    slopes: FloatArray
    by_units: FloatArray
    input_at: IntArray
    unit_at: IntArray
    panel: FloatArray  # of one layer at a time
    experts: FloatArray  # (2, widest layer): r, and Σ ∂f/∂λ s
    product: FloatArray
    rate: FloatArray
    row_weight: FloatArray
    is_positive: Any
    moved: FloatArray  # (5, rows x widest layer): distances and, at two bounds, softplus and logistic
    ramp: IntArray  # (TILE, features with ramps)
    along: FloatArray
    on_ramps: FloatArray  # (2, n_ramps, widest layer): sums per ramp and expert


def make_stack(starts: list[IntArray], n_features: int, positive: IntArray) -> Stack:
    """The shape of a network whose layers have sides at ``starts``."""
    n_units = np.array([one[-1] for one in starts], np.int64)
    widths = [n_features, *n_units.tolist()]
    numbers = range(1, len(starts) + 1)
    sources = np.array([(*sources_of(t), -1)[:2] for t in numbers], np.int64)
    n_inputs = np.array([sum(widths[source] for source in sources_of(t)) for t in numbers], np.int64)
    first = np.concatenate([[0], np.cumsum((n_inputs + 2) * n_units)]).astype(np.int64)
    return Stack(first, n_inputs, n_units, np.stack(starts).astype(np.int64), sources, positive)


@inlined
def n_seen(t: int, stack: Stack, n_ramps: int) -> int:
    """How many inputs of layer t (from 0), the constant among them, are not ramps."""
    return int(stack.n_inputs[t] + 1 - (n_ramps if stack.sources[t, 0] == FEATURES else 0))


@internal
def joint_workspace(stack: Stack, rows: NoisyRows) -> Any:
    """Memory for one tile of rows."""
    n_ramps, n_groups = rows.ramps.shape[1], rows.groups.shape[0] - 1
    n_layers = stack.n_units.shape[0]
    input_at, unit_at = np.zeros(n_layers + 1, np.int64), np.zeros(n_layers + 1, np.int64)
    widest, largest = 1, 1
    for t in range(n_layers):
        stride, width = padded_size(n_seen(t, stack, n_ramps)), padded_size(stack.n_units[t])
        input_at[t + 1] = input_at[t] + TILE * stride
        unit_at[t + 1] = unit_at[t] + TILE * width
        widest = max(widest, stride, width)
        largest = max(largest, stride * width)
    inputs = np.zeros(input_at[n_layers])
    units, slopes, by_units = np.zeros(unit_at[n_layers]), np.zeros(unit_at[n_layers]), np.zeros(unit_at[n_layers])
    row = np.zeros((2, TILE))
    return LayerWork(
        inputs, units, slopes, by_units, input_at, unit_at, np.zeros(largest), np.zeros((2, widest)),
        np.zeros(max(largest, TILE * widest)), row[0], row[1], np.zeros(TILE, np.bool_),
        np.empty((5, TILE * widest)), np.zeros((TILE, n_groups), np.int64), np.zeros((TILE, n_groups)),
        np.zeros((2, n_ramps, widest)),
    )  # fmt: skip
