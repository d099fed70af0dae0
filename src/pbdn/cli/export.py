"""``pbdn export``."""

import os

import click

from pbdn.cli.command import Output, command, counted

ENDINGS = {"onnx": ".onnx", "sql": ".sql", "c": ".h", "python": ".py"}


@click.command("export")
@click.argument("model")
@click.option("--to", "kind", required=True, type=click.Choice(list(ENDINGS)), help="What to write.")
@click.option("--output", "-o", "path", help="File; - is standard output; default: the model's name with a new ending.")
@click.option(
    "--dialect", type=click.Choice(["sqlite", "postgresql", "duckdb", "generic"]),
    help="Of SQL; default: generic, which knows no dates and times.",
)  # fmt: skip
@click.option("--sql-table", help="Table that holds the rows, for SQL; default: data.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="Key column that the SQL passes through.")
@click.option("--quantile", "quantiles", multiple=True, type=float, metavar="Q",
              help="Of numbers: quantile in ONNX or SQL, default 0.05, 0.5 and 0.95; may be repeated.")  # fmt: skip
@click.option("--above", multiple=True, type=float, metavar="Y",
              help="Of numbers: also the probability of more than Y (of causes, that of each up to Y), in ONNX or SQL; may be repeated.")  # fmt: skip
@command
def export_command(
    output: Output,
    model: str,
    kind: str,
    path: str | None,
    dialect: str | None,
    sql_table: str | None,
    keep: tuple[str, ...],
    quantiles: tuple[float, ...],
    above: tuple[float, ...],
) -> None:
    """Write MODEL for another engine: one self-contained file that scores rows as pbdn predict does.

    It takes the columns of a table as they stand; ONNX takes dates as days since 1970. Of numbers, counts, amounts and times it
    gives the mean, quantiles and the probability of more than a value. A model of Gibbs sampling that predicts by many posterior
    draws is written with one of them.
    """
    from pbdn.cli.table_model import load_model
    from pbdn.errors import InvalidInputError

    if kind != "sql" and (dialect or sql_table or keep):
        raise InvalidInputError(f"--dialect, --sql-table and --keep are for --to sql; leave them out with --to {kind}.")
    path = path or os.path.splitext(model)[0] + ENDINGS[kind]
    output.check_places(path, reads=(model,))
    loaded = load_model(model)
    estimator = loaded.estimator
    if estimator._has_classes and (quantiles or above):
        raise InvalidInputError("--quantile and --above are for numbers and times, but the model predicts classes.")
    asked = ({"quantiles": quantiles} if quantiles else {}) | ({"above": above} if above else {})
    if asked and kind in ("c", "python"):
        raise InvalidInputError(f"--quantile and --above: the functions of {kind} take any; leave them out.")
    if kind == "onnx":
        content = estimator.to_onnx(**asked)
    elif kind == "sql":
        content = estimator.to_sql(dialect or "generic", table=sql_table, keep=keep, **asked).encode()
    elif kind == "c":
        content = estimator.to_c().encode()
    else:
        content = estimator.to_python().encode()
    output.data_on_stdout = path == "-"
    output.write(path, content)
    dates = [plan.name for plan in loaded.preparation.used if plan.kind == "date"]
    if kind == "onnx" and dates:
        output.note(f"ONNX does not read dates: give {', '.join(map(repr, dates))} as days since 1970-01-01.")
    classes = estimator.classes_ if estimator._has_classes else None
    inputs = [plan.name for plan in loaded.preparation.used]
    if path != "-":
        output.say(f"{kind} with {counted(len(inputs), 'input')} to {path} ({len(content) / 1000:.1f} kB).")
    output.result(
        {"output": path, "bytes": len(content), "inputs": inputs, "classes": classes, "response": estimator._predicts}
    )
