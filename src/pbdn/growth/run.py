"""What accompanies a fit: its seed and threads, when to stop, what to keep for resuming, whom to tell."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pbdn.growth.checkpoint import Checkpoint
from pbdn.growth.progress import ProgressBar
from pbdn.growth.stop import StopSignal

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
