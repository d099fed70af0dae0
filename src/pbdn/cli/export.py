"""``pbdn export``."""

import os
from typing import Any

import click

from pbdn.cli.command import command
from pbdn.cli.output import Output, counted

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

    The file uses the single recorded draw, not the average over posterior draws that ``pbdn predict`` gives. SQL and Python
    take the raw columns of a table; the inputs of C and ONNX are prepared features, and the file says how each is made.
    """
    from pbdn.cli.table_model import load_model

    loaded = load_model(model)
    estimator = loaded.estimator
    raw = loaded.preparation.is_plain
    remarks = [] if raw else [f"x[{j}]: {text}" for j, text in enumerate(loaded.preparation.recipes)]
    if kind == "onnx":
        content = estimator.to_onnx(remarks=remarks)
    elif kind == "sql":
        content = _sql(loaded, dialect, sql_table, keep)
    elif kind == "c":
        content = estimator.to_c(remarks=remarks).encode()
    else:
        content = _python(loaded).encode()
    path = path or os.path.splitext(model)[0] + ENDINGS[kind]
    output.data_on_stdout = path == "-"
    output.write(path, content)
    names = loaded.preparation.feature_names
    if kind in ("c", "onnx") and remarks:
        where = "its first comment" if kind == "c" else "its metadata 'preparation'"
        output.note(f"The inputs are prepared features, not raw columns; {where} tells how each is made.")
    used = [plan.name for plan in loaded.preparation.columns if plan.kind != "dropped"]
    inputs = names if kind in ("c", "onnx") else used
    if path != "-":
        output.say(f"{kind} with {counted(len(inputs), 'input')} to {path} ({len(content) / 1000:.1f} kB).")
    output.result({"output": path, "bytes": len(content), "inputs": inputs, "classes": estimator.classes_})


def _sql(loaded: Any, dialect: Any, table: str | None, keep: tuple[str, ...]) -> bytes:
    estimator = loaded.estimator
    if not loaded.target:  # saved from Python: its features are the columns
        return bytes(estimator.to_sql(dialect, table=table, keep=keep).encode())
    from pbdn.inspection.access import network_of
    from pbdn.tables.preparation_in_sql import to_sql_with_preparation

    classes = estimator.classes_.tolist()
    text = to_sql_with_preparation(loaded.preparation, network_of(estimator), classes, dialect, table, keep)
    return text.encode()


def _python(loaded: Any) -> str:
    estimator = loaded.estimator
    if loaded.preparation.is_plain:
        return str(estimator.to_python())
    from pbdn.inspection.access import network_of
    from pbdn.tables.preparation_in_python import to_python_with_preparation

    return to_python_with_preparation(loaded.preparation, network_of(estimator), estimator.classes_.tolist())
