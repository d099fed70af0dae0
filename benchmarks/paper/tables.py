"""The paper's tables and further experiments as Markdown, from the records."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import paper_values as paper
from benchmarks.data_and_methods import IDA, PAIRS
from benchmarks.paper.cells import (
    GIBBS_METHODS,
    NAMES,
    SGD_METHODS,
    Comparison,
    Records,
    comparisons,
    grid,
    normalised,
    normalised_ratios,
    pbdn_value,
    values,
)
from benchmarks.paper.fits import DNN_OF, MODERN, PRINTED, REFOLDED, STACKED, WIDENED, n_splits


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
                ours = tuple(pbdn_value(record, "aic_sgd", "error") for record in records.get((column, pair), []))
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
    methods = [*(m for m in MODERN if any((m, data) in records for data in IDA)), "svm", "default", "single"]
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


def printed_sentence(records: Records) -> str:
    """What the MAP objective does as the paper prints it."""
    parts = []
    for data in PRINTED:
        errors = [pbdn_value(line, "aic_sgd", "error") for line in records.get(("map_printed", data), [])]
        if errors:
            parts.append(
                f"MAP with the objective as printed errs on {np.mean(errors):.1f} ± {np.std(errors, ddof=min(1, len(errors) - 1)):.1f} % of {data} "
                f"({len(errors)} splits): every hyperplane falls to zero, and the larger class of the training rows is predicted."
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
