"""scikit-learn's callbacks (1.9 and later): a root task per fit, one sub-task per layer."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from pbdn.growth.depth import LayerFit
from pbdn.growth.run import StopSignal

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks yet."""

    def _with_callbacks(method: Any) -> Any:
        """Leave the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "FitTasks", "Method", "with_callbacks"]

Method = TypeVar("Method", bound=Callable[..., Any])


def with_callbacks(method: Method) -> Method:
    """Set up callbacks before ``fit`` and tear them down after it; the method keeps its type."""
    return cast(Method, _with_callbacks(method))


class FitTasks:
    """Tells the callbacks of an estimator what its fit is doing; does nothing where there are none.

    Attributes
    ----------
    attributes : callable
        Maps the layers finished so far to the fitted attributes of an estimator that stopped there, so that callbacks such as
        ``ScoringMonitor`` can predict with it.
    stop : StopSignal
        When the fit has to end; its clock runs from the beginning.
    """

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self.estimator, self.data = estimator, {"X": X, "y": y}
        self.stop = StopSignal.after(estimator.time_limit)
        self.attributes: Callable[[Sequence[LayerFit]], dict[str, Any]] | None = None
        self._root: Any = None
        self._layer: Any = None
        if hasattr(estimator, "_init_callback_context"):
            self._root = estimator._init_callback_context(max_subtasks=None)
            self._root.call_on_fit_task_begin(estimator=estimator, **self.data)

    def layer_begins(self, depth: int) -> None:
        """A layer is about to be trained."""
        if self._root is not None:
            self._layer = self._root.subcontext(task_name="layer")
            self._layer.call_on_fit_task_begin(estimator=self.estimator, **self.data)

    def layer_ends(self, fits: Sequence[LayerFit]) -> bool:
        """The last of ``fits`` has been trained; returns whether a callback asks to stop growing."""
        if self._layer is None:
            return False
        make = self.attributes
        known = None if make is None else (lambda: make(fits))
        return bool(
            self._layer.call_on_fit_task_end(estimator=self.estimator, reconstruction_attributes=known, **self.data)
        )

    def end(self) -> None:
        """The fit is over."""
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self.estimator, **self.data)
