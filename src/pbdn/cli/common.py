"""What every command shares: options, output for people or machines, errors in one sentence."""

import csv
import functools
import io
import json
import math
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import click

# nothing that takes long is imported here: shells ask for completions at every press of a key

USER_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 1, 130


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


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--json``, ``--quiet`` and ``--debug``; turn errors into one sentence and an exit code.

    2: something the user can mend (a wrong option, a bad file, a full disk); 1: our fault; 130: interrupted.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    @click.option("--quiet", "-q", is_flag=True, help="Say nothing but results and errors.")
    @click.option("--debug", is_flag=True, help="Show where an error comes from.")
    @functools.wraps(function)
    def wrapped(as_json: bool, quiet: bool, debug: bool, **arguments: Any) -> None:
        try:
            function(Output(as_json, quiet), **arguments)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            _stop("Interrupted; nothing was written.", INTERRUPTED, as_json)
        except BrokenPipeError:
            sys.stderr.close()
            sys.exit(INTERNAL_ERROR)
        except Exception as error:
            from pbdn.errors import PBDNError

            if debug:
                traceback.print_exc()
            if isinstance(error, PBDNError | OSError | MemoryError):
                _stop(sentence(error), USER_ERROR, as_json)
            _stop(f"Unexpected {type(error).__name__}: {error} (--debug shows where).", INTERNAL_ERROR, as_json)

    return wrapped


def sentence(error: BaseException) -> str:
    """The message of an error on one line."""
    if isinstance(error, MemoryError):
        return "Not enough memory; give fewer rows or a machine with more."
    text = error.strerror if isinstance(error, OSError) else None
    return " ".join(str(text or error).split())


def _stop(message: str, code: int, as_json: bool) -> NoReturn:
    if as_json:
        click.echo(json.dumps({"error": message}, ensure_ascii=False))
    else:
        click.echo(f"pbdn: {message}", err=True)
    sys.exit(code)


def text_table(header: list[str], rows: list[list[str]]) -> str:
    """Columns below each other, numbers to the right."""
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


def table_bytes(columns: dict[str, Any], path: str) -> bytes:
    """A table as CSV, or as Parquet or Arrow by the ending of its name."""
    import numpy as np

    from pbdn.errors import MissingExtraError

    ending = path.rsplit(".", 1)[-1].lower()
    if ending in ("parquet", "arrow", "feather"):
        try:
            import pyarrow as pa
            import pyarrow.feather
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError(f"Writing .{ending} needs pyarrow: pip install 'pbdn[arrow]'.") from None
        table = pa.table({name: np.asarray(values) for name, values in columns.items()})
        sink = io.BytesIO()
        if ending == "parquet":
            pa.parquet.write_table(table, sink)
        else:
            pa.feather.write_feather(table, sink, compression="uncompressed")
        return sink.getvalue()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))
    return text.getvalue().encode()
