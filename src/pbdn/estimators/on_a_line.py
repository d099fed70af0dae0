"""What estimators of values on a line share: from bounds to a network, and from a network to distributions."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from pbdn import config as options
from pbdn.config import FitConfig, GibbsConfig, MapConfig
from pbdn.data import open_stream as opening
from pbdn.data.labelled_rows import LabelledRows, weigh_rows
from pbdn.data.row_source import Reader
from pbdn.data.streams import StreamedSource
from pbdn.errors import InvalidInputError, warn
from pbdn.estimators.exporting import Exports
from pbdn.estimators.frames import PreparedRows, checked_inputs, raw_pieces, require_target
from pbdn.estimators.growing import LearnsFromStreams
from pbdn.estimators.network import NetworkEstimator
from pbdn.growth.fit_network import best_layout
from pbdn.growth.run import FitTasks
from pbdn.inspection.access import checked_rows, dense_rows, network_of, no_draws, parts_of, with_names
from pbdn.inspection.effects import feature_effects
from pbdn.inspection.subtypes import as_frame
from pbdn.model.distribution import Distribution, DistributionOfFirst
from pbdn.model.labelling import check_informative
from pbdn.model.network import Layer, Network, Side
from pbdn.model.priors import Hyperpriors
from pbdn.model.scaling import standard_scaling
from pbdn.model.timed import OnALine, drawn_arrays, joined_arrays, known_values, side_arrays
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_choice, check_share

INFERENCES = ("auto", "gibbs", "map")
CHUNK_ROWS = 5_000  # rows whose distributions are worked on at a time
NARROW = 1e-9  # spread of the distribution of a constant, relative to it
SAMPLE_ROWS = 20_000  # of a stream, which decide how values lie on the line
BEYOND = 1.0  # standard deviations of logarithms above all values of training that a mean may count
LEAST_RATIO = 2.0  # of the largest to the smallest value for logarithms to be worth a trial


class LineEstimator(Exports, LearnsFromStreams, NetworkEstimator):
    """Base of the regressors. A subclass says what its targets are as bounds, and what it predicts."""

    _has_classes: ClassVar[bool] = False
    _predicts: ClassVar[str] = "number"

    @classmethod
    def _kinds_of_models(cls, n: int) -> tuple[type, ...]:
        """For `load`: the classes of ``models_``, where an estimator has several networks."""
        return (cls,) * n

    def __init__(
        self,
        *,
        inference: str = "auto",
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
        self.inference = inference
        self.max_depth = max_depth
        self.max_experts = max_experts
        self.standardize = standardize
        self.priors = priors
        self.gibbs_config = gibbs_config
        self.map_config = map_config
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.time_limit = time_limit

    # -------------------------------------------------------------------------------- fitting

    def _streams(self, X: Any, y: Any) -> bool:
        """Whether X is read in pieces, which only MAP can do. Nothing of an old fit is left."""
        self._begin_anew()
        return opening.is_stream(X, y) and opening.check_can_stream(X, self._chosen_inference())

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """The rows checked, before their targets are looked at."""
        self._begin_anew()
        require_target(y)
        rows = checked_inputs(self, X, y, sample_weight)
        check_consistent_length(rows, y)
        return rows

    def _shared(self, X: Any, rows: Any) -> Any:
        """The rows for every network of an estimator that has several: prepared once, if they need it."""
        return PreparedRows(rows, self.preparation_) if hasattr(self, "preparation_") else X

    def _fit_bounds(
        self, X: Any, bounds: FloatArray, sample_weight: Any, tasks: FitTasks, log: bool | str, cuts: Any = ()
    ) -> None:
        """Grow a network on rows whose values lie in (low, high]; ``log`` may be "auto".

        With ``cuts``, those of grades, the bounds are values on the line already.
        """
        rows = informative(weigh_rows(X, None, bounds, sample_weight)).repeated(can_merge=True).in_content_order()
        self._fit_line(rows, line_facts(rows.targets, rows.weights, log, cuts), tasks)

    def _fit_line(self, rows: LabelledRows, facts: "LineFacts", tasks: FitTasks) -> None:
        """Grow a network on rows in content order."""
        if facts.constant is not None:
            self._adopt_constant(rows, facts.constant)
            return
        response = self._best_of(facts.layouts, rows, tasks)
        self.config_ = self._settled(response, rows)
        self._fit_network(rows.with_targets(response.to_line), response, tasks)

    def _best_of(self, layouts: tuple[OnALine, ...], rows: LabelledRows, tasks: FitTasks) -> OnALine:
        """The layout under which rows kept back are likeliest, where there are several."""
        if len(layouts) == 1:
            return layouts[0]
        some, trained, run = self._on_trial(rows, layouts[0], tasks)
        return best_layout(some, layouts, trained, run)

    def _settled(self, response: OnALine, rows: LabelledRows) -> FitConfig:
        """The options in force."""
        inference = self._chosen_inference()
        criterion = "aic_inputs" if inference == "gibbs" else options.FOLDS
        return self._resolve(response, inference, criterion, rows.n_rows, rows.n_features)

    def _fit_source(
        self, source: StreamedSource, read: Reader, tasks: FitTasks, log: bool | str, cuts: Any = ()
    ) -> LabelledRows:
        """Grow a network on rows that are read again and again; ``read`` makes bounds of targets.

        Returns the sample by which the layout was decided.
        """
        source = source.read_by(read)
        self._take_columns_of(source)
        sample = informative(opening.spread_sample(source, SAMPLE_ROWS))
        facts = line_facts(sample.targets, sample.weights, log, cuts)
        if facts.constant is not None:
            self._adopt_constant(sample, facts.constant)
        else:
            response = self._best_of(facts.layouts, sample, tasks)
            self.config_ = self._resolve(response, "map", "aic_inputs", source.n_rows)
            self._fit_network(source.read_by(lambda y: response.to_line(read(y))), response, tasks)
        return sample

    def _known_line(self) -> OnALine | None:
        """The layout of values on the line that batches go on with; None where there is none, or of one value only."""
        network = getattr(self, "network_", None)
        if network is None or network.response.scale <= _narrow(network.response.center):
            return None
        return self._line

    def _learn_bounds(
        self, X: Any, y: Any, sample_weight: Any, read: Reader, layout: Callable[[LabelledRows], OnALine]
    ) -> None:
        """One call of `partial_fit`: in the first, ``layout`` decides how values lie on the line."""
        known = self._known_line()
        require_target(y)
        X = checked_inputs(self, X, y, sample_weight) if known is None else checked_rows(self, X)
        check_consistent_length(X, y)
        rows = weigh_rows(X, None, read(y), sample_weight)
        if known is None:
            rows = informative(rows)
            known = layout(rows)
        targets = known.to_line(rows.targets)
        if known.log:
            most = float(targets[np.isfinite(targets)].max(initial=0.0)) + BEYOND
            known = replace(known, reach=max(known.reach, most))
        network = self.network_ if self._known_line() is not None else None
        self._learn(replace(rows, targets=targets), known, "aic_inputs", network)

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, by name."""
        check_choice("inference", self.inference, INFERENCES)
        super()._check_parameters()

    def _chosen_inference(self) -> str:
        """The inference in force: "auto" is MAP unless posterior draws are asked for."""
        wanted = options.set_fields(self.gibbs_config).get("prediction", "auto")
        averages = wanted in ("posterior", "paths")
        if self.inference == "map" and averages:
            raise InvalidInputError(
                f"gibbs_config.prediction={wanted!r} needs posterior draws, which inference='map' does not make; use "
                "inference='gibbs'."
            )
        return self.inference if self.inference != "auto" else "gibbs" if averages else "map"

    def _words_on_one(self, value: float) -> str:
        """What is said of targets that are all the same."""
        return f"y has only one value ({value:g})"

    def _adopt_constant(self, rows: LabelledRows | StreamedSource, value: float) -> None:
        """One value only: predict it."""
        words = self._words_on_one(value)
        warn(f"{words}; the model will always predict it. Give rows of other values to learn something.")
        side = Side(np.zeros((1, rows.n_features + 1)), np.ones(1), np.ones(1))
        response = OnALine(value, _narrow(value))
        self.config_ = self._resolve(response, "map", options.FOLDS, rows.n_rows, rows.n_features)
        self.network_, self.paths_ = Network((Layer((side, side)),), rows.n_features, response), ()
        self.criterion_path_, self.trials_, self.trace_, self.convergence_ = [], [], [], []
        self._importances = np.zeros(self.n_features_in_)

    # ----------------------------------------------------------------------------- prediction

    def _distributions(self, X: Any) -> Iterator[Distribution]:
        """The distributions of all rows, some rows at a time; X may be a stream."""
        check_is_fitted(self)
        if opening.is_stream(X):
            for piece in opening.pieces(raw_pieces(self, X), getattr(self, "feature_names_in_", None)):
                yield from self._distributions(piece)
            return
        rows = checked_rows(self, X)
        for low in range(0, max(rows.shape[0], 1), CHUNK_ROWS):
            yield self._of_rows(rows[low : low + CHUNK_ROWS])

    @property
    def _line(self) -> OnALine:
        """The response, which says how targets lie on the line; an estimator of several networks has none of its own."""
        if self.models_:
            raise AttributeError("The model has several networks; ask one of them: model.models_[0].")
        response = network_of(self).response
        assert isinstance(response, OnALine)
        return response

    def _distribution(self, X: Any) -> Distribution:
        """The distributions of all rows at once."""
        check_is_fitted(self)
        return self._of_rows(checked_rows(self, X))

    def _of_rows(self, rows: Any) -> Distribution:
        """The distributions of checked rows: of the recorded point, or the average over posterior draws."""
        if self.models_:
            return self._of_first(lambda model, own: model._of_rows(own), rows)
        network = network_of(self)
        if self.config_.prediction == "point" or not network.top.draws:
            return Distribution(side_arrays(network.top, network.top_inputs(rows)), self._line)
        return self._drawn(rows)

    def _drawn(self, rows: Any) -> Distribution:
        """The distributions of checked rows, by posterior draws."""
        if self.models_:
            return self._of_first(lambda model, own: model._drawn(own), rows)
        parts = [drawn_arrays(one.top.draws, one.top_inputs(rows)) for one in self._averaged()]
        return Distribution(joined_arrays(parts), self._line)

    def _of_first(self, told: Callable[[Any, Any], Distribution], rows: Any) -> Distribution:
        """The distributions of the first event of any cause; ``models_`` has a network for each cause."""
        return DistributionOfFirst([told(one, checked_rows(one, with_names(self, rows))) for one in self.models_])

    def _interval(self, X: Any, told: Callable[[Distribution, slice], FloatArray], level: float) -> FloatArray:
        """Equal-tailed credible intervals of what a distribution tells of some rows; the last axis has the two ends."""
        check_is_fitted(self)
        check_share("level", level)
        if not all(network_of(model).top.draws for _, model in parts_of(self)):
            raise no_draws(self)
        rows, found = checked_rows(self, X), []
        for low in range(0, rows.shape[0], CHUNK_ROWS):
            some = slice(low, low + CHUNK_ROWS)
            draws = [told(one, some) for one in self._drawn(rows[some]).draws()]
            found.append(np.quantile(draws, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0))
        return np.ascontiguousarray(np.moveaxis(np.concatenate(found, axis=1), 0, -1))

    def effects(self, X: Any) -> Any:
        """How far predicted medians move when each column is shuffled in the rows X, strongest first; it needs no targets.

        Returns
        -------
        pandas.DataFrame
            Columns feature, moved (mean move of the median) and share.
        """
        found = feature_effects(self, dense_rows(self, X))
        return as_frame({name: [one[name] for one in found] for name in ("feature", "moved", "share")})


class LineFacts(NamedTuple):
    """What all targets say together: the only value, if there is one, and how they may be laid on the line.

    Of several layouts a trial chooses.
    """

    constant: float | None
    layouts: tuple[OnALine, ...]


def line_facts(bounds: FloatArray, weights: FloatArray | None, log: bool | str, cuts: Any = ()) -> LineFacts:
    """Facts of targets; ``log`` may be "auto"; with ``cuts``, those of grades, they are values on the line already."""
    check_informative(bounds)
    if _is_constant(bounds):
        return LineFacts(float(bounds[0, 0]), ())
    if len(cuts):
        return LineFacts(None, (OnALine(cuts=tuple(cuts)),))
    kinds = (False, True) if log == "auto" and _may_be_logarithms(bounds) else (log is True,)
    return LineFacts(None, tuple(layout_of(bounds, weights, kind) for kind in kinds))


def layout_of(targets: FloatArray, weights: FloatArray | None, log: bool) -> OnALine:
    """Values, or their logarithms, less their mean and divided by their standard deviation."""
    with np.errstate(divide="ignore"):
        bounds = np.log(np.maximum(targets, 0.0)) if log else targets
    scaling = standard_scaling(known_values(bounds)[:, None], weights)
    response = OnALine(float(scaling.center[0]), float(scaling.scale[0]), log)
    if not log:
        return response
    return replace(response, reach=float(response.to_line(targets[np.isfinite(targets)]).max()) + BEYOND)


def _narrow(value: float) -> float:
    """The scale of a line on which only this value lies."""
    return NARROW * max(abs(value), np.finfo(float).tiny / NARROW)


def informative(rows: LabelledRows) -> LabelledRows:
    """The rows that have a bound; refuses rows of which all lack the same one."""
    check_informative(rows.targets)
    return rows.take(np.isfinite(rows.targets).any(axis=1))


def _is_constant(bounds: FloatArray) -> bool:
    return bool(np.all(bounds[:, :2] == bounds[0, 0]))


def _may_be_logarithms(bounds: FloatArray) -> bool:
    """Whether values are positive, and so different that their logarithms are worth a trial."""
    finite = bounds[np.isfinite(bounds)]
    return bool(finite.min() > 0.0 and finite.max() >= LEAST_RATIO * finite.min())
