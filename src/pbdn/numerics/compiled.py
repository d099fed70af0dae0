"""How functions are compiled: one decorator for each use, those that Python calls cached on disk, without the interpreter's lock.

Division by zero is as in NumPy. A compiled function is made of the code it calls and of the constants it uses, and these stand in
its own file or in files that its file imports. Numba's own cache looks at a function's file only. Here one digest is taken of a
source file and of everything of this package that it imports, directly or not, and a function is compiled again when the digest of
its file changed. So a kernel's file must import what the kernel is made of: the functions it calls, its constants, and the classes
of the tuples it is given.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from numba import njit
from numba.core import event
from numba.core.ccallback import CFunc
from numba.extending import intrinsic, overload

PACKAGE = Path(__file__).resolve().parents[1]

_NAME = re.escape(PACKAGE.name)
_IMPORT = re.compile(
    rf"^[ \t]*(?:from[ \t]+({_NAME}[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+({_NAME}[\w.]*))", re.M
)
_FUSED = {"contract"}
_ANY_ORDER = {"contract", "reassoc"}


def imported_names(text: str) -> set[str]:
    """Dotted names, below this package, of all that a source text imports: modules and what is taken from them."""
    names = set()
    for origin, taken, module in _IMPORT.findall(text):
        names.add(origin or module)
        names.update(f"{origin}.{name}" for name in re.findall(r"\w+", taken))
    return names


@cache
def file_of(name: str, package: Path = PACKAGE) -> Path | None:
    """The source file of a module, or None where the name is not one of a module."""
    path = package.joinpath(*name.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _read(path: Path, package: Path) -> tuple[bytes, frozenset[Path]]:
    """What a file holds, and the package's files that it imports itself."""
    try:
        text = path.read_bytes()
    except OSError:  # there is none: an interactive session, or a package in an archive
        return b"", frozenset()
    found = {file_of(name, package) for name in imported_names(text.decode(errors="replace"))}
    return text, frozenset(file for file in found if file is not None)


def reached_from(path: Path, package: Path = PACKAGE) -> set[Path]:
    """A file and all of the package's files that it imports, directly or not."""
    reached, waiting = set[Path](), [path]
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting.extend(_read(file, package)[1])
    return reached


@cache
def digest(path: Path, package: Path = PACKAGE) -> str:
    """SHA-256 of a file and all that it reaches; files are read once in a process."""
    total = hashlib.sha256()
    for file in sorted(reached_from(path, package)):
        text = _read(file, package)[0]
        total.update(f"{file.name} {len(text)}\n".encode())
        total.update(text)
    return total.hexdigest()


Function = TypeVar("Function", bound=Callable[..., Any])

_COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_FROM_PYTHON: dict[str, Any] = {"cache": True, "no_cfunc_wrapper": True}
_FROM_KERNELS: dict[str, Any] = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}


def _note_sources(compiled: Any, function: Any) -> None:
    """Let the cache entry of a function stand for all sources that it is made of.

    Numba has no public way to say so. Without JIT, or should it rename these fields, its own rule holds: the function's file.
    """
    entry: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(entry, "_source_stamp"):
        entry._source_stamp = (entry._source_stamp, digest(Path(function.__code__.co_filename)))


class Compiler:
    """A decorator that compiles functions at their first call, with these options of numba."""

    def __init__(self, **options: Any) -> None:
        self._compile = njit(**_COMMON, **options)

    def __call__(self, function: Function) -> Function:
        """The function, to be compiled for every combination of types that it is called with."""
        compiled: Function = self._compile(function)
        _note_sources(compiled, function)
        return compiled


kernel = Compiler(**_FROM_PYTHON)
"""A function that Python calls."""

summing_kernel = Compiler(**_FROM_PYTHON, fastmath=_ANY_ORDER)
"""A function that Python calls, whose sums may be taken in any order, which lets them be vectorised."""

internal = Compiler(**_FROM_KERNELS)
"""A function that only kernels call: compiled without an entrance for Python, which takes as long to compile as the function.
Calling one from Python ends the process; tests call them through a kernel of their own."""

vectorised = Compiler(**_FROM_KERNELS, fastmath=_FUSED)
"""An internal function of straight-line loops, with multiplications and additions fused."""

summing = Compiler(**_FROM_KERNELS, _nrt=False, fastmath=_ANY_ORDER)
"""An internal function whose sums may be taken in any order, which lets them be vectorised.

It makes no array and returns none: its callers hold all of them, so it does not count references to what it looks at. Counting
took a fifth of the time of a fit, and far more where two threads count the same array."""

elementary = Compiler(**_FROM_KERNELS, fastmath=_FUSED, forceinline=True)
"""An internal function of one number that becomes part of the loops calling it, so that they are vectorised. It is so at the
level of machine code: put in as Python statements (``inline="always"``) its types would be inferred again in every caller."""

instructions: Callable[[Any], Any] = intrinsic
"""A function whose machine instructions are written one by one (numba's `intrinsic`)."""

inlined = Compiler(inline="always")
"""A part of one or two kernels that stands alone for reading and testing. Compiled by itself, it would be optimised with all
that it calls, and then again in the kernel."""


class _Told(event.Listener):  # type: ignore[misc]
    """Calls a function at the start of every event."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell

    def on_start(self, event: Any) -> None:
        """An event begins."""
        self.tell()

    def on_end(self, event: Any) -> None:
        """An event ends."""


@contextmanager
def before_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Within, ``tell`` is called whenever a function is about to be compiled; one that the disk keeps is not."""
    with event.install_listener("numba:compile", _Told(tell)):
        yield


_lock = Lock()
_helpers: list[subprocess.Popen[bytes]] = []


@contextmanager
def help_with_compiling(work: Callable[[], None]) -> Iterator[None]:
    """Within, as soon as something is compiled, a second process does some work that compiles other kernels.

    It puts them where compiled code is kept, and `wait_for_helper` stands before their first use. At the end the process is
    gone. Where it cannot start, or is killed, they are compiled in this process.
    """
    begun: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        with _lock:
            if not _helpers:
                begun.extend(_start(f"from {work.__module__} import {work.__name__}; {work.__name__}()"))
                _helpers.extend(begun)

    try:
        with before_compiling(begin):
            yield
    finally:
        for helper in begun:
            helper.kill()
            helper.wait()
            _helpers.remove(helper)


def wait_for_helper() -> None:
    """Let the second process come to its end, if there is one."""
    for helper in tuple(_helpers):
        helper.wait()


def _start(order: str) -> "list[subprocess.Popen[bytes]]":
    """A second Python that finds the same packages; none where there cannot be one, or no core for it."""
    frozen = getattr(sys, "frozen", False)  # an application with a Python inside: its program is not Python
    if not sys.executable or frozen or (os.cpu_count() or 1) < 2:
        return []
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {order}"]
    nowhere = subprocess.DEVNULL
    try:
        return [subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)]
    except OSError:
        return []


def chosen_by_type(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """Decorator for a function that sees the types of the arguments of ``function`` and returns its body for them."""
    register: Callable[[Function], Function] = overload(
        function, jit_options={**_COMMON, "_nrt": False, "fastmath": _ANY_ORDER}
    )
    return register


def address_of(function: Callable[..., None], signature: Any) -> int:
    """Where the machine code of a function lies in this process, for callers that know its types."""
    compiled: Any = CFunc(function, (signature.args, signature.return_type), {}, {"error_model": "numpy"})
    compiled.enable_caching()
    _note_sources(compiled, function)
    compiled.compile()
    return int(compiled.address)
