"""What both estimators share: fitting, prediction, saving."""

import os
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pbdn.data import opening as streaming
from pbdn.data.ordering import row_order
from pbdn.data.streams import StreamedSource
from pbdn.errors import InvalidInputError
from pbdn.explanation import ExplanationMixin
from pbdn.exporting import ExportMixin
from pbdn.fitting import HOLDOUT, FitPlan, FitResult, assemble, fit_network
from pbdn.gibbs.chain import ChainSettings
from pbdn.growth.callbacks import CallbackSupportMixin, FitTasks, with_callbacks
from pbdn.growth.checkpoint import Checkpoint, fingerprint
from pbdn.growth.grow import LayerFit
from pbdn.growth.partial_fit import IncrementalMixin
from pbdn.model.criteria import CRITERIA
from pbdn.model.network import Network
from pbdn.model.priors import Hyperpriors
from pbdn.model.scaling import clip_features, feature_limits, identity_scaling
from pbdn.sgd.config import MapConfig, default_config
from pbdn.validation import (
    NamedArray,
    as_table,
    check_choice,
    check_integer,
    check_kind,
    check_labels_present,
    check_positive,
    repeat_rows,
)

FloatArray = NDArray[np.float64]

HOLDOUT_LEAST = 50  # rows below which none can be spared to find the depth
AUTO_WORK = 20_000  # rows x sides up to which inference="auto" samples
CHUNK_ROWS = 20_000  # rows predicted at a time from posterior draws

# parameters that do not change what a fit computes
_IDLE = {"n_jobs", "verbose", "checkpoint", "time_limit", "random_state"}


class NetworkClassifier(
    CallbackSupportMixin,  # type: ignore[misc]
    ExplanationMixin,
    IncrementalMixin,
    ExportMixin,
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Base of `PBDNClassifier` and `ISHMClassifier`."""

    _single_side = False

    # ------------------------------------------------------------------ fitting

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None) -> Any:
        """Grow a network on labelled rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features), or a stream
            With ``inference="map"`` also data larger than memory: a NumPy memory map, a path to a Parquet
            file or folder, a ``pyarrow.dataset.Dataset``, or an iterable (or a function that returns one) of
            batches (X, y) or (X, y, sample_weight) that can be read several times. Other engines load memory
            maps whole.
        y : array of shape (n_samples,)
            Labels of any kind. The name of the target column for Parquet and Arrow; None for batches.
        sample_weight : array of shape (n_samples,), optional
            Row weights: weight 2 has the law of the row given twice, weight 0 of an absent row. With Gibbs sampling
            fractional weights of rows with an event are rounded at random in every sweep (exact at whole numbers).
            The name of a column for Parquet and Arrow.
        classes : array, optional
            All labels of a stream; found in one pass if not given.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._forget_increment()
        tasks = FitTasks(self, X, y)
        if streaming.is_stream(X, y) and streaming.check_can_stream(X, self._choose_inference()):
            return self._fit_stream(streaming.open_source(X, y, sample_weight, classes), tasks)
        X, y = self._validate_fit(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        streaming.check_declared(classes, self.classes_)
        if self._single_side and self.classes_.size > 2:
            raise InvalidInputError(
                "Only binary classification is supported by ISHMClassifier; "
                f"y has {self.classes_.size} classes. Use PBDNClassifier."
            )
        X, codes, weights = self._weigh(X, y, codes.astype(np.int64), sample_weight)
        self.inference_ = self._choose_inference(codes.size if weights is None else weights.sum())
        if weights is not None and self.inference_ != "map":  # weight 2 is the row given twice to the last bit
            X, codes, weights = repeat_rows(X, codes, weights, can_merge=self.sampler == "event_times")
        present = np.unique(codes)
        if present.size < 2:
            self._fit_one_class(int(present[0]))
        else:
            self._fit_network(X, codes, weights, tasks)
        tasks.end()
        return self

    def _fit_network(self, X: Any, codes: NDArray[np.int64], weights: FloatArray | None, tasks: FitTasks) -> None:
        """Grow the network and fill the fitted attributes."""
        if self.inference_ != "map":
            order = row_order(X, codes, weights)
            X, codes, weights = X[order], codes[order], None if weights is None else weights[order]
        if self.head == "race" and (sp.issparse(X) or weights is not None):
            what = "a sparse X" if sp.issparse(X) else "fractional weights"
            raise InvalidInputError(
                f"head='race' does not take {what}; give dense rows of whole weight, or use head='sides'."
            )
        scaling = streaming.scaling_of(X, weights) if self.standardize else identity_scaling(X.shape[1])
        plan = self._plan(codes, weights)
        checkpoint = self._open_checkpoint(X, codes, weights, plan)
        if checkpoint is not None:
            plan = replace(plan, seed=checkpoint.seed)
        tasks.attributes = lambda fits: network_attributes(assemble(fits, scaling, plan, X.shape[1])) | {"paths_": ()}
        self._adopt(fit_network(X, scaling, plan, checkpoint, tasks))

    def _fit_stream(self, source: StreamedSource, tasks: FitTasks) -> Any:
        """Grow the network on rows that are read again and again."""
        self.classes_ = streaming.check_source(source, self._single_side)
        self.inference_ = "map"
        self.n_features_in_ = source.n_features
        self.__dict__.pop("feature_names_in_", None)
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        if self.classes_.size < 2:
            self._fit_one_class(0)
        else:
            source = streaming.weigh_classes(source, self.class_weight)
            self._fit_network(source, np.empty(0, np.int64), None, tasks)
        tasks.end()
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, by name."""
        check_choice("inference", self.inference, ("auto", "map+gibbs", "gibbs", "map"))
        check_choice("sampler", self.sampler, ("first_events", "event_times", "counts"))
        check_choice("prediction", self.prediction, ("auto", "point", "posterior", "paths"))
        check_integer("max_experts", self.max_experts, 1)
        check_integer("n_sweeps", self.n_sweeps, 1)
        check_integer("n_burn_in", self.n_burn_in, 0, int(self.n_sweeps) - 1)
        check_integer("prune_every", self.prune_every, 1)
        check_integer("n_draws", self.n_draws, 1)
        check_integer("n_chains", self.n_chains, 1)
        if self.time_limit is not None:
            check_positive("time_limit", self.time_limit)
        if not callable(self.criterion):
            check_choice("criterion", self.criterion, ("auto", HOLDOUT, *CRITERIA))
        check_kind("priors", self.priors, Hyperpriors)
        check_kind("map_config", self.map_config, MapConfig)
        if self.inference == "map" and self.prediction in ("posterior", "paths"):
            raise InvalidInputError(
                f"prediction={self.prediction!r} needs posterior draws, which inference='map' does not make; use "
                "inference='gibbs', or prediction='point'."
            )

    def _choose_inference(self, total_weight: float = np.inf) -> str:
        """The inference in force: "auto" samples where that is a matter of a minute or two, or draws are asked for."""
        if self.inference != "auto":
            return str(self.inference)
        if self.head == "race" or self.prediction in ("posterior", "paths"):
            return "map+gibbs"
        if not np.isfinite(total_weight):
            return "map"
        return "map+gibbs" if total_weight * self._n_sides() <= AUTO_WORK else "map"

    def _n_sides(self) -> int:
        """Sides of a layer."""
        n_classes = int(self.classes_.size)
        return 1 if self._single_side else n_classes * (2 if self._has_complements() else 1)

    def _has_complements(self) -> bool:
        """Whether there are sides against the classes."""
        return self.classes_.size > 2 and self.sides == "pairs" and self.head == "sides"

    def _validate_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Arrays from whatever came; remembers feature names and their number."""
        X = as_table(X)
        names = X.columns if isinstance(X, NamedArray) else None
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None.")
        check_labels_present(y)
        X, y = validate_data(self, np.asarray(X) if names else X, y, accept_sparse="csr", dtype=np.float64, order="C")
        check_classification_targets(y)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return X, y

    def _validate(self, X: Any) -> Any:
        """Arrays for prediction, with the same columns as in fit, cut off where double precision ends."""
        check_is_fitted(self)
        X = as_table(X)
        with warnings.catch_warnings():
            if isinstance(X, NamedArray):
                known = getattr(self, "feature_names_in_", None)
                if known is not None and list(known) != X.columns:
                    raise ValueError(
                        "The feature names should match those that were passed during fit. "
                        f"Got {X.columns[:5]}, fitted with {list(known)[:5]}."
                    )
                warnings.filterwarnings("ignore", "X does not have valid feature names")
                X = np.asarray(X)
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64, order="C")
        return X if self.network_ is None else clip_features(X, self.feature_limits_)

    def _weigh(
        self, X: Any, y: Any, codes: NDArray[np.int64], sample_weight: Any
    ) -> tuple[Any, NDArray[np.int64], FloatArray | None]:
        """Rows that count, and sample_weight times class_weight; None where all weights are one."""
        if sample_weight is None and self.class_weight is None:
            return X, codes, None
        weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64)).copy()
        if np.any(weights < 0):
            raise InvalidInputError(
                f"sample_weight must not be negative (smallest: {weights.min():g}); give weight 0 to rows that should not "
                "count."
            )
        if self.class_weight is not None:
            weights *= compute_sample_weight(self.class_weight, y)
        counts = weights > 0
        if not counts.any():
            raise InvalidInputError("sample_weight is zero for every row; give at least one row a positive weight.")
        if not counts.all():
            X, codes, weights = X[counts], codes[counts], weights[counts]
        return X, codes, None if np.all(weights == 1.0) else weights

    def _plan(self, codes: NDArray[np.int64], weights: FloatArray | None) -> FitPlan:
        """The validated parameters as a plan."""
        from joblib import effective_n_jobs

        priors = Hyperpriors() if self.priors is None else self.priors
        chain = ChainSettings(
            sampler=self.sampler,
            max_experts=int(self.max_experts),
            n_sweeps=int(self.n_sweeps),
            n_burn_in=int(self.n_burn_in),
            n_draws=-(-int(self.n_draws) // int(self.n_chains)),
            pruning=self.pruning,
            prune_every=int(self.prune_every),
            record=self.record,
            priors=priors,
        )
        n_classes = int(self.classes_.size)
        config = default_config(n_classes, int(self.max_experts)) if self.map_config is None else self.map_config
        return FitPlan(
            inference=self.inference_,
            codes=codes,
            n_sides=self._n_sides(),
            complements=self._has_complements(),
            head=self.head,
            weights=weights,
            chain=chain,
            map_config=config,
            criterion=self._criterion(codes),
            max_depth=int(self.max_depth),
            skip=self.skip,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_chains=int(self.n_chains),
            n_jobs=int(effective_n_jobs(self.n_jobs)),
            n_paths=int(self.n_paths) if self._mode() == "paths" else 0,
            time_limit=self.time_limit,
            verbose=int(self.verbose),
        )

    def _criterion(self, codes: NDArray[np.int64]) -> Any:
        """What decides the depth; "auto" is rows kept back for a MAP network of several classes, else AIC."""
        if callable(self.criterion):
            return self.criterion
        in_memory = codes.size >= HOLDOUT_LEAST
        if self.criterion == "auto":
            several = self.classes_.size > 2 and self.inference_ == "map" and in_memory
            return HOLDOUT if several else CRITERIA["aic_inputs"]
        if self.criterion == HOLDOUT and not in_memory:
            raise InvalidInputError(
                f"criterion='holdout' needs at least {HOLDOUT_LEAST} rows in memory; use criterion='aic_inputs'."
            )
        return HOLDOUT if self.criterion == HOLDOUT else CRITERIA[self.criterion]

    def _open_checkpoint(
        self, X: Any, codes: NDArray[Any], weights: FloatArray | None, plan: FitPlan
    ) -> Checkpoint | None:
        """The checkpoint of this very fit, read if it exists."""
        if self.checkpoint is None:
            return None
        settings = {key: value for key, value in self.get_params(deep=False).items() if key not in _IDLE}
        if isinstance(self.random_state, int | np.integer):
            settings["random_state"] = int(self.random_state)
        settings["estimator"] = type(self).__name__
        marks = fingerprint([*streaming.marks_of(X), codes, weights], settings)
        return Checkpoint(self.checkpoint, marks, plan.seed, plan.chain.n_sweeps)

    def _fit_one_class(self, code: int, warn: bool = True) -> None:
        """One class only: predict it."""
        if warn:
            warnings.warn(
                f"y has only one class ({self.classes_.tolist()[code]!r}); the model will always predict it. "
                "Give rows of at least two classes to learn something.",
                stacklevel=4,
            )
        self.only_class_ = code
        self._set(network_attributes(None), criterion_path_=[], trace_=[], convergence_=[], paths_=())

    def _adopt(self, result: FitResult) -> None:
        """Fill the fitted attributes."""
        self._set(
            network_attributes(result.network),
            criterion_path_=[asdict(step) for step in result.growth.path],
            trace_=[_traces(fit) for fit in result.growth.fits],
            convergence_=[asdict(one) for one in result.convergence],
            paths_=result.paths,
        )

    def _set(self, attributes: dict[str, Any], **more: Any) -> None:
        for name, value in {**attributes, **more}.items():
            setattr(self, name, value)

    # --------------------------------------------------------------- prediction

    def _mode(self) -> str:
        """The prediction in force: "auto" averages draws where there are any, and with two classes over several paths."""
        if self.prediction != "auto":
            return str(self.prediction)
        if self.inference_ == "map":
            return "point"
        alone = self._single_side or self.head == "race" or self.classes_.size > 2
        return "posterior" if alone else "paths"

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities, columns in the order of ``classes_``.

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        if streaming.is_stream(X):
            return streaming.predict_proba(self, X)
        X = self._validate(X)
        if self.network_ is None:
            out = np.zeros((X.shape[0], self.classes_.size))
            out[:, self.only_class_] = 1.0
            return out
        if self._mode() == "point" or not self.network_.top.draws:
            return np.asarray(self.network_.class_probability(X))
        networks = self.paths_ if self._mode() == "paths" and self.paths_ else (self.network_,)
        out = np.empty((X.shape[0], self.classes_.size))
        for low in range(0, X.shape[0], CHUNK_ROWS):
            part = X[low : low + CHUNK_ROWS]
            out[low : low + CHUNK_ROWS] = np.mean(
                [network.mean_class_probability(part) for network in networks], axis=0
            )
        return out

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; X, y and sample_weight as in `fit`."""
        if streaming.is_stream(X, y):
            return streaming.accuracy(self, X, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Natural logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    def posterior_predictive_proba(self, X: Any) -> FloatArray:
        """Class probabilities of every posterior draw, shape (n_draws, n_samples, n_classes)."""
        X = self._validate(X)
        if self.network_ is None:
            return self.predict_proba(X)[None]
        if not self.network_.top.draws:
            raise InvalidInputError(
                f"inference={self.inference_!r} keeps no posterior draws; fit with inference='map+gibbs' for intervals."
            )
        networks = self.paths_ if self._mode() == "paths" and self.paths_ else (self.network_,)
        return np.concatenate([network.class_probability_draws(X) for network in networks])

    def predict_proba_interval(self, X: Any, level: float = 0.95) -> FloatArray:
        """Equal-tailed credible intervals of the class probabilities.

        Returns
        -------
        array of shape (n_samples, n_classes, 2)
            Lower and upper ends.
        """
        if not 0.0 < level < 1.0:
            raise InvalidInputError(f"level={level!r} must lie strictly between 0 and 1, e.g. 0.95.")
        draws = self.posterior_predictive_proba(X)
        ends = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
        return np.asarray(np.moveaxis(ends, 0, -1))

    # ------------------------------------------------------------------- saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a ``.pbdn`` file (data only; see `load`)."""
        from pbdn.files.estimator import save_estimator

        save_estimator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Read a model written by `save`; never executes anything."""
        from pbdn.files.estimator import load_estimator

        return load_estimator(cls, path)

    def __sklearn_tags__(self) -> Any:
        """Sparse rows and, for the network, several classes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = not self._single_side
        return tags


def network_attributes(network: Network | None) -> dict[str, Any]:
    """The fitted attributes that follow from the network (None: one class only)."""
    layers = () if network is None else network.layers
    return {
        "network_": network,
        "layers_": layers,
        "depth_": len(layers),
        "n_experts_": [layer.n_experts for layer in layers],
        "complexity_": 0.0 if network is None else network.complexity,
        "n_weights_": 0 if network is None else network.n_weights,
        "feature_limits_": None if network is None else feature_limits(network),
    }


def _traces(fit: LayerFit) -> Any:
    """Traces of one layer: per side and chain for Gibbs, one dict for MAP."""
    if isinstance(fit.details, list):
        return [[chain.trace for chain in chains] for chains in fit.details]
    return fit.details.trace
