"""``pbdn report``."""

import os
from typing import Any

import click

from pbdn.cli.command import Output, command, separator_option


@click.command("report")
@click.argument("model")
@click.argument("table")
@click.option(
    "--output", "-o", "path", default="report.html", show_default=True, help="HTML file; - is standard output."
)
@click.option("--card", help="Also write a model card in Markdown here.")
@separator_option
@command
def report_command(output: Output, model: str, table: str, path: str, card: str | None, separator: str | None) -> None:
    """Write one offline HTML page about MODEL on the rows of TABLE (best: rows it was not fitted on)."""
    from pbdn.cli.table_model import load_model
    from pbdn.report.card import render_card
    from pbdn.report.html import render_html
    from pbdn.tables import read_table

    output.data_on_stdout = path == "-"
    output.check_places(path, card, reads=(model, table))
    loaded = load_model(model)
    data = read_table(table, separator, loaded.needs_text)
    data, more = loaded.measurable(data)
    found = _collected(loaded, data, os.path.basename(table))
    page = render_html(found).encode()
    for note in data.notes + more:
        output.note(note)
    files = {path: page}
    if card is not None:
        files[card] = render_card(found).encode()
    output.write_all(files)
    if path != "-":
        output.say(f"Report: {path} ({len(page) / 1000:.0f} kB)")
    if card is not None:
        output.say(f"Model card: {card}")
    output.result({"report": path, "bytes": len(page), "card": card})


def report_bytes(model: Any, data: Any, source: str, training: Any = None) -> bytes:
    """The HTML report of a table model; with the table it was fitted on, rivals are compared."""
    from pbdn.report.html import render_html

    return render_html(_collected(model, data, source, training)).encode()


def _labels(model: Any, data: Any) -> Any:
    """The targets of a table in which all rows have one; None otherwise."""
    found = model.labels(data)
    return None if found is None or not found[1].all() else found[0]


def _collected(model: Any, data: Any, source: str, training: Any = None) -> Any:
    from pbdn.report.data import collect

    features, _ = model.features(data)
    columns = [(plan.name, plan.words, getattr(plan, "notes", ())) for plan in model.preparation.columns]
    fitted = None if training is None else (model.features(training)[0], _labels(model, training))
    return collect(
        model.estimator,
        features,
        _labels(model, data),
        source=source,
        target=model.target,
        columns=columns,
        validation=model.validation,
        notes=model.notes,
        training=fitted,
    )
