"""What every display shares: axes, texts, legends, a table as a frame, and marks for a page."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.inspection.access import known_labels
from pbdn.inspection.quality import seen_times
from pbdn.numerics.arrays import FloatArray

RAISES, LOWERS = "#b2182b", "#2166ac"  # what raises or lowers a unit
ACCENT, SOFT = "#2563a8", "#64748b"  # what is meant to be read first, and what stays behind
PREDICTED = {
    "class": "classes",
    "grade": "grades",
    "number": "numbers",
    "count": "counts",
    "amount": "amounts",
    "time": "times",
}  # what estimators predict, in words
NUMBERS = ("number", "count", "amount", "time")
CLASSES = ("class", "grade")


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


def check_estimator(estimator: Any, display: type, *kinds: str, method: str = "") -> None:
    """Refuse an estimator that a display is not for, or that is not fitted.

    ``kinds`` are what it may predict (none given: anything). Any other that has the ``method`` will do too.
    """
    if method and hasattr(estimator, method):
        return
    if getattr(estimator, "_predicts", None) not in (kinds or PREDICTED):
        words = " or ".join(", ".join(PREDICTED[kind] for kind in kinds).rsplit(", ", 1))
        raise not_for(display, f"estimators of pbdn{' that predict ' if kinds else ''}{words}", estimator)
    check_is_fitted(estimator)


def not_for(display: type, meant: str, estimator: Any) -> InvalidInputError:
    """The error where a display is for other estimators, which are meant."""
    return InvalidInputError(
        f"{display.__name__} is for {meant}; {type(estimator).__name__} is none. If it holds one, as a pipeline does, give that "
        "one and the rows that it takes."
    )


def observed_numbers(estimator: Any, y: Any, n_rows: int, display: type) -> FloatArray:
    """Numbers as the estimator reads them, one for each row."""
    bounds, values = estimator._said(y)
    if estimator._predicts != "count" and not np.array_equal(bounds[:, 0], bounds[:, 1]):
        raise InvalidInputError(
            f"{display.__name__} compares with values, but y has bounds of some, as of censored times; use log_score."
        )
    return _one_for_each(values, n_rows)


def observed_labels(y: Any, n_rows: int, classes: Any = None) -> NDArray[Any]:
    """Labels, one for each row, all of them among ``classes`` if these are given."""
    return _one_for_each(known_labels(y, classes), n_rows)


def observed_times(
    estimator: Any, y: Any, n_rows: int, display: type
) -> tuple[FloatArray, NDArray[np.bool_], FloatArray]:
    """`seen_times` of what the estimator reads in y, one for each row."""
    return seen_times(_one_for_each(estimator._said(y)[0], n_rows), display.__name__)


def _one_for_each(values: NDArray[Any], n_rows: int) -> NDArray[Any]:
    if len(values) != n_rows:
        raise InvalidInputError(f"y has the length {len(values)}, but X has {n_rows} rows; give one value for each.")
    return values


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
