"""Errors and warnings: every one names the parameter, what came, what is allowed and what to do."""

import shlex
import sys
import warnings
from importlib import metadata
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


class ClusterError(PBDNError, RuntimeError):
    """Workers, the scheduler or rows of a cluster were lost; the message says which, and how to go on."""


class MissingExtraError(PBDNError, ImportError):
    """An optional dependency is needed; the message says what to install.

    Parameters
    ----------
    what : str
        What needs which package.
    extra : str
        The extra of this package that lists it.
    otherwise : str
        What else helps.
    """

    def __init__(self, what: str, extra: str, otherwise: str = "") -> None:
        super().__init__(f"{what}: {_how_to_install(extra)} (the extra {extra!r}). {otherwise}".rstrip())


def _how_to_install(extra: str) -> str:
    """The packages of an extra by name: this package may not be where pip looks."""
    try:
        lines = metadata.requires("pbdn") or []
    except metadata.PackageNotFoundError:
        lines = []
    split = [line.partition(";") for line in lines]
    needed = [name.strip() for name, _, marker in split if marker.replace("'", '"').strip() == f'extra == "{extra}"']
    if not needed:
        return f"pip install '.[{extra}]' in a clone of the repository"
    return f"pip install {' '.join(map(shlex.quote, needed))}"


class TableWarning(UserWarning):
    """Something about the columns of a table that a user should know: odd cells, doubts, leaks, keys left out."""


class DepthLimitWarning(UserWarning):
    """Growth stopped while the criterion was still falling: at ``max_depth``, or below a layer that would be too large."""


_OURS = ("pbdn", "sklearn", "joblib")  # packages between a user's line and the place that warns


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, pointing at the line outside the library that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
