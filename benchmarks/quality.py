"""Error, log-loss, calibration, size and seconds of the public estimators, and of rivals, on real data.

    python -m benchmarks.quality                                              # six small sets: ours, then the rivals
    python -m benchmarks.quality --methods default,single --seeds 3 --jobs 2
    python -m benchmarks.quality --data multiclass --methods default,map,svm --seeds 3
    python -m benchmarks.quality --methods default --since 2026-11-20         # measure again what is older

Every fit is one line of benchmarks/results/quality.jsonl (ours) or of a file in rivals. What is there is not run again, so
that a run may be stopped at any time and started again. Seed k of split j is random_state 1000 k + j; seed 0 of the
rivals is the column of the paper's tables. Lines of ours without a known commit are always run again. The tables are made
by `python -m benchmarks.tables`.
"""

import argparse
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from benchmarks import record
from benchmarks.data_and_methods import (
    IDA,
    MULTICLASS,
    ON_SMALL_SETS,
    OURS,
    RIVALS,
    RIVALS_OF_SEVERAL,
    experiment_of,
    is_dated,
    n_splits,
    names_of,
    rows,
)
from benchmarks.record import RESULTS, Key, Record, metrics, reliability, timed
from benchmarks.rivals import available, fit_rival, protocol
from pbdn import PBDNClassifier
from pbdn.config import GibbsConfig, MapConfig
from pbdn.datasets import make_xor
from pbdn.experimental import RaceClassifier

ESTIMATORS: dict[str, tuple[type, dict[str, Any]]] = {
    "default": (PBDNClassifier, {}),
    "map": (PBDNClassifier, {"inference": "map"}),
    "map_as_grown": (PBDNClassifier, {"inference": "map", "map_config": MapConfig(polish=False)}),
    "single": (PBDNClassifier, {"map_config": MapConfig(n_members=1)}),
    "gibbs": (PBDNClassifier, {"inference": "gibbs", "gibbs_config": GibbsConfig(prediction="posterior", start="map")}),
    "race": (RaceClassifier, {"max_depth": 1}),
}
"""Estimators as a user makes them: class and parameters. "map_as_grown" leaves the last tuning of several classes out."""


@dataclass(frozen=True)
class Task:
    """One fit."""

    method: str
    data: str
    split: int
    seed: int

    @property
    def random_state(self) -> int:
        """Another one for every split and seed."""
        return 1000 * self.seed + self.split

    @property
    def experiment(self) -> str:
        """Where its record is kept."""
        return experiment_of(self.method)

    @property
    def key(self) -> Key:
        """Of its record."""
        return record.key_of(asdict(self))


def plan(methods: Sequence[str], names: Sequence[str], most_splits: int, n_seeds: int) -> list[Task]:
    """The fits: whole seeds first, so that a run that is stopped has measured all sets."""
    return [
        Task(method, name, split, seed)
        for seed in range(n_seeds)
        for split in range(most_splits)
        for name in names
        for method in methods
        if split < n_splits(name) and (method in OURS or method in available())
        if name in IDA or method not in ON_SMALL_SETS
    ]


def missing(tasks: Iterable[Task], since: str = "", root: Path = RESULTS) -> list[Task]:
    """The fits without a record, or with none from ``since`` (a date or time in UTC, ISO format) on."""
    tasks = list(tasks)
    done = {
        record.key_of(line)
        for experiment in {task.experiment for task in tasks}
        for line in record.read(experiment, root)
        if not is_dated(line) and (line["when"] or "") >= since
    }
    return [task for task in tasks if task.key not in done]


def measure(task: Task) -> Record:
    """Fit and score."""
    _warm_up()
    split = rows(task.data, task.split)
    with threadpool_limits(1), timed() as spent:
        if task.method in OURS:
            result = fit_ours(task.method, split, task.random_state)
        else:
            settings = protocol(task.method, task.data)
            result = fit_rival(task.method, task.data, split, task.random_state, settings)
    return {**asdict(task), "random_state": task.random_state, **result, **spent}


def fit_ours(method: str, split: Any, random_state: int) -> Record:
    """Scores and sizes of an estimator of ours, and what the rows kept back chose."""
    X, y, X_test, y_test = split
    make, parameters = ESTIMATORS[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a depth limit and short chains show in the record
        model = make(random_state=random_state, **parameters).fit(X, y)
    chosen = [trial for trial in getattr(model, "trials_", []) if trial["kept"]]
    return {
        "config": {name: _plain(value) for name, value in parameters.items()},
        "inference": model.inference_,
        **metrics(y_test, probability := model.predict_proba(X_test)),
        "reliability": reliability(y_test, probability),
        "depth": model.depth_,
        "units": [sum(experts) for experts in model.n_experts_],
        "complexity": model.complexity_,
        "products": products(model),
        "polished": any(step["polished"] for step in model.criterion_path_),
        "chosen": chosen[-1] if chosen else None,
    }


def products(model: Any) -> float:
    """Inner products of feature rows that one prediction costs: a network's own, or those of all draws that are averaged."""
    if model.config_.prediction == "point":
        return float(model.complexity_)
    coefficients = 0
    for network in model.paths_ or (model.network_,):
        sides = [side for layer in network.layers[:-1] for side in layer.sides]
        sides += [side for draw in network.top.draws for side in draw]
        coefficients += sum(side.hyperplanes.size for side in sides)
    return float(coefficients / (model.n_features_in_ + 1))


def _plain(value: Any) -> Any:
    """A configuration as the fields that were set."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return {name: field for name, field in asdict(value).items() if field is not None}


@cache
def _warm_up() -> None:
    """Compile once in every process, outside the measured time."""
    X, y, _, _ = make_xor(200, seed=0).split(0)  # enough rows for folds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PBDNClassifier(max_depth=2, map_config=MapConfig(n_minibatches=4), random_state=0).fit(X, y)


def run(tasks: Sequence[Task], n_jobs: int = 1, root: Path = RESULTS) -> None:
    """Measure in processes and append every record as soon as it is there."""
    found = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(delayed(measure)(task) for task in tasks)
    for number, line in enumerate(found, 1):
        record.append(experiment_of(line["method"]), line, root)
        what = f"{line['method']} {line['data']} split {line['split']} seed {line['seed']}"
        print(f"{number}/{len(tasks)} {what}: {line['error']:.2f} %, {line['seconds']:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ida", help="ida, large, multiclass, all, or names separated by commas")
    parser.add_argument("--methods", help=f"separated by commas; ours: {', '.join(OURS)}; others are rivals")
    parser.add_argument(
        "--splits", type=int, default=20, help="at most; ten of small sets, twenty of wine, five or fewer of others"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--since", default="", help="measure again what is older than this date or time (UTC)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    names = names_of(options.data)
    rivals = RIVALS_OF_SEVERAL if set(names) <= set(MULTICLASS) else RIVALS
    methods = options.methods.split(",") if options.methods else ("default", "single", *rivals)
    tasks = missing(plan(methods, names, options.splits, options.seeds), options.since)
    print(f"{len(tasks)} fits to do", flush=True)
    run(tasks, options.jobs)


if __name__ == "__main__":
    from benchmarks.quality import main as main_of_module  # processes find what a module holds, not what __main__ does

    main_of_module()
