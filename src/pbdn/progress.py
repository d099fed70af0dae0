"""Progress for people: a bar with remaining time in a terminal or notebook, `logging` for the rest."""

import sys
import time
from threading import Lock
from typing import Any, TextIO

WIDTH = 24
LEAST_SECONDS = 0.1  # between two redraws


class ProgressBar:
    """One line that follows the chains (or minibatches) of the layer being trained.

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
        self._done: dict[Any, tuple[int, int, str]] = {}
        self._layer, self._began, self._drawn = 0, time.monotonic(), 0.0

    def update(self, layer: int, task: Any, done: int, total: int, note: str) -> None:
        """Say how far a task is; draws at most ten times a second."""
        if not self.enabled:
            return
        now = time.monotonic()
        with self._lock:
            if layer != self._layer:
                self._layer, self._began = layer, now
                self._done.clear()
            self._done[task] = (done, total, note)
            if now - self._drawn < LEAST_SECONDS and done < total:
                return
            self._drawn = now
            self._draw(now)

    def _draw(self, now: float) -> None:
        done = sum(entry[0] for entry in self._done.values())
        total = sum(entry[1] for entry in self._done.values())
        share = done / max(total, 1)
        left = (now - self._began) * (1.0 - share) / max(share, 1e-9)
        bar = "█" * int(WIDTH * share) + "░" * (WIDTH - int(WIDTH * share))
        notes = " · ".join(entry[2] for entry in list(self._done.values())[:3])
        line = f"layer {self._layer} {bar} {100 * share:3.0f} %, {left:.0f} s left, {notes}"
        self.stream.write("\r" + line[:118].ljust(118))
        self.stream.flush()

    def close(self) -> None:
        """End the line."""
        if self.enabled and self._done:
            self.stream.write("\n")
            self.stream.flush()
