"""What commands print and write: words for people, one JSON object for machines, whole files or none."""

import json
import math
import os
import sys
from typing import Any

import click

# nothing that takes long is imported here: shells ask for completions at every press of a key


class Output:
    """Words go to standard output, or to standard error where the former is taken by data."""

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        """Say everything to people, or one object to a machine."""
        self.as_json, self.quiet, self.data_on_stdout = as_json, quiet, False

    @property
    def progress(self) -> int:
        """Whether to draw progress bars: for people at a terminal."""
        return int(not self.quiet and not self.as_json and sys.stderr.isatty())

    def say(self, text: str = "") -> None:
        """A line for people."""
        if not self.quiet and not self.as_json:
            click.echo(text, err=self.data_on_stdout)

    def note(self, text: str) -> None:
        """A remark for people, on standard error."""
        if not self.quiet:
            click.echo(f"note: {text}", err=True)

    def result(self, value: dict[str, Any]) -> None:
        """The one JSON object of ``--json``."""
        if self.as_json:
            click.echo(json.dumps(plain(value), ensure_ascii=False, allow_nan=False), err=self.data_on_stdout)

    def write(self, path: str, data: bytes) -> None:
        """A whole file or nothing; ``-`` is standard output."""
        self.write_all({path: data})

    def write_all(self, files: dict[str, bytes]) -> None:
        """All files or none of them, then what goes to standard output."""
        from pbdn.files import atomic_write_all

        atomic_write_all({path: data for path, data in files.items() if path != "-"})
        if "-" in files:
            click.echo(files["-"], nl=False)

    def check_places(self, *paths: str | None) -> None:
        """Refuse, before long work, what could not be written after it."""
        from pbdn.errors import InvalidInputError

        for path in paths:
            folder = os.path.dirname(path or "") or "."
            if path is None or path == "-":
                continue
            if not os.path.isdir(folder):
                raise InvalidInputError(f"Cannot write {path!r}: there is no folder {folder!r}; make it first.")
            if os.path.isdir(path):
                raise InvalidInputError(f"Cannot write {path!r}: it is a folder; give a file name in it.")
            if not os.access(path if os.path.exists(path) else folder, os.W_OK):
                raise InvalidInputError(f"Cannot write {path!r}: you may not; give another place.")


def plain(value: Any) -> Any:
    """Values that JSON knows; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def text_table(header: list[str], rows: list[list[str]]) -> str:
    """Columns below each other, numbers to the right."""
    rows = [[" ".join(cell.splitlines()) for cell in row] for row in rows]
    cells = [header, *rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(header))]
    numeric = [all(_numeric(row[j]) for row in rows) for j in range(len(header))]
    lines = []
    for row in cells:
        padded = [c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _numeric(text: str) -> bool:
    return not text or text.strip("-+.%0123456789 e") == ""
