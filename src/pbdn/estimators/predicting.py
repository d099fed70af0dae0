"""What a fitted estimator can do: predict, explain itself, be saved and exported.

Every method is one call of a function that takes the network; the functions live in the rooms named by the imports.
"""

import logging
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pbdn.data import open_stream as opening
from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.estimators.exporting import Exports
from pbdn.estimators.frames import raw_pieces
from pbdn.estimators.network import NetworkEstimator
from pbdn.inspection import subtypes
from pbdn.inspection.access import checked_rows, dense_rows, is_plain, no_draws
from pbdn.inspection.effects import feature_effects
from pbdn.model.committee import jackknife_interval
from pbdn.model.network import Network
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_share

logger = logging.getLogger("pbdn")

CHUNK_ROWS = 20_000  # rows predicted at a time from posterior draws


class FittedNetwork(Exports, ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """Methods and attributes of a fitted classifier.

    `pbdn.estimators.fitting.NetworkClassifier` fills ``classes_`` and, where there is one class only, ``only_class_``.
    """

    _most_classes: ClassVar[int | None] = None

    classes_: NDArray[Any]
    only_class_: int

    # --------------------------------------------------------------------------- prediction

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, columns in the order of ``classes_``.

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        if not is_plain(self, X):
            check_is_fitted(self)
            if opening.is_stream(X):
                X, names = raw_pieces(self, X), getattr(self, "feature_names_in_", None)
                return opening.predict_stream(self.predict_proba, X, names, self.classes_.size)
        X = checked_rows(self, X)
        if self.network_ is None:
            out = np.zeros((X.shape[0], self.classes_.size))
            out[:, self.only_class_] = 1.0
            return out
        if self.config_.prediction == "point" or not self.network_.top.draws:
            return np.asarray(self.network_.predict(X))
        out = np.empty((X.shape[0], self.classes_.size))
        on_device = [self._on_device(network, X) for network in self._averaged()]
        if all(found is not None for found in on_device):
            for several in zip(*on_device, strict=True):
                out[several[0][0]] = np.mean([probability.mean(1).cpu().numpy() for _, probability in several], axis=0)
            return out
        for low in range(0, X.shape[0], CHUNK_ROWS):
            part = X[low : low + CHUNK_ROWS]
            out[low : low + CHUNK_ROWS] = np.mean([network.predict_mean(part) for network in self._averaged()], axis=0)
        return out

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Natural logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def decision_function(self, X: Any) -> FloatArray:
        """Two classes: log-odds of the second, shape (n_samples,). More: log-probabilities, shape (n_samples, n_classes).

        The largest finite score stands for a probability of one.
        """
        score = np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))
        return score if self.classes_.size > 2 else np.asarray(score[:, -1] - score[:, 0])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; X, y and sample_weight as in `fit`."""
        if not opening.is_stream(X, y):
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        source = opening.open_source(X, y, sample_weight, self.classes_, names)
        return opening.accuracy(self.predict_proba, source)

    def posterior_predictive_proba(self, X: Any) -> FloatArray:
        """Class probabilities of every posterior draw, shape (n_draws, n_samples, n_classes).

        Chains take turns: draws 0, n_chains, 2 n_chains, … are those of the first one.
        """
        check_is_fitted(self)
        if self.network_ is None:
            return self.predict_proba(X)[None]
        X = checked_rows(self, X)
        if not self.network_.top.draws:
            raise no_draws(self)
        found = []
        for network in self._averaged():
            parts = self._on_device(network, X)
            if parts is None:
                found.append(network.predict_draws(X))
            else:
                found.append(np.concatenate([part.transpose(0, 1).cpu().numpy() for _, part in parts], axis=1))
        return np.concatenate(found)

    def _on_device(self, network: Network, X: Any) -> Any:
        """Predictions of all draws on the device of the fit (`pbdn.gibbs.device_sweep.predictions`); None where it is not there."""
        device = self.config_.gibbs.device
        if device is None or hasattr(X, "toarray") or not X.shape[0]:
            return None
        try:
            from pbdn.gibbs.device_sweep import draws_on, predictions  # needs torch

            places = draws_on(network, device)
        except (InvalidInputError, MissingExtraError) as error:
            logger.info("Predictions are made on the CPU: %s", error)
            return None
        return predictions(places, network.expand(X))

    def predict_proba_interval(self, X: Any, level: float = 0.95) -> FloatArray:
        """Intervals of the class probabilities.

        From posterior draws, where there are any, equal-tailed credible intervals. Else, from how far networks differ
        of which each was trained without one fold of the rows (`pbdn.model.committee`).

        Returns
        -------
        array of shape (n_samples, n_classes, 2)
            Lower and upper ends.
        """
        check_share("level", level)
        network = self.network_ if hasattr(self, "network_") else None
        if network is not None and network.has_folds and not network.top.draws:
            X = checked_rows(self, X)
            return jackknife_interval(network.predict_folds(X), network.predict(X), level, network.class_rows)
        draws = self.posterior_predictive_proba(X)
        ends = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
        return np.asarray(np.moveaxis(ends, 0, -1))

    # -------------------------------------------------------------------------- explanation

    def effects(self, X: Any) -> Any:
        """How far predictions move when each column is shuffled in the rows X, strongest first; it needs no labels.

        Returns
        -------
        pandas.DataFrame
            Columns feature, moved (mean move of probability), flips (share of labels that change) and share.
        """
        found = feature_effects(self, dense_rows(self, X))
        return subtypes.as_frame({key: [one[key] for one in found] for key in ("feature", "moved", "flips", "share")})

    # ------------------------------------------------------------------- saving and exports

    def __sklearn_tags__(self) -> Any:
        """Several classes, unless there can be two only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._most_classes is None
        return tags
