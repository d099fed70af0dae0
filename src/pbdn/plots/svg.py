"""A display as SVG inside a web page: matplotlib draws, then the file is fitted to the page.

Text stays text. Marked parts get a text to hover, a class and data for scripts. Colours of ink, paper and lines become the
page's CSS variables, so that the picture follows a dark page. The same display gives the same bytes.
"""

import copy
import io
import re
import warnings
import xml.etree.ElementTree as ET
from typing import Any

from pbdn.errors import MissingExtraError
from pbdn.plots.base import ACCENT, LOWERS, RAISES, SOFT, Mark, Marks

INK, PAGE, LINE = "#1e293b", "#ffffff", "#e2e8f0"
VARIABLES = {
    INK: "--ink",
    PAGE: "--page",
    LINE: "--line",
    RAISES: "--raises",
    LOWERS: "--lowers",
    ACCENT: "--mark",
    SOFT: "--soft",
}
STYLE = {
    "axes.edgecolor": INK,
    "axes.facecolor": PAGE,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 9.0,
    "grid.color": LINE,
    "legend.edgecolor": LINE,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
PIXELS_PER_POINT = 96.0 / 72.0

_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONTS = re.compile(r"'?DejaVu Sans'?[^;]*")
_REFERENCE = re.compile(r"#([\w.-]+)")


def page_svg(
    display: Any, name: str, label: str, size: tuple[float, float] = (4.6, 3.2), css: str = "", **data: str
) -> str:
    """An ``<svg>`` element with a drawing of the display.

    Parameters
    ----------
    display : one of `pbdn.plots`
        Its own axes, if it has any, are left alone.
    name : str
        Identifier of the element, unique in the page.
    label : str
        What is seen, for readers who cannot.
    size : (width, height) in inches
    css, data
        Class and data attributes of the element.
    """
    try:
        from matplotlib import style
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("Pictures of a report need matplotlib", "report") from None
    stream = io.BytesIO()
    with style.context(["default", {**STYLE, "svg.hashsalt": name}]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the browser has fonts of its own
        figure = Figure(figsize=size, layout="constrained")
        drawn = copy.copy(display).plot(figure.subplots())
        figure.savefig(stream, format="svg", metadata={"Date": None})
    root = ET.fromstring(stream.getvalue())
    _use_plain_names(root)
    _tidy(root)
    _put_marks(root, drawn.marks_)
    _keep_needed_ids(root, name)
    width = float(root.get("viewBox", "0 0 0 0").split()[2]) * PIXELS_PER_POINT
    root.attrib = {"viewBox": root.get("viewBox", ""), "width": f"{width:.0f}", "role": "img", "aria-label": label}
    root.attrib |= {"id": name, "stroke-linejoin": "round", **({"class": css} if css else {})}
    root.attrib |= {f"data-{key}": value for key, value in data.items()}
    return ET.tostring(root, encoding="unicode")


def _use_plain_names(root: ET.Element) -> None:
    """Tags and attributes without namespaces, as a page has them; metadata and style sheets are dropped."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    for element in list(root.iter()):
        for child in list(element):
            if child.tag in ("metadata", "style"):
                element.remove(child)


def _tidy(root: ET.Element) -> None:
    """Two decimals, no blank text, the page's fonts and colours, the style of many equal marks once."""
    for element in root.iter():
        if element.tag != "text":
            element.text = None
        element.tail = None
        if element.tag == "image":
            element.attrib.pop("style", None)  # cells flow into each other instead of standing out as squares
        for key, value in element.attrib.items():
            if key == "style":
                value = _FONTS.sub("system-ui, sans-serif", value)
                for colour, variable in VARIABLES.items():
                    value = value.replace(colour, f"var({variable})")
            if key == "href":
                element.set(key, value.replace("\n", ""))
            elif key != "transform" or "matrix" not in value:
                element.set(key, _NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value))
        styles = {child.get("style") for child in element}
        if len(element) > 1 and len(styles) == 1 and {child.tag for child in element} == {"use"}:
            element.set("style", styles.pop() or "")
            for child in element:
                del child.attrib["style"]


def _put_marks(root: ET.Element, marks: Marks) -> None:
    """Titles, classes and data of the marked parts."""
    for element in root.iter():
        mark = marks.get(element.get("id", ""))
        if mark is not None:
            _put_mark(element, mark)


def _put_mark(element: ET.Element, mark: Mark) -> None:
    if mark.title:
        title = ET.Element("title")
        title.text = "".join(one if one.isprintable() else " " for one in mark.title)
        element.insert(0, title)
    if mark.css:
        element.set("class", mark.css)
    for key, value in mark.data:
        element.set(f"data-{key}", value)


def _keep_needed_ids(root: ET.Element, name: str) -> None:
    """Identifiers that the picture refers to, under the name of the picture; no others."""
    needed: set[str] = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            if value.startswith(("#", "url(#")):
                needed.update(_REFERENCE.findall(value))
                element.set(key, _REFERENCE.sub(lambda found: f"#{name}-{found[1]}", value))
    for element in root.iter():
        key = element.attrib.pop("id", "")
        if key in needed:
            element.set("id", f"{name}-{key}")
