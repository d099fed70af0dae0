"""Speed of prediction beside an SVM and LightGBM, one thread, in the same run.

python -m benchmarks.prediction [--rows 20000] [--repeats 5]

All three are fitted with their defaults on the training rows of the first split; the SVM stands behind a `StandardScaler`. Then
they predict the same rows: the test rows, repeated. The SVM says labels only, the others probabilities. Times are CPU seconds,
the best of the repeats; compilation is excluded.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks import record, speed_tables
from benchmarks.data_and_methods import IDA, rows
from pbdn import PBDNClassifier
from pbdn.files.estimator import estimator_bytes

SEED = 0
CALLS = 100
"""Predictions of one row that are timed together."""


def best_time(work: Callable[[], Any], repeats: int) -> float:
    """CPU seconds."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def measure(name: str, n_rows: int, repeats: int) -> dict[str, Any]:
    """Rows per second of all three, milliseconds of one row, bytes of the model file."""
    from lightgbm import LGBMClassifier

    X, y, X_test, _ = rows(name, 0)
    many = np.ascontiguousarray(np.resize(X_test, (n_rows, X_test.shape[1])))
    one = many[:1]
    model = PBDNClassifier(random_state=SEED, n_jobs=1).fit(X, y)
    svm = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    trees = LGBMClassifier(verbose=-1, n_jobs=1).fit(X, y)
    per_second = {
        "pbdn": n_rows / best_time(lambda: model.predict_proba(many), repeats),
        "svm": n_rows / best_time(lambda: svm.predict(many), repeats),
        "lightgbm": n_rows / best_time(lambda: trees.predict_proba(many), repeats),
    }
    calls = best_time(lambda: [model.predict_proba(one) for _ in range(CALLS)], repeats)
    return {
        "data": name,
        "features": X.shape[1],
        "complexity": model.complexity_,
        "rows_per_s": per_second,
        "one_row_ms": 1e3 * calls / CALLS,
        "file_kb": len(estimator_bytes(model)) / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with threadpool_limits(1):
        results = [measure(name, options.rows, options.repeats) for name in IDA]
    config = {"rows": options.rows, "repeats": options.repeats, "threads": 1}
    record.append("speed", {"method": "prediction", "seed": SEED, "config": config, "results": results})
    print(speed_tables.prediction())


if __name__ == "__main__":
    main()
