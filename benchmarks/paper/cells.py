"""Cells of the paper's tables: the paper's numbers, ours, and the difference in the paper's standard deviations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import paper_values as paper
from benchmarks import record
from benchmarks.data_and_methods import PAIRS, SPIRALS
from benchmarks.paper.fits import n_splits
from benchmarks.quality_tables import lines_of
from benchmarks.record import RESULTS

Records = dict[tuple[str, str], list[dict[str, Any]]]

NAMES = {
    "lr": "LR",
    "svm": "SVM",
    "rvm": "RVM",
    "amm": "AMM",
    "cpm": "CPM",
    "dnn_8_4": "DNN (8-4)",
    "dnn_32_16": "DNN (32-16)",
    "dnn_128_64": "DNN (128-64)",
    "pbdn1": "PBDN1",
    "pbdn2": "PBDN2",
    "pbdn4": "PBDN4",
    "aic_gibbs": "AIC Gibbs",
    "aic_eps_gibbs": "AIC-ε Gibbs",
    "aic_sgd": "AIC SGD",
    "aic_eps_sgd": "AIC-ε SGD",
    "default": "library default",
    "single": "library, one network",
    "hist_gradient_boosting": "HistGradientBoosting",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "tabpfn": "TabPFN",
    "mlp_early_stopping": "MLP, early stopping",
    "random_forest": "random forest",
    "gaussian_process": "Gaussian process",
}
DEFAULTS = ("default", "single")
"""What the estimators do by default, and with one network, as `benchmarks.data_and_methods` names it."""
GIBBS_METHODS = ("pbdn1", "pbdn2", "pbdn4", "aic_gibbs", "aic_eps_gibbs")
SGD_METHODS = ("aic_sgd", "aic_eps_sgd")
ALARM = 1.0
"""Standard deviations beyond which a cell is printed bold."""


@dataclass(frozen=True)
class Comparison:
    """One cell."""

    method: str
    data: str
    paper: paper.Cell | None
    ours: tuple[float, ...]
    wanted: int
    digits: int = 2

    @property
    def mean(self) -> float:
        return float(np.mean(self.ours))

    @property
    def gap(self) -> float | None:
        """Ours less the paper's in its standard deviations, 0 where they print the same; None where there is no s.d."""
        if self.paper is None or not self.ours:
            return None
        difference = self.mean - self.paper[0]
        if abs(difference) <= 0.5001 * 10.0**-self.digits:
            return 0.0
        return difference / self.paper[1] if self.paper[1] > 0 else None

    def text(self) -> str:
        """Markdown."""
        digits = self.digits
        theirs = "" if self.paper is None else f"{self.paper[0]:.{digits}f} ± {self.paper[1]:.{digits}f}<br>"
        if not self.ours:
            return theirs + "not run"
        ours = f"{self.mean:.{digits}f} ± {np.std(self.ours, ddof=min(1, len(self.ours) - 1)):.{digits}f}"
        if len(self.ours) < self.wanted:
            ours += f" ({len(self.ours)} of {self.wanted})"
        if self.paper is None:
            return theirs + ours
        gap = "s.d. 0" if self.gap is None else f"{self.gap:+.1f}"
        return theirs + ours + "<br>" + (f"**{gap}**" if self.gap is not None and abs(self.gap) > ALARM else gap)


def read(root: Path = RESULTS) -> Records:
    """Records by column and data set, in the order of their splits.

    Rivals have their first seed here; the library's defaults, which `benchmarks.quality` measures with several seeds, the mean over
    them.
    """
    records: Records = {}
    names = [*record.experiments("paper", root), *record.experiments("rivals", root)]
    lines = [line for name in names for line in record.read(name, root)]
    for line in sorted(lines, key=lambda line: str(line["method"])):
        if line["seed"] == 0 and line["data"] in (*paper.DATASETS, *PAIRS, *SPIRALS):
            records.setdefault((line["method"], line["data"]), []).append(line)
    for method in DEFAULTS:
        for data in paper.DATASETS:
            found = lines_of(method, (data,), root)
            for split in sorted({line["split"] for line in found}):
                error = float(np.mean([line["error"] for line in found if line["split"] == split]))
                records.setdefault((method, data), []).append({"split": split, "error": error})
    return records


def values(records: Records, method: str, data: str, what: str, published: bool = False) -> tuple[float, ...]:
    """One number per split: "error" (percent), "complexity", "complexity_code" or "depth".

    ``published`` takes PBDNs run as the published code runs them instead of by the library's defaults.
    """
    if method in GIBBS_METHODS or method in SGD_METHODS:
        engine = "map" if method.endswith("sgd") else "gibbs"
        found = records.get((f"{engine}_published" if published else engine, data), [])
        return tuple(pbdn_value(line, method, what) for line in found)
    found = records.get((method, data), [])
    key = "complexity" if what == "complexity_code" else what
    return tuple(line[key] for line in found if line.get(key) is not None)


def pbdn_value(line: record.Record, method: str, what: str) -> float:
    """A number of the depth that belongs to a method; errors are those of the recorded sample."""
    rule = method.rpartition("_")[0]
    depth = int(method.removeprefix("pbdn")) if method.startswith("pbdn") else line["chosen"][rule]
    if what == "depth":
        return float(depth)
    entry = line["depths"][depth - 1]
    return float(entry["point"]["error"] if what == "error" else entry[what])


def comparisons(
    records: Records,
    theirs: Callable[[str, str], paper.Cell | None],
    methods: Sequence[str],
    what: str,
    data: Sequence[str] = paper.DATASETS,
    profile: str = "full",
    published: bool = False,
) -> list[Comparison]:
    """Cells row by row."""
    cells = []
    for method in methods:
        for name in data:
            ours = values(records, method, name, what, published)
            digits = 1 if what.startswith("complexity") else 2
            cells.append(Comparison(method, name, theirs(method, name), ours, n_splits(name, profile), digits))
    return cells


def grid(cells: Sequence[Comparison], data: Sequence[str], last: dict[str, str] | None = None) -> str:
    """A Markdown table: methods down, data sets across; ``last`` is one more column."""
    head = ["", *(name.replace("_", " ") for name in data), *(["mean, SVM = 1"] if last else [])]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for method in dict.fromkeys(cell.method for cell in cells):
        row = [NAMES.get(method, method)]
        row += [next(c for c in cells if c.method == method and c.data == name).text() for name in data]
        lines.append("| " + " | ".join([*row, *([last[method]] if last else [])]) + " |")
    return "\n".join(lines)


def normalised(cells: Sequence[Comparison], records: Records, theirs: dict[str, float], what: str) -> dict[str, str]:
    """Mean over data sets of ours divided by our SVM, beside the paper's eight-set mean."""
    texts = {}
    for method in dict.fromkeys(cell.method for cell in cells):
        ratios = normalised_ratios(cells, records, method, what)
        ours = f"{np.mean(ratios):.3f}" if ratios else "not run"
        if ratios and len(ratios) < len(paper.DATASETS):
            ours += f" ({len(ratios)} sets)"
        texts[method] = f"{theirs[method]:.3f}<br>{ours}" if method in theirs else ours
    return texts


def normalised_ratios(cells: Sequence[Comparison], records: Records, method: str, what: str) -> list[float]:
    """Ours over our SVM, for every data set where both were run."""
    ratios = []
    for cell in cells:
        svm = values(records, "svm", cell.data, what)
        if cell.method == method and cell.ours and svm:
            ratios.append(cell.mean / float(np.mean(svm)))
    return ratios


def beyond(cells: Sequence[Comparison], worse_only: bool = True) -> list[Comparison]:
    """Cells more than one of the paper's standard deviations away (above)."""
    return [c for c in cells if c.gap is not None and (c.gap > ALARM or (not worse_only and c.gap < -ALARM))]
