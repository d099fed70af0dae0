"""The pages keep up with the code: every public name, every command, every extra, every figure has its place."""

import importlib
import pathlib
import re
import tomllib
import warnings

import pytest
from benchmarks.tables import PICTURE, README, with_tables

from fitted import quietly, without_tuning, xor_rows

ROOT = pathlib.Path(__file__).parents[2]
API = (ROOT / "docs" / "api.md").read_text()
HELPERS = {
    "FORMAT_VERSION",
    "MAX_HEADER",
    "OLDEST_SCHEMA",
    "SCHEMA_VERSION",
    "check_schema",
    "__version__",
    "container_bytes",
    "from_json",
    "to_json",
}
TEXT = README.read_text(encoding="utf-8")


# The pages keep up with the code: every public name, every command, every extra has its place.


HELPERS |= {"network_from_arrays", "network_to_arrays", "pack_strings", "unpack_strings"}  # of the file format


def listed():
    """Dotted names that the reference lists."""
    found = set()
    for block in re.findall(r"```\{eval-rst\}(.*?)```", API, re.DOTALL):
        module = re.search(r"currentmodule:: (\S+)", block).group(1)
        found |= {f"{module}.{name}" for name in re.findall(r"^   ([\w.]+)$", block, re.MULTILINE)}
    return found


@pytest.mark.parametrize(
    "module", ["pbdn", "plots", "report", "export", "datasets", "tables", "files", "torch", "dask"]
)
def test_every_public_name_is_in_the_reference(module):
    module = module if module == "pbdn" else f"pbdn.{module}"
    public = {f"{module}.{name}" for name in importlib.import_module(module).__all__ if name not in HELPERS}
    assert public <= listed()


def test_every_listed_name_exists():
    for name in listed():
        module, attribute = name.rsplit(".", 1)
        found = importlib.import_module(module)
        assert attribute in dir(found) or hasattr(found, attribute), name  # what needs an extra is in dir alone


def test_commands_and_extras_are_described():
    pytest.importorskip("click")
    from pbdn.cli.app import app

    page = (ROOT / "docs" / "getting_started.md").read_text()
    for command in app.commands:
        assert f"pbdn {command}" in page
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in set(extras) - {"test", "lint", "dev"}:
        assert f"| `{extra}` |" in page


def test_pages_link_to_what_exists():
    """Pictures come from the gallery's scripts and pages from the folder; nothing points nowhere."""
    docs, examples = ROOT / "docs", {path.stem for path in (ROOT / "examples").glob("plot_*.py")}
    for page in docs.glob("*.md"):
        text = page.read_text()
        for script in re.findall(r"sphx_glr_(plot_\w+?)_\d{3}\.png", text) + re.findall(r"gallery/(plot_\w+)`", text):
            assert script in examples, page
        for name in re.findall(r"\{doc\}`([a-z_]+)`", text):
            assert (docs / f"{name}.md").exists(), page


def test_the_dictionary_points_to_code_that_exists():
    """Every file that docs/notation.md names exists, and defines the name after the colon."""
    text = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    places = re.findall(r"`([a-z_]+/[a-z_]+\.py)(?:: ([A-Za-z_.]+))?`", text)
    assert len(places) > 20
    for path, name in places:
        source = ROOT / "src" / "pbdn" / path
        assert source.exists(), path
        defined = re.findall(r"^\s*(?:def|class) (\w+)", source.read_text(encoding="utf-8"), re.MULTILINE)
        assert not name or name.split(".")[-1] in defined, (path, name)


LONGEST_TABLE = 30
APPENDICES = {"decision_tables", "reproduction_tables", "api", "notation"}  # looked things up in, not read


def test_tables_of_pages_people_read_are_short():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        if page.stem not in APPENDICES:
            tables = re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert max((table.count("\n") for table in tables), default=0) <= LONGEST_TABLE + 2, page.name


# README.md says what the records say, and its code runs.


def test_the_table_is_that_of_the_records():
    assert with_tables(TEXT) == TEXT, "run: python -m benchmarks.tables"


def test_a_changed_figure_is_noticed():
    first = re.search(r"\| \*\*pbdn \(default\)\*\* \| (\d+\.\d)", TEXT).group(1)
    wrong = TEXT.replace(first, "0.1", 1)
    assert with_tables(wrong) == TEXT


def test_links_and_picture_exist():
    root = README.parent
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (root / target).exists(), target
    data = PICTURE.read_bytes()
    assert data[:4] == b"\x89PNG"
    assert len(data) < 150_000


def test_the_code_runs():
    from pbdn import MapConfig, PBDNClassifier

    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL).group(1)
    assert "PBDNClassifier()" in code
    X, y = xor_rows()

    def quick():
        return _Quiet(PBDNClassifier(map_config=MapConfig(n_minibatches=50), max_depth=1, random_state=0))

    names = {"X": X, "y": y, "X_new": X[:5], "quick": quick}
    exec(code.replace("PBDNClassifier()", "quick()"), names)
    assert names["model"].depth_ == 1


class _Quiet:
    """An estimator whose fit keeps the warnings of short training to itself."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        return quietly(self.estimator, X, y)


PAGES = sorted((README.parent / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_of_the_pages_compiles(page):
    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        compile(code, str(pathlib.Path(page.name)), "exec")


def test_the_examples_of_every_response_run():
    """With short training: what is shown is called as it is called there."""
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    from pbdn import MapConfig

    matplotlib.use("Agg")
    page = (ROOT / "docs" / "responses.md").read_text(encoding="utf-8")
    names = {"SHORT": {"map_config": MapConfig(n_minibatches=20, n_members=1), "max_depth": 1, "random_state": 0}}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        with warnings.catch_warnings(), without_tuning():
            warnings.simplefilter("ignore")
            exec(code.replace("random_state=0).fit", "**SHORT).fit").replace("max_depth=1, **SHORT", "**SHORT"), names)
    assert names["tree"]["posterior"]["n_experts"].sizes["draw"] == 20
    for head in (
        "Real numbers",
        "Survival times",
        "Times with several causes",
        "Ordered grades",
        "Counts",
        "Amounts that may be zero",
    ):
        section = page.split(f"\n## {head}\n")[1].split("\n## ")[0]
        assert "The law: **" in section
        assert "```python" in section
        assert "**When to use something else.**" in section
