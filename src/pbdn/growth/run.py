"""What accompanies a fit: its seed and threads, when to stop, what to keep for resuming, whom to tell."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pbdn.growth.checkpoint import Checkpoint
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
    """

    seed: int
    n_jobs: int = 1
    stop: StopSignal = field(default_factory=StopSignal)
    checkpoint: Checkpoint | None = None
    bar: ProgressBar = field(default_factory=lambda: ProgressBar(False))

    def shared_by(self, n_parts: int) -> "Run":
        """The run of one of several parts that work at the same time on the same threads."""
        return replace(self, n_jobs=max(1, self.n_jobs // n_parts))

    def on_trial(self) -> "Run":
        """The same run for work that is not worth keeping."""
        return replace(self, checkpoint=None)

    def on_threads(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Do independent work on up to ``n_jobs`` threads; when one item fails the others are asked to stop."""
        n_threads = min(self.n_jobs, len(items))
        if n_threads == 1:
            return [work(item) for item in items]
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                return list(pool.map(work, items))
            except BaseException:
                self.stop.flag.set()
                raise
