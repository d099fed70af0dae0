"""Progress for people: a line that is redrawn in a terminal or notebook, a plain line now and then in a log."""

import os
import sys
import time
from contextlib import ExitStack
from threading import Lock
from typing import Any, Self, TextIO

from pbdn.numerics.compiled import before_compiling

MOST_COLUMNS = 80  # or as many as the terminal has, if these are fewer
BAR = 20
REDRAW_AFTER = 0.1  # seconds between two redraws
FIRST_LINE_AFTER, LINE_AFTER = 2.0, 10.0  # seconds to the first line of a log, and between two lines
LINE_SHARE = 0.02  # of a phase between two lines
GUESS_AFTER = 1.0  # seconds of a phase before its end is guessed
COMPILING = "compiling, once per machine"


class ProgressBar:
    """One line that follows the work of a phase: the chains or minibatches of a layer, or all paths.

    It is a context; within, it also says when functions are compiled.

    Parameters
    ----------
    enabled : bool
    stream : text stream, optional
        Where to draw; standard error by default.
    """

    def __init__(self, enabled: bool, stream: TextIO | None = None) -> None:
        self.enabled = enabled
        self.stream = sys.stderr if stream is None else stream
        self.redraws = enabled and can_redraw(self.stream)
        self._lock, self._watch = Lock(), ExitStack()
        self._phase, self._began, self._first = "", time.monotonic(), 0.0
        self._done: dict[Any, int] = {}
        self._written, self._share = self._began - (0.0 if self.redraws else LINE_AFTER - FIRST_LINE_AFTER), 0.0
        self._open = self._compiled = False

    def __enter__(self) -> Self:
        if self.enabled:
            self._watch.enter_context(before_compiling(self._compiling))
        return self

    def __exit__(self, *error: object) -> None:
        self._watch.close()
        if self._open:
            self.stream.write("\n")
            self.stream.flush()

    def update(self, phase: str, total: int, task: Any, done: int, note: str) -> None:
        """Say how many of the phase's ``total`` steps a task has done."""
        if not self.enabled:
            return
        now = time.monotonic()
        with self._lock:
            begins = phase != self._phase or done < self._done.get(task, 0)
            if begins:
                self._phase, self._began, self._first, self._share = phase, now, 0.0, 0.0
                self._done.clear()
            if task not in self._done:  # what was done before, in a fit that is resumed, says nothing about the speed
                self._first += done / max(total, 1)
            self._done[task] = done
            share = sum(self._done.values()) / max(total, 1)
            if self._is_due(now, share):
                self._write(
                    f"{phase} {self._drawn(share)}{100 * share:3.0f} %{self._time(now, share)}, {note}", now, share
                )

    def _is_due(self, now: float, share: float) -> bool:
        """Redraws often and at the end of a phase; lines seldom."""
        if self.redraws:
            return now - self._written >= REDRAW_AFTER or share >= 1.0
        return now - self._written >= LINE_AFTER and share - self._share >= LINE_SHARE

    def _drawn(self, share: float) -> str:
        if not self.redraws:
            return ""
        full, empty = "█░" if (self.stream.encoding or "").lower().startswith("utf") else "#-"
        n = int(BAR * min(share, 1.0))
        return full * n + empty * (BAR - n) + " "

    def _time(self, now: float, share: float) -> str:
        """The time left, once there is something to guess it from; at the end, the time taken."""
        passed, gained = now - self._began, share - self._first
        if passed < GUESS_AFTER or gained <= 0.0:
            return ""
        return f", {_span(passed)}" if share >= 1.0 else f", {_span(passed * (1.0 - share) / gained)} left"

    def _compiling(self) -> None:
        """A function is about to be compiled: say so, in a log once."""
        with self._lock:
            if self.redraws or not self._compiled:
                self._compiled = True
                self._write(COMPILING, time.monotonic(), 0.0)

    def _write(self, text: str, now: float, share: float) -> None:
        if self.redraws:
            width = columns_of(self.stream) - 1  # the last column makes some terminals begin a line
            self.stream.write("\r" + text[:width].ljust(width))
            self._open = True
        else:
            self.stream.write(text[:MOST_COLUMNS] + "\n")
        self.stream.flush()
        self._written, self._share = now, share


def can_redraw(stream: TextIO) -> bool:
    """Whether a line can be written over: in a terminal, and in a notebook, whose stream says that it is none."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")


def columns_of(stream: TextIO) -> int:
    """Columns to use: those of the terminal, at most `MOST_COLUMNS`."""
    try:
        return min(os.get_terminal_size(stream.fileno()).columns or MOST_COLUMNS, MOST_COLUMNS)
    except (OSError, ValueError):  # no terminal
        return MOST_COLUMNS


def _span(seconds: float) -> str:
    """A time in words, never none."""
    if seconds < 90.0:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60.0)} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
