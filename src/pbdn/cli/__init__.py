"""The command line: parses arguments and calls public functions."""

import sys


def main() -> None:
    """Entry point of ``pbdn``."""
    try:
        import click  # noqa: F401
    except ImportError:
        sys.stderr.write("The command line needs click: pip install 'pbdn[cli]'.\n")
        sys.exit(2)
    try:
        from pbdn.cli.app import run

        run()
    except KeyboardInterrupt:  # before or after a command, which has a sentence of its own
        sys.exit(130)
