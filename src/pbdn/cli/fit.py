"""``pbdn fit``, and the options with which a user says what columns are."""

import contextlib
import functools
import os
import textwrap
import time
from collections.abc import Callable
from typing import Any

import click

from pbdn.cli.command import Output, command, separator_option, text_table

MOST_COLUMNS = 200  # that are listed

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


def _jobs(context: click.Context, parameter: click.Parameter, given: int | None) -> int | None:
    if given == 0:
        raise click.BadParameter("0 threads cannot work; give 1 or more, or -1 for all cores.")
    return given


@click.command("fit")
@click.argument("table")
@click.option("--target", "-t", required=True, help="Column to predict.")
@click.option("--output", "-o", "path", help="Model file; default: the table's name with .pbdn.")
@click.option("--holdout", default=0.2, show_default=True, help="Share of rows on which the model is measured.")
@click.option("--refit", is_flag=True, help="After measuring, fit again on all rows.")
@column_options
@click.option(
    "--inference", type=click.Choice(["auto", "map+gibbs", "gibbs", "map"]), default="auto", show_default=True,
    help="map+gibbs adds posterior draws to the network of map; gibbs samples every layer; auto is map.",
)  # fmt: skip
@click.option(
    "--criterion",
    type=click.Choice(["auto", "folds", "holdout", "aic_inputs", "aic", "aic_eps", "bic"]),
    default="auto",
    show_default=True,
    help="What decides the depth.",
)
@click.option("--max-depth", default=5, show_default=True, help="Most layers.")
@click.option("--max-experts", default=20, show_default=True, help="Experts per side at the start.")
@click.option("--sweeps", default=1000, show_default=True, help="Gibbs sweeps per layer, half of them burn-in.")
@click.option("--chains", default=1, show_default=True, help="Independent chains.")
@click.option("--members", type=click.IntRange(min=1), help="Networks that are averaged; 1: one network.")
@click.option(
    "--class-weight", "class_weights", multiple=True, metavar="balanced|CLASS=W",
    help="How much rows of a class count: all classes the same in sum, or W for CLASS; may be repeated.",
)  # fmt: skip
@click.option(
    "--response", type=click.Choice(["auto", "class", "number", "count", "amount", "grade", "time"]), default="auto",
    show_default=True, help="What the target is; auto takes numbers of many different values as numbers, or amounts where many are 0; else classes.",
)  # fmt: skip
@click.option(
    "--event",
    metavar="COLUMN",
    help="Of times: column that says whether the event was seen, or of which cause it was (0, 1, 2, …); no feature.",
)
@click.option(
    "--entry",
    metavar="COLUMN",
    help="Of times: column that says when a row entered the study, 0 at the start; no feature.",
)
@click.option("--grades", metavar="A,B,…", help="Of grades: all of them from the lowest to the highest.")
@click.option("--weight", "weight", metavar="COLUMN", help="Column that says how much each row counts; no feature.")
@click.option(
    "--jobs", "-j", type=int, callback=_jobs, help="Threads; -1 for all cores; default: as many as help, up to five."
)
@click.option("--time-limit", type=float, help="Seconds after which the fit stops with what it has.")
@click.option(
    "--checkpoint",
    metavar="FILE",
    help="Keep what is trained here; the same command goes on from it. Removed at the end.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Same seed, same model.")
@separator_option
@click.option("--report", "report_path", help="Also write an HTML report here.")
@command
def fit_command(
    output: Output,
    table: str,
    target: str,
    path: str | None,
    report_path: str | None,
    separator: str | None,
    holdout: float,
    refit: bool,
    columns: Any,
    seed: int,
    sweeps: int,
    chains: int,
    members: int | None,
    class_weights: tuple[str, ...],
    weight: str | None,
    event: str | None,
    entry: str | None,
    checkpoint: str | None,
    jobs: int | None,
    **options: Any,
) -> None:
    """Fit a model on TABLE (CSV, Parquet, Arrow; - is standard input) and save it."""
    from pbdn.cli.responses import quality_words, shapes_in_words, what_is_predicted
    from pbdn.cli.table_model import fit_table, refit_checkpoint, refuse_model_of_another_table
    from pbdn.config import GibbsConfig
    from pbdn.tables import read_table

    if path is None:
        path = _model_path(table)
        refuse_model_of_another_table(path, table)
    output.data_on_stdout = path == "-"
    kept = (None, None) if checkpoint is None else (checkpoint, refit_checkpoint(checkpoint))
    output.check_places(path, report_path, *kept, reads=(table,))
    output.if_interrupted = _if_interrupted(path, None)
    beside = [name for name in (weight, event, entry) if name is not None]
    began, said = time.perf_counter(), list[str]()

    def read() -> Any:
        nonlocal began
        data = read_table(table, separator, [target, *columns.read_as_text, *beside])
        began = time.perf_counter()
        said.extend(data.notes)
        return data

    try:
        model = fit_table(
            read, target, holdout=holdout, seed=seed, refit=refit, options=columns, source=os.path.basename(table),
            class_weights=class_weights, weight=weight, event=event, entry=entry,
            gibbs_config=GibbsConfig(n_sweeps=sweeps, n_chains=chains), n_jobs=jobs, verbose=output.progress,
            members=members, checkpoint=checkpoint, keep_rows=report_path is not None, **options,
        )  # fmt: skip
    except KeyboardInterrupt:
        output.if_interrupted = _if_interrupted(path, checkpoint)
        raise
    seconds = time.perf_counter() - began
    page = None
    if report_path is not None:
        from pbdn.cli.report import report_bytes

        rows = model.held_out or model.all_rows
        source = os.path.basename(table) + (", held-out rows" if model.held_out else "")
        page = report_bytes(model, rows, source, model.trained)
    content = model.to_bytes()
    files = {path: content}
    if report_path is not None and page is not None:
        files[report_path] = page
    output.write_all(files)
    for place in kept:
        if place is not None:
            with contextlib.suppress(FileNotFoundError):
                os.remove(place)
    estimator = model.estimator
    for note in said + model.notes:
        output.note(note)
    decided = [[p.name, textwrap.shorten(p.words, 120, placeholder=" …"), p.instead] for p in model.preparation.columns]
    output.say(text_table(["column", "what became of it", "to change it"], decided[:MOST_COLUMNS]))
    if len(decided) > MOST_COLUMNS:
        output.say(f"… and {len(decided) - MOST_COLUMNS} more; --json lists all of them.")
    output.say()
    output.say("; ".join([what_is_predicted(estimator, short=True), *shapes_in_words(estimator)]) + ".")
    if model.validation is not None:
        output.say("\n  ".join(quality_words(model.validation)))
    where = "standard output" if path == "-" else path
    output.say(f"Saved to {where} ({len(content) / 1000:.1f} kB) after {seconds:.1f} s.")
    if report_path is not None:
        output.say(f"Report: {report_path}")
    output.result(
        {
            "model": path,
            "bytes": len(content),
            "seconds": seconds,
            "target": target,
            "response": estimator._predicts,
            "classes": estimator.classes_ if estimator._has_classes else None,
            "depth": estimator.depth_,
            "experts": estimator.n_experts_,
            "criterion_path": estimator.criterion_path_,
            "columns": [
                {"name": p.name, "kind": p.kind, "decision": p.words, "notes": p.notes, "to_change": p.instead}
                for p in model.preparation.columns
            ],
            "features": model.preparation.feature_names,
            "validation": model.validation,
            "notes": said + model.notes,
            "report": report_path,
        }
    )


def _if_interrupted(path: str, checkpoint: str | None) -> str:
    """What is said after Ctrl-C: what became of the model's file, and how to go on."""
    kept = "no model was written" if path == "-" or not os.path.exists(path) else f"{path} is as it was"
    if checkpoint is None:
        return f"Interrupted; {kept}. With --checkpoint FILE a fit can go on after an interruption."
    if not os.path.exists(checkpoint):
        return f"Interrupted before there was anything to keep in {checkpoint}; {kept}."
    return f"Interrupted; {kept}. What was trained is in {checkpoint}: give the same command to go on."


def _model_path(table: str) -> str:
    if table == "-":
        return "model.pbdn"
    stem = table.removesuffix(".gz")
    return os.path.splitext(stem)[0] + ".pbdn"
