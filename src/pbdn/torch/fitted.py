"""What a fitted classifier of images can do: predict, say how sure it is, be saved and exported; and what grows on its features."""

import math
import os
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d

from pbdn.config import FitConfig
from pbdn.data.labelled_rows import LabelledRows, check_labels_present
from pbdn.data.streams import StreamedSource
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.estimators.classifier import PBDNClassifier
from pbdn.files import SCHEMA_VERSION, atomic_write, check_schema, container_bytes, read_container
from pbdn.files.estimator import estimator_from_parts, estimator_parts, with_prefix
from pbdn.growth.depth import Engine, Growth, LayerFit
from pbdn.growth.engines import MapEngine
from pbdn.growth.fit_network import FitResult
from pbdn.growth.run import Run
from pbdn.inspection.access import network_of
from pbdn.inspection.effects import FEWEST_ROWS
from pbdn.model.network import Layer, Network
from pbdn.model.response import Response
from pbdn.numerics.arrays import FloatArray
from pbdn.sgd.objective import pack
from pbdn.sgd.pruning import log_likelihoods
from pbdn.torch.head import PBDNHead
from pbdn.torch.network import to_onnx
from pbdn.torch.training import MOST_FEATURES, features_of, open_device, repeatable
from pbdn.validation import check_integer

KIND = "image_model"
STORED = (
    "n_features", "epochs", "batch_size", "learning_rate", "weight_decay", "inference", "max_depth", "max_experts",
    "standardize",
)  # fmt: skip
OF_CLASSIFIER = ("priors", "gibbs_config", "map_config", "criterion")  # stored with it
MOST_PIXELS, MOST_EXPERTS = 1 << 26, 1 << 12  # that a file may ask memory for


class GrownOnHead(MapEngine):
    """Layers by MAP on top of a first layer that has learned together with a trunk."""

    first: Layer

    def fit_layer(self, depth: int) -> LayerFit:
        """The first layer as it is; the others are optimised."""
        if depth > 1:
            return super().fit_layer(depth)
        scores = log_likelihoods(self.source, *pack(self.first.sides), self.labelling.positive)
        return LayerFit(self.first, tuple(scores.tolist()))


class FeatureClassifier(PBDNClassifier):
    """A PBDNClassifier on features of a trunk, whose first layer may be given (``first_layer``)."""

    first_layer: Layer | None = None

    def _make_engine(
        self, rows: LabelledRows | StreamedSource, response: Response, config: FitConfig, run: Run, path: int = 0
    ) -> Engine:
        if self.first_layer is None or config.inference == "gibbs" or not isinstance(rows, LabelledRows):
            return super()._make_engine(rows, response, config, run, path)
        engine = GrownOnHead(rows.source(response.n_outputs), response.labelling, config.map, run)
        engine.first = self.first_layer
        return engine

    def adopt_layer(self, layer: Layer, rows: LabelledRows, classes: NDArray[Any]) -> None:
        """Become a network of this one layer."""
        self.classes_, self.n_features_in_ = classes, rows.n_features
        response = self._response()
        self.config_ = self._resolve(response, "map", "aic_inputs")
        network = Network((layer,), rows.n_features, response)
        self._adopt(FitResult(network, Growth((), (), "incremental"), []), rows, FEWEST_ROWS)


def checked_labels(X: Any, y: Any) -> NDArray[Any]:
    """Labels of the images X."""
    check_labels_present(y)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    check_classification_targets(y)
    return np.asarray(y)


def read_images(X: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Images as a float tensor (n, channels, height, width); ``shape`` is that of one image in the fit."""
    try:
        X = np.asarray(check_array(X, allow_nd=True, ensure_2d=False, dtype=np.float32, input_name="X"))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"X cannot be read as images: {error}") from error
    if X.ndim not in (3, 4) or 0 in X.shape:
        raise InvalidInputError(
            f"X has the shape {X.shape}; images are arrays (n, height, width), (n, height, width, channels) or "
            "(n, channels, height, width). Reshape rows of pixels, e.g. X.reshape(-1, 28, 28)."
        )
    if shape is not None and X.shape[1:] != shape:
        raise InvalidInputError(f"X has images of the shape {X.shape[1:]}; the model was fitted on {shape}.")
    if X.ndim == 3:
        X = X[:, None]
    elif X.shape[3] <= X.shape[1]:
        X = X.transpose(0, 3, 1, 2)
    return torch.as_tensor(np.ascontiguousarray(X))


class FittedImages(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Methods of a fitted classifier of images; ``trunk_``, ``head_`` and ``classifier_`` are filled by its fit."""

    classes_: NDArray[Any]
    image_shape_: tuple[int, ...]
    trunk_: Any
    head_: PBDNHead
    classifier_: FeatureClassifier
    losses_: list[float]
    _device: Any
    _training: Any

    def _images(self, X: Any, reset: bool = False) -> Any:
        images = read_images(X, None if reset else self.image_shape_)
        if reset:
            self.image_shape_ = tuple(int(n) for n in np.shape(X)[1:])
        return images

    def _standardized(self, features: Any) -> FloatArray:
        with torch.no_grad():
            return np.asarray(self.head_.eval().standardized(features).double().cpu().numpy())

    def features(self, X: Any) -> FloatArray:
        """What the trunk makes of images, standardised: the rows of ``classifier_``, shape (n, n_features)."""
        check_is_fitted(self)
        return self._standardized(features_of(self.trunk_, self._images(X), self._device))

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, columns in the order of ``classes_``."""
        features = self.features(X)
        return self.classifier_.predict_proba(features)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Natural logarithm of `predict_proba`."""
        features = self.features(X)
        return self.classifier_.predict_log_proba(features)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each image."""
        features = self.features(X)
        return self.classifier_.predict(features)

    def predict_proba_interval(self, X: Any, level: float = 0.95) -> FloatArray:
        """Intervals of the class probabilities given the trunk, shape (n, n_classes, 2); see `PBDNClassifier`."""
        features = self.features(X)
        return self.classifier_.predict_proba_interval(features, level)

    def explain(self, X: Any) -> Any:
        """Which expert voted for each image (`PBDNClassifier.explain`)."""
        features = self.features(X)
        return self.classifier_.explain(features)

    def to_onnx(self) -> bytes:
        """Bytes of one ONNX model: raw ``images`` (n, channels, height, width) in, ``probabilities`` out."""
        check_is_fitted(self)
        shape = self.image_shape_ if len(self.image_shape_) == 3 else (*self.image_shape_, 1)
        n_channels, size = (shape[0], shape[1:]) if shape[2] > shape[0] else (shape[2], shape[:2])
        network = self.head_.fold(network_of(self.classifier_))
        return to_onnx(self.trunk_, network, torch.zeros(2, n_channels, *size), self.classes_.tolist())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file of data (see `load`); of a trunk of your own it holds the numbers only."""
        check_is_fitted(self)
        header, arrays = estimator_parts(self.classifier_)
        parameters = self.get_params(deep=False)
        whole = {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "classifier": header,
            "own_trunk": self.trunk is not None,
            "image_shape": list(self.image_shape_),
            "n_rows": self.head_.n_rows,
            "losses": [float(loss) for loss in self.losses_],
            "parameters": {name: parameters[name] for name in STORED},
        }
        stored = {f"classifier.{name}": array for name, array in arrays.items()}
        for part, module in (("trunk", self.trunk_), ("head", self.head_)):
            for name, tensor in module.state_dict().items():
                plain = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
                stored[f"{part}.{name}"] = plain.detach().cpu().numpy()
        atomic_write(path, container_bytes(whole, stored))

    @classmethod
    def load(cls, path: str | os.PathLike[str], trunk: Any = None, device: str = "auto") -> Self:
        """Read a model written by `save`; never executes anything from the file.

        Parameters
        ----------
        path : path
        trunk : torch.nn.Module, optional
            A trunk like the one that was given to the fit; needed where one was.
        device : str
        """
        header, arrays = read_container(path, kind=KIND)
        try:
            return cls._restored(header, arrays, path, trunk, device)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise FileFormatError(f"{os.fspath(path)!r} does not fit its trunk or is not complete: {error}.") from error

    @classmethod
    def _restored(cls, header: Any, arrays: Any, path: Any, trunk: Any, device: str) -> Self:
        check_schema(header["schema"])
        if header["own_trunk"] != (trunk is not None):
            needed = "the trunk it was fitted with: load(path, trunk=...)" if trunk is None else "no trunk"
            raise InvalidInputError(f"{os.fspath(path)!r} needs {needed}.")
        model = cls(**{name: header["parameters"][name] for name in STORED}, trunk=trunk, device=device)
        shape = tuple(int(n) for n in header["image_shape"])
        if not (len(shape) in (2, 3) and min(shape) > 0 and math.prod(shape) <= MOST_PIXELS):
            raise FileFormatError(f"{os.fspath(path)!r} is not a complete pbdn model: it has no shape of images.")
        check_integer("n_features", model.n_features, 1, MOST_FEATURES)
        check_integer("max_experts", model.max_experts, 1, MOST_EXPERTS)
        inner = estimator_from_parts(FeatureClassifier, header["classifier"], with_prefix("classifier.", arrays), path)
        for name in OF_CLASSIFIER:
            setattr(model, name, getattr(inner, name))
        model.classifier_, model.classes_, model.image_shape_ = inner, inner.classes_, shape
        model._device = open_device(device)
        with repeatable(0, model._device):
            model._begin(read_images(np.zeros((2, *shape), np.float32)), float(header["n_rows"]))
        for part, module in (("trunk", model.trunk_), ("head", model.head_)):
            state = with_prefix(f"{part}.", arrays)
            module.load_state_dict({name: torch.as_tensor(np.array(array)) for name, array in state.items()})
            module.eval()
        model.losses_ = list(header["losses"])
        return model

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit has come to its end."""
        return hasattr(self, "classifier_")

    def __sklearn_tags__(self) -> Any:
        """Images, not tables."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags
