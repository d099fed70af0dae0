"""Settings of MAP for several classes, compared on folds inside the training rows of split 0; test rows are never seen.

    python -m benchmarks.multiclass_settings                            # what is not there yet, then the table
    python -m benchmarks.multiclass_settings --device cuda --jobs 10
    python -m benchmarks.multiclass_settings --settings default --seeds 5   # also averages five networks

Fold f scores rows f, f + 5, f + 10, … of the training rows and fits the others. Every network has two layers and is
scored at both depths. One JSON file per data set and settings.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.multiclass import load, metrics, split_rows
from benchmarks.record import load_results, save_result
from pbdn.growth.map_engine import MapEngine
from pbdn.model.network import Network
from pbdn.scaling import standard_scaling
from pbdn.sgd.config import MapConfig, default_config
from pbdn.sgd.rows import ArraySource

RESULTS = Path(__file__).parent / "results" / "multiclass_settings"
FOLDS = {"digits": 5, "penbased": 3, "satimage": 3, "letter": 1}
DEPTH = 2
N_FOLDS = 5
N_CHECKED = 5000  # fitted rows whose error is measured, at most
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "cauchy": {"coef_shape": 0.5, "coef_rate": 1.0},
    "gauss_0.1": {"coef_shape": 9.5, "coef_rate": 100.0},
    "gauss_0.3": {"coef_shape": 9.5, "coef_rate": 10.0 / 0.3},
    "gauss_1": {"coef_shape": 9.5, "coef_rate": 10.0},
    "averaged": {"coef_shape": 0.5, "coef_rate": 1.0, "schedule": "constant", "average_last": 0.5},
    "batch_25": {"coef_shape": 0.5, "coef_rate": 1.0, "batch_size": 25},
    "steps_48000": {"coef_shape": 0.5, "coef_rate": 1.0, "n_minibatches": 48_000},
    "evidence_28": {"prune_above": 1e-12},
    "evidence_46": {"prune_above": 1e-20},
    "5_experts": {"max_experts": 5},
    "5_experts_evidence_138": {"max_experts": 5, "prune_above": 1e-60},
    "one_per_class": {},
}
"""Changes to the default for several classes. "gauss_p" is near a Gaussian penalty of precision p; "evidence_n" drops an
expert unless the data speak for it with n nats; "one_per_class" has no sides against the classes."""


def config_of(settings: str, n_classes: int, device: str | None) -> MapConfig:
    """The default for so many classes with the changes."""
    return replace(default_config(n_classes), device=device, **SETTINGS[settings])


def fold_scores(name: str, settings: str, fold: int, seed: int, device: str | None) -> dict[str, Any]:
    """Probabilities and sizes of one network at every depth."""
    X, y = load(name)
    train, _ = split_rows(len(y), 0)
    X, y = X[train], y[train]
    scored = np.arange(len(y)) % N_FOLDS == fold
    scaling = standard_scaling(X[~scored])
    rows, others, n_classes = scaling.apply(X[~scored]), scaling.apply(X[scored]), int(y.max()) + 1
    source = ArraySource(rows, y[~scored], classes=np.arange(n_classes), weights=None)
    config = config_of(settings, n_classes, device)
    pairs = settings != "one_per_class"
    n_sides = 2 * n_classes if pairs else n_classes
    engine = MapEngine(source, n_sides, config, 1000 * seed + fold, complements=pairs)
    probabilities, steps = [], []
    for depth in range(1, DEPTH + 1):
        engine.advance(engine.fit_layer(depth).layer)
        network = Network(tuple(engine.layers), X.shape[1], complements=pairs)
        probabilities.append(network.class_probability(others))
        wrong = network.class_probability(rows[:N_CHECKED]).argmax(axis=1) != y[~scored][:N_CHECKED]
        sizes = {
            "train_error": float(100 * wrong.mean()),
            "complexity": network.complexity,
            "units": list(network.n_units),
        }
        steps.append({**metrics(y[scored], probabilities[-1]), **sizes})
    return {"fold": fold, "seed": seed, "y": y[scored], "probabilities": probabilities, "steps": steps}


def compare(name: str, settings: str, n_seeds: int, device: str | None, jobs: int) -> None:
    """Fit all folds and seeds of one data set and write the record."""
    path = RESULTS / f"{name}-{settings}.json"
    if path.exists():
        return
    tasks = [(name, settings, fold, seed, device) for fold in range(FOLDS[name]) for seed in range(n_seeds)]
    found = Parallel(n_jobs=jobs)(delayed(fold_scores)(*task) for task in tasks)
    fits = [{"fold": one["fold"], "seed": one["seed"], "layers": one["steps"]} for one in found]
    record: dict[str, Any] = {"data": name, "settings": settings, "n_seeds": n_seeds, "fits": fits}
    if n_seeds > 1:
        record["average_of_seeds"] = [_score_of_mean(found, depth) for depth in range(DEPTH)]
    config = asdict(config_of(settings, 3, device))
    save_result(path, {"seed": 0, "config": config, **record})
    print(f"{name} {settings}: done", flush=True)


def _score_of_mean(found: list[dict[str, Any]], depth: int) -> dict[str, float]:
    """Scores of probabilities averaged over seeds, averaged over folds."""
    scores = []
    for fold in {one["fold"] for one in found}:
        same = [one for one in found if one["fold"] == fold]
        scores.append(metrics(same[0]["y"], np.mean([one["probabilities"][depth] for one in same], axis=0)))
    return {key: float(np.mean([one[key] for one in scores])) for key in ("error", "log_loss")}


def table() -> str:
    """Means over folds and seeds of two layers, as Markdown."""
    lines = [
        "| data | settings | folds x networks | error % | log-loss | error % on fitted rows | complexity | average of the networks |",
        "|---|---|---|---|---|---|---|---|",
    ]
    records = {(r["data"], r["settings"]): r for r in load_results(RESULTS)}
    for name, n_folds in FOLDS.items():
        for settings in SETTINGS:
            if (name, settings) not in records:
                continue
            record = records[name, settings]
            top = [one["layers"][DEPTH - 1] for one in record["fits"]]
            error, loss, fitted, size = (
                np.mean([one[key] for one in top]) for key in ("error", "log_loss", "train_error", "complexity")
            )
            of_mean = record.get("average_of_seeds", [None] * DEPTH)[DEPTH - 1]
            shown = f"{of_mean['error']:.2f} %, {of_mean['log_loss']:.3f}" if of_mean else ""
            lines.append(
                f"| {name} | {settings} | {n_folds} x {record['n_seeds']} | {error:.2f} | {loss:.3f} | {fitted:.2f} | "
                f"{size:.0f} | {shown} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default=",".join(FOLDS))
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--seeds", type=int, default=1, help="networks per fold")
    parser.add_argument("--device", default=None, help="torch device")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only-table", action="store_true")
    options = parser.parse_args()
    if not options.only_table:
        for name in options.names.split(","):
            for settings in options.settings.split(","):
                compare(name, settings, options.seeds, options.device, options.jobs)
    print(table())


if __name__ == "__main__":
    main()
