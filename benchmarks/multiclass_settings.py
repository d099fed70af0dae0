"""Settings of MAP for several classes, compared on folds inside the training rows of split 0; test rows are never seen.

    python -m benchmarks.multiclass_settings                            # what is not there yet, then the table
    python -m benchmarks.multiclass_settings --device cuda --jobs 10
    python -m benchmarks.multiclass_settings --settings default --seeds 5   # also averages five networks

Fold f scores rows f, f + 5, f + 10, … of the training rows and fits the others. Every network has two layers and is
scored at both depths; "svm" is the paper's SVM on the same folds. One JSON file per data set and settings.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.multiclass import fit_rival, load, metrics, split_rows
from benchmarks.record import load_results, save_result
from pbdn.data.source import ArraySource
from pbdn.growth.map_engine import MapEngine
from pbdn.model.network import Network
from pbdn.model.pooling import SMALLEST_CHANCE
from pbdn.model.scaling import standard_scaling
from pbdn.sgd.config import MapConfig, default_config
from pbdn.sgd.polish import polish

RESULTS = Path(__file__).parent / "results" / "multiclass_settings"
FOLDS = {"wine": 5, "digits": 5, "penbased": 3, "satimage": 3, "letter": 1}
DEPTH = 2
SVM = "svm"
COLUMNS = {"error": 2, "log_loss": 3, "normalised": 3, "odds": 3, "train_error": 2, "complexity": 0}
"""Of the table, with their digits."""
N_FOLDS = 5
N_CHECKED = 5000  # fitted rows whose error is measured, at most
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "cauchy": {"coef_shape": 0.5, "coef_rate": 1.0},
    "gauss_0.1": {"coef_shape": 9.5, "coef_rate": 100.0},
    "gauss_0.3": {"coef_shape": 9.5, "coef_rate": 10.0 / 0.3},
    "gauss_1": {"coef_shape": 9.5, "coef_rate": 10.0},
    "gauss_3": {"coef_shape": 9.5, "coef_rate": 10.0 / 3.0},
    "wide": {"prior_on": "log_weight"},
    "wide_5": {"prior_on": "log_weight", "max_experts": 5},
    "wide_3": {"prior_on": "log_weight", "max_experts": 3},
    "40_experts": {"max_experts": 40},
    "averaged": {"coef_shape": 0.5, "coef_rate": 1.0, "schedule": "constant", "average_last": 0.5},
    "batch_25": {"coef_shape": 0.5, "coef_rate": 1.0, "batch_size": 25},
    "steps_48000": {"coef_shape": 0.5, "coef_rate": 1.0, "n_minibatches": 48_000},
    "evidence_28": {"prune_above": 1e-12},
    "evidence_46": {"prune_above": 1e-20},
    "5_experts": {"max_experts": 5},
    "5_experts_evidence_138": {"max_experts": 5, "prune_above": 1e-60},
    "one_per_class": {},
    "squared_norm": {},
    "polished": {},
}
"""Changes to the default for several classes. "gauss_p" is near a Gaussian penalty of precision p; "evidence_n" drops an
expert unless the data speak for it with n nats; "wide" maximises over ln r, which drops few experts (wide_n: of n a side);
"one_per_class" has no sides against the classes; "squared_norm" adds the squared length of a row to its features, which
makes half-spaces balls; "polished" tunes the layers of the default together, all others are as grown."""


def config_of(settings: str, n_classes: int, device: str | None) -> MapConfig:
    """The default for so many classes with the changes."""
    return replace(default_config(n_classes), device=device, **SETTINGS[settings])


def fold_rows(name: str, fold: int) -> tuple[Any, Any, Any]:
    """Features and codes of the training rows of split 0, and which of them the fold scores."""
    X, y = load(name)
    train, _ = split_rows(len(y), 0)
    return X[train], y[train], np.arange(train.size) % N_FOLDS == fold


def fold_scores(name: str, settings: str, fold: int, seed: int, device: str | None) -> dict[str, Any]:
    """Probabilities and sizes of one network at every depth."""
    X, y, scored = fold_rows(name, fold)
    if settings == "squared_norm":
        X = np.column_stack([X, (standard_scaling(X[~scored]).apply(X) ** 2).mean(axis=1)])
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
        layers = tuple(engine.layers)
        if settings == "polished" and depth > 1:
            tuned = polish(layers, rows, y[~scored], None, config=config, seed=engine.seed, complements=pairs)
            layers = layers if tuned is None else tuned
        network = Network(layers, X.shape[1], complements=pairs)
        probabilities.append(network.class_probability(others))
        wrong = network.class_probability(rows[:N_CHECKED]).argmax(axis=1) != y[~scored][:N_CHECKED]
        sizes = {
            "other_poolings": _other_poolings(y[scored], network.top.side_rate(network.top_inputs(others)), pairs),
            "train_error": float(100 * wrong.mean()),
            "complexity": network.complexity,
            "units": list(network.n_units),
        }
        steps.append({**metrics(y[scored], probabilities[-1]), **sizes})
    return {"fold": fold, "seed": seed, "y": y[scored], "probabilities": probabilities, "steps": steps}


def svm_scores(name: str, fold: int) -> dict[str, Any]:
    """The paper's SVM, tuned on the rows of the fold's fit."""
    X, y, scored = fold_rows(name, fold)
    return {"fold": fold, "seed": fold, "steps": [fit_rival(SVM, X[~scored], y[~scored], X[scored], y[scored], fold)]}


def _other_poolings(y: Any, side_rate: Any, pairs: bool) -> dict[str, float]:
    """Log-loss where the pairs' answers q are only normalised, and where the odds q / (1 - q) are."""
    if not pairs:
        return {}
    own, against = np.split(side_rate, 2, axis=1)
    yes, no = np.exp(-against) - np.expm1(-own), np.exp(-own) - np.expm1(-against)
    ways = {"normalised": yes, "odds": yes / np.maximum(no, SMALLEST_CHANCE)}
    return {way: metrics(y, values / values.sum(axis=1, keepdims=True))["log_loss"] for way, values in ways.items()}


def compare(name: str, settings: str, n_seeds: int, device: str | None, jobs: int) -> None:
    """Fit all folds and seeds of one data set and write the record."""
    path = RESULTS / f"{name}-{settings}.json"
    if path.exists():
        return
    if settings == SVM:
        found = Parallel(n_jobs=jobs)(delayed(svm_scores)(name, fold) for fold in range(FOLDS[name]))
        fits = [{"fold": one["fold"], "seed": one["seed"], "layers": one["steps"]} for one in found]
        save_result(path, {"seed": 0, "config": {}, "data": name, "settings": SVM, "n_seeds": 1, "fits": fits})
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
    """Means over folds and seeds, as Markdown: one layer, then two; log-loss as pooled and by the other poolings."""
    lines = [
        "| data | settings | folds x networks | error % | log-loss | normalised | odds | error % on fitted rows | complexity "
        "| average of the networks |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    records = {(r["data"], r["settings"]): r for r in load_results(RESULTS)}
    for name, n_folds in FOLDS.items():
        for settings in (SVM, *SETTINGS):
            if (name, settings) not in records:
                continue
            record = records[name, settings]
            depths = list(zip(*(one["layers"] for one in record["fits"]), strict=True))
            cells = [_means(depths, key, digits) for key, digits in COLUMNS.items()]
            of_mean = record.get("average_of_seeds", [None])[-1]
            cells.append(f"{of_mean['error']:.2f} %, {of_mean['log_loss']:.3f}" if of_mean else "")
            lines.append(f"| {name} | {settings} | {n_folds} x {record['n_seeds']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _means(depths: list[Any], key: str, digits: int) -> str:
    """Mean of a figure at every depth, or nothing where it was not measured."""
    flat = [[{**one, **one.get("other_poolings", {})} for one in steps] for steps in depths]
    return ", ".join(f"{np.mean([one[key] for one in steps]):.{digits}f}" for steps in flat if key in steps[0])


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default=",".join(FOLDS))
    parser.add_argument("--settings", default=",".join((SVM, *SETTINGS)))
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
