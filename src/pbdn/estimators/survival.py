"""The estimator of survival times, with the conventions of scikit-survival."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pbdn.data import open_stream as opening
from pbdn.errors import InvalidInputError
from pbdn.estimators.growing import in_steps
from pbdn.estimators.on_a_line import LineEstimator, layout_of
from pbdn.estimators.times import (
    batch_bounds,
    bounds_of,
    causes_of,
    event_times,
    fitted_bounds,
    named_events,
    piece_bounds,
    time_bounds,
)
from pbdn.growth.run import FitTasks, with_callbacks
from pbdn.inspection.access import network_of
from pbdn.inspection.quality import concordance
from pbdn.model.distribution import Distribution, DistributionOfFirst
from pbdn.model.labelling import without_zeros
from pbdn.model.timed import known_values
from pbdn.numerics.arrays import FloatArray

MOST_TIMES = 2000  # of events in batches that are kept


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
    distributions: tuple[Distribution, ...]  # of the time, or of the time of each cause
    cumulative_hazard: bool

    def __call__(self, times: ArrayLike) -> FloatArray:
        """The function at any times."""
        survival = _survival(self.distributions, np.atleast_1d(np.asarray(times, dtype=float))[:, None])[:, 0]
        found = _cumulative_hazard(survival) if self.cumulative_hazard else survival
        return found if np.ndim(times) else found[0]


class PBDNSurvival(LineEstimator):
    """Parsimonious Bayesian deep network for survival times, censored or not.

    The logarithm of the time is a real number, predicted as by `PBDNRegressor`. With an expert of weight one a side is a
    log-logistic accelerated failure model; experts and layers add what that leaves out, and hazards need not be proportional.

    With competing causes every cause has a model of its own, ``models_``, for which events of the others are censored times. The
    likelihood is the product over causes, so they are fitted apart. What is told of all causes together follows from
    P(T > t) = Π_c P(T_c > t).

    Parameters
    ----------
    inference, max_depth, max_experts, standardize, priors, gibbs_config, map_config, n_jobs, random_state, verbose, \
checkpoint, time_limit
        As in `PBDNRegressor`.

    Attributes
    ----------
    unique_times_ : array
        Times of events in training, sorted: where curves are given.
    causes_ : array
        The causes, as numbered in y; 1 where y says only whether an event was seen.
    models_ : tuple of PBDNSurvival
        With several causes, one fitted model for each; else empty.
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

    _predicts: ClassVar[str] = "time"
    _stored: ClassVar[tuple[str, ...]] = ("unique_times_", "causes_")

    unique_times_: FloatArray
    causes_: FloatArray

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow a network on rows with survival times.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features), or a stream as in `PBDNRegressor`
            A stream has one cause; ``unique_times_`` are those of a sample.
        y : structured array of shape (n_samples,), or array of shape (n_samples,), (n_samples, 2) or (n_samples, 3)
            A structured array has two fields: whether the event was seen, and the time of it or of the last look
            (right-censored). The first field is a bool, or with competing causes the number of the cause, 1, 2, …, and 0
            where no event was seen. A third field, if there is one, is the time of entry into the study (left truncation):
            the row would not be there had its event come before, and 0 says that it was watched from the start. An array has
            bounds: (t, t) an event at t, (t, inf) none before t, (0, t) one before t (left-censored), (s, t) one between s
            and t; a third column has entries. Plain numbers are times of events that were all seen. An event at time 0 counts
            as one before the smallest time above 0; a row censored at 0 says nothing. For Parquet and Arrow the names of the
            columns of events and times, or of bounds, and maybe of entries.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        tasks = FitTasks(self, X, y)
        self.models_ = ()
        if self._streams(X, y):
            sample = self._fit_source(opening.open_source(X, y, sample_weight), piece_bounds, tasks, True)
            self.causes_, self.unique_times_ = np.ones(1), event_times(sample.targets)
            tasks.end()
            return self
        rows = self._rows(X, y, sample_weight)
        bounds, cause = fitted_bounds(y), causes_of(y)
        self.causes_ = np.unique(cause[cause > 0]).astype(float)
        self.unique_times_ = event_times(bounds)
        if self.causes_.size > 1:
            X = self._shared(X, rows)
            self._fit_causes(lambda model, own: model.fit(X, bounds_of(bounds, cause, own), sample_weight))
        else:
            self._fit_bounds(rows, bounds, sample_weight, tasks, True)
        tasks.end()
        return self

    @in_steps
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from one batch of rows, as `PBDNRegressor.partial_fit`; y as in `fit`, of one cause.

        Center and scale of the logarithms follow from the first batch, and stay. ``unique_times_`` are those of all batches, at
        most about 2000 of them.
        """
        self._check_parameters()
        if self.models_:
            raise InvalidInputError("This model has several causes; call partial_fit of one of models_.")
        before = self.unique_times_ if self._known_line() is not None else np.zeros(0)
        self._learn_bounds(X, y, sample_weight, batch_bounds, lambda rows: layout_of(rows.targets, rows.weights, True))
        times = np.union1d(before, event_times(without_zeros(time_bounds(y))))
        self.causes_, self.unique_times_ = np.ones(1), times[:: 1 + len(times) // MOST_TIMES]
        return self

    def _fit_causes(self, fitted: Callable[[Any, float], "PBDNSurvival"]) -> None:
        """A model for each cause, ``fitted`` to it with a part of the time and a checkpoint of its own."""
        seed, models = self._seed(), []
        for j, own in enumerate(self.causes_):
            model = type(self)(**self.get_params(deep=False)).set_params(random_state=(seed + j) % (2**31 - 1))
            if self.time_limit is not None:
                model.set_params(time_limit=self.time_limit / self.causes_.size)
            if self.checkpoint is not None:
                model.set_params(checkpoint=f"{os.fspath(self.checkpoint)}.cause{own:g}")
            models.append(fitted(model, own))
        self.models_, self.network_, self.paths_ = tuple(models), None, ()
        self.config_ = models[0].config_
        self.criterion_path_, self.trials_, self.trace_, self.convergence_ = [], [], [], []
        self._importances = np.mean([model.feature_importances_ for model in models], axis=0)

    _tells: ClassVar[str] = "median"

    def _tell(self, draw: Distribution) -> FloatArray:
        """Median times."""
        return draw.median()

    def _as_array(self, y: Any) -> NDArray[Any]:
        """Times as an array of rows; those of a data frame with events as a structured one."""
        return named_events(y)

    def _said(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Times as bounds, and as one number each."""
        bounds = time_bounds(y)
        return bounds, known_values(bounds)

    def _causes_said(self, y: Any) -> NDArray[np.int64]:
        """The cause of each row's event, 0 where none was seen."""
        return causes_of(y)

    def predict(self, X: Any) -> FloatArray:
        """Risk: minus the predicted median of the logarithm of the time. The higher, the sooner the event of any cause."""
        return -np.log(self.predict_median(X))

    def predict_distribution(self, X: Any) -> Distribution:
        """The predicted distributions of the times (`pbdn.model.distribution`); with several causes, of the first event of any."""
        return self._distribution(X)

    def predict_median(self, X: Any) -> FloatArray:
        """Median survival times; with several causes, of the first event of any."""
        return np.concatenate([part.median() for part in self._distributions(X)])

    def predict_cumulative_incidence(self, X: Any, times: ArrayLike | None = None) -> FloatArray:
        """P(T ≤ t, by this cause), shape (n_samples, n_causes, n_times), causes in the order of ``causes_``.

        All causes together have 1 - P(T > t). ``times`` are ``unique_times_`` by default.
        """
        check_is_fitted(self)
        asked = np.asarray(self.unique_times_ if times is None else times, dtype=float)
        if asked.ndim != 1 or not asked.size or not np.all((asked > 0.0) & np.isfinite(asked)):
            raise InvalidInputError("times must be a list of finite numbers above 0.")
        return DistributionOfFirst(self._of_causes(X)).incidence(asked)

    def _of_causes(self, X: Any) -> tuple[Distribution, ...]:
        """The distributions of the time of each cause."""
        return tuple(model._distribution(X) for model in self.models_ or (self,))

    @property
    def _names_of_models(self) -> list[str]:
        return [f"cause {cause:g}" for cause in self.causes_]

    def _network_to_export(self) -> Any:
        """The network, or those of all causes."""
        from pbdn.export.plan import Several

        if not self.models_:
            return network_of(self)
        return Several.of_causes([network_of(model) for model in self.models_], [f"{c:g}" for c in self.causes_])

    def _rows_of_model(self, model: Any, X: Any, y: Any) -> tuple[Any, Any]:
        """What rows say to the network of one cause."""
        own = self.causes_[[one is model for one in self.models_]]
        return X, None if y is None else bounds_of(time_bounds(y), causes_of(y), float(own[0]))

    def predict_survival_function(self, X: Any, return_array: bool = False) -> NDArray[Any]:
        """P(T > t): a `Curve` per row, or with ``return_array`` its values at ``unique_times_``, (n_samples, n_times)."""
        return self._curves(X, return_array, False)

    def predict_cumulative_hazard_function(self, X: Any, return_array: bool = False) -> NDArray[Any]:
        """-ln P(T > t), as `predict_survival_function`."""
        return self._curves(X, return_array, True)

    def predict_survival_interval(self, X: Any, level: float = 0.95) -> FloatArray:
        """Credible intervals of P(T > t) at ``unique_times_``, from posterior draws, shape (n_samples, n_times, 2).

        It needs ``inference="gibbs"``.
        """
        return self._interval(X, lambda draw, _: draw.sf(self.unique_times_[:, None]).T, level)

    def _curves(self, X: Any, return_array: bool, cumulative_hazard: bool) -> NDArray[Any]:
        check_is_fitted(self)
        whole = self._of_causes(X)
        survival = _survival(whole, self.unique_times_[:, None]).T
        values = _cumulative_hazard(survival) if cumulative_hazard else survival
        if return_array:
            return values
        out = np.empty(len(values), dtype=object)
        for i in range(len(values)):
            own = tuple(part[i] for part in whole)
            out[i] = Curve(self.unique_times_, values[i], own, cumulative_hazard)
        return out

    def __sklearn_tags__(self) -> Any:
        """Times are not negative, and are needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.target_tags.required = True
        return tags

    def score(self, X: Any, y: Any) -> float:
        """Harrell's concordance: the share of comparable pairs whose risks are in the right order; ties count half.

        A pair is comparable where the earlier event was seen, and the other row had entered by then.
        """
        return concordance(time_bounds(y), self.predict(X)).value

    def log_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean log-likelihood of what the rows say, of which cause included, given their entry. More is better."""
        check_is_fitted(self)
        bounds, cause = without_zeros(time_bounds(y)), causes_of(y)
        said = [bounds] if not self.models_ else [bounds_of(bounds, cause, own) for own in self.causes_]
        found = sum(part.log_likelihood(one) for part, one in zip(self._of_causes(X), said, strict=True))
        return float(np.average(found, weights=sample_weight))


def _survival(parts: tuple[Distribution, ...], times: FloatArray) -> FloatArray:
    """P(T > t) of the first event of all causes."""
    return np.asarray(np.prod([part.sf(times) for part in parts], axis=0))


def _cumulative_hazard(survival: FloatArray) -> FloatArray:
    return np.asarray(-np.log(np.maximum(survival, np.finfo(float).tiny)))
