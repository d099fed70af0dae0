"""Adam on the MAP objective: many minibatches per call of one compiled loop."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import summing, summing_kernel
from pbdn.numerics.elementary import log_positive
from pbdn.sgd.kernel_arguments import (
    BETA1,
    BETA2,
    EPSILON,
    MAX_HALVINGS,
    SNAPSHOT_EVERY,
    LabelledRows,
    SideColumns,
    Steps,
    Work,
)
from pbdn.sgd.side_kernels import batch_gradient

SMALL = 1e-6


class Prior(NamedTuple):
    """Constants of the penalty (see ``pbdn.sgd.objective``)."""

    log_weight_slope: FloatArray  # coefficient of ln r_k, per expert (changes with the number of experts)
    inv_scale: float  # c₀
    coef_power: float  # a_β + 1/2, or the published a_β
    coef_rate: float  # b_β
    bias_power: float  # coef_power, or 0 where the bias is free


class AdamState(NamedTuple):
    """What the next step needs: arrays are updated in place.

    ``counters`` are steps taken since the moments started, halvings of the step, iterates in ``average``;
    ``step_factor`` is 2^-halvings.
    """

    parameters: FloatArray
    first_moment: FloatArray
    second_moment: FloatArray
    average: FloatArray
    counters: Any
    step_factor: FloatArray

    @classmethod
    def start(cls, parameters: FloatArray) -> "AdamState":
        """Moments at zero, full step."""
        p = np.ascontiguousarray(parameters, dtype=np.float64)
        return cls(p, np.zeros_like(p), np.zeros_like(p), np.zeros_like(p), np.zeros(3, np.int64), np.ones(1))

    def keep(self, columns: Any) -> "AdamState":
        """The state of the experts that survive, moments included."""
        p, m, v, mean = (np.ascontiguousarray(a[:, columns]) for a in self[:4])
        return AdamState(p, m, v, mean, self.counters, self.step_factor)

    def apart(self) -> "AdamState":
        """The same state with counters of its own."""
        return self._replace(counters=self.counters.copy(), step_factor=self.step_factor.copy())

    def take_back(self, parts: Sequence["AdamState"], columns: Sequence[slice]) -> None:
        """Parts that have gone on by the same steps."""
        for part, own in zip(parts, columns, strict=True):
            for whole, some in zip(self[:4], part[:4], strict=True):
                whole[:, own] = some
        self.counters[:], self.step_factor[:] = parts[0].counters, parts[0].step_factor


@summing
def add_penalty_gradient(parameters: Any, prior: Prior, gradient: Any) -> None:
    """Add ∂/∂ρ(-slope·ρ + c₀ e^ρ) and ∂/∂β(power · ln(1 + β²/2b)) = power · 2β/(2b + β²)."""
    slope, inv_scale, power, coef_rate, bias_power = prior
    for k in range(parameters.shape[1]):
        gradient[0, k] += inv_scale * math.exp(parameters[0, k]) - slope[k]
        bias = parameters[1, k]
        gradient[1, k] += bias_power * 2.0 * bias / (2.0 * coef_rate + bias * bias)
    coefs, by_coef = parameters[2:].reshape(-1), gradient[2:].reshape(-1)
    for j in range(coefs.shape[0]):
        by_coef[j] += power * 2.0 * coefs[j] / (2.0 * coef_rate + coefs[j] * coefs[j])


@summing
def sum_of_log1p(numbers: Any, factor: float) -> float:
    """Σ ln(1 + factor · x²) of numbers x; by three terms where they are as small as in a Gaussian penalty."""
    total, squares = 0.0, 0.0
    for j in range(numbers.shape[0]):
        term = factor * numbers[j] * numbers[j]
        total += term * (1.0 - term * (0.5 - term / 3.0))
        squares += term * term
    if squares < SMALL:  # each term is off by a share of less than SMALL^1.5 / 4
        return total
    total = 0.0
    for j in range(numbers.shape[0]):
        total += log_positive(1.0 + factor * numbers[j] * numbers[j])
    return total


@summing
def adam_step(parameters: Any, first: Any, second: Any, gradient: Any, factor: float, rate: float, step: int) -> None:
    """One Adam step (Kingma & Ba 2015) on the gradient times ``factor``; ``step`` counts from 1."""
    correction = math.sqrt(1.0 - BETA2**step)
    size = correction * rate / (1.0 - BETA1**step)  # m / (√q / c + ε) = c m / (√q + c ε): one division less
    epsilon = correction * EPSILON
    p, m, q, g = parameters.reshape(-1), first.reshape(-1), second.reshape(-1), gradient.reshape(-1)
    for j in range(p.shape[0]):
        scaled = factor * g[j]
        m[j] = BETA1 * m[j] + (1.0 - BETA1) * scaled
        q[j] = BETA2 * q[j] + (1.0 - BETA2) * scaled * scaled
        p[j] -= size * m[j] / (math.sqrt(q[j]) + epsilon)


@summing
def _sum_of_squares(values: Any) -> float:
    total = 0.0
    flat = values.reshape(-1)
    for j in range(flat.shape[0]):
        total += flat[j] * flat[j]
    return total


@summing
def _copy(source: Any, target: Any) -> None:
    """Set all numbers of a table. (An assignment of slices would compile what it says to wrong shapes, too.)"""
    for v in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[v, k] = source[v, k]


@summing_kernel
def layer_gradient(
    data: LabelledRows, scale: float, parameters: Any, sides: SideColumns, prior: Prior, work: Work, gradient: Any
) -> float:
    """Scaled negative log-likelihood of all sides on all rows; fills the gradient of it and of the penalty."""
    loss = batch_gradient(data, np.arange(data.codes.shape[0]), scale, parameters, sides, work, gradient)
    add_penalty_gradient(parameters, prior, gradient)
    return loss


@summing_kernel
def run_minibatches(
    data: LabelledRows, steps: Steps, sides: SideColumns, state: AdamState, prior: Prior, work: Work, losses: Any
) -> Any:
    """Take one Adam step per minibatch.

    The objective is divided by ``total_weight``, which Adam ignores up to its ε. A step that leads to a
    loss or gradient that is not finite is undone (back to the last snapshot), the step size halved and the
    moments restarted. ``losses[b]`` receives the minibatch loss per unit of weight. Returns the number of
    steps taken, smaller than asked only if MAX_HALVINGS was reached.
    """
    parameters, first, second, average, counters, step_factor = state
    order, batch_size, total_weight = steps.order, steps.batch_size, steps.total_weight
    gradient = np.empty_like(parameters)
    snapshot = parameters.copy()
    since_snapshot = 0
    n_batches = steps.rates.shape[0]
    for b in range(n_batches):
        index = order[b * batch_size : (b + 1) * batch_size]
        loss = batch_gradient(data, index, steps.n_rows / index.shape[0], parameters, sides, work, gradient)
        add_penalty_gradient(parameters, prior, gradient)
        if not (math.isfinite(loss) and math.isfinite(_sum_of_squares(gradient))):
            losses[b] = math.nan
            counters[0] = 0
            counters[1] += 1
            step_factor[0] *= 0.5
            if counters[1] > MAX_HALVINGS:
                return b
            _copy(snapshot, parameters)
            first[:] = 0.0
            second[:] = 0.0
            continue
        losses[b] = loss / total_weight
        if since_snapshot % SNAPSHOT_EVERY == 0:
            _copy(parameters, snapshot)
        since_snapshot += 1
        counters[0] += 1
        rate = steps.rates[b] * step_factor[0]
        adam_step(parameters, first, second, gradient, 1.0 / total_weight, rate, counters[0])
        if steps.averaging:
            counters[2] += 1
            for v in range(parameters.shape[0]):
                for k in range(parameters.shape[1]):
                    average[v, k] += (parameters[v, k] - average[v, k]) / counters[2]
    return n_batches


@summing_kernel
def take_step(gradient: Any, state: AdamState, prior: Prior, total_weight: float, rate: float, averaging: bool) -> bool:
    """One Adam step from the summed gradient of a minibatch, the penalty not yet in it; False, and no step, if it is not finite."""
    parameters, first, second, average, counters, step_factor = state
    add_penalty_gradient(parameters, prior, gradient)
    if not math.isfinite(_sum_of_squares(gradient)):
        return False
    counters[0] += 1
    adam_step(parameters, first, second, gradient, 1.0 / total_weight, rate * step_factor[0], counters[0])
    if averaging:
        counters[2] += 1
        for v in range(parameters.shape[0]):
            for k in range(parameters.shape[1]):
                average[v, k] += (parameters[v, k] - average[v, k]) / counters[2]
    return True
