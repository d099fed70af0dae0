"""The command line: parses arguments and calls public functions."""

import sys


def main() -> None:
    """Entry point of ``pbdn``."""
    try:
        import click  # noqa: F401
    except ImportError:
        from pbdn.errors import MissingExtraError

        sys.stderr.write(f"{MissingExtraError('The command line needs click', 'cli')}\n")
        sys.exit(2)
    try:
        from pbdn.cli.app import run

        run()
    except KeyboardInterrupt:  # before or after a command, which has a sentence of its own
        sys.exit(130)
