"""What every display shares: axes, texts, legends, a table as a frame, and marks for a page."""

from dataclasses import dataclass
from typing import Any

from pbdn.errors import MissingExtraError

RAISES, LOWERS = "#b2182b", "#2166ac"  # what raises or lowers a unit
ACCENT, SOFT = "#2563a8", "#64748b"  # what is meant to be read first, and what stays behind


@dataclass(frozen=True)
class Mark:
    """What a page knows of a drawn part: a text to hover, a CSS class, and data for its script."""

    title: str = ""
    css: str = ""
    data: tuple[tuple[str, str], ...] = ()


class Marks(dict[str, Mark]):
    """The marks of one drawing, by the identifier that the part has in the SVG file."""

    def put(self, part: Any, title: str = "", css: str = "", **data: str) -> None:
        """Mark a part (a matplotlib artist)."""
        key = f"mark{len(self)}"
        part.set_gid(key)
        self[key] = Mark(title, css, tuple(data.items()))


def axes(ax: Any = None, **options: Any) -> tuple[Any, Any]:
    """Figure and axes to draw on: those given, or new ones."""
    if ax is not None:
        return ax.figure, ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("Drawing needs matplotlib", "plot") from None
    figure, new = plt.subplots(layout="constrained", **options)
    return figure, new


def ink_and_paper() -> tuple[Any, Any]:
    """Colours of text and of the background in the current style."""
    from matplotlib import rcParams

    return rcParams["text.color"], rcParams["axes.facecolor"]


def shown(text: Any, length: int = 40) -> str:
    """Text on one line, printable, cut in the middle where it is long, that matplotlib does not take for a formula."""
    line = "".join(one for one in " ".join(str(text).split()) if one.isprintable())
    end = max(1, (length - 1) // 4)
    line = line if len(line) <= length else f"{line[: length - 1 - end]}…{line[-end:]}"
    return line.replace("$", r"\$")


def beside(ax: Any, size: str = "medium") -> None:
    """A legend: inside the axes where it is short, to their right where it is long."""
    handles, labels = ax.get_legend_handles_labels()
    if len(labels) <= 5:
        ax.legend(handles, labels, fontsize=size)
    else:
        columns = -(-len(labels) // 20)
        ax.legend(handles, labels, fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1.0), ncols=columns)
