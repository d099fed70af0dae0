"""``pbdn predict``: a table read, predicted and written some rows at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pbdn.cli.command import Output, command, counted, separator_option

if TYPE_CHECKING:  # nothing that takes long is imported here: see `pbdn.cli.fit`
    from pbdn.cli.table_model import TableModel
    from pbdn.numerics.arrays import FloatArray
    from pbdn.tables.table import Column
    from pbdn.tables.table_file import TableFile

# endings of files that are no CSV, and that are not written
NOT_WRITTEN = frozenset(["gz", "zip", "bz2", "xz", "zst", "xls", "xlsx", "ods", "json", "jsonl"])


@click.command("predict")
@click.argument("model")
@click.argument("table")
@click.option(
    "--output", "-o", "path", default="-", show_default=True, help="CSV, .parquet or .arrow file; - is standard output."
)
@click.option("--level", default=0.95, show_default=True, help="Of the intervals, of probabilities or numbers.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="Copy a column of TABLE; may be repeated.")
@click.option("--by", multiple=True, type=float, metavar="T",
              help="Of times: also the probability of an event by T, and of each cause; may be repeated.")  # fmt: skip
@separator_option
@command
def predict_command(
    output: Output,
    model: str,
    table: str,
    path: str,
    level: float,
    keep: tuple[str, ...],
    by: tuple[float, ...],
    separator: str | None,
) -> None:
    """Predict the rows of TABLE (- is standard input).

    Classes and grades: labels, probabilities and, where there are any, their intervals. Numbers, counts and amounts: the mean and
    an interval of the value; times: the median and an interval.
    """
    from pbdn.cli.responses import short_quality
    from pbdn.cli.table_model import load_model
    from pbdn.errors import InvalidInputError
    from pbdn.tables.table_file import open_table

    output.data_on_stdout = path == "-"
    output.check_places(path, reads=(model, table))
    ending = path.rsplit(".", 1)[-1].lower()
    if ending in NOT_WRITTEN:
        raise InvalidInputError(
            f"--output {path}: predictions are CSV, .parquet or .arrow, not .{ending}; give another name."
        )
    loaded = load_model(model)
    file = open_table(table, separator)
    with output.stream(path) as stream:
        done = predict_table(loaded, file, stream, path, level, keep, by)
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


@dataclass(frozen=True)
class Predicted:
    """What was written: rows, names of columns, what was not so in training, and the quality where the table has the target."""

    n_rows: int
    columns: list[str]
    notes: list[str]
    quality: dict[str, Any] | None
    has_intervals: bool


def predict_table(
    model: "TableModel",
    file: "TableFile",
    stream: BinaryIO,
    path: str,
    level: float,
    keep: Sequence[str],
    by: Sequence[float] = (),
) -> Predicted:
    """Write labels, probabilities and their intervals of all rows, some rows at a time; ``keep`` names columns that are copied."""
    import numpy as np

    from pbdn.cli.responses import prediction_columns, quality_of_predictions
    from pbdn.errors import InvalidInputError
    from pbdn.inspection.access import has_intervals
    from pbdn.tables import Table, column
    from pbdn.tables.table import joined_column
    from pbdn.tables.table_file import TableWriter, no_rows

    estimator, seen = model.estimator, model.preparation.nothing_seen()
    numbers = not estimator._has_classes
    if by and not numbers:
        raise InvalidInputError("--by is for times, but the model predicts classes.")
    with_intervals = has_intervals(estimator)
    writer, names = TableWriter(stream, path), [""]
    targets: dict[str, list[Column]] = {name: [] for name in model.target_columns.columns}
    predictions: list[FloatArray] = []
    n_rows = 0
    for piece in file.pieces([*model.needs_text, *keep], exact=keep):
        if piece.n_rows == 0:
            raise no_rows(file)
        features = model.features_of_piece(piece, seen)
        if numbers:
            new = prediction_columns(estimator, features, level, by)
            predicted = new["prediction"]
        else:
            predicted = estimator.predict_proba(features)
            new = _class_columns(estimator, features, predicted, level if with_intervals else None)
        taken = [name for name in keep if name in new]
        if taken:
            raise InvalidInputError(
                f"--keep {taken[0]}: the predictions have a column of this name; rename it in the table, or do not keep it."
            )
        columns = {name: piece.exact.get(name, _cells(column(piece, name))) for name in keep} | new
        writer.write(columns)
        names = list(columns)
        n_rows += piece.n_rows
        predictions.append(predicted)
        for name, cells in targets.items():
            cells += [piece.columns[name]] if name in piece.columns else []
    writer.close()
    notes = model.preparation.surprises(seen)
    quality: dict[str, Any] | None = None
    if all(targets.values()):
        found = model.labels(Table({name: joined_column(cells) for name, cells in targets.items()}, n_rows))
        if found is not None:
            labels, known, more = found
            notes += more
            if known.any():
                try:
                    quality = quality_of_predictions(estimator, np.concatenate(predictions)[known], labels)
                except InvalidInputError as error:
                    notes.append(f"Not measured: {error}")
    return Predicted(n_rows, names, notes, quality, with_intervals or estimator._predicts != "class")


def _class_columns(estimator: Any, features: Any, probability: "FloatArray", level: float | None) -> dict[str, Any]:
    """The label, and for every class its probability and, where a level is given, the ends of its interval."""
    import numpy as np

    columns: dict[str, Any] = {"label": estimator.classes_[np.argmax(probability, axis=1)]}
    ends = None if level is None else estimator.predict_proba_interval(features, level)
    for c, label in enumerate(estimator.classes_.tolist()):
        columns[f"probability {label}"] = probability[:, c]
        if ends is not None:
            columns[f"lower {label}"], columns[f"upper {label}"] = ends[:, c, 0], ends[:, c, 1]
    return columns


def _cells(values: "Column") -> "Column":
    """A column as text where it is not numbers."""
    import numpy as np

    return values if values.dtype.kind == "f" else np.array(["" if v is None else str(v) for v in values], dtype=object)
