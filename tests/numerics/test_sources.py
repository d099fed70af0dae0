"""Compiled code is out of date when any source that it is made of changed."""

import ast
import os
import shutil
import subprocess
import sys

import pytest

from pbdn.numerics import sources
from pbdn.numerics.sources import PACKAGE, digest, file_of, reached_from

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
    for name in ("numerics/softplus.py", "variates/stream.py", "gibbs/gram.py", "sgd/gradient.py", "data/columns.py"):
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
    sources._read.cache_clear()
    yield folder
    sources._read.cache_clear()
    digest.cache_clear()


def digests(package):
    """Of all kernel files, read anew."""
    sources._read.cache_clear()
    digest.cache_clear()
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
    assert copy / "variates/stream.py" in reached["gibbs/hyperplanes.py"]
    assert copy / "gibbs/structs.py" not in reached["sgd/adam.py"]


RUN = """
import numpy as np
from pbdn.numerics.sources import PACKAGE
assert str(PACKAGE) == {folder!r}, PACKAGE
{code}
"""

PLANTS = {
    "a callee in another file": (
        "variates/stream.py",
        "return -np.log(uniform(stream))",
        "return -2.0 * np.log(uniform(stream))",
        """
from pbdn.gibbs.expert_weights import draw_expert_weights
from pbdn.gibbs.structs import PriorValues
from pbdn.variates.stream import open_stream, stream_buffer
buffer = stream_buffer()
stream = np.uint64(open_stream(buffer, np.uint64(1), 0, 0, 0))
print(draw_expert_weights(stream, np.zeros(2), np.ones(2), 1.0, 1.0, PriorValues(*[1.0] * 8)))
""",
    ),
    "a constant of another file": (
        "sgd/constants.py",
        "BETA1, BETA2, EPSILON = 0.9,",
        "BETA1, BETA2, EPSILON = 0.8,",
        """
from pbdn.sgd.adam import adam_step
p, m, q = np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2))
adam_step(p, m, q, np.full((2, 2), 0.5), 1.0, 0.1, 1)
print(p, m)
""",
    ),
    "the kernel itself": (
        "sgd/link.py",
        "loss += 0.0 if is_tiny else loss_here",
        "loss += 0.0 if is_tiny else 2.0 * loss_here",
        """
from pbdn.sgd.link import link_slopes
print(link_slopes(3, np.array([True, False, True]), np.ones(3), np.array([0.3, 1.0, 2.0])))
""",
    ),
    "an elementary function two files below": (
        "numerics/elementary.py",
        "return t * polynomial(t, _EXP_RATIO) if x < 0.35",
        "return 2.0 * t * polynomial(t, _EXP_RATIO) if x < 0.35",
        """
from pbdn.sgd.link import link_slopes
print(link_slopes(3, np.array([True, False, True]), np.ones(3), np.array([0.3, 1.0, 2.0])))
""",
    ),
    "the order of a tuple's fields": (
        "sgd/adam.py",
        "    inv_scale: float  # c₀\\n    coef_power: float  # a_β + 1/2, or the published a_β\\n",
        "    coef_power: float  # a_β + 1/2, or the published a_β\\n    inv_scale: float  # c₀\\n",
        """
from pbdn.sgd.adam import Prior, add_penalty_gradient
gradient = np.zeros((3, 2))
add_penalty_gradient(np.ones((3, 2)), Prior(np.zeros(2), 1.0, 5.0, 2.0), gradient)
print(gradient)
""",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", PLANTS)
def test_planted_change_is_seen_by_the_next_process(copy, what):
    name, old, new, code = PLANTS[what]
    environment = {**os.environ, "PYTHONPATH": str(copy.parent)}
    environment.pop("NUMBA_CACHE_DIR", None)

    def result():
        script = RUN.format(folder=str(copy), code=code)
        return subprocess.run(
            [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
        ).stdout

    first = result()
    assert result() == first
    stored = {path: path.stat().st_mtime_ns for path in copy.rglob("*.nbc")}
    assert stored, "nothing was cached, so that nothing could be out of date"
    assert result() == first
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*.nbc")} == stored, "compiled again without a change"
    text = (copy / name).read_text()
    old, new = old.replace("\\n", "\n"), new.replace("\\n", "\n")
    assert old in text
    (copy / name).write_text(text.replace(old, new))
    assert result() != first
