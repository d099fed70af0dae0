"""The estimator of amounts that may be exactly zero, as totals of claims, rain or spending."""

import os
import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d

from pbdn.data import open_stream as opening
from pbdn.data.labelled_rows import numeric_bounds
from pbdn.errors import InvalidInputError, warn
from pbdn.estimators.classifier import PBDNClassifier
from pbdn.estimators.frames import checked_inputs, require_target
from pbdn.estimators.growing import in_steps
from pbdn.estimators.on_a_line import LineEstimator
from pbdn.estimators.regressor import PBDNRegressor
from pbdn.growth.run import FitTasks, with_callbacks
from pbdn.inspection.access import checked_rows, network_of
from pbdn.model.distribution import Distribution, DistributionWithZero
from pbdn.numerics.arrays import FloatArray

CLASSES = ("0", "above 0")  # in the order of labels


class PBDNAmountRegressor(RegressorMixin, LineEstimator):  # type: ignore[misc]
    """Parsimonious Bayesian deep networks for amounts of which some are exactly zero.

    One network tells the probability of a zero, and another one the distribution of the logarithm of the amounts that are not.
    The likelihood is the product of both, so they are fitted apart. What moves the one need not move the other.

    Parameters
    ----------
    inference, max_depth, max_experts, standardize, priors, gibbs_config, map_config, n_jobs, random_state, verbose, \
checkpoint, time_limit
        As in `PBDNRegressor`, for both networks.

    Attributes
    ----------
    models_ : tuple
        A fitted `PBDNClassifier` of "0" and "above 0", and a fitted `PBDNRegressor` of the amounts that
        are not zero.
    feature_importances_ : array
        The mean of both.
    config_, n_features_in_, feature_names_in_
        As in `PBDNRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from pbdn import PBDNAmountRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.exp(X[:, 1]) * rng.gamma(2.0, size=200) * (X[:, 0] + rng.logistic(size=200) > 0)
    >>> model = PBDNAmountRegressor(random_state=0, max_depth=1).fit(X, y)
    >>> zero = model.predict_distribution(X).cdf(0)
    >>> bool(np.corrcoef(zero, X[:, 0])[0, 1] < -0.8)
    True
    """

    _predicts: ClassVar[str] = "amount"

    @classmethod
    def _kinds_of_models(cls, n: int) -> tuple[type, ...]:
        """For `load`: the classes of ``models_``."""
        return (PBDNClassifier, PBDNRegressor)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit both networks.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Amounts of 0 or more.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        if opening.is_stream(X, y):
            raise InvalidInputError("Amounts are not read in pieces by fit; call partial_fit on the batches.")
        rows = self._rows(X, y, sample_weight)
        tasks = FitTasks(self, X, y)
        weights = np.asarray(_check_sample_weight(sample_weight, rows, dtype=np.float64))
        self._fit_models(self._shared(X, rows), checked_amounts(y), weights)
        tasks.end()
        return self

    def _fit_models(self, X: Any, amounts: Any, weights: Any) -> None:
        """Fit both networks to rows here, or to those of Dask collections."""
        more = (amounts > 0.0) & (weights > 0.0)
        n_more, n_rows = int(more.sum()), int((weights > 0.0).sum())
        either, positive = self._models()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "y has two values only")
            if n_more in (0, n_rows):  # nothing to tell apart, which is no fault
                warnings.filterwarnings("ignore", "y has only one")
            either.fit(X, np.where(amounts > 0.0, *CLASSES[::-1]), weights)
            positive.fit(X, np.where(more, amounts, 1.0), np.where(more, weights, 0.0) if n_more else weights)
        if not n_more:
            warn(
                "y is zero in every row; the model will always predict it. Give rows of other amounts to learn something."
            )
        self._adopt_models(either, positive)

    @in_steps
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from one batch of rows: `PBDNClassifier.partial_fit` of "zero or not", `PBDNRegressor.partial_fit` of the others.

        The first batch decides what is told there, and needs some amounts above zero.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        require_target(y)
        first = not self.models_
        rows = checked_inputs(self, X, y, sample_weight) if first else checked_rows(self.models_[1], X)
        check_consistent_length(rows, y)
        amounts, weights = checked_amounts(y), np.asarray(_check_sample_weight(sample_weight, rows, dtype=np.float64))
        more = (amounts > 0.0) & (weights > 0.0)
        if first and not more.any():
            raise InvalidInputError("No amount of the first batch is above zero; begin with a batch that has some.")
        either, positive = self._models() if first else self.models_
        either.partial_fit(X, amounts > 0.0, [False, True], weights)
        if more.any():
            positive.partial_fit(X, np.where(more, amounts, 1.0), np.where(more, weights, 0.0))
        self._adopt_models(either, positive)
        return self

    def _adopt_models(self, either: PBDNClassifier, positive: PBDNRegressor) -> None:
        """Fill the fitted attributes."""
        self.models_, self.network_, self.paths_ = (either, positive), None, ()
        self.config_ = positive.config_
        self.criterion_path_, self.trials_, self.trace_, self.convergence_ = [], [], [], []
        self._importances = np.mean([model.feature_importances_ for model in self.models_], axis=0)

    def _models(self) -> tuple[PBDNClassifier, PBDNRegressor]:
        """Both, not fitted."""
        seed = self._seed()
        other = self._settings((seed + 1) % (2**31 - 1), "amount")
        classifier, regressor = self._kinds_of_models(2)
        return classifier(**self._settings(seed, "zero")), regressor(log=True, **other)

    def _settings(self, seed: int, name: str) -> dict[str, Any]:
        """Parameters of one of the two, with half of the time and a checkpoint of its own."""
        settings: dict[str, Any] = self.get_params(deep=False) | {"random_state": seed}
        if self.time_limit is not None:
            settings["time_limit"] = self.time_limit / 2.0
        if self.checkpoint is not None:
            settings["checkpoint"] = f"{os.fspath(self.checkpoint)}.{name}"
        return settings

    # ----------------------------------------------------------------------------- prediction

    _tells: ClassVar[str] = "mean"

    @property
    def _names_of_models(self) -> list[str]:
        return ["zero or more", "amount"]

    def _network_to_export(self) -> Any:
        """Both networks, or that of the amounts alone where no row was zero."""
        from pbdn.export.plan import Several

        either, positive = self.models_
        if either.network_ is not None:
            return Several((either.network_, network_of(positive)))
        if either.classes_[0] == CLASSES[0]:
            raise InvalidInputError("The model was fitted on zeros only; there is nothing to export.")
        return network_of(positive)

    def _rows_of_model(self, model: Any, X: Any, y: Any) -> tuple[Any, Any]:
        """What rows say to one of the networks: whether there is an amount, or which one."""
        if y is None:
            return X, None
        amounts = checked_amounts(y)
        if model is self.models_[0]:
            return X, np.where(amounts > 0.0, *CLASSES[::-1])
        more = np.flatnonzero(amounts > 0.0)
        return None if X is None else _safe_indexing(X, more), amounts[more]

    def _distribution(self, X: Any) -> DistributionWithZero:
        """The distributions of all rows."""
        check_is_fitted(self)
        either, positive = self.models_
        return DistributionWithZero(positive._distribution(X), _zero(either, either.predict_proba(X)))

    def predict(self, X: Any) -> FloatArray:
        """Means."""
        return self._distribution(X).mean()

    def predict_quantiles(self, X: Any, q: ArrayLike = (0.05, 0.5, 0.95)) -> FloatArray:
        """Quantiles: shape (n_samples,) for one q, (n_samples, n_q) for several; zero up to its probability."""
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        found = np.ascontiguousarray(self._distribution(X).ppf(levels[:, None]).T)
        return found[:, 0] if np.ndim(q) == 0 else found

    def predict_interval(self, X: Any, coverage: float = 0.9) -> FloatArray:
        """Ends of the intervals that hold the amount with this probability at least, shape (n_samples, 2)."""
        return self._distribution(X).interval(coverage)

    def predict_mean_interval(self, X: Any, level: float = 0.95) -> FloatArray:
        """Credible intervals of the means, from posterior draws, shape (n_samples, 2). It needs ``inference="gibbs"``.

        Draws of both networks are independent, and are taken in pairs.
        """
        check_is_fitted(self)
        either, positive = self.models_
        ends = positive.predict_mean_interval(X, level)  # which says what it needs
        if either.network_ is None:
            return np.asarray(ends * (1.0 - _zero(either, either.predict_proba(X)))[:, None])
        zero = _zero(either, either.posterior_predictive_proba(X))
        means = [draw.mean() for draw in positive._drawn(checked_rows(positive, X)).draws()]
        both = [(1.0 - p) * mean for p, mean in zip(zero, means, strict=False)]
        return np.ascontiguousarray(np.quantile(both, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0).T)

    def _said(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Amounts as bounds, and as they are."""
        values = checked_amounts(y)
        return np.column_stack([values, values]), values

    def predict_distribution(self, X: Any) -> Distribution:
        """The predicted distributions: an object with cdf, ppf, mean, std, sample, … (`pbdn.model.distribution`)."""
        return self._distribution(X)

    def log_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean of the log-density of y or, of a zero, the logarithm of its probability. More is better."""
        return float(np.average(self._distribution(X).logpdf(checked_amounts(y)), weights=sample_weight))

    def crps(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean continuous ranked probability score, in units of y. Less is better."""
        return float(np.average(self._distribution(X).crps(checked_amounts(y)), weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Amounts are not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _zero(either: PBDNClassifier, probability: FloatArray) -> FloatArray:
    """P(zero) from the probabilities of ``classes_``."""
    if either.classes_.size > 1:
        return probability[..., 0]
    return np.full(probability.shape[:-1], float(either.classes_[0] == CLASSES[0]))


def checked_amounts(y: Any) -> FloatArray:
    """Amounts, checked."""
    values = numeric_bounds(column_or_1d(y, warn=True))[:, 0]
    wrong = np.flatnonzero(values < 0.0)
    if wrong.size:
        raise InvalidInputError(f"y has {values[wrong[0]]:g} in row {wrong[0]}; amounts must be 0 or more.")
    return values
