"""Options with which a user says what columns are."""

import functools
from collections.abc import Callable
from typing import Any

import click

# nothing that takes long is imported here: shells ask for completions at every press of a key

HELP = {
    "categorical": "Read a column as categories.",
    "numeric": "Read a column as numbers.",
    "date": "Read a column as dates.",
    "id": "Leave out a column that only tells rows apart.",
    "drop": "Leave a column out.",
}


def column_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options on columns; the command gets them as ``columns``, a `pbdn.tables.ColumnOptions`."""

    @functools.wraps(function)
    def wrapped(formats: dict[str, str], **arguments: Any) -> None:
        from pbdn.tables import ColumnOptions

        kinds = {kind: arguments.pop(kind) for kind in HELP}
        function(columns=ColumnOptions(**kinds, formats=formats), **arguments)

    form = "Decimal mark and mark between thousands, or date format, of a column; may be repeated."
    wrapped = click.option("--format", "formats", multiple=True, metavar="COLUMN=FORMAT", callback=_formats, help=form)(
        wrapped
    )
    for kind, text in reversed(HELP.items()):
        wrapped = click.option(
            f"--{kind}", multiple=True, metavar="COLUMN", help=f"{text.removesuffix('.')}; may be repeated."
        )(wrapped)
    return wrapped


def _formats(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Column to format."""
    out = {}
    for text in given:
        name, _, style = text.rpartition("=")
        if not name or not style:
            raise click.BadParameter(
                f"{text!r} must be COLUMN=FORMAT, such as 'price=,.' (decimal comma, points between thousands) or "
                "'when=%d/%m/%Y'."
            )
        out[name] = style
    return out
