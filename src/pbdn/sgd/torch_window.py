"""A window of Adam steps on a torch device, recorded once as a CUDA graph and then replayed.

A step is some forty small kernels; launched one by one they cost more than their work at any batch below a million
rows. Everything a replay reads or writes lives at a fixed address: rows, parameters, moments, the row numbers of
the window's minibatches, Adam's step sizes. On devices other than CUDA the same steps run one by one.

Needs torch and NumPy alone, like ``pbdn.sgd.torch_steps``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pbdn.sgd.torch_steps import (
    Layout,
    WholeNetwork,
    add_penalty_gradient,
    likelihood_and_gradient,
    scaled_adam_step,
)

if TYPE_CHECKING:
    from pbdn.sgd.adam import Prior


class Rows(NamedTuple):
    """Rows on a device."""

    inputs: Any
    codes: Any
    weights: Any


class Moving(NamedTuple):
    """What a step changes."""

    parameters: Any
    first: Any
    second: Any
    healthy: Any  # becomes False with the first loss or gradient that is not finite

    @classmethod
    def at(cls, parameters: Any, first: Any, second: Any) -> "Moving":
        """Start a window of steps."""
        return cls(parameters, first, second, torch.ones((), dtype=torch.bool, device=parameters.device))


class StepWindow:
    """``n_steps`` minibatches of ``batch_size`` rows.

    Parameters
    ----------
    rows : Rows
        Memory that the row numbers refer to; it may be refilled between replays.
    moving : Moving
    layout : Layout
    prior : Prior
    slope : tensor
        ``prior.log_weight_slope`` on the device.
    n_steps, batch_size : int
    objective : callable
        `likelihood_and_gradient`, or a compiled form of it.
    """

    def __init__(
        self,
        rows: Rows,
        moving: Moving,
        layout: Layout,
        prior: "Prior",
        slope: Any,
        n_steps: int,
        batch_size: int,
        objective: Callable[..., Any] = likelihood_and_gradient,
    ) -> None:
        """Allocate; nothing is recorded yet."""
        self.rows, self.moving, self.layout, self.prior, self.slope = rows, moving, layout, prior, slope
        self.objective = objective
        like = moving.parameters
        self.index = torch.zeros(n_steps, batch_size, dtype=torch.int64, device=like.device)
        self.scales = like.new_ones(n_steps, 2)  # step size and root correction of Adam
        self.totals = like.new_ones(2)  # rows and weight of all data
        self.losses = like.new_zeros(n_steps)
        self.graph: Any = None
        self._n_runs = 0

    def step(self, index: Any, size: Any, correction: Any) -> Any:
        """One step on the rows ``index``; returns the loss per unit of weight."""
        parameters, first, second, healthy = self.moving
        weights = self.rows.weights[index] * (self.totals[0] / index.shape[0])
        loss, gradient = self.objective(
            self.rows.inputs[index], self.rows.codes[index], weights, parameters, self.layout
        )
        add_penalty_gradient(parameters, self.prior, self.slope, gradient)
        healthy.logical_and_(torch.isfinite(loss) & torch.isfinite((gradient * gradient).sum()))
        scaled_adam_step(parameters, first, second, gradient / self.totals[1], size, correction)
        return loss / self.totals[1]

    def _steps(self) -> None:
        for k in range(self.index.shape[0]):
            self.losses[k] = self.step(self.index[k], self.scales[k, 0], self.scales[k, 1])

    def _record(self) -> None:
        """Record the steps; the rehearsal that CUDA asks for is undone."""
        kept = [tensor.clone() for tensor in self.moving]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step(self.index[0], self.scales[0, 0], self.scales[0, 1])
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            self.graph, capture_error_mode="thread_local"
        ):  # other networks may be trained beside this one
            self._steps()
        for tensor, value in zip(self.moving, kept, strict=True):
            tensor.copy_(value)

    def run(self, index: Any, scales: Any) -> Any:
        """Take all steps; returns their losses (memory of the window, overwritten by the next run)."""
        self.index.copy_(index)
        self.scales.copy_(scales)
        self._n_runs += 1
        if self.index.device.type != "cuda" or self._n_runs == 1:  # one run alone is not worth a recording
            self._steps()
            return self.losses
        if self.graph is None:
            self._record()
        self.graph.replay()
        return self.losses


class DeviceNoise(NamedTuple):
    """Noise on rows (`pbdn.sgd.joint_training.Noise`) and the pool of its numbers, on a device."""

    scale: Any
    slopes: Any  # (n_rows, n_squares), or None
    columns: Any
    pool: Any
    ramps: Any = None  # (4, n_ramps), or None

    def on(self, features: Any, row: Any, offset: Any) -> Any:
        """Noisy features of rows whose noise begins at these places of the pool."""
        n_plain = self.scale.shape[0]
        moved = self.scale * self.pool[offset[:, None] + torch.arange(n_plain, device=offset.device)]
        if self.ramps is not None:
            noisy = features[:, :n_plain] + moved
            begin, slope, low, rise = self.ramps
            along = (noisy[:, self.columns] - begin) * slope
            return torch.cat([noisy, low + rise * along.clamp(0.0, 1.0)], 1)
        if self.slopes is not None:
            moved = torch.cat([moved, self.slopes[row] * moved[:, self.columns]], 1)
        return features + moved


class JointWindow(StepWindow):
    """A window of steps on all layers of a network together.

    Parameters
    ----------
    rows : Rows
        Codes are targets of any kind.
    moving : Moving
    network : WholeNetwork
    noise : DeviceNoise or None
        None: there is none.
    signs : tensor or None
        Signs that parameters must have, zero where any will do.
    n_steps, batch_size : int
    """

    def __init__(
        self,
        rows: Rows,
        moving: Moving,
        network: WholeNetwork,
        noise: DeviceNoise | None,
        signs: Any,
        n_steps: int,
        batch_size: int,
    ) -> None:
        """Allocate; ``index`` has row numbers and places in the pool of noise."""
        super().__init__(rows, moving, network.layouts[-1], network.prior, None, n_steps, batch_size)
        self.network, self.noise, self.signs = network, noise, signs
        self.index = torch.zeros(n_steps, 2, batch_size, dtype=torch.int64, device=self.index.device)

    def step(self, index: Any, size: Any, correction: Any) -> Any:
        """One step on the rows ``index[0]``; returns the loss per unit of weight."""
        parameters, first, second, healthy = self.moving
        row, offset = index[0], index[1]
        features = self.rows.inputs[row]
        features = features if self.noise is None else self.noise.on(features, row, offset)
        weights = self.rows.weights[row] * (self.totals[0] / row.shape[0])
        here = parameters.detach().requires_grad_()
        loss, whole = self.network.objective(features, self.rows.codes[row], weights, here)
        (gradient,) = torch.autograd.grad(whole, here)
        healthy.logical_and_(torch.isfinite(loss.detach()))
        scaled_adam_step(parameters, first, second, gradient / self.totals[1], size, correction)
        if self.signs is not None:
            parameters.mul_(self.signs * parameters >= 0.0)
        return loss.detach() / self.totals[1]
