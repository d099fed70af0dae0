"""The estimator of real numbers."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from pbdn.config import GibbsConfig, MapConfig
from pbdn.data import open_stream as opening
from pbdn.data.labelled_rows import LabelledRows, numeric_bounds, positive_bounds, weigh_rows
from pbdn.errors import InvalidInputError, warn
from pbdn.estimators.growing import in_steps
from pbdn.estimators.on_a_line import LineEstimator, layout_of
from pbdn.growth.run import FitTasks, with_callbacks
from pbdn.model.distribution import Distribution
from pbdn.model.labelling import far_values
from pbdn.model.priors import Hyperpriors
from pbdn.model.timed import known_values
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_choice

FEW_ROWS = 10  # that may have two values by chance


class PBDNRegressor(RegressorMixin, LineEstimator):  # type: ignore[misc]
    """Parsimonious Bayesian deep network for real numbers: it predicts a distribution for every row.

    A layer has two sides, for low and for high values. A side says P(Y > y) = exp(-Σ_k r_k ln(1 + e^{x'β_k + τ_k y})); the other
    one says the same of -Y, and their average is predicted. Five networks, each trained without a fifth of the rows, are
    averaged into one; the rows kept back decide the depth, whether the first layer is curved, the penalty and the noise of
    training, and how much less features that matter are penalised. The defaults need no tuning.

    Parameters
    ----------
    inference : {"auto", "gibbs", "map"}, default="auto"
        "map" trains networks by stochastic gradients, as told above. "gibbs" samples every layer, adds layers while AIC falls,
        and predicts the average over posterior draws; all experts of a side share one τ. "auto" is "map", or what
        ``gibbs_config`` asks for.
    log : bool or "auto", default="auto"
        Whether logarithms of y are modelled, which suits positive values that spread over decades. "auto" asks rows kept back
        where all values are positive, and else takes y as it is.
    max_depth : int, default=5
        Most layers; reaching it while the rows kept back still become likelier warns.
    max_experts : int, default=20
        Experts per side at the start; at most 10 are trained.
    standardize : bool, default=True
        Scale features to mean 0 and standard deviation 1 for the fit, and fold the scaling into the network.
    priors : Hyperpriors or None, default=None
    gibbs_config : GibbsConfig or None, default=None
        Options of Gibbs sampling (`pbdn.config.GibbsConfig`).
    map_config : MapConfig or None, default=None
        Options of training (`pbdn.config.MapConfig`).
    n_jobs : int or None, default=None
        Threads, as in joblib; results do not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
    checkpoint : path or None, default=None
        File that lets an interrupted fit resume with the same result.
    time_limit : float or None, default=None
        Seconds after which the fit stops with what it has.

    Attributes
    ----------
    log_ : bool
        Whether logarithms are modelled.
    network_ : Network
        The fitted network, acting on features that are not scaled: what predicts, is explained and saved.
    feature_importances_ : array
        How far predicted medians moved when each column was shuffled in training rows, as shares.
    trials_ : list of dicts
        Every setting that the rows kept back have judged.
    config_, n_features_in_, feature_names_in_, preparation_, layers_, depth_, n_experts_, complexity_, n_weights_, \
criterion_path_
        As in `PBDNClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from pbdn import PBDNRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=200)
    >>> model = PBDNRegressor(random_state=0, max_depth=1).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.predict_interval(X[:3]).shape
    (3, 2)
    """

    def __init__(
        self,
        *,
        inference: str = "auto",
        log: bool | str = "auto",
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
        self.log = log

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow a network on rows with numbers.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features), or a stream
            Missing values, categories, text, booleans and dates are prepared (docs/columns.md). With MAP also data larger
            than memory, all numbers, as in `PBDNClassifier`: a NumPy memory map, Parquet or Arrow data, or batches (X, y) or
            (X, y, sample_weight) that can be read several times. Of a stream, one network grows by AIC on all rows. A first
            pass takes a sample, from the first row to the last, which decides center and scale of y and, with
            ``log="auto"``, whether logarithms are modelled.
        y : array of shape (n_samples,) or (n_samples, 2)
            Values, or bounds between which they lie: equal bounds are a value, -inf or inf is no bound. The name of the
            target column, or the names of the two of bounds, for Parquet and Arrow; None for batches. Rows whose values are
            very far from all others are left out with a warning, unless they come as bounds.
        sample_weight : array of shape (n_samples,), optional
            Row weights: weight 2 has the law of the row given twice, weight 0 of an absent row. Weights of rows in memory
            that add up to one are shares, and stand for as many rows as there are. The name of a column for Parquet and Arrow.

        Returns
        -------
        self
        """
        self._check_parameters()
        tasks = FitTasks(self, X, y)
        if self._streams(X, y):
            self._fit_source(opening.open_source(X, y, sample_weight), self._bounds, tasks, self.log)
        else:
            rows, bounds = self._rows(X, y, sample_weight), self._bounds(y)
            weighed = weigh_rows(rows, None, bounds, sample_weight)
            if np.asarray(y).ndim == 1 and np.array_equal(*bounds.T):
                _tell_of_two_values(bounds[:, 0])
                weighed = _without_far_values(weighed)
            self._fit_bounds(weighed.inputs, weighed.targets, weighed.weights, tasks, self.log)
        tasks.end()
        return self

    @in_steps
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from one batch of rows, which need not be kept.

        The first call starts one layer of ``max_experts`` experts per side. Its rows decide what stays: the standardisation
        of X, and the center and scale of y (give a few hundred). ``log="auto"`` takes y as it is, because later values need
        not be positive. Every call makes one shuffled pass of Adam steps over its rows, on the top layer; the prior counts
        against the rows seen, and Adam's moments carry over. Experts found inactive are dropped once ``prune_every`` steps
        (of ``map_config``) have passed. Depth changes by `grow` only. After `fit` or `load`, training of the fitted top layer
        goes on, and y stays as it was laid out.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, 2)
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        self._check_parameters()
        self._learn_bounds(
            X, y, sample_weight, self._bounds, lambda rows: layout_of(rows.targets, rows.weights, self.log is True)
        )
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, by name."""
        super()._check_parameters()
        check_choice("log", self.log, (True, False, "auto"))

    def _bounds(self, y: Any) -> FloatArray:
        """What targets say."""
        logs = self.log is True or (self._known_line() is not None and self.log_)
        return positive_bounds(numeric_bounds(y)) if logs else numeric_bounds(y)

    @property
    def log_(self) -> bool:
        """Whether logarithms are modelled."""
        return self._line.log

    _tells: ClassVar[str] = "mean"

    def _tell(self, draw: Distribution) -> FloatArray:
        """Means."""
        return draw.mean()

    def _said(self, y: Any) -> tuple[FloatArray, FloatArray]:
        """Targets as bounds, and as one number each."""
        bounds = numeric_bounds(y)
        return bounds, known_values(bounds)

    def predict(self, X: Any) -> FloatArray:
        """Means."""
        return np.concatenate([part.mean() for part in self._distributions(X)])

    def predict_quantiles(self, X: Any, q: ArrayLike = (0.05, 0.5, 0.95)) -> FloatArray:
        """Quantiles: shape (n_samples,) for one q, (n_samples, n_q) for several."""
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        found = np.concatenate([part.ppf(levels[:, None]).T for part in self._distributions(X)])
        return found[:, 0] if np.ndim(q) == 0 else found

    def predict_interval(self, X: Any, coverage: float = 0.9) -> FloatArray:
        """Ends of the intervals that hold the value with this probability, shape (n_samples, 2)."""
        return np.concatenate([part.interval(coverage) for part in self._distributions(X)])

    def predict_mean_interval(self, X: Any, level: float = 0.95) -> FloatArray:
        """Credible intervals of the means, from posterior draws, shape (n_samples, 2). It needs ``inference="gibbs"``."""
        return self._interval(X, lambda draw, _: draw.mean(), level)

    def predict_distribution(self, X: Any) -> Distribution:
        """The predicted distributions: an object with cdf, pdf, ppf, mean, std, sample, … (`pbdn.model.distribution`)."""
        return self._distribution(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the means."""
        if np.asarray(y).shape[1:] == (2,):
            raise InvalidInputError("score compares means with values, but y has bounds of them; use log_score.")
        return float(super().score(X, y, sample_weight))

    def log_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean log-density of y; of bounds, log-probability. More is better."""
        found = self._distribution(X).log_likelihood(self._said(y)[0])
        return float(np.average(found, weights=sample_weight))

    def crps(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean continuous ranked probability score, in units of y. Less is better."""
        return float(np.average(self._distribution(X).crps(np.asarray(y, dtype=float)), weights=sample_weight))


def _tell_of_two_values(y: FloatArray) -> None:
    """A warning where y rather names two classes."""
    values = np.unique(y)
    if values.size == 2 < FEW_ROWS < len(y):
        warn(
            f"y has two values only ({values[0]:g} and {values[1]:g}), of which a distribution of numbers tells little; "
            "PBDNClassifier predicts their probabilities."
        )


def _without_far_values(rows: LabelledRows) -> LabelledRows:
    """The rows but for those whose value is very far from all others; a warning says so."""
    values = rows.targets[:, 0]
    far = far_values(values, rows.weights)
    if not far.any():
        return rows
    warn(
        f"{far.sum()} of {len(values)} values of y are very far from all others, such as {values[far][0]:g}; their rows are left "
        "out. Mend them, or give y as two equal columns to keep them."
    )
    return rows.take(~far)
