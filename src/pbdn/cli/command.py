"""What every command shares: its options for output, errors in one sentence, exit codes; what it prints and writes."""

import contextlib
import ctypes
import functools
import io
import json
import math
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NoReturn, cast

import click

# nothing that takes long is imported here: shells ask for completions at every press of a key

USER_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 1, 130
M_MMAP_THRESHOLD = -3  # the number that malloc.h gives it
LARGE_ARRAY = 1 << 22  # bytes
SPOOLED = 1 << 26  # bytes for standard output that wait in memory, more on the disk

separator_option = click.option("--separator", help="Of a CSV file; found out if not given.")


class StandardOutputError(OSError):
    """What was to go to standard output did not get there, or not all of it."""


class Output:
    """Words go to standard output, or to standard error where the former is taken by data."""

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        """Say everything to people, or one object to a machine."""
        self.as_json, self.quiet, self.data_on_stdout = as_json, quiet, False
        self.if_interrupted = "Interrupted; nothing was written."

    @property
    def progress(self) -> int:
        """Whether to show progress: for people, a bar at a terminal and lines in a log."""
        return int(not self.quiet and not self.as_json)

    def say(self, text: str = "") -> None:
        """A line for people."""
        if not self.quiet and not self.as_json:
            self._print(text)

    def show(self, text: str = "") -> None:
        """A line of what was asked for, which quiet does not silence."""
        if not self.as_json:
            self._print(text)

    def note(self, text: str) -> None:
        """A remark for people, on standard error."""
        if not self.quiet:
            click.echo(f"note: {one_line(text)}", err=True)

    def result(self, value: dict[str, Any]) -> None:
        """The one JSON object of ``--json``."""
        if self.as_json:
            self._print(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))

    def write(self, path: str, data: bytes) -> None:
        """A whole file or nothing; ``-`` is standard output."""
        self.write_all({path: data})

    def write_all(self, files: dict[str, bytes]) -> None:
        """All files or none of them, then what goes to standard output."""
        from pbdn.files import atomic_write_all

        atomic_write_all({path: data for path, data in files.items() if path != "-"})
        if "-" in files:
            print_whole(files["-"], nl=False)

    @contextlib.contextmanager
    def stream(self, path: str) -> Iterator[BinaryIO]:
        """A stream for a whole file or nothing; ``-`` is standard output."""
        if path != "-":
            from pbdn.files import atomic_stream

            with atomic_stream(path) as stream:
                yield stream
            return
        with tempfile.SpooledTemporaryFile(SPOOLED) as kept:
            yield cast(BinaryIO, kept)
            kept.seek(0)
            while block := kept.read(1 << 20):
                print_whole(block, nl=False)

    def _print(self, text: str) -> None:
        if self.data_on_stdout:
            click.echo(text, err=True)
        else:
            print_whole(text)

    def check_places(self, *paths: str | None, reads: tuple[str, ...] = ()) -> None:
        """Refuse, before long work, what could not be written after it, or would be written over what the command ``reads``."""
        from pbdn.errors import InvalidInputError

        taken = {os.path.realpath(path): "this command reads it" for path in reads if path != "-"}
        for path in paths:
            folder = os.path.dirname(path or "") or "."
            if path is None or path == "-":
                continue
            real = os.path.realpath(path)
            if real in taken and (os.path.isfile(path) or not os.path.exists(path)):
                raise InvalidInputError(f"Cannot write {path!r}: {taken[real]}; give another file.")
            taken[real] = "another output of this command goes there"
            if not os.path.isdir(folder):
                raise InvalidInputError(f"Cannot write {path!r}: there is no folder {folder!r}; make it first.")
            if os.path.isdir(path):
                raise InvalidInputError(f"Cannot write {path!r}: it is a folder; give a file name in it.")
            if not os.access(path if os.path.exists(path) else folder, os.W_OK):
                raise InvalidInputError(f"Cannot write {path!r}: you may not; give another place.")


def print_whole(text: str | bytes, nl: bool = True) -> None:
    """Print to standard output; what does not get there is an error of its own."""
    try:
        click.echo(text, nl=nl)
    except BrokenPipeError:  # the reader has had enough
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StandardOutputError(
            error.errno, f"Cannot write to standard output: {reason}. What is there is not complete."
        ) from error


def give_memory_back() -> None:
    """Let the C library give the memory of large arrays back when they are let go.

    By itself glibc raises this limit to 32 MB as a program runs. Smaller arrays then leave holes between those that stay,
    which a fit does not fill again.
    """
    with contextlib.suppress(OSError, TypeError, AttributeError):  # other libraries do not have it
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_ARRAY)


def buffer_stdout() -> None:
    """Put a buffer before a standard output that has none (``PYTHONUNBUFFERED``).

    Python's text stream does not look whether all bytes of a write were taken, a buffer does.
    """
    stream = sys.stdout
    raw = getattr(stream, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True
        )


def abandon_stdout() -> None:
    """Let what is left in the buffer of standard output go nowhere, so that Python ends without a second error."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    """Columns below each other, numbers to the right; each row is one line, whatever its cells hold."""
    cells = [[one_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(header))]
    numeric = [all(_numeric(row[j]) for row in cells[1:]) for j in range(len(header))]
    lines = []
    for row in cells:
        padded = [c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def one_line(text: str) -> str:
    """The text with ends of lines, tabs and other control characters written as escapes."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def counted(n: int, noun: str) -> str:
    """A number and its noun: 1 row, 2 rows, 1 class, 2 classes."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}es" if noun.endswith("s") else f"{n} {noun}s"


def _numeric(text: str) -> bool:
    return not text or text.strip("-+.%0123456789 e") == ""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--json``, ``--quiet`` and ``--debug``; turn errors into one sentence and an exit code.

    2: something the user can mend (a wrong option, a bad file, a full disk); 1: our fault; 130: interrupted.
    """

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    @click.option("--quiet", "-q", is_flag=True, help="Say nothing but results and errors.")
    @click.option("--debug", is_flag=True, help="Show where an error comes from.")
    @functools.wraps(function)
    def wrapped(as_json: bool, quiet: bool, debug: bool, **arguments: Any) -> None:
        output = Output(as_json, quiet)
        try:
            function(output, **arguments)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            _stop(output.if_interrupted, INTERRUPTED, as_json)
        except BrokenPipeError:
            abandon_stdout()
            sys.exit(INTERNAL_ERROR)
        except StandardOutputError as error:
            abandon_stdout()
            _stop(sentence(error), USER_ERROR, as_json=False)
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
    try:
        if as_json:
            print_whole(json.dumps({"error": message}, ensure_ascii=False))
            sys.exit(code)
    except StandardOutputError:
        abandon_stdout()
    click.echo(f"pbdn: {message}", err=True)
    sys.exit(code)
