"""Images: a PBDN head on a small convolutional trunk beside a softmax head, with the same trunk, passes and augmentation.

    python -m benchmarks.images --device cuda              # MNIST and scikit-learn's digits, five seeds
    python -m benchmarks.images --quick                    # a minute on a CPU, nothing is recorded
    python -m benchmarks.images --table                    # what the records say

Needs torch, NumPy, SciPy, scikit-learn, numba and this package's sources alone (PYTHONPATH=src), hence the internal modules;
MNIST is read from the folder PBDN_DATA. Methods:

- softmax: a linear layer on standardised features, trained with the trunk;
- softmax_settled: the same, trained on alone on the frozen features for as many passes as the PBDN head;
- ensemble: the average of three networks of the kind before;
- pbdn: the head of `pbdn.torch.PBDNHead`, trained with the trunk, then alone, as in `ConvPBDNClassifier(max_depth=1)`;
- pbdn_gibbs: the average over posterior draws of that layer given the features, chains started at it.

Scores are those of test images: error in percent, log-loss, Brier score, calibration error, and the area under the ROC curve by
which the predictive entropy tells the same images turned by 90 degrees from upright ones. All images are on the device; no
cell begins after ``--seconds``.
"""

import argparse
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

import benchmarks  # noqa: F401  (finds the data)
from benchmarks import record
from pbdn.gibbs.chain import ChainSettings, run_chain
from pbdn.gibbs.rows import make_rows
from pbdn.gibbs.state import state_from_side
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.model.network import Layer
from pbdn.torch.head import PBDNHead
from pbdn.torch.training import Pixels, Training, features_of, repeatable, settle, small_trunk

EXPERIMENT = "images"
METHODS = ("softmax", "softmax_settled", "ensemble", "pbdn", "pbdn_gibbs")
MEASURES = ("error", "log_loss", "ece", "ood_auroc", "seconds")
LEARNING_RATE, WEIGHT_DECAY = 2e-3, 1e-4
N_MEMBERS = 3


class Data(NamedTuple):
    """Images (n, 1, height, width) and labels on the device."""

    name: str
    images: Any
    codes: Any
    test_images: Any
    test_codes: np.ndarray


class Settings(NamedTuple):
    """How a set of images is learned."""

    epochs: int
    batch_size: int
    n_features: int = 64
    max_experts: int = 10
    n_sweeps: int = 100
    n_draws: int = 25


SETTINGS = {"digits": Settings(30, 128, 32), "mnist": Settings(10, 1024, max_experts=5, n_sweeps=40, n_draws=20)}
QUICK = {"digits": Settings(3, 64, 16, 4, 10, 5)}


class SoftmaxHead(torch.nn.Module):
    """A linear layer of logits on standardised features, with what `Training` and `settle` ask of a head."""

    standardize = True
    n_rows = 1.0

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.scaler = torch.nn.BatchNorm1d(n_features, affine=False)
        self.linear = torch.nn.Linear(n_features, n_classes)

    def measure(self, features: Any) -> None:
        self.scaler.running_mean.copy_(features.mean(0))
        self.scaler.running_var.copy_(features.var(0, correction=0))

    def standardized(self, features: Any) -> Any:
        return self.scaler(features) if self.standardize else features

    def forward(self, features: Any) -> Any:
        return self.linear(self.standardized(features)).log_softmax(1)

    def loss(self, features: Any, y: Any, weights: Any = None) -> Any:
        return torch.nn.functional.nll_loss(self(features), y)

    def prune(self, features: Any, y: Any, weights: Any = None) -> None:
        """Nothing dies here."""


def load(name: str, device: Any, n_rows: int | None = None) -> Data:
    """Digits are split at random, a fifth for the test, always in the same way."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order].reshape(-1, 8, 8) / 16.0, y[order]
        parts = X[360:], y[360:], X[:360], y[:360]
    else:
        with np.load(Path(os.environ["PBDN_DATA"]) / "mnist.npz") as file:
            parts = tuple(file[key] for key in ("x_train", "y_train", "x_test", "y_test"))
        parts = parts[0].reshape(-1, 28, 28) / 255.0, parts[1], parts[2].reshape(-1, 28, 28) / 255.0, parts[3]
    X, y, X_test, y_test = parts[0][:n_rows], parts[1][:n_rows], *parts[2:]

    def send(images: np.ndarray) -> Any:
        return torch.as_tensor(images[:, None], dtype=torch.float32).to(device)

    return Data(name, send(X), torch.as_tensor(y.astype(np.int64)).to(device), send(X_test), y_test.astype(np.int64))


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


class Fitted(NamedTuple):
    """A trunk, its head, the features of the training images, and the seconds that it took."""

    trunk: Any
    head: Any
    features: Any
    seconds: float

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
        trunk = torch.nn.Sequential(Pixels(center, spread), small_trunk(1, *data.images.shape[2:], settings.n_features))
        head: Any = SoftmaxHead(settings.n_features, 10)
        rates = {"head_rate": LEARNING_RATE}
        if kind == "pbdn":
            head = PBDNHead(settings.n_features, 10, len(data.codes), max_experts=settings.max_experts)
            rates = {}
        training = Training(trunk.to(device), head.to(device), LEARNING_RATE, WEIGHT_DECAY, **rates)
        training.run(data.images, data.codes, epochs=settings.epochs, batch_size=settings.batch_size, augment=augment)
        features = features_of(trunk, data.images, device)
        wait(device)
    return Fitted(trunk, head, features, time.perf_counter() - began)


def settled(fitted: Fitted, data: Data, settings: Settings, seed: int, **rate: float) -> Fitted:
    """The head alone, further."""
    began = time.perf_counter()
    with repeatable(seed, data.images.device):
        settle(fitted.head, fitted.features, data.codes, batch_size=settings.batch_size, **rate)
        wait(data.images.device)
    return fitted._replace(seconds=fitted.seconds + time.perf_counter() - began)


class Sampled(NamedTuple):
    """Posterior draws of the sides on the standardised features of a fitted head."""

    fitted: Fitted
    draws: list[Layer]

    def predict(self, images: Any) -> np.ndarray:
        head = self.fitted.head.eval()
        with torch.no_grad():
            inputs = head.standardized(features_of(self.fitted.trunk, images, images.device)).double().cpu().numpy()
        return np.mean([head.response.prediction(layer, inputs) for layer in self.draws], axis=0)


def sample(fitted: Fitted, data: Data, settings: Settings, seed: int) -> Sampled:
    """A chain for every side, all given the features."""
    head, sides = fitted.head.eval(), fitted.head.to_layer().sides
    with torch.no_grad():
        inputs = head.standardized(fitted.features).double().cpu().numpy()
    targets = head.response.labelling.targets(data.codes.cpu().numpy())

    def chain(s: int) -> Any:
        width, n_sweeps = sides[s].n_experts, settings.n_sweeps
        chains = ChainSettings(max_experts=width, n_sweeps=n_sweeps, n_burn_in=n_sweeps // 2, n_draws=settings.n_draws)
        rows = make_rows(inputs, targets[:, s], single_events=True)
        return run_chain(rows, chains, seed, (1, s), start=state_from_side(sides[s], width)).draws

    with single_blas_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
        draws = list(pool.map(chain, range(len(sides))))
    return Sampled(fitted, [Layer(tuple(some)) for some in zip(*draws, strict=True)])


def compile_sampler() -> None:
    """Let numba compile the sampler once, so that no cell pays for it."""
    rng = np.random.default_rng(0)
    rows = make_rows(rng.standard_normal((50, 3)), rng.random(50) < 0.5, single_events=True)
    run_chain(rows, ChainSettings(max_experts=2, n_sweeps=2, n_burn_in=1, n_draws=1), 0)


def entropy(probability: np.ndarray) -> np.ndarray:
    return -(probability * np.log(np.maximum(probability, record.SMALLEST))).sum(axis=1)


def scores(members: list[Any], data: Data) -> dict[str, float]:
    """Measures of the average of some models."""
    turned = torch.rot90(data.test_images, 1, (2, 3))
    upright, other = (
        np.mean([one.predict(images) for one in members], axis=0) for images in (data.test_images, turned)
    )
    is_other = np.repeat([0, 1], [len(upright), len(other)])
    area = roc_auc_score(is_other, np.concatenate([entropy(upright), entropy(other)]))
    return {**record.metrics(data.test_codes, upright), "ood_auroc": float(area)}


def cells(data: Data, settings: Settings, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of one set of images and one seed, one after the other."""
    softmax = [train(data, settings, N_MEMBERS * seed + m, "softmax") for m in range(N_MEMBERS)]
    yield "softmax", {**scores(softmax[:1], data), "seconds": softmax[0].seconds}
    alone = [settled(one, data, settings, seed, rate=LEARNING_RATE) for one in softmax]
    yield "softmax_settled", {**scores(alone[:1], data), "seconds": alone[0].seconds}
    yield "ensemble", {**scores(alone, data), "seconds": sum(one.seconds for one in alone)}
    pbdn = settled(train(data, settings, N_MEMBERS * seed, "pbdn"), data, settings, seed)
    size = {"n_experts": pbdn.head.n_experts, "units": sum(pbdn.head.n_experts)}
    yield "pbdn", {**scores([pbdn], data), **size, "seconds": pbdn.seconds}
    began = time.perf_counter()
    drawn = sample(pbdn, data, settings, seed)
    seconds = pbdn.seconds + time.perf_counter() - began
    units = float(np.mean([sum(layer.n_experts) for layer in drawn.draws]))
    yield "pbdn_gibbs", {**scores([drawn], data), "units": units, "seconds": seconds}


def run(options: argparse.Namespace) -> None:
    """All cells, seed after seed, each recorded as soon as it is there."""
    began = time.perf_counter()
    device = torch.device(options.device)
    torch.set_float32_matmul_precision("high")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    plan = QUICK if options.quick else {key: SETTINGS[key] for key in options.data}
    data = {key: load(key, device, 400 if options.quick else None) for key in plan}
    compile_sampler()
    print(f"{name}: ready after {time.perf_counter() - began:.1f} s", flush=True)
    for seed in range(1 if options.quick else options.seeds):
        for key, settings in plan.items():
            if time.perf_counter() - began > options.seconds:
                print(f"{options.seconds} s are over before {key}, seed {seed}", flush=True)
                return
            for method, found in cells(data[key], settings, seed):
                shown = "  ".join(f"{measure} {found[measure]:.4g}" for measure in MEASURES)
                elapsed = time.perf_counter() - began
                print(
                    f"{elapsed:6.1f} s  {key:<7}{seed}  {method:<16}{shown}  units {found.get('units', '-')}",
                    flush=True,
                )
                if not options.quick:
                    line = {"method": method, "data": key, "seed": seed, "config": settings._asdict(), "device": name}
                    record.append(EXPERIMENT, line | found, options.root)


def table(root: Path) -> str:
    """Means over seeds of what is recorded, as Markdown."""
    lines = [
        "| data | method | seeds | error % | log-loss | calibration error | turned: ROC area | experts | seconds |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    found = record.read(EXPERIMENT, root)
    for key in dict.fromkeys(one["data"] for one in found):
        for method in METHODS:
            rows = [one for one in found if one["data"] == key and one["method"] == method]
            if rows:
                error, *others = ([one[measure] for one in rows] for measure in MEASURES)
                units = f"{np.mean([one['units'] for one in rows]):.0f}" if "units" in rows[0] else "–"
                loss, ece, area, seconds = (np.mean(values) for values in others)
                lines.append(
                    f"| {key} | {method} | {len(rows)} | {np.mean(error):.2f} ± {np.std(error):.2f} | {loss:.4f} "
                    f"| {ece:.4f} | {area:.3f} | {units} | {seconds:.1f} |"
                )
    return "\n".join(lines)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no cell begins later")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--root", type=Path, default=record.RESULTS, help="folder of the records")
    options = parser.parse_args()
    if not options.table:
        run(options)
    if not options.quick:
        print(table(options.root))


if __name__ == "__main__":
    main()
