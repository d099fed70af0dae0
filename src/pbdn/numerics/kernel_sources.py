"""One digest for a source file and for everything of this package that it imports, directly or not.

A compiled function is made of the code it calls and of the constants it uses, and these stand in its own file or in files
that its file imports. So compiled code is up to date if and only if the digest of its file is the one it was compiled at.
"""

import hashlib
import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]

_NAME = re.escape(PACKAGE.name)
_IMPORT = re.compile(
    rf"^[ \t]*(?:from[ \t]+({_NAME}[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+({_NAME}[\w.]*))", re.M
)


def imported_names(text: str) -> set[str]:
    """Dotted names, below this package, of all that a source text imports: modules and what is taken from them."""
    names = set()
    for origin, taken, module in _IMPORT.findall(text):
        names.add(origin or module)
        names.update(f"{origin}.{name}" for name in re.findall(r"\w+", taken))
    return names


@cache
def file_of(name: str, package: Path = PACKAGE) -> Path | None:
    """The source file of a module, or None where the name is not one of a module."""
    path = package.joinpath(*name.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _read(path: Path, package: Path) -> tuple[bytes, frozenset[Path]]:
    """What a file holds, and the package's files that it imports itself."""
    try:
        text = path.read_bytes()
    except OSError:  # there is none: an interactive session, or a package in an archive
        return b"", frozenset()
    found = {file_of(name, package) for name in imported_names(text.decode(errors="replace"))}
    return text, frozenset(file for file in found if file is not None)


def reached_from(path: Path, package: Path = PACKAGE) -> set[Path]:
    """A file and all of the package's files that it imports, directly or not."""
    reached, waiting = set[Path](), [path]
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting.extend(_read(file, package)[1])
    return reached


@cache
def digest(path: Path, package: Path = PACKAGE) -> str:
    """SHA-256 of a file and all that it reaches; files are read once in a process."""
    total = hashlib.sha256()
    for file in sorted(reached_from(path, package)):
        text = _read(file, package)[0]
        total.update(f"{file.name} {len(text)}\n".encode())
        total.update(text)
    return total.hexdigest()
