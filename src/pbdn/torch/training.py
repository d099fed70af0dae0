"""A small trunk for images, and how a trunk and a head learn together."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pbdn.errors import InvalidInputError

HEAD_RATE = 0.01  # Adam's step of the hyperplanes of a head
WEIGHT_RATE = 0.2  # of the log-weights of its experts: those of needless ones have to fall far
SETTLE_RATE = 0.005  # of hyperplanes that learn on without the trunk
SETTLE_STEPS, SETTLE_PASSES = 600, 10  # least steps of a head alone, and least passes
MOST_FEATURES = 128  # of the small trunk
BLOCKS = (
    (32, 32),
    (64, 64),
    (128,),
)  # channels of the convolutions of the small trunk, before the one that makes features
SMALLEST_POOLED = 8  # pixels on the shorter edge from which a picture is halved
FEATURE_ROWS = 2048  # images that pass the trunk at a time when it does not learn
MOST_ON_DEVICE = 8 << 30  # bytes of images kept on the device; more are sent batch by batch


def open_device(name: str) -> Any:
    """A torch device; "auto" is the best there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise InvalidInputError(f"device={name!r} cannot be used by torch: {error}") from error
    return device


@contextmanager
def repeatable(seed: int, device: Any) -> Iterator[None]:
    """The same random numbers for the same seed; torch's own streams go on afterwards as if nothing had been drawn."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def mean_one(weights: Any) -> Any:
    """Row weights (an array or None) as `Training.run` takes them."""
    return None if weights is None else torch.as_tensor(weights / weights.mean(), dtype=torch.float32)


def small_trunk(n_channels: int, height: int, width: int, n_features: int) -> Any:
    """Three blocks of two 3 x 3 convolutions with batch normalisation, halved in between while the picture is large, and a mean."""
    layers: list[Any] = []
    size, n_in = min(height, width), n_channels
    for block in (*BLOCKS[:-1], (*BLOCKS[-1], n_features)):
        if layers and size >= SMALLEST_POOLED:
            layers.append(torch.nn.MaxPool2d(2))
            size //= 2
        for n_out in block:
            convolution = torch.nn.Conv2d(n_in, n_out, 3, padding=1, bias=False)
            layers += [convolution, torch.nn.BatchNorm2d(n_out), torch.nn.ReLU()]
            n_in = n_out
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())


class Pixels(torch.nn.Module):  # type: ignore[misc]
    """Pixels of every channel scaled to mean 0 and standard deviation 1."""

    def __init__(self, center: Any, scale: Any) -> None:
        super().__init__()
        for name, numbers in (("center", center), ("scale", scale)):
            self.register_buffer(name, torch.as_tensor(numbers, dtype=torch.float32)[:, None, None])

    def forward(self, images: Any) -> Any:
        """Scaled images."""
        return (images - self.center) / self.scale


class Training:
    """Adam on a trunk and a head, which has ``loss(features, y, weights)``.

    Parameters
    ----------
    trunk, head : torch.nn.Module
        On one device.
    learning_rate : float
        Of the trunk.
    weight_decay : float
        Of the trunk; a head has its own penalty.
    head_rate : float
        Of the hyperplanes of the head.
    weight_rate : float
        Of the log-weights of its experts. Large steps that do not fall in the end leave them restless.

    Attributes
    ----------
    n_steps : int
        Steps taken.
    """

    def __init__(
        self,
        trunk: Any,
        head: Any,
        learning_rate: float,
        weight_decay: float,
        head_rate: float = HEAD_RATE,
        weight_rate: float = WEIGHT_RATE,
    ) -> None:
        self.trunk, self.head, self.n_steps = trunk, head, 0
        rates = {"log_weights": weight_rate}
        groups = [{"params": list(trunk.parameters()), "lr": learning_rate, "weight_decay": weight_decay}] + [
            {"params": [parameter], "lr": rates.get(name, head_rate), "weight_decay": 0.0}
            for name, parameter in head.named_parameters()
        ]
        self.device = next(head.parameters()).device
        self.optimiser = torch.optim.AdamW(
            [group for group in groups if group["params"]], fused=self.device.type == "cuda"
        )
        self.rates = [group["lr"] for group in self.optimiser.param_groups]

    def run(
        self,
        images: Any,
        codes: Any,
        weights: Any = None,
        *,
        epochs: int,
        batch_size: int,
        augment: Callable[[Any], Any] | None = None,
        falling: bool = True,
        on_epoch: Callable[[int, float], None] | None = None,
    ) -> list[float]:
        """Shuffled passes over the images; returns the mean loss of each.

        Parameters
        ----------
        images, codes, weights : tensors
            Weights have mean one, or are None.
        epochs, batch_size : int
            Batches of a pass have nearly the same size.
        augment : callable, optional
            Takes a batch of images on the device and returns one.
        falling : bool
            Whether the steps fall to zero along half a cosine.
        on_epoch : callable, optional
            Called with the number of passes done and the loss.
        """
        if images.numel() * images.element_size() <= MOST_ON_DEVICE:
            images = images.to(self.device)
        codes = codes.to(self.device)
        weights = None if weights is None else weights.to(self.device)
        n_batches = math.ceil(len(codes) / batch_size)
        losses, done = [], 0
        self.trunk.train()
        self.head.train()
        for epoch in range(1, epochs + 1):
            total = torch.zeros((), device=self.device)
            for index in torch.randperm(len(codes), device=self.device).chunk(n_batches):
                factor = 0.5 * (1.0 + math.cos(math.pi * done / (epochs * n_batches))) if falling else 1.0
                done += 1
                for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                    group["lr"] = factor * rate
                batch = images[index.to(images.device)].to(self.device)
                features = self.trunk(batch if augment is None else augment(batch))
                loss = self.head.loss(features, codes[index], None if weights is None else weights[index])
                self.optimiser.zero_grad()
                loss.backward()
                self.optimiser.step()
                self.n_steps += 1
                total += loss.detach() * len(index)
            losses.append(float(total) / len(codes))
            if on_epoch is not None:
                on_epoch(epoch, losses[-1])
        self.trunk.eval()
        self.head.eval()
        return losses


def settle(
    head: Any, features: Any, codes: Any, weights: Any = None, *, batch_size: int, n_steps: int = SETTLE_STEPS
) -> None:
    """Let the weights of the experts learn alone on features of a trunk that stays as it is, and drop those not needed.

    The trunk knows these images too well, and hyperplanes that learn on from them grow too sure. They do so only where they
    have taken few steps with the trunk.

    Parameters
    ----------
    head : module
    features, codes, weights : tensors
        As in `Training.run`.
    batch_size : int
    n_steps : int
        Steps that the head has taken with the trunk.
    """
    codes, weights = codes.to(features.device), None if weights is None else weights.to(features.device)
    head.eval()
    head.measure(features)
    with torch.no_grad():
        inputs = head.standardized(features)
    epochs = max(SETTLE_PASSES, math.ceil(SETTLE_STEPS / math.ceil(len(codes) / batch_size)))
    standardize, head.standardize = head.standardize, False
    try:
        rate = SETTLE_RATE if n_steps < SETTLE_STEPS else 0.0
        training = Training(torch.nn.Identity(), head, 0.0, 0.0, rate)
        training.run(inputs, codes, weights, epochs=epochs, batch_size=batch_size)
        head.prune(inputs, codes, None if weights is None else weights * (head.n_rows / len(codes)))
    finally:
        head.standardize = standardize


def features_of(trunk: Any, images: Any, device: Any) -> Any:
    """What a trunk that does not learn makes of images, on the device."""
    trunk.eval()
    with torch.no_grad():
        return torch.cat([trunk(some.to(device)).float() for some in images.split(FEATURE_ROWS)])
