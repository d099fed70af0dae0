"""Predictions of a table, read, predicted and written some rows at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pbdn.cli.table_model import TableModel
from pbdn.inspection.quality import Quality, measure
from pbdn.tables import Table, column
from pbdn.tables.table import Column, joined_column
from pbdn.tables.table_file import TableFile, TableWriter, no_rows


@dataclass(frozen=True)
class Predicted:
    """What was written: rows, names of columns, what was not so in training, and the quality where the table has the target."""

    n_rows: int
    columns: list[str]
    notes: list[str]
    quality: Quality | None
    has_intervals: bool


def predict_table(
    model: TableModel, file: TableFile, stream: BinaryIO, path: str, level: float, keep: Sequence[str]
) -> Predicted:
    """Write labels, probabilities and their intervals of all rows; ``keep`` names columns that are copied."""
    estimator, seen = model.estimator, model.preparation.nothing_seen()
    has_intervals = estimator.network_ is not None and estimator.network_.has_intervals
    writer, names = TableWriter(stream, path), [""]
    targets: list[Column] = []
    probabilities: list[NDArray[np.float64]] = []
    n_rows = 0
    for piece in file.pieces([*model.needs_text, *keep]):
        if piece.n_rows == 0:
            raise no_rows(file)
        features = model.features_of_piece(piece, seen)
        probability = estimator.predict_proba(features)
        columns: dict[str, Any] = {name: _cells(column(piece, name)) for name in keep}
        columns["label"] = estimator.classes_[np.argmax(probability, axis=1)]
        ends = estimator.predict_proba_interval(features, level) if has_intervals else None
        for c, label in enumerate(estimator.classes_.tolist()):
            columns[f"probability {label}"] = probability[:, c]
            if ends is not None:
                columns[f"lower {label}"], columns[f"upper {label}"] = ends[:, c, 0], ends[:, c, 1]
        writer.write(columns)
        names = list(columns)
        n_rows += piece.n_rows
        if model.target in piece.columns:
            targets.append(piece.columns[model.target])
            probabilities.append(probability)
    writer.close()
    notes = model.preparation.surprises(seen)
    quality = None
    if targets:
        labels = model.labels(Table({model.target: joined_column(targets)}, n_rows))
        if labels is not None:
            quality = measure(labels, np.concatenate(probabilities), estimator.classes_)
    return Predicted(n_rows, names, notes, quality, has_intervals)


def _cells(values: Column) -> Column:
    """A column as text where it is not numbers."""
    return values if values.dtype.kind == "f" else np.array(["" if v is None else str(v) for v in values], dtype=object)
