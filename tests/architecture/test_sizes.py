"""The listing stays readable: few modules at the root of the package, none of them long."""

import pathlib

PACKAGE = pathlib.Path(__file__).parents[2] / "src" / "pbdn"
MOST_AT_THE_ROOT = 8
MOST_LINES = 350


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
