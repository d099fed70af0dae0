"""The minibatch objective, its gradient and the Adam step in PyTorch: pure functions of tensors.

Needs torch and NumPy alone, so that it runs where the compiled kernels cannot be installed.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pbdn.sgd.kernel_arguments import BETA1, BETA2, EPSILON, TIME_PRECISION, TINY_RATE

if TYPE_CHECKING:
    from pbdn.numerics.arrays import IntArray
    from pbdn.sgd.adam import Prior
    from pbdn.sgd.joint_training import Packed

DENSE_SIDES = 64  # up to this many sides experts are summed by a matrix product, above it by index


class Layout:
    """Which expert belongs to which side, on the device."""

    def __init__(self, starts: "IntArray", positive: "IntArray", device: Any, dtype: Any) -> None:
        """Send the layout to the device."""
        n_sides = len(starts) - 1
        self.n_sides = n_sides
        self.side = torch.as_tensor(np.repeat(np.arange(n_sides), np.diff(starts)), device=device)
        against = positive < 0  # sides that stand against a class
        self.positive = torch.as_tensor(np.where(against, -1 - positive, positive), device=device)
        self.against = torch.as_tensor(against, device=device)
        self.indicator = None
        if n_sides <= DENSE_SIDES:
            self.indicator = torch.nn.functional.one_hot(self.side, n_sides).to(dtype)

    def sum_by_side(self, values: Any) -> Any:
        """(n, n_experts) → (n, n_sides)."""
        if self.indicator is not None:
            return values @ self.indicator
        total = values.new_zeros(values.shape[0], self.n_sides)
        return total.index_add_(1, self.side, values)

    def says_yes(self, codes: Any) -> Any:
        """(n,) → (n, n_sides): whether a row is positive for a side."""
        return (codes[:, None] == self.positive) ^ self.against


def log_event_probability(rate: Any) -> Any:
    """ln(1 - e^{-λ}) by whichever form keeps its digits."""
    return torch.where(rate > 0.6931471805599453, torch.log1p(-torch.exp(-rate)), torch.log(-torch.expm1(-rate)))


def likelihood_and_gradient(inputs: Any, codes: Any, weights: Any, parameters: Any, layout: Layout) -> tuple[Any, Any]:
    """Weighted negative log-likelihood of all sides on a batch, and its gradient."""
    psi = torch.addmm(parameters[1], inputs, parameters[2:])
    softplus = torch.logaddexp(psi, psi.new_zeros(()))
    weight = parameters[0].exp()
    rate = layout.sum_by_side(softplus * weight)
    is_positive = layout.says_yes(codes)
    safe = rate.clamp_min(TINY_RATE if rate.dtype == torch.float64 else 1e-30)
    log_probability = log_event_probability(safe)
    row = weights[:, None]
    loss = (row * torch.where(is_positive, -log_probability, rate)).sum()
    slope = row * torch.where(is_positive, -1.0 / torch.expm1(safe), torch.ones_like(rate))
    factor = slope[:, layout.side] * weight
    by_distance = factor * torch.sigmoid(psi)
    gradient = torch.cat(
        [(factor * softplus).sum(0, keepdim=True), by_distance.sum(0, keepdim=True), inputs.T @ by_distance]
    )
    return loss, gradient


class Passes:
    """Sums over rows that need no gradient, in float64: likelihoods, and what pruning asks for.

    Parameters
    ----------
    parameters : tensor (n_inputs + 2, n_experts)
    layout : Layout
        In float64.
    """

    def __init__(self, parameters: Any, layout: Layout) -> None:
        self.parameters, self.layout = parameters, layout

    def _rates(self, inputs: Any) -> tuple[Any, Any]:
        """r_k s(ψ_ik), and their sums by side."""
        psi = torch.addmm(self.parameters[1], inputs, self.parameters[2:])
        own = torch.logaddexp(psi, psi.new_zeros(())) * self.parameters[0].exp()
        return own, self.layout.sum_by_side(own)

    def log_likelihood(self, inputs: Any, codes: Any, weights: Any) -> Any:
        """Of every side."""
        _, rate = self._rates(inputs)
        log_probability = log_event_probability(rate.clamp_min(TINY_RATE))
        return weights @ torch.where(self.layout.says_yes(codes), log_probability, -rate)

    def log_inactivity(self, inputs: Any, codes: Any, weights: Any) -> Any:
        """Of every expert, as `pbdn.sgd.side_kernels` says it: ln P(inactive | y = 1) over the positive rows of its side."""
        side = self.layout.side
        own, rate = self._rates(inputs)
        log_any = log_event_probability(rate.clamp_min(TINY_RATE))
        log_others = log_event_probability((rate[:, side] - own).clamp_min(TINY_RATE))
        counted = weights[:, None] * self.layout.says_yes(codes)
        return (counted[:, side] * (log_others - own - log_any[:, side])).sum(0)


def _valued(value: Any, slope: Any, at: Any) -> Any:
    """``value``, whose derivative by ``at`` is ``slope``: where automatic derivatives would meet 0 times infinity."""
    return value + slope * (at - at.detach())


def _log_probability(rate: Any) -> Any:
    """ln(1 - e^{-λ}), the slope included; rates that are hardly there count as if they were least."""
    safe = rate.detach().clamp_min(_least(rate))
    return _valued(log_event_probability(safe), 1.0 / torch.expm1(safe), rate)


def _least(numbers: Any) -> float:
    return TINY_RATE if numbers.dtype == torch.float64 else 1e-30


def class_losses(units: Any, weight: Any, codes: Any, layout: Layout) -> Any:
    """Minus log-likelihood of every row and side, (n, n_sides)."""
    rate = layout.sum_by_side(units * weight)
    return torch.where(layout.says_yes(codes), -_log_probability(rate), rate)


def line_losses(distance: Any, weight: Any, coef: Any, bounds: Any, layout: Layout, only_exact: bool) -> Any:
    """The same for values on a line (`pbdn.sgd.timed_sides`); ``only_exact``: every row has a value, not an interval."""
    turned = layout.positive == 1
    low, high = (torch.where(turned, -bounds[:, 1 - end, None], bounds[:, end, None]) for end in (0, 1))

    def rates(u: Any) -> tuple[Any, Any, Any]:
        counts = torch.isfinite(u)
        moved = distance + coef * torch.where(counts, u, torch.zeros_like(u))[:, layout.side]
        return counts, layout.sum_by_side(torch.logaddexp(moved, moved.new_zeros(())) * weight), moved

    to_high, rate, moved = rates(high)
    hazard = layout.sum_by_side(weight * coef * torch.sigmoid(moved))
    safe = hazard.detach().clamp_min(_least(hazard))
    exact = rate - _valued(safe.log(), 1.0 / safe, hazard)
    losses = exact
    if not only_exact:
        from_low, start, _ = rates(low)
        start = start * from_low
        losses = torch.where(low == high, exact, start - to_high * _log_probability(rate * to_high - start))
    if bounds.shape[1] > 2:
        limited, given, _ = rates(torch.where(turned, -bounds[:, 2:], bounds[:, 2:]))
        losses = losses + torch.where(limited, torch.where(turned, _log_probability(given), -given), 0.0)
    return losses


class WholeNetwork:
    """The objective of all layers together (`pbdn.sgd.joint_training`) on a device.

    Parameters
    ----------
    network : Packed
    only_exact : bool or None
        Of values on a line: whether every row has a value, not an interval. None: rows have classes.
    device, dtype
    """

    def __init__(self, network: "Packed", only_exact: bool | None, device: Any, dtype: Any) -> None:
        """Send what does not change to the device."""
        stack, self.prior, self.only_exact = network.stack, network.prior, only_exact
        self.first, self.n_units = stack.first.tolist(), stack.n_units.tolist()
        self.sources = [[s for s in sources if s >= 0] for sources in stack.sources.tolist()]
        self.layouts = [Layout(starts, stack.positive, device, dtype) for starts in stack.starts]
        slopes = torch.as_tensor(network.slopes).to(device, dtype)
        self.slopes = slopes.split(self.n_units)

    def objective(self, features: Any, targets: Any, weights: Any, parameters: Any) -> tuple[Any, Any]:
        """The objective, and what is to be differentiated.

        The second has the losses of lower layers besides, which move nothing but their ln r and ln τ.
        """
        seen, reported, more = [features], 0.0, 0.0
        times = parameters[self.first[-1] :].split(self.n_units) if self.only_exact is not None else None
        for t, count in enumerate(self.n_units):
            own = parameters[self.first[t] : self.first[t + 1]].view(-1, count)
            is_top, weight, layout = t == len(self.n_units) - 1, own[0].exp(), self.layouts[t]
            distance = torch.addmm(own[1], torch.cat([seen[s] for s in self.sources[t]], 1), own[2:])
            seen.append(torch.logaddexp(distance, distance.new_zeros(())))
            if times is None:
                losses = class_losses(seen[-1] if is_top else seen[-1].detach(), weight, targets, layout)
            else:
                moved = distance if is_top else distance.detach()
                losses = line_losses(moved, weight, times[t].exp(), targets, layout, bool(self.only_exact))
            loss = (weights[:, None] * losses).sum() + (self.prior.inv_scale * weight - self.slopes[t] * own[0]).sum()
            spread = torch.log1p(own[1:] ** 2 / (2.0 * self.prior.coef_rate))
            reported = reported + self.prior.bias_power * spread[0].sum() + self.prior.coef_power * spread[1:].sum()
            reported, more = (reported + loss, more) if is_top else (reported, more + loss)
        if times is not None:
            reported = reported + 0.5 * TIME_PRECISION * (parameters[self.first[-1] :] ** 2).sum()
        return reported, reported + more


def add_penalty_gradient(parameters: Any, prior: "Prior", slope: Any, gradient: Any) -> None:
    """Add the gradient of the penalty in place."""
    gradient[0] += prior.inv_scale * parameters[0].exp() - slope
    for rows, power in ((slice(1, 2), prior.bias_power), (slice(2, None), prior.coef_power)):
        coefs = parameters[rows]
        gradient[rows] += power * 2.0 * coefs / (2.0 * prior.coef_rate + coefs * coefs)


def adam_scales(rate: float, step: int) -> tuple[float, float]:
    """Step size and root correction of Adam's bias at ``step``, counted from 1."""
    return rate / (1.0 - BETA1**step), math.sqrt(1.0 - BETA2**step)


def scaled_adam_step(parameters: Any, first: Any, second: Any, gradient: Any, size: Any, correction: Any) -> None:
    """One Adam step in place; size and correction are numbers or, in a captured graph, tensors."""
    first.mul_(BETA1).add_(gradient, alpha=1.0 - BETA1)
    second.mul_(BETA2).addcmul_(gradient, gradient, value=1.0 - BETA2)
    parameters.sub_(size * first / (second.sqrt().div_(correction).add_(EPSILON)))
