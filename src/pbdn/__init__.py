"""Parsimonious Bayesian deep networks: estimators that choose their own width and depth."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pbdn._version import __version__

if TYPE_CHECKING:
    from pbdn.config import GibbsConfig, MapConfig
    from pbdn.estimators.amounts import PBDNAmountRegressor
    from pbdn.estimators.classifier import ISHMClassifier, PBDNClassifier
    from pbdn.estimators.counts import PBDNCountRegressor
    from pbdn.estimators.grades import PBDNOrdinalClassifier
    from pbdn.estimators.regressor import PBDNRegressor
    from pbdn.estimators.survival import PBDNSurvival

__all__ = [
    "GibbsConfig",
    "ISHMClassifier",
    "MapConfig",
    "PBDNAmountRegressor",
    "PBDNClassifier",
    "PBDNCountRegressor",
    "PBDNOrdinalClassifier",
    "PBDNRegressor",
    "PBDNSurvival",
    "__version__",
]

_HOMES = {
    "PBDNClassifier": "pbdn.estimators.classifier",
    "ISHMClassifier": "pbdn.estimators.classifier",
    "PBDNRegressor": "pbdn.estimators.regressor",
    "PBDNSurvival": "pbdn.estimators.survival",
    "PBDNOrdinalClassifier": "pbdn.estimators.grades",
    "PBDNAmountRegressor": "pbdn.estimators.amounts",
    "PBDNCountRegressor": "pbdn.estimators.counts",
    "GibbsConfig": "pbdn.config",
    "MapConfig": "pbdn.config",
}


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first asked for: ``import pbdn`` itself stays instant."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pbdn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
