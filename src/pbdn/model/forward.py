"""Rates of a whole network on dense rows, in one compiled pass.

Rows are worked on in tiles that stay in cache, turned so that the numbers of one input lie side by side:
features, squares or ramps, then the units of layer after layer. What a layer sees (`pbdn.model.wiring`) is then a run of neighbouring
inputs. Networks that are averaged are passed one after the other, each without the zeros that stand for the units of the
others. Sums run in a fixed order: the rate of a row depends neither on the rows beside it nor on a BLAS.

The first pass of a process waits until the kernel is loaded (0.1 s) or compiled (1 s, once on a machine). So few rows take the
way of NumPy, whose rates differ by rounding only.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pbdn.model.wiring import FEATURES, Inputs, sources_of
from pbdn.numerics.arrays import BoolArray, FloatArray, IntArray
from pbdn.numerics.compiled import summing_kernel, vectorised
from pbdn.numerics.elementary import LANES, minus_log_one_minus, one_minus_exp
from pbdn.numerics.products import BLOCK_ROWS, block_product, number_at
from pbdn.numerics.softplus import softplus_lanes

if TYPE_CHECKING:
    from pbdn.model.network import Network

TILE = 64  # rows that are worked on together
FEWEST_ROWS = 1000
MOST_FEATURES = 512  # a BLAS is as fast on wider rows


class Plan(NamedTuple):
    """A network for the compiled pass.

    Attributes
    ----------
    steps : (n_steps, 6)
        One line for each layer of each network that is averaged: where its coefficients and its experts begin, how many
        experts it has, its first input, the number of its inputs, and where its units go (-1: it is a top layer).
    coefficients : (sum of experts, padded, x inputs)
        Without the biases.
    experts : (2, n_experts)
        Biases, and the weights of experts of top layers.
    answers : (n_experts,)
        Which answer an expert of a top layer belongs to: one after the other those of all networks that are averaged, side after
        side.
    bent : (n_bent,)
        Features that have squares or ramps.
    bend : (3, n_bent)
        Centres and scales of these, and 1 for a ramp.
    """

    steps: IntArray
    coefficients: FloatArray
    experts: FloatArray
    answers: IntArray
    bent: IntArray
    bend: FloatArray


def plan_of(network: "Network") -> Plan:
    """What the compiled pass needs of a network."""
    steps: list[tuple[int, ...]] = []
    coefficients, biases, weights, answers = [], [], [], []
    filled = n_experts = 0
    owners = np.concatenate(network.owners)
    together = network.depth == 1  # one layer has no units of others to leave out
    for m in range(1 if together else network.n_members):
        chosen = _needed(network, np.ones_like(owners, np.bool_) if together else owners == m)
        place = [0, network.n_expanded]  # where the features begin, and the units of every layer
        for t, layer in enumerate(network.layers, 1):
            planes = np.concatenate([side.hyperplanes for side in layer.sides])[chosen[t]]
            planes = planes[:, np.concatenate([[True], *(chosen[source] for source in sources_of(t))])]
            count, n_inputs = planes.shape[0], planes.shape[1] - 1
            top = t == network.depth
            steps.append((filled, n_experts, count, place[sources_of(t)[0]], n_inputs, -1 if top else place[t]))
            place.append(place[t] + count)
            block = np.zeros((-(-count // BLOCK_ROWS) * BLOCK_ROWS, n_inputs))
            block[:count] = planes[:, 1:]
            coefficients.append(block.ravel())
            biases.append(planes[:, 0])
            weights.append(np.concatenate([side.expert_weights for side in layer.sides])[chosen[t]])
            of_side = np.repeat(np.arange(len(layer.sides)), layer.n_experts)[chosen[t]]
            answers.append(network.n_averaged * of_side + (owners[chosen[t]] % network.n_averaged if top else 0))
            filled, n_experts = filled + block.size, n_experts + count
    curve = network.curve
    bend = np.zeros((3, 0))
    if curve is not None:
        bend = np.stack([curve.centers, curve.scales, np.full(curve.n_bent, float(curve.ramps))])
    return Plan(
        np.array(steps, np.int64),
        np.concatenate(coefficients),
        np.stack([np.concatenate(biases), np.concatenate(weights)]),
        np.concatenate(answers).astype(np.int64),
        np.empty(0, np.int64) if curve is None else curve.columns.astype(np.int64),
        bend,
    )


def _needed(network: "Network", experts: BoolArray) -> list[BoolArray]:
    """Which features (all), and which units of every layer, some experts of the top layer need."""
    needed = [np.ones(network.n_expanded, np.bool_), *(np.zeros(count, np.bool_) for count in network.n_units)]
    needed[-1] = experts
    for t in range(network.depth, 0, -1):
        planes = np.concatenate([side.hyperplanes for side in network.layers[t - 1].sides])[needed[t]]
        place = 1
        for source in sources_of(t):
            width = needed[source].size
            if source != FEATURES:
                needed[source] |= planes[:, place : place + width].any(axis=0)
            place += width
    return needed


def is_worth_it(features: Inputs) -> bool:
    """Whether rows are dense, and many and narrow enough for the compiled pass."""
    if not isinstance(features, np.ndarray) or not features.flags.c_contiguous or features.dtype != np.float64:
        return False
    return bool(features.shape[0] >= FEWEST_ROWS and features.shape[1] <= MOST_FEATURES)


def side_rates(plan: Plan, n_sides: int, n_members: int, features: FloatArray) -> FloatArray:
    """λ of every side on C-contiguous rows, shape (n, n_sides): of the average of the members' answers."""
    n_rows, n_features = features.shape
    most, n_inputs = (
        plan.steps[:, 2].max(),
        max(n_features + plan.bent.size, (plan.steps[:, 2] + plan.steps[:, 5]).max()),
    )
    inputs, distance = np.zeros(n_inputs * TILE), np.empty((most + BLOCK_ROWS) * TILE)
    rates, out = np.empty((n_sides * n_members, TILE)), np.empty((n_sides, n_rows))
    address = features.__array_interface__["data"][0]  # so that rows that cannot be written to need no other kernel
    _add_rates(address, n_rows, n_features, *plan, inputs, distance, rates, out)
    return out.T


@summing_kernel
def _add_rates(
    address: int,
    n_rows: int,
    n_features: int,
    steps: Any,
    coefficients: Any,
    experts: Any,
    answers: Any,
    bent: Any,
    bend: Any,
    inputs: Any,
    distance: Any,
    rates: Any,
    out: Any,
) -> None:
    """Add λ, one answer after the other, and average; ``inputs``, ``distance`` and ``rates`` are memory of one tile."""
    n_sides, n_members = out.shape[0], rates.shape[0] // out.shape[0]
    at_coefficients, at_inputs, at_distance = coefficients.ctypes.data, inputs.ctypes.data, distance.ctypes.data
    for begin in range(0, n_rows, TILE):
        n = n_rows - begin if n_rows - begin < TILE else TILE
        for v in range(n_features):
            for i in range(n):
                inputs[v * TILE + i] = number_at(address, (begin + i) * n_features + v)
        for q in range(bent.size):
            center, scale, seen, to = bend[0, q], bend[1, q], bent[q] * TILE, (n_features + q) * TILE
            for i in range(n):
                z = (inputs[seen + i] - center) / scale
                inputs[to + i] = z * z if bend[2, q] == 0.0 else min(max(z, 0.0), 1.0)
        rates[:] = 0.0
        for j in range(steps.shape[0]):
            filled, count, source, depth, target = steps[j, 0], steps[j, 2], steps[j, 3], steps[j, 4], steps[j, 5]
            for k in range(0, count, BLOCK_ROWS):
                for i in range(0, n, LANES):
                    block_product(
                        at_distance + 8 * (k * TILE + i), TILE,
                        at_coefficients + 8 * (filled + k * depth), depth, 1,
                        at_inputs + 8 * (source * TILE + i), TILE, depth,
                    )  # fmt: skip
            for k in range(count):
                expert = steps[j, 1] + k
                to = at_inputs + 8 * (target + k) * TILE if target >= 0 else at_distance + 8 * k * TILE
                for i in range(0, n, LANES):
                    softplus_lanes(at_distance + 8 * (k * TILE + i), experts[0, expert], to + 8 * i)
                if target < 0:
                    answer, weight = answers[expert], experts[1, expert]
                    for i in range(n):
                        rates[answer, i] += weight * distance[k * TILE + i]
        for side in range(n_sides):
            _average(rates[side * n_members : (side + 1) * n_members], n, out[side, begin : begin + n])


@vectorised
def _average(rates: Any, n: int, out: Any) -> None:
    """The rates of which 1 - e^{-λ} is the average over members (`pbdn.model.likelihood.average_answer`); ``rates`` change."""
    n_members = rates.shape[0]
    for i in range(n):
        out[i] = rates[0, i]
    for m in range(1, n_members):
        for i in range(n):
            out[i] = min(out[i], rates[m, i])
    if n_members > 1:
        for m in range(n_members):
            for i in range(n):
                rates[m, i] = one_minus_exp(rates[m, i] - out[i])
        for m in range(1, n_members):
            for i in range(n):
                rates[0, i] += rates[m, i]
        for i in range(n):
            out[i] += minus_log_one_minus(rates[0, i] / n_members)
