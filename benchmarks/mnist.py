"""MNIST, all ten digits, by MAP: error, size and seconds beside an MLP 128-64 trained on as many minibatches.

    python -m benchmarks.mnist                    # fit both, write the record, save the model under out/
    python -m benchmarks.mnist --device cuda
    python -m benchmarks.mnist --report           # out/mnist.html from the saved model: pictures of the subtypes per digit

    python -m benchmarks.mnist --minibatches 4000 --max-experts 5 --max-depth 2 --criterion aic_eps   # minutes, one core

Pixels stay in [0, 1]. By default the depth is found on every fifth training row; test rows are used once, at the end.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import benchmarks  # noqa: F401  (finds the data)
from benchmarks import record, speed_tables
from benchmarks.record import metrics, timed
from pbdn import PBDNClassifier
from pbdn.config import MapConfig
from pbdn.datasets import load_mnist
from pbdn.sgd.polish import MOST_STEPS

OUT = Path("out")
IMAGE = (28, 28)


def fit_mlp(X: Any, y: Any, X_test: Any, y_test: Any, n_minibatches: int, batch_size: int, seed: int) -> dict[str, Any]:
    """Scores of the MLP after as many Adam steps on batches of the same size as the network's layers and polish took."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    epochs = round(n_minibatches * batch_size / len(y))
    with warnings.catch_warnings(), timed() as spent:
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MLPClassifier(
            (128, 64), batch_size=batch_size, max_iter=epochs, n_iter_no_change=epochs, random_state=seed
        )
        model.fit(X, y)
    n_weights = sum(w.size for w in (*model.coefs_, *model.intercepts_))
    return {**metrics(y_test, model.predict_proba(X_test)), **spent, "epochs": epochs, "n_weights": int(n_weights)}


def fit(device: str | None, seed: int, max_depth: int, max_experts: int, n_minibatches: int, criterion: str) -> None:
    """Fit both and write the record."""
    X, y, X_test, y_test = load_mnist().split(0)
    settings: dict[str, Any] = {
        "inference": "map",
        "standardize": False,
        "max_depth": max_depth,
        "max_experts": max_experts,
        "criterion": criterion,
    }
    config = MapConfig(device=device, n_minibatches=n_minibatches)
    with warnings.catch_warnings(), timed() as spent:
        warnings.simplefilter("ignore")  # a depth limit that was reached shows in the record
        model = PBDNClassifier(map_config=config, random_state=seed, **settings).fit(X, y)
    polished = any(step["polished"] for step in model.criterion_path_)
    scores = {
        **metrics(y_test, model.predict_proba(X_test)),
        "units": [sum(experts) for experts in model.n_experts_],
        "depth": model.depth_,
        "complexity": model.complexity_,
        "n_weights": model.n_weights_,
        "polished": polished,
        **spent,
    }
    OUT.mkdir(exist_ok=True)
    model.save(OUT / "mnist.pbdn")
    n_steps = n_minibatches * model.depth_ + min(n_minibatches, MOST_STEPS) * polished
    mlp = fit_mlp(X, y, X_test, y_test, n_steps, model.config_.map.batch_size, seed)
    told = {**settings, "map_config": {"device": device, "n_minibatches": n_minibatches}}
    record.append("speed", {"method": "mnist", "seed": seed, "config": told, "map": scores, "mlp": mlp})
    print(speed_tables.mnist())


def report() -> None:
    """The report of the saved model on test digits, with a picture per expert."""
    model = PBDNClassifier.load(OUT / "mnist.pbdn")
    _, _, X, y = load_mnist().split(0)
    page = model.report(X, y, OUT / "mnist.html", source="MNIST, test digits", target="the digit", image_shape=IMAGE)
    n_pictures = page.count("<img ")
    print(f"{OUT / 'mnist.html'}: {n_pictures} pictures of subtypes, {len(page) / 1e6:.1f} MB")


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-depth", type=int, default=3)
    parser.add_argument("--max-experts", type=int, default=20)
    parser.add_argument("--minibatches", type=int, default=16_000)
    parser.add_argument("--criterion", default="auto")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if options.report:
        report()
    else:
        fit(
            options.device,
            options.seed,
            options.max_depth,
            options.max_experts,
            options.minibatches,
            options.criterion,
        )


if __name__ == "__main__":
    main()
