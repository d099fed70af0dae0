"""What a fit runs with: the options of a user, and the defaults for the problem where an option is left open."""

from pbdn.config.defaults import (
    CRITERION_NAMES,
    FOLDS,
    HOLDOUT,
    INFERENCES,
    MANY_SIDES,
    all_folds_decide,
    batch_for,
    choose_criterion,
    choose_inference,
    is_wide,
    resolve,
    resolve_gibbs,
    resolve_map,
    starts_for,
)
from pbdn.config.options import (
    FitConfig,
    GibbsConfig,
    GibbsSettings,
    MapConfig,
    Prediction,
    set_fields,
)

__all__ = [
    "CRITERION_NAMES",
    "FOLDS",
    "HOLDOUT",
    "INFERENCES",
    "MANY_SIDES",
    "FitConfig",
    "GibbsConfig",
    "GibbsSettings",
    "MapConfig",
    "Prediction",
    "all_folds_decide",
    "batch_for",
    "choose_criterion",
    "choose_inference",
    "is_wide",
    "resolve",
    "resolve_gibbs",
    "resolve_map",
    "set_fields",
    "starts_for",
]
