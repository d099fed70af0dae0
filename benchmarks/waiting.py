"""How long one waits for a default fit, beside rivals in the same run; and the memory that a large CSV file takes.

    python -m benchmarks.waiting                       # all inputs (the file has 100 MB; --megabytes 336 for a larger one)
    python -m benchmarks.waiting --only moons,wide     # some of them
    python -m benchmarks.waiting --quick               # small versions, nothing is recorded

Every method runs in a process of its own: seconds elapsed, seconds of all processors, and the peak of resident memory above
what the imports and the data took. Compilation is done before on a few rows. The rivals are the SVM with its grid as in
`benchmarks.quality`, coarse to fine (left out above 5000 rows), histogram gradient boosting and logistic regression with
the library's defaults. All may use all cores. The rows of a file go through the command line: `pbdn fit` and
`pbdn predict`, whose memory is that of the whole process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import record
from benchmarks.record import metrics
from benchmarks.rivals.libraries import RbfSvm

SEED = 0
N_TEST = 2000
TIME_LIMIT, FILE_LIMIT, QUICK_LIMIT = 10.0, 60.0, 0.5
MOST_FOR_SVM = 5000  # rows above which the grid takes hours
METHODS = ("pbdn", "svm", "hist_gradient_boosting", "logistic")
MB = 2.0**20

Rows = tuple[Any, Any]


def wide(rng: np.random.Generator, n: int, n_features: int) -> Rows:
    """Three factors behind all features; the class is the sign of the first."""
    factors = rng.normal(size=(n, 3))
    X = 0.5 * factors @ rng.normal(size=(3, n_features)) + rng.normal(size=(n, n_features))
    return X, (factors[:, 0] > 0).astype(int)


def text(rng: np.random.Generator, n: int, n_words: int) -> Rows:
    """TF-IDF of short texts, each a mixture of eight topics; the class says which half of the topics prevails."""
    from sklearn.feature_extraction.text import TfidfTransformer

    topics = rng.gamma(0.05, size=(8, n_words)) + 1e-12
    topics /= topics.sum(axis=1, keepdims=True)
    shares = rng.dirichlet(np.full(8, 0.3), n)
    counts = sp.vstack([sp.csr_matrix(rng.multinomial(80, share @ topics)) for share in shares], format="csr")
    return TfidfTransformer().fit_transform(counts), (shares[:, :4].sum(axis=1) > 0.5).astype(int)


def many_classes(rng: np.random.Generator, n: int, n_classes: int) -> Rows:
    """Separate balls, one per class."""
    centres = 8.0 * rng.normal(size=(n_classes, 10))
    y = np.arange(n) % n_classes
    return centres[y] + rng.normal(size=(n, 10)), y


def moons(rng: np.random.Generator, n: int, n_features: int) -> Rows:
    """Two half-moons."""
    y = np.arange(n) % 2
    angle = np.pi * rng.random(n)
    one, other = np.c_[np.cos(angle), np.sin(angle)], np.c_[1 - np.cos(angle), 0.5 - np.sin(angle)]
    return np.where(y[:, None] == 0, one, other) + 0.25 * rng.normal(size=(n, n_features)), y


def cover(rng: np.random.Generator, n: int, n_features: int) -> Rows:
    """Seven classes of unequal size: ten numbers that bend the borders, and indicators."""
    numbers, indicators = rng.normal(size=(n, 10)), (rng.random((n, n_features - 10)) < 0.1).astype(float)
    scores = numbers @ rng.normal(size=(10, 7)) + (numbers**2) @ rng.normal(size=(10, 7))
    scores += indicators @ rng.normal(size=(n_features - 10, 7)) - 0.8 * np.arange(7)
    return np.c_[numbers, indicators], np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def half_spaces(rng: np.random.Generator, n: int, n_features: int) -> Rows:
    """Whether any of three half-spaces of ten features is entered, 5 % flipped."""
    planes = np.zeros((3, n_features))
    planes[:, :10] = np.random.default_rng(SEED).normal(size=(3, 10)) / np.sqrt(10)  # the same in every call
    X = rng.normal(size=(n, n_features))
    return X, (((X @ planes.T) > 0.8).any(axis=1) ^ (rng.random(n) < 0.05)).astype(int)


CASES: dict[str, tuple[Callable[..., Rows], tuple[int, int], tuple[int, int]]] = {
    "wide": (wide, (60, 2000), (60, 200)),
    "text": (text, (1500, 20_000), (200, 300)),
    "many_classes": (many_classes, (1500, 50), (100, 5)),
    "moons": (moons, (1000, 2), (100, 2)),
    "cover": (cover, (50_000, 54), (300, 14)),
    "5000 x 100": (half_spaces, (5000, 100), (150, 12)),
    "1000 x 60": (half_spaces, (1000, 60), (120, 11)),
    "time_limit": (cover, (200_000, 54), (300, 14)),
}
"""What makes the rows; their number and that of features (of classes where these are many), whole and quick."""
FILE = "file"


def rows_of(case: str, quick: bool) -> tuple[Any, Any, Any, Any]:
    """Training rows and test rows."""
    make, whole, small = CASES[case]
    n, size = small if quick else whole
    X, y = make(np.random.default_rng(SEED), n + (200 if quick else N_TEST), size)
    return X[:n], y[:n], X[n:], y[n:]


def made(method: str, case: str, quick: bool) -> Any:
    """The estimator of a method; ours as a user makes it."""
    if method == "pbdn":
        from pbdn import MapConfig, PBDNClassifier

        limit = {"time_limit": QUICK_LIMIT if quick else TIME_LIMIT} if case == "time_limit" else {}
        short = {"map_config": MapConfig(n_minibatches=50)} if quick else {}
        return PBDNClassifier(random_state=SEED, **limit, **short)
    if method == "svm":
        return RbfSvm(step=5 if quick else 2)
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    if method == "logistic":
        return LogisticRegression(max_iter=1000)
    return HistGradientBoostingClassifier(random_state=SEED, max_iter=5 if quick else 100)


def measured(method: str, case: str, quick: bool) -> dict[str, Any]:
    """One fit and its scores."""
    from sklearn.preprocessing import StandardScaler

    X, y, X_test, y_test = rows_of(case, quick)
    if method in ("svm", "logistic") and not sp.issparse(X):
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    if method == "hist_gradient_boosting" and sp.issparse(X):
        X, X_test = X.toarray(), X_test.toarray()
    model = made(method, case, quick)
    warnings.simplefilter("ignore")  # of limits, which the record shows
    if method == "pbdn":
        _compile(len(np.unique(y)), sp.issparse(X))
    before, began, cpu = peak_mb(), time.perf_counter(), time.process_time()
    model.fit(X, y, SEED) if method == "svm" else model.fit(X, y)
    spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    memory = {"memory_mb": peak_mb() - before, "peak_mb": peak_mb()}
    if method == "svm":
        return {**spent, **memory, "error": float(100 * np.mean(model.predict(X_test) != y_test))}
    scores = metrics(y_test, model.predict_proba(X_test))
    return {**spent, **memory, "error": scores["error"], "log_loss": scores["log_loss"]}


def _compile(n_classes: int, sparse: bool) -> None:
    """Everything that the fit needs, on a few rows."""
    from pbdn import MapConfig, PBDNClassifier

    rng = np.random.default_rng(SEED)
    y = np.arange(80) % min(n_classes, 4)
    X = rng.normal(size=(80, 2)) + y[:, None]
    for n_features in (2, 200):  # rows fewer than features, and more
        few = np.tile(X, n_features // 2)
        few = sp.csr_matrix(few) if sparse else few
        for criterion in ("folds",) if n_classes == 2 else ("folds", "holdout"):
            settings = MapConfig(n_minibatches=4)
            PBDNClassifier(random_state=0, max_depth=2, criterion=criterion, map_config=settings).fit(few, y)


def peak_mb() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_file(path: Path, megabytes: float) -> int:
    """A CSV file of numbers, a category and a target; returns its rows."""
    rng, n_rows = np.random.default_rng(SEED), 0
    cities = np.array(["Oslo", "Rome", "Lima", "Cairo"])
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(",".join([f"x{j}" for j in range(20)] + ["city", "y"]) + "\n")
        while stream.tell() < megabytes * MB:
            X, y = half_spaces(rng, 2000, 20)
            city = rng.integers(4, size=len(y))
            y = np.where((city == 0) & (rng.random(len(y)) < 0.5), 1, y)
            for row, place, label in zip(X.tolist(), cities[city], y, strict=True):
                stream.write(",".join(f"{x:.6g}" for x in row) + f",{place},{'yes' if label else 'no'}\n")
            n_rows += len(y)
    return n_rows


def command(arguments: list[str]) -> dict[str, Any]:
    """A command of the command line in a process of its own: its answer, seconds and memory."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pbdn", *arguments, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    answer = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"pbdn {arguments[0]} ended with {process.returncode}: {answer[-500:]}")
    return {
        "answer": json.loads(answer.splitlines()[-1]),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1024,
    }


def measured_file(megabytes: float, time_limit: float) -> list[dict[str, Any]]:
    """``pbdn fit`` and ``pbdn predict`` on a CSV file."""
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder) / "rows.csv", Path(folder) / "rows.pbdn"
        n_rows = write_file(path, megabytes)
        size = path.stat().st_size / MB
        fit = ["fit", str(path), "--target", "y", "-o", str(model), "--jobs", "-1", "--time-limit", str(time_limit)]
        predict = ["predict", str(model), str(path), "-o", str(Path(folder) / "predicted.csv")]
        found = []
        for arguments in (fit, predict):
            one = command(arguments)
            quality = one["answer"].get("validation") or one["answer"].get("quality")
            found.append(
                {
                    "case": f"pbdn {arguments[0]}",
                    "rows": n_rows,
                    "file_mb": size,
                    "error": 100 * quality["error"]["value"],
                    **{key: one[key] for key in ("seconds", "cpu_seconds", "peak_mb")},
                }
            )
    return found


def in_new_process(method: str, case: str, quick: bool) -> dict[str, Any]:
    """`measured`, whose memory is its own."""
    call = [sys.executable, "-m", "benchmarks.waiting", "--one", method, case] + ["--quick"] * quick
    answer = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(answer.splitlines()[-1]))


def run(cases: list[str], quick: bool, megabytes: float, append: Callable[[dict[str, Any]], None]) -> None:
    """Measure, and append a record per case."""
    for case in cases:
        if case == FILE:
            for one in measured_file(megabytes, QUICK_LIMIT if quick else FILE_LIMIT):
                append({"method": "waiting_file", "seed": SEED, "config": {"megabytes": megabytes}, **one})
            continue
        _, whole, small = CASES[case]
        n, size = small if quick else whole
        methods = [name for name in METHODS if name != "svm" or n <= MOST_FOR_SVM]
        methods = ["pbdn"] if case == "time_limit" else methods
        measure = measured if quick else in_new_process  # memory is not at stake in small versions
        results = {name: measure(name, case, quick) for name in methods}
        append(
            {
                "method": "waiting",
                "case": case,
                "rows": n,
                "size": size,
                "seed": SEED,
                "config": {"time_limit": TIME_LIMIT} if case == "time_limit" else {},
                "results": results,
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"separated by commas: {', '.join([*CASES, FILE])}")
    parser.add_argument("--quick", action="store_true", help="small versions; nothing is recorded")
    parser.add_argument("--megabytes", type=float, default=100.0, help="size of the file")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*options.one, options.quick)))
        return

    def append(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)
        if not options.quick:
            record.append("speed", line)

    cases = options.only.split(",") if options.only else [*CASES, FILE]
    run(cases, options.quick, 0.2 if options.quick else options.megabytes, append)


if __name__ == "__main__":
    main()
