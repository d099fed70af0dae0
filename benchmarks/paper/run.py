"""Fit what is missing: every job leaves one JSON record, finished ones are not run again."""

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import benchmarks  # noqa: F401  (finds the data)
from benchmarks.paper.arrays import pack, pack_picture
from benchmarks.paper.fits import DNN_OF, LARGE, MNIST, PAIRS, PBDN, Job
from benchmarks.quality import fit_rows, load, metrics
from benchmarks.record import load_result, save_result
from benchmarks.rivals import RIVALS, Dnn
from benchmarks.rivals.cpm import StackedCpm
from benchmarks.rivals.rvm import WIDTHS_LARGE
from benchmarks.rivals.svm import RbfSvm
from pbdn.datasets import Dataset, load_mnist_pair, make_two_spirals
from pbdn.inspection.subtypes import subtype_means

SPIRALS_SEED = 0
TRACE_POINTS = 250
OTHER_FOLDS = (100, 200, 300, 400)
"""Added to the seed of the folds."""
WIDER_GRID = [(2.0**c, 2.0**g) for c in (5, 7, 9) for g in (-5, -4, -3, -2)]
"""C and gamma; the paper's grid ends at C = 2^5."""


def run(jobs: Sequence[Job], folder: Path, n_jobs: int = 1, verbose: bool = True) -> None:
    """Run the jobs without a record, in order; with one process in this one."""
    missing = [job for job in jobs if not job.path(folder).exists()]
    if n_jobs == 1:
        for number, job in enumerate(missing, 1):
            seconds = run_job(job, folder)
            if verbose:
                print(f"{number}/{len(missing)} {job.column} {job.data}-{job.split}: {seconds:.1f} CPU s", flush=True)
        return
    late = [job for job in missing if job.column in DNN_OF]  # these need the records of others
    for part in ([job for job in missing if job.column not in DNN_OF], late):
        Parallel(n_jobs=n_jobs, verbose=10 if verbose else 0)(delayed(run_job)(job, folder) for job in part)


def run_job(job: Job, folder: Path) -> float:
    """Fit, write the record, and return the CPU seconds it took."""
    began, began_cpu = time.perf_counter(), time.process_time()
    with threadpool_limits(1):
        result = fit(job, folder)
    result |= {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - began_cpu}
    save_result(job.path(folder), {"column": job.column, "data": job.data, "split": job.split, **result})
    return float(result["cpu_seconds"])


def fit(job: Job, folder: Path) -> dict[str, Any]:
    """The record of a job, without its times."""
    if job.column == "figure1":
        return fit_spirals(dict(job.settings))
    X, y, X_test, y_test = dataset(job.data).split(job.split)
    if job.column in PBDN:
        return fit_rows(X, y, X_test, y_test, dict(job.settings), job.split)[0]
    if job.column in MNIST:
        return fit_digits(X, y, X_test, y_test, dict(job.settings), job.split)
    return fit_rival(job, folder, X, y, X_test, y_test)


@cache
def dataset(name: str) -> Dataset:
    """By its name in the tables."""
    return load_mnist_pair(int(name[0]), int(name[2]), "paper") if name in PAIRS else load(name)


def fit_rival(job: Job, folder: Path, X: Any, y: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Tune and fit a rival; error, complexity and tuned settings."""
    options = dict(job.settings)
    if job.column == "svm_other_folds":
        refits = {shift: RbfSvm().fit(X, y, job.split + shift) for shift in OTHER_FOLDS}
        errors = {shift: score(rival, X_test, y_test)["error"] for shift, rival in refits.items()}
        return {"seed": job.split, "config": options, "errors": errors}
    if job.column == "svm_wider_grid":
        cells = []
        for C, gamma in WIDER_GRID:
            model = SVC(C=C, gamma=gamma).fit(X, y)
            wrong = float(100 * np.mean(model.predict(X_test) != y_test))
            cells.append({"C": C, "gamma": gamma, "error": wrong, "complexity": int(model.n_support_.sum())})
        return {"seed": job.split, "config": options, "cells": cells}
    if job.column in DNN_OF:
        options = {"hidden": inferred_widths(folder, DNN_OF[job.column], job)}
        rival: Any = Dnn(**options)
    elif job.column == "cpm_stacked":
        rival = StackedCpm(4, **options)
    else:
        if job.column == "rvm" and job.data in LARGE:
            options["widths"] = WIDTHS_LARGE
        rival = RIVALS[job.column](**options)
    rival.fit(X, y, job.split)
    result: dict[str, Any] = {"seed": job.split, "config": options, "chosen": rival.chosen}
    if job.column == "cpm_stacked":
        stacks = {depth: rival.prefix(depth) for depth in (1, 2, 3, 4)}
        return result | {"depths": {d: score(stack, X_test, y_test) for d, stack in stacks.items()}}
    return result | score(rival, X_test, y_test)


def score(rival: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Test error and, where there are probabilities, the other metrics; complexity."""
    if rival.has_probabilities:
        result: dict[str, Any] = metrics(y_test, rival.predict_proba(X_test)[:, 1])
    else:
        result = {"error": float(100 * np.mean(rival.predict(X_test) != y_test))}
    return result | {"complexity": rival.complexity}


def inferred_widths(folder: Path, rule: str, job: Job) -> list[int]:
    """Units of every layer of the PBDN that a criterion chose on the same split."""
    criterion, _, inference = rule.rpartition("_")
    source = Job("map" if inference == "sgd" else "gibbs", job.data, job.split, {}).path(folder)
    if not source.exists():
        raise FileNotFoundError(f"{job.column} {job.data}-{job.split} needs the record {source}; run table3 first.")
    record = load_result(source)
    return [sum(depth["n_experts"]) for depth in record["depths"][: record["chosen"][criterion]]]


def fit_digits(X: Any, y: Any, X_test: Any, y_test: Any, config: dict[str, Any], split: int) -> dict[str, Any]:
    """A PBDN of two digits, with pictures of the first layer's subtypes."""
    record, fits = fit_rows(X, y, X_test, y_test, config, split)
    if split == 0:
        sides = fits[0].layer.sides
        record["subtypes"] = [[pack_picture(mean) for mean in subtype_means(side, X, X)[0]] for side in sides]
    return record


def fit_spirals(config: dict[str, Any]) -> dict[str, Any]:
    """Pairs stacked on the two spirals: every layer and the log-likelihood traces, for the figure."""
    X, y, X_test, y_test = make_two_spirals(seed=SPIRALS_SEED).split(0)
    record, fits = fit_rows(X, y, X_test, y_test, config, SPIRALS_SEED)
    layers = []
    for layer_fit in fits:
        sides = []
        for side, chains in zip(layer_fit.layer.sides, layer_fit.details, strict=True):
            trace = chains[0].trace["log_likelihood"] / len(y)
            thin = trace[:: max(1, len(trace) // TRACE_POINTS)]
            sides.append(
                {
                    "hyperplanes": pack(side.hyperplanes),
                    "expert_weights": pack(side.expert_weights),
                    "trace": pack(thin),
                }
            )
        layers.append(sides)
    return record | {"layers": layers}
