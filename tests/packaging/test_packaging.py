"""What the project's files say, what a wheel holds, and what works without the extras."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile

import pytest

from pbdn import GibbsConfig, __version__
from pbdn.errors import MissingExtraError

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOOLS = {
    "test",
    "lint",
    "docs",
    "dev",
    "bench",
    "all",
}  # extras for people who work on the project, and the sum of the others
LEFT_OUT = {"torch"}  # not installed by the job with the oldest versions: half a gigabyte for one engine
SMOKE = """
import numpy as np

import pbdn
from pbdn import MapConfig, PBDNClassifier
from pbdn.datasets import make_xor

data = make_xor(120, seed=0)
few_kernels = MapConfig(pruning="none", polish=False)  # the others take half a minute to compile
model = PBDNClassifier(inference="map", criterion="aic_inputs", max_depth=1, map_config=few_kernels, random_state=0)
model.fit(data.X, data.y)
expected = model.predict_proba(data.X)
assert model.score(data.X, data.y) > 0.7
model.save("model.pbdn")
assert np.array_equal(PBDNClassifier.load("model.pbdn").predict_proba(data.X), expected)
print(pbdn.__file__)
"""
PACKAGES = {
    "plot": r"pip install 'matplotlib>=\S+' \(",
    "report": r"pip install 'jinja2>=\S+' 'matplotlib>=\S+' 'pillow>=\S+' \(",
    "posterior": r"pip install 'xarray>=\S+' 'arviz-stats\[xarray\]>=\S+' \(",
    "arrow": r"pip install 'pyarrow>=\S+' \(",
    "frames": r"pip install ('pandas>=\S+'|'\.\[frames\]' in a clone of the repository) \(",
}


# What several files say about the project is the same everywhere: versions of Python, of dependencies, of the package.


def bounds():
    """Lower bounds of what users install, by name."""
    wanted = list(PROJECT["dependencies"])
    for extra, requirements in PROJECT["optional-dependencies"].items():
        if extra not in TOOLS:
            wanted += requirements
    found = (re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement) for requirement in wanted)
    return {name: version for name, version in (match.groups() for match in found) if name not in LEFT_OUT}


def same_version(left: str, right: str) -> bool:
    """Whether two versions differ by zeros at the end only."""
    return re.sub(r"(\.0)+$", "", left) == re.sub(r"(\.0)+$", "", right)


def test_the_oldest_job_installs_the_lower_bounds():
    lines = (ROOT / "ci" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert bounds().keys() <= pinned.keys()
    assert not [name for name, version in bounds().items() if not same_version(version, pinned[name])]


def test_all_is_every_extra_for_users():
    extras = PROJECT["optional-dependencies"]
    assert extras["all"] == [f"pbdn[{','.join(sorted(extras.keys() - TOOLS))}]"]


def test_the_workflow_runs_every_supported_python():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    tested = re.findall(r'"([\d.]+)"', re.search(r"python: \[(.*)\]", workflow).group(1))
    declared = [text.rsplit(" ", 1)[1] for text in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", text)]
    assert tested == declared
    assert PROJECT["requires-python"] == f">={declared[0]}"


def test_the_version_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {__version__}\n" in citation
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# The wheel installs into an empty environment and works there.
#
# The dependencies come from the package index, as they do for a user. Without an index the test is skipped.


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


def test_the_wheel_holds_what_is_not_code(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    package = ROOT / "src" / "pbdn"
    sources = {f"pbdn/{path.relative_to(package).as_posix()}" for path in package.rglob("*.py")}
    templates = {f"pbdn/report/templates/{path.name}" for path in (package / "report" / "templates").iterdir()}
    assert templates
    assert sources | templates | {"pbdn/py.typed"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "benchmarks")) or name.endswith((".nbi", ".nbc"))]


@pytest.mark.long
def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(binaries / "python", "-m", "pip", "install", "--quiet", "--no-compile", f"{wheel}[cli]", folder=tmp_path)
    where = run(binaries / "python", "-c", SMOKE, folder=tmp_path)
    assert str(tmp_path / "venv") in where
    assert "fit" in run(binaries / "pbdn", "--help", folder=tmp_path)


# Each missing extra is named; the demo ends with a report.


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("matplotlib.pyplot", "plot", "from pbdn.plots.base import axes; axes()"),
        ("matplotlib.figure", "report", "from pbdn.plots.svg import page_svg; page_svg(None, '', '')"),
        ("jinja2", "report", "from pbdn.report.html import render_html; render_html(None)"),
        ("xarray", "posterior", "from pbdn.inspection.datatree import to_datatree; to_datatree(None)"),
        ("pandas", "frames", "from pbdn.inspection.subtypes import as_frame; as_frame({'a': [1]})"),
        ("pyarrow", "arrow", "from pbdn.tables import parse_table; parse_table(b'PAR1....PAR1', 'x')"),
        (
            "pyarrow",
            "arrow",
            "import io; from pbdn.tables.table_file import TableWriter; TableWriter(io.BytesIO(), 'x.parquet')",
        ),
    ],
)
def test_missing_extras_are_named(monkeypatch, module, extra, use):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"{PACKAGES[extra]}.*the extra '{extra}'") as said:
        exec(use, {})
    assert "pbdn[" not in str(said.value)  # which is not where pip looks


def test_import_needs_no_extra_and_loads_nothing_heavy():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"click", "matplotlib", "jinja2", "xarray", "pyarrow", "pandas", "onnx", "torch"}:
            raise ImportError(f"{name} is absent")
sys.meta_path.insert(0, Absent())
import pbdn, pbdn.plots, pbdn.report.data, pbdn.tables, pbdn.inspection.datatree
import pbdn.estimators.classifier, pbdn.experimental, pbdn.export, pbdn.inspection.quality
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_demo_prints_a_table_and_the_path(tmp_path):
    pytest.importorskip("jinja2")
    from pbdn.cli.demo import run_demo

    said = []
    result = run_demo(
        tmp_path / "a" / "r.html",
        rows=120,
        say=said.append,
        verbose=0,
        gibbs_config=GibbsConfig(n_sweeps=20),
        max_depth=1,
        n_jobs=1,
    )
    assert (tmp_path / "a" / "r.html").stat().st_size > 10_000
    assert str(tmp_path / "a" / "r.html") in said[-1]
    assert result["models"][0]["model"] == "PBDN"
    assert all(0.0 <= line["error"] <= 1.0 for line in result["models"])
