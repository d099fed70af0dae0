"""What every command shares: its options for output, errors in one sentence, exit codes."""

import functools
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import click

from pbdn.cli.output import Output, StandardOutputError, abandon_stdout, print_whole

# nothing that takes long is imported here: shells ask for completions at every press of a key

USER_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 1, 130

separator_option = click.option("--separator", help="Of a CSV file; found out if not given.")


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
