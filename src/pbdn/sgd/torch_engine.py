"""The same objective and the same Adam step in PyTorch, for ``device="cuda"`` or any other torch device.

Float64 throughout (float32 on "mps", which has nothing else), so a step equals the compiled CPU kernel's to
rounding given the same batch; ``MapConfig(precision="single")`` trades that for speed. On CUDA, windows of steps
are recorded as graphs (``pbdn.sgd.torch_window``), and in single precision a step is two kernels (``pbdn.sgd.torch_fused``).
Pruning and likelihoods are sums over the rows on the device, where all dense rows of the source are there; else they stay with
the CPU kernels. `TorchSteps` trains all layers of a network together. Imported only when asked for.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from pbdn.data.row_source import CHUNK_BATCHES, Block, Minibatches, RowSource
from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.model.labelling import Labelling
from pbdn.numerics.arrays import FloatArray
from pbdn.sgd.joint_workspace import NOISE_POOL
from pbdn.sgd.kernel_arguments import SNAPSHOT_EVERY
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import prior_constants
from pbdn.sgd.trainer import Trainer

try:
    import torch

    from pbdn.sgd.torch_steps import Layout, Passes, WholeNetwork, adam_scales
    from pbdn.sgd.torch_window import DeviceNoise, JointWindow, Moving, Rows, StepWindow
except ImportError as error:
    raise MissingExtraError("A torch device needs PyTorch", "torch") from error

if TYPE_CHECKING:
    from pbdn.sgd.joint_training import Noise, Packed

PASS_ROWS = 1 << 19  # of sums over all rows at a time


def open_device(name: str, precision: str) -> tuple[Any, Any]:
    """A torch device, after a number was put there, and its kind of numbers."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInputError(f"device={name!r} cannot be used by torch: {error}") from error
    return device, torch.float32 if precision == "single" or device.type == "mps" else torch.float64


class TorchTrainer(Trainer):
    """The trainer with its minibatch loop on a torch device."""

    def __init__(self, source: RowSource, labelling: Labelling, depth: int, config: MapSettings, seed: int) -> None:
        """Open the device."""
        super().__init__(source, labelling, depth, config, seed)
        self.device, self.dtype = open_device(str(config.device), config.precision)
        self._block: Block | None = None
        self._rows: Any = None
        self._window: StepWindow | None = None
        self._window_starts: Any = None
        self._fused: Any = None  # the module of fused kernels, where it is used

    def _tensor(self, array: Any) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array)).to(self.device, self.dtype)

    def _upload(self, block: Block) -> None:
        """The block's rows on the device; the same block is not sent twice, the next one takes its place."""
        if self._block is block:
            return
        self._block = block
        self._fused = self._fused_kernels(block)
        if self._fused is not None:
            inputs = self._fused.split(block.inputs, self.device)
        else:
            inputs = block.inputs if sp.issparse(block.inputs) else self._tensor(block.inputs)
        new = Rows(inputs, torch.as_tensor(block.codes).to(self.device), self._tensor(block.weights))
        old = self._rows
        if old is None or sp.issparse(inputs) or inputs.shape[1] != old.inputs.shape[1] or len(block) > len(old.codes):
            self._rows, self._window = new, None
            return
        for place, values in zip(old, new, strict=True):
            place[: len(block)].copy_(values)

    def _fused_kernels(self, block: Block) -> Any:
        """The module of fused kernels if this layer and these rows fit them."""
        if self.device.type != "cuda" or self.dtype != torch.float32 or sp.issparse(block.inputs):
            return None
        try:
            from pbdn.sgd import torch_fused
        except ImportError:  # no Triton
            return None
        fits = torch_fused.fits(self.n_inputs, self.starts.tolist()) and torch_fused.holds(block.inputs, block.weights)
        return torch_fused if fits else None

    @property
    def batches_per_call(self) -> int:
        """All that are read at a time: a device goes through them quickly."""
        return CHUNK_BATCHES

    def release(self) -> None:
        """Let go of rows held on the device."""
        self._block = self._rows = self._window = None

    def _open_window(self, batch_size: int) -> StepWindow:
        """The window of the present experts, with the host's parameters and moments."""
        window = self._window
        if window is None or window.index.shape[1] != batch_size or self._window_starts is not self.starts:
            moving = Moving.at(*(self._tensor(array) for array in self.state[:3]))
            prior = prior_constants(self.config, self.starts)
            layout = Layout(self.starts, self.positive, self.device, self.dtype)
            slope = self._tensor(prior.log_weight_slope)
            kind = StepWindow if self._fused is None else self._fused.FusedWindow
            window = kind(self._rows, moving, layout, prior, slope, SNAPSHOT_EVERY, batch_size)
            self._window, self._window_starts = window, self.starts
        else:
            for tensor, array in zip(window.moving, self.state[:3], strict=False):
                tensor.copy_(self._tensor(array))
        window.moving.healthy.fill_(True)
        window.totals.copy_(self._tensor([self.n_rows, self.total_weight]))
        return window

    def _scales(self, rates: FloatArray) -> list[tuple[float, float]]:
        """Step sizes of the next steps, which are counted."""
        factor, done = float(self.state.step_factor[0]), int(self.state.counters[0])
        self.state.counters[0] += len(rates)
        return [adam_scales(rate * factor, done + 1 + k) for k, rate in enumerate(rates)]

    def run(self, chunk: Minibatches, rates: FloatArray, averaging: bool) -> FloatArray:
        """Minibatch steps on the device; parameters and moments return to the host afterwards."""
        state, size = self.state, chunk.batch_size
        self._upload(chunk.block)
        window = self._open_window(size)
        parameters, first, second, healthy = window.moving
        average = self._tensor(state.average)
        order = torch.as_tensor(chunk.order).to(self.device)
        losses = torch.full((len(rates),), float("nan"), dtype=self.dtype, device=self.device)
        snapshot = parameters.clone()
        for begin in range(0, len(rates), SNAPSHOT_EVERY):
            end = min(begin + SNAPSHOT_EVERY, len(rates))
            index, scales = order[begin * size : end * size], self._scales(rates[begin:end])
            is_full = index.shape[0] == SNAPSHOT_EVERY * size and not averaging and not sp.issparse(window.rows.inputs)
            if is_full:
                losses[begin:end] = window.run(index.view(SNAPSHOT_EVERY, size), self._tensor(scales))
            else:
                for k, scale in enumerate(scales):
                    losses[begin + k] = self._single_step(window, index[k * size : (k + 1) * size], scale)
                    if averaging:
                        state.counters[2] += 1
                        average += (parameters - average) / int(state.counters[2])
            if bool(healthy):  # one wait for the device per window
                snapshot.copy_(parameters)
                continue
            losses[begin:end] = float("nan")
            self.halve_steps()
            parameters.copy_(snapshot)
            first.zero_()
            second.zero_()
            healthy.fill_(True)
        for target, value in zip(state[:4], (parameters, first, second, average), strict=True):
            target[:] = value.cpu().numpy()
        return np.asarray(losses.cpu().numpy(), np.float64)

    def _single_step(self, window: StepWindow, index: Any, scale: tuple[float, float]) -> Any:
        """A step outside a full window; CSR rows are sent to the device as they are needed."""
        inputs, codes, weights = window.rows
        if not sp.issparse(inputs):
            return window.step(index, *scale)
        window.rows = Rows(self._tensor(inputs[index.cpu().numpy()].toarray()), codes[index], weights[index])
        loss = window.step(torch.arange(len(index), device=self.device), *scale)
        window.rows = Rows(inputs, codes, weights)
        return loss

    def _sums(self, name: str, should_stop: Callable[[], bool] | None) -> FloatArray | None:
        """A sum of `Passes` over all rows on the device; None where they are not there, or there was no time."""
        block, rows = self._block, self._rows
        if block is None or len(block) < self.n_rows or sp.issparse(block.inputs) or self.device.type == "mps":
            return None
        parameters = torch.as_tensor(self.state.parameters, device=self.device)
        passes = Passes(parameters, Layout(self.starts, self.positive, self.device, torch.float64))
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for begin in range(0, self.n_rows, PASS_ROWS):
            if should_stop is not None and begin > 0 and should_stop():
                return None
            part = slice(begin, min(begin + PASS_ROWS, self.n_rows))
            inputs = rows.inputs[part]
            dense = inputs.double() if self._fused is None else self._fused.joined(inputs, self.n_inputs)
            total = total + getattr(passes, name)(dense, rows.codes[part], rows.weights[part].double())
        return np.asarray(total.cpu().numpy(), np.float64)

    def surviving(self, should_stop: Callable[[], bool] | None) -> tuple[Any, FloatArray]:
        """Which experts to keep, and how much each is needed; the exact rule on the device."""
        log_inactive = self._sums("log_inactivity", should_stop) if self.config.pruning == "exact" else None
        if log_inactive is None:
            return super().surviving(should_stop)
        return log_inactive <= math.log(self.config.prune_above), -log_inactive

    def log_likelihoods(self, should_stop: Callable[[], bool] | None = None) -> FloatArray:
        """Log-likelihood of every side over all rows, on the device."""
        total = self._sums("log_likelihood", should_stop)
        return super().log_likelihoods(should_stop) if total is None else total


class TorchSteps:
    """Steps of training together on a torch device, as `pbdn.sgd.joint_training.KernelSteps` takes them here.

    Rows, noise, parameters and the order of rows are there; parameters come back after every call.
    """

    def __init__(
        self, network: "Packed", inputs: Any, targets: Any, weights: FloatArray | None, noise: "Noise", rng: Generator
    ) -> None:
        self.network, self.n_rows = network, len(targets)
        self.device, self.dtype = open_device(str(network.device), network.precision)
        row_weights = np.ones(self.n_rows) if weights is None else weights
        self.total_weight = float(row_weights.sum())
        timed = np.ndim(targets) == 2
        said = self._tensor(targets) if timed else torch.as_tensor(targets).to(self.device)
        self.rows = Rows(self._tensor(inputs), said, self._tensor(row_weights))
        only_exact = bool(np.all(targets[:, 0] == targets[:, 1])) if timed else None
        self.whole = WholeNetwork(network, only_exact, self.device, self.dtype)
        numbers = self._tensor(network.parameters)
        self.moving = Moving.at(numbers, torch.zeros_like(numbers), torch.zeros_like(numbers))
        pool = self._tensor(rng.standard_normal(NOISE_POOL + noise.scale.size))
        slopes = None if noise.slopes is None else self._tensor(noise.slopes)
        columns = None if noise.columns is None else torch.as_tensor(noise.columns).to(self.device)
        ramps = None if noise.ramps is None else self._tensor(noise.ramps)
        self.noise = DeviceNoise(self._tensor(noise.scale), slopes, columns, pool, ramps) if noise.scale.any() else None
        n_times = numbers.shape[0] - network.signs.size
        self.signs = self._tensor(np.pad(network.signs, (0, n_times))) if network.signs.size else None
        self.generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))
        self._rest = torch.empty(0, dtype=torch.int64, device=self.device)
        self._window: JointWindow | None = None

    def _tensor(self, array: Any) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array)).to(self.device, self.dtype)

    def draw(self, n: int) -> tuple[Any, Any]:
        """Numbers of the next ``n`` rows, shuffled pass after pass, and where in the pool the noise of each begins."""
        while len(self._rest) < n:
            more = torch.randperm(self.n_rows, generator=self.generator, device=self.device)
            self._rest = torch.cat([self._rest, more])
        order, self._rest = self._rest[:n], self._rest[n:]
        return order, torch.randint(NOISE_POOL, (n,), generator=self.generator, device=self.device)

    def run(self, order: Any, offsets: Any, size: int, rates: FloatArray, done: int) -> float:
        """A step for every ``size`` rows of ``order``; the last loss per unit of weight, NaN where one was not finite."""
        if self._window is None:
            parts = self.rows, self.moving, self.whole, self.noise, self.signs
            self._window = JointWindow(*parts, SNAPSHOT_EVERY, size)
            self._window.totals.copy_(self._tensor([self.n_rows, self.total_weight]))
        index = torch.stack([order.view(-1, size), offsets.view(-1, size)], 1)
        scales = [adam_scales(float(rate), done + 1 + k) for k, rate in enumerate(rates)]
        loss: Any = math.nan
        for begin in range(0, len(rates), SNAPSHOT_EVERY):
            some = slice(begin, begin + SNAPSHOT_EVERY)
            if len(scales[some]) == SNAPSHOT_EVERY:
                loss = self._window.run(index[some], self._tensor(scales[some]))[-1]
                continue
            for own, scale in zip(index[some], scales[some], strict=True):
                loss = self._window.step(own, *scale)
        self.network.parameters[:] = self.moving.parameters.cpu().numpy()
        return float(loss) if bool(self.moving.healthy) else math.nan
