"""The MAP objective of all sides of a layer, its gradient, and the packing of sides into one array.

With ρ_k = ln r_k and K experts, a side minimises

    f = Σ_k (-(γ₀/K) ρ_k + c₀ e^{ρ_k}) + (a_β + ½) Σ_{v,k} ln(1 + β_vk²/2b)
        + (N/M) Σ_{i in batch} w_i [-y_i ln(1 - e^{-λ_i}) + (1 - y_i) λ_i].

The first term is the density of ln r_k (``prior_on="weight"``: of r_k, i.e. γ₀/K - 1 for γ₀/K); the second
is the exact Student-t marginal of the hyperplanes, biases included. Sides share the inputs but no
parameter: f is summed over them.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pbdn.data.columns import Columns
from pbdn.model.labelling import Labelling
from pbdn.model.network import Side
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.sgd.adam import Prior, layer_gradient
from pbdn.sgd.kernel_arguments import LabelledRows, SideColumns, workspace
from pbdn.sgd.map_settings import MapSettings


def pack(sides: tuple[Side, ...]) -> tuple[FloatArray, IntArray]:
    """Parameters of all sides (ln r, bias, coefficients; one column per expert) and where sides start."""
    columns = [np.vstack([np.log(side.expert_weights), side.hyperplanes.T]) for side in sides]
    starts = np.cumsum([0] + [side.n_experts for side in sides]).astype(np.int64)
    return np.ascontiguousarray(np.concatenate(columns, axis=1)), starts


def unpack(parameters: FloatArray, starts: IntArray) -> tuple[Side, ...]:
    """The sides held in a parameter array."""
    return tuple(
        Side(np.ascontiguousarray(parameters[1:, a:b].T), np.exp(parameters[0, a:b])) for a, b in pairwise(starts)
    )


def as_labelled_rows(inputs: Any, codes: IntArray, weights: FloatArray) -> LabelledRows:
    """Rows as the kernels take them: (X,), the three arrays of a CSR matrix, or (addresses, affine) of columns.

    A kernel is compiled anew, for seconds, when any of these arrays is read-only. So none is; kernels do not write to rows.
    """
    rows: tuple[Any, ...]
    if isinstance(inputs, Columns):
        rows = inputs.addresses, inputs.affine
    elif sp.issparse(inputs):
        rows = inputs.data, inputs.indices, inputs.indptr
    else:
        rows = (inputs,)
    return LabelledRows(tuple(map(_writable, rows)), _writable(codes), _writable(weights))


class _SameMemory:
    """The memory of an array, offered to NumPy as memory that may be written to."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        description = array.__array_interface__
        self.__array_interface__ = {**description, "data": (description["data"][0], False)}


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, or one on the same memory that is not read-only."""
    return array if array.flags.writeable else np.asarray(_SameMemory(array))


def prior_constants(config: MapSettings, starts: IntArray) -> Prior:
    """Penalty constants for the present widths (K is the current number of experts of a side)."""
    widths = np.diff(starts)
    slope = config.mass / np.maximum(widths, 1) - (1.0 if config.prior_on == "weight" else 0.0)
    power = config.coef_power
    return Prior(np.repeat(slope, widths), float(config.inv_scale), power, float(config.coef_rate), power)


def penalty(parameters: FloatArray, prior: Prior) -> float:
    """Minus log-prior, up to a constant."""
    weights = prior.inv_scale * np.exp(parameters[0]) - prior.log_weight_slope * parameters[0]
    return float(weights.sum()) + coef_penalty(parameters, prior)


def coef_penalty(parameters: FloatArray, prior: Prior) -> float:
    """The part of the hyperplanes."""
    by_row = np.log1p(parameters[1:] ** 2 / (2.0 * prior.coef_rate)).sum(axis=1)
    return prior.bias_power * float(by_row[0]) + prior.coef_power * float(by_row[1:].sum())


def loss_and_gradient(
    inputs: Any,
    codes: IntArray,
    weights: FloatArray,
    parameters: FloatArray,
    starts: IntArray,
    config: MapSettings,
    labelling: Labelling,
    *,
    scale: float = 1.0,
) -> tuple[float, FloatArray]:
    """f of all sides on these rows and its gradient; ``scale`` is N/M for a minibatch of M rows out of N."""
    gradient = np.empty_like(parameters)
    data = as_labelled_rows(inputs, codes, weights)
    sides = SideColumns(starts, labelling.positive)
    prior = prior_constants(config, starts)
    work = workspace(len(data.rows) == 1, parameters.shape[0] - 2, starts)
    loss = layer_gradient(data, float(scale), parameters, sides, prior, work, gradient)
    return float(loss) + penalty(parameters, prior), gradient
