"""The line that follows a fit: in a terminal, in a log, while functions are compiled."""

import fcntl
import io
import os
import struct
import termios

import numpy as np
import pytest
from numba import njit

from pbdn.growth import progress
from pbdn.growth.progress import COMPILING, ProgressBar, can_redraw


@pytest.fixture
def clock(monkeypatch):
    now = {"at": 100.0}
    monkeypatch.setattr(progress.time, "monotonic", lambda: now["at"])
    return now


@pytest.fixture
def terminal():
    """A terminal of 60 columns: what writes to it, and a function that reads what was written."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with open(follower, "w", encoding="utf-8") as stream:
        yield stream, lambda: read_all(leader)
    os.close(leader)


def read_all(leader):
    """Everything up to the end of a line."""
    text = b""
    while not text.endswith(b"\n"):
        text += os.read(leader, 1 << 20)
    return text.decode()


def work(bar, clock, seconds, phase="layer 1", n=20, begin=0):
    """A phase of ``n`` steps of which each takes some seconds."""
    for done in range(begin + 1, n + 1):
        clock["at"] += seconds
        bar.update(phase, n, "chain", done, f"experts {done}, ln L -1234567.8, and more words than fit beside the rest")


def test_a_line_is_no_wider_than_the_terminal(terminal, clock):
    stream, read = terminal
    assert can_redraw(stream)
    with ProgressBar(True, stream) as bar:
        work(bar, clock, 3.0)
    text = read()
    drawn = text.rstrip("\r\n").split("\r")[1:]
    assert len(drawn) == 20
    assert {len(line) for line in drawn} == {59}
    assert text.count("\n") == 1
    assert "█" in drawn[0]


def test_a_line_has_80_columns_where_nothing_is_known(terminal, clock, monkeypatch):
    stream, read = terminal
    monkeypatch.setattr(progress.os, "get_terminal_size", lambda descriptor: os.terminal_size((200, 24)))
    with ProgressBar(True, stream) as bar:
        work(bar, clock, 3.0)
    assert max(len(line) for line in read().rstrip("\r\n").split("\r")) == 79


def test_no_end_is_guessed_before_something_is_known(terminal, clock):
    stream, read = terminal
    with ProgressBar(True, stream) as bar:
        work(bar, clock, 0.3)
    drawn = read().rstrip("\r\n").split("\r")[1:]
    assert "left" not in drawn[0]
    assert not any(" 0 s" in line for line in drawn)
    assert any("4 s left" in line for line in drawn)
    assert "100 %, 6 s, experts 20" in drawn[-1]


def test_a_resumed_fit_is_timed_by_what_it_does_now(terminal, clock):
    stream, read = terminal
    with ProgressBar(True, stream) as bar:
        bar.update("layer 1", 100, "chain", 90, "")
        clock["at"] += 5.0
        bar.update("layer 1", 100, "chain", 91, "")
    assert "45 s left" in read().rstrip().split("\r")[-1]


def test_a_log_has_plain_lines_now_and_then(clock):
    log = io.StringIO()
    with ProgressBar(True, log) as bar:
        work(bar, clock, 0.05)  # too quick to be told
        work(bar, clock, 4.0, "layer 2", 100)
    lines = log.getvalue().splitlines()
    assert lines[0].startswith("layer 2   2 %, 7 min left, experts 2, ln L")
    assert 30 <= len(lines) <= 40
    assert all(len(line) <= 80 for line in lines)
    assert all("left" in line for line in lines)
    assert not set("\r█░") & set(log.getvalue())


def test_terminals_that_know_ascii_only(clock):
    leader, follower = os.openpty()
    with open(follower, "w", encoding="ascii") as stream:
        with ProgressBar(True, stream) as bar:
            work(bar, clock, 3.0)
        assert "layer 1 #" in read_all(leader)
    os.close(leader)


@pytest.mark.parametrize("as_log", [True, False])
def test_compilation_is_named(as_log, terminal):
    stream, read = (io.StringIO(), None) if as_log else terminal

    def make():
        @njit
        def kernel(x):
            return x.sum()

        return kernel

    kernels = [make(), make()]
    with ProgressBar(True, stream):
        for kernel in kernels:
            kernel(np.ones(3))
    text = stream.getvalue() if as_log else read()
    assert COMPILING in text
    if as_log:
        assert text == f"{COMPILING}\n"
        with ProgressBar(True, stream):
            kernels[0](np.ones(3))
        assert stream.getvalue() == text  # compiled already


def test_nothing_is_written_where_nothing_is_wanted(clock):
    log = io.StringIO()
    with ProgressBar(False, log) as bar:
        work(bar, clock, 30.0)
    assert log.getvalue() == ""
