"""The paper's pictures from the records: two spirals, subtypes of digits, sorted expert weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data_and_methods import IDA, PAIRS, SPIRALS, rows
from benchmarks.paper.cells import Records
from benchmarks.record import unpack
from pbdn.inspection import subtypes as interpret
from pbdn.model.likelihood import probability
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import response_for_classes
from pbdn.model.scaling import Scaling, standard_scaling

DEPTHS = (1, 2, 4, 10)
COLOURS = ("tab:blue", "tab:red")  # side 0 fits class 0 (blue points as ones), side 1 class 1 (red)
GRID = 160
P0 = 0.5
PALETTE = 96


def _new(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 7, "axes.titlesize": 7})
    return plt.subplots(rows, columns, figsize=(width, height), squeeze=False, layout="constrained")


def _save(figure: Any, path: Path) -> Path:
    """Write a small PNG: few colours are enough for maps and bars."""
    import matplotlib.pyplot as plt
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(PALETTE)
    small.save(path, optimize=True)
    return path


def spirals_rows(test: bool = False) -> tuple[Any, Any]:
    """Training (or test) points and labels."""
    X, y, X_test, y_test = rows(SPIRALS[0], 0)
    return (X_test, y_test) if test else (X, y)


def spirals_network(records: Records) -> tuple[Network, Scaling]:
    """The network of the record, on scaled features, and the scaling."""
    layers = []
    for sides in records["figure1", "two_spirals"][0]["layers"]:
        arrays = [[unpack(side[key]).astype(float) for key in ("hyperplanes", "expert_weights")] for side in sides]
        layers.append(Layer(tuple(Side(*both) for both in arrays)))
    return Network(tuple(layers), 2, response_for_classes(2)), standard_scaling(spirals_rows()[0])


def draw(records: Records, folder: Path) -> list[Path]:
    """All pictures that the records have."""
    drawn = list(figure1(records, folder).values())
    drawn += [subtypes(records, folder)] if has_subtypes(records) else []
    return drawn + ([weights(records, folder)] if has_weights(records) else [])


def has_subtypes(records: Records) -> bool:
    """Whether there are digits to draw."""
    return any(("mnist", pair) in records for pair in PAIRS)


def has_weights(records: Records) -> bool:
    """Whether there are expert weights to draw."""
    return any(("gibbs", data) in records for data in IDA)


def spirals_depths(records: Records) -> list[int]:
    """Depths of the two spirals that are drawn; none where they were not run."""
    found = records.get(("figure1", "two_spirals"), [])
    return [depth for depth in DEPTHS if found and depth <= len(found[0]["layers"])]


def figure1(records: Records, folder: Path) -> dict[int, Path]:
    """One picture per depth."""
    if not spirals_depths(records):
        return {}
    record = records["figure1", "two_spirals"][0]
    network, scaling = spirals_network(records)
    X, y = spirals_rows()
    ticks = np.linspace(-15.0, 15.0, GRID)
    across, up = np.meshgrid(ticks, ticks)
    plane = scaling.apply(np.column_stack([across.ravel(), up.ravel()]))
    pictures = {}
    for depth in spirals_depths(records):
        traces = [unpack(side["trace"]) for side in record["layers"][depth - 1]]
        lower = replace(network, layers=network.layers[:depth])
        figure = _spirals(lower, scaling.apply(X), X, y, plane, ticks, traces, record["n_sweeps"])
        pictures[depth] = _save(figure, folder / f"figure1-{depth}.png")
    return pictures


def _spirals(
    network: Network, scaled: Any, X: Any, y: Any, plane: Any, ticks: Any, traces: list[Any], n_sweeps: int
) -> Any:
    """Panels (a) to (f) of the paper's figure 1 for one depth."""
    figure, axes = _new(2, 3, 8.4, 5.2)
    top_rows, top_plane = network.top_inputs(scaled), network.top_inputs(plane)
    red, blue = 1, 0
    weights = axes[0, 0]
    at = 0
    for s, name in ((red, "red as ones"), (blue, "blue as ones")):
        values = np.sort(network.top.sides[s].expert_weights)[::-1]
        weights.bar(at + np.arange(len(values)), values, color=COLOURS[s], label=f"{name}: {len(values)}")
        at += len(values) + 1
    weights.set(title="(a) weights of the active experts", xlabel="expert", ylabel="r")
    weights.legend()
    for s, color in enumerate(COLOURS):
        axes[1, 0].plot(np.linspace(0, n_sweeps, len(traces[s])), traces[s], color=color, linewidth=0.7)
    low = min(np.nanquantile(trace, 0.03) for trace in traces)
    axes[1, 0].set(title="(d) log-likelihood per point", xlabel="sweep", ylim=(low - 0.02, 0.01))
    extent = (ticks[0], ticks[-1], ticks[0], ticks[-1])
    for row, (s, marker, letters) in enumerate(((red, "o", "bc"), (blue, "*", "ef"))):
        side = network.top.sides[s]
        count = interpret.violations(side, top_plane, P0).reshape(len(ticks), -1)
        chance = probability(side.rate(top_plane)).reshape(len(ticks), -1)
        subtypes, _ = interpret.subtype_means(side, top_rows, X)
        image = axes[row, 1].imshow(count, origin="lower", extent=extent, cmap="viridis", vmin=0)
        figure.colorbar(image, ax=axes[row, 1], shrink=0.8, ticks=range(int(count.max()) + 1))
        axes[row, 1].plot(
            *subtypes.T, marker, color=COLOURS[s], markeredgecolor="white", markersize=8, linestyle="none"
        )
        axes[row, 1].set(title=f"({letters[0]}) violated inequalities, subtypes")
        image = axes[row, 2].imshow(chance, origin="lower", extent=extent, cmap="Greys", vmin=0, vmax=1)
        figure.colorbar(image, ax=axes[row, 2], shrink=0.8)
        for k, color in enumerate(COLOURS):
            axes[row, 2].plot(*X[y == k][::4].T, ".", color=color, markersize=1.5)
        name = "red" if s == red else "blue"
        axes[row, 2].set(title=f"({letters[1]}) P({name}) by the side with {name} as ones")
        for column in (1, 2):
            axes[row, column].set(xlim=extent[:2], ylim=extent[2:])
    return figure


def subtypes(records: Records, folder: Path) -> Path:
    """First-layer subtypes of both digits of every pair, first trial; strongest expert first."""
    found = {pair: records[("mnist", pair)][0] for pair in PAIRS if ("mnist", pair) in records}
    most = max(len(side) for record in found.values() for side in record["subtypes"])
    figure, axes = _new(2 * len(found), most, 0.75 * most, 1.5 * len(found))
    for ax in axes.ravel():
        ax.axis("off")
    for row, (pair, record) in enumerate(found.items()):
        for s, side in enumerate(record["subtypes"]):
            for k, picture in enumerate(side):
                axes[2 * row + s, k].imshow(unpack(picture).reshape(28, 28), cmap="gray_r", vmin=0, vmax=255)
            digit = pair[0] if s == 0 else pair[2]
            axes[2 * row + s, 0].set_title(f"{digit} in {pair[0]} v {pair[2]}", loc="left")
    return _save(figure, folder / "subtypes.png")


def weights(records: Records, folder: Path) -> Path:
    """Sorted weights of the newest pair's active experts, one to four layers, first split of the six sets."""
    found = {data: records[("gibbs", data)][0] for data in IDA if ("gibbs", data) in records}
    figure, axes = _new(4, len(found), 1.5 * len(found), 5.6)
    for column, (data, record) in enumerate(found.items()):
        for t in range(4):
            ax, at = axes[t, column], 0
            for s in (1, 0):
                values = record["depths"][t]["expert_weights"][s]
                ax.bar(at + np.arange(len(values)), values, color=COLOURS[s])
                at += len(values) + 1
            ax.tick_params(labelsize=5)
            if t == 0:
                ax.set_title(data.replace("_", " "))
            if column == 0:
                ax.set_ylabel(f"PBDN{t + 1}: r")
    return _save(figure, folder / "weights.png")
