"""Error, log-loss, calibration, size and seconds on real data, beside the paper's figures.

    python -m benchmarks.quality --data ida --splits 10                     # the defaults
    python -m benchmarks.quality --data ida --inference gibbs --n-sweeps 5000 --n-paths 0 --sampler counts --pruning paper \
        --mass 0.01 0.01 --coef-shape 1e-6 --precision-floor 1e-3 --record whole_chain    # the paper's code
    python -m benchmarks.quality --data all --inference map

Every fit is one JSON file under benchmarks/results/quality; finished ones are not run again. One growth serves all
criteria and predictions: layers are added until every criterion has risen once.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import benchmarks  # noqa: F401  (finds the data)
from benchmarks.paper_values import ERROR
from benchmarks.record import load_results, save_result
from pbdn.datasets import load_a9a, load_ida, load_ijcnn1
from pbdn.fitting import FitPlan, grow_paths, make_engine
from pbdn.gibbs.chain import ChainSettings
from pbdn.growth.gibbs_engine import StopSignal
from pbdn.growth.grow import LayerFit, grow
from pbdn.growth.progress import ProgressBar
from pbdn.model.criteria import CRITERIA
from pbdn.model.network import Layer, Network
from pbdn.model.priors import Hyperpriors
from pbdn.model.scaling import standard_scaling
from pbdn.sgd.config import PAPER, PUBLISHED, MapConfig

RESULTS = Path(__file__).parent / "results" / "quality"
IDA = ("banana", "breast_cancer", "titanic", "waveform", "german", "image")
RULES = ("aic", "aic_eps", "aic_inputs", "bic")


def metrics(y: Any, p: Any) -> dict[str, float]:
    """Error in percent, log-loss, Brier score and expected calibration error (10 equal-width bins) of P(y=1)."""
    y = np.asarray(y, dtype=float)
    clipped = np.clip(p, 1e-12, 1 - 1e-12)
    bins = np.minimum((p * 10).astype(int), 9)
    gaps = [abs(p[bins == b].mean() - y[bins == b].mean()) * np.mean(bins == b) for b in np.unique(bins)]
    return {
        "error": float(100 * np.mean((p > 0.5) != (y == 1))),
        "log_loss": float(-np.mean(y * np.log(clipped) + (1 - y) * np.log1p(-clipped))),
        "brier": float(np.mean((p - y) ** 2)),
        "ece": float(sum(gaps)),
    }


def load(name: str) -> Any:
    return {"ijcnn1": load_ijcnn1, "a9a": load_a9a}[name]() if name in ("ijcnn1", "a9a") else load_ida(name)


def one_fit(folder: Path, name: str, split: int, config: dict[str, Any]) -> None:
    """Fit one split and write its record."""
    path = folder / f"{name}-{split}.json"
    if path.exists():
        return
    X, y, X_test, y_test = load(name).split(split)
    record, _ = fit_rows(X, y, X_test, y_test, config, config["seed"] + split)
    save_result(path, {"data": name, "split": split, **record})


def fit_rows(
    X: Any, y: Any, X_test: Any, y_test: Any, config: dict[str, Any], seed: int
) -> tuple[dict[str, Any], tuple[LayerFit, ...]]:
    """Grow on the training rows: a record of every depth and of the depth each rule takes, and the layers.

    Growth goes on until every rule has risen once, and at least to ``config["min_depth"]`` (1 if absent), so that each depth up
    to there is a prefix of one run. ``config["standardize"]`` (True if absent) scales the features.
    """
    plan = make_plan(y, config, seed)
    scaling = standard_scaling(X)
    scaled, scaled_test = (scaling.apply(X), scaling.apply(X_test)) if config.get("standardize", True) else (X, X_test)
    began, began_cpu = time.perf_counter(), time.process_time()
    growth = grow(make_engine(scaled, plan, StopSignal(), None, ProgressBar(False)), plan.criterion, plan.max_depth)
    record: dict[str, Any] = {
        "seed": seed,
        "config": config,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "depths": [
            depth_entry(growth.fits[:depth], scaled_test, y_test, X.shape[0])
            for depth in range(1, len(growth.fits) + 1)
        ],
        "chosen": {},
    }
    for rule in RULES:
        values = [entry["criteria"][rule] for entry in record["depths"]]
        rises = [t for t in range(1, len(values)) if not values[t] < values[t - 1]]
        record["chosen"][rule] = rises[0] if rises else len(values)
    deepest = max(record["chosen"].values())
    if plan.n_paths and plan.inference != "map":
        began_cpu = time.process_time()
        paths = grow_paths(scaled, plan, StopSignal(), None, ProgressBar(False), deepest)
        record["paths_cpu_seconds"] = time.process_time() - began_cpu
        for depth in range(1, deepest + 1):
            networks = [network_of(fits[:depth], scaled.shape[1]) for fits in paths]
            p = np.mean([network.mean_class_probability(scaled_test) for network in networks], axis=0)[:, 1]
            record["depths"][depth - 1]["paths"] = metrics(y_test, p)
    return record, growth.fits


def network_of(fits: Sequence[LayerFit], n_features: int) -> Network:
    """The network of these layers, with draws on the top one."""
    return Network((*(Layer(fit.layer.sides) for fit in fits[:-1]), fits[-1].layer), n_features)


def make_plan(y: Any, config: dict[str, Any], seed: int) -> FitPlan:
    """The library's plan for a configuration of this benchmark."""
    min_depth = config.get("min_depth", 1)

    def deep_enough(layers: Sequence[Layer], log_likelihood: float, n_rows: int) -> float:
        """Falls until ``min_depth`` and rises there: growth does not stop earlier."""
        return -float(len(layers)) if len(layers) < min_depth else 0.0

    chain = ChainSettings(
        sampler=config["sampler"],
        max_experts=config["max_experts"],
        n_sweeps=config["n_sweeps"],
        n_burn_in=config["n_sweeps"] // 2,
        n_draws=config["n_draws"],
        pruning=config["pruning"],
        record=config["record"],
        priors=Hyperpriors(
            precision_floor=config["precision_floor"],
            mass_shape=config["mass"][0],
            mass_rate=config["mass"][1],
            coef_shape=config["coef_shape"],
        ),
    )
    return FitPlan(
        inference=config["inference"],
        codes=np.asarray(y, dtype=np.int64),
        n_sides=2,
        weights=None,
        chain=chain,
        map_config={"default": MapConfig(), "paper": PAPER, "published": PUBLISHED}[config["map_config"]],
        criterion=[*(CRITERIA[rule] for rule in RULES), *([deep_enough] if min_depth > 1 else [])],
        max_depth=config["max_depth"],
        skip="last_two",
        seed=seed,
        n_paths=config["n_paths"],
    )


def depth_entry(fits: Sequence[LayerFit], scaled_test: Any, y_test: Any, n_rows: int) -> dict[str, Any]:
    """What is recorded of the network made of these layers."""
    network = network_of(fits, scaled_test.shape[1])
    log_likelihood = sum(fits[-1].log_likelihood)
    entry: dict[str, Any] = {
        "n_experts": network.top.n_experts,
        "expert_weights": [[float(f"{r:.4g}") for r in side.expert_weights] for side in network.top.sides],
        "log_likelihood": log_likelihood,
        "complexity": network.complexity,
        "complexity_code": network.complexity * (network.n_features + 1) / network.n_inputs[-1],
        "n_weights": network.n_weights,
        "seconds": fits[-1].seconds,
        "criteria": {rule: CRITERIA[rule]([fit.layer for fit in fits], log_likelihood, n_rows) for rule in RULES},
        "point": metrics(y_test, network.class_probability(scaled_test)[:, 1]),
    }
    if network.top.draws:
        entry["posterior"] = metrics(y_test, network.mean_class_probability(scaled_test)[:, 1])
    return entry


def summarise(folder: Path, names: list[str]) -> str:
    """A Markdown table from the records of one configuration."""
    records = load_results(folder)
    lines = [
        "| data | splits | rule | prediction | error % | paper | diff / s.d. | depth | units | complexity | log-loss | Brier | ECE | s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[tuple[str, str], list[float]] = {}
    for name in names:
        mine = [record for record in records if record["data"] == name]
        if not mine:
            continue
        for rule in ("aic", "aic_eps", "aic_inputs", "bic"):
            for prediction in ("point", "posterior", "paths"):
                picked = [record["depths"][record["chosen"][rule] - 1] for record in mine]
                if prediction not in picked[0]:
                    continue
                scores = [entry[prediction] for entry in picked]
                error = np.array([score["error"] for score in scores])
                suffix = "sgd" if mine[0]["config"]["inference"] == "map" else "gibbs"
                paper = ERROR[name].get(f"{'aic_eps' if rule == 'aic_eps' else 'aic'}_{suffix}")
                ratios.setdefault((rule, prediction), []).append(error.mean() / ERROR[name]["svm"][0])
                gap = f"{(error.mean() - paper[0]) / paper[1]:+.2f}" if paper else ""
                lines.append(
                    f"| {name} | {len(mine)} | {rule} | {prediction} | {error.mean():.2f} ± {error.std():.2f} | "
                    f"{paper[0]:.2f} ± {paper[1]:.2f} | {gap} | {np.mean([r['chosen'][rule] for r in mine]):.1f} | "
                    f"{np.mean([sum(entry['n_experts']) for entry in picked]):.1f} | "
                    f"{np.mean([entry['complexity'] for entry in picked]):.1f} | "
                    f"{np.mean([s['log_loss'] for s in scores]):.3f} | {np.mean([s['brier'] for s in scores]):.3f} | "
                    f"{np.mean([s['ece'] for s in scores]):.3f} | {np.mean([r['seconds'] for r in mine]):.1f} |"
                )
    lines.append("")
    for (rule, prediction), values in ratios.items():
        lines.append(f"mean SVM-normalised error, {rule}, {prediction}: {np.mean(values):.3f} over {len(values)} sets")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ida", help="ida, all, multiclass (see benchmarks/multiclass.py), or names")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--inference", default="map+gibbs", choices=["map+gibbs", "gibbs", "map"])
    parser.add_argument("--sampler", default="first_events")
    parser.add_argument("--pruning", default="window")
    parser.add_argument("--record", default="collection")
    parser.add_argument("--n-sweeps", type=int, default=1000)
    parser.add_argument("--n-draws", type=int, default=100)
    parser.add_argument("--n-paths", type=int, default=5)
    parser.add_argument("--max-experts", type=int, default=20)
    parser.add_argument("--max-depth", type=int, default=5)
    parser.add_argument("--precision-floor", type=float, default=0.0)
    parser.add_argument("--mass", type=float, nargs=2, default=[5.0, 1.0], help="shape and rate of γ₀'s prior")
    parser.add_argument("--coef-shape", type=float, default=0.5)
    parser.add_argument("--map-config", default="default", choices=["default", "paper", "published"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only-table", action="store_true", help="summarise what is there")
    parser.add_argument("--records", type=Path, help="summarise the records of this folder, whatever made them")
    known, others = parser.parse_known_args()
    if known.data == "multiclass":
        from benchmarks import multiclass

        multiclass.main([*others, "--splits", str(min(known.splits, 5)), *(["--only-table"] * known.only_table)])
        return
    options = vars(parser.parse_args())
    names = {"ida": list(IDA), "all": [*IDA, "ijcnn1", "a9a"]}.get(options["data"], options["data"].split(","))
    config = {
        key: options[key]
        for key in (
            "inference", "sampler", "pruning", "record", "n_sweeps", "n_draws", "n_paths", "max_experts", "max_depth",
            "precision_floor", "mass", "coef_shape", "map_config", "seed",
        )
    }  # fmt: skip
    if config["inference"] == "map":
        label = f"map-{config['map_config']}"
    else:
        label = f"{config['inference']}-{config['sampler']}-{config['pruning']}-{config['n_sweeps']}"
        label += f"-floor{config['precision_floor']:g}" if config["precision_floor"] else ""
        priors = Hyperpriors()
        same = config["mass"] == [priors.mass_shape, priors.mass_rate] and config["coef_shape"] == priors.coef_shape
        label += "" if same else "-mass{:g}-{:g}-coef{:g}".format(*config["mass"], config["coef_shape"])
        label += "-whole" if config["record"] != "collection" else ""
        label += "-paths" if config["n_paths"] else ""
    folder = options["records"] or RESULTS / label
    if not (options["only_table"] or options["records"]):
        tasks = [
            (name, split)
            for split in range(options["splits"])
            for name in names
            if split < (5 if name in ("ijcnn1", "a9a") else 10)
        ]
        Parallel(n_jobs=options["jobs"])(delayed(one_fit)(folder, *task, config) for task in tasks)
    print(f"## {folder.name}\n\n{summarise(folder, names)}")


if __name__ == "__main__":
    main()
