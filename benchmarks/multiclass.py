"""Several classes: error, log-loss, calibration, size and seconds beside an SVM, LightGBM and an MLP.

    python -m benchmarks.quality --data multiclass                 # everything that is not there yet, then the table
    python -m benchmarks.quality --data multiclass --methods map   # one method
    python -m benchmarks.multiclass --methods map --device cuda --jobs 8

Satimage, penbased and letter, scikit-learn's digits and wine; split j trains on 70 % of the rows, chosen by seed j.
Every fit is one JSON file; finished ones are not run again. `benchmarks.multiclass_settings` compares settings of MAP
without test rows.
"""

import argparse
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import benchmarks  # noqa: F401  (finds the data)
from benchmarks.record import load_results, save_result
from benchmarks.rivals import make_rival
from pbdn import PBDNClassifier
from pbdn.datasets import load_extra
from pbdn.model.scaling import standard_scaling
from pbdn.sgd.config import default_config

RESULTS = Path(__file__).parent / "results" / "quality"
DATA = ("wine", "digits", "satimage", "penbased", "letter")
RIVALS = {"svm": "svm", "lightgbm": "lightgbm", "mlp": "mlp_early_stopping"}
OPTIMISED: dict[str, dict[str, Any]] = {
    "map": {},
    "map_as_grown": {"polish": False},
    "map_5_experts": {"max_experts": 5},
    "map_wide": {"prior_on": "log_weight", "polish": False},
}
"""Changes to the default settings of MAP; "wide" drops few experts."""
LONG = {"n_sweeps": 4000, "n_burn_in": 2000}
SAMPLED: dict[str, dict[str, Any]] = {
    "gibbs": {"inference": "map+gibbs", "prediction": "posterior"},
    "gibbs_one_layer": {"inference": "gibbs", "prediction": "posterior", "max_depth": 1},
    "gibbs_one_layer_4000": {"inference": "gibbs", "prediction": "posterior", "max_depth": 1, **LONG},
    "race": {"inference": "gibbs", "prediction": "posterior", "max_depth": 1, "head": "race"},
}
METHODS = (*OPTIMISED, *SAMPLED, *RIVALS)
WHOLE_GRID_ROWS = 2000  # up to so many training rows the SVM searches the paper's whole grid, else the quick profile


def load(name: str) -> tuple[Any, Any]:
    """Features and class codes 0, 1, …"""
    if name in ("digits", "wine"):
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    else:
        data = load_extra(name)
        X, y = data.X, data.y
    return np.asarray(X, dtype=float), np.unique(y, return_inverse=True)[1]


def split_rows(n_rows: int, split: int) -> tuple[Any, Any]:
    """Rows to fit and rows to score: 70 % against 30 %."""
    order = np.random.default_rng([split, n_rows]).permutation(n_rows)
    n_train = int(0.7 * n_rows)
    return order[:n_train], order[n_train:]


def metrics(y: Any, probability: Any) -> dict[str, float]:
    """Error in percent, log-loss, Brier score (sum over classes) and calibration error of the top class (10 bins)."""
    best, top = probability.argmax(axis=1), probability.max(axis=1)
    onehot = np.arange(probability.shape[1]) == y[:, None]
    bins = np.minimum((top * 10).astype(int), 9)
    hit = best == y
    gaps = [abs(top[bins == b].mean() - hit[bins == b].mean()) * np.mean(bins == b) for b in np.unique(bins)]
    return {
        "error": float(100 * np.mean(~hit)),
        "log_loss": float(-np.log(np.maximum(probability[np.arange(len(y)), y], 1e-15)).mean()),
        "brier": float(((probability - onehot) ** 2).sum(axis=1).mean()),
        "ece": float(sum(gaps)),
    }


def network_scores(model: PBDNClassifier, X: Any, y: Any) -> dict[str, Any]:
    """Scores and sizes of a fitted network."""
    return {
        **metrics(y, model.predict_proba(X)),
        "units": [sum(experts) for experts in model.n_experts_],
        "depth": model.depth_,
        "complexity": model.complexity_,
        "n_weights": model.n_weights_,
        "path": [(step["criterion"], step["log_likelihood"], step["kept"]) for step in model.criterion_path_],
        "polished": any(step["polished"] for step in model.criterion_path_),
    }


def fit_network(settings: dict[str, Any], X: Any, y: Any, seed: int) -> tuple[PBDNClassifier, dict[str, float]]:
    """A fitted network and its seconds (elapsed, and of the processor)."""
    elapsed, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # depth limit and short chains: both are in the record
        model = PBDNClassifier(random_state=seed, **settings).fit(X, y)
    spent = {"seconds": time.perf_counter() - elapsed, "cpu_seconds": time.process_time() - processor}
    return model, spent


def fit_rival(name: str, X: Any, y: Any, X_test: Any, y_test: Any, seed: int) -> dict[str, Any]:
    """Scores of a rival on standardised features."""
    scaling = standard_scaling(X)
    scaled, scaled_test = scaling.apply(X), scaling.apply(X_test)
    quick = name == "svm" and len(y) > WHOLE_GRID_ROWS
    began = time.perf_counter(), time.process_time()
    rival = make_rival(RIVALS[name], quick=quick).fit(scaled, y, seed)
    spent = {"seconds": time.perf_counter() - began[0], "cpu_seconds": time.process_time() - began[1]}
    if name == "svm":
        model = rival.model_  # type: ignore[attr-defined]
        error = {"error": float(100 * np.mean(model.predict(scaled_test) != y_test))}
        return {**error, **spent, "complexity": rival.complexity, "chosen": rival.chosen, "quick": quick}
    scores: dict[str, Any] = {**metrics(y_test, rival.predict_proba(scaled_test)), **spent}
    if name == "mlp":
        n_features, n_classes = X.shape[1], int(y.max()) + 1
        weights = (n_features + 1) * 128 + 129 * 64 + 65 * n_classes
        scores["complexity"] = weights / (n_features + 1)
    return scores


def one_fit(method: str, name: str, split: int, device: str | None = None, n_sweeps: int = 1000) -> None:
    """Fit one split by one method and write the record."""
    path = RESULTS / f"multiclass-{method}" / f"{name}-{split}.json"
    if path.exists():
        return
    X, y = load(name)
    train, test = split_rows(len(y), split)
    settings: dict[str, Any] = {}
    if method in RIVALS:
        scores = fit_rival(method, X[train], y[train], X[test], y[test], split)
    else:
        if method in SAMPLED:
            settings = {"n_sweeps": n_sweeps, "n_burn_in": n_sweeps // 2, **SAMPLED[method]}
        else:
            config = replace(default_config(int(y.max()) + 1), device=device, **OPTIMISED[method])
            settings = {"inference": "map", "map_config": config, "max_experts": config.max_experts}
        model, spent = fit_network(settings, X[train], y[train], split)
        scores = {**network_scores(model, X[test], y[test]), **spent}
    told = {"method": method, **{key: _plain(value) for key, value in settings.items()}}
    save_result(path, {"data": name, "split": split, "seed": split, "config": told, **scores})
    shown = f"log-loss {scores['log_loss']:.3f}, " if "log_loss" in scores else ""
    print(f"{method} {name} {split}: error {scores['error']:.2f} %, {shown}{scores['seconds']:.0f} s", flush=True)


def _plain(value: Any) -> Any:
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


def table(n_splits: int) -> str:
    """The records of the first splits as a Markdown table, with the ratios the targets speak of."""
    lines = [
        "| data | method | splits | error % | over SVM's | log-loss | Brier | ECE | units | complexity | s (CPU) |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    records = {
        method: [r for r in load_results(RESULTS / f"multiclass-{method}") if r["split"] < n_splits]
        for method in METHODS
    }
    for name in DATA:
        svm = {r["split"]: r["error"] for r in records["svm"] if r["data"] == name}
        for method in METHODS:
            mine = [r for r in records[method] if r["data"] == name]
            if not mine:
                continue
            error = np.array([r["error"] for r in mine])
            base = [svm[r["split"]] for r in mine if r["split"] in svm]
            ratio = f"{error.mean() / np.mean(base):.2f}" if len(base) == len(mine) and np.mean(base) > 0 else ""
            units = "-".join(f"{k:.0f}" for k in _layer_means(mine)) if "units" in mine[0] else ""
            lines.append(
                f"| {name} | {method} | {len(mine)} | {error.mean():.2f} ± {error.std():.2f} | {ratio} | "
                f"{_mean(mine, 'log_loss', 3)} | {_mean(mine, 'brier', 3)} | {_mean(mine, 'ece', 3)} | {units} | "
                f"{_mean(mine, 'complexity', 0)} | {_mean(mine, 'cpu_seconds', 1)} |"
            )
    return "\n".join(lines)


def _mean(records: list[dict[str, Any]], key: str, digits: int) -> str:
    return f"{np.mean([r[key] for r in records]):.{digits}f}" if key in records[0] else ""


def _layer_means(records: list[dict[str, Any]]) -> list[float]:
    """Mean units of layer 1, 2, … over the records that have it."""
    deepest = max(len(r["units"]) for r in records)
    return [float(np.mean([r["units"][t] for r in records if t < len(r["units"])])) for t in range(deepest)]


def main(arguments: list[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(("map", "gibbs", *RIVALS)), help=", ".join(METHODS))
    parser.add_argument("--names", default=",".join(DATA))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only-table", action="store_true")
    parser.add_argument("--sweeps", type=int, default=1000, help="Gibbs sweeps per layer, half of them burn-in")
    parser.add_argument("--device", default=None, help="torch device of the MAP fits")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    names = options.names.split(",")
    methods = options.methods.split(",")
    tasks = [
        (method, name, split, options.device, options.sweeps)
        for split in range(options.splits)
        for method in methods
        for name in names
    ]
    if not options.only_table:
        Parallel(n_jobs=options.jobs)(delayed(one_fit)(*task) for task in tasks)
    print(table(options.splits))


if __name__ == "__main__":
    main()
