"""What is fitted for which table or figure: one job per column, data set and split.

A PBDN column is one run grown to at least four layers; PBDN1, 2, 4 and the depths chosen by the criteria are its prefixes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.data_and_methods import IDA, LARGE, PAIRS, SPIRALS, experiment_of
from benchmarks.data_and_methods import n_splits as splits_of
from benchmarks.paper_values import DATASETS
from benchmarks.record import RESULTS, Key
from benchmarks.rivals import RIVALS, available, protocol
from pbdn.model.priors import PAPER_PRIORS

REFOLDED = ("titanic",)
"""Where the SVM is tuned again on other random folds, to see how much they matter (14 distinct rows)."""
WIDENED = ("image",)
"""Where the SVM is also fitted at fixed C and gamma beyond the paper's grid, to see what its count of support vectors needs."""
STACKED = ("waveform", "image")
"""The two sets on which the paper stacked CPMs."""
PRINTED = ("banana",)
"""Where the MAP objective is also run as the paper prints it."""

SCRIPT = "script"
"""Experts at the start as in the published script: round(10 log10 n)."""

PROFILES = ("quick", "full")
TARGETS = ("table1", "table2", "table3", "table5", "figure1", "weights")

HOME = Path(__file__).resolve().parents[2]
ROOT = {"full": RESULTS, "quick": HOME / "out" / "paper-quick" / "results"}
"""Folder of the records."""
DOCS = {"full": HOME / "docs", "quick": HOME / "out" / "paper-quick"}
"""Folder of the pages."""


@dataclass(frozen=True)
class Job:
    """One fit: its column, its data and split, and its settings. The split is its seed too."""

    column: str
    data: str
    split: int
    settings: Mapping[str, Any] = field(hash=False)

    @property
    def experiment(self) -> str:
        """Where its record is kept: rivals are shared with `benchmarks.quality`."""
        if self.column in RIVALS:
            return experiment_of(self.column)
        return f"paper/{self.column.partition('_')[0] if self.column in PBDN else 'further'}"

    @property
    def key(self) -> Key:
        """Of its record."""
        return record.key_of(self.identity)

    @property
    def identity(self) -> dict[str, Any]:
        """The fields of the record that say what it is."""
        return {"method": self.column, "data": self.data, "split": self.split, "seed": 0, "random_state": self.split}


def pbdn_settings(inference: str, **changes: Any) -> dict[str, Any]:
    """Settings for `benchmarks.paper.run`: the library's defaults, grown to four layers at least."""
    return {
        "inference": inference,
        "max_experts": 20,
        "priors": {},
        "gibbs": {} if inference == "map" else {"prediction": "posterior"},
        "map": {},
        "standardize": True,
        "min_depth": 4,
        "max_depth": 5,
        "paths": False,
        **changes,
    }


GIBBS = pbdn_settings("gibbs", gibbs={"prediction": "posterior", "start": "map"}, paths=True)
"""Chains that start at a MAP fit; the depth of AIC over all inputs is also predicted by paths."""
GIBBS_FROM_PRIOR = pbdn_settings("gibbs", gibbs={"prediction": "posterior", "n_sweeps": 2000})
"""Longer chains that start at the prior."""
PUBLISHED_GIBBS = pbdn_settings(
    "gibbs",
    priors={
        **{name: value for name, value in asdict(PAPER_PRIORS).items() if value is not None},
        "precision_floor": 1e-3,
    },
    gibbs={
        "prediction": "posterior",
        "sampler": "counts",
        "pruning": "paper",
        "record": "whole_chain",
        "n_sweeps": 5000,
    },
)
"""The published code: its sampler, priors, precision floor, pruning, recorded sample and number of sweeps."""
MAP = pbdn_settings("map")
PUBLISHED_MAP = pbdn_settings(
    "map",
    max_experts=SCRIPT,
    map={
        "initial": "published",
        "pruning": "published_draw",
        "keep_moments": False,
        "prior_on": "weight",
        "shrinkage": "published",
        "replacement": True,
    },
)
"""The published script's choices (its truncated likelihoods and single precision excepted)."""
PRINTED_MAP = pbdn_settings("map", map={"prior_on": "log_weight", "shrinkage": "student_t"})
"""The objective as printed: density of ln r, Student-t shrinkage with b = 1e-6.

From small random hyperplanes its penalty (slope up to 1/(2√(2b)) near 0) can outweigh the likelihood of a few
hundred rows; then every hyperplane falls to 0 and nothing is learnt.
"""
DIGITS = {"min_depth": 2, "max_depth": 3, "standardize": False}

PBDN: dict[str, dict[str, Any]] = {
    "gibbs": GIBBS,
    "gibbs_from_prior": GIBBS_FROM_PRIOR,
    "map": MAP,
    "gibbs_published": PUBLISHED_GIBBS,
    "map_published": PUBLISHED_MAP,
    "map_printed": PRINTED_MAP,
}

MNIST = {"mnist": MAP, "mnist_published": PUBLISHED_MAP}
"""PBDNs of the digits."""

LARGE_SWEEPS, QUICK_SWEEPS = 500, 300
"""Of Gibbs on ijcnn1 and a9a, and in the quick profile."""

DNN_OF = {f"dnn_of_{name}": name for name in ("aic_gibbs", "aic_eps_gibbs", "aic_sgd", "aic_eps_sgd")}
"""Networks with the widths that a PBDN inferred."""
MODERN = (
    "hist_gradient_boosting",
    "lightgbm",
    "catboost",
    "tabpfn",
    "mlp_early_stopping",
    "random_forest",
    "gaussian_process",
)

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
    ("gaussian_process", IDA),
    ("lr", LARGE),
    ("dnn_128_64", IDA),
    ("map_published", DATASETS),
    ("map_printed", PRINTED),
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
    """Splits of the paper; in the quick profile two of the small sets and one of the rest."""
    if profile == "quick":
        return 2 if data in IDA else 1
    return splits_of(data)


def settings(column: str, data: str, profile: str) -> dict[str, Any]:
    """How a column is fitted to a data set."""
    quick = profile == "quick"
    if column in PBDN:
        if data in LARGE:
            return {**shorter(PBDN[column], QUICK_SWEEPS if quick else LARGE_SWEEPS), "paths": False}
        return shorter(PBDN[column], QUICK_SWEEPS) if quick else dict(PBDN[column])
    if column in MNIST:
        return {**MNIST[column], **DIGITS}
    if column == "figure1":
        depth = 4 if quick else 10
        growth = shorter(GIBBS_FROM_PRIOR, QUICK_SWEEPS) if quick else GIBBS_FROM_PRIOR
        return {**growth, "min_depth": depth, "max_depth": depth}
    return protocol(column, data, quick)


def shorter(settings: Mapping[str, Any], n_sweeps: int) -> dict[str, Any]:
    """The same with another number of sweeps, which MAP has none of."""
    if settings["inference"] == "map":
        return dict(settings)
    return {**settings, "gibbs": {**settings["gibbs"], "n_sweeps": n_sweeps}}


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
