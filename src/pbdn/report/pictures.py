"""The pictures of a report, drawn from the data of the displays."""

import numpy as np

from pbdn.plots.calibration import CalibrationDisplay
from pbdn.plots.diagram import NetworkDiagramDisplay
from pbdn.plots.experts import SubtypesDisplay
from pbdn.plots.maps import DecisionMapDisplay
from pbdn.report.data import FloatArray
from pbdn.report.svg import COLOURS, Chart, dot_mark, esc, grey_png, heat_png, legend, line_mark, shorten

MAX_NAMED = 20  # entries of a legend


def criterion_picture(path: list[dict[str, object]]) -> str:
    """Criterion over depth."""
    if not path:
        return ""
    depth = [float(str(step["depth"])) for step in path]
    value = [float(str(step["criterion"])) for step in path]
    edge = 0.08 * (max(value) - min(value))
    chart = Chart(
        (0.8, depth[-1] + 0.2),
        (min(value) - edge, max(value) + edge),
        "layers",
        "criterion (lower is better)",
        title="criterion path",
        whole=True,
    )
    chart.line(depth, value, COLOURS[0])
    for step, x, y in zip(path, depth, value, strict=True):
        kept = bool(step["kept"])
        title = f"layer {x:g}: {y:.1f}, {'kept' if kept else 'dropped'}"
        chart.dot(x, y, COLOURS[0], title, hollow=not kept)
    return chart.svg() + legend([(dot_mark(COLOURS[0]), "kept"), (dot_mark("#ffffff", COLOURS[0]), "dropped")])


def calibration_picture(display: CalibrationDisplay) -> str:
    """Predicted against observed, with intervals."""
    name = f"predicted probability of {display.of}"
    chart = Chart((0.0, 1.0), (0.0, 1.0), name, "observed frequency", title="calibration")
    chart.line([0, 1], [0, 1], "#94a3b8", "perfect calibration")
    for p, o, low, high, n in zip(
        display.predicted, display.observed, display.low, display.high, display.count, strict=True
    ):
        text = f"predicted {p:.3f}, observed {o:.3f} ({low:.3f} to {high:.3f}), {n:.0f} rows"
        chart.line([p, p], [low, high], COLOURS[0], text)
        chart.dot(float(p), float(o), COLOURS[0], text)
    return chart.svg()


def subtype_pictures(display: SubtypesDisplay) -> list[tuple[str, list[tuple[int, float, str]]]]:
    """Mean images of the first layer's subtypes per side: (side, [(expert, share, data URL)]), on one scale of grey."""
    assert display.shape is not None
    low, high = float(display.means.min()), float(display.means.max())
    grey = (display.means - low) / (high - low if high > low else 1.0)
    sides: dict[str, list[tuple[int, float, str]]] = {}
    for side, expert, share, image in zip(display.sides, display.experts, display.shares, grey, strict=True):
        one = (expert, float(share), grey_png(image.reshape(display.shape)))
        sides.setdefault(str(side), []).append(one)
    return list(sides.items())


def trace_picture(traces: list[tuple[str, FloatArray, FloatArray]]) -> str:
    """Traces of the top layer."""
    traces = [one for one in traces if one[1].size]
    if not traces:
        return ""
    every = np.concatenate([values for _, _, values in traces])
    low, high = np.quantile(every, [0.02, 1.0])  # the first sweeps would hide the rest
    steps = np.concatenate([steps for _, steps, _ in traces])
    edge = 0.05 * (high - low)
    chart = Chart(
        (float(steps.min()), float(steps.max())),
        (float(low - edge), float(high + edge)),
        "sweep or step",
        traces[0][0].split(",")[0],
        size=(720.0, 260.0),
        title="traces",
    )
    sides = list(dict.fromkeys(_side_of(label) for label, _, _ in traces))
    for label, x, y in traces:
        inside = np.clip(y, low - edge, high + edge)
        chart.line(x.tolist(), inside.tolist(), COLOURS[sides.index(_side_of(label)) % len(COLOURS)], label, 1.0)
    marks = [(line_mark(COLOURS[j % len(COLOURS)]), side) for j, side in enumerate(sides[:MAX_NAMED])]
    return chart.svg() + legend(marks if len(traces) > 1 else [])


def _side_of(label: str) -> str:
    """The side of a traced line, without what was traced and the number of the chain."""
    return label.split(", ", 1)[-1].rsplit(", chain", 1)[0]


def map_picture(display: DecisionMapDisplay, number: int) -> str:
    """A decision map with hyperplanes and points; the page's script reads values under the pointer."""
    left, right, bottom, top = display.plane.extent
    chart = Chart((left, right), (bottom, top), *display.plane.names, size=(560.0, 430.0), title="decision map")
    chart.image(heat_png(display.probability), display.plane.extent)
    largest = max((weight for _, weight, _ in display.segments), default=1.0) or 1.0
    sides = list(dict.fromkeys(side for side, _, _ in display.segments))
    for side, weight, ends in display.segments:
        dash = _dash(sides.index(side))
        (x0, y0), (x1, y1) = (chart.at(*end) for end in ends)
        chart.raw(
            f'<line class="plane" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke-dasharray="{dash}" '
            f'stroke-width="{0.7 + 2 * weight / largest:.2f}"><title>layer 1, a hyperplane for {esc(side)}, weight '
            f"{weight:.3g}</title></line>"
        )
    classes = [] if display.labels is None else np.unique(display.labels).tolist()
    colours = dict(zip(classes, _dot_colours(classes, display.label), strict=True))
    for i, (x, y) in enumerate(display.plane.points.tolist()):
        label = None if display.labels is None else display.labels[i]
        colour = "#334155" if label is None else colours[label]
        chart.dot(x, y, colour, "" if label is None else str(label), radius=2.8, stroke="#111827")
    marks = [(dot_mark(colours[label], "#111827"), str(label)) for label in classes[:MAX_NAMED]]
    marks += [(line_mark("#111827", _dash(j)), f"hyperplane for {side}") for j, side in enumerate(sides[:MAX_NAMED])]
    return chart.svg(f'class="map" data-map="{number}"') + legend(marks)


def _dash(j: int) -> str:
    return ("", "6 4", "2 3", "8 3 2 3")[j % 4]


def _dot_colours(classes: list[object], label: object) -> list[str]:
    """Light red for the class of the map and, of two, light blue for the other; colours of the page for more."""
    if len(classes) <= 2:
        return ["#f4a582" if one == label else "#92c5de" for one in classes]
    return ["#f4a582" if one == label else COLOURS[j % len(COLOURS)] for j, one in enumerate(classes)]


def diagram_picture(display: NetworkDiagramDisplay) -> str:
    """The network; nodes and edges carry keys so that the script can light up a unit."""
    tallest = max(sum(node.layer == t for node in display.nodes) for t in range(display.depth + 2))
    gap = 190.0
    width, height = gap * (display.depth + 1) + 290.0, max(220.0, 22.0 * tallest) + 24.0
    place = {node.key: (160.0 + gap * node.layer, 34.0 + (height - 44.0) * node.place) for node in display.nodes}
    heads = ["features", *(f"layer {t}" for t in range(1, display.depth + 1)), "classes"]
    parts = [
        f'<text class="head" x="{160.0 + gap * t:.1f}" y="14" text-anchor="middle">{head}</text>'
        for t, head in enumerate(heads)
    ]
    for edge in display.edges:
        (x0, y0), (x1, y1) = place[edge.source], place[edge.target]
        sign = "raises" if edge.strength > 0 else "lowers"
        size = abs(edge.strength)
        parts.append(
            f'<line class="edge {sign}" data-from="{edge.source}" data-to="{edge.target}" x1="{x0:.1f}" y1="{y0:.1f}" '
            f'x2="{x1:.1f}" y2="{y1:.1f}" stroke-width="{0.4 + 2 * size:.2f}" stroke-opacity="{0.15 + 0.5 * size:.2f}"/>'
        )
    for node in display.nodes:
        x, y = place[node.key]
        colour = "#ffffff" if node.side < 0 else COLOURS[node.side % len(COLOURS)]
        anchor, shift = ("end", -9) if node.layer == 0 else ("start", 9)
        weight = f", weight {node.weight:.3g}" if node.weight else ""
        parts.append(
            f'<g class="node" data-key="{node.key}"><circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}">'
            f"<title>{esc(node.label)}{weight}</title></circle>"
            f'<text x="{x + shift:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{esc(shorten(node.label, 24))}</text></g>'
        )
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" aria-label="network" id="diagram">'
        f"{''.join(parts)}</svg>"
    )
