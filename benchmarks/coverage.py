"""How often intervals of P(y = 1 | x) hold the truth, on simulated rows whose truth is known.

    python -m benchmarks.coverage                    # seven truths, 150 and 400 rows, sixty seeds
    python -m benchmarks.coverage --only network --seeds 141    # the rows of the next seed have one class only

The form of the intervals was chosen on sixteen truths, these seven with other rows among them, and on eighteen others
(docs/decisions.md).
"network" is another truth for every seed, drawn from the model itself: one side of three experts. One fit errs in the same
direction over whole regions, so that the share of its rows that are covered varies much from seed to seed (its standard deviation
is 0.1 to 0.25): hence the number of seeds, and the standard errors beside the means. Every fit is one line of
benchmarks/results/coverage.jsonl; what is there is not run again.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit

from benchmarks import record
from pbdn import PBDNClassifier
from pbdn.numerics.arrays import FloatArray

EXPERIMENT = "coverage"
LEVELS = (0.5, 0.8, 0.9, 0.95)
N_ROWS, N_TEST = (150, 400), 2000


def network_odds(X: FloatArray, seed: int) -> FloatArray:
    """Log-odds ln(e^λ - 1) of one side, λ = Σ_k r_k ln(1 + e^{x'β_k}), with three experts drawn at random."""
    rng = np.random.default_rng([seed, 7])
    planes, weights = rng.normal(scale=1.5, size=(X.shape[1] + 1, 3)), rng.gamma(1.0, size=3)
    return np.log(np.expm1(np.logaddexp(0.0, planes[0] + X @ planes[1:]) @ weights))


TRUTHS: dict[str, tuple[int, Any]] = {
    "logistic_2": (2, lambda X: 1.5 * X[:, 0] - X[:, 1]),
    "logistic_10": (10, lambda X: X @ np.array([1.0, -1.0, 0.5, 0.5, 0, 0, 0, 0, 0, 0])),
    "xor": (2, lambda X: 3.0 * X[:, 0] * X[:, 1]),
    "ring": (2, lambda X: 3.0 - 2.0 * (X**2).sum(axis=1)),
    "waves": (3, lambda X: 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1]),
    "two_balls": (3, lambda X: 2.0 - np.minimum(((X - 1) ** 2).sum(axis=1), ((X + 1) ** 2).sum(axis=1))),
    "network": (3, network_odds),
}
"""Features, and the log-odds as a function of standard normal rows; of "network", and of the seed."""


CASES = [(truth, n_rows) for n_rows in N_ROWS for truth in TRUTHS if (truth, n_rows) != ("network", 150)]
"""What is measured; 150 rows of some networks have one class only."""


def measure(truth: str, n_rows: int, seed: int) -> dict[str, Any]:
    """Fit on rows of one truth; share of new rows whose interval holds the true probability, at every level."""
    n_features, odds = TRUTHS[truth]
    if odds is network_odds:
        odds = partial(network_odds, seed=seed)
    rng = np.random.default_rng([seed, n_features])
    X, new = rng.normal(size=(n_rows, n_features)), rng.normal(size=(N_TEST, n_features))
    y = (rng.random(n_rows) < expit(odds(X))).astype(int)
    model = PBDNClassifier(random_state=seed).fit(X, y)
    p = expit(odds(new))
    line: dict[str, Any] = {"method": "default", "data": truth, "split": 0, "seed": seed, "config": {}, "case": n_rows}
    for level in LEVELS:
        low, high = np.moveaxis(model.predict_proba_interval(new, level)[:, 1], -1, 0)
        line[f"covered_{level:g}"] = float(np.mean((low <= p) & (p <= high)))
        line[f"width_{level:g}"] = float(np.mean(high - low))
    return line


def table(root: Path = record.RESULTS) -> str:
    """Shares covered, truths down and levels across: means over seeds with their standard errors."""
    lines = [
        f"| truth | features | rows | seeds | {' | '.join(f'{level:.0%}' for level in LEVELS)} |",
        "|---" * 8 + "|",
    ]
    records = record.read(EXPERIMENT, root)
    for truth, n_rows in CASES:
        mine = [line for line in records if (line["data"], line["case"]) == (truth, n_rows)]
        covered = np.array([[line[f"covered_{level:g}"] for level in LEVELS] for line in mine])
        means, errors = covered.mean(axis=0), covered.std(axis=0, ddof=1) / np.sqrt(len(mine))
        cells = [f"{mean:.2f} ± {error:.2f}" for mean, error in zip(means, errors, strict=True)]
        lines.append(
            f"| {truth.replace('_', ' ')} | {TRUTHS[truth][0]} | {n_rows} | {len(mine)} | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--only", choices=TRUTHS, help="one of the truths")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--root", type=Path, default=record.RESULTS, help="folder of the records")
    options = parser.parse_args()
    known = {(line["data"], line["case"], line["seed"]) for line in record.read(EXPERIMENT, options.root)}
    tasks = [(*case, seed) for case in CASES for seed in range(options.seeds) if (*case, seed) not in known]
    tasks = [task for task in tasks if options.only in (None, task[0])]
    for line in Parallel(options.jobs, return_as="generator_unordered")(delayed(measure)(*task) for task in tasks):
        record.append(EXPERIMENT, line, options.root)
    print(table(options.root))


if __name__ == "__main__":
    from benchmarks.coverage import main as main_of_module  # processes find what a module holds, not what __main__ does

    main_of_module()
