"""What other rooms ask of a fitted estimator: its network, its names, its rows checked."""

import re
import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from pbdn.data.frames import NamedArray, as_table
from pbdn.errors import InvalidInputError
from pbdn.model.network import Network
from pbdn.model.scaling import clip_features
from pbdn.numerics.arrays import FloatArray


def network_of(estimator: Any) -> Network:
    """The network of a fitted estimator; refuses a model of one class only."""
    check_is_fitted(estimator)
    if estimator.network_ is None:
        raise InvalidInputError("The model was fitted on one class only; there is no network to explain.")
    network: Network = estimator.network_
    return network


def feature_names(estimator: Any) -> list[str]:
    """Names of the features: those of the table it was fitted on, or x0, x1, …"""
    check_is_fitted(estimator)
    known = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(estimator.n_features_in_)] if known is None else [str(name) for name in known]


def input_names(estimator: Any) -> list[str]:
    """Names of what the first layer sees: the features and, in a curved network, their squares."""
    names, curve = feature_names(estimator), network_of(estimator).curve
    return names if curve is None else names + [f"{names[j]}²" for j in curve.columns.tolist()]


def side_names(estimator: Any) -> list[Any]:
    """What each side of a layer stands for: a class, or "not" a class."""
    return network_of(estimator).response.labelling.names(estimator.classes_.tolist())


def name_sides(estimator: Any, text: str) -> str:
    """A text with what each side stands for instead of its number: "side 0" becomes "side yes"."""
    if estimator.network_ is None:
        return text
    names = side_names(estimator)
    return re.sub(r"\bside (\d+)", lambda found: f"side {names[int(found[1])]}", text)


def checked_rows(estimator: Any, X: Any) -> Any:
    """Arrays for prediction, with the same columns as in fit, cut off where double precision ends."""
    check_is_fitted(estimator)
    X = as_table(X)
    with warnings.catch_warnings():
        if isinstance(X, NamedArray):
            known = getattr(estimator, "feature_names_in_", None)
            if known is not None and list(known) != X.columns:
                raise ValueError(
                    "The feature names should match those that were passed during fit. "
                    f"Got {X.columns[:5]}, fitted with {list(known)[:5]}."
                )
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            X = np.asarray(X)
        X = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64, order="C")
    return X if estimator.network_ is None else clip_features(X, estimator.network_.feature_limits)


def dense_rows(estimator: Any, X: Any) -> FloatArray:
    """`checked_rows`, dense."""
    rows = checked_rows(estimator, X)
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def with_names(estimator: Any, rows: FloatArray) -> FloatArray:
    """Rows under the names that the estimator was fitted with, so that its checks are silent."""
    if not hasattr(estimator, "feature_names_in_"):
        return rows
    return NamedArray(rows, feature_names(estimator))
