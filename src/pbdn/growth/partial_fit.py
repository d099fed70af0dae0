"""``partial_fit``: a network that learns batch by batch and grows only when told to."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from pbdn.data.source import ArraySource, encode
from pbdn.errors import InvalidInputError
from pbdn.fitting import FitPlan, FitResult
from pbdn.growth.grow import Growth
from pbdn.model.network import Layer, Network, Side
from pbdn.model.scaling import Scaling, identity_scaling, standard_scaling
from pbdn.sgd.online import IncrementalLayer
from pbdn.validation import check_labels_present


@dataclass
class Increment:
    """What `partial_fit` keeps: the frozen layers on scaled features, and the layer in training."""

    scaling: Scaling
    frozen: tuple[Layer, ...]
    plan: FitPlan
    layer: IncrementalLayer | None = None

    def learn(self, X: Any, codes: Any, weights: Any, initial: tuple[Side, ...] | None, start_layer: bool) -> None:
        """Take the steps of one call, on a new layer if asked to."""
        plan = self.plan
        if start_layer and self.layer is not None:
            self.frozen = (*self.frozen, Layer(self.layer.sides))
            self.layer = None
        inputs = self.scaling.apply(X)
        if self.frozen:
            wiring = Network((*self.frozen, self.frozen[-1]), X.shape[1], plan.skip, plan.complements)
            inputs = wiring.top_inputs(inputs)
        classes = np.arange(plan.n_classes)
        batch = ArraySource(inputs, codes, classes=classes, weights=weights, sparse_below=0.0)
        if self.layer is None:
            depth = len(self.frozen) + 1
            self.layer = IncrementalLayer(
                batch, plan.n_sides, depth, plan.map_config, plan.seed, initial, plan.complements
            )
        self.layer.learn(batch)

    def network(self, n_features: int) -> Network:
        """The network so far, on raw features."""
        assert self.layer is not None
        top = Layer(tuple(side.strongest_first() for side in self.layer.sides))
        return self.scaling.fold(Network((*self.frozen, top), n_features, self.plan.skip, self.plan.complements))


def unfold(scaling: Scaling, network: Network) -> Network:
    """The network on scaled features that `Scaling.fold` turns into this one."""
    return Scaling(-scaling.center / scaling.scale, 1.0 / scaling.scale).fold(network)


def _learns_in_steps(model: Any) -> bool:
    """Only MAP has batches to learn from; Gibbs sampling needs all rows in every sweep."""
    if model.inference != "map":
        raise AttributeError(
            f"partial_fit and grow need inference='map'; this estimator has inference={model.inference!r}."
        )
    return True


class IncrementalMixin:
    """`partial_fit` and `grow` for the estimators."""

    _increment: Any = None
    _grow_next = False

    @available_if(_learns_in_steps)  # type: ignore[untyped-decorator]
    def partial_fit(self: Any, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from one batch of rows, which need not be kept.

        The first call starts one layer of ``max_experts`` MAP experts per side and takes its standardisation
        from its rows (give a few hundred). Every call makes one shuffled pass of Adam steps over its rows, on
        the sides of the top layer; the prior counts against the rows that this layer has seen, and Adam's
        moments carry over between calls. Experts found inactive are dropped at the end of a call once
        ``map_config.prune_every`` steps have passed. Depth never changes unless `grow` is called. After `fit`
        or `load`, training of the fitted top layer goes on.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,)
            All labels that will ever come; needed in the first call.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        if isinstance(self.class_weight, str):
            raise InvalidInputError(
                f"class_weight={self.class_weight!r} cannot be known batch by batch; give a dict of weights."
            )
        is_first = getattr(self, "network_", None) is None
        X, y = _validate_batch(self, X, y, is_first)
        _settle_classes(self, classes, is_first)
        X, codes, weights = self._weigh(X, y, encode(y, self.classes_), sample_weight)
        initial: tuple[Side, ...] | None = None
        if self._increment is None:
            self._increment, initial = _begin(self, X, weights, None if is_first else self.network_)
        self._increment.learn(X, codes, weights, initial, self._grow_next)
        self._grow_next = False
        network = self._increment.network(X.shape[1])
        self._adopt(FitResult(network, Growth((), (), "incremental"), []))
        return self

    @available_if(_learns_in_steps)  # type: ignore[untyped-decorator]
    def grow(self: Any) -> Any:
        """Let the next `partial_fit` freeze the present layers and start a new one on top.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if self._single_side:
            raise InvalidInputError("An ISHMClassifier has one layer; use PBDNClassifier to grow.")
        self._grow_next = True
        return self

    def _forget_increment(self) -> None:
        """A new `fit` starts from nothing."""
        self._increment = None
        self._grow_next = False


def _validate_batch(model: Any, X: Any, y: Any, is_first: bool) -> tuple[Any, Any]:
    if is_first:
        validated: tuple[Any, Any] = model._validate_fit(X, y)
        return validated
    X = model._validate(X)
    check_labels_present(y)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    return X, y


def _settle_classes(model: Any, classes: Any, is_first: bool) -> None:
    """Fix the classes in the first call; later ones may only repeat them."""
    if not is_first:
        if classes is not None and not np.array_equal(np.unique(classes), model.classes_):
            raise InvalidInputError(
                f"classes={list(classes)!r} is not the same as on the last call to partial_fit: "
                f"{model.classes_.tolist()!r}."
            )
        return
    if classes is None:
        raise InvalidInputError("classes must be passed on the first call to partial_fit.")
    labels = np.unique(classes)
    if labels.size < 2 or (model._single_side and labels.size > 2):
        needed = "exactly two" if model._single_side else "at least two"
        raise InvalidInputError(f"classes={labels.tolist()!r}; {needed} are needed.")
    model.classes_, model.inference_ = labels, "map"


def _begin(model: Any, X: Any, weights: Any, network: Network | None) -> tuple[Increment, tuple[Side, ...] | None]:
    """A fresh start, or one from a fitted network (its top layer goes on, the layers below are frozen)."""
    plan = model._plan(np.empty(0, np.int64), None)
    scaling = standard_scaling(X, weights) if model.standardize else identity_scaling(X.shape[1])
    if network is None:
        return Increment(scaling, (), plan), None
    scaled = unfold(scaling, network)
    return Increment(scaling, tuple(Layer(layer.sides) for layer in scaled.layers[:-1]), plan), scaled.top.sides
