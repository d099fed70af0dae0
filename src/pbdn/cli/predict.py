"""``pbdn predict``."""

import click

from pbdn.cli.command import Output, command, counted, separator_option


@click.command("predict")
@click.argument("model")
@click.argument("table")
@click.option(
    "--output", "-o", "path", default="-", show_default=True, help="CSV, .parquet or .arrow file; - is standard output."
)
@click.option("--level", default=0.95, show_default=True, help="Of the intervals, of probabilities or numbers.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="Copy a column of TABLE; may be repeated.")
@separator_option
@command
def predict_command(
    output: Output,
    model: str,
    table: str,
    path: str,
    level: float,
    keep: tuple[str, ...],
    separator: str | None,
) -> None:
    """Predict the rows of TABLE (- is standard input).

    Classes and grades: labels, probabilities and, where there are any, their intervals. Numbers and counts: the mean and an
    interval of the value; times: the median and an interval.
    """
    from pbdn.cli.predict_table import predict_table
    from pbdn.cli.responses import short_quality
    from pbdn.cli.table_model import load_model
    from pbdn.tables.table_file import open_table

    output.data_on_stdout = path == "-"
    loaded = load_model(model)
    file = open_table(table, separator)
    with output.stream(path) as stream:
        done = predict_table(loaded, file, stream, path, level, keep)
    for note in file.notes + done.notes:
        output.note(note)
    if not done.has_intervals:
        output.note("No intervals: the model is one network without posterior draws (fit with --inference map+gibbs).")
    if path != "-":
        output.say(f"{counted(done.n_rows, 'row')} to {path}.")
        if done.quality is not None:
            output.say(f"The table has {loaded.target!r}: {short_quality(done.quality)}.")
    output.result(
        {
            "rows": done.n_rows,
            "output": path,
            "columns": done.columns,
            "notes": file.notes + done.notes,
            "quality": done.quality,
        }
    )
