"""The estimator of counts, which say of a hidden number in which interval it lies."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from pbdn.data import open_stream as opening
from pbdn.data.labelled_rows import LabelledRows, numeric_bounds
from pbdn.errors import InvalidInputError
from pbdn.estimators.growing import in_steps
from pbdn.estimators.on_a_line import LineEstimator, layout_of
from pbdn.growth.run import FitTasks, with_callbacks
from pbdn.model.distribution import COUNTED, Distribution, counts_of
from pbdn.numerics.arrays import FloatArray

NOTHING = 0.5  # a hidden number that stands for a count of zero


class PBDNCountRegressor(RegressorMixin, LineEstimator):  # type: ignore[misc]
    """Parsimonious Bayesian deep network for counts.

    A count y says that a hidden positive number lies in (y, y + 1]; its logarithm is predicted as by `PBDNRegressor`. So counts
    may vary less or more than Poisson counts, and the second side, for large counts, is there too.

    Parameters
    ----------
    inference, max_depth, max_experts, standardize, priors, gibbs_config, map_config, n_jobs, random_state, verbose, \
checkpoint, time_limit
        As in `PBDNRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from pbdn import PBDNCountRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = rng.poisson(np.exp(1.0 + X[:, 0]))
    >>> model = PBDNCountRegressor(random_state=0, max_depth=1).fit(X, y)
    >>> bool(model.score(X, y) > 0.5)
    True
    """

    _predicts: ClassVar[str] = "count"

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow a network on rows with counts.

        Where rows were counted over different lengths of time, let the logarithm of that time be a feature.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features), or a stream as in `PBDNRegressor`
        y : array of shape (n_samples,)
            Counts of 0 or more.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        tasks = FitTasks(self, X, y)
        if self._streams(X, y):
            self._fit_source(opening.open_source(X, y, sample_weight), count_bounds, tasks, True)
        else:
            rows, bounds = self._rows(X, y, sample_weight), count_bounds(y)
            if np.isinf(bounds[:, 0]).all():
                self._adopt_constant(LabelledRows(rows, bounds), NOTHING)
            else:
                self._fit_bounds(rows, bounds, sample_weight, tasks, True)
        tasks.end()
        return self

    @in_steps
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from one batch of rows, as `PBDNRegressor.partial_fit`; the parameters are those of `fit`.

        Center and scale of the logarithms follow from the first batch, and stay.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._learn_bounds(X, y, sample_weight, count_bounds, lambda rows: layout_of(rows.targets, rows.weights, True))
        return self

    def predict(self, X: Any) -> FloatArray:
        """Means."""
        return _mean_count(self._distribution(X))

    def _words_on_one(self, value: float) -> str:
        """What is said of counts that are all zero."""
        return "y is 0 in every row"

    _tells: ClassVar[str] = "mean"

    def _tell(self, draw: Distribution) -> FloatArray:
        """Means."""
        return _mean_count(draw)

    def _said(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Counts as bounds, and as they are."""
        bounds = count_bounds(y)
        return bounds, bounds[:, 1] - 1.0

    def predict_mean_interval(self, X: Any, level: float = 0.95) -> FloatArray:
        """Credible intervals of the means, from posterior draws, shape (n_samples, 2). It needs ``inference="gibbs"``."""
        return self._interval(X, lambda draw, _: _mean_count(draw), level)

    def predict_quantiles(self, X: Any, q: ArrayLike = (0.05, 0.5, 0.95)) -> FloatArray:
        """The smallest counts that are not exceeded with probability q: (n_samples,) for one q, else (n_samples, n_q)."""
        levels = np.atleast_1d(np.asarray(q, dtype=float))[:, None]
        found = counts_of(self._distribution(X).ppf(levels)).T
        return found[:, 0] if np.ndim(q) == 0 else np.ascontiguousarray(found)

    def predict_probability(self, X: Any, counts: ArrayLike) -> FloatArray:
        """P(Y = count) of every row and every one of ``counts``, shape (n_samples, n_counts)."""
        whole = self._distribution(X)
        asked = np.atleast_1d(np.asarray(counts, dtype=float))[:, None]
        found = whole.cdf(asked + 1.0) - whole.cdf(asked)
        return np.ascontiguousarray(np.where(asked == np.round(asked), found, 0.0).T)

    def log_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean log-probability of the counts. More is better."""
        found = self._distribution(X).log_likelihood(count_bounds(y))
        return float(np.average(found, weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Counts are not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _mean_count(whole: Distribution) -> FloatArray:
    """Means of counts: a sum over few of them, and an integral from there on."""
    few = whole.sf(np.arange(1, COUNTED + 1)[:, None]).sum(axis=0)
    return np.asarray(few + whole.mean_above(COUNTED + 0.5))


def count_bounds(y: Any) -> FloatArray:
    """(y, y + 1] of every count."""
    counts = numeric_bounds(column_or_1d(y, warn=True))[:, 0]
    wrong = np.flatnonzero(counts < 0.0)
    if wrong.size:
        raise InvalidInputError(f"y has {counts[wrong[0]]:g} in row {wrong[0]}; counts must be 0 or more.")
    return np.column_stack([np.where(counts > 0.0, counts, -np.inf), counts + 1.0])
