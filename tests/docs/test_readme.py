"""README.md says what the records say, and its code runs."""

import pathlib
import re

import pytest
from benchmarks.readme import PICTURE, README, with_table

from fitted import quietly, xor_rows

TEXT = README.read_text(encoding="utf-8")


def test_the_table_is_that_of_the_records():
    assert with_table(TEXT) == TEXT, "run: python -m benchmarks.readme"


def test_a_changed_figure_is_noticed():
    first = re.search(r"\| \*\*pbdn \(default\)\*\* \| (\d+\.\d)", TEXT).group(1)
    wrong = TEXT.replace(first, "0.1", 1)
    assert with_table(wrong) == TEXT


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
