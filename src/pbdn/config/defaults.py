"""Defaults for the problem, where an option is left open.

This is the one place where defaults depend on the problem. `resolve` fills in every field, and a fitted estimator shows the
result as ``config_``. Setting one field never changes another; only ``n_burn_in`` follows ``n_sweeps``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pbdn.config.options import FitConfig, GibbsConfig, GibbsSettings, MapConfig, set_fields
from pbdn.errors import InvalidInputError
from pbdn.gibbs.chain import ChainSettings
from pbdn.model.criteria import CRITERIA
from pbdn.model.priors import GIBBS_PRIORS, MAP_PRIORS, MAP_PRIORS_OF_MANY_SIDES, Hyperpriors
from pbdn.model.response import Response
from pbdn.sgd.map_settings import MapSettings

HOLDOUT = "holdout"
FOLDS = "folds"
UNDECIDED = "auto"  # between the two: the rows say (`pbdn.growth.fit_network.ask_for_folds`)
FOLDS_LEAST = 5  # rows below which none can be spared in folds, which predict too: one for each fold
HOLDOUT_LEAST = 50  # rows below which none can be spared to find the depth of a network that is then grown anew
MOST_DENSE = 30_000_000  # numbers of sparse rows that are made dense to train layers together
MOST_WIDE = 2000  # rows up to which networks of folds are trained in the space that they span, if features are more
MOST_FOLDED = ((10, 12_000_000), (20, 1_500_000), (np.inf, 200_000))
"""Rows x features x sides up to which more than two sides are trained in folds, whatever the rows say: of so many sides."""
MOST_DECIDED = 12_000_000  # rows x features x sides up to which all folds decide, of more than two sides
MOST_WIDE_SIDES = 20  # that are trained in folds whenever rows are wide
SEARCHED_NUMBERS = (25_000, 6_000)  # rows x features up to which all folds decide: of two classes, and on a line
INFERENCES = ("auto", "map+gibbs", "gibbs", "map")
CRITERION_NAMES = ("auto", FOLDS, HOLDOUT, *CRITERIA)

MANY_SIDES: dict[str, Any] = {"n_minibatches": 16_000, "schedule": "cosine", "shrinkage": "student_t", "polish": True}
"""Where MAP with more than two sides differs: more steps that end softly, a penalty, layers tuned together."""
FEWEST_STEPS, STEPS_PER_ROW = 6000, 1.5  # there; of few rows fewer steps, which are as much longer
STEPS_TIMES_RATE, STEPS_TO_PRUNING = 160.0, 1 / 32  # of these
MOST_SLOW_SIDES = 60  # above which layers take fewer and longer steps, and networks of folds hardly pay
QUICK_STEPS: dict[str, Any] = {"n_minibatches": 4000, "learning_rate": 0.04, "prune_every": 125}
"""Where MAP with so many sides differs further: every step goes through all sides."""
OF_FOLDS: dict[str, Any] = {"n_minibatches": 750, "schedule": "cosine", "learning_rate": 0.04, "prune_every": 300}
"""Where the networks of folds differ: their layers are trained together afterwards, so growing them is short."""
ON_A_LINE: dict[str, Any] = OF_FOLDS | {"n_minibatches": 1500}
"""Where those of values on a line differ: a distribution takes more steps than a label."""
LINE_IN_PIECES: dict[str, Any] = {"schedule": "cosine", "learning_rate": 0.02}
"""Where MAP of values on a line that come in pieces differs."""
MOST_PASSES, MOST_VISITS = 20, 1e8  # over the rows that a layer is trained on; rows seen in all passes
N_STARTS = 3  # of every layer and side of a network of a fold, fewer where there are many inputs
START_EXPERTS = 10  # of every start, or max_experts if that is less
FEWEST_EXPERTS = 2  # of a start on very many inputs
START_NUMBERS = 4000  # inputs x experts of all starts, up to which none is saved
VISITED_NUMBERS = 8e8  # rows x inputs x experts that a layer of a fold goes through because there are many rows


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
    n_features: int | None = None,
) -> FitConfig:
    """Fill in the defaults for this problem.

    Parameters
    ----------
    response : Response
    inference, criterion
        As chosen by `choose_inference` and `choose_criterion`.
    max_depth, max_experts, priors, gibbs_config, map_config
        As the user gave them.
    n_rows, n_features : int or None
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
        device=gibbs.device,
    )
    of_folds = None if criterion != FOLDS else ON_A_LINE if response.timed else OF_FOLDS
    if response.timed and inference == "map" and criterion != FOLDS:
        of_folds = LINE_IN_PIECES
    settings = resolve_map(map_config, priors, n_sides, int(max_experts), of_folds, n_rows, n_features)
    has_long_way = criterion == FOLDS and n_sides > 2 and not (response.timed or settings.curved)
    if settings.is_monotonic:
        _check_can_be_monotonic(inference, criterion, n_sides)
    return FitConfig(
        inference=inference,
        criterion=criterion,
        max_depth=int(max_depth),
        gibbs=gibbs,
        chain=chain,
        map=settings,
        alone=resolve_map(map_config, priors, n_sides, int(max_experts), None, n_rows) if has_long_way else None,
    )


def _check_can_be_monotonic(inference: str, criterion: Any, n_sides: int) -> None:
    if inference != "map":
        raise InvalidInputError(
            f"monotonic_cst holds for trained networks, not for draws, and inference={inference!r} samples: use inference='map'."
        )
    if criterion != FOLDS or n_sides != 2:
        raise InvalidInputError(
            f"monotonic_cst needs a PBDNClassifier of two classes with criterion='folds', which takes at least {FOLDS_LEAST} rows "
            "in memory; leave it out, or give such rows."
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
    of_folds: dict[str, Any] | None = None,
    n_rows: int | None = None,
    n_features: int | None = None,
) -> MapSettings:
    """MAP options with every field set, and the priors as point values; ``of_folds`` is where networks of folds differ."""
    filled = priors.over(MAP_PRIORS_OF_MANY_SIDES if n_sides > 2 else MAP_PRIORS)
    settings = MapSettings(
        max_experts=max_experts,
        mass=filled.mass_shape / filled.mass_rate,
        inv_scale=filled.inv_scale_shape / filled.inv_scale_rate,
        coef_shape=filled.coef_shape,
        coef_rate=filled.coef_rate_shape / filled.coef_rate_rate,
    )
    defaults = of_folds or (steps_of_many_sides(n_sides, n_rows) if n_sides > 2 else {})
    settings = replace(settings, **(defaults | set_fields(config)))
    if (config is not None and config.batch_size is not None) or n_rows is None:
        return settings
    most_visits = MOST_VISITS
    if of_folds and n_features is not None:  # squares may stand beside the features
        n_starts, n_experts = starts_for(2 * n_features, n_sides, max_experts)
        most_visits = VISITED_NUMBERS / (2 * n_features * n_sides * n_starts * n_experts)
    return replace(settings, batch_size=batch_for(n_rows, settings.n_minibatches, most_visits))


def steps_of_many_sides(n_sides: int, n_rows: int | None) -> dict[str, Any]:
    """Where MAP with more than two sides differs."""
    if n_sides > MOST_SLOW_SIDES:
        return MANY_SIDES | QUICK_STEPS
    n_steps = MANY_SIDES["n_minibatches"]
    if n_rows is None or STEPS_PER_ROW * n_rows >= n_steps:
        return MANY_SIDES
    n_steps = max(FEWEST_STEPS, round(STEPS_PER_ROW * n_rows))
    fewer = {"n_minibatches": n_steps, "learning_rate": STEPS_TIMES_RATE / n_steps}
    return MANY_SIDES | fewer | {"prune_every": round(STEPS_TO_PRUNING * n_steps)}


def batch_for(n_rows: int, n_steps: int, most_visits: float = MOST_VISITS) -> int:
    """Rows per step: 100, or so many that all rows are seen twenty times; once where there are very many."""
    passes = min(MOST_PASSES, max(1.0, most_visits / n_rows))
    return max(MapSettings.batch_size, int(np.ceil(passes * n_rows / n_steps)))


def starts_for(n_inputs: int, n_sides: int, max_experts: int) -> tuple[int, int]:
    """Starts of every side of a network of a fold, and experts of every start: fewer of both where there are many inputs."""
    n_experts = min(max_experts, START_EXPERTS)
    n_starts = min(N_STARTS, max(1, START_NUMBERS // (n_inputs * n_sides * n_experts)))
    if n_starts == 1:
        n_experts = min(n_experts, max(FEWEST_EXPERTS, START_NUMBERS // (n_inputs * n_sides)))
    return n_starts, n_experts


def is_wide(n_rows: int, n_features: int) -> bool:
    """Whether rows are fewer than features, and few enough for products of each with each."""
    return n_rows < n_features and n_rows <= MOST_WIDE


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

    "auto" is rows kept back where the layers are trained by MAP and there are rows to spare: networks of folds with two sides,
    fewer rows than features, or little work. With more work it is `UNDECIDED` where there may be folds, and one network
    where there may not, or where there are very many sides. Else it is AIC over all inputs.

    Parameters
    ----------
    criterion, n_sides, inference
    n_rows : int or None
        Rows in memory; None for a stream.
    n_features : int
    sparse : bool
        Whether the rows are.
    device : str or None
        Of MAP; rows that are worth a device are too many for folds, which are trained there if they are asked for.
    """
    size = 0 if n_rows is None else n_rows * n_features
    can_spare = n_rows is not None and n_rows >= HOLDOUT_LEAST
    wide = is_wide(n_rows or 0, n_features)
    too_large = sparse and size > MOST_DENSE and not wide
    can_fold = n_rows is not None and n_rows >= FOLDS_LEAST and inference != "gibbs" and not too_large
    if criterion == "auto":
        little = n_sides <= 2 or n_sides * size <= most_folded(n_sides)
        if can_fold and device is None:
            if little or (wide and n_sides <= MOST_WIDE_SIDES):
                return FOLDS
            if can_spare and n_sides <= MOST_SLOW_SIDES:
                return UNDECIDED
        return HOLDOUT if n_sides > 2 and inference != "gibbs" and can_spare else "aic_inputs"
    if criterion == FOLDS and not can_fold:
        raise InvalidInputError(
            f"criterion='folds' needs at least {FOLDS_LEAST} rows in memory, inference='map' or 'map+gibbs', "
            f"and of more than {MOST_WIDE} sparse rows at most {MOST_DENSE:.0e} numbers; use criterion='auto'."
        )
    if criterion == HOLDOUT and not can_spare:
        raise InvalidInputError(
            f"criterion='holdout' needs at least {HOLDOUT_LEAST} rows in memory; use criterion='aic_inputs'."
        )
    return criterion


def most_folded(n_sides: int) -> int:
    """Rows x features x sides up to which more than two sides are little work."""
    return next(most for sides, most in MOST_FOLDED if n_sides <= sides)


def all_folds_decide(n_rows: int, n_features: int, response: Response) -> bool:
    """Whether there is so little work that the networks of all folds go through the search; else few do for all."""
    numbers, n_sides = n_rows * min(n_rows, n_features), response.labelling.n_sides
    if n_sides > 2 and not response.timed:
        return n_sides * numbers <= MOST_DECIDED
    return numbers <= SEARCHED_NUMBERS[response.timed]
