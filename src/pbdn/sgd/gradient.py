"""Compiled loss and gradient of many sides on one minibatch.

Reductions run in a fixed order: results do not depend on any thread count.
"""

import math
from typing import Any

import numpy as np

from pbdn.numerics.compiled import inlined, summing
from pbdn.numerics.softplus import softplus_logistic
from pbdn.sgd.kernel_arguments import Group, LabelledRows, SideColumns
from pbdn.sgd.link_function import is_yes, link_slopes, row_rate, row_slopes, tiny_rate_slopes
from pbdn.sgd.row_formats import accumulate, gather, project
from pbdn.sgd.workspace import TILE, Work, next_group, tile_of


@inlined
def batch_gradient(
    data: LabelledRows, index: Any, scale: float, parameters: Any, sides: SideColumns, work: Work, gradient: Any
) -> float:
    """Scaled negative log-likelihood of all sides on the rows ``index``; fills its gradient."""
    gradient[:] = 0.0
    loss = 0.0
    for begin in range(0, index.shape[0], TILE):
        tile = index[begin : begin + TILE]
        gather(data.rows, tile, work)
        side = 0
        while side < sides.starts.shape[0] - 1:
            group = next_group(sides.starts, side)
            loss += _group_gradient(data, tile, scale, parameters, sides, group, work, gradient)
            side = group.end
    return loss


@summing
def _group_gradient(
    data: LabelledRows,
    index: Any,
    scale: float,
    parameters: Any,
    sides: SideColumns,
    group: Group,
    work: Work,
    gradient: Any,
) -> float:
    """Loss of one tile of rows and one group of sides; adds its gradient."""
    n, k0, k1 = index.shape[0], group.k0, group.k1
    psi, softplus, slope = tile_of(work.psi, n, group), tile_of(work.softplus, n, group), tile_of(work.slope, n, group)
    row_weight, log_weight, weight, by_weight = work.row_weight, work.experts[0], work.experts[1], work.experts[2]
    for k in range(k1 - k0):
        log_weight[k] = parameters[0, k0 + k]
        weight[k] = math.exp(log_weight[k])
        by_weight[k] = 0.0
    project(data.rows, index, parameters, group, work)
    softplus_logistic(n * group.width, work.psi, work.softplus, work.slope)
    for i in range(n):
        row_weight[i] = scale * data.weights[index[i]]
    loss = 0.0
    for s in range(group.side, group.end):
        first, last = np.uint64(sides.starts[s]) - k0, np.uint64(sides.starts[s + 1]) - k0
        rate, is_positive = work.rate, work.is_positive
        for i in range(n):
            rate[i] = row_rate(weight, softplus, i, first, last)
            is_positive[i] = is_yes(data.codes[index[i]], sides.positive[s])
        loss += link_slopes(n, is_positive, row_weight, rate)
        for i in range(n):
            if math.isnan(rate[i]):
                own = log_weight[first:last], psi[i, first:last], softplus[i, first:last], slope[i, first:last]
                loss -= row_weight[i] * tiny_rate_slopes(*own)
                rate[i] = -row_weight[i]
            row_slopes(rate[i], i, first, last, softplus, slope, by_weight)
    for k in range(k1 - k0):
        gradient[0, k0 + k] += weight[k] * by_weight[k]
    accumulate(data.rows, index, group, work, gradient)
    return loss
