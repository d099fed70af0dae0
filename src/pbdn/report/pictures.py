"""The pictures of a report: its displays, drawn by matplotlib, each described for readers who cannot see it."""

import base64
import io

import numpy as np

from pbdn.inspection.curves import curve_words
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.columns import FIGURE_SIZE
from pbdn.plots.experts import SubtypesDisplay
from pbdn.plots.svg import page_svg
from pbdn.plots.training import CriterionPathDisplay
from pbdn.report.data import ReportData


def page_pictures(data: ReportData) -> dict[str, str]:
    """SVG of the criterion, the calibration, the traces and the network; empty where there is nothing to draw."""
    pictures = {"criterion": "", "calibration": "", "traces": ""}
    named = ", ".join(f"{one['feature']} {one['share']:.0%}" for one in data.importance.drawn)
    label = f"Importance of the columns: {named}."
    pictures["importance"] = page_svg(data.importance, "importance", label, data.importance.figure_size)
    label = "Rows by how sure the model was of its answer" + ("." if data.quality is None else ", right and wrong.")
    pictures["confidence"] = page_svg(data.confidence, "confidence", label, (4.6, 2.9))
    if data.path:
        steps = "; ".join(
            f"layer {step['depth']}: {step['criterion']:.1f}, {'kept' if step['kept'] else 'dropped'}"
            for step in data.path
        )
        pictures["criterion"] = page_svg(
            CriterionPathDisplay(data.path), "criterion", f"Criterion after each layer. {steps}."
        )
    if data.calibration is not None:
        label = (
            f"Calibration: predicted probability of {data.calibration.of} against observed frequency, as in the table."
        )
        pictures["calibration"] = page_svg(data.calibration, "calibration", label)
    if data.traces is not None:
        label = f"Traces of {len(data.traces.lines)} chains or sides over sweeps or steps."
        pictures["traces"] = page_svg(data.traces, "traces", label, (7.5, 2.8))
    units = ", ".join(str(sum(layer)) for layer in data.facts["experts"])
    label = (
        f"Network of {len(data.facts['features'])} features and {units} experts per layer, as in the table of subtypes."
    )
    pictures["diagram"] = page_svg(data.diagram, "diagram", label, data.diagram.figure_size)
    return pictures


def curve_pictures(data: ReportData) -> list[tuple[str, str, str]]:
    """(column, sentence, SVG) of every effect curve."""
    out = []
    for j, display in enumerate(data.curves):
        label = display.curve.classes[display.shown_classes[int(np.argmax(display.curve.span[display.shown_classes]))]]
        words = curve_words(display.curve, label)
        name = display.curve.group.name
        out.append((name, words, page_svg(display, f"curve{j}", f"Effect of {name}. {words}", FIGURE_SIZE)))
    return out


def map_pictures(data: ReportData) -> list[tuple[str, str]]:
    """(class, SVG) of every decision map; the page's script reads values under the pointer."""
    return [
        (
            str(display.label),
            page_svg(
                display,
                f"map{j}",
                f"Decision map: probability of {display.label} over {display.plane.names[0]} and {display.plane.names[1]}.",
                display.figure_size,
                css="map",
                map=str(j),
            ),
        )
        for j, display in enumerate(data.maps)
    ]


def subtype_pictures(display: SubtypesDisplay) -> list[tuple[str, list[tuple[int, float, str]]]]:
    """Mean images of the first layer's subtypes per side: (side, [(expert, share, data URL)]), on one scale of grey."""
    assert display.shape is not None
    low, high = float(display.means.min()), float(display.means.max())
    sides: dict[str, list[tuple[int, float, str]]] = {}
    for side, expert, share, mean in zip(display.sides, display.experts, display.shares, display.means, strict=True):
        one = (expert, float(share), _grey(mean.reshape(display.shape), low, high))
        sides.setdefault(str(side), []).append(one)
    return list(sides.items())


def _grey(values: FloatArray, low: float, high: float) -> str:
    """An image from black (``low``) to white (``high``) as a data URL."""
    from PIL import Image

    stream = io.BytesIO()
    grey = np.rint(255.0 * (values - low) / (high - low if high > low else 1.0)).astype(np.uint8)
    Image.fromarray(grey).save(stream, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
