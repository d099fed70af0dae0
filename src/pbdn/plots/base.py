"""What every display shares: axes, a table as a frame, names and labels of an estimator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.inspection import subtypes as interpret

FloatArray = NDArray[np.float64]


def axes(ax: Any = None, **options: Any) -> tuple[Any, Any]:
    """Figure and axes to draw on: those given, or new ones."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("Drawing needs matplotlib: pip install 'pbdn[plot]'.") from None
    if ax is not None:
        return ax.figure, ax
    figure, new = plt.subplots(layout="constrained", **options)
    return figure, new


def shown(text: Any, length: int = 40) -> str:
    """Text on one line, cut where it is long, that matplotlib does not take for a formula."""
    line = " ".join(str(text).split())
    line = line if len(line) <= length else line[: length - 1] + "…"
    return line.replace("$", r"\$")


def beside(ax: Any, size: str = "medium") -> None:
    """A legend: inside the axes where it is short, to their right where it is long."""
    handles, labels = ax.get_legend_handles_labels()
    if len(labels) <= 5:
        ax.legend(handles, labels, fontsize=size)
    else:
        columns = -(-len(labels) // 20)
        ax.legend(handles, labels, fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1.0), ncols=columns)


def frame(columns: dict[str, Any]) -> Any:
    """A pandas frame where pandas is installed, else the columns."""
    try:
        import pandas as pd
    except ImportError:
        return columns
    return pd.DataFrame(columns)


def side_labels(estimator: Any) -> list[Any]:
    """What each side stands for."""
    return interpret.side_labels(estimator._network(), estimator.classes_.tolist())


def dense_rows(estimator: Any, X: Any) -> FloatArray:
    """Validated rows, dense."""
    rows = estimator._validate(X)
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def feature_number(estimator: Any, feature: Any) -> int:
    """The column of a feature given by name or number."""
    names = estimator._names()
    if isinstance(feature, str):
        if feature not in names:
            raise InvalidInputError(f"There is no feature {feature!r}; the model has {', '.join(names[:10])}.")
        return int(names.index(feature))
    if not 0 <= int(feature) < len(names):
        raise InvalidInputError(f"feature {feature!r} must lie between 0 and {len(names) - 1}.")
    return int(feature)
