"""The two estimators people import."""

from typing import Any

from pbdn.config import GibbsConfig, MapConfig
from pbdn.errors import InvalidInputError
from pbdn.estimators.fitting import NetworkClassifier
from pbdn.model.priors import Hyperpriors
from pbdn.model.response import OneSide, Response


class PBDNClassifier(NetworkClassifier):
    """Parsimonious Bayesian deep network: a classifier that chooses its own width and depth.

    A layer has a side for and a side against each class; with two classes these are the labels and their flip. Each side is an
    infinite support hyperplane machine, P(y=1 | x) = 1 - exp(-Σ_k r_k ln(1 + e^{x'β_k})), whose gamma-process prior decides how
    many experts stay. Layers are stacked while the criterion falls. The defaults need no tuning.

    Parameters
    ----------
    inference : {"auto", "map+gibbs", "gibbs", "map"}, default="auto"
        "map" trains the network by stochastic gradients. "map+gibbs" then adds posterior draws of its top layer given the
        layers below, for intervals; the trained network stays what predicts. "gibbs" is the paper's sampler for every layer.
        "auto" is "map", or what ``gibbs_config`` asks for.
    criterion : {"auto", "folds", "holdout", "aic_inputs", "aic", "aic_eps", "bic"} or callable, default="auto"
        What decides the depth. "folds": five networks, each trained without a fifth of the rows; all rows kept back decide
        the depth, whether the first layer is plain or curved, the penalty and the noise of training, and how much less features that
        matter are penalised; the five are then averaged into one (`pbdn.growth.committee`). "holdout": rows kept back decide the depth of one network, which is then grown on
        all rows. The others are criteria of the training rows (`pbdn.model.criteria`): AIC charging every coefficient, AIC by
        the paper's two counts, BIC. "auto", with at least five rows in memory and MAP, is "folds" with two classes or few
        rows. With more it is "folds" too, unless rows tell several classes well apart: then it is "holdout". Else it is
        "aic_inputs".
    max_depth : int, default=5
        Most layers; reaching it while the criterion still falls warns.
    max_experts : int, default=20
        Experts per side at the start (the truncation of the gamma process).
    standardize : bool, default=True
        Scale features to mean 0 and standard deviation 1 for the fit (sparse ones to largest value 1), and fold the scaling into
        the network.
    priors : Hyperpriors or None, default=None
        Prior laws for both engines (`pbdn.model.priors`); a field that is not set has the default for the problem.
    gibbs_config : GibbsConfig or None, default=None
        Options of Gibbs sampling (`pbdn.config.GibbsConfig`): sweeps, chains, draws, how they are averaged.
    map_config : MapConfig or None, default=None
        Options of MAP (`pbdn.config.MapConfig`): steps, batches, penalty, device.
    class_weight : dict, "balanced" or None, default=None
    n_jobs : int or None, default=None
        Threads, as in joblib; results do not depend on it. None: up to five where rows kept back decide, else one.
    random_state : int, RandomState or None, default=None
        Draws starts, minibatches, noise and chains. The same rows are kept back whatever it is.
    verbose : int, default=0
        Show progress: a bar in a terminal or notebook, lines in a log. Messages go to the ``pbdn`` logger.
    checkpoint : path or None, default=None
        File that lets an interrupted fit resume with the same result. Ctrl-C brings it up to date and raises
        KeyboardInterrupt.
    time_limit : float or None, default=None
        Seconds from the beginning of the fit after which it stops with what it has.

    Attributes
    ----------
    classes_ : array
    config_ : FitConfig
        Every option as it was used, the defaults for the problem filled in.
    n_features_in_ : int
    feature_names_in_ : array
        Only if X had column names.
    preparation_ : TablePreparation
        Only if X had anything but present numbers: how its columns become features of the network.
    network_ : Network
        The fitted network, acting on features that are not scaled: what predicts, is explained, saved and exported.
    layers_ : tuple of Layer
    depth_ : int
    n_experts_ : list of tuples
        Experts per layer and side.
    criterion_path_ : list of dicts
        Per layer tried: criterion, log-likelihood, parameters, experts, seconds, kept, and polished: whether all layers were
        trained together. Of networks of folds; a network that took the long way may have a layer more (docs/how_it_works.md).
    trials_ : list of dicts
        With ``criterion="folds"``: every setting that the rows kept back have judged: the shape of the first layer (plain: one
        expert on each side; flat: more; curved: with squares; ramps; or several that share out the folds), whether all networks are
        plain, whether any is curved, how many ramps there are, depth, penalty, noise, relevance, the deviance, and whether it was
        kept.
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
        standardize: bool = True,
        priors: Hyperpriors | None = None,
        gibbs_config: GibbsConfig | None = None,
        map_config: MapConfig | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            inference=inference, max_experts=max_experts, class_weight=class_weight, standardize=standardize, priors=priors,
            gibbs_config=gibbs_config, map_config=map_config, random_state=random_state, n_jobs=n_jobs, verbose=verbose,
            time_limit=time_limit, checkpoint=checkpoint,
        )  # fmt: skip
        self.criterion = criterion
        self.max_depth = max_depth


class ISHMClassifier(NetworkClassifier):
    """Infinite support hyperplane machine: one labelled side, one layer, two classes.

    The building block of `PBDNClassifier`: the second class is "yes", and P(yes | x) = 1 - exp(-Σ_k r_k ln(1 + e^{x'β_k})).
    Rows of the first class are enclosed by a convex polytope (Theorem 1 of the paper); which class is "yes" therefore matters.

    Parameters
    ----------
    inference, max_experts, standardize, priors, gibbs_config, map_config, class_weight, n_jobs, random_state, verbose, \
checkpoint, time_limit
        As in `PBDNClassifier`.

    Attributes
    ----------
    layers_ : tuple of one Layer
        It has one side. The other attributes are those of `PBDNClassifier`.
    """

    _most_classes = 2
    criterion = "aic"
    max_depth = 1

    def _response(self) -> Response:
        """A lone side."""
        return OneSide()

    def _check_can_grow(self) -> None:
        raise InvalidInputError("An ISHMClassifier has one layer; use PBDNClassifier to grow.")
