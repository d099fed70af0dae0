"""A classifier of pictures whose experts are filters on patches (experimental)."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pbdn.config import GibbsConfig, MapConfig
from pbdn.config.defaults import INFERENCES, resolve
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.estimators.classifier import PBDNClassifier
from pbdn.estimators.frames import channels_last, checked_labels, image_array
from pbdn.experimental.patches import (
    AnyPatch,
    Patches,
    PatchLayer,
    distinct_patches,
    fit_map,
    patch_rows,
    places,
    windows,
)
from pbdn.files import SCHEMA_VERSION, atomic_write, check_schema, container_bytes, read_container
from pbdn.files.estimator import (
    estimator_from_parts,
    estimator_parts,
    restored_parameters,
    stored_parameters,
    with_prefix,
)
from pbdn.files.network import network_from_arrays, network_to_arrays
from pbdn.gibbs.chain import run_chain
from pbdn.gibbs.state import state_from_side
from pbdn.model.criteria import aic_inputs
from pbdn.model.likelihood import log_likelihood
from pbdn.model.network import Layer, Network, Side
from pbdn.model.priors import Hyperpriors
from pbdn.model.response import response_for_classes
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.plots import ExpertImagesDisplay
from pbdn.validation import check_choice, check_flag, check_integer, check_kind

KIND = "patch_model"
DEFAULT_RATE, DEFAULT_STEPS = 0.05, 1500  # of Adam
SHARED = ("inference", "max_experts", "priors", "gibbs_config", "map_config")  # of the layers on the maps too
PICTURES_AT_A_TIME = 256  # whose patches are in memory where maps are made


class PatchPBDNClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A PBDN whose first layer looks for patches anywhere in a picture.

    An expert is a hyperplane on patches. A picture is of a side's class if any expert fires on any patch. Further layers see the
    maps of the first: how strongly each expert fires in each part of the picture.

    Parameters
    ----------
    patch : int, default=9
        Height and width of a patch.
    stride : int, default=2
        Pixels from one patch to the next.
    position : bool, default=True
        Whether an expert also sees where its patch lies, so that it may look for it in one part of the picture.
    inference : {"map", "gibbs", "map+gibbs"}, default="map"
        "gibbs" samples the first layer exactly from the prior on; "map+gibbs" starts at a fit by MAP. Both average their draws
        where the first layer is the only one. Further layers do the same on the maps.
    max_experts : int, default=10
        Of every side, at the start.
    max_depth : int, default=2
        Layers beyond the first are kept if AIC falls; 1 is the convolutional layer alone.
    n_parts : int, default=3
        Maps are cut into this many parts along each edge, and the maximum of each is taken.
    priors, gibbs_config, map_config
        As in `pbdn.PBDNClassifier`. Of ``map_config`` the first layer takes ``n_minibatches`` (default 1500), ``batch_size`` and
        ``learning_rate``.
    n_jobs : int or None, default=None
        Threads; a side has one.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : array
    layer_ : Layer
        Sides of patch experts on scaled pixels (and positions).
    n_experts_ : tuple of int
        Experts of every side of the first layer.
    classifier_ : PBDNClassifier or None
        The layers on the maps, if they were kept.
    criterion_ : tuple of float
        AIC of the first layer, and with the layers on its maps.
    """

    def __init__(
        self,
        *,
        patch: int = 9,
        stride: int = 2,
        position: bool = True,
        inference: str = "map",
        max_experts: int = 10,
        max_depth: int = 2,
        n_parts: int = 3,
        priors: Hyperpriors | None = None,
        gibbs_config: GibbsConfig | None = None,
        map_config: MapConfig | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.patch = patch
        self.stride = stride
        self.position = position
        self.inference = inference
        self.max_experts = max_experts
        self.max_depth = max_depth
        self.n_parts = n_parts
        self.priors = priors
        self.gibbs_config = gibbs_config
        self.map_config = map_config
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from labelled pictures.

        Parameters
        ----------
        X : array of shape (n, height, width), (n, height, width, channels) or (n, channels, height, width)
        y : array of shape (n,)

        Returns
        -------
        self
        """
        self._check_parameters()
        self.__dict__.pop("layer_", None)  # a fit that does not end leaves nothing of the one before
        images, y = image_array(X), checked_labels(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise InvalidInputError(f"y has only one class ({y[0]!r}); give pictures of at least two classes.")
        if min(images.shape[1:3]) < self.patch:
            raise InvalidInputError(f"patch={self.patch!r} is larger than the pictures, {images.shape[1:3]}.")
        self.image_shape_ = tuple(int(n) for n in np.shape(X)[1:])
        self._center, spread = images.mean(axis=(0, 1, 2)), images.std(axis=(0, 1, 2))
        self._scale = np.where(spread > 0, spread, 1.0)
        self._response = response_for_classes(self.classes_.size)
        targets = self._response.labelling.targets(codes)
        patches = distinct_patches(self._inputs(images))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        layer = self._first_layer(patches, targets, seed)
        likelihood = log_likelihood(PatchLayer(layer.sides).side_rate(patches), targets).sum()
        first = aic_inputs([layer], float(likelihood), len(y))
        self.classifier_: PBDNClassifier | None = None
        self.criterion_: tuple[float, ...] = (first,)
        self.n_experts_ = layer.n_experts
        if self.max_depth > 1:
            options = {name: getattr(self, name) for name in (*SHARED, "n_jobs")}
            model = PBDNClassifier(criterion="aic_inputs", max_depth=self.max_depth - 1, random_state=seed, **options)
            model.fit(self._maps(layer, images), y)
            coefficients = sum(side.hyperplanes.size for side in layer.sides)
            deeper = min(step["criterion"] for step in model.criterion_path_ if step["kept"]) + 2.0 * coefficients
            self.criterion_ = (first, deeper)
            self.classifier_ = model if deeper < first else None
        self.layer_ = layer
        return self

    def _check_parameters(self) -> None:
        for name in ("patch", "stride", "max_experts", "max_depth", "n_parts"):
            check_integer(name, getattr(self, name), 1)
        check_flag("position", self.position)
        check_choice("inference", self.inference, INFERENCES[1:])
        check_kind("priors", self.priors, Hyperpriors)
        check_kind("gibbs_config", self.gibbs_config, GibbsConfig)
        check_kind("map_config", self.map_config, MapConfig)

    def _first_layer(self, patches: Patches, targets: NDArray[np.bool_], seed: int) -> Layer:
        """Sides by MAP, or the recorded draws of chains with their kept draws."""
        options = {name: getattr(self, name) for name in SHARED}
        config = resolve(self._response, criterion="aic_inputs", max_depth=1, **options)
        sides: tuple[Side, ...] | None = None
        if self.inference != "gibbs":
            settings = config.map
            if settings.learning_rate is None:
                settings = replace(settings, learning_rate=DEFAULT_RATE)
            if self.map_config is None or self.map_config.n_minibatches is None:
                settings = replace(settings, n_minibatches=DEFAULT_STEPS)
            sides = fit_map(patches, targets, settings, np.random.default_rng(seed))
            if self.inference == "map":
                return Layer(tuple(side.strongest_first() for side in sides))
        rows = patch_rows(patches)

        def chain(s: int) -> Any:
            start = None if sides is None else state_from_side(sides[s], sides[s].n_experts)
            any_patch = AnyPatch(patches.starts, np.ascontiguousarray(targets[:, s]))
            return run_chain(rows, config.chain, seed, (1, s), response=any_patch, start=start)

        with ThreadPoolExecutor(int(effective_n_jobs(self.n_jobs))) as pool:
            found = list(pool.map(chain, range(targets.shape[1])))
        draws = zip(*(one.draws for one in found), strict=True)
        return Layer(tuple(one.side.strongest_first() for one in found), tuple(draws))

    # ------------------------------------------------------------------------------ pictures to numbers

    def _positions(self, height: int, width: int) -> tuple[IntArray, IntArray]:
        """Upper edges and left edges of the patches."""
        return np.arange(0, height - self.patch + 1, self.stride), np.arange(0, width - self.patch + 1, self.stride)

    def _inputs(self, images: FloatArray) -> FloatArray:
        """What experts see of every patch, (n, n_positions, d): scaled pixels, then its place and the squares of that."""
        pixels = windows((images - self._center) / self._scale, self.patch, self.stride)
        pixels = pixels.reshape(*pixels.shape[:2], -1)
        if not self.position:
            return pixels
        place = places(*self._positions(*images.shape[1:3]))
        return np.concatenate([pixels, np.broadcast_to(place, (len(images), *place.shape))], axis=2)

    def _maps(self, layer: Layer, images: FloatArray) -> FloatArray:
        """Largest s(x_ip'β_k) of every expert in every part of the picture, (n, n_experts n_parts²)."""
        shape = tuple(len(edges) for edges in self._positions(*images.shape[1:3]))
        cuts = [np.array_split(np.arange(n), min(self.n_parts, n)) for n in shape]
        found = []
        for first in range(0, len(images), PICTURES_AT_A_TIME):
            inputs = self._inputs(images[first : first + PICTURES_AT_A_TIME])
            units = layer.units(inputs.reshape(-1, inputs.shape[2])).reshape(len(inputs), *shape, -1)
            parts = [
                units[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].max(axis=(1, 2))
                for rows in cuts[0]
                for columns in cuts[1]
            ]
            found.append(np.concatenate(parts, axis=1))
        return np.concatenate(found)

    # ------------------------------------------------------------------------------ a fitted model

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, columns in the order of ``classes_``."""
        check_is_fitted(self)
        images = image_array(X, self.image_shape_)
        if self.classifier_ is not None:
            return self.classifier_.predict_proba(self._maps(self.layer_, images))
        draws = [PatchLayer(sides) for sides in self.layer_.draws] or [PatchLayer(self.layer_.sides)]
        found = []
        for first in range(0, len(images), PICTURES_AT_A_TIME):
            patches = distinct_patches(self._inputs(images[first : first + PICTURES_AT_A_TIME]))
            found.append(np.mean([self._response.prediction(one, patches) for one in draws], axis=0))
        return np.concatenate(found)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each picture."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def maps(self, X: Any) -> FloatArray:
        """How strongly each expert of the first layer fires in each part of the pictures, (n, n_experts n_parts²)."""
        check_is_fitted(self)
        return self._maps(self.layer_, image_array(X, self.image_shape_))

    def expert_patches(self, X: Any, *, n_nearest: int = 5, ax: Any = None, draw: bool = True) -> ExpertImagesDisplay:
        """The mean of the patches of X that each expert votes for, and those that it votes most for.

        Experts are those of the sides that are for a class. Rows of the display's ``images`` are patches.
        """
        check_is_fitted(self)
        images = image_array(X, self.image_shape_)
        inputs, pixels = self._inputs(images), windows(images, self.patch, self.stride)
        inputs, pixels = inputs.reshape(-1, inputs.shape[2]), pixels.reshape(-1, *pixels.shape[2:])
        labelling = self._response.labelling
        named = zip(labelling.names(self.classes_.tolist()), labelling.sides, self.layer_.sides, strict=True)
        names, sides = zip(*((name, side) for name, stands_for, side in named if stands_for >= 0), strict=True)
        display = ExpertImagesDisplay.of_sides(sides, names, inputs, pixels, n_nearest)
        return display.plot(ax) if draw else display

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file of data (see `load`)."""
        check_is_fitted(self)
        n_inputs = self.layer_.sides[0].hyperplanes.shape[1] - 1
        network, arrays = network_to_arrays(Network((self.layer_,), n_inputs, self._response))
        arrays |= {"pixels.center": self._center, "pixels.scale": self._scale}
        header = {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "parameters": stored_parameters(self),
            "classes": self.classes_,
            "image_shape": list(self.image_shape_),
            "criterion": list(self.criterion_),
            "network": network,
        }
        if self.classifier_ is not None:
            header["classifier"], own = estimator_parts(self.classifier_)
            arrays |= {f"classifier.{name}": array for name, array in own.items()}
        atomic_write(path, container_bytes(header, arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model written by `save`; never executes anything from the file."""
        header, arrays = read_container(path, kind=KIND)
        try:
            return cls._restored(header, arrays, path)
        except (KeyError, TypeError, AttributeError) as error:
            raise FileFormatError(f"{os.fspath(path)!r} is not a complete pbdn model: {error}.") from error

    @classmethod
    def _restored(cls, header: Any, arrays: Any, path: Any) -> Self:
        check_schema(header["schema"])
        model = cls(**restored_parameters(header["parameters"]))
        model._check_parameters()
        network = network_from_arrays(header["network"], arrays)
        model.classes_, model.layer_, model._response = np.asarray(header["classes"]), network.top, network.response
        model.n_experts_, model.criterion_ = network.top.n_experts, tuple(header["criterion"])
        model.image_shape_ = tuple(int(n) for n in header["image_shape"])
        model._center, model._scale = (np.array(arrays[f"pixels.{name}"], float) for name in ("center", "scale"))
        model.classifier_ = None
        if "classifier" in header:
            own = with_prefix("classifier.", arrays)
            model.classifier_ = estimator_from_parts(PBDNClassifier, header["classifier"], own, path)
        if not model._fits_together(network.n_features):
            raise FileFormatError(f"{os.fspath(path)!r} is not a complete pbdn model: its parts do not fit together.")
        return model

    def _fits_together(self, n_inputs: int) -> bool:
        """Whether the parts of a file belong to one model: pictures, scales of their pixels, experts, layers on the maps."""
        if len(self.image_shape_) not in (2, 3) or min(self.image_shape_) < 1:
            return False
        height, width, n_channels = channels_last(self.image_shape_)
        n_parts = math.prod(min(self.n_parts, len(edges)) for edges in self._positions(height, width))
        return (
            self.patch <= min(height, width)
            and n_inputs == self.patch**2 * n_channels + (4 if self.position else 0)
            and self._center.shape == self._scale.shape == (n_channels,)
            and bool(np.all(np.isfinite(self._center)) and np.all(self._scale > 0))
            and self._response == response_for_classes(self.classes_.size)
            and (self.classifier_ is None or self.classifier_.n_features_in_ == n_parts * sum(self.n_experts_))
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit has come to its end."""
        return hasattr(self, "layer_")

    def __sklearn_tags__(self) -> Any:
        """Pictures, not tables."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags
