"""The estimator of ordered grades, which say of a hidden number in which interval it lies."""

from typing import Any, ClassVar, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, column_or_1d

from pbdn.config import GibbsConfig, MapConfig
from pbdn.data import open_stream as opening
from pbdn.data.labelled_rows import settled_classes, weigh_rows
from pbdn.data.row_source import encode
from pbdn.data.streams import StreamedSource
from pbdn.errors import InvalidInputError, warn
from pbdn.estimators.frames import require_target
from pbdn.estimators.growing import in_steps
from pbdn.estimators.on_a_line import LineEstimator
from pbdn.growth.run import FitTasks, with_callbacks
from pbdn.inspection.access import known_labels
from pbdn.model.distribution import Distribution
from pbdn.model.priors import Hyperpriors
from pbdn.model.timed import OnALine
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_are_classes, check_labels_present

SMALLEST_SHARE = 1e-6  # of rows below a cut between grades
IF_GRADES = "if they are grades, give them as text, and all of them in order as categories"


class PBDNOrdinalClassifier(ClassifierMixin, LineEstimator):  # type: ignore[misc]
    """Parsimonious Bayesian deep network for ordered grades.

    A grade is an interval of a hidden number, which is predicted as by `PBDNRegressor`. The intervals are cut so that a
    standard normal number has the shares of the grades; experts bend the line between them.

    Parameters
    ----------
    categories : sequence or None, default=None
        All grades from the lowest to the highest. None: the order of an ordered pandas categorical, else the sorted labels.
    inference, max_depth, max_experts, standardize, priors, gibbs_config, map_config, n_jobs, random_state, verbose, \
checkpoint, time_limit
        As in `PBDNRegressor`.

    Attributes
    ----------
    classes_ : array
        The grades that have rows, from the lowest to the highest.
    network_, config_, trials_, feature_importances_, …
        As in `PBDNRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from pbdn import PBDNOrdinalClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.digitize(X[:, 0] + 0.1 * rng.normal(size=200), [-0.5, 0.5])
    >>> model = PBDNOrdinalClassifier(random_state=0, max_depth=1).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    _has_classes: ClassVar[bool] = True
    _predicts: ClassVar[str] = "grade"

    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        inference: str = "auto",
        categories: Any = None,
        max_depth: int = 5,
        max_experts: int = 20,
        standardize: bool = True,
        priors: Hyperpriors | None = None,
        gibbs_config: GibbsConfig | None = None,
        map_config: MapConfig | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            inference=inference, max_depth=max_depth, max_experts=max_experts, standardize=standardize, priors=priors,
            gibbs_config=gibbs_config, map_config=map_config, n_jobs=n_jobs, random_state=random_state, verbose=verbose,
            checkpoint=checkpoint, time_limit=time_limit,
        )  # fmt: skip
        self.categories = categories

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow a network on rows with grades.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features), or a stream as in `PBDNClassifier`
            The cuts between grades follow from their shares in all rows, of a stream too.
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        tasks = FitTasks(self, X, y)
        if self._streams(X, y):
            self._fit_grades_of(opening.open_source(X, y, sample_weight, self.categories), tasks)
            tasks.end()
            return self
        rows = self._rows(X, y, sample_weight)
        grades = self._grades(y)
        weighed = weigh_rows(rows, None, np.arange(len(grades)), sample_weight)
        present, places = np.unique(grades[weighed.targets], return_inverse=True)
        self.classes_ = self._order(y)[present]
        if present.size > 2 and self.classes_.dtype.kind in "OU" and self._given_order(y) is None:
            warn(
                f"The grades are in the order of the alphabet: {', '.join(map(str, self.classes_))}. If another one is right, "
                "give it as categories, from the lowest to the highest."
            )
        if present.size == 1:
            self._adopt_constant(weighed, 0.0)
        else:
            cuts = _cuts_of(np.bincount(places, weighed.weights))
            self._fit_bounds(weighed.inputs, grade_bounds(places, cuts), weighed.weights, tasks, False, cuts)
        tasks.end()
        return self

    def _fit_grades_of(self, source: StreamedSource, tasks: FitTasks) -> None:
        """Fit on rows that are read again and again."""
        cuts = self._settle_grades(source.classes, source.class_totals[1], self._order(source.classes))
        if not cuts:
            self._take_columns_of(source)
            self._adopt_constant(source, 0.0)
        else:
            self._fit_source(source, lambda y: grade_bounds(encode(y, self.classes_), cuts), tasks, False, cuts)

    def _settle_grades(self, labels: NDArray[Any], weights: FloatArray, order: NDArray[Any]) -> list[float]:
        """The cuts between ``classes_``: of all grades in order, those whose labels have rows of so much weight."""
        check_are_classes(labels, IF_GRADES)
        totals = np.zeros(order.size)
        totals[encode(labels, order)] = weights
        self.classes_ = order[totals > 0.0]
        return _cuts_of(totals[totals > 0.0])

    def _words_on_one(self, value: float) -> str:
        """What is said of a single grade."""
        return f"y has only one class ({self.classes_.tolist()[0]!r})"

    @in_steps
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one batch of rows, as `PBDNRegressor.partial_fit`.

        The cuts between grades follow from the shares of the grades in the first batch, and stay.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,)
            All grades that will ever come; needed in the first call unless ``categories`` has them.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        known = self._known_line()
        given = self.categories if classes is None and known is None else classes
        labels = settled_classes(given, None if known is None else np.unique(self.classes_), None)
        require_target(y)
        check_labels_present(y)
        order = (
            self.classes_ if known is not None else labels if self.categories is None else np.asarray(self.categories)
        )
        places = encode(column_or_1d(y, warn=True), order)
        cuts = _cuts_of(np.bincount(places, minlength=order.size) + 1.0) if known is None else known.cuts
        self._learn_bounds(
            X, y, sample_weight, lambda y: grade_bounds(places, cuts), lambda rows: OnALine(cuts=tuple(cuts))
        )
        self.classes_ = order
        return self

    def _order(self, y: Any) -> NDArray[Any]:
        """All grades in order."""
        order = self._given_order(y)
        return np.unique(np.asarray(y)) if order is None else order

    def _given_order(self, y: Any) -> NDArray[Any] | None:
        """All grades in the order that is given: by ``categories``, or by the type of y."""
        if self.categories is not None:
            order = np.asarray(self.categories)
            if np.unique(order).size < order.size:
                raise InvalidInputError(f"categories={self.categories!r} has a grade twice; give each of them once.")
            return order
        dtype: Any = getattr(y, "dtype", None)
        if getattr(dtype, "ordered", False):  # a categorical of pandas or Dask
            return np.asarray(dtype.categories)
        dtype = getattr(nw.from_native(y, pass_through=True, allow_series=True), "dtype", None)
        return np.asarray(dtype.categories) if isinstance(dtype, nw.Enum) else None

    def _grades(self, y: Any) -> NDArray[np.int64]:
        """The place of every label in the order."""
        check_labels_present(y)
        labels = column_or_1d(y, warn=True)
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")
        check_are_classes(labels, IF_GRADES)
        places = {label: j for j, label in enumerate(self._order(y).tolist())}
        unknown = [label for label in np.unique(labels).tolist() if label not in places]
        if unknown:
            raise InvalidInputError(
                f"y has the grade {unknown[0]!r}, which is not among categories={self.categories!r}."
            )
        return np.array([places[label] for label in labels.tolist()], dtype=np.int64)

    _tells: ClassVar[str] = "probability"

    def _tell(self, draw: Distribution) -> FloatArray:
        """Probabilities of the grades."""
        cuts = np.array(self._line.cuts)[:, None]
        below = draw.cdf(cuts).T if cuts.size else np.empty((len(draw), 0))
        return np.diff(below, axis=1, prepend=0.0, append=1.0)

    def _said(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Grades as bounds on the line, and as places in ``classes_``."""
        places = {label: j for j, label in enumerate(self.classes_.tolist())}
        codes = np.array([places[label] for label in known_labels(y, self.classes_).tolist()], dtype=np.int64)
        return grade_bounds(codes, self._line.cuts), codes.astype(float)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the grades, columns in the order of ``classes_``."""
        check_is_fitted(self)
        return np.concatenate([self._tell(part) for part in self._distributions(X)])

    def predict_proba_interval(self, X: Any, level: float = 0.95) -> FloatArray:
        """Credible intervals of the probabilities, from posterior draws, shape (n_samples, n_classes, 2).

        It needs ``inference="gibbs"``.
        """
        return self._interval(X, lambda draw, _: self._tell(draw), level)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable grade of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])


def _cuts_of(weights: NDArray[Any]) -> list[float]:
    """Where a standard normal number is cut to have these shares of the grades."""
    shares = weights[:-1].cumsum() / weights.sum()
    return [float(cut) for cut in norm.ppf(np.clip(shares, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE))]


def grade_bounds(places: NDArray[np.int64], cuts: ArrayLike) -> FloatArray:
    """The ends of the grades at these places, on the line."""
    ends = np.concatenate([[-np.inf], np.asarray(cuts, dtype=float), [np.inf]])
    return np.column_stack([ends[places], ends[places + 1]])
