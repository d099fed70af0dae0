"""Compiled log-likelihood of every side over all rows of a block of data."""

import math
from typing import Any

import numpy as np

from pbdn.numerics.compiled import inlined, summing_kernel
from pbdn.numerics.softplus import softplus_only
from pbdn.sgd.constants import TINY_RATE
from pbdn.sgd.kernel_arguments import Group, LabelledRows, SideColumns
from pbdn.sgd.link_function import fill_log_probability, is_yes, log_rate, row_rate
from pbdn.sgd.row_formats import checksum, gather, project
from pbdn.sgd.workspace import TILE, Work, next_group, tile_of


@summing_kernel
def side_log_likelihood(data: LabelledRows, parameters: Any, sides: SideColumns, work: Work, total: Any) -> float:
    """Add the log-likelihood of every side to ``total``; returns the `checksum` of the rows."""
    check, n_rows = 0.0, data.codes.shape[0]
    for begin in range(0, n_rows, TILE):
        end = begin + TILE if begin + TILE < n_rows else n_rows
        index = np.arange(begin, end)
        check += checksum(data.rows, begin, end)
        gather(data.rows, index, work)
        side = 0
        while side < sides.starts.shape[0] - 1:
            group = next_group(sides.starts, side)
            project(data.rows, index, parameters, group, work)
            softplus_only(index.shape[0] * group.width, work.psi, work.softplus)
            _add_group(data, index, parameters[0], sides, group, work, total)
            side = group.end
    return check


@inlined
def _add_group(
    data: LabelledRows, index: Any, log_weight: Any, sides: SideColumns, group: Group, work: Work, total: Any
) -> None:
    """The same for one tile of rows and one group of sides, with ψ and s(ψ) in the workspace."""
    n, starts, rate, log_probability = index.shape[0], sides.starts, work.rate, work.row_weight
    psi, softplus = tile_of(work.psi, n, group), tile_of(work.softplus, n, group)
    weight = work.experts[1]
    for k in range(group.k1 - group.k0):
        weight[k] = math.exp(log_weight[group.k0 + k])
    for s in range(group.side, group.end):
        first, last = np.uint64(starts[s]) - group.k0, np.uint64(starts[s + 1]) - group.k0
        for i in range(n):
            rate[i] = row_rate(weight, softplus, i, first, last)
        fill_log_probability(n, rate, log_probability)
        for i in range(n):
            row_weight = data.weights[index[i]]
            if row_weight == 0.0:
                continue
            if not is_yes(data.codes[index[i]], sides.positive[s]):
                total[s] -= row_weight * rate[i]
            elif rate[i] >= TINY_RATE:
                total[s] += row_weight * log_probability[i]
            else:
                own = log_weight[starts[s] : starts[s + 1]]
                total[s] += row_weight * log_rate(own, psi[i, first:last], softplus[i, first:last])
