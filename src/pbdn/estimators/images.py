"""Images as arrays (n, height, width, channels), and their labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from pbdn.data.labelled_rows import check_labels_present
from pbdn.errors import InvalidInputError


def checked_labels(X: Any, y: Any) -> NDArray[Any]:
    """Labels of the images X."""
    check_labels_present(y)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    check_classification_targets(y)
    return np.asarray(y)


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
    return images if images.shape[3] <= images.shape[1] else images.transpose(0, 2, 3, 1)
