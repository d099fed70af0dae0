"""The estimator of survival times, with the conventions of scikit-survival."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pbdn.errors import InvalidInputError
from pbdn.estimators.on_a_line import LineEstimator, numeric_bounds
from pbdn.growth.run import FitTasks, with_callbacks
from pbdn.model.distribution import Distribution
from pbdn.numerics.arrays import FloatArray

PAIRS_AT_ONCE = 4_000_000  # of rows compared for a concordance


@dataclass(frozen=True)
class Curve:
    """A function of time for one row.

    Attributes
    ----------
    x, y : arrays
        Times of events in training, and the function there. Calling the curve takes any times.
    """

    x: FloatArray
    y: FloatArray
    distribution: Distribution
    cumulative_hazard: bool

    def __call__(self, times: ArrayLike) -> FloatArray:
        """The function at any times."""
        survival = self.distribution.sf(np.atleast_1d(np.asarray(times, dtype=float))[:, None])[:, 0]
        found = _cumulative_hazard(survival) if self.cumulative_hazard else survival
        return found if np.ndim(times) else found[0]


class PBDNSurvival(LineEstimator):
    """Parsimonious Bayesian deep network for survival times, censored or not.

    The logarithm of the time is a real number, predicted as by `PBDNRegressor`. With an expert of weight one a side is a
    log-logistic accelerated failure model; experts and layers add what that leaves out, and hazards need not be proportional.

    Parameters
    ----------
    max_depth, max_experts, standardize, priors, map_config, n_jobs, random_state, verbose, checkpoint, time_limit
        As in `PBDNRegressor`.

    Attributes
    ----------
    unique_times_ : array
        Times of events in training, sorted: where curves are given.
    network_, config_, trials_, feature_importances_, …
        As in `PBDNRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from pbdn import PBDNSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(150, 2))
    >>> time, limit = np.exp(X[:, 0] + 0.3 * rng.normal(size=150)), 3.0
    >>> y = np.array(list(zip(time < limit, np.minimum(time, limit))), dtype=[("event", bool), ("time", float)])
    >>> model = PBDNSurvival(random_state=0, max_depth=1).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    _stored: ClassVar[tuple[str, ...]] = ("unique_times_",)

    unique_times_: FloatArray

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow a network on rows with survival times.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        y : structured array of shape (n_samples,), or array of shape (n_samples, 2)
            A structured array has two fields: whether the event was seen, and the time of it or of the last look
            (right-censored). An array has bounds: (t, t) an event at t, (t, inf) none before t, (0, t) one before t
            (left-censored), (s, t) one between s and t.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        rows = self._rows(X, y)
        tasks = FitTasks(self, X, y)
        bounds = time_bounds(y)
        self._fit_bounds(rows, bounds, sample_weight, tasks, True)
        seen = bounds[np.isfinite(bounds[:, 1]), 1]
        self.unique_times_ = np.unique(seen)
        tasks.end()
        return self

    def predict(self, X: Any) -> FloatArray:
        """Risk: minus the predicted median of the logarithm of the time. The higher, the sooner the event."""
        return np.concatenate([-np.log(part.median()) for part in self._distributions(X)])

    def predict_distribution(self, X: Any) -> Distribution:
        """The predicted distributions of the times (`pbdn.model.distribution`)."""
        return self._distribution(X)

    def predict_median(self, X: Any) -> FloatArray:
        """Median survival times."""
        return np.concatenate([part.median() for part in self._distributions(X)])

    def predict_survival_function(self, X: Any, return_array: bool = False) -> NDArray[Any]:
        """P(T > t): a `Curve` per row, or with ``return_array`` its values at ``unique_times_``, (n_samples, n_times)."""
        return self._curves(X, return_array, False)

    def predict_cumulative_hazard_function(self, X: Any, return_array: bool = False) -> NDArray[Any]:
        """-ln P(T > t), as `predict_survival_function`."""
        return self._curves(X, return_array, True)

    def _curves(self, X: Any, return_array: bool, cumulative_hazard: bool) -> NDArray[Any]:
        check_is_fitted(self)
        times = self.unique_times_[:, None]
        survival = np.concatenate([part.sf(times).T for part in self._distributions(X)])
        values = _cumulative_hazard(survival) if cumulative_hazard else survival
        if return_array:
            return values
        whole = self._distribution(X)
        out = np.empty(len(values), dtype=object)
        for i in range(len(values)):
            out[i] = Curve(self.unique_times_, values[i], whole[i], cumulative_hazard)
        return out

    def score(self, X: Any, y: Any) -> float:
        """Harrell's concordance: the share of comparable pairs whose risks are in the right order; ties count half.

        A pair is comparable where the earlier event was seen.
        """
        return concordance(time_bounds(y), self.predict(X))

    def log_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean log-likelihood of what the rows say. More is better."""
        return float(np.average(self._distribution(X).log_likelihood(time_bounds(y)), weights=sample_weight))


def time_bounds(y: Any) -> FloatArray:
    """Survival times as bounds.

    Raises
    ------
    InvalidInputError
        Times are not positive and finite, or the fields are not an event and a time.
    """
    values = np.asarray(y)
    if values.dtype.names is None:
        if values.ndim != 2 or values.shape[1] != 2:
            raise InvalidInputError(
                "y must be a structured array of events (bool) and times, or an array of bounds of shape (n_samples, 2)."
            )
        bounds = numeric_bounds(values)
    else:
        if len(values.dtype.names) != 2 or values[values.dtype.names[0]].dtype != bool:
            raise InvalidInputError(
                f"y has the fields {values.dtype.names}; two are needed: whether the event was seen (bool), and the time."
            )
        event, time = (values[name] for name in values.dtype.names)
        time = np.asarray(time, dtype=float)
        wrong = np.flatnonzero(~np.isfinite(time))
        if wrong.size:
            raise InvalidInputError(f"y has the time {time[wrong[0]]} in row {wrong[0]}; give finite times.")
        bounds = np.column_stack([time, np.where(event, time, np.inf)])
    low, high = bounds.T
    wrong = np.flatnonzero((high <= 0.0) | ((low < 0.0) & np.isfinite(low)) | (low == high) & (low <= 0.0))
    if wrong.size:
        raise InvalidInputError(
            f"y has the time {high[wrong[0]]:g} in row {wrong[0]}; times must be above 0. Shift them, or drop the row."
        )
    return np.column_stack([np.where(low > 0.0, low, -np.inf), high])


def concordance(bounds: FloatArray, risk: FloatArray) -> float:
    """Harrell's concordance of risks with times, where those were seen or censored from the right."""
    time, event = bounds[:, 0], bounds[:, 0] == bounds[:, 1]
    if not np.all(event | np.isinf(bounds[:, 1])):
        raise InvalidInputError("A concordance needs times that were seen or censored from the right; use log_score.")
    right = comparable = 0.0
    seen = np.flatnonzero(event)
    step = max(1, PAIRS_AT_ONCE // max(len(time), 1))
    for first in range(0, len(seen), step):
        own = seen[first : first + step]
        later = (time > time[own, None]) | ((time == time[own, None]) & ~event)
        comparable += later.sum()
        right += (later & (risk[own, None] > risk)).sum() + 0.5 * (later & (risk[own, None] == risk)).sum()
    if comparable == 0:
        raise InvalidInputError("No two rows of y can be compared: no event comes before another time.")
    return float(right / comparable)


def _cumulative_hazard(survival: FloatArray) -> FloatArray:
    return np.asarray(-np.log(np.maximum(survival, np.finfo(float).tiny)))
