"""Parsimonious Bayesian deep networks: classifiers that choose their own width and depth."""

from typing import TYPE_CHECKING, Any

from pbdn._version import __version__

if TYPE_CHECKING:
    from pbdn.classifier import ISHMClassifier, PBDNClassifier

__all__ = ["ISHMClassifier", "PBDNClassifier", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first asked for: ``import pbdn`` itself stays instant."""
    if name in ("PBDNClassifier", "ISHMClassifier"):
        from pbdn import classifier

        return getattr(classifier, name)
    raise AttributeError(f"module 'pbdn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
