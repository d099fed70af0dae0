"""What accompanies a fit: its seed and threads, when to stop, what to keep for resuming, whom to tell.

scikit-learn's callbacks (1.9 and later) are told of a root task per fit and one sub-task per layer.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from pbdn.growth.checkpoint import Checkpoint
from pbdn.growth.depth import LayerFit
from pbdn.growth.progress import ProgressBar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_UNASKED = 5  # threads where a user leaves their number open: one for each fold


def n_threads(n_jobs: int | None, of_folds: bool) -> int:
    """Threads of a fit: as asked (-1: one per core). Networks of folds take up to five unasked, of those that joblib leaves."""
    from joblib import effective_n_jobs
    from numba import config

    asked = int(effective_n_jobs(n_jobs))
    if n_jobs is None and of_folds and asked == 1:
        return max(1, min(MOST_UNASKED, int(config.NUMBA_NUM_THREADS)))  # 1 in the processes of joblib
    return asked


@dataclass
class StopSignal:
    """Stops a fit between sweeps or compiled calls: at a deadline, or when set.

    A deadline asks for what there is. Ctrl-C asks for nothing: work ends where it can be taken up again, and the
    KeyboardInterrupt reaches the caller.
    """

    deadline: float | None = None
    seconds: float | None = None
    flag: threading.Event = field(default_factory=threading.Event)
    clock: Callable[[], float] = field(default=lambda: time.monotonic(), repr=False)

    @classmethod
    def after(cls, seconds: float | None) -> "StopSignal":
        """A signal with a deadline so many seconds from now; None: no deadline."""
        return cls(None if seconds is None else time.monotonic() + seconds, seconds)

    def __call__(self) -> bool:
        """Whether to stop now."""
        return self.flag.is_set() or (self.deadline is not None and self.clock() > self.deadline)

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Within, the first Ctrl-C asks for a stop and is raised at the end; the second is raised at once.

        Only Python's own handler is replaced: a program that handles SIGINT itself keeps its ways.
        """
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        pressed = False

        def ask(number: int, frame: Any) -> None:
            nonlocal pressed
            if pressed:
                raise KeyboardInterrupt
            pressed = True
            self.flag.set()

        signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if pressed:
            raise KeyboardInterrupt


@dataclass(frozen=True)
class Run:
    """One fit under way.

    Attributes
    ----------
    seed : int
    n_jobs : int
        Threads.
    stop : StopSignal
    checkpoint : Checkpoint or None
        Where chains and finished layers are kept.
    bar : ProgressBar
    name : str
        Of this part of the fit, which its entries in the checkpoint begin with.
    """

    seed: int
    n_jobs: int = 1
    stop: StopSignal = field(default_factory=StopSignal)
    checkpoint: Checkpoint | None = None
    bar: ProgressBar = field(default_factory=lambda: ProgressBar(False))
    name: str = ""

    def shared_by(self, n_parts: int) -> "Run":
        """The run of one of several parts that work at the same time on the same threads."""
        return replace(self, n_jobs=max(1, self.n_jobs // n_parts))

    def on_trial(self) -> "Run":
        """The same run for work that is not worth keeping."""
        return replace(self, checkpoint=None)

    def named(self, name: str) -> "Run":
        """The same run for a part of the fit, which a checkpoint keeps apart."""
        return replace(self, name=f"{name}.")

    def on_threads(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Do independent work on up to ``n_jobs`` threads; when one item fails the others are asked to stop."""
        n_threads = min(self.n_jobs, len(items))
        if n_threads <= 1:
            return [work(item) for item in items]
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                return list(pool.map(work, items))
            except BaseException:
                self.stop.flag.set()
                raise


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
