"""``pbdn export``."""

import os
from typing import Any

import click

from pbdn.cli.common import Output, command

ENDINGS = {"onnx": ".onnx", "sql": ".sql", "c": ".h", "python": ".py"}


@click.command("export")
@click.argument("model")
@click.option("--to", "kind", required=True, type=click.Choice(list(ENDINGS)), help="What to write.")
@click.option("--output", "-o", "path", help="File; - is standard output; default: the model's name with a new ending.")
@click.option(
    "--dialect", default="generic", show_default=True,
    type=click.Choice(["sqlite", "postgresql", "duckdb", "generic"]), help="Of SQL.",
)  # fmt: skip
@click.option("--sql-table", help="Table that holds the rows, for SQL; default: data.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="Key column that the SQL passes through.")
@command
def export_command(
    output: Output,
    model: str,
    kind: str,
    path: str | None,
    dialect: str,
    sql_table: str | None,
    keep: tuple[str, ...],
) -> None:
    """Write MODEL for another engine: one self-contained file that scores rows by the recorded network.

    The file uses the single recorded draw, not the average over posterior draws that ``pbdn predict`` gives.
    SQL takes the raw columns of a table; the inputs of the others are the prepared features, listed after export.
    """
    from pbdn.cli.model import load_model

    loaded = load_model(model)
    estimator = loaded.estimator
    if kind == "onnx":
        content = estimator.to_onnx()
    elif kind == "sql":
        content = _sql(loaded, dialect, sql_table, keep)
    elif kind == "c":
        content = estimator.to_c().encode()
    else:
        content = estimator.to_python().encode()
    path = path or os.path.splitext(model)[0] + ENDINGS[kind]
    output.data_on_stdout = path == "-"
    output.write(path, content)
    names = loaded.preparation.feature_names
    if kind != "sql" and not loaded.preparation.is_plain:
        output.note(
            "The inputs are prepared features, not raw columns: " + ", ".join(names[:12]) + (" …" if names[12:] else "")
        )
    if path != "-":
        output.say(f"{kind} with {len(names)} inputs to {path} ({len(content) / 1000:.1f} kB).")
    output.result({"output": path, "bytes": len(content), "inputs": names, "classes": estimator.classes_})


def _sql(loaded: Any, dialect: Any, table: str | None, keep: tuple[str, ...]) -> bytes:
    estimator = loaded.estimator
    if not loaded.target:  # saved from Python: its features are the columns
        return bytes(estimator.to_sql(dialect, table=table, keep=keep).encode())
    from pbdn.tables.sql import to_sql_with_preparation

    classes = estimator.classes_.tolist()
    text = to_sql_with_preparation(loaded.preparation, estimator._network(), classes, dialect, table, keep)
    return text.encode()
