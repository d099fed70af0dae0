"""Progress for people: a bar with remaining time in a terminal or notebook, `logging` for the rest."""

import sys
import time
from threading import Lock
from typing import Any, TextIO

WIDTH = 24
LEAST_SECONDS = 0.1  # between two redraws


class ProgressBar:
    """One line that follows the work of a phase: the chains or minibatches of a layer, or all paths.

    Parameters
    ----------
    enabled : bool
    stream : text stream, optional
        Where to draw; standard error by default.
    """

    def __init__(self, enabled: bool, stream: TextIO | None = None) -> None:
        self.enabled = enabled
        self.stream = sys.stderr if stream is None else stream
        self._lock = Lock()
        self._done: dict[Any, tuple[int, str]] = {}
        self._phase, self._began, self._drawn = "", time.monotonic(), 0.0

    def update(self, phase: str, total: int, task: Any, done: int, note: str) -> None:
        """Say how many of the phase's ``total`` steps a task has done; draws at most ten times a second."""
        if not self.enabled:
            return
        now = time.monotonic()
        with self._lock:
            if phase != self._phase:
                self._phase, self._began = phase, now
                self._done.clear()
            self._done.pop(task, None)  # so that the latest notes stand last
            self._done[task] = (done, note)
            share = sum(entry[0] for entry in self._done.values()) / max(total, 1)
            if now - self._drawn < LEAST_SECONDS and share < 1.0:
                return
            self._drawn = now
            self._draw(now, share)

    def _draw(self, now: float, share: float) -> None:
        left = (now - self._began) * (1.0 - share) / max(share, 1e-9)
        bar = "█" * int(WIDTH * share) + "░" * (WIDTH - int(WIDTH * share))
        notes = " · ".join(entry[1] for entry in list(self._done.values())[-3:])
        line = f"{self._phase} {bar} {100 * share:3.0f} %, {left:.0f} s left, {notes}"
        self.stream.write("\r" + line[:118].ljust(118))
        self.stream.flush()

    def close(self) -> None:
        """End the line."""
        if self.enabled and self._done:
            self.stream.write("\n")
            self.stream.flush()
