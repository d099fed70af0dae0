"""``pbdn predict``."""

from typing import Any

import click

from pbdn.cli.command import Output, command, counted, separator_option


@click.command("predict")
@click.argument("model")
@click.argument("table")
@click.option(
    "--output", "-o", "path", default="-", show_default=True, help="CSV, .parquet or .arrow file; - is standard output."
)
@click.option("--level", default=0.95, show_default=True, help="Of the intervals of probabilities.")
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
    """Predict the rows of TABLE (- is standard input): labels, probabilities, intervals after sampling."""
    import numpy as np

    from pbdn.cli.number_model import number_columns, predicts_numbers
    from pbdn.cli.table_model import load_model, quality_of
    from pbdn.tables import column, read_table
    from pbdn.tables.table_file import table_bytes

    output.data_on_stdout = path == "-"
    loaded = load_model(model)
    data = read_table(table, separator)
    features, notes = loaded.features(data)
    estimator = loaded.estimator
    columns: dict[str, Any] = {name: _cells(column(data, name)) for name in keep}
    numbers = predicts_numbers(estimator)
    if numbers:
        columns |= number_columns(estimator, features, level)
    else:
        probability = estimator.predict_proba(features)
        columns["label"] = estimator.classes_[np.argmax(probability, axis=1)]
        has_intervals = estimator.network_ is not None and estimator.network_.has_intervals
        ends = estimator.predict_proba_interval(features, level) if has_intervals else None
        for c, label in enumerate(estimator.classes_.tolist()):
            columns[f"probability {label}"] = probability[:, c]
            if ends is not None:
                columns[f"lower {label}"], columns[f"upper {label}"] = ends[:, c, 0], ends[:, c, 1]
    output.write(path, table_bytes(columns, path))
    for note in data.notes + notes:
        output.note(note)
    labels = loaded.labels(data)
    quality = None if labels is None else quality_of(estimator, features, labels)
    if not numbers and ends is None:
        output.note("No intervals: the model is one network without posterior draws (fit with --inference map+gibbs).")
    if path != "-":
        output.say(f"{counted(data.n_rows, 'row')} to {path}.")
        if quality is not None:
            error = f"{quality['rmse']:.4g}" if numbers else f"{quality['error']['value']:.1%}"
            output.say(f"The table has {loaded.target!r}: error {error}.")
    output.result(
        {
            "rows": data.n_rows,
            "output": path,
            "columns": list(columns),
            "notes": data.notes + notes,
            "quality": quality,
        }
    )


def _cells(values: Any) -> Any:
    """A column as text where it is not numbers."""
    import numpy as np

    return values if values.dtype.kind == "f" else np.array(["" if v is None else str(v) for v in values], dtype=object)
