"""The group of commands."""

import click

from pbdn._version import __version__
from pbdn.cli.command import buffer_stdout, give_memory_back
from pbdn.cli.demo import demo_command, warm_up_command
from pbdn.cli.export import export_command
from pbdn.cli.fit import fit_command
from pbdn.cli.inspect import explain_command, inspect_command
from pbdn.cli.predict import predict_command
from pbdn.cli.report import report_command

EPILOG = """Shell completion: eval "$(_PBDN_COMPLETE=bash_source pbdn)", likewise zsh_source and fish_source."""


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pbdn")
def app() -> None:
    """Classifiers that choose their own width and depth: from a table to a model and its explanation."""


for _command in (
    fit_command,
    predict_command,
    explain_command,
    report_command,
    inspect_command,
    export_command,
    demo_command,
    warm_up_command,
):
    app.add_command(_command)


def run() -> None:
    """Run the command line."""
    give_memory_back()
    buffer_stdout()
    app(prog_name="pbdn")
