"""Why the RBF SVM is ahead on penbased: the kernel, the width, or the training of networks of half-spaces?

    python -m benchmarks.half_spaces

Error in five folds of the training rows of split 0, test rows unseen, of SVMs with the RBF kernel and with the kernels of
infinitely wide networks of half-spaces (arc-cosine kernels, Cho & Saul 2009), one against one and one against the rest,
and of MLPs, plain, with weight decay, and on rows with the noise of `pbdn.sgd.polish`, beside PBDNs.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from benchmarks.multiclass_settings import N_FOLDS, fold_rows
from benchmarks.record import save_result
from pbdn import PBDNClassifier
from pbdn.model.scaling import standard_scaling
from pbdn.sgd.config import default_config
from pbdn.sgd.polish import neighbour_noise

RESULT = Path(__file__).parent / "results" / "half_spaces.json"
DATA, N_CLASSES = "penbased", 10
EPOCHS = 100
NOISY_COPIES = 10  # of every row, in a tenth of the epochs


def network_kernel(rows: Any, others: Any, n_layers: int) -> Any:
    """k(x, z) of an infinitely wide network of ReLU layers with Gaussian weights; the bias is an input of 1."""
    left, right = (np.column_stack([one, np.ones(len(one))]) for one in (rows, others))
    lengths = np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1))
    cosine = np.clip(left @ right.T / lengths, -1.0, 1.0)
    for _ in range(n_layers):
        angle = np.arccos(cosine)
        cosine = np.clip((np.sin(angle) + (np.pi - angle) * cosine) / np.pi, -1.0, 1.0)
    return lengths * cosine


def kernel_of(n_layers: int) -> Callable[[Any, Any], Any]:
    """The kernel as scikit-learn takes it."""
    return lambda rows, others: network_kernel(rows, others, n_layers)


def mlp(seed: int, units: tuple[int, ...], decay: float = 1e-4, epochs: int = EPOCHS) -> MLPClassifier:
    """An MLP trained to the end."""
    return MLPClassifier(units, alpha=decay, max_iter=epochs, n_iter_no_change=epochs, random_state=seed)


def pbdn(seed: int, polish: bool) -> PBDNClassifier:
    """MAP with the default settings, or without a polish."""
    return PBDNClassifier(
        inference="map", map_config=replace(default_config(N_CLASSES), polish=polish), random_state=seed
    )


MODELS: dict[str, Callable[[int], Any]] = {
    "SVM, RBF, C=2, γ=1/8": lambda seed: SVC(C=2, gamma=1 / 8),
    "SVM, RBF, C=8, γ=1/8": lambda seed: SVC(C=8, gamma=1 / 8),
    "SVM, RBF, C=8, γ=1/16": lambda seed: SVC(C=8, gamma=1 / 16),
    "SVM, RBF, C=32, γ=1/32": lambda seed: SVC(C=32, gamma=1 / 32),
    "SVM, RBF, C=8, γ=1/8, one against the rest": lambda seed: OneVsRestClassifier(SVC(C=8, gamma=1 / 8)),
    "SVM, infinite one-layer network, C=1": lambda seed: SVC(C=1, kernel=kernel_of(1)),
    "SVM, infinite one-layer network, C=10": lambda seed: SVC(C=10, kernel=kernel_of(1)),
    "SVM, infinite two-layer network, C=1": lambda seed: SVC(C=1, kernel=kernel_of(2)),
    "SVM, infinite one-layer network, C=1, one against the rest": lambda seed: OneVsRestClassifier(
        SVC(C=1, kernel=kernel_of(1))
    ),
    "MLP 128-64": lambda seed: mlp(seed, (128, 64)),
    "MLP 256": lambda seed: mlp(seed, (256,)),
    "MLP 256, decay 0.1": lambda seed: mlp(seed, (256,), 0.1),
    "MLP 256-256, decay 0.1": lambda seed: mlp(seed, (256, 256), 0.1),
    "MLP 256, noise": lambda seed: mlp(seed, (256,), epochs=EPOCHS // NOISY_COPIES),
    "PBDN, as grown": lambda seed: pbdn(seed, False),
    "PBDN": lambda seed: pbdn(seed, True),
}


def fold_error(model: Any, fold: int, noisy: bool) -> float:
    """Error in percent on the rows of one fold."""
    X, y, scored = fold_rows(DATA, fold)
    scaling = standard_scaling(X[~scored])
    rows, codes = scaling.apply(X[~scored]), y[~scored]
    if noisy:
        rng = np.random.default_rng(fold)
        noise = neighbour_noise(rows, rng)
        rows, codes = np.tile(rows, (NOISY_COPIES, 1)), np.tile(codes, NOISY_COPIES)
        rows = rows + noise * rng.standard_normal(rows.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, codes)
    return float(100 * np.mean(model.predict(scaling.apply(X[scored])) != y[scored]))


def main() -> None:
    """Fit, print and record."""
    results = {}
    print("| model | error % |\n|---|---|")
    for name, make in MODELS.items():
        results[name] = [fold_error(make(fold), fold, "noise" in name) for fold in range(N_FOLDS)]
        print(f"| {name} | {np.mean(results[name]):.2f} |", flush=True)
    save_result(RESULT, {"seed": 0, "config": {"data": DATA, "folds": N_FOLDS, "epochs": EPOCHS}, "error": results})


if __name__ == "__main__":
    main()
