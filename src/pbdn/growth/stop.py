"""When a fit stops before its end: at a deadline, or at Ctrl-C."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


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
