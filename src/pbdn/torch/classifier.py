"""A classifier of images in scikit-learn's convention: a trunk and a layer of experts learn together, then the network grows."""

import copy
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state

from pbdn.config import GibbsConfig, MapConfig
from pbdn.config.defaults import INFERENCES
from pbdn.data.labelled_rows import settled_classes, weigh_rows
from pbdn.data.row_source import encode
from pbdn.errors import InvalidInputError
from pbdn.estimators.frames import checked_labels
from pbdn.growth.progress import ProgressBar
from pbdn.model.priors import Hyperpriors
from pbdn.torch.fitted import FeatureClassifier, FittedImages
from pbdn.torch.head import PBDNHead
from pbdn.torch.training import (
    HEAD_RATE,
    MOST_FEATURES,
    Pixels,
    Training,
    features_of,
    mean_one,
    open_device,
    repeatable,
    settle,
    small_trunk,
)
from pbdn.validation import check_choice, check_finite, check_flag, check_integer


class ConvPBDNClassifier(FittedImages):
    """A PBDN on the features of a convolutional trunk.

    The trunk and the first layer of experts learn together, by the objective of the method. Then the trunk stays as it is: the
    first layer learns on alone until the experts that are not needed have died, and further layers grow on the features while
    the criterion falls. At last some images that were kept back say how sure the network may be: the trunk knows the others too
    well.

    Parameters
    ----------
    trunk : torch.nn.Module or None, default=None
        Takes images (n, channels, height, width) and gives features (n, width). It is copied. None is a small one: six
        convolutions with batch normalisation and a global mean.
    n_features : int, default=64
        Features of the small trunk, at most 128.
    epochs : int, default=20
        Passes over the images in which trunk and first layer learn together.
    batch_size : int, default=128
    learning_rate : float, default=0.002
        Adam's step of the trunk.
    weight_decay : float, default=1e-4
        Of the trunk; experts have their prior.
    augment : callable or None, default=None
        Takes a batch of images, a tensor (n, channels, height, width) on the device, and returns one like it. In training
        only.
    inference : {"map", "map+gibbs", "gibbs"}, default="map"
        On the features, as in `PBDNClassifier`. "map+gibbs" adds posterior draws of the top layer given trunk and lower
        layers, for intervals. "gibbs" samples all layers on the features anew.
    criterion : str or callable, default="aic_inputs"
        What decides the depth, as in `PBDNClassifier`. "folds" and "holdout" train all layers on the features anew.
    max_depth : int, default=5
    max_experts : int, default=20
    priors, gibbs_config, map_config
        As in `PBDNClassifier`.
    standardize : bool, default=True
        Scale the pixels of each channel to mean 0 and standard deviation 1. Turn it off where the trunk expects other ones.
    device : str, default="auto"
        A torch device. "auto" is "cuda" or "mps" where there is one, else "cpu".
    n_jobs : int or None, default=None
        Threads of what happens on the features.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        Show progress.

    Attributes
    ----------
    classes_ : array
    image_shape_ : tuple
        Shape of one image of X.
    trunk_ : torch.nn.Module
    head_ : PBDNHead
        The first layer.
    classifier_ : PBDNClassifier
        On `features`: subtypes, explanations, report, ``criterion_path_``, ``network_``, exports.
    losses_ : list of float
        Objective per row in every pass.
    """

    def __init__(
        self,
        *,
        trunk: Any = None,
        n_features: int = 64,
        epochs: int = 20,
        batch_size: int = 128,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-4,
        augment: Any = None,
        inference: str = "map",
        criterion: Any = "aic_inputs",
        max_depth: int = 5,
        max_experts: int = 20,
        priors: Hyperpriors | None = None,
        gibbs_config: GibbsConfig | None = None,
        map_config: MapConfig | None = None,
        standardize: bool = True,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.trunk = trunk
        self.n_features = n_features
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.augment = augment
        self.inference = inference
        self.criterion = criterion
        self.max_depth = max_depth
        self.max_experts = max_experts
        self.priors = priors
        self.gibbs_config = gibbs_config
        self.map_config = map_config
        self.standardize = standardize
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------------ training

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labelled images.

        Parameters
        ----------
        X : array of shape (n, height, width), (n, height, width, channels) or (n, channels, height, width)
            Of the last two, the shorter axis is the channels; the last one where they are equal.
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        self.__dict__.pop("classifier_", None)  # a fit that does not end leaves nothing of the one before
        images, y = self._images(X, reset=True), checked_labels(X, y)
        self.classes_ = np.unique(y)
        rows = weigh_rows(np.arange(len(y))[:, None], y, encode(y, self.classes_), sample_weight, None)
        if np.unique(rows.codes).size < 2:
            raise InvalidInputError(f"y has only one class ({y[0]!r}); give images of at least two classes.")
        seed = self._seed()
        kept, codes, weights = rows.inputs[:, 0], torch.as_tensor(rows.codes), mean_one(rows.weights)
        with repeatable(seed, self._device), ProgressBar(self.verbose > 0) as bar:
            self._begin(images, rows.total_weight)
            training = Training(self.trunk_, self.head_, self.learning_rate, self.weight_decay)
            self.losses_ = training.run(
                images[kept],
                codes,
                weights,
                epochs=self.epochs,
                batch_size=self.batch_size,
                augment=self.augment,
                on_epoch=lambda done, loss: bar.update("trunk", self.epochs, "trunk", done, f"loss {loss:.4g}"),
            )
            features = features_of(self.trunk_, images, self._device)
            settle(self.head_, features[kept], codes, weights, batch_size=self.batch_size, n_steps=training.n_steps)
        model = self._new_classifier(seed)
        model.first_layer = self.head_.to_layer()
        inputs = self._standardized(features)
        model.fit(inputs[kept], y[kept], rows.weights)
        del model.first_layer
        self.classifier_, self._training = model, None
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one batch of images by one pass over it: trunk and first layer.

        The first call takes the scale of pixels from its images. Features move with the trunk, so the network has one layer
        afterwards, also where `fit` had grown more.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array
            All labels that will ever come; needed in the first call.

        Returns
        -------
        self
        """
        self._check_parameters()
        is_first = not hasattr(self, "classifier_")
        images, y = self._images(X, reset=is_first), checked_labels(X, y)
        self.classes_ = settled_classes(classes, None if is_first else self.classes_, None)
        rows = weigh_rows(np.arange(len(y))[:, None], y, encode(y, self.classes_), sample_weight, None)
        seed = self._seed() + (0 if is_first else len(self.losses_))  # another order in every call
        with repeatable(seed, self._device):
            if is_first:
                self._begin(images, rows.total_weight)
            else:
                self.head_.n_rows += rows.total_weight
            if self._training is None:
                rates = (self.learning_rate, self.weight_decay, HEAD_RATE, HEAD_RATE)
                self._training = Training(self.trunk_, self.head_, *rates)
            self.losses_ += self._training.run(
                images[rows.inputs[:, 0]],
                torch.as_tensor(rows.codes),
                mean_one(rows.weights),
                epochs=1,
                batch_size=self.batch_size,
                augment=self.augment,
                falling=False,
            )
        features = self._standardized(features_of(self.trunk_, images, self._device))
        model = self._new_classifier(seed)
        model.adopt_layer(self.head_.to_layer(), rows.with_inputs(features[rows.inputs[:, 0]]), self.classes_)
        self.classifier_ = model
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, by name; those of `PBDNClassifier` are checked by it."""
        check_integer("n_features", self.n_features, 1, MOST_FEATURES)
        for name in ("epochs", "batch_size"):
            check_integer(name, getattr(self, name), 1)
        check_finite("learning_rate", self.learning_rate)
        check_finite("weight_decay", self.weight_decay, zero=True)
        check_flag("standardize", self.standardize)
        check_choice("inference", self.inference, INFERENCES[1:])
        if self.augment is not None and not callable(self.augment):
            raise InvalidInputError(f"augment={self.augment!r} must be None or a function of a batch of images.")
        if self.trunk is not None and not isinstance(self.trunk, torch.nn.Module):
            raise InvalidInputError(f"trunk={self.trunk!r} must be None or a torch.nn.Module.")
        self._new_classifier(0)._check_parameters()
        self._device = open_device(self.device)

    def _begin(self, images: Any, n_rows: float) -> None:
        """A fresh trunk and a fresh head."""
        self.trunk_ = self._whole_trunk(images, self.trunk)
        with torch.no_grad():
            example = self.trunk_.eval()(images[:2].to(self._device))
        if example.ndim != 2:
            raise InvalidInputError(
                f"The trunk gives features of the shape {tuple(example.shape)}; (n, width) is needed. End it with a global "
                "pooling and torch.nn.Flatten()."
            )
        head = PBDNHead(example.shape[1], self.classes_.size, n_rows, max_experts=self.max_experts, priors=self.priors)
        self.head_ = head.to(self._device)
        self.losses_ = []
        self._training: Training | None = None

    def _whole_trunk(self, images: Any, trunk: Any) -> Any:
        """Scaling of pixels, then the trunk."""
        n_channels, height, width = images.shape[1:]
        center, scale = torch.zeros(n_channels), torch.ones(n_channels)
        if self.standardize:
            center, spread = images.mean((0, 2, 3)), images.std((0, 2, 3), correction=0)
            scale = torch.where(spread > 0, spread, 1.0)
        own = small_trunk(n_channels, height, width, self.n_features) if trunk is None else copy.deepcopy(trunk)
        return torch.nn.Sequential(Pixels(center, scale), own).to(self._device)

    def _new_classifier(self, seed: int) -> FeatureClassifier:
        """What grows on the features, which are standardised."""
        names = ("inference", "criterion", "max_depth", "max_experts", "priors", "gibbs_config", "map_config", "n_jobs")
        options = {name: getattr(self, name) for name in (*names, "verbose")}
        return FeatureClassifier(**options, standardize=False, random_state=seed)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))
