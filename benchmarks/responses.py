"""Real numbers: the default regressor beside others, on the same splits.

    python -m benchmarks.responses --data diabetes,friedman1,friedman2,friedman3    # the sets that defaults were chosen on
    python -m benchmarks.responses --data concrete,abalone                          # sets looked at afterwards

Three quarters of the rows are for training; the number of the split draws them. Errors are in standard deviations of the
training values. Rivals that predict a number only get normal noise of the spread that five folds of training rows show. Every
fit is one line of benchmarks/results/responses.jsonl; what is there is not run again.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import record
from pbdn import PBDNRegressor
from pbdn.datasets import load_extra

EXPERIMENT = "responses"
TEST_SHARE = 0.25
COVERAGE = 0.9
MOST_ROWS = 2000  # of training; abalone has more
DEVELOPMENT = ("diabetes", "friedman1", "friedman2", "friedman3")
N_SIMULATED = 600
NOISE = {"friedman1": 1.0, "friedman2": 125.0, "friedman3": 0.1}


def rows(name: str, split: int) -> tuple[Any, Any, Any, Any]:
    """Training rows and values, test rows and values; values have mean 0 and standard deviation 1 in training."""
    if name in NOISE:
        X, y = getattr(datasets, f"make_{name}")(N_SIMULATED, noise=NOISE[name], random_state=split)
    elif name == "diabetes":
        X, y = datasets.load_diabetes(return_X_y=True)
    else:
        data = load_extra(name)
        X, y = data.X, data.y
    X, new, y, wanted = train_test_split(X, y, test_size=TEST_SHARE, random_state=split)
    return X[:MOST_ROWS], y[:MOST_ROWS], new, wanted


def by_pbdn(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> dict[str, Any]:
    """The default."""
    model = PBDNRegressor(random_state=seed).fit(X, y)
    low, high = model.predict_interval(new, COVERAGE).T
    return {
        "mean": model.predict(new),
        "log_density": model.log_score(new, wanted),
        "crps": model.crps(new, wanted),
        "covered": float(np.mean((low <= wanted) & (wanted <= high))),
        "depth": model.depth_,
        "weights": model.n_weights_,
        "log": model.log_,
    }


def with_normal_noise(mean: Any, spread: Any, wanted: Any) -> dict[str, Any]:
    """Normal distributions around predicted numbers."""
    low, high = norm.interval(COVERAGE, mean, spread)
    z = (wanted - mean) / spread
    crps = spread * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi))
    return {
        "mean": mean,
        "log_density": float(norm.logpdf(wanted, mean, spread).mean()),
        "crps": float(crps.mean()),
        "covered": float(np.mean((low <= wanted) & (wanted <= high))),
    }


def by_number(model: Any) -> Any:
    """A rival that predicts a number."""

    def measured(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> dict[str, Any]:
        spread = np.sqrt(np.mean((cross_val_predict(model, X, y, cv=5) - y) ** 2))
        return with_normal_noise(model.set_params(random_state=seed).fit(X, y).predict(new), spread, wanted)

    return measured


def by_process(X: Any, y: Any, new: Any, wanted: Any, seed: int) -> dict[str, Any]:
    """A Gaussian process with a length for every feature."""
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=seed)
    model = make_pipeline(StandardScaler(), process).fit(X, y)
    mean, spread = model.predict(new, return_std=True)
    return with_normal_noise(mean, spread, wanted)


METHODS: dict[str, Any] = {
    "pbdn": by_pbdn,
    "random_forest": by_number(RandomForestRegressor(500, random_state=0)),
    "boosting": by_number(HistGradientBoostingRegressor(random_state=0)),
    "gaussian_process": by_process,
}


def measure(method: str, name: str, split: int) -> dict[str, Any]:
    """One line."""
    X, y, new, wanted = rows(name, split)
    scale, began = float(y.std()), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = METHODS[method](X, y, new, wanted, split)
    error = np.sqrt(np.mean((found.pop("mean") - wanted) ** 2)) / scale
    found["log_density"] += np.log(scale)
    found["crps"] /= scale
    line = {"method": method, "data": name, "split": split, "seed": split, "config": {}, "rows": len(y)}
    return line | {"rmse": float(error), "seconds": time.perf_counter() - began} | found


def main() -> None:
    """Run what is missing, then print means over splits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(DEVELOPMENT))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--root", type=Path, default=record.RESULTS, help="folder of the records")
    options = parser.parse_args()
    names, methods = options.data.split(","), options.methods.split(",")
    known = {(line["method"], line["data"], line["split"]) for line in record.read(EXPERIMENT, options.root)}
    tasks = [(method, name, split) for split in range(options.splits) for name in names for method in methods]
    wanted = [task for task in tasks if task not in known]
    for line in Parallel(options.jobs, return_as="generator_unordered")(delayed(measure)(*task) for task in wanted):
        record.append(EXPERIMENT, line, options.root)
    lines = record.read(EXPERIMENT, options.root)
    print(f"{'':12}{'':18}{'splits':>7}{'error':>8}{'CRPS':>8}{'-log density':>14}{'covered':>9}{'seconds':>9}")
    for name in names:
        for method in methods:
            own = [line for line in lines if (line["method"], line["data"]) == (method, name)]
            if not own:
                continue
            error, crps, density, covered, seconds = (
                np.mean([line[key] for line in own]) for key in ("rmse", "crps", "log_density", "covered", "seconds")
            )
            print(
                f"{name:12}{method:18}{len(own):7}{error:8.3f}{crps:8.3f}{-density:14.3f}{covered:9.2f}{seconds:9.1f}"
            )


if __name__ == "__main__":
    main()
