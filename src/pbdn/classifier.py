"""The two estimators people import."""

from typing import Any

from pbdn.base import NetworkClassifier
from pbdn.errors import InvalidInputError
from pbdn.validation import check_choice, check_integer


class PBDNClassifier(NetworkClassifier):
    """Parsimonious Bayesian deep network: a classifier that chooses its own width and depth.

    A layer has a side for and a side against each class (binary: the labels and their flip); each side is an infinite support hyperplane machine,
    P(y=1 | x) = 1 - exp(-Σ_k r_k ln(1 + e^{x'β_k})), whose gamma-process prior decides how many experts stay. Layers are stacked
    while the criterion falls. The defaults need no tuning.

    Parameters
    ----------
    inference : {"auto", "map+gibbs", "gibbs", "map"}, default="auto"
        Gibbs sampling (posterior draws, intervals) with chains that start at a MAP fit ("map+gibbs") or at the prior ("gibbs"), or MAP
        alone by stochastic gradients ("map", large data). "auto" is "map+gibbs" while rows x sides (two, or twice the number of classes)
        are at most 20 000 or ``prediction`` asks for draws, and "map" beyond and for streams.
    criterion : {"auto", "aic_inputs", "aic", "aic_eps", "bic", "holdout"} or callable, default="auto"
        What decides the depth (see `pbdn.model.criteria`): AIC charging every coefficient, or by the paper's two counts, BIC, or
        "holdout", the likelihood of rows kept back: every row once, in five folds, for MAP of up to 2000 rows, else every fifth (the
        network is then grown again on all rows, and by MAP its layers are tuned together where the rows kept back became
        likelier by it, see `pbdn.sgd.config.MapConfig.polish`). "auto" is "holdout" for MAP with three or more classes and rows in memory, else
        "aic_inputs".
    max_depth : int, default=5
        Most layers; reaching it while the criterion still falls warns.
    max_experts : int, default=20
        Experts per side at the start (the truncation of the gamma process).
    n_sweeps, n_burn_in : int, default=1000, 500
        Gibbs sweeps per layer in all, and how many of them come before draws are kept.
    prune_every : int, default=200
        Sweeps between prunings of empty experts.
    sides : {"pairs", "one_per_class"}, default="pairs"
        With three or more classes: a side for and a side against each class, as each of two classes has in the other, or a side
        for each class only (half the work). Two classes have the same two sides either way.
    head : {"sides", "race"}, default="sides"
        "race" is experimental: one likelihood for all classes (the class whose process has the first event wins) in place of sides
        that answer yes or no. Its chain starts at the prior. Needs Gibbs sampling, dense rows without fractional weights, the default sampler, one chain, and
        takes neither checkpoint, prediction="paths", pruning="paper" nor record="whole_chain"; such networks cannot be exported.
    skip : {"last_two", "none", "all"}, default="last_two"
        Inputs of the next layer: the units of the last two layers (the paper), of the newest only, or everything so far.
    standardize : bool, default=True
        Scale features to mean 0 and s.d. 1 for the fit (sparse ones to largest value 1), and fold the scaling into the network.
    prediction : {"auto", "point", "posterior", "paths"}, default="auto"
        "point" uses the recorded draw of highest likelihood (the paper) or the MAP; "posterior" averages the kept draws of the top
        layer; "paths" averages ``n_paths`` further runs from bottom to top that each pass one posterior draw upward (the sequential,
        "cut" posterior). "auto" is "paths" for Gibbs with two classes, "posterior" with more (every side is sampled again for every path)
        or with head="race", and "point" for MAP.
    n_draws : int, default=100
        Posterior draws kept (over all chains, and again over all paths).
    n_paths : int, default=5
        Runs for prediction="paths".
    n_chains : int, default=1
        Independent chains per side.
    n_jobs : int or None, default=None
        Threads, as in joblib; results do not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        Show a progress bar. Messages go to the ``pbdn`` logger.
    class_weight : dict, "balanced" or None, default=None
    checkpoint : path or None, default=None
        File that lets an interrupted fit resume with the same result.
    time_limit : float or None, default=None
        Seconds after which the fit stops with what it has.
    sampler : {"first_events", "event_times", "counts"}, default="first_events"
        Three samplers of the same posterior; "counts" is the paper's.
    pruning : {"window", "paper", "none"}, default="window"
    record : {"collection", "whole_chain"}, default="collection"
        Where the recorded draw is looked for.
    priors : Hyperpriors or None, default=None
        None is the library's default; `pbdn.model.priors.PAPER_PRIORS` are the paper's.
    map_config : MapConfig or None, default=None
        Options of the MAP engine.

    Attributes
    ----------
    classes_ : array
    inference_ : str
        The inference that was used.
    n_features_in_ : int
    feature_names_in_ : array
        Only if X had column names.
    network_ : Network
        The fitted network, acting on raw features.
    layers_ : tuple of Layer
    depth_ : int
    n_experts_ : list of tuples
        Experts per layer and side.
    criterion_path_ : list of dicts
        Per layer tried: criterion, log-likelihood as grown, parameters, experts, seconds, kept, and (on the last layer kept)
        polished: whether all layers were tuned together at the end.
    complexity_ : float
        Cost of a prediction in units of one inner product, as the paper counts it.
    n_weights_ : int
    trace_ : list
        Per layer: traces of the chains, or of the optimiser.
    convergence_ : list of dicts
        R-hat and effective sample sizes of the top layer.

    References
    ----------
    M. Zhou, "Parsimonious Bayesian deep networks", NeurIPS 2018.

    Examples
    --------
    >>> from pbdn import PBDNClassifier
    >>> from pbdn.datasets import make_xor
    >>> data = make_xor(200, seed=0)
    >>> model = PBDNClassifier(inference="map", random_state=0).fit(data.X, data.y)
    >>> bool(model.score(data.X, data.y) > 0.8)
    True
    """

    def __init__(
        self,
        *,
        inference: str = "auto",
        criterion: Any = "auto",
        max_depth: int = 5,
        max_experts: int = 20,
        n_sweeps: int = 1000,
        n_burn_in: int = 500,
        prune_every: int = 200,
        sides: str = "pairs",
        head: str = "sides",
        skip: str = "last_two",
        standardize: bool = True,
        prediction: str = "auto",
        n_draws: int = 100,
        n_paths: int = 5,
        n_chains: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        class_weight: Any = None,
        checkpoint: Any = None,
        time_limit: float | None = None,
        sampler: str = "first_events",
        pruning: str = "window",
        record: str = "collection",
        priors: Any = None,
        map_config: Any = None,
    ) -> None:
        self.inference = inference
        self.criterion = criterion
        self.max_depth = max_depth
        self.max_experts = max_experts
        self.n_sweeps = n_sweeps
        self.n_burn_in = n_burn_in
        self.prune_every = prune_every
        self.sides = sides
        self.head = head
        self.skip = skip
        self.standardize = standardize
        self.prediction = prediction
        self.n_draws = n_draws
        self.n_paths = n_paths
        self.n_chains = n_chains
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.class_weight = class_weight
        self.checkpoint = checkpoint
        self.time_limit = time_limit
        self.sampler = sampler
        self.pruning = pruning
        self.record = record
        self.priors = priors
        self.map_config = map_config

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("head", self.head, ("sides", "race"))
        if self.head == "race":
            self._check_race()
        check_choice("sides", self.sides, ("pairs", "one_per_class"))
        check_choice("skip", self.skip, ("last_two", "none", "all"))
        check_choice("pruning", self.pruning, ("window", "paper", "none"))
        check_choice("record", self.record, ("collection", "whole_chain"))
        check_integer("max_depth", self.max_depth, 1)
        check_integer("n_paths", self.n_paths, 1)

    def _check_race(self) -> None:
        """Refuse what the race does not do, by name."""
        needed = {
            "sampler": "first_events",
            "record": "collection",
            "n_chains": 1,
            "checkpoint": None,
        }
        for name, value in needed.items():
            given = getattr(self, name)
            if given != value:
                raise InvalidInputError(f"head='race' needs {name}={value!r}; got {given!r}. Or use head='sides'.")
        refusals = {"inference": "map", "prediction": "paths", "pruning": "paper", "criterion": "holdout"}
        for name, refused in refusals.items():
            if getattr(self, name) == refused:
                raise InvalidInputError(f"head='race' does not do {name}={refused!r}; use head='sides' for that.")


class ISHMClassifier(NetworkClassifier):
    """Infinite support hyperplane machine: one labelled side, one layer, two classes.

    The building block of `PBDNClassifier`: the second class is "yes", and P(yes | x) = 1 - exp(-Σ_k r_k ln(1 + e^{x'β_k})).
    Rows of the first class are enclosed by a convex polytope (Theorem 1 of the paper); which class is "yes" therefore matters.

    Parameters
    ----------
    inference, max_experts, n_sweeps, n_burn_in, prune_every, standardize, prediction, n_draws, n_chains, n_jobs, \
random_state, verbose, class_weight, checkpoint, time_limit, sampler, priors, map_config
        As in `PBDNClassifier`, but prediction "auto" is "posterior" for Gibbs.

    Attributes
    ----------
    layers_ : tuple of one Layer
        It has one side. The other attributes are those of `PBDNClassifier`.
    """

    _single_side = True
    criterion = "aic"
    max_depth = 1
    sides = "one_per_class"
    head = "sides"
    skip = "last_two"
    n_paths = 1
    pruning = "window"
    record = "collection"

    def __init__(
        self,
        *,
        inference: str = "auto",
        max_experts: int = 20,
        n_sweeps: int = 1000,
        n_burn_in: int = 500,
        prune_every: int = 200,
        standardize: bool = True,
        prediction: str = "auto",
        n_draws: int = 100,
        n_chains: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        class_weight: Any = None,
        checkpoint: Any = None,
        time_limit: float | None = None,
        sampler: str = "first_events",
        priors: Any = None,
        map_config: Any = None,
    ) -> None:
        self.inference = inference
        self.max_experts = max_experts
        self.n_sweeps = n_sweeps
        self.n_burn_in = n_burn_in
        self.prune_every = prune_every
        self.standardize = standardize
        self.prediction = prediction
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.class_weight = class_weight
        self.checkpoint = checkpoint
        self.time_limit = time_limit
        self.sampler = sampler
        self.priors = priors
        self.map_config = map_config
