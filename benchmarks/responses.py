"""Numbers, counts, survival times and grades: the default estimators beside others, on the same splits.

    python -m benchmarks.responses                              # everything
    python -m benchmarks.responses --only survival --jobs 15    # a kind of response: real, counts, survival or ordinal
    python -m benchmarks.responses --only concrete,veterans     # some sets

Three quarters of the rows are for training, at most 2000; the number of the split draws them. Every method has its defaults or its
usual tuning (benchmarks/rivals/responses.py). Errors, CRPS and log-densities of real numbers are in standard deviations of the
training values. Every fit is one line of benchmarks/results/responses.jsonl; what is there is not run again. Rivals and sets
whose package is not installed are left out: ``pip install pbdn[bench]`` brings the packages.
"""

import argparse
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata

from benchmarks import record
from benchmarks.response_data import KINDS, NOISE, MissingPackageError, load, split_rows
from benchmarks.response_scores import COVERAGES
from benchmarks.rivals.responses import METHODS, NEEDS

EXPERIMENT = "responses"
KIND_OF = {name: kind for kind, sets in KINDS.items() for name in sets}
MEASURES: dict[str, tuple[tuple[str, str, int], ...]] = {
    "real": (("rmse", "RMSE", 1), ("crps", "CRPS", 1), ("log_density", "-log density", -1)),
    "counts": (("log_score", "-log probability", -1), ("deviance", "Poisson deviance", 1)),
    "survival": (
        ("concordance", "1 - concordance", -1),
        ("brier", "Brier score", 1),
        ("miscalibration", "miscalibration", 1),
    ),
    "ordinal": (
        ("absolute_error", "absolute error", 1),
        ("log_loss", "log-loss", 1),
        ("ranked_score", "ranked score", 1),
    ),
}
"""Field of a record, what it is called, and -1 where more is better."""
TITLES = {
    "pbdn": "PBDN",
    "random_forest": "random forest",
    "boosting": "boosting",
    "quantile_boosting": "boosted quantiles",
    "gaussian_process": "Gaussian process",
    "ngboost": "NGBoost",
    "bart": "BART",
    "poisson_regression": "Poisson regression",
    "negative_binomial": "negative binomial regression",
    "poisson_boosting": "Poisson boosting",
    "overdispersed_boosting": "boosting, negative binomial",
    "cox": "Cox",
    "survival_forest": "survival forest",
    "survival_boosting": "survival boosting",
    "all_thresholds": "all thresholds",
    "ordered_logit": "ordered logit",
}
NOTHING = "–"


def measure(method: str, name: str, split: int) -> dict[str, Any]:
    """One line."""
    kind = KIND_OF[name]
    X, y, new, wanted = split_rows(kind, name, split)
    with warnings.catch_warnings(), record.timed() as spent:
        warnings.simplefilter("ignore")
        found = METHODS[kind][method](X, y, new, wanted, split)
    line = {"method": method, "data": name, "split": split, "seed": split, "config": {}, "kind": kind}
    return line | {"rows": len(y), "features": X.shape[1], "seconds": spent["seconds"]} | found


def attempt(task: tuple[str, str, int]) -> dict[str, Any] | str:
    """One line, or a sentence where the method failed."""
    try:
        return measure(*task)
    except Exception as error:  # a rival that fails on one split must not stop the others
        return f"{task[0]} failed on {task[1]}, split {task[2]}: {type(error).__name__}: {error}"


def plan(only: list[str], methods: list[str] | None, n_splits: int) -> tuple[list[tuple[str, str, int]], list[str]]:
    """Fits in the order of the splits, and a sentence for each set or rival that cannot run here."""
    tasks, left_out = [], []
    names = [name for name, kind in KIND_OF.items() if name in only or kind in only]
    for name in names:
        try:
            if name not in NOISE:
                load(KIND_OF[name], name)
        except (MissingPackageError, ImportError) as error:
            left_out.append(f"{name} is left out: {error}.")
            continue
        tasks += [(method, name) for method in METHODS[KIND_OF[name]] if methods is None or method in methods]
    for method in sorted({method for method, _ in tasks if method in NEEDS and find_spec(NEEDS[method]) is None}):
        left_out.append(f"{method} is left out: the package {NEEDS[method]} is not installed.")
        tasks = [task for task in tasks if task[0] != method]
    return [(*task, split) for split in range(n_splits) for task in tasks], left_out


def means(kind: str, root: Path = record.RESULTS) -> dict[tuple[str, str], dict[str, float]]:
    """Means of every number of the records, by method and set, over the splits of a set that all its methods have."""
    lines = [line for line in record.read(EXPERIMENT, root) if KIND_OF.get(line["data"]) == kind]
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name in KINDS[kind]:
        own = {
            method: {line["split"]: line for line in lines if (line["method"], line["data"]) == (method, name)}
            for method in METHODS[kind]
        }
        splits = [set(by_split) for by_split in own.values() if by_split]
        common = sorted(set.intersection(*splits)) if splits else []
        for method, by_split in own.items():
            shared = [by_split[split] for split in common if split in by_split]
            if shared:
                fields = [key for key, value in shared[-1].items() if isinstance(value, int | float)]
                found[method, name] = {key: float(np.mean([line[key] for line in shared])) for key in fields}
                found[method, name]["splits"] = len(shared)
    return found


def mean_ranks(kind: str, found: dict[tuple[str, str], dict[str, float]]) -> dict[str, list[float]]:
    """Mean rank of each method in every measure, over the sets; of methods that were run on all of these."""
    names = [name for name in KINDS[kind] if ("pbdn", name) in found]
    methods = [method for method in METHODS[kind] if all((method, name) in found for name in names)]
    if not names or len(methods) < 2:
        return {}
    ranks = [
        np.mean([rankdata([sign * found[method, name][key] for method in methods]) for name in names], axis=0)
        for key, _, sign in MEASURES[kind]
    ]
    return {method: [float(rank[i]) for rank in ranks] for i, method in enumerate(methods)}


def table(kind: str, root: Path = record.RESULTS) -> str:
    """A table of one kind: a row per set, a column per method, the measures in each cell, mean ranks below. Less is better."""
    found = means(kind, root)
    methods = [method for method in METHODS[kind] if any(own == method for own, _ in found)]
    if not methods:
        return ""

    def shown(method: str, name: str) -> str:
        if (method, name) not in found:
            return NOTHING
        own = found[method, name]
        values = [1.0 - own[key] if key == "concordance" else sign * own[key] for key, _, sign in MEASURES[kind]]
        return " / ".join(f"{value:.3f}" if abs(value) < 1.0 else f"{value:.2f}" for value in values)

    head = " / ".join(title for _, title, _ in MEASURES[kind])
    lines = [
        f"| {head} | " + " | ".join(TITLES[method] for method in methods) + " |",
        "|---" * (len(methods) + 1) + "|",
    ]
    for name in KINDS[kind]:
        if any(own == name for _, own in found):
            lines.append(f"| {name} | " + " | ".join(shown(method, name) for method in methods) + " |")
    ranks = mean_ranks(kind, found)
    if ranks:
        cells = [" / ".join(f"{rank:.1f}" for rank in ranks[own]) if own in ranks else NOTHING for own in methods]
        lines.append("| mean rank | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def own_table(root: Path = record.RESULTS) -> str:
    """How large the networks are, how long they took, and what intervals cover."""
    lines = [
        "| data | splits | training rows | features | layers | hyperplanes | weights | seconds | "
        + " | ".join(f"{percent} % covered" for percent in COVERAGES)
        + " |",
        "|---" * (8 + len(COVERAGES)) + "|",
    ]
    for kind in KINDS:
        for (method, name), own in means(kind, root).items():
            if method == "pbdn" and "hyperplanes" in own:
                covered = [f"{100 * own[f'covered_{p}']:.0f}" if kind == "real" else NOTHING for p in COVERAGES]
                sizes = [f"{own[key]:.0f}" for key in ("splits", "rows", "features")]
                sizes += [f"{own['depth']:.1f}", *(f"{own[key]:.0f}" for key in ("hyperplanes", "size", "seconds"))]
                lines.append("| " + " | ".join([name, *sizes, *covered]) + " |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def main() -> None:
    """Run what is missing, then print means over splits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of response, or sets, with commas")
    parser.add_argument("--methods", help="with commas")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=np.inf, help="no new fit starts after these")
    parser.add_argument("--root", type=Path, default=record.RESULTS, help="folder of the records")
    options = parser.parse_args()
    only = options.only.split(",")
    if unknown := [name for name in only if name not in KINDS and name not in KIND_OF]:
        parser.error(f"--only has {unknown[0]}; known: {', '.join([*KINDS, *KIND_OF])}")
    tasks, left_out = plan(only, options.methods.split(",") if options.methods else None, options.splits)
    print("\n".join(left_out), end="\n" if left_out else "")
    known = {(line["method"], line["data"], line["split"]) for line in record.read(EXPERIMENT, options.root)}
    end = time.monotonic() + options.seconds
    wanted = (delayed(attempt)(task) for task in tasks if task not in known and time.monotonic() < end)
    runner = Parallel(options.jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
    for line in runner(wanted):
        if isinstance(line, str):
            print(line, flush=True)
        else:
            record.append(EXPERIMENT, line, options.root)
    for kind in [kind for kind in KINDS if kind in only or any(name in only for name in KINDS[kind])]:
        print(f"\n{table(kind, options.root)}", end="")
    print(f"\n{own_table(options.root)}", end="")


if __name__ == "__main__":
    main()
