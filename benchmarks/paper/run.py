"""Fit what is missing: every job leaves one line of its experiment, finished ones are not run again."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks import record
from benchmarks.data_and_methods import Split, rows
from benchmarks.paper.fits import DNN_OF, MNIST, PBDN, SCRIPT, Job
from benchmarks.record import RESULTS, Record, metrics, pack, pack_picture, timed
from benchmarks.rivals import Dnn, fit_rival, score
from benchmarks.rivals.cpm import StackedCpm
from benchmarks.rivals.libraries import RbfSvm
from pbdn import PBDNClassifier
from pbdn.config import GibbsConfig, MapConfig
from pbdn.inspection.access import network_of
from pbdn.inspection.subtypes import subtype_means
from pbdn.model.criteria import CRITERIA
from pbdn.model.network import Layer
from pbdn.model.priors import Hyperpriors
from pbdn.model.scaling import standard_scaling

RULES = ("aic", "aic_eps", "aic_inputs", "bic")
TRACE_POINTS = 250
OTHER_FOLDS = (100, 200, 300, 400)
"""Added to the seed of the folds."""
WIDER_GRID = [(2.0**c, 2.0**g) for c in (5, 7, 9) for g in (-5, -4, -3, -2)]
"""C and gamma; the paper's grid ends at C = 2^5."""


# PBDNs of the paper's tables by the public estimator: one growth that is scored at every depth, by every rule.
#
# A criterion may be any function of the layers, so one that watches the growth sees every layer with its draws and says when
# there are enough of them.


@dataclass
class Watcher:
    """A criterion that keeps every layer and falls until each rule has risen once, from ``least`` to ``most`` layers."""

    least: int
    most: int
    layers: list[Layer] = field(default_factory=list)
    log_likelihood: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=lambda: {rule: [] for rule in RULES})

    def __call__(self, layers: Sequence[Layer], log_likelihood: float, n_rows: int) -> float:
        """What `pbdn.model.criteria` asks of a criterion."""
        self.layers = list(layers)
        self.log_likelihood.append(log_likelihood)
        for rule, values in self.values.items():
            values.append(CRITERIA[rule](layers, log_likelihood, n_rows))
        enough = self.least <= len(layers) < self.most and all(_first_rise(values) for values in self.values.values())
        return 0.0 if enough else -float(len(layers))

    @property
    def chosen(self) -> dict[str, int]:
        """Depth that each rule takes."""
        return {rule: _first_rise(values) or len(values) for rule, values in self.values.items()}


def _first_rise(values: Sequence[float]) -> int:
    """Layers before the first that does not lower the value; 0 if every one does."""
    return next((t for t in range(1, len(values)) if not values[t] < values[t - 1]), 0)


def estimator(settings: Mapping[str, Any], n_rows: int, seed: int, **more: Any) -> PBDNClassifier:
    """The estimator of a column's settings, on features that are already scaled."""
    width = settings["max_experts"]
    return PBDNClassifier(
        inference=settings["inference"],
        max_experts=max(1, round(10 * math.log10(n_rows))) if width == SCRIPT else width,
        standardize=False,
        priors=Hyperpriors(**settings["priors"]) if settings["priors"] else None,
        gibbs_config=GibbsConfig(**settings["gibbs"]),
        map_config=MapConfig(**settings["map"]),
        random_state=seed,
        **more,
    )


def fit_depths(split: Split, settings: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], Watcher, PBDNClassifier]:
    """A record of every depth and of the depth each rule takes, the watcher with all layers, and the estimator."""
    X, y, X_test, y_test = split
    if settings["standardize"]:
        scaling = standard_scaling(X)
        X, X_test = scaling.apply(X), scaling.apply(X_test)
    watcher = Watcher(settings["min_depth"], settings["max_depth"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # depth limits and short chains are part of the columns
        model = estimator(settings, len(y), seed, criterion=watcher, max_depth=settings["max_depth"]).fit(X, y)
        record: dict[str, Any] = {
            "config": dict(settings),
            "depths": [
                depth_entry(watcher, model, depth, X_test, y_test) for depth in range(1, len(watcher.layers) + 1)
            ],
            "chosen": watcher.chosen,
        }
        if settings["paths"]:
            gibbs = {**settings["gibbs"], "prediction": "paths"}
            averaged = estimator({**settings, "gibbs": gibbs}, len(y), seed, criterion="aic_inputs").fit(X, y)
            record["depths"][averaged.depth_ - 1]["paths"] = metrics(y_test, averaged.predict_proba(X_test))
    return record, watcher, model


def depth_entry(watcher: Watcher, model: PBDNClassifier, depth: int, X_test: Any, y_test: Any) -> dict[str, Any]:
    """What is recorded of the network made of the first layers."""
    layers = watcher.layers[:depth]
    network = replace(network_of(model), layers=(*(Layer(layer.sides) for layer in layers[:-1]), layers[-1]))
    entry: dict[str, Any] = {
        "n_experts": network.top.n_experts,
        "expert_weights": [[float(f"{r:.4g}") for r in side.expert_weights] for side in network.top.sides],
        "log_likelihood": watcher.log_likelihood[depth - 1],
        "complexity": network.complexity,
        "complexity_code": network.complexity * (network.n_features + 1) / network.n_inputs[-1],
        "n_weights": network.n_weights,
        "criteria": {rule: values[depth - 1] for rule, values in watcher.values.items()},
        "point": metrics(y_test, network.predict(X_test)),
    }
    if network.top.draws:
        entry["posterior"] = metrics(y_test, network.predict_mean(X_test))
    return entry


def run(jobs: Sequence[Job], root: Path = RESULTS, n_jobs: int = 1, verbose: bool = True) -> None:
    """Run the jobs without a record in processes, and append every record as soon as it is there."""
    done = {record.key_of(line) for name in {job.experiment for job in jobs} for line in record.read(name, root)}
    missing = [job for job in jobs if job.key not in done]
    late = [job for job in missing if job.column in DNN_OF]  # these need the records of others
    for part in ([job for job in missing if job.column not in DNN_OF], late):
        found = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(delayed(run_job)(job, root) for job in part)
        for number, (job, line) in enumerate(found, 1):
            record.append(job.experiment, line, root)
            if verbose:
                print(
                    f"{number}/{len(part)} {job.column} {job.data}-{job.split}: {line['cpu_seconds']:.1f} CPU s",
                    flush=True,
                )


def run_job(job: Job, root: Path) -> tuple[Job, Record]:
    """Fit a job: its record."""
    with threadpool_limits(1), timed() as spent:
        result = fit(job, root)
    return job, {**job.identity, **result, **spent}


def fit(job: Job, root: Path) -> Record:
    """The record of a job, without its times."""
    split = rows(job.data, job.split)
    settings = dict(job.settings)
    if job.column == "figure1":
        return fit_spirals(split, settings, job.split)
    if job.column in PBDN:
        return without_weights(fit_depths(split, settings, job.split)[0], job.split)
    if job.column in MNIST:
        return fit_digits(split, settings, job.split)
    special = {"svm_other_folds": other_folds, "svm_wider_grid": wider_grid, "cpm_stacked": stacked_cpm}
    if job.column in special:
        return {"config": settings, **special[job.column](split, settings, job.split)}
    if job.column in DNN_OF:
        X, y, X_test, y_test = split
        settings = {"hidden": inferred_widths(root, DNN_OF[job.column], job)}
        return {"config": settings, **score(Dnn(**settings).fit(X, y, job.split), X_test, y_test)}
    return fit_rival(job.column, job.data, split, job.split, settings)


def without_weights(line: Record, split: int) -> Record:
    """The expert weights are drawn of the first split only."""
    if split:
        for entry in line["depths"]:
            del entry["expert_weights"]
    return line


def other_folds(split: Split, settings: Record, seed: int) -> Record:
    """Errors of the SVM tuned on other folds."""
    X, y, X_test, y_test = split
    refits = {shift: RbfSvm().fit(X, y, seed + shift) for shift in OTHER_FOLDS}
    return {"errors": {shift: score(rival, X_test, y_test)["error"] for shift, rival in refits.items()}}


def wider_grid(split: Split, settings: Record, seed: int) -> Record:
    """Errors and support vectors of SVMs beyond the paper's grid."""
    X, y, X_test, y_test = split
    cells = []
    for C, gamma in WIDER_GRID:
        model = SVC(C=C, gamma=gamma).fit(X, y)
        wrong = float(100 * np.mean(model.predict(X_test) != y_test))
        cells.append({"C": C, "gamma": gamma, "error": wrong, "complexity": int(model.n_support_.sum())})
    return {"cells": cells}


def stacked_cpm(split: Split, settings: Record, seed: int) -> Record:
    """Scores of one to four stacked CPMs."""
    X, y, X_test, y_test = split
    stack = StackedCpm(4, **settings).fit(X, y, seed)
    depths = {depth: score(stack.prefix(depth), X_test, y_test) for depth in (1, 2, 3, 4)}
    return {"chosen": stack.chosen, "depths": depths}


def inferred_widths(root: Path, rule: str, job: Job) -> list[int]:
    """Units of every layer of the PBDN that a criterion chose on the same split."""
    criterion, _, inference = rule.rpartition("_")
    source = Job("map" if inference == "sgd" else "gibbs", job.data, job.split, {})
    lines = [line for line in record.read(source.experiment, root) if record.key_of(line) == source.key]
    if not lines:
        where = f"{source.experiment} of {job.data}-{job.split}"
        raise LookupError(f"{job.column} {job.data}-{job.split} needs the record {where}; run table3 first.")
    return [sum(depth["n_experts"]) for depth in lines[0]["depths"][: lines[0]["chosen"][criterion]]]


def fit_digits(split: Split, settings: Record, seed: int) -> Record:
    """A PBDN of two digits, on the first split with pictures of the first layer's subtypes."""
    line, watcher, _ = fit_depths(split, settings, seed)
    if seed == 0:
        X, sides = split[0], watcher.layers[0].sides
        line["subtypes"] = [[pack_picture(mean) for mean in subtype_means(side, X, X)[0]] for side in sides]
    return without_weights(line, seed)


def fit_spirals(split: Split, settings: Record, seed: int) -> Record:
    """Pairs stacked on the two spirals: every layer and the log-likelihood traces, for the figure."""
    line, watcher, model = fit_depths(split, settings, seed)
    layers = []
    n_sweeps = len(model.trace_[0][0][0]["log_likelihood"])
    for layer, chains_of_sides in zip(watcher.layers, model.trace_, strict=True):
        sides = []
        for side, chains in zip(layer.sides, chains_of_sides, strict=True):
            trace = np.asarray(chains[0]["log_likelihood"]) / len(split[1])
            thin = trace[:: max(1, len(trace) // TRACE_POINTS)]
            sides.append(
                {
                    "hyperplanes": pack(side.hyperplanes),
                    "expert_weights": pack(side.expert_weights),
                    "trace": pack(thin),
                }
            )
        layers.append(sides)
    return line | {"n_sweeps": n_sweeps, "layers": layers}
