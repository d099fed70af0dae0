"""Write every table of the documentation again from the records.

    python -m benchmarks.tables                 # README.md, the reproduction of the paper, docs/decision_tables.md, marked tables
    python -m benchmarks.tables out_of_core     # print one table
    python -m benchmarks.tables --picture       # fit two spirals and draw the picture of README.md, docs/images/readme.png

A table stands in a page between ``<!-- table: COMMAND -->`` and ``<!-- end of table -->``, where COMMAND is
``python -m benchmarks.tables NAME``. A test compares all pages with the records.
"""

import argparse
import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import coverage, patches, quality_tables, responses, speed_tables

HOME = Path(__file__).resolve().parent.parent
README, PICTURE = HOME / "README.md", HOME / "docs" / "images" / "readme.png"
MARKED = re.compile(r"(<!-- table: python -m benchmarks\.tables (\w+) -->\n).*?(<!-- end of table -->\n)", re.DOTALL)

TABLES: dict[str, Callable[[], str]] = {
    "readme": quality_tables.readme_table,
    "calibration": quality_tables.calibration_table,
    "coverage": coverage.table,
    "depth_rules": quality_tables.depth_rules_table,
    "several_classes_error": lambda: quality_tables.several_classes_table("error", 2),
    "several_classes_log_loss": lambda: quality_tables.several_classes_table("log_loss", 3),
    "several_classes_complexity": lambda: quality_tables.several_classes_table("complexity", 0),
    "images": lambda: quality_tables.images_table(pairs=False),
    "image_pairs": lambda: quality_tables.images_table(pairs=True),
    "patches": patches.table,
    "mnist": speed_tables.mnist,
    "sweep": speed_tables.sweep,
    "draws": speed_tables.draws,
    "scaling": speed_tables.scaling,
    "whole_chains": speed_tables.whole_chains,
    "map_speed": speed_tables.map_speed,
    "small_products": speed_tables.small_products,
    "prediction": speed_tables.prediction,
    "many_classes": speed_tables.many_classes,
    "out_of_core": speed_tables.out_of_core,
    "waiting": speed_tables.waiting,
    "waiting_file": speed_tables.waiting_file,
    "gpu_map": speed_tables.gpu_map,
    "gpu_gibbs": speed_tables.gpu_gibbs,
    "responses_real": lambda: responses.table("real"),
    "responses_counts": lambda: responses.table("counts"),
    "responses_survival": lambda: responses.table("survival"),
    "responses_ordinal": lambda: responses.table("ordinal"),
    "responses_networks": responses.own_table,
}


def with_tables(text: str) -> str:
    """A page with its marked tables made from today's records."""
    return MARKED.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


def pages() -> dict[Path, str]:
    """Every page that holds tables, and what it should say."""
    from benchmarks.paper.render import pages as of_paper

    found = dict(of_paper())
    for path in [README, *sorted((HOME / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if MARKED.search(text):
            found[path] = with_tables(text)
    return found


def draw(path: Path) -> None:
    """Fit one network to two spirals; their map and the network side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    from pbdn import MapConfig, PBDNClassifier
    from pbdn.datasets import make_two_spirals
    from pbdn.plots import DecisionMapDisplay, NetworkDiagramDisplay

    X, y, X_test, y_test = make_two_spirals(1200, seed=0).split(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model: Any = PBDNClassifier(map_config=MapConfig(n_members=1), random_state=0).fit(X, y)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    DecisionMapDisplay.from_estimator(model, X_test, y_test, grid=160, ax=left)
    NetworkDiagramDisplay.from_estimator(model, X_test, ax=right)
    left.set_title(f"{len(y_test)} test rows, {np.mean(model.predict(X_test) != y_test):.1%} wrong")
    image = io.BytesIO()
    figure.savefig(image, dpi=150)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(image).convert("RGB").quantize(96).save(path, "PNG", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=TABLES, help="print this table alone")
    parser.add_argument("--picture", action="store_true", help="draw the picture of README.md")
    options = parser.parse_args()
    if options.name:
        print(TABLES[options.name](), end="")
        return
    if options.picture:
        draw(PICTURE)
        return
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(HOME))


if __name__ == "__main__":
    main()
