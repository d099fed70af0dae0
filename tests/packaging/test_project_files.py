"""What several files say about the project is the same everywhere: versions of Python, of dependencies, of the package."""

import pathlib
import re
import tomllib

from pbdn import __version__

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOOLS = {"test", "lint", "docs", "dev", "all"}  # extras for people who work on the project, and the sum of the others
LEFT_OUT = {"torch"}  # not installed by the job with the oldest versions: half a gigabyte for one engine


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
