"""Labels and weights of rows in memory, checked."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight

from pbdn.data.labelled_rows import LabelledRows
from pbdn.errors import InvalidInputError


def check_labels_present(y: Any) -> None:
    """None, NaN or NA among the labels is named, not left to a comparison deep inside."""
    labels = np.asarray(y).ravel()
    if labels.dtype.kind == "f":
        missing = np.flatnonzero(np.isnan(labels)).tolist()
    else:
        missing = [i for i, label in enumerate(labels) if _is_missing(label)] if labels.dtype == object else []
    if missing:
        raise InvalidInputError(
            f"y has {len(missing)} missing label(s) (None, NaN or NA), the first at position {missing[0]}; "
            "drop those rows or label them."
        )


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or pandas' NA (whose comparisons are neither true nor false)."""
    if label is None:
        return True
    differs = label != label
    return not isinstance(differs, bool | np.bool_) or bool(differs)


def settled_classes(declared: Any, known: NDArray[Any] | None, most: int | None) -> NDArray[Any]:
    """The classes of a model that learns in batches: declared in the first one, where none are known; later ones may repeat them."""
    if known is not None:
        if declared is not None and not np.array_equal(np.unique(declared), known):
            raise InvalidInputError(
                f"classes={list(declared)!r} is not the same as on the last call to partial_fit: {known.tolist()!r}."
            )
        return known
    if declared is None:
        raise InvalidInputError("classes must be passed on the first call to partial_fit.")
    labels = np.unique(declared)
    if labels.size < 2 or (most is not None and labels.size > most):
        needed = "at least two" if most is None else "exactly two"
        raise InvalidInputError(f"classes={labels.tolist()!r}; {needed} are needed.")
    return labels


def weigh_rows(X: Any, y: Any, codes: NDArray[Any], sample_weight: Any, class_weight: Any = None) -> LabelledRows:
    """Rows that count, with sample_weight times class_weight; weights are None where all are one."""
    if sample_weight is None and class_weight is None:
        return LabelledRows(X, codes)
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64)).copy()
    if np.any(weights < 0):
        raise InvalidInputError(
            f"sample_weight must not be negative (smallest: {weights.min():g}); give weight 0 to rows that should not "
            "count."
        )
    if class_weight is not None:
        weights *= compute_sample_weight(class_weight, y)
    counts = weights > 0
    if not counts.any():
        raise InvalidInputError("sample_weight is zero for every row; give at least one row a positive weight.")
    rows = LabelledRows(X, codes, None if np.all(weights[counts] == 1.0) else weights)
    return rows if counts.all() else rows.take(counts)
