"""The pages keep up with the code: every public name, every command, every extra has its place."""

import importlib
import pathlib
import re
import tomllib

import pytest

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
HELPERS |= {"network_from_arrays", "network_to_arrays", "pack_strings", "unpack_strings"}  # of the file format


def listed():
    """Dotted names that the reference lists."""
    found = set()
    for block in re.findall(r"```\{eval-rst\}(.*?)```", API, re.DOTALL):
        module = re.search(r"currentmodule:: (\S+)", block).group(1)
        found |= {f"{module}.{name}" for name in re.findall(r"^   ([\w.]+)$", block, re.MULTILINE)}
    return found


@pytest.mark.parametrize("module", ["pbdn", "plots", "report", "export", "datasets", "tables", "files"])
def test_every_public_name_is_in_the_reference(module):
    module = module if module == "pbdn" else f"pbdn.{module}"
    public = {f"{module}.{name}" for name in importlib.import_module(module).__all__ if name not in HELPERS}
    assert public <= listed()


def test_every_listed_name_exists():
    for name in listed():
        module, attribute = name.rsplit(".", 1)
        assert hasattr(importlib.import_module(module), attribute), name


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
