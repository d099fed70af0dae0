"""The sets of the responses' comparison: real numbers, counts, survival times and ordered grades.

    python -m benchmarks.response_data FOLDER    # write every set that can be read here as FOLDER/response_NAME.npz

A set comes from such a file in ``PBDN_DATA``, else from scikit-learn, from the library's loaders, or from the package that ships
it (statsmodels, scikit-survival, ISLP, pydataset). Rows with a missing value are left out and factors become columns of zeros
and ones, for all methods alike.
"""

import argparse
import io
import os
import tarfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split

from pbdn.datasets import load_extra

TEST_SHARE = 0.25
MOST_ROWS = 2000  # of training, and of tests: larger sets are cut
N_SIMULATED = 600
NOISE = {"friedman1": 1.0, "friedman2": 125.0, "friedman3": 0.1}
N_GRADES = 5
CODES_OF_BIKESHARE = (0, 1, 3, 5, 7)  # season, month, hour, weekday, weather
SURVIVAL_TYPE = [("event", bool), ("time", float)]
Rows = tuple[Any, Any]


class MissingPackageError(Exception):
    """A set or a rival needs a package that is not installed."""


def folder_of(package: str) -> Path:
    """Where a package is installed; it is not imported."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError(f"the package {package} is not installed")
    return Path(found.submodule_search_locations[0])


def numbers(frame: Any) -> Any:
    """A data frame as floats; a factor of k levels becomes k - 1 columns."""
    import pandas as pd

    constant = [name for name in frame if frame[name].nunique() == 1]
    return pd.get_dummies(frame.drop(columns=constant), drop_first=True).to_numpy(dtype=float)


def of_islp(file: str, target: str, drop: tuple[str, ...] = (), factors: tuple[str, ...] = ()) -> Rows:
    path = folder_of("ISLP") / "data" / f"{file}.csv"
    import pandas as pd

    frame = pd.read_csv(path, na_values="?").drop(columns=list(drop)).dropna()
    frame = frame.astype(dict.fromkeys(factors, str))
    return numbers(frame.drop(columns=target)), frame[target].to_numpy(dtype=float)


def of_pydataset(file: str, target: str, drop: tuple[str, ...] = ()) -> Rows:
    path = folder_of("pydataset") / "resources.tar.gz"
    import pandas as pd

    with tarfile.open(path) as archive:
        found = archive.extractfile(f"resources/rdata/csv/{file}.csv")
        assert found is not None
        frame = pd.read_csv(io.BytesIO(found.read()), index_col=0).drop(columns=list(drop)).dropna()
    return numbers(frame.drop(columns=target)), frame[target].to_numpy(dtype=float)


def of_statsmodels(module: str, target: str, drop: tuple[str, ...] = (), factors: tuple[str, ...] = ()) -> Rows:
    folder_of("statsmodels")
    from statsmodels import datasets as shipped

    frame = getattr(shipped, module).load_pandas().data.drop(columns=list(drop)).dropna()
    frame = frame.astype(dict.fromkeys(factors, str))
    return numbers(frame.drop(columns=target)), frame[target].to_numpy(dtype=float)


def of_sksurv(name: str, drop: tuple[str, ...] = ()) -> Rows:
    folder_of("sksurv")
    from sksurv import datasets as shipped

    frame, y = getattr(shipped, f"load_{name}")()
    frame = frame.drop(columns=list(drop))
    whole = frame.notna().all(axis=1).to_numpy()
    event, time = (y[field][whole] for field in y.dtype.names)
    return numbers(frame[whole]), survival(event, np.maximum(time, 0.5))  # one set has deaths on day 0


def survival(event: Any, time: Any) -> Any:
    """Events and times as scikit-survival writes them."""
    y = np.empty(len(time), dtype=SURVIVAL_TYPE)
    y["event"], y["time"] = event, time
    return y


def of_library(name: str) -> Rows:
    data = load_extra(name)
    return data.X, data.y.astype(float)


def bikeshare_factors() -> Rows:
    X, y = of_library("bikeshare")
    ones = [(X[:, [code]] == np.unique(X[:, code])[1:]).astype(float) for code in CODES_OF_BIKESHARE]
    return np.hstack([np.delete(X, CODES_OF_BIKESHARE, axis=1), *ones]), y


def in_grades(rows: Rows) -> Rows:
    """Numbers cut into grades of about equal shares."""
    X, y = rows
    cuts = np.unique(np.quantile(y, np.arange(1, N_GRADES) / N_GRADES))
    return X, np.digitize(y, cuts, right=True).astype(float)


def diabetes() -> Rows:
    X, y = datasets.load_diabetes(return_X_y=True)
    return X, y


KINDS: dict[str, dict[str, Callable[[], Rows] | None]] = {
    "real": {
        "diabetes": diabetes,
        **dict.fromkeys(NOISE),  # drawn anew for every split
        "concrete": lambda: of_library("concrete"),
        "abalone": lambda: of_library("abalone"),
        "auto": lambda: of_islp("Auto", "mpg", drop=("name",), factors=("origin",)),
        "college": lambda: of_islp("College", "Outstate"),
        "wage": lambda: of_islp("Wage", "wage", drop=("logwage",)),
    },
    "counts": {
        "bikeshare": lambda: of_library("bikeshare"),
        "bikeshare_factors": bikeshare_factors,
        "doctor_visits": lambda: of_statsmodels("randhie", "mdvis"),
        "office_visits": lambda: of_pydataset("Ecdat/OFP", "ofp", drop=("ofnp", "opp", "opnp", "emr")),
    },
    "survival": {
        "gbsg2": lambda: of_sksurv("gbsg2"),
        "whas500": lambda: of_sksurv("whas500"),
        "veterans": lambda: of_sksurv("veterans_lung_cancer"),
        "aids": lambda: of_sksurv("aids"),
        "flchain": lambda: of_sksurv("flchain", drop=("chapter",)),  # the cause of death
    },
    "ordinal": {
        "abalone_grades": lambda: in_grades(of_library("abalone")),
        "diabetes_grades": lambda: in_grades(diabetes()),
        "party": lambda: of_statsmodels("anes96", "PID", drop=("vote", "popul")),
        "marriage": lambda: of_statsmodels("fair", "rate_marriage", factors=("occupation", "occupation_husb")),
    },
}
"""Sets by the kind of their response, and how each is read."""


def load(kind: str, name: str) -> Rows:
    """All rows of a set.

    Raises
    ------
    MissingPackageError
        Neither a file of it nor the package that ships it is here.
    """
    path = Path(os.environ.get("PBDN_DATA", "")) / f"response_{name}.npz"
    if path.is_file():
        with np.load(path) as file:
            y = survival(file["event"], file["time"]) if kind == "survival" else file["y"]
            return file["X"].astype(float), y
    read = KINDS[kind][name]
    assert read is not None
    return read()


def split_rows(kind: str, name: str, split: int) -> tuple[Any, Any, Any, Any]:
    """Training rows and responses, test rows and responses."""
    if name in NOISE:
        X, y = getattr(datasets, f"make_{name}")(N_SIMULATED, noise=NOISE[name], random_state=split)
    else:
        X, y = load(kind, name)
    X, new, y, wanted = train_test_split(X, y, test_size=TEST_SHARE, random_state=split)
    return X[:MOST_ROWS], y[:MOST_ROWS], new[:MOST_ROWS], wanted[:MOST_ROWS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for kind, sets in KINDS.items():
        for name in [name for name in sets if name not in NOISE]:
            X, y = load(kind, name)
            parts = {field: y[field] for field in y.dtype.names} if kind == "survival" else {"y": y}
            np.savez_compressed(folder / f"response_{name}.npz", X=X, **parts)
            print(f"{kind:10}{name:20}{X.shape[0]:7} rows{X.shape[1]:5} features")


if __name__ == "__main__":
    main()
