"""The table and the picture of README.md, from committed records and a fit of built-in data.

python -m benchmarks.readme            # write the table of README.md again (a test compares them)
python -m benchmarks.readme --picture  # fit two spirals and write docs/images/readme.png too
"""

import argparse
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import paper_values as paper
from benchmarks.record import load_results

ROOT = Path(__file__).parent.parent
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "images" / "readme.png"
QUALITY, RIVALS = (Path(__file__).parent / "results" / name for name in ("quality", "paper"))
BEGIN, END = "<!-- table: python -m benchmarks.readme -->\n", "<!-- end of table -->\n"
SETS = ("banana", "breast_cancer", "titanic", "waveform", "german", "image")
N_SPLITS = 10
RULE = "aic_inputs"
MEASURED = {
    "svm": "SVM, RBF kernel, tuned",
    "lightgbm": "LightGBM, defaults",
    "hist_gradient_boosting": "HistGradientBoosting, defaults",
    "random_forest": "random forest, 500 trees",
    "dnn_128_64": "neural network 128-64",
    "amm": "adaptive multi-hyperplane machine",
    "lr": "logistic regression",
}
"""Rivals with records of all splits of all sets (folder: name), made by ``python -m benchmarks.paper``."""
PUBLISHED = {"aic_gibbs": "*PBDN, Gibbs, as published*", "svm": "*SVM, as published*"}

Row = dict[str, tuple[float, float]]
"""Per set: error in percent and inner products per row, averaged over splits."""


def library_row(folder: Path, prediction: str) -> Row:
    """Ours, from records of `benchmarks.quality` or `benchmarks.paper`.

    The average over paths costs the lower layers of every path and the top layers of all draws (sizes: those of the recorded network).
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SETS}
    for record in load_results(folder):
        if record["data"] in found:
            depth = record["chosen"][RULE]
            entry = record["depths"][depth - 1]
            cost = entry["complexity"]
            if prediction == "paths":
                below = record["depths"][depth - 2]["complexity"] if depth > 1 else 0.0
                cost = record["config"]["n_paths"] * below + record["config"]["n_draws"] * (cost - below)
            found[record["data"]].append((entry[prediction]["error"], cost))
    return _averages(found, folder.name)


def measured_row(method: str) -> Row:
    """A rival, from the records of `benchmarks.paper`."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in SETS}
    for record in load_results(RIVALS / method):
        if record["data"] in found:
            found[record["data"]].append((record["error"], record.get("complexity") or np.nan))
    return _averages(found, method)


def _averages(found: dict[str, list[tuple[float, float]]], name: str) -> Row:
    short = [data for data, cells in found.items() if len(cells) != N_SPLITS]
    if short:
        raise ValueError(
            f"{name} has not {N_SPLITS} records each of {', '.join(short)}; run the fits that are missing."
        )
    return {data: (float(np.mean(cells, axis=0)[0]), float(np.mean(cells, axis=0)[1])) for data, cells in found.items()}


def published_row(method: str) -> Row:
    """A column of the paper's tables."""
    return {name: (paper.ERROR[name][method][0], paper.COMPLEXITY[name][method][0]) for name in SETS}


def table() -> str:
    """Markdown: a line per method, best mean error first below ours."""
    ours = {
        "**pbdn (default)**": library_row(RIVALS / "gibbs", "paths"),
        "**pbdn, the one network that is exported**": library_row(RIVALS / "gibbs", "point"),
        "**pbdn, MAP**": library_row(QUALITY / "map-default", "point"),
    }
    rivals = {name: measured_row(method) for method, name in MEASURED.items()}
    rivals |= {name: published_row(method) for method, name in PUBLISHED.items()}
    scale = measured_row("svm")

    def relative(row: Row) -> float:
        return float(np.mean([row[name][0] / scale[name][0] for name in SETS]))

    lines = [
        "| test error, % | "
        + " | ".join(name.replace("_", " ") for name in SETS)
        + " | mean, SVM = 1 | inner products a row |",
        "|---" * (len(SETS) + 3) + "|",
    ]
    for label, row in [*ours.items(), *sorted(rivals.items(), key=lambda item: relative(item[1]))]:
        cost = float(np.mean([row[name][1] for name in SETS]))
        shown = "" if not np.isfinite(cost) else f"{cost:.1f}" if cost < 100 else f"{cost:.0f}"
        errors = " | ".join(f"{row[name][0]:.1f}" for name in SETS)
        lines.append(f"| {label} | {errors} | {relative(row):.3f} | {shown} |")
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """README.md with the table of today's records."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def draw(path: Path) -> None:
    """Fit two spirals; their map and the network side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    from pbdn import PBDNClassifier
    from pbdn.datasets import make_two_spirals
    from pbdn.plots import DecisionMapDisplay, NetworkDiagramDisplay

    X, y, X_test, y_test = make_two_spirals(1200, seed=0).split(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model: Any = PBDNClassifier(n_sweeps=1000, n_burn_in=500, random_state=0).fit(X, y)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    DecisionMapDisplay.from_estimator(model, X_test, y_test, grid=160, ax=left)
    NetworkDiagramDisplay.from_estimator(model, X_test, ax=right)
    left.set_title(f"{len(y_test)} test rows, {np.mean(model.predict(X_test) != y_test):.1%} wrong")
    image = io.BytesIO()
    figure.savefig(image, dpi=80)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(image).convert("RGB").quantize(96).save(path, "PNG", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", action="store_true", help="draw the picture as well")
    if parser.parse_args().picture:
        draw(PICTURE)
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
