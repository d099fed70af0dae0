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

from benchmarks.tables import HOME
from benchmarks.tables import with_tables as with_table

README, PICTURE = HOME / "README.md", HOME / "docs" / "images" / "readme.png"


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
    parser.add_argument("--picture", action="store_true", help="draw the picture as well")
    if parser.parse_args().picture:
        draw(PICTURE)
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
