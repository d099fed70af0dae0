"""What is asked of a fitted estimator: its network, the names of features and sides, checked rows."""

from typing import Any

import numpy as np

from pbdn.inspection.subtypes import side_labels
from pbdn.model.likelihood import FloatArray
from pbdn.model.network import Network
from pbdn.validation import NamedArray


def network_of(estimator: Any) -> Network:
    """The fitted network; an error where the fit saw one class only."""
    network: Network = estimator._network()
    return network


def feature_names(estimator: Any) -> list[str]:
    """Names of the features, x0, x1, … where the estimator was fitted without any."""
    return list(estimator._names())


def side_names(estimator: Any) -> list[Any]:
    """What each side stands for: a class, or "not" a class."""
    return side_labels(network_of(estimator), estimator.classes_.tolist())


def dense_rows(estimator: Any, X: Any) -> FloatArray:
    """Rows as the estimator checks them, dense."""
    rows = estimator._validate(X)
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def with_names(estimator: Any, rows: FloatArray) -> FloatArray:
    """Rows under the names that the estimator was fitted with, so that its checks are silent."""
    if not hasattr(estimator, "feature_names_in_"):
        return rows
    return NamedArray(rows, feature_names(estimator))
