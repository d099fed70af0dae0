"""How the estimators are fitted: validate, call, fill attributes."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d

from pbdn import config as options
from pbdn.config import GibbsConfig, MapConfig
from pbdn.data import open_stream as opening
from pbdn.data.labelled_rows import settled_classes, weigh_rows
from pbdn.data.row_source import encode
from pbdn.data.streams import StreamedSource
from pbdn.errors import InvalidInputError, warn
from pbdn.estimators.frames import checked_for_fit
from pbdn.estimators.growing import LearnsFromStreams, in_steps
from pbdn.estimators.predicting import FittedNetwork
from pbdn.growth.fit_network import ask_for_folds
from pbdn.growth.run import FitTasks, with_callbacks
from pbdn.inspection.access import checked_rows
from pbdn.model.priors import Hyperpriors
from pbdn.model.response import Response, response_for_classes
from pbdn.validation import check_choice, check_labels_present


class NetworkClassifier(LearnsFromStreams, FittedNetwork):
    """Base of the classifiers. A subclass adds what decides the depth, and says which response its labels are."""

    _most_classes: ClassVar[int | None] = None
    criterion: Any
    max_depth: Any

    def __init__(
        self,
        *,
        inference: str = "auto",
        max_experts: int = 20,
        class_weight: Any = None,
        standardize: bool = True,
        priors: Hyperpriors | None = None,
        gibbs_config: GibbsConfig | None = None,
        map_config: MapConfig | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        time_limit: float | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.inference = inference
        self.max_experts = max_experts
        self.class_weight = class_weight
        self.standardize = standardize
        self.priors = priors
        self.gibbs_config = gibbs_config
        self.map_config = map_config
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.time_limit = time_limit
        self.checkpoint = checkpoint

    def _response(self) -> Response:
        """The response for ``classes_``."""
        return response_for_classes(self.classes_.size)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None) -> Self:
        """Grow a network on labelled rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features), or a stream
            Missing values, categories, text, booleans and dates are prepared (docs/columns.md) and come raw to
            prediction too; numbers without gaps are taken as they are. With ``inference="map"`` also data larger than
            memory: a NumPy memory map, a path to a Parquet file or folder, a ``pyarrow.dataset.Dataset``, or an
            iterable (or a function that returns one) of batches (X, y) or (X, y, sample_weight) that can be read
            several times. Other engines load memory maps whole.
        y : array of shape (n_samples,)
            Labels of any kind. The name of the target column for Parquet and Arrow; None for batches.
        sample_weight : array of shape (n_samples,), optional
            Row weights: weight 2 has the law of the row given twice, weight 0 of an absent row. Weights of rows in memory
            that add up to one are shares, and stand for as many rows as there are. With Gibbs sampling
            fractional weights of rows with an event are rounded at random in every sweep (exact at whole numbers).
            The name of a column for Parquet and Arrow.
        classes : array, optional
            All labels of a stream; found in one pass if not given.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._begin_anew()
        tasks = FitTasks(self, X, y)
        streams = opening.is_stream(X, y)
        if streams and opening.check_can_stream(X, options.choose_inference(self.inference, self.gibbs_config)):
            self._fit_stream(opening.open_source(X, y, sample_weight, classes), tasks)
        else:
            self._fit_rows(*checked_for_fit(self, X, y, sample_weight), sample_weight, classes, tasks)
        tasks.end()
        return self

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any, classes: Any, tasks: FitTasks) -> None:
        """Fit on rows in memory."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        opening.check_declared(classes, self.classes_)
        self._check_number_of_classes("y")
        rows = weigh_rows(X, y, codes.astype(np.int64), sample_weight, self.class_weight)
        response = self._response()
        n_sides = response.labelling.n_sides
        inference = options.choose_inference(self.inference, self.gibbs_config)
        sampler = options.set_fields(self.gibbs_config).get("sampler")
        device = options.set_fields(self.map_config).get("device")
        criterion = options.choose_criterion(
            self.criterion, n_sides, inference, rows.n_meant, rows.n_features, hasattr(X, "toarray"), device
        )
        if criterion in (options.FOLDS, options.HOLDOUT, options.UNDECIDED) and inference != "gibbs":
            rows = rows.thinned(rows.most_trained)
        in_order = rows
        if inference != "map" or criterion in (options.FOLDS, options.UNDECIDED):
            can_merge = inference == "map" or sampler == "event_times"
            in_order = rows.repeated(can_merge).in_content_order()  # weight 2 is the row given twice, to the last bit
        if criterion == options.UNDECIDED:
            some, config, run = self._on_trial(in_order, response, tasks)
            criterion = options.FOLDS if ask_for_folds(some, response, config, run) else options.HOLDOUT
        rows = in_order if inference != "map" or criterion == options.FOLDS else rows
        self.config_ = self._resolve(response, inference, criterion, rows.n_rows, rows.n_features)
        present = np.unique(rows.codes)
        if present.size < 2:
            self._adopt_one_class(int(present[0]))
        else:
            self._fit_network(rows, response, tasks)

    def _fit_stream(self, source: StreamedSource, tasks: FitTasks) -> None:
        """Fit on rows that are read again and again."""
        self.classes_ = opening.classes_of(source)
        self._check_number_of_classes("the target")
        self._take_columns_of(source)
        response = self._response()
        criterion = options.choose_criterion(self.criterion, response.labelling.n_sides, "map", None)
        self.config_ = self._resolve(response, "map", criterion, source.n_rows)
        if self.classes_.size < 2:
            self._adopt_one_class(0)
        else:
            self._fit_network(opening.weigh_classes(source, self.class_weight), response, tasks)

    @in_steps
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one batch of rows, which need not be kept.

        The first call starts one layer of ``max_experts`` MAP experts per side and takes its standardisation
        from its rows (give a few hundred). Every call makes one shuffled pass of Adam steps over its rows, on
        the sides of the top layer; the prior counts against the rows that this layer has seen, and Adam's
        moments carry over between calls. Experts found inactive are dropped at the end of a call once
        ``prune_every`` steps (of ``map_config``) have passed. Depth never changes unless `grow` is called. After
        `fit` or `load`, training of the fitted top layer goes on.

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
        network = getattr(self, "network_", None)
        if network is None:
            X, y = checked_for_fit(self, X, y, sample_weight)
        else:
            X = checked_rows(self, X)
            check_labels_present(y)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        self.classes_ = settled_classes(classes, None if network is None else self.classes_, self._most_classes)
        rows = weigh_rows(X, y, encode(y, self.classes_), sample_weight, self.class_weight)
        self._learn(rows, self._response(), self.criterion, network)
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters out of range, by name."""
        check_choice("inference", self.inference, options.INFERENCES)
        if not callable(self.criterion):
            check_choice("criterion", self.criterion, options.CRITERION_NAMES)
        if isinstance(self.class_weight, str):
            check_choice("class_weight", self.class_weight, ("balanced",))
        super()._check_parameters()

    def _check_number_of_classes(self, where: str) -> None:
        if self._most_classes is not None and self.classes_.size > self._most_classes:
            raise InvalidInputError(
                f"Only binary classification is supported by {type(self).__name__}; "
                f"{where} has {self.classes_.size} classes. Use PBDNClassifier."
            )

    def _adopt_one_class(self, code: int) -> None:
        """One class only: predict it."""
        warn(
            f"y has only one class ({self.classes_.tolist()[code]!r}); the model will always predict it. "
            "Give rows of at least two classes to learn something."
        )
        self.only_class_ = code
        self.network_, self.paths_ = None, ()
        self.criterion_path_, self.trials_, self.trace_, self.convergence_ = [], [], [], []
        self._importances = np.zeros(self.n_features_in_)
