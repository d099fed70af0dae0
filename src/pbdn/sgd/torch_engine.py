"""The same objective and the same Adam step in PyTorch, for ``device="cuda"`` or any other torch device.

Float64 throughout (float32 on "mps", which has nothing else), so a step equals the compiled CPU kernel's to
rounding given the same batch. Pruning and likelihoods over all rows stay with the CPU kernels. Imported
only when asked for.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from pbdn.errors import InvalidInputError, MissingExtraError, NumericalError
from pbdn.model.likelihood import FloatArray
from pbdn.sgd.config import MapConfig
from pbdn.sgd.constants import MAX_HALVINGS, SNAPSHOT_EVERY
from pbdn.sgd.objective import prior_constants
from pbdn.sgd.rows import Minibatches, RowSource
from pbdn.sgd.train import Trainer

try:
    import torch

    from pbdn.sgd.torch_steps import Layout, adam_step, add_penalty_gradient, likelihood_and_gradient
except ImportError as error:
    raise MissingExtraError("A torch device needs PyTorch: pip install 'pbdn[torch]'.") from error


class TorchTrainer(Trainer):
    """The trainer with its minibatch loop on a torch device."""

    def __init__(self, source: RowSource, n_sides: int, depth: int, config: MapConfig, seed: int) -> None:
        """Open the device."""
        super().__init__(source, n_sides, depth, config, seed)
        try:
            self.device = torch.device(str(config.device))
            torch.zeros(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise InvalidInputError(f"device={config.device!r} cannot be used by torch: {error}") from error
        self.dtype = torch.float32 if self.device.type == "mps" else torch.float64
        self._held: tuple[Any, tuple[Any, Any, Any]] | None = None

    def _tensor(self, array: Any) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array)).to(self.device, self.dtype)

    def _upload(self, chunk: Minibatches) -> tuple[Any, Any, Any]:
        """The chunk's rows on the device; the same block is not sent twice."""
        if self._held is None or self._held[0] is not chunk.block:
            block = chunk.block
            inputs = block.inputs if sp.issparse(block.inputs) else self._tensor(block.inputs)
            codes = torch.as_tensor(block.codes).to(self.device)
            self._held = (block, (inputs, codes, self._tensor(block.weights)))
        return self._held[1]

    def release(self) -> None:
        """Let go of rows held on the device."""
        self._held = None

    def run(self, chunk: Minibatches, rates: FloatArray, averaging: bool) -> FloatArray:
        """Minibatch steps on the device; parameters and moments return to the host afterwards."""
        state, config = self.state, self.config
        inputs, codes, weights = self._upload(chunk)
        layout = Layout(self.starts, self.positive, self.device, self.dtype)
        prior = prior_constants(config, self.starts)
        slope = self._tensor(prior.log_weight_slope)
        parameters, first, second = (self._tensor(a) for a in state[:3])
        average = self._tensor(state.average)
        order = torch.as_tensor(chunk.order).to(self.device)
        losses = torch.full((len(rates),), float("nan"), dtype=self.dtype, device=self.device)
        healthy = torch.ones((), dtype=torch.bool, device=self.device)
        snapshot, snapshot_at = parameters.clone(), 0
        for b, rate in enumerate(rates):
            index = order[b * chunk.batch_size : (b + 1) * chunk.batch_size]
            batch = self._tensor(inputs[index.cpu().numpy()].toarray()) if sp.issparse(inputs) else inputs[index]
            scaled = weights[index] * (self.n_rows / len(index))
            loss, gradient = likelihood_and_gradient(batch, codes[index], scaled, parameters, layout)
            add_penalty_gradient(parameters, prior, slope, gradient)
            healthy &= torch.isfinite(loss) & torch.isfinite((gradient * gradient).sum())
            losses[b] = loss / self.total_weight
            state.counters[0] += 1
            factor = float(state.step_factor[0])
            adam_step(parameters, first, second, gradient / self.total_weight, rate * factor, int(state.counters[0]))
            if averaging:
                state.counters[2] += 1
                average += (parameters - average) / int(state.counters[2])
            if (b + 1) % SNAPSHOT_EVERY == 0 or b + 1 == len(rates):  # one wait for the device per window
                if bool(healthy):
                    snapshot, snapshot_at = parameters.clone(), b + 1
                    continue
                losses[snapshot_at : b + 1] = float("nan")
                state.counters[0] = 0
                state.counters[1] += 1
                state.step_factor[0] *= 0.5
                if state.counters[1] > MAX_HALVINGS:
                    raise NumericalError(
                        f"The MAP objective of layer {self.depth} is not finite even after "
                        f"{int(state.counters[1])} halvings of the step; standardise the inputs, or lower "
                        "learning_rate."
                    )
                parameters.copy_(snapshot)
                first.zero_()
                second.zero_()
                healthy.fill_(True)
        for target, value in zip(state[:4], (parameters, first, second, average), strict=True):
            target[:] = value.cpu().numpy()
        return np.asarray(losses.cpu().numpy(), np.float64)
