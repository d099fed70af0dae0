"""A network as a torch module, elementary functions of rates, and one ONNX file of a trunk and a network."""

import copy
import json
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.linalg import block_diag

from pbdn.errors import MissingExtraError
from pbdn.gibbs.device_rows import pool
from pbdn.model.network import Network
from pbdn.model.wiring import sources_of

FAR = -30.0  # under it ln s(ψ) is ψ, and ln(1 - e^{-λ}) is ln λ, to double precision


def log_softplus(psi: Any) -> Any:
    """ln s(ψ)."""
    near = psi.clamp_min(FAR)
    return torch.where(psi < FAR, psi, torch.log(torch.logaddexp(near, torch.zeros_like(near))))


def log_event_probability(log_rate: Any) -> Any:
    """ln(1 - e^{-λ}) from ln λ."""
    rate = log_rate.clamp_min(FAR).exp()
    return torch.where(log_rate < FAR, log_rate, torch.log(-torch.expm1(-rate)))


class NetworkModule(torch.nn.Module):  # type: ignore[misc]
    """The recorded point of a network as a module without trainable numbers: features in, class probabilities out.

    Parameters
    ----------
    network : Network
    dtype : torch dtype, default=torch.float32
        Of the arithmetic; single precision is for standardised features.
    """

    def __init__(self, network: Network, dtype: Any = torch.float32) -> None:
        super().__init__()
        self.kind, self.depth, self.dtype = network.response.kind, network.depth, dtype
        for t, layer in enumerate(network.layers, 1):
            planes = np.concatenate([side.hyperplanes for side in layer.sides])
            self._keep(f"coefficients{t}", planes[:, 1:])
            self._keep(f"bias{t}", planes[:, 0])
        self._keep("expert_weights", block_diag(*network.weights_of_members))  # of answers, side after side
        self.n_members = network.n_members
        self.has_tails = network.tails is not None
        if network.tails is not None:
            self.register_buffer("tailed", torch.as_tensor(network.tails.columns))
            self._keep("tail_measures", [network.tails.centers, network.tails.scales])
            self._keep("tail_powers", network.tails.powers)
        self.is_curved, self.has_ramps = network.curve is not None, network.curve is not None and network.curve.ramps
        if network.curve is not None:
            self.register_buffer("bent", torch.as_tensor(network.curve.columns))
            self._keep("centers", network.curve.centers)
            self._keep("scales", network.curve.scales)

    def _keep(self, name: str, numbers: Any) -> None:
        self.register_buffer(name, torch.as_tensor(np.ascontiguousarray(numbers), dtype=self.dtype))

    def forward(self, features: Any) -> Any:
        """Class probabilities, (n, n_classes)."""
        features = features.to(self.dtype)
        if self.has_tails:
            z = (features[:, self.tailed] - self.tail_measures[0]) / self.tail_measures[1]
            power = torch.where(z < 0, 2 - self.tail_powers, self.tail_powers)
            pulled = torch.sign(z) * torch.expm1(power * torch.log1p(z.abs())) / power
            features = features.index_copy(1, self.tailed, pulled)
        if self.is_curved:
            distance = (features[:, self.bent] - self.centers) / self.scales
            features = torch.cat([features, distance.clamp(0.0, 1.0) if self.has_ramps else distance**2], 1)
        seen = [features]
        for t in range(1, self.depth + 1):
            inputs = torch.cat([seen[source] for source in sources_of(t)], 1)
            distance = torch.nn.functional.linear(inputs, getattr(self, f"coefficients{t}"), getattr(self, f"bias{t}"))
            seen.append(torch.nn.functional.softplus(distance))
        rates = (seen[-1] @ self.expert_weights).unflatten(1, (-1, self.n_members))
        least = rates.amin(2, keepdim=True)
        return pool(self.kind, least[:, :, 0] - torch.log1p(torch.expm1(least - rates).mean(2)))


def to_onnx(trunk: Any, network: Network, example: Any, classes: Sequence[Any] | None = None) -> bytes:
    """Bytes of one ONNX model of a trunk and the network on its features: ``images`` in, ``probabilities`` out.

    Parameters
    ----------
    trunk : torch.nn.Module
    network : Network
        On the features of the trunk, as `PBDNHead.to_network` gives it.
    example : tensor
        A batch of images as the trunk takes them; any number of them may come later.
    classes : sequence, optional
        Labels, stored in the metadata ``classes``.
    """
    try:
        import onnxscript  # noqa: F401  torch's exporter needs it and says so less plainly
    except ImportError as error:
        raise MissingExtraError("ONNX files of a trunk need onnxscript", "torch") from error
    whole = torch.nn.Sequential(copy.deepcopy(trunk), NetworkModule(network)).cpu().eval()
    images = example.detach().cpu()
    images = torch.cat([images, images]) if len(images) == 1 else images  # a batch of one would stay one
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's own
        program = torch.onnx.export(
            whole,
            (images,),
            dynamo=True,
            input_names=["images"],
            output_names=["probabilities"],
            dynamic_shapes=({0: torch.export.Dim("n")},),
            verbose=False,
        )
    model = program.model_proto
    if classes is not None:
        entry = model.metadata_props.add()
        entry.key, entry.value = "classes", json.dumps(list(classes))
    return bytes(model.SerializeToString())
