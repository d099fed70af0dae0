"""``pbdn fit``."""

import os
import time
from typing import Any

import click

from pbdn.cli.columns import column_options
from pbdn.cli.command import command, separator_option
from pbdn.cli.output import Output, text_table


@click.command("fit")
@click.argument("table")
@click.option("--target", "-t", required=True, help="Column to predict.")
@click.option("--output", "-o", "path", help="Model file; default: the table's name with .pbdn.")
@click.option("--holdout", default=0.2, show_default=True, help="Share of rows on which the model is measured.")
@click.option("--refit", is_flag=True, help="After measuring, fit again on all rows.")
@column_options
@click.option(
    "--inference", type=click.Choice(["auto", "map+gibbs", "gibbs", "map"]), default="auto", show_default=True,
    help="Sampling (with intervals) or the fast optimum; auto: the optimum for large tables.",
)  # fmt: skip
@click.option(
    "--criterion",
    type=click.Choice(["auto", "aic", "aic_eps", "aic_inputs", "bic", "holdout"]),
    default="auto",
    show_default=True,
    help="What decides the depth.",
)
@click.option("--max-depth", default=5, show_default=True, help="Most layers.")
@click.option("--max-experts", default=20, show_default=True, help="Experts per side at the start.")
@click.option("--sweeps", default=1000, show_default=True, help="Gibbs sweeps per layer, half of them burn-in.")
@click.option("--chains", default=1, show_default=True, help="Independent chains.")
@click.option("--jobs", "-j", default=1, show_default=True, help="Threads; -1 for all cores.")
@click.option("--time-limit", type=float, help="Seconds after which the fit stops with what it has.")
@click.option("--seed", default=0, show_default=True, help="Same seed, same model.")
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
    jobs: int,
    **options: Any,
) -> None:
    """Fit a model on TABLE (CSV, Parquet, Arrow; - is standard input) and save it."""
    from pbdn.cli.table_model import fit_table, quality_words, refuse_model_of_another_table
    from pbdn.config import GibbsConfig
    from pbdn.tables import read_table

    if path is None:
        path = _model_path(table)
        refuse_model_of_another_table(path, table)
    output.data_on_stdout = path == "-"
    output.check_places(path, report_path)
    data = read_table(table, separator)
    began = time.perf_counter()
    model = fit_table(
        data, target, holdout=holdout, seed=seed, refit=refit, options=columns, source=os.path.basename(table),
        gibbs_config=GibbsConfig(n_sweeps=sweeps, n_chains=chains), n_jobs=jobs,
        verbose=output.progress, **options,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    page = None
    if report_path is not None:
        from pbdn.cli.report import report_bytes

        rows = model.held_out or data.rows(_labelled(data, target))
        source = os.path.basename(table) + (", held-out rows" if model.held_out else "")
        page = report_bytes(model, rows, source)
    content = model.to_bytes()
    files = {path: content}
    if report_path is not None and page is not None:
        files[report_path] = page
    output.write_all(files)
    estimator = model.estimator
    for note in data.notes + model.notes:
        output.note(note)
    decided = [[p.name, p.words, p.instead] for p in model.preparation.columns]
    output.say(text_table(["column", "what became of it", "to change it"], decided))
    output.say()
    shape = "; ".join(f"layer {t}: {' + '.join(map(str, k))}" for t, k in enumerate(estimator.n_experts_, 1))
    output.say(f"{len(estimator.classes_)} classes; depth {estimator.depth_}, experts per side: {shape}.")
    if model.validation is not None:
        output.say(f"On {model.validation['n_rows']} held-out rows:")
        for line in quality_words(model.validation):
            output.say("  " + line)
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
            "classes": estimator.classes_,
            "depth": estimator.depth_,
            "experts": estimator.n_experts_,
            "criterion_path": estimator.criterion_path_,
            "columns": [
                {"name": p.name, "kind": p.kind, "decision": p.words, "notes": p.notes, "to_change": p.instead}
                for p in model.preparation.columns
            ],
            "features": model.preparation.feature_names,
            "validation": model.validation,
            "notes": data.notes + model.notes,
            "report": report_path,
        }
    )


def _model_path(table: str) -> str:
    if table == "-":
        return "model.pbdn"
    stem = table.removesuffix(".gz")
    return os.path.splitext(stem)[0] + ".pbdn"


def _labelled(data: Any, target: str) -> Any:
    """Mask of the rows that have the target."""
    from pbdn.tables import labels_of

    return labels_of(data.columns[target], target)[1]
