"""What a user may set, and every field of it filled in.

`GibbsConfig` and `MapConfig` hold what a user sets; a field that is None has the default for the problem
(`pbdn.config.defaults`). `FitConfig` is what a fit runs with.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from pbdn.gibbs.chain import ChainSettings, Pruning, Record
from pbdn.gibbs.sweep import SamplerName
from pbdn.sgd.map_settings import MapSettings
from pbdn.validation import check_choice, check_device, check_integer

Prediction = Literal["point", "posterior", "paths"]
Start = Literal["prior", "map"]
GIBBS_CHOICES: dict[str, tuple[str, ...]] = {
    "prediction": ("auto", *get_args(Prediction)),
    "sampler": get_args(SamplerName),
    "pruning": get_args(Pruning),
    "record": get_args(Record),
    "start": get_args(Start),
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
    start : {"prior", "map"}
        Where the chains of ``inference="gibbs"`` start: at the prior (the paper), or at a MAP fit of their layer. Default:
        "prior".
    device : str
        A torch device ("cuda", "cuda:1", "cpu") that holds dense rows and samples them; several with commas between them
        ("cuda:0,cuda:1") share the rows. Needs ``sampler="first_events"`` and whole sample weights. Default: the compiled
        CPU kernels.
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
    start: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that cannot mean anything, by name."""
        for name, value in set_fields(self).items():
            if name in GIBBS_CHOICES:
                check_choice(name, value, GIBBS_CHOICES[name])
            elif name == "device":
                check_device(value)
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
    start: Start = "prior"
    device: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class MapConfig(Options):
    """Options of MAP by stochastic gradients; None is the default for the problem.

    Attributes
    ----------
    n_minibatches : int
        Adam steps per layer. Default: 750 with ``criterion="folds"`` (1500 for values on a line), where all layers are trained
        together by as many; else 4000 (the paper's), or with three to thirty classes 1.5 for each row, but 6000 at least and
        16 000 at most.
    batch_size : int
        Rows per step, never more than there are. Default: 100, and more where the steps would not see all rows often.
    learning_rate : float
        Adam's step. Default: 0.04 with ``criterion="folds"`` or more than thirty classes; with three to thirty classes 160 over
        the default of ``n_minibatches``, where that is below 16 000; else the paper's 0.05 / (4 + T) for the T-th layer.
    schedule : {"constant", "cosine"}
        "cosine" lets the step fall to zero along half a cosine. Default: "cosine" with ``criterion="folds"`` or more than two
        sides, else "constant".
    average_last : float
        Fraction of the steps, at the end, whose iterates are averaged. Averaging starts after the last pruning before
        that point, so it never mixes different widths. Default: 0, the last iterate.
    initial : {"balanced", "published"}
        Hyperplanes start at N(0, 0.1²). "balanced" starts the weights around r = 1/K, so that the first probabilities are
        near 1/2 whatever K is; "published" at ln r ~ N(0, 0.1²). Default: "balanced".
    prune_every : int
        Steps between prunings; experts are also pruned at the end. Default: 300 with ``criterion="folds"``, else 500, or with
        three and more classes an interval of one thirty-second of the default of ``n_minibatches``.
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
        Networks that are averaged with ``criterion="folds"``. Default: 5, those of the folds, or the first of them where they
        are large. 1: a single network, trained on all rows. Other numbers: so many, each trained on all rows, but where rows
        are many those of the folds.
    curved : bool
        Whether the first layer sees the squares of the features too, with ``criterion="folds"``. Default: what the rows
        kept back say. They may also take ramps in the place of squares (`pbdn.model.wiring`).
    monotonic_cst : array of int, or dict of str to int
        As in scikit-learn: for every column of X, or by name, 1 where the probability of the second class may only rise with
        the feature, -1 where it may only fall, 0 where it is free. Two classes and ``criterion="folds"``; such features are
        numbers, and have neither squares nor ramps. Default: all are free.
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
    monotonic_cst: Any = None
    device: str | None = None
    precision: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that cannot mean anything, by name."""
        if isinstance(self.monotonic_cst, list | np.ndarray):  # plain numbers, which files can hold
            object.__setattr__(self, "monotonic_cst", tuple(np.ravel(self.monotonic_cst).tolist()))
        MapSettings(**set_fields(self))


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
    alone : MapSettings or None
        The same for a network that is trained the long way beside networks of folds (`pbdn.growth.long_way`).
    """

    inference: str
    criterion: str | Callable[..., float]
    max_depth: int
    gibbs: GibbsSettings
    chain: ChainSettings
    map: MapSettings
    alone: MapSettings | None = None

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
