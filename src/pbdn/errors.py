"""Errors and warnings: every one names the parameter, what came, what is allowed and what to do."""

import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sklearn.exceptions import ConvergenceWarning as ConvergenceWarning


def __getattr__(name: str) -> Any:
    """scikit-learn's ConvergenceWarning, imported when asked for: the sampler alone starts a second sooner without it."""
    if name == "ConvergenceWarning":
        from sklearn.exceptions import ConvergenceWarning

        return ConvergenceWarning
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class PBDNError(Exception):
    """Root of every error raised by this library."""


class InvalidInputError(PBDNError, ValueError):
    """An argument, a table or a file's contents cannot be used; the message says how to mend it."""


class NumericalError(PBDNError, ArithmeticError):
    """A computation left the range of double precision and could not be rescued."""


class FileFormatError(PBDNError, ValueError):
    """A model or checkpoint file is damaged, foreign, or of a version that this one does not read."""


class MissingExtraError(PBDNError, ImportError):
    """An optional dependency is needed; the message names the extra to install."""


class DepthLimitWarning(UserWarning):
    """Growth stopped while the criterion was still falling: at ``max_depth``, or below a layer that would be too large."""


_OURS = ("pbdn", "sklearn", "joblib")  # packages between a user's line and the place that warns


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, pointing at the line outside the library that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
