"""What a fitted classifier of images can do: predict, say how sure it is, be saved and exported; and what grows on its features."""

import math
import os
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pbdn.config import FitConfig
from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.open_stream import KeptRows
from pbdn.data.streams import StreamedSource
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.estimators.classifier import PBDNClassifier
from pbdn.estimators.frames import channels_last, image_array
from pbdn.files import SCHEMA_VERSION, atomic_write, check_schema, container_bytes, read_container
from pbdn.files.estimator import estimator_from_parts, estimator_parts, with_prefix
from pbdn.growth.depth import Engine, Growth, LayerFit
from pbdn.growth.engines import MapEngine
from pbdn.growth.fit_network import FitResult
from pbdn.growth.run import Run
from pbdn.inspection.access import network_of
from pbdn.model.network import Layer, Network
from pbdn.model.response import Response
from pbdn.numerics.arrays import FloatArray
from pbdn.plots import ExpertImagesDisplay
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
SALIENT_ROWS = 256  # images that gradients go through at a time
MOST_PIXELS, MOST_EXPERTS = 1 << 26, 1 << 12  # that a file may ask memory for


class GrownOnHead(MapEngine):
    """Layers by MAP on top of a first layer that has learned together with a trunk."""

    first: Layer

    def fit_layer(self, depth: int) -> LayerFit:
        """The first layer as it is; the others are optimised."""
        if depth > 1:
            return super().fit_layer(depth)
        scores = log_likelihoods(self.source, *pack(self.first.sides), self.response.labelling.positive)
        return LayerFit(self.first, tuple(scores.tolist()))


class FeatureClassifier(PBDNClassifier):
    """A PBDNClassifier on features of a trunk, whose first layer may be given (``first_layer``)."""

    first_layer: Layer | None = None

    def _make_engine(
        self, rows: LabelledRows | StreamedSource, response: Response, config: FitConfig, run: Run, path: int = 0
    ) -> Engine:
        if self.first_layer is None or config.inference == "gibbs" or not isinstance(rows, LabelledRows):
            return super()._make_engine(rows, response, config, run, path)
        engine = GrownOnHead(rows.source(response.n_outputs), response, config.map, run)
        engine.first = self.first_layer
        return engine

    def adopt_layer(self, layer: Layer, rows: LabelledRows, classes: NDArray[Any]) -> None:
        """Become a network of this one layer."""
        self.classes_, self.n_features_in_ = classes, rows.n_features
        response = self._response()
        self.config_ = self._resolve(response, "map", "aic_inputs")
        network = Network((layer,), rows.n_features, response)
        some = KeptRows.none(rows.n_features, after_a_fit=False).joined_by(rows.inputs)
        self._adopt(FitResult(network, Growth((), (), "incremental"), []), some)


def read_images(X: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Images as a float tensor (n, channels, height, width); ``shape`` is that of one image in the fit."""
    return torch.as_tensor(np.ascontiguousarray(image_array(X, shape, np.float32).transpose(0, 3, 1, 2)))


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

    def saliency(self, X: Any, side: int = 0, expert: int = 0, n_steps: int = 16) -> FloatArray:
        """What each pixel adds to the signed distance of an expert of the first layer, (n, height, width).

        By integrated gradients along the way from the mean colour to the image, in ``n_steps`` steps: all pixels together add the
        difference between both, up to the error of the steps. Sides and experts are numbered as in ``classifier_.network_``.
        """
        images = self._images(X)
        sides = network_of(self.classifier_).layers[0].sides
        check_integer("side", side, 0, len(sides) - 1)
        check_integer("expert", expert, 0, sides[side].n_experts - 1)
        check_integer("n_steps", n_steps, 1)
        bias, *coefs = sides[side].hyperplanes[expert].tolist()
        plane = torch.as_tensor(coefs, device=self._device)
        found = []
        for some in images.split(SALIENT_ROWS):
            base = self.trunk_[0].center.expand_as(some)
            way, total = some.to(self._device) - base, torch.zeros_like(base)
            for step in range(n_steps):
                here = (base + (step + 0.5) / n_steps * way).requires_grad_()
                distance = self.head_.eval().standardized(self.trunk_.eval()(here)) @ plane + bias
                total += torch.autograd.grad(distance.sum(), here)[0]
            found.append((way * total / n_steps).sum(1).double().cpu().numpy())
        return np.concatenate(found)

    def report(self, X: Any, y: Any = None, path: str | os.PathLike[str] | None = None, **options: Any) -> str:
        """One offline HTML page about the model on these images, with pictures of its experts; see `PBDNClassifier.report`."""
        pictures = ExpertImagesDisplay.from_estimator(self, X, saliency=True, draw=False)
        return self.classifier_.report(self.features(X), y, path, **{"pictures": pictures} | options)

    def to_onnx(self) -> bytes:
        """Bytes of one ONNX model: raw ``images`` (n, channels, height, width) in, ``probabilities`` out."""
        check_is_fitted(self)
        height, width, n_channels = channels_last(self.image_shape_)
        network = self.head_.fold(network_of(self.classifier_))
        return to_onnx(self.trunk_, network, torch.zeros(2, n_channels, height, width), self.classes_.tolist())

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
