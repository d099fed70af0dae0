"""What a fit runs with: the options of a user, and the defaults for the problem where an option is left open.

This is the one place where defaults depend on the problem. `GibbsConfig` and `MapConfig` hold what a user sets; a field that
is None has the default for the problem. `resolve` fills in every field, and a fitted estimator shows the result as
``config_``. Setting one field never changes another; only ``n_burn_in`` follows ``n_sweeps``.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.gibbs.chain import ChainSettings, Pruning, Record
from pbdn.gibbs.sweep import SamplerName
from pbdn.model.criteria import CRITERIA
from pbdn.model.priors import GIBBS_PRIORS, MAP_PRIORS, MAP_PRIORS_OF_MANY_SIDES, Hyperpriors
from pbdn.model.response import Response
from pbdn.sgd.map_settings import MapSettings
from pbdn.validation import check_choice, check_integer

HOLDOUT = "holdout"
FOLDS = "folds"
HOLDOUT_LEAST = 50  # rows below which none can be spared to find the depth
MOST_DENSE = 30_000_000  # numbers of sparse rows that are made dense to train layers together
N_MEMBERS = 5  # networks that are averaged
MOST_FOLDED = 60_000  # rows x sides x features up to which more than two sides are trained in folds
INFERENCES = ("auto", "map+gibbs", "gibbs", "map")
CRITERION_NAMES = ("auto", FOLDS, HOLDOUT, *CRITERIA)

Prediction = Literal["point", "posterior", "paths"]
GIBBS_CHOICES: dict[str, tuple[str, ...]] = {
    "prediction": ("auto", *get_args(Prediction)),
    "sampler": get_args(SamplerName),
    "pruning": get_args(Pruning),
    "record": get_args(Record),
}


def set_fields(config: Any) -> dict[str, Any]:
    """The fields of a configuration that are not None."""
    return {} if config is None else {name: value for name, value in asdict(config).items() if value is not None}


class Options:
    """Base of the configurations: they show the fields that are set."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in set_fields(self).items())})"


@dataclass(frozen=True, kw_only=True, repr=False)
class GibbsConfig(Options):
    """Options of Gibbs sampling; None is the default for the problem.

    Attributes
    ----------
    n_sweeps : int
        Sweeps per layer in all. Default: 1000.
    n_burn_in : int
        How many of them come before draws are kept. Default: half of ``n_sweeps``.
    n_draws : int
        Posterior draws kept, over all chains, and again over all paths. Default: 100.
    n_chains : int
        Independent chains per side. Default: 1.
    n_paths : int
        Runs from bottom to top for ``prediction="paths"``. Default: 5.
    prediction : {"auto", "point", "posterior", "paths"}
        "point" uses the recorded draw of highest likelihood, as the paper does. "posterior" averages the kept draws of the
        top layer. "paths" averages ``n_paths`` further runs from bottom to top that each pass one posterior draw upward (the
        sequential, "cut" posterior). Default, "auto": "paths" with two sides, else "posterior"; "point" for MAP alone.
    sampler : {"first_events", "event_times", "counts"}
        Three samplers of the same posterior; "counts" is the paper's. Default: "first_events".
    pruning : {"window", "paper", "none"}
        "window" drops experts that have been empty for long, in burn-in only. "paper" drops experts that are empty at one
        sweep, to the end of the chain. Default: "window".
    prune_every : int
        Sweeps between prunings. Default: 200.
    record : {"collection", "whole_chain"}
        Where the recorded draw is looked for: after burn-in (the paper) or from sweep 100 on (its code). Default:
        "collection".
    """

    n_sweeps: int | None = None
    n_burn_in: int | None = None
    n_draws: int | None = None
    n_chains: int | None = None
    n_paths: int | None = None
    prediction: str | None = None
    sampler: str | None = None
    pruning: str | None = None
    prune_every: int | None = None
    record: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that cannot mean anything, by name."""
        for name, value in set_fields(self).items():
            if name in GIBBS_CHOICES:
                check_choice(name, value, GIBBS_CHOICES[name])
            elif name != "n_burn_in":
                check_integer(name, value, 1)
        if self.n_burn_in is not None:
            n_sweeps = GibbsSettings.n_sweeps if self.n_sweeps is None else self.n_sweeps
            check_integer("n_burn_in", self.n_burn_in, 0, n_sweeps - 1)


@dataclass(frozen=True, kw_only=True)
class GibbsSettings:
    """`GibbsConfig` with every field set; ``n_draws`` is over all chains."""

    n_sweeps: int = 1000
    n_burn_in: int
    n_draws: int = 100
    n_chains: int = 1
    n_paths: int = 5
    prediction: Prediction
    sampler: SamplerName = "first_events"
    pruning: Pruning = "window"
    prune_every: int = 200
    record: Record = "collection"


@dataclass(frozen=True, kw_only=True, repr=False)
class MapConfig(Options):
    """Options of MAP by stochastic gradients; None is the default for the problem.

    Attributes
    ----------
    n_minibatches : int
        Adam steps per layer. Default: 4000 (the paper's), or 16 000 with more than two sides.
    batch_size : int
        Rows per step, never more than there are. Default: 100, and more where the steps would not see all rows often.
    learning_rate : float
        Adam's step. Default: the paper's 0.05 / (4 + T) for the T-th layer.
    schedule : {"constant", "cosine"}
        "cosine" lets the step fall to zero along half a cosine. Default: "constant", or "cosine" with more than two sides.
    average_last : float
        Fraction of the steps, at the end, whose iterates are averaged. Averaging starts after the last pruning before
        that point, so it never mixes different widths. Default: 0, the last iterate.
    initial : {"balanced", "published"}
        Hyperplanes start at N(0, 0.1²). "balanced" starts the weights around r = 1/K, so that the first probabilities are
        near 1/2 whatever K is; "published" at ln r ~ N(0, 0.1²). Default: "balanced".
    prune_every : int
        Steps between prunings; experts are also pruned at the end. Default: 500.
    pruning : {"exact", "draw", "published_draw", "none"}
        "exact" drops an expert when P(it is inactive | data) exceeds ``prune_above``, without a random number. "draw"
        drops what one draw from the conditional law of the activities leaves inactive. "published_draw" is the paper's draw:
        independent Bernoullis over all rows, one forced for a positive row that drew none. Default: "exact".
    prune_above : float
        The inactivity probability of the exact rule. Default: 0.5.
    keep_moments : bool
        Whether Adam's moments survive a pruning (the published script restarts them). Default: True.
    prior_on : {"weight", "log_weight"}
        Density that is maximised over the weights: of r (the published script; it kills experts that are not needed) or of
        ln r (the paper's objective, larger networks). Default: "weight".
    shrinkage : {"published", "student_t"}
        Power of the coefficient penalty: a_β alone, in effect no penalty (the published script divides integers), or
        a_β + 1/2, the exact Student-t marginal of the paper. Default: "published", or "student_t" with more than two
        sides.
    replacement : bool
        Fresh random rows for every minibatch instead of shuffled passes. Default: False.
    when_empty : {"keep_strongest", "reinitialise"}
        When pruning would drop every expert of a side: keep the one least likely to be inactive, or start the side again
        once and raise NumericalError the second time. Default: "keep_strongest".
    polish : bool
        Whether the layers of a grown network are tuned together at the end (`pbdn.sgd.polish`), where rows kept back
        become likelier by it. Needs ``criterion="holdout"`` and dense rows in memory. Default: True with more than two
        sides, else False.
    n_members : int
        Networks that are averaged with ``criterion="folds"``, each trained without the rows of one fold; 1: one network,
        trained on all rows. Default: 5.
    curved : bool
        Whether the first layer sees the squares of the features too, with ``criterion="folds"``. Default: what the rows
        kept back say.
    device : str
        A torch device ("cpu", "cuda", "cuda:1", "mps"). Default: the compiled CPU kernels.
    precision : {"double", "single"}
        Floating point of a torch device ("mps" has single only). Default: "double".
    """

    n_minibatches: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    schedule: str | None = None
    average_last: float | None = None
    initial: str | None = None
    prune_every: int | None = None
    pruning: str | None = None
    prune_above: float | None = None
    keep_moments: bool | None = None
    prior_on: str | None = None
    shrinkage: str | None = None
    replacement: bool | None = None
    when_empty: str | None = None
    polish: bool | None = None
    n_members: int | None = None
    curved: bool | None = None
    device: str | None = None
    precision: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that cannot mean anything, by name."""
        MapSettings(**set_fields(self))


MANY_SIDES: dict[str, Any] = {"n_minibatches": 16_000, "schedule": "cosine", "shrinkage": "student_t", "polish": True}
"""Where MAP with more than two sides differs: more steps that end softly, a penalty, layers tuned together."""
OF_FOLDS: dict[str, Any] = {"n_minibatches": 1500, "schedule": "cosine", "learning_rate": 0.04, "prune_every": 300}
"""Where the networks of folds differ: their layers are trained together afterwards, so growing them is short."""
MOST_PASSES, MOST_VISITS = 20, 1e8  # over the rows that a layer is trained on; rows seen in all passes


@dataclass(frozen=True)
class FitConfig:
    """What a fit runs with, every option filled in.

    Attributes
    ----------
    inference : "gibbs", "map" or "map+gibbs"
    criterion : str or callable
        What decides the depth: a name of `pbdn.model.criteria.CRITERIA`, "holdout", or the user's function.
    max_depth : int
    gibbs : GibbsSettings
        Every field of `GibbsConfig`.
    chain : ChainSettings
        The same for one chain, with the experts at the start and the priors.
    map : MapSettings
        Every field of `MapConfig`, the experts at the start, and the priors as MAP uses them.
    """

    inference: str
    criterion: str | Callable[..., float]
    max_depth: int
    gibbs: GibbsSettings
    chain: ChainSettings
    map: MapSettings

    @property
    def prediction(self) -> Prediction:
        """What is averaged in a prediction."""
        return self.gibbs.prediction

    @property
    def n_chains(self) -> int:
        """Chains per side."""
        return self.gibbs.n_chains

    @property
    def samples_top(self) -> bool:
        """Whether the top layer of the trained network is sampled."""
        return self.inference == "map+gibbs"

    @property
    def n_paths(self) -> int:
        """Runs from bottom to top that are averaged; none unless the prediction asks for them."""
        return self.gibbs.n_paths if self.prediction == "paths" else 0


def choose_inference(inference: str, gibbs_config: GibbsConfig | None) -> str:
    """The inference in force: "auto" is MAP, and adds posterior draws where they are asked for."""
    prediction = set_fields(gibbs_config).get("prediction")
    if prediction == "paths" and inference != "gibbs":
        if inference == "auto":
            return "gibbs"
        raise InvalidInputError(
            f"gibbs_config.prediction='paths' samples every layer, which inference={inference!r} does not; "
            "use inference='gibbs', or prediction='posterior'."
        )
    if inference == "map" and prediction == "posterior":
        raise InvalidInputError(
            "gibbs_config.prediction='posterior' needs posterior draws, which inference='map' does not make; "
            "use inference='map+gibbs', or prediction='point'."
        )
    if inference != "auto":
        return inference
    return "map+gibbs" if prediction == "posterior" else "map"


def resolve(
    response: Response,
    *,
    inference: str,
    criterion: str | Callable[..., float],
    max_depth: int,
    max_experts: int,
    priors: Hyperpriors | None,
    gibbs_config: GibbsConfig | None,
    map_config: MapConfig | None,
    n_rows: int | None = None,
) -> FitConfig:
    """Fill in the defaults for this problem.

    Parameters
    ----------
    response : Response
    inference, criterion
        As chosen by `choose_inference` and `choose_criterion`.
    max_depth, max_experts, priors, gibbs_config, map_config
        As the user gave them.
    n_rows : int or None
        Where they are known.
    """
    n_sides = response.labelling.n_sides
    priors = Hyperpriors() if priors is None else priors
    gibbs = resolve_gibbs(gibbs_config, n_sides, inference)
    chain = ChainSettings(
        sampler=gibbs.sampler,
        max_experts=int(max_experts),
        n_sweeps=gibbs.n_sweeps,
        n_burn_in=gibbs.n_burn_in,
        n_draws=-(-gibbs.n_draws // gibbs.n_chains),
        pruning=gibbs.pruning,
        prune_every=gibbs.prune_every,
        record=gibbs.record,
        priors=priors.over(GIBBS_PRIORS),
    )
    return FitConfig(
        inference=inference,
        criterion=criterion,
        max_depth=int(max_depth),
        gibbs=gibbs,
        chain=chain,
        map=resolve_map(map_config, priors, n_sides, int(max_experts), criterion == FOLDS, n_rows),
    )


def resolve_gibbs(config: GibbsConfig | None, n_sides: int, inference: str) -> GibbsSettings:
    """Gibbs options with every field set."""
    chosen = set_fields(config)
    chosen.setdefault("n_burn_in", chosen.get("n_sweeps", GibbsSettings.n_sweeps) // 2)
    if chosen.get("prediction", "auto") == "auto":
        chosen["prediction"] = "point" if inference != "gibbs" else "paths" if n_sides == 2 else "posterior"
    return GibbsSettings(**chosen)


def resolve_map(
    config: MapConfig | None,
    priors: Hyperpriors,
    n_sides: int,
    max_experts: int,
    of_folds: bool = False,
    n_rows: int | None = None,
) -> MapSettings:
    """MAP options with every field set, and the priors as point values."""
    filled = priors.over(MAP_PRIORS_OF_MANY_SIDES if n_sides > 2 else MAP_PRIORS)
    settings = MapSettings(
        max_experts=max_experts,
        mass=filled.mass_shape / filled.mass_rate,
        inv_scale=filled.inv_scale_shape / filled.inv_scale_rate,
        coef_shape=filled.coef_shape,
        coef_rate=filled.coef_rate_shape / filled.coef_rate_rate,
    )
    defaults = OF_FOLDS if of_folds else MANY_SIDES if n_sides > 2 else {}
    settings = replace(settings, **(defaults | set_fields(config)))
    if config is not None and config.batch_size is not None or n_rows is None:
        return settings
    return replace(settings, batch_size=batch_for(n_rows, settings.n_minibatches))


def batch_for(n_rows: int, n_steps: int) -> int:
    """Rows per step: 100, or so many that all rows are seen twenty times; once where there are very many."""
    passes = min(MOST_PASSES, max(1.0, MOST_VISITS / n_rows))
    return max(MapSettings.batch_size, int(np.ceil(passes * n_rows / n_steps)))


def choose_criterion(
    criterion: str | Callable[..., float],
    n_sides: int,
    inference: str,
    n_rows: int | None,
    n_features: int = 1,
    sparse: bool = False,
    device: str | None = None,
) -> str | Callable[..., float]:
    """What decides the depth.

    "auto" is rows kept back where the layers are trained by MAP and there are rows to spare: networks of folds with two sides
    or little work, one network otherwise. Else it is AIC over all inputs.

    Parameters
    ----------
    criterion, n_sides, inference
    n_rows : int or None
        Rows in memory; None for a stream.
    n_features : int
    sparse : bool
        Whether the rows are.
    device : str or None
        Of MAP; layers are trained together on the CPU.
    """
    size = 0 if n_rows is None else n_rows * n_features
    can_spare = n_rows is not None and n_rows >= HOLDOUT_LEAST
    can_fold = can_spare and inference != "gibbs" and not (sparse and size > MOST_DENSE) and device is None
    if criterion == "auto":
        if can_fold and (n_sides <= 2 or n_sides * size <= MOST_FOLDED):
            return FOLDS
        return HOLDOUT if n_sides > 2 and inference != "gibbs" and can_spare else "aic_inputs"
    if criterion == FOLDS and not can_fold:
        raise InvalidInputError(
            f"criterion='folds' needs at least {HOLDOUT_LEAST} rows in memory, inference='map' or 'map+gibbs', "
            f"no device, and of sparse rows at most {MOST_DENSE:.0e} numbers; use criterion='auto'."
        )
    if criterion == HOLDOUT and not can_spare:
        raise InvalidInputError(
            f"criterion='holdout' needs at least {HOLDOUT_LEAST} rows in memory; use criterion='aic_inputs'."
        )
    return criterion
