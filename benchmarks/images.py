"""Images: a PBDN head on a small convolutional trunk beside a softmax head, with the same trunk, passes and augmentation.

    python -m benchmarks.images --device cuda                          # MNIST, its pairs, scikit-learn's digits, five seeds
    python -m benchmarks.images --held-back --data mnist --set epochs=30 max_experts=10   # for choices
    python -m benchmarks.images --quick                                # a minute on a CPU, nothing is recorded
    python -m benchmarks.images --table                                # what the records say

Needs torch, NumPy, SciPy, scikit-learn, numba and this package's sources alone (PYTHONPATH=src), hence the internal modules;
MNIST is read from the folder PBDN_DATA. Methods:

- softmax: a linear layer on standardised features, trained with the trunk;
- ensemble: the average of three of them;
- pbdn: the head of `pbdn.torch.PBDNHead`, trained with the trunk, then settled, as in `ConvPBDNClassifier(max_depth=1)`;
- pbdn_gibbs: the average over posterior draws of that layer given the features, chains started at it. They run in processes of
  their own while the softmax networks learn.

Scores are those of test images: error in percent, log-loss, Brier score, calibration error, and the area under the ROC curve by
which the predictive entropy tells other images from test images: the same ones turned by 90 degrees, and pieces of photographs
(where Pillow is installed). Nothing is chosen on test images: ``--held-back`` trains on the first 50,000 images of MNIST and
scores on the other 10,000 training images. The pairs are those of the paper's first table, with its five splits: every
tenth row is for training. All images are on the device, where trunks learn in bfloat16; no seed begins after ``--seconds``.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import benchmarks  # noqa: F401  (finds the data)
from benchmarks import record
from benchmarks.data_and_methods import PAIRS
from benchmarks.quality_tables import images_table
from pbdn.datasets import Dataset, load_mnist, load_mnist_pair
from pbdn.gibbs.chain import ChainSettings, run_chain
from pbdn.gibbs.rows import make_rows
from pbdn.gibbs.state import state_from_side
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.inspection.subtypes import subtype_means
from pbdn.model.network import Layer, Side
from pbdn.torch.head import PBDNHead
from pbdn.torch.training import (
    Pixels,
    Training,
    features_of,
    repeatable,
    settle,
    small_trunk,
)

EXPERIMENT, HELD_BACK = "images", "images_held_back"
MEASURES = ("error", "log_loss", "ece", "ood_turned", "seconds")
LEARNING_RATE, WEIGHT_DECAY = 2e-3, 1e-4
N_HELD_BACK, N_PHOTOGRAPHS = 10_000, 1000


class Data(NamedTuple):
    """Images (n, 1, height, width) with pixels in [0, 1], and labels; all but the test labels are on the device."""

    name: str
    images: Any
    codes: Any
    test_images: Any
    test_codes: np.ndarray

    @property
    def n_classes(self) -> int:
        return int(self.test_codes.max()) + 1


class Settings(NamedTuple):
    """How a set of images is learned."""

    epochs: int
    batch_size: int
    n_features: int = 64
    max_experts: int = 10
    n_sweeps: int = 100
    n_draws: int = 25
    n_members: int = 3


SETTINGS = {
    "mnist": Settings(20, 512, max_experts=5, n_sweeps=40, n_draws=20),
    "digits": Settings(30, 128, 32),
    **dict.fromkeys(PAIRS, Settings(80, 100, n_sweeps=200, n_draws=50, n_members=1)),
}
QUICK = {"digits": Settings(2, 64, 16, 4, 10, 5, 1), "3v5": Settings(2, 64, 16, 4, 10, 5, 1)}


class SoftmaxHead(torch.nn.Module):
    """A linear layer of logits on standardised features, with what `Training` asks of a head."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.scaler = torch.nn.BatchNorm1d(n_features, affine=False)
        self.linear = torch.nn.Linear(n_features, n_classes)

    def standardized(self, features: Any) -> Any:
        return self.scaler(features)

    def forward(self, features: Any) -> Any:
        return self.linear(self.standardized(features.float())).log_softmax(1)

    def loss(self, features: Any, y: Any, weights: Any = None) -> Any:
        return torch.nn.functional.nll_loss(self(features), y)


def _digits() -> tuple[np.ndarray, ...]:
    """Scikit-learn's digits, a fifth for the test, always the same."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order] / 16.0, y[order]
    return X[360:], y[360:], X[:360], y[:360]


@cache
def _dataset(name: str) -> Dataset:
    return load_mnist() if name == "mnist" else load_mnist_pair(int(name[0]), int(name[2]), "paper")


def load(name: str, device: Any, seed: int = 0, *, held_back: bool = False, n_rows: int | None = None) -> Data:
    """Images of one split; only the pairs have several, one for every seed."""
    parts = _digits() if name == "digits" else _dataset(name).split(seed if name in PAIRS else 0)
    if held_back:
        X, y = parts[:2]
        parts = X[:-N_HELD_BACK], y[:-N_HELD_BACK], X[-N_HELD_BACK:], y[-N_HELD_BACK:]
    X, y, X_test, y_test = (part[:n_rows] for part in parts)
    side = int(round(X.shape[1] ** 0.5))

    def send(rows: np.ndarray) -> Any:
        return torch.as_tensor(rows.reshape(-1, 1, side, side), dtype=torch.float32).to(device)

    return Data(name, send(X), torch.as_tensor(y.astype(np.int64)).to(device), send(X_test), y_test.astype(np.int64))


def photographs(size: int, device: Any) -> Any:
    """Grey pieces of scikit-learn's two photographs; None without Pillow, which reads them."""
    try:
        import PIL  # noqa: F401
        from sklearn.datasets import load_sample_images
    except ImportError:
        return None
    grey = [photograph.mean(axis=2) / 255.0 for photograph in load_sample_images().images]
    rng = np.random.default_rng(0)
    pieces = []
    for i in range(N_PHOTOGRAPHS):
        whole = grey[i % len(grey)]
        top, left = (int(rng.integers(n - size)) for n in whole.shape)
        pieces.append(whole[top : top + size, left : left + size])
    return torch.as_tensor(np.array(pieces)[:, None], dtype=torch.float32).to(device)


def augment(images: Any) -> Any:
    """Turned by up to 10 degrees, moved by up to 7 %, larger or smaller by up to 10 %."""
    n, device = len(images), images.device
    angle, scale = (
        torch.empty(n, device=device).uniform_(-0.175, 0.175),
        torch.empty(n, device=device).uniform_(0.9, 1.1),
    )
    matrix = torch.zeros(n, 2, 3, device=device)
    matrix[:, 0, 0] = matrix[:, 1, 1] = scale * angle.cos()
    matrix[:, 1, 0] = scale * angle.sin()
    matrix[:, 0, 1] = -matrix[:, 1, 0]
    matrix[:, :, 2].uniform_(-0.14, 0.14)
    grid = torch.nn.functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


class Reduced(torch.nn.Module):
    """A trunk that learns in bfloat16 on a GPU; what it says later has full precision."""

    def __init__(self, trunk: Any) -> None:
        super().__init__()
        self.trunk = trunk.to(memory_format=torch.channels_last)

    def forward(self, images: Any) -> Any:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.training and images.is_cuda):
            return self.trunk(images)


class Fitted(NamedTuple):
    """A trunk, its head, the features of the training images, and the seconds that it took."""

    trunk: Any
    head: Any
    features: Any
    seconds: float

    def inputs(self, images: Any = None) -> np.ndarray:
        """What the layer of the head sees of images, or of the training images."""
        with torch.no_grad():
            features = self.features if images is None else features_of(self.trunk, images, images.device)
            return np.asarray(self.head.eval().standardized(features).double().cpu().numpy())

    def predict(self, images: Any) -> np.ndarray:
        with torch.no_grad():
            return self.head.eval()(features_of(self.trunk, images, images.device)).exp().double().cpu().numpy()


def wait(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def train(data: Data, settings: Settings, seed: int, kind: str) -> Fitted:
    """Trunk and head together."""
    device, began = data.images.device, time.perf_counter()
    with repeatable(seed, device):
        center, spread = data.images.mean().reshape(1), data.images.std().reshape(1)
        own = small_trunk(1, *data.images.shape[2:], settings.n_features)
        trunk = torch.nn.Sequential(Pixels(center, spread), Reduced(own))
        head: Any = SoftmaxHead(settings.n_features, data.n_classes)
        rates = {"head_rate": LEARNING_RATE}
        if kind == "pbdn":
            head = PBDNHead(settings.n_features, data.n_classes, len(data.codes), max_experts=settings.max_experts)
            rates = {}
        training = Training(trunk.to(device), head.to(device), LEARNING_RATE, WEIGHT_DECAY, **rates)
        training.run(data.images, data.codes, epochs=settings.epochs, batch_size=settings.batch_size, augment=augment)
        features = features_of(trunk, data.images, device)
        if kind == "pbdn":
            settle(head, features, data.codes, batch_size=settings.batch_size, n_steps=training.n_steps)
        wait(device)
    return Fitted(trunk, head, features, time.perf_counter() - began)


class Sampled(NamedTuple):
    """Posterior draws of the sides on the standardised features of a fitted head."""

    fitted: Fitted
    draws: list[Layer]

    def predict(self, images: Any) -> np.ndarray:
        inputs = self.fitted.inputs(images)
        return np.mean([self.fitted.head.response.pool(layer.side_rate(inputs)) for layer in self.draws], axis=0)


def chain(folder: str, s: int, side: Side, settings: Settings, seed: int) -> tuple[tuple[Side, ...], float]:
    """Draws of one side given the features that lie in a folder, and when they were there."""
    inputs, targets = (np.load(Path(folder) / f"{name}.npy") for name in ("inputs", "targets"))
    width, n_sweeps = side.n_experts, settings.n_sweeps
    chains = ChainSettings(max_experts=width, n_sweeps=n_sweeps, n_burn_in=n_sweeps // 2, n_draws=settings.n_draws)
    rows = make_rows(inputs, targets[:, s], single_events=True)
    with single_blas_thread():
        found = run_chain(rows, chains, seed, (1, s), start=state_from_side(side, width))
    return found.draws, time.time()


class Chains(NamedTuple):
    """Chains under way, one for every side of a fitted head."""

    fitted: Fitted
    found: list[Future[tuple[tuple[Side, ...], float]]]
    began: float

    def end(self) -> tuple[Sampled, float]:
        """Wait for them: what they sampled, and the seconds of the slowest."""
        draws, ends = zip(*(one.result() for one in self.found), strict=True)
        layers = [Layer(tuple(sides)) for sides in zip(*draws, strict=True)]
        return Sampled(self.fitted, layers), max(ends) - self.began


def sample(fitted: Fitted, data: Data, settings: Settings, seed: int, pool: Executor, folder: str) -> Chains:
    """Begin a chain for every side, all given the features."""
    began = time.time()
    np.save(Path(folder) / "inputs.npy", fitted.inputs())
    np.save(Path(folder) / "targets.npy", fitted.head.response.labelling.targets(data.codes.cpu().numpy()))
    sides = fitted.head.to_layer().sides
    return Chains(fitted, [pool.submit(chain, folder, s, side, settings, seed) for s, side in enumerate(sides)], began)


def compile_sampler() -> None:
    """Let numba compile the sampler once, so that no process pays for it."""
    rng = np.random.default_rng(0)
    rows = make_rows(rng.standard_normal((50, 3)), rng.random(50) < 0.5, single_events=True)
    run_chain(rows, ChainSettings(max_experts=2, n_sweeps=2, n_burn_in=1, n_draws=1), 0)


def scores(members: list[Any], data: Data) -> dict[str, float]:
    """Measures of the average of some models."""

    def predict(images: Any) -> np.ndarray:
        return np.mean([one.predict(images) for one in members], axis=0)

    def entropy(probability: np.ndarray) -> np.ndarray:
        return -(probability * np.log(np.maximum(probability, record.SMALLEST))).sum(axis=1)

    probability = predict(data.test_images)
    found = record.metrics(data.test_codes, probability)
    others = {"turned": torch.rot90(data.test_images, 1, (2, 3))}
    others["photographs"] = photographs(data.test_images.shape[2], data.test_images.device)
    for name, images in others.items():
        if images is not None:
            both = np.concatenate([entropy(probability), entropy(predict(images))])
            found[f"ood_{name}"] = float(roc_auc_score(np.arange(len(both)) >= len(probability), both))
    return found


def pictures(fitted: Fitted, data: Data) -> dict[str, Any]:
    """Mean of the test images that each expert votes for, its side, and its share of votes (eq. 2 of the paper)."""
    inputs, flat = fitted.inputs(data.test_images), data.test_images.flatten(1).double().cpu().numpy()
    layer = fitted.head.to_layer()
    means, shares = zip(*(subtype_means(side, inputs, flat) for side in layer.sides), strict=True)
    sides = np.repeat(np.arange(len(layer.sides)), layer.n_experts)
    images = np.concatenate(means).reshape(-1, *data.test_images.shape[2:])
    return {"images": record.pack_picture(images), "sides": sides, "shares": np.concatenate(shares).round(4)}


def cells(data: Data, settings: Settings, seed: int, pool: Executor) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of one set of images and one seed, one after the other."""
    n_members = settings.n_members
    with tempfile.TemporaryDirectory() as folder:
        pbdn = train(data, settings, n_members * seed, "pbdn")
        chains = sample(pbdn, data, settings, seed, pool, folder)
        size = {"n_experts": pbdn.head.n_experts, "units": sum(pbdn.head.n_experts), "seconds": pbdn.seconds}
        extra = {"pictures": pictures(pbdn, data)} if seed == 0 else {}
        yield "pbdn", {**scores([pbdn], data), **size, **extra}
        members = [train(data, settings, n_members * seed, "softmax")]
        yield "softmax", {**scores(members, data), "seconds": members[0].seconds}
        if n_members > 1:
            members += [train(data, settings, n_members * seed + m, "softmax") for m in range(1, n_members)]
            yield "ensemble", {**scores(members, data), "seconds": sum(one.seconds for one in members)}
        drawn, seconds = chains.end()
        units = float(np.mean([sum(layer.n_experts) for layer in drawn.draws]))
        yield "pbdn_gibbs", {**scores([drawn], data), "units": units, "seconds": pbdn.seconds + seconds}


def run(options: argparse.Namespace, pool: Executor) -> None:
    """All cells, seed after seed, each recorded as soon as it is there."""
    began = time.perf_counter()
    device = torch.device(options.device)
    torch.set_float32_matmul_precision("high")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    changes = {key: int(value) for key, value in (one.split("=") for one in options.set)}
    plan = QUICK if options.quick else {key: SETTINGS[key]._replace(**changes) for key in options.data}
    if options.held_back and set(plan) != {"mnist"}:
        raise SystemExit("--held-back needs --data mnist: the other sets are too small to hold rows back.")
    experiment = HELD_BACK if options.held_back else EXPERIMENT
    for seed in [0] if options.quick else options.seeds:
        for key, settings in plan.items():
            if time.perf_counter() - began > options.seconds:
                print(f"{options.seconds} s are over before {key}, seed {seed}", flush=True)
                return
            data = load(key, device, seed, held_back=options.held_back, n_rows=400 if options.quick else None)
            for method, found in cells(data, settings, seed, pool):
                shown = "  ".join(f"{measure} {found[measure]:.4g}" for measure in MEASURES)
                elapsed = time.perf_counter() - began
                units = found.get("units", "-")
                print(f"{elapsed:6.1f} s  {key:<7}{seed}  {method:<16}{shown}  units {units}", flush=True)
                if not options.quick:
                    case = {"case": "_".join(options.set)} if options.set else {}
                    line = {"method": method, "data": key, "seed": seed, "config": settings._asdict(), "device": name}
                    record.append(experiment, line | case | found, options.root)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no seed begins later")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes for the chains")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="other settings than the chosen ones"
    )
    parser.add_argument("--held-back", action="store_true", help="score on training images of MNIST that are held back")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--root", type=Path, default=record.RESULTS, help="folder of the records")
    options = parser.parse_args()
    if not options.table:
        with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
            run(options, pool)
    if not options.quick:
        print(images_table(options.root, HELD_BACK if options.held_back else EXPERIMENT), end="")


if __name__ == "__main__":
    main()
