"""The package as a whole: imports point one way, modules are short, and a user's script has types."""

import ast
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
RUN = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
PACKAGE = ROOT / "src" / "pbdn"
MOST_AT_THE_ROOT = 8
MOST_LINES = 350
SCRIPT = """
from pathlib import Path

from pbdn import GibbsConfig, ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.datasets import make_xor
from pbdn.model.priors import Hyperpriors

data = make_xor(40, seed=0)
model = PBDNClassifier(
    max_depth=2, gibbs_config=GibbsConfig(n_sweeps=20), map_config=MapConfig(batch_size=10), priors=Hyperpriors()
)
reveal_type(model.fit(data.X, data.y))
reveal_type(model.fit(data.X, data.y).predict_proba(data.X))
reveal_type(model.predict_proba_interval(data.X))
reveal_type(model.predict(data.X))
reveal_type(model.score(data.X, data.y))
reveal_type(model.depth_)
reveal_type(model.n_experts_)
reveal_type(model.network_)
reveal_type(model.to_sql("sqlite"))
reveal_type(model.to_c())
reveal_type(model.to_python())
reveal_type(model.to_onnx())
reveal_type(PBDNClassifier.load(Path("model.pbdn")))
reveal_type(ISHMClassifier().fit(data.X, data.y))
reveal_type(PBDNClassifier(inference="map").partial_fit(data.X, data.y, classes=[0, 1]))
reveal_type(model.config_.inference)
reveal_type(model.transform(data.X))
"""
EXPECTED = [
    "PBDNClassifier",
    "ndarray[",
    "ndarray[",
    "ndarray[",
    "float",
    "int",
    "list[",
    "Network",
    "str",
    "str",
    "str",
    "bytes",
    "PBDNClassifier",
    "ISHMClassifier",
    "PBDNClassifier",
    "str",
    "ndarray[",
]


# Imports point one way: the contracts of pyproject.toml hold, and they notice an arrow that points up.


def lint(source: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Check the package in the folder ``source`` against the contracts."""
    pytest.importorskip("importlinter", reason="needs import-linter (extra `lint`)")
    return subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_contracts_hold():
    outcome = lint(ROOT / "src")
    assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("numerics/softplus.py", "from pbdn.estimators.classifier import PBDNClassifier", "Rooms import"),
        ("gibbs/rows.py", "import pbdn.sgd.objective", "Rooms import"),
        ("data/row_source.py", "def late():\n    from pbdn.report import collect", "Rooms import"),
        ("model/criteria.py", "import pandas", "extras"),
        ("gibbs/chain.py", "from sklearn.base import BaseEstimator", "scikit-learn"),
        ("variates/random_stream.py", "import pbdn.variates.counts", "circle"),
    ],
)
def test_a_planted_import_breaks_them(tmp_path, module, line, contract):
    shutil.copytree(ROOT / "src" / "pbdn", tmp_path / "pbdn", ignore=shutil.ignore_patterns("__pycache__"))
    planted = tmp_path / "pbdn" / module
    planted.write_text(planted.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    outcome = lint(tmp_path)
    assert outcome.returncode == 1
    broken = [text for text in outcome.stdout.splitlines() if "BROKEN" in text]
    assert any(contract in text for text in broken), outcome.stdout


# The listing stays readable: few modules at the root of the package, none of them long.


def test_few_modules_at_the_root():
    names = sorted(path.name for path in PACKAGE.glob("*.py"))
    assert len(names) <= MOST_AT_THE_ROOT, names


def test_no_module_is_long():
    long = {}
    for path in PACKAGE.rglob("*.py"):
        n_lines = len(path.read_text(encoding="utf-8").splitlines())
        if n_lines > MOST_LINES:
            long[str(path.relative_to(PACKAGE))] = n_lines
    assert not long


# Functions that do not count references must not hand out arrays: who gets one would let go of what it never held.


def functions_that(decorator: str):
    """Name and return annotation of all functions of the package with this decorator."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and decorator in map(ast.unparse, node.decorator_list):
                yield node.name, ast.unparse(node.returns) if node.returns else "not said"


def test_summing_functions_return_no_arrays():
    numbers = {"None", "bool", "int", "float", "tuple[float, float, float, float]", "Group"}
    returned = dict(functions_that("summing"))
    assert returned["next_group"] == "Group"
    assert {name: kind for name, kind in returned.items() if kind not in numbers} == {}


# A user's script is type-checked against the package: what it calls has types better than Any.


@pytest.mark.long
def test_a_users_script_has_types(tmp_path):
    pytest.importorskip("mypy", reason="needs mypy (extra `lint`)")
    script = tmp_path / "user.py"
    script.write_text(SCRIPT, encoding="utf-8")
    outcome = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            f"--config-file={ROOT / 'pyproject.toml'}",
            f"--cache-dir={ROOT / '.mypy_cache'}",  # that of `make lint`
            script,
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in outcome.stdout.splitlines() if line.startswith("user.py")]  # `make lint` checks the package
    assert not [line for line in own if "error:" in line], outcome.stdout
    revealed = [line.split("Revealed type is ")[1] for line in own if "Revealed" in line]
    wrong = [(found, wanted) for found, wanted in zip(revealed, EXPECTED, strict=True) if wanted not in found]
    assert not wrong


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "src" / "pbdn" / "py.typed").exists()
