"""Parsimonious Bayesian deep networks: classifiers that choose their own width and depth."""

from typing import TYPE_CHECKING, Any

from pbdn._version import __version__

if TYPE_CHECKING:
    from pbdn.config import GibbsConfig, MapConfig
    from pbdn.estimators.classifier import ISHMClassifier, PBDNClassifier

__all__ = ["GibbsConfig", "ISHMClassifier", "MapConfig", "PBDNClassifier", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first asked for: ``import pbdn`` itself stays instant."""
    if name in ("PBDNClassifier", "ISHMClassifier"):
        from pbdn.estimators import classifier

        return getattr(classifier, name)
    if name in ("GibbsConfig", "MapConfig"):
        from pbdn import config

        return getattr(config, name)
    raise AttributeError(f"module 'pbdn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
