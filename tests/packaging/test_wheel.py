"""The wheel installs into an empty environment and works there.

The dependencies come from the package index, as they do for a user. Without an index the test is skipped.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SMOKE = """
import numpy as np

import pbdn
from pbdn import PBDNClassifier
from pbdn.datasets import make_xor

data = make_xor(120, seed=0)
model = PBDNClassifier(inference="map", max_depth=1, random_state=0).fit(data.X, data.y)
expected = model.predict_proba(data.X)
assert model.score(data.X, data.y) > 0.7
model.save("model.pbdn")
assert np.array_equal(PBDNClassifier.load("model.pbdn").predict_proba(data.X), expected)
print(pbdn.__file__)
"""


def run(*command, folder):
    """Run a command away from the checkout; its output, or what went wrong."""
    keep = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    outcome = subprocess.run(
        [str(part) for part in command], cwd=folder, env=keep, capture_output=True, text=True, check=False
    )
    if any(sign in outcome.stderr for sign in ("Failed to establish a new connection", "Failed to resolve")):
        pytest.skip("no package index in reach")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return outcome.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of this checkout, built from a copy so that nothing is left behind."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, copy, folder=folder)
    (built,) = folder.glob("pbdn-*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_what_is_not_code(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    package = ROOT / "src" / "pbdn"
    sources = {f"pbdn/{path.relative_to(package).as_posix()}" for path in package.rglob("*.py")}
    templates = {f"pbdn/report/templates/{path.name}" for path in (package / "report" / "templates").iterdir()}
    assert templates
    assert sources | templates | {"pbdn/py.typed"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "benchmarks")) or name.endswith((".nbi", ".nbc"))]


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(binaries / "python", "-m", "pip", "install", "--quiet", f"{wheel}[cli]", folder=tmp_path)
    where = run(binaries / "python", "-c", SMOKE, folder=tmp_path)
    assert str(tmp_path / "venv") in where
    assert "fit" in run(binaries / "pbdn", "--help", folder=tmp_path)
