"""What is fitted for which table or figure: one job per column, data set and split.

A PBDN column is one run grown to at least four layers; PBDN1, 2, 4 and the depths chosen by the criteria are its prefixes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.paper_values import DATASETS
from benchmarks.rivals import QUICK, available
from pbdn.model.priors import PAPER_PRIORS, Hyperpriors

IDA = DATASETS[:6]
LARGE = DATASETS[6:]
PAIRS = ("3v5", "3v8", "4v7", "4v9")
SPIRALS = ("two_spirals",)
REFOLDED = ("titanic",)
"""Where the SVM is tuned again on other random folds, to see how much they matter (14 distinct rows)."""
WIDENED = ("image",)
"""Where the SVM is also fitted at fixed C and gamma beyond the paper's grid, to see what its count of support vectors needs."""
STACKED = ("waveform", "image")
"""The two sets on which the paper stacked CPMs."""

PROFILES = ("quick", "full")
TARGETS = ("table1", "table2", "table3", "table5", "figure1", "weights")

HOME = Path(__file__).resolve().parents[2]
RESULTS = {"full": HOME / "benchmarks" / "results" / "paper", "quick": HOME / "out" / "paper-quick" / "results"}
PAGE = {"full": HOME / "docs" / "reproduction.md", "quick": HOME / "out" / "paper-quick" / "reproduction.md"}


@dataclass(frozen=True)
class Job:
    """One fit: its column (folder of the records), its data and split, and its settings."""

    column: str
    data: str
    split: int
    settings: Mapping[str, Any] = field(hash=False)

    def path(self, folder: Path) -> Path:
        """Where its record is kept."""
        return folder / self.column / f"{self.data}-{self.split}.json"


def pbdn_config(inference: str, priors: Hyperpriors | None = None, **changes: Any) -> dict[str, Any]:
    """Settings for `benchmarks.quality.fit_rows`: the library's defaults, grown to four layers at least."""
    priors = Hyperpriors() if priors is None else priors
    return {
        "inference": inference,
        "sampler": "first_events",
        "pruning": "window",
        "record": "collection",
        "n_sweeps": 1000,
        "n_draws": 100,
        "n_paths": 5,
        "max_experts": 20,
        "min_depth": 4,
        "max_depth": 5,
        "precision_floor": priors.precision_floor,
        "mass": [priors.mass_shape, priors.mass_rate],
        "coef_shape": priors.coef_shape,
        "map_config": "default",
        "seed": 0,
        **changes,
    }


GIBBS = pbdn_config("map+gibbs")
"""The library's defaults."""
GIBBS_FROM_PRIOR = pbdn_config("gibbs", n_sweeps=2000, n_paths=0)
"""Longer chains that start at the prior, and one path."""
PUBLISHED_GIBBS = pbdn_config(
    "gibbs",
    PAPER_PRIORS,
    sampler="counts",
    pruning="paper",
    record="whole_chain",
    precision_floor=1e-3,
    n_sweeps=5000,
    n_paths=0,
)
"""The published code: its sampler, priors, precision floor, pruning, recorded sample and number of sweeps."""
MAP = pbdn_config("map", n_paths=0)
PUBLISHED_MAP = pbdn_config("map", map_config="published", n_paths=0)
DIGITS = {"min_depth": 2, "max_depth": 3, "standardize": False}
DNN_MNIST = {"n_steps": 4000, "batch_size": 100}
"""Of the paper's table 1."""

PBDN: dict[str, dict[str, Any]] = {
    "gibbs": GIBBS,
    "gibbs_from_prior": GIBBS_FROM_PRIOR,
    "map": MAP,
    "gibbs_published": PUBLISHED_GIBBS,
    "map_published": PUBLISHED_MAP,
}

MNIST = {"mnist": MAP, "mnist_published": PUBLISHED_MAP}
"""PBDNs of the digits."""

FULL: dict[str, dict[str, Any]] = {
    "rvm": {"step": 4, "cv_rows": 600},
    "cpm": {"share": 0.1},
    "cpm_stacked": {"share": 0.1},
}
"""Full profile: where the paper's search is too long for this machine (every other rival follows the paper)."""
FULL_LARGE: dict[str, dict[str, Any]] = {
    "svm": {"step": 2, "cv_rows": 2500},
    "rvm": {"step": 4, "cv_rows": 1000, "max_basis": 1000},
    "cpm": {"share": 0.05, "k_grid": (1, 3, 5, 10, 20, 40)},
}
"""Further shortcuts on ijcnn1 and a9a."""
PBDN_LARGE = {"n_paths": 0, "n_sweeps": 500}
"""Of Gibbs on ijcnn1 and a9a."""
QUICK_PBDN = {"n_sweeps": 300, "n_draws": 50}

DNN_OF = {f"dnn_of_{name}": name for name in ("aic_gibbs", "aic_eps_gibbs", "aic_sgd", "aic_eps_sgd")}
"""Networks with the widths that a PBDN inferred."""
MODERN = ("hist_gradient_boosting", "lightgbm", "catboost", "tabpfn", "mlp_early_stopping", "random_forest")

COLUMNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("lr", IDA),
    ("map", IDA),
    ("svm", IDA),
    ("svm_other_folds", REFOLDED),
    ("svm_wider_grid", WIDENED),
    ("dnn_8_4", IDA),
    ("dnn_32_16", IDA),
    ("amm", IDA),
    ("mnist", PAIRS),
    ("mnist_published", PAIRS),
    ("dnn_128_64", PAIRS),
    ("map", LARGE),
    ("figure1", SPIRALS),
    ("hist_gradient_boosting", IDA),
    ("lightgbm", IDA),
    ("catboost", IDA),
    ("tabpfn", IDA),
    ("mlp_early_stopping", IDA),
    ("random_forest", IDA),
    ("lr", LARGE),
    ("dnn_128_64", IDA),
    ("map_published", DATASETS),
    ("gibbs", IDA),
    ("gibbs_from_prior", IDA),
    ("dnn_of_aic_sgd", IDA),
    ("dnn_of_aic_eps_sgd", IDA),
    ("dnn_of_aic_gibbs", IDA),
    ("dnn_of_aic_eps_gibbs", IDA),
    ("svm", LARGE),
    ("cpm", IDA),
    ("rvm", IDA),
    ("cpm_stacked", STACKED),
    ("gibbs", LARGE),
    ("dnn_8_4", LARGE),
    ("dnn_32_16", LARGE),
    ("gibbs_published", IDA),
    ("amm", LARGE),
    ("dnn_128_64", LARGE),
    ("cpm", LARGE),
    ("rvm", LARGE),
    ("gibbs_published", LARGE),
)
"""In the order in which they are run, cheap ones first."""

LEFT_OUT_OF_QUICK = {
    *((column, LARGE) for column in ("rvm", "cpm", "gibbs", "gibbs_published", "dnn_128_64")),
    ("gibbs_published", IDA),
}

OF_TARGET: dict[str, tuple[str, ...]] = {
    "table1": (*MNIST, "dnn_128_64"),
    "table3": ("gibbs", "map", "gibbs_published", "map_published"),
    "figure1": ("figure1",),
    "weights": ("gibbs",),
}


def n_splits(data: str, profile: str) -> int:
    """Splits of the paper: ten of the IDA sets, five of the rest; two in the quick profile (one of the large sets)."""
    if data in SPIRALS:
        return 1
    if profile == "quick":
        return 2 if data in IDA else 1
    return 10 if data in IDA else 5


def settings(column: str, data: str, profile: str) -> dict[str, Any]:
    """How a column is fitted to a data set."""
    quick = profile == "quick"
    if column in PBDN:
        return {**PBDN[column], **(QUICK_PBDN if quick else {}), **(PBDN_LARGE if data in LARGE else {})}
    if column in MNIST:
        return {**MNIST[column], **DIGITS}
    if column == "figure1":
        changes = {**QUICK_PBDN, "min_depth": 4, "max_depth": 4} if quick else {"min_depth": 10, "max_depth": 10}
        return {**GIBBS_FROM_PRIOR, **changes}
    if data in PAIRS:
        return dict(DNN_MNIST)
    if quick:
        return dict(QUICK.get("cpm" if column == "cpm_stacked" else column, {}))
    return {**FULL.get(column, {}), **(FULL_LARGE.get(column, {}) if data in LARGE else {})}


def jobs(target: str, profile: str) -> list[Job]:
    """The fits of a table or figure (or "all"): cheap columns first, in a column the first split of all sets first."""
    found = []
    rivals = {*available(), "svm_other_folds", "svm_wider_grid", "cpm_stacked", *DNN_OF, *PBDN, *MNIST, "figure1"}
    for column, names in COLUMNS:
        if column not in rivals or (profile == "quick" and (column, names) in LEFT_OUT_OF_QUICK):
            continue
        named = [data for data in names if wanted(target, column, data)]
        for split in range(1 if target == "weights" else max((n_splits(data, profile) for data in named), default=0)):
            for data in named:
                if split < n_splits(data, profile):
                    found.append(Job(column, data, split, settings(column, data, profile)))
    return found


def wanted(target: str, column: str, data: str) -> bool:
    """Whether a column of a data set belongs to a table or figure."""
    if target == "all":
        return True
    if data in PAIRS or data in SPIRALS:
        return column in OF_TARGET.get(target, ()) and (target == "table1") == (data in PAIRS)
    if target == "table1" or target == "figure1":
        return False
    if (target == "table5" and column in MODERN) or (target == "weights" and data not in IDA):
        return False
    return column in OF_TARGET.get(target, (column,))
