"""The paper's numbers beside ours, as Markdown: paper / ours / difference in the paper's standard deviations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import paper_values as paper
from benchmarks.paper.fits import DNN_OF, IDA, MODERN, PAIRS, REFOLDED, STACKED, WIDENED, n_splits
from benchmarks.record import load_results

Records = dict[tuple[str, str], list[dict[str, Any]]]

"""An earlier run of the Gibbs defaults (`python -m benchmarks.quality`)."""

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
    "default_gibbs": "library default, Gibbs",
    "default_sgd": "library default, MAP",
    "hist_gradient_boosting": "HistGradientBoosting",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "tabpfn": "TabPFN",
    "mlp_early_stopping": "MLP, early stopping",
    "random_forest": "random forest",
}
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


def read(folder: Path) -> Records:
    """Records by column and data set, in the order of their splits."""
    records: Records = {}
    for record in load_results(folder):
        records.setdefault((record["column"], record["data"]), []).append(record)
    return {key: sorted(found, key=lambda record: record["split"]) for key, found in records.items()}


def values(records: Records, method: str, data: str, what: str, published: bool = False) -> tuple[float, ...]:
    """One number per split: "error" (percent), "complexity", "complexity_code" or "depth".

    ``published`` takes PBDNs run as the published code runs them instead of by the library's defaults.
    """
    if method in GIBBS_METHODS or method in SGD_METHODS or method.startswith("default_"):
        engine = "map" if method.endswith("sgd") else "gibbs"
        found = records.get((f"{engine}_published" if published else engine, data), [])
        return tuple(_pbdn_value(record, method, what) for record in found)
    found = records.get((method, data), [])
    key = "complexity" if what == "complexity_code" else what
    return tuple(record[key] for record in found if record.get(key) is not None)


def _pbdn_value(record: dict[str, Any], method: str, what: str) -> float:
    if method.startswith("pbdn"):
        depth = int(method.removeprefix("pbdn"))
    else:
        rule = method.rpartition("_")[0]
        depth = record["chosen"]["aic_inputs" if rule == "default" else rule]
    if what == "depth":
        return float(depth)
    entry = record["depths"][depth - 1]
    if what == "error":
        averaged = ("paths", "posterior") if method == "default_gibbs" else ()
        return float(next(entry[way]["error"] for way in (*averaged, "point") if way in entry))
    return float(entry[what])


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


def error_cells(records: Records, methods: Sequence[str] = paper.METHODS, **options: Any) -> list[Comparison]:
    """Table 2."""
    return comparisons(records, lambda method, data: paper.ERROR[data].get(method), methods, "error", **options)


def complexity_cells(
    records: Records, what: str = "complexity", methods: Sequence[str] = paper.METHODS, **options: Any
) -> list[Comparison]:
    """Table 5; ``what`` = "complexity_code" divides by the last layer's width, as the published Gibbs code does."""
    return comparisons(records, lambda method, data: paper.COMPLEXITY[data][method], methods, what, **options)


def published_methods(records: Records) -> tuple[str, ...]:
    """Columns of the paper for which PBDNs were run as the published code runs them."""
    columns = {column for column, _ in records}
    gibbs = GIBBS_METHODS if "gibbs_published" in columns else ()
    return gibbs + (SGD_METHODS if "map_published" in columns else ())


def depth_cells(records: Records, methods: Sequence[str] = tuple(paper.DEPTH), **options: Any) -> list[Comparison]:
    """Table 3."""
    return comparisons(records, lambda method, data: paper.DEPTH[method][data], methods, "depth", **options)


MNIST_NAMES = {"mnist": "PBDN, library's MAP", "mnist_published": "PBDN, published script"}


def mnist_cells(records: Records, profile: str) -> list[Comparison]:
    """Table 1: the PBDN chosen by AIC, and the DNN."""
    cells = []
    for column in (*MNIST_NAMES, "dnn_128_64"):
        for pair in PAIRS:
            if column in MNIST_NAMES:
                ours = tuple(_pbdn_value(record, "aic_sgd", "error") for record in records.get((column, pair), []))
                theirs = paper.MNIST_ERROR["pbdn"][pair]
            else:
                ours, theirs = values(records, column, pair, "error"), paper.MNIST_ERROR[column][pair]
            cells.append(Comparison(MNIST_NAMES.get(column, column), pair, theirs, ours, n_splits(pair, profile)))
    return cells


def mnist_sizes(records: Records) -> str:
    """Depths and active units of the PBDNs of table 1."""
    lines = [
        "| | pair | mean depth, AIC | AIC-ε | active units of the first layer, per trial |",
        "|---|---|---|---|---|",
    ]
    for column, name in MNIST_NAMES.items():
        for pair in PAIRS:
            found = records.get((column, pair), [])
            if found:
                depths = [np.mean([record["chosen"][rule] for record in found]) for rule in ("aic", "aic_eps")]
                units = ", ".join(" + ".join(map(str, record["depths"][0]["n_experts"])) for record in found)
                lines.append(f"| {name} | {pair} | {depths[0]:.1f} | {depths[1]:.1f} | {units} |")
    return "\n".join(lines)


def modern_table(records: Records, profile: str) -> str:
    """What one would use today, beside the library's own defaults; no paper values."""
    methods = [*(m for m in MODERN if any((m, data) in records for data in IDA)), "svm", "default_gibbs", "default_sgd"]
    cells = comparisons(records, lambda *_: None, methods, "error", data=IDA, profile=profile)
    means = normalised(cells, records, {}, "error")
    return grid(cells, IDA, last={m: text.replace(f" ({len(IDA)} sets)", "") for m, text in means.items()})


def stacked_table(records: Records, profile: str) -> str:
    """CPMs stacked like iSHM pairs."""
    lines = ["| | layers | paper | ours |", "|---|---|---|---|"]
    for data in STACKED:
        found = records.get(("cpm_stacked", data), [])
        for depth in (2, 3, 4):
            errors = [record["depths"][str(depth)]["error"] for record in found]
            ours = f"{np.mean(errors):.1f} ± {np.std(errors):.1f} ({len(errors)} splits)" if errors else "not run"
            lines.append(f"| {data} | {depth} | {paper.STACKED_CPM_ERROR[data][depth]:.1f} | {ours} |")
    return "\n".join(lines)


def architecture_table(records: Records, profile: str) -> str:
    """DNNs with the widths that PBDNs inferred: SVM-normalised mean errors."""
    lines = [
        "| widths from | paper: DNN (8 sets) | ours: DNN | ours: the PBDN itself | data sets |",
        "|---|---|---|---|---|",
    ]
    for column, rule in DNN_OF.items():
        cells = comparisons(records, lambda *_: None, [column, rule], "error", profile=profile)
        both = [c.data for c in cells if c.method == column and c.ours and values(records, rule, c.data, "error")]
        cells = [cell for cell in cells if cell.data in both]
        means = [normalised_ratios(cells, records, method, "error") for method in (column, rule)]
        ours = [f"{np.mean(ratios):.3f}" if ratios else "not run" for ratios in means]
        lines.append(
            f"| {NAMES[rule]} | {paper.PBDN_ARCHITECTURE_DNN[rule]:.3f} | {ours[0]} | {ours[1]} | {len(both)} |"
        )
    return "\n".join(lines)


def refold_sentence(records: Records) -> str:
    """How much the random folds of the SVM's cross-validation matter."""
    parts = []
    for data in REFOLDED:
        found = records.get(("svm_other_folds", data), [])
        if found:
            means = [np.mean([record["errors"][shift] for record in found]) for shift in found[0]["errors"]]
            parts.append(
                f"The SVM of {data}, tuned again on {len(means)} other draws of the folds, errs on {min(means):.2f} to {max(means):.2f} % "
                f"(mean over {len(found)} splits; paper {paper.ERROR[data]['svm'][0]:.2f} ± {paper.ERROR[data]['svm'][1]:.2f})."
            )
    return " ".join(parts)


def wider_grid_sentence(records: Records) -> str:
    """Whether the paper's support vectors are possible on its grid."""
    parts = []
    for data in WIDENED:
        found = records.get(("svm_wider_grid", data), [])
        if found:
            means = [
                {
                    key: float(np.mean([record["cells"][j][key] for record in found]))
                    for key in ("C", "gamma", "error", "complexity")
                }
                for j in range(len(found[0]["cells"]))
            ]
            inside = min((cell for cell in means if cell["C"] <= 32), key=lambda cell: cell["complexity"])
            near = min(means, key=lambda cell: abs(cell["complexity"] - paper.COMPLEXITY[data]["svm"][0]))
            parts.append(
                f"The SVM of {data}: at the largest C of the stated grid ({inside['C']:g}) no γ tried has fewer than {inside['complexity']:.0f} support vectors "
                f"(γ = {inside['gamma']:g}: {inside['error']:.2f} %), where the paper has {paper.COMPLEXITY[data]['svm'][0]:.0f} and "
                f"{paper.ERROR[data]['svm'][0]:.2f} %. C = {near['C']:g}, γ = {near['gamma']:g} has {near['complexity']:.0f} and {near['error']:.2f} %, so its grid must have been wider than stated."
            )
    return " ".join(parts)


STARTS = (
    ("gibbs_from_prior", "point"), ("gibbs_from_prior", "posterior"), ("gibbs", "point"), ("gibbs", "posterior"), ("gibbs", "paths"),
)  # fmt: skip


def start_table(records: Records) -> str:
    """Error at the depth of the default rule, by where the chains start and what predicts; mean relative to the paper's SVM."""
    lines = [
        "| | " + " | ".join(f"{'prior' if 'prior' in column else 'MAP'}, {way}" for column, way in STARTS) + " |",
        "|" + "---|" * (1 + len(STARTS)),
    ]
    ratios = []
    for data in IDA:
        means = []
        for column, way in STARTS:
            entries = [r["depths"][r["chosen"]["aic_inputs"] - 1] for r in records.get((column, data), [])]
            errors = [entry[way]["error"] for entry in entries if way in entry]
            means.append(float(np.mean(errors)) if errors else np.nan)
        if np.isfinite(means).all():
            ratios.append(np.divide(means, paper.ERROR[data]["svm"][0]))
            lines.append(f"| {data.replace('_', ' ')} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    if not ratios:
        return ""
    return "\n".join(
        [*lines, "| mean, paper's SVM = 1 | " + " | ".join(f"{m:.3f}" for m in np.mean(ratios, axis=0)) + " |"]
    )


def beyond(cells: Sequence[Comparison], worse_only: bool = True) -> list[Comparison]:
    """Cells more than one of the paper's standard deviations away (above)."""
    return [c for c in cells if c.gap is not None and (c.gap > ALARM or (not worse_only and c.gap < -ALARM))]
