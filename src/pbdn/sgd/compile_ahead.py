"""On a machine where nothing is compiled yet, another process compiles half of the kernels that a fit needs.

A fit trains a layer by itself, and then all layers together. While this process compiles the kernels of the first, a second one
compiles those that come later and puts them where compiled code is kept. `wait` stands before their first use. Without a
second process (one core, no Python to start, or it was killed) they are compiled here, as ever.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np

from pbdn.data.row_source import ArraySource
from pbdn.model.labelling import for_each_class
from pbdn.model.network import Layer, Side
from pbdn.numerics.compiled import before_compiling

_ORDER = f"from {__name__} import compile_the_rest; compile_the_rest()"
_lock = Lock()
_helpers: list[subprocess.Popen[bytes]] = []


@contextmanager
def help_with_compiling() -> Iterator[None]:
    """Within, a second process starts as soon as something is compiled; it is gone at the end."""
    begun: list[subprocess.Popen[bytes] | None] = []

    def begin() -> None:
        with _lock:
            if not begun and not _helpers:
                helper = _start()
                begun.append(helper)
                _helpers.extend([] if helper is None else [helper])

    try:
        with before_compiling(begin):
            yield
    finally:
        for helper in begun:
            if helper is not None:
                helper.kill()
                helper.wait()
                _helpers.remove(helper)


def wait() -> None:
    """Let the second process come to its end, if there is one."""
    for helper in tuple(_helpers):
        helper.wait()


def _start() -> "subprocess.Popen[bytes] | None":
    """A second Python that finds the same packages; None where there cannot be one, or no core for it."""
    frozen = getattr(sys, "frozen", False)  # an application with a Python inside: its program is not Python
    if not sys.executable or frozen or (os.cpu_count() or 1) < 2:
        return None
    order, nowhere = f"import sys; sys.path[:] = {sys.path!r}; {_ORDER}", subprocess.DEVNULL
    try:
        return subprocess.Popen([sys.executable, "-c", order], stdin=nowhere, stdout=nowhere, stderr=nowhere)
    except OSError:
        return None


def compile_the_rest() -> None:
    """Call the kernels that a fit of classes needs after its first layer, on the smallest network."""
    from pbdn.sgd.joint_training import Noise, Packed, train_together
    from pbdn.sgd.map_settings import MapSettings
    from pbdn.sgd.objective import pack
    from pbdn.sgd.pruning import log_likelihoods

    inputs, codes, labelling = np.ones((2, 1)), np.arange(2), for_each_class(2)
    sides = tuple(Side(np.zeros((1, 2)), np.ones(1)) for _ in labelling.sides)
    log_likelihoods(ArraySource(inputs, codes), *pack(sides), labelling.positive)
    network = Packed.of([Layer(sides)], 1, labelling, MapSettings()).with_gaussian_penalty(1.0)
    rng = np.random.default_rng(0)
    train_together(network, inputs, codes, None, noise=Noise(np.zeros(1)), rates=np.zeros(1), batch_size=2, rng=rng)
