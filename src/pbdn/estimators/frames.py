"""Rows as they come: frames with missing values, categories, text and dates become features before they are fitted. Images too."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from pbdn.config import MapConfig
from pbdn.data.arrow_parquet import open_dataset
from pbdn.data.open_stream import existing
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.inspection.access import refuse_infinite, refuse_infinite_cell
from pbdn.inspection.columns import column_groups
from pbdn.inspection.effects import training_importances
from pbdn.inspection.shapley import ShapleyValues, shapley_values
from pbdn.numerics.arrays import FloatArray, NamedArray, as_table
from pbdn.tables.preparation import Preparation
from pbdn.tables.table import Table, collected, needs_preparation
from pbdn.tables.transformer import TablePreparation
from pbdn.validation import check_are_classes, check_labels_present

MEDIAN_ROWS = 10_000  # at most about twice as many rows decide what stands in for values that are missing later


class RowPreparation(TablePreparation):
    """`TablePreparation` inside an estimator.

    Infinite numbers are refused. At prediction, arrays take the names of the frame in their order.
    """

    def _table(self, X: Any, reset: bool) -> tuple[Table, tuple[str, ...]]:
        table, categories = super()._table(X, reset)
        for name, values in table.columns.items():
            if values.dtype.kind == "f" and np.isinf(values).any():
                refuse_infinite(name, int(np.argmax(np.isinf(values))))
        if reset:
            return table, categories
        plans = self.preparation_.columns
        cells = zip(plans, table.columns.values(), strict=True)  # names, where there are any, were compared above
        return replace(table, columns={plan.name: values for plan, values in cells}), ()

    def prepared(self, X: Any, y: Any, numbers: FloatArray | None, sample_weight: Any) -> "PreparedRows":
        """Decide, and prepare the training rows, which say labels or numbers and count by their weights."""
        if y is not None:
            check_are_classes(y)
        return PreparedRows(self._learn_and_transform(X, y, numbers, sample_weight), self)


class PreparedRows(NamedArray):
    """Features with the preparation that made them. An estimator that is fitted on them takes raw rows afterwards."""

    preparation: RowPreparation

    def __new__(cls, values: FloatArray, preparation: RowPreparation) -> "PreparedRows":
        """Wrap features."""
        array = np.asarray(values).view(cls)
        array.columns, array.preparation = preparation.preparation_.feature_names, preparation
        return array


def checked_for_fit(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any]:
    """Arrays from whatever came; the estimator remembers the number and the names of the columns.

    Anything but present numbers is prepared first (docs/columns.md); the estimator then keeps the ``preparation_``.
    """
    require_target(y)
    check_labels_present(y)
    rows, y = _checked(estimator, X, y, sample_weight)
    check_are_classes(y)
    return rows, y


def checked_inputs(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """`checked_for_fit` of the rows alone, where what they say is not a label."""
    return _checked(estimator, X, None, sample_weight, y)[0]


def require_target(y: Any) -> None:
    """Refuse a fit without targets."""
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")


def _checked(estimator: Any, X: Any, y: Any, sample_weight: Any, said: Any = None) -> tuple[Any, Any]:
    forget_preparation(estimator)
    if not isinstance(X, PreparedRows) and needs_preparation(X):
        X = RowPreparation().prepared(collected(X), y, _numbers(said), sample_weight)
    X = as_table(X)
    names = X.columns if isinstance(X, NamedArray) else None
    targets = () if y is None else (y,)
    try:
        checked = validate_data(
            estimator, np.asarray(X) if names else X, *targets, accept_sparse="csr", dtype=np.float64, order="C"
        )
    except ValueError as error:
        if "X contains infinity" not in str(error):
            raise
        refuse_infinite_cell(X)
    rows, y = (checked, None) if y is None else checked
    if isinstance(X, PreparedRows):
        remember_preparation(estimator, X.preparation)
        return rows, y
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    remember_medians(estimator, rows)
    return rows, y


def _numbers(y: Any) -> FloatArray | None:
    """One number for each row, where rows say numbers: times whatever ended them, the middle of two bounds."""
    said = np.asarray(None if hasattr(y, "columns") else y)  # a frame of times has events beside them
    if said.dtype.names is not None and "time" in said.dtype.names:
        said = said["time"]
    if said.dtype.kind not in "fiu" or said.ndim not in (1, 2):
        return None
    return np.asarray(said.reshape(len(said), -1).mean(axis=1), dtype=np.float64)


def forget_preparation(estimator: Any) -> None:
    """Before a new fit: nothing of the preparation of an old one is left."""
    estimator._stand_ins = None
    if estimator.__dict__.pop("preparation_", None) is not None:
        del estimator.column_groups_


def remember_medians(estimator: Any, rows: Any) -> None:
    """What stands in for values that are missing later; sparse rows have nothing to stand in."""
    if isinstance(rows, np.ndarray):
        estimator._stand_ins = np.median(rows[:: max(1, len(rows) // MEDIAN_ROWS)], axis=0).astype(np.float64)


def remember_preparation(estimator: Any, preparation: RowPreparation) -> None:
    """Let the estimator take raw rows; the number and names of its features are those of the raw columns."""
    estimator.preparation_ = preparation
    estimator.column_groups_ = preparation.preparation_.groups
    estimator.n_features_in_ = preparation.n_features_in_
    estimator.__dict__.pop("feature_names_in_", None)
    if hasattr(preparation, "feature_names_in_"):
        estimator.feature_names_in_ = preparation.feature_names_in_


def restore_preparation(estimator: Any, stored: Any) -> None:
    """`remember_preparation` of what a file holds."""
    preparation = Preparation.from_json(stored)
    network = estimator.network_
    if network is not None and len(preparation.feature_names) != network.n_features:
        raise FileFormatError("The file is damaged: its columns do not fit its network. Fit again.")
    named = hasattr(estimator, "feature_names_in_")
    remember_preparation(estimator, RowPreparation.from_preparation(preparation))
    if not named:  # fitted on an array
        del estimator.feature_names_in_, estimator.preparation_.feature_names_in_


def raw_pieces(estimator: Any, X: Any) -> Any:
    """A stream for prediction: Parquet and Arrow data as Arrow tables, if the estimator prepares columns."""
    is_path = isinstance(X, str | os.PathLike)
    if not hasattr(estimator, "preparation_") or not (is_path or hasattr(X, "get_fragments")):
        return X
    import pyarrow as pa

    data = open_dataset(existing(X)) if is_path else X
    names = [plan.name for plan in estimator.preparation_.preparation_.columns]
    return (pa.Table.from_batches([batch]) for batch in data.to_batches(columns=names) if batch.num_rows)


def with_signs_of_features(estimator: Any, config: MapConfig | None) -> MapConfig | None:
    """``config`` with ``monotonic_cst`` for every feature of the network, from what it is for columns of X."""
    if config is None or config.monotonic_cst is None:
        return config
    given, n = config.monotonic_cst, estimator.n_features_in_
    names = [str(name) for name in getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(n)])]
    if isinstance(given, dict):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise InvalidInputError(
                f"monotonic_cst names {unknown[0]!r}, but X has the columns {', '.join(names[:10])}."
            )
        given = [given.get(name, 0) for name in names]
    if len(given) != n:
        raise InvalidInputError(f"monotonic_cst has {len(given)} values, but X has {n} columns; give one for each.")
    preparation = getattr(estimator, "preparation_", None)
    if preparation is None:
        return replace(config, monotonic_cst=tuple(given))
    signs: list[int] = []
    for plan, sign in zip(preparation.preparation_.columns, given, strict=True):
        if sign and plan.kind != "number" and not (plan.kind == "date" and plan.parts == ("days",)):
            raise InvalidInputError(
                f"monotonic_cst asks for a direction of {plan.name!r}, which is no number ({plan.words}); give 0 for it."
            )
        if sign and plan.tells:
            raise InvalidInputError(
                f"monotonic_cst asks for a direction of {plan.name!r}, which looks like a code ({plan.words}); give 0 for it, or "
                f"prepare X with TablePreparation(numeric_features=[{plan.name!r}]) before."
            )
        signs += [sign, *[0] * (len(plan.feature_names()) - 1)] if plan.feature_names() else []
    return replace(config, monotonic_cst=tuple(signs))


def column_importances(estimator: Any, rows: Any) -> FloatArray:
    """`training_importances` of the columns that came."""
    return per_column(estimator, training_importances(estimator, rows))


def column_shapley_values(estimator: Any, X: Any, background: Any, **options: Any) -> ShapleyValues:
    """`shapley_values` of the columns that came."""
    found, preparation = shapley_values(estimator, X, background, **options), getattr(estimator, "preparation_", None)
    if preparation is None:
        return found
    error = None if found.standard_error is None else per_column(estimator, found.standard_error, 1)
    names = [plan.name for plan in preparation.preparation_.columns]
    return replace(found, values=per_column(estimator, found.values, 1), standard_error=error, feature_names=names)


def per_column(estimator: Any, values: FloatArray, axis: int = 0) -> FloatArray:
    """Values of the groups of features as values of the columns that came; those left out have zeros."""
    preparation = getattr(estimator, "preparation_", None)
    if preparation is None:
        return values
    groups = [group.name for group in column_groups(estimator)]
    known = {name: np.take(values, g, axis) for g, name in enumerate(groups)}
    left_out = np.zeros(np.delete(values.shape, axis))
    return np.stack([known.get(plan.name, left_out) for plan in preparation.preparation_.columns], axis)


def checked_labels(X: Any, y: Any) -> NDArray[Any]:
    """Labels of the images X."""
    check_labels_present(y)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    check_are_classes(y)
    return np.asarray(y)


def channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Height, width and channels of one image of this shape; the shorter axis at the ends is the channels."""
    if len(shape) == 2:
        return *shape, 1
    return shape if shape[2] <= shape[0] else (*shape[1:], shape[0])


def image_array(X: Any, shape: tuple[int, ...] | None = None, dtype: Any = np.float64) -> NDArray[Any]:
    """Images with the channels last; ``shape`` is that of one image in the fit."""
    try:
        images: NDArray[Any] = np.asarray(check_array(X, allow_nd=True, ensure_2d=False, dtype=dtype, input_name="X"))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"X cannot be read as images: {error}") from error
    if images.ndim not in (3, 4) or 0 in images.shape:
        raise InvalidInputError(
            f"X has the shape {images.shape}; images are arrays (n, height, width), (n, height, width, channels) or "
            "(n, channels, height, width). Reshape rows of pixels, e.g. X.reshape(-1, 28, 28)."
        )
    if shape is not None and images.shape[1:] != shape:
        raise InvalidInputError(f"X has images of the shape {images.shape[1:]}; the model was fitted on {shape}.")
    if images.ndim == 3:
        return images[..., None]
    return images if channels_last(images.shape[1:]) == images.shape[1:] else images.transpose(0, 2, 3, 1)
