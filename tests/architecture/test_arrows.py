"""Imports point one way: the contracts of pyproject.toml hold, and they notice an arrow that points up."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("importlinter", reason="needs import-linter (extra `lint`)")

ROOT = pathlib.Path(__file__).parents[2]
RUN = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"


def lint(source: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Check the package in the folder ``source`` against the contracts."""
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
        ("variates/random_stream.py", "import pbdn.variates.gamma", "circle"),
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
