"""Compiled code is out of date when any source that it is made of changed."""

import ast
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numba import types
from numba.core.dispatcher import Dispatcher

from pbdn.data.row_source import ArraySource
from pbdn.gibbs.chain import ChainSettings, run_chain
from pbdn.gibbs.rows import make_rows
from pbdn.model.labelling import SECOND_CLASS
from pbdn.numerics import compiled as sources
from pbdn.numerics.compiled import PACKAGE, digest, file_of, reached_from
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.train_layer import fit_map

KERNEL_FILES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*.py")
    if "numerics.compiled import" in path.read_text() or path.name == "compiled.py"
)


def imports_by_syntax(path, package):
    """What a file imports from the package, found by the syntax tree instead of by searching its text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found.update(file_of(name, package) for name in names if name.split(".")[0] == "pbdn")
    return found - {None}


def test_imports_are_those_of_the_syntax_tree():
    for path in sorted(PACKAGE.rglob("*.py")):
        assert sources._read(path, PACKAGE)[1] == imports_by_syntax(path, PACKAGE), path


def test_there_are_kernels():
    assert len(KERNEL_FILES) > 20
    for name in (
        "numerics/softplus.py",
        "variates/random_stream.py",
        "gibbs/gram.py",
        "sgd/side_kernels.py",
        "data/columns.py",
    ):
        assert name in KERNEL_FILES


def test_every_kernel_file_uses_the_one_way_to_compile():
    """njit elsewhere would be cached by numba's own rule."""
    for path in PACKAGE.rglob("*.py"):
        if path != PACKAGE / "numerics" / "compiled.py":
            assert "njit" not in path.read_text(), path
            assert "cfunc(" not in path.read_text(), path


@pytest.fixture
def copy(tmp_path):
    """The package's sources in a folder of their own, without compiled code."""
    folder = tmp_path / "pbdn"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    yield folder
    forget()


def forget():
    """Nothing has been read."""
    for function in (sources._read, digest, file_of):
        function.cache_clear()


def digests(package):
    """Of all kernel files, read anew."""
    forget()
    return {name: digest(package / name, package) for name in KERNEL_FILES}


def test_change_of_a_kernel_file_reaches_all_that_import_it(copy):
    """A changed file changes the digest of itself and of every kernel file that imports it, and of no other."""
    before = digests(copy)
    reached = {name: reached_from(copy / name, copy) for name in KERNEL_FILES}
    for name in KERNEL_FILES:
        text = (copy / name).read_text()
        (copy / name).write_text(text + "\nPLANTED = 1\n")
        after = digests(copy)
        (copy / name).write_text(text)
        changed = {other for other in KERNEL_FILES if before[other] != after[other]}
        assert changed == {other for other in KERNEL_FILES if copy / name in reached[other]}
        assert name in changed
    assert copy / "numerics/elementary.py" in reached["sgd/adam.py"]
    assert copy / "variates/random_stream.py" in reached["gibbs/hyperplanes.py"]
    assert copy / "gibbs/kernel_arguments.py" not in reached["sgd/adam.py"]
    assert (
        copy / "data/row_source.py" not in reached["sgd/adam.py"]
    )  # or every change there would compile all kernels anew


def tuple_classes(kind):
    """Classes of the named tuples in a type of numba."""
    found = {kind.instance_class} if isinstance(kind, types.BaseNamedTuple) else set()
    return found.union(*(tuple_classes(part) for part in getattr(kind, "types", ())))


def test_kernel_files_import_the_classes_of_their_arguments(rng):
    """Numba knows a tuple by its class, not by the order of its fields: the class must be among the sources."""
    X, y = rng.standard_normal((40, 2)), np.arange(40) % 2
    settings = {"max_experts": 2, "n_sweeps": 2, "n_burn_in": 1}
    for sampler in ("first_events", "event_times", "counts"):
        for inputs in (X, sp.csr_array(X)):
            run_chain(make_rows(inputs, y, single_events=True), ChainSettings(sampler=sampler, **settings), 0)
    fit_map(ArraySource(X, y), SECOND_CLASS, config=MapSettings(n_minibatches=4, prune_every=2))
    seen = set()
    for name in KERNEL_FILES:
        module = sys.modules.get("pbdn." + name.removesuffix(".py").replace("/", "."))
        for compiled in vars(module).values() if module else ():
            if isinstance(compiled, Dispatcher) and compiled.__module__ == module.__name__:
                for signature in compiled.nopython_signatures:
                    for argument in signature.args:
                        for made in tuple_classes(argument):
                            assert file_of(made.__module__) in reached_from(PACKAGE / name), (name, made)
                            seen.add(made.__name__)
    assert {"RowArrays", "Experts", "PriorValues", "SweepStreams", "LabelledRows", "AdamState", "Prior"} <= seen


# calls kernels of three rooms and prints what each gives
SCRIPT = """
import numpy as np
from numba import njit
from pbdn.gibbs.expert_weights import draw_expert_weights
from pbdn.gibbs.kernel_arguments import PriorValues
from pbdn.numerics.compiled import PACKAGE
from pbdn.sgd.adam import adam_step
from pbdn.sgd.link_function import link_slopes
from pbdn.variates.random_stream import open_stream, stream_buffer
print(PACKAGE)
buffer = stream_buffer()
stream = np.uint64(open_stream(buffer, np.uint64(1), 0, 0, 0))
print(draw_expert_weights(stream, np.zeros(1), np.ones(1), 1.0, 1.0, PriorValues(*range(1, 9))))
print(njit(lambda *a: link_slopes(*a))(3, np.array([True, False, True]), np.ones(3), np.array([0.3, 1.0, 2.0])))
p, m, q = np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1))
njit(lambda *a: adam_step(*a))(p, m, q, np.full((1, 1), 0.5), 1.0, 0.1, 1)
print(p, m, q)
"""
WEIGHTS, LINK, ADAM = 1, 2, 3  # lines of its output

PLANTS = {  # file, what stands there, what is put there, which line changes
    "a callee in another file": ("variates/random_stream.py", "return d * v", "return 2.0 * d * v", WEIGHTS),
    "the cipher, which is called by its address": ("variates/random_stream.py", "0xD2511F53", "0xD2511F55", WEIGHTS),
    "the order of a tuple's fields": (
        "gibbs/kernel_arguments.py",
        "    mass_shape: float\n    mass_rate: float\n",
        "    mass_rate: float\n    mass_shape: float\n",
        WEIGHTS,
    ),
    "the kernel itself": ("sgd/link_function.py", "is_tiny else loss_here", "is_tiny else 2.0 * loss_here", LINK),
    "an elementary function two files below": (
        "numerics/elementary.py",
        "return t * polynomial(t, _EXP_RATIO) if",
        "return 2.0 * t * polynomial(t, _EXP_RATIO) if",
        LINK,
    ),
    "a constant of another file": (
        "sgd/kernel_arguments.py",
        "BETA1, BETA2, EPSILON = 0.9,",
        "BETA1, BETA2, EPSILON = 0.8,",
        ADAM,
    ),
}

ROUNDS = [
    ("a callee in another file", "the kernel itself", "a constant of another file"),
    ("the cipher, which is called by its address", "an elementary function two files below"),
    ("the order of a tuple's fields",),
]


@pytest.mark.long
def test_planted_change_is_seen_by_the_next_process(copy):
    environment = {**os.environ, "PYTHONPATH": str(copy.parent)}
    environment.pop("NUMBA_CACHE_DIR", None)

    def lines():
        command = [sys.executable, "-c", SCRIPT]
        found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()
        assert found[0] == str(copy)
        return found

    def compiled():
        return {path: path.stat().st_mtime_ns for path in copy.rglob("*.nbc")}

    before, stored = lines(), compiled()
    assert stored, "nothing was cached, so that nothing could be out of date"
    assert lines() == before
    assert compiled() == stored, "compiled again without a change"
    for together in ROUNDS:  # at most one plant for each line: a line that stays as it was accuses its plant
        for what in together:
            name, old, new, _ = PLANTS[what]
            text = (copy / name).read_text()
            assert old in text, what
            (copy / name).write_text(text.replace(old, new))
        after = lines()
        assert {j for j in range(4) if after[j] != before[j]} == {PLANTS[what][3] for what in together}, together
        before = after
