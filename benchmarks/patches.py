"""Experts on patches beside experts on whole pictures: pairs of MNIST digits, small, on a CPU.

    python -m benchmarks.patches                 # four pairs, 400 training pictures of the paper's first split; ten minutes
    python -m benchmarks.patches --table         # what the records say
    python -m benchmarks.patches --picture out   # patches of every expert as out/3v5.png …

Methods, all with one layer: "plain" is `PBDNClassifier` by MAP on pixels; "patches" and "patches_gibbs" are
`pbdn.experimental.PatchPBDNClassifier` by MAP, and the average of posterior draws of chains that start there. Patch and stride were
chosen on training pictures of 3v5 that are no part of this. Test rows are used once.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks  # noqa: F401  (finds the data)
from benchmarks import record
from benchmarks.data_and_methods import PAIRS
from pbdn import GibbsConfig, PBDNClassifier
from pbdn.datasets import load_mnist_pair
from pbdn.experimental import PatchPBDNClassifier

EXPERIMENT = "images"
N_TEST, IMAGE = 2000, (28, 28)
METHODS = ("plain", "patches", "patches_gibbs")


def load(pair: str, n_rows: int) -> tuple[np.ndarray, ...]:
    """Pictures and labels of the first split, shuffled once."""
    X, y, X_test, y_test = load_mnist_pair(int(pair[0]), int(pair[2]), "paper").split(0)
    rng = np.random.default_rng(0)
    train, test = rng.permutation(len(y))[:n_rows], rng.permutation(len(y_test))[:N_TEST]
    return X[train], y[train], X_test[test], y_test[test]


def model(method: str, n_sweeps: int, seed: int) -> Any:
    """An estimator that is not fitted."""
    if method == "plain":
        options = {"inference": "map", "criterion": "aic_inputs", "standardize": False}
        return PBDNClassifier(max_depth=1, max_experts=10, random_state=seed, **options)
    chains = GibbsConfig(n_sweeps=n_sweeps, n_draws=n_sweeps // 2)
    inference = "map+gibbs" if method == "patches_gibbs" else "map"
    return PatchPBDNClassifier(max_depth=1, inference=inference, gibbs_config=chains, random_state=seed)


def run(options: argparse.Namespace) -> None:
    """All cells, each recorded as soon as it is there."""
    for method in METHODS:
        for pair in options.data:
            X, y, X_test, y_test = load(pair, options.rows)
            one = model(method, options.sweeps, 0)
            shape = (-1, *IMAGE) if method != "plain" else X.shape
            with warnings.catch_warnings(), record.timed() as spent:
                warnings.simplefilter("ignore")
                one.fit(X.reshape(shape), y)
            found = record.metrics(y_test, one.predict_proba(X_test.reshape(-1, *shape[1:])))
            sides = one.layer_.sides if method != "plain" else one.network_.layers[0].sides
            size = {"units": sum(side.n_experts for side in sides), "n_weights": sum(s.hyperplanes.size for s in sides)}
            config = {"rows": options.rows, "sweeps": options.sweeps}
            line = {"method": method, "data": pair, "seed": 0, "config": config, **found, **size, **spent}
            record.append(EXPERIMENT, line, options.root)
            print(
                f"{pair} {method:<14} error {found['error']:.2f}  units {size['units']}  {spent['seconds']:.0f} s",
                flush=True,
            )


def pictures(options: argparse.Namespace) -> None:
    """A picture per pair: the mean of the patches that each expert votes for, then those that it votes most for."""
    import matplotlib

    matplotlib.use("Agg")
    options.picture.mkdir(parents=True, exist_ok=True)
    for pair in options.data:
        X, y, X_test, _ = load(pair, options.rows)
        fitted = model("patches", options.sweeps, 0).fit(X.reshape(-1, *IMAGE), np.where(y, pair[2], pair[0]))
        display = fitted.expert_patches(X_test[:200].reshape(-1, *IMAGE), n_nearest=8)
        display.figure_.savefig(options.picture / f"{pair}.png", dpi=150, bbox_inches="tight")


def table(root: Path = record.RESULTS) -> str:
    """What is recorded, as Markdown."""
    lines = [
        "| digits | method | error % | log-loss | experts | coefficients |",
        "|---|---|---|---|---|---|",
    ]
    found = [one for one in record.read(EXPERIMENT, root) if one["method"] in METHODS]
    for one in sorted(found, key=lambda one: (one["data"], METHODS.index(one["method"]))):
        lines.append(
            f"| {one['data']} | {one['method']} | {one['error']:.2f} | {one['log_loss']:.3f} | {one['units']} | {one['n_weights']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(PAIRS), choices=PAIRS)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--sweeps", type=int, default=40)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--picture", type=Path, help="folder for pictures of the experts")
    parser.add_argument("--root", type=Path, default=record.RESULTS, help="folder of the records")
    options = parser.parse_args()
    if options.picture:
        pictures(options)
        return
    if not options.table:
        run(options)
    print(table(options.root), end="")


if __name__ == "__main__":
    main()
