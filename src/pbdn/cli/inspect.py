"""``pbdn inspect`` and ``pbdn explain``: what a model has learned, and why it predicts what it predicts."""

import os
from typing import Any

import click

from pbdn.cli.command import Output, command, counted, separator_option, text_table


@click.command("inspect")
@click.argument("model")
@command
def inspect_command(output: Output, model: str) -> None:
    """Show what is in MODEL: architecture, sizes, criterion path, columns, measured quality."""
    from pbdn.cli.responses import quality_words, what_is_predicted
    from pbdn.cli.table_model import load_model
    from pbdn.inspection.access import feature_names, name_sides, parts_of, titled

    loaded = load_model(model)
    estimator = loaded.estimator
    size = os.path.getsize(model)
    output.show(f"{type(estimator).__name__} of {size / 1000:.1f} kB, inference {estimator.inference_}.")
    classes = estimator.classes_ if estimator._has_classes else None
    output.show(f"Target {loaded.target or '(not stored)'}; {what_is_predicted(estimator)}.")
    output.show(
        f"{counted(len(feature_names(estimator)), 'feature')}, {counted(estimator.depth_, 'layer')}, "
        f"{counted(estimator.n_weights_, 'weight')}, "
        f"complexity {estimator.complexity_:.1f} inner products a row."
    )
    parts = parts_of(estimator)
    path = [
        [
            titled(name, str(step["depth"])),
            " + ".join(map(str, step["n_experts"])),
            f"{step['log_likelihood']:.1f}",
            str(step["n_parameters"]),
            f"{step['criterion']:.1f}",
            "kept" if step["kept"] else "dropped",
        ]
        for name, part in parts
        for step in part.criterion_path_
    ]
    output.show()
    output.show(text_table(["layer", "experts", "log-likelihood", "parameters", "criterion", ""], path))
    output.show()
    output.show(text_table(["column", "what became of it"], [[p.name, p.words] for p in loaded.preparation.columns]))
    if loaded.validation:
        output.show()
        output.show("\n  ".join(quality_words(loaded.validation)))
    for note in loaded.notes:
        output.note(note)
    output.result(
        {
            "estimator": type(estimator).__name__,
            "bytes": size,
            "inference": estimator.inference_,
            "target": loaded.target,
            "response": estimator._predicts,
            "classes": classes,
            "features": feature_names(estimator),
            "columns": [{"name": p.name, "kind": p.kind, "decision": p.words} for p in loaded.preparation.columns],
            "depth": estimator.depth_,
            "experts": [layer for _, part in parts for layer in part.n_experts_],
            "weights": estimator.n_weights_,
            "complexity": estimator.complexity_,
            "criterion_path": [step for _, part in parts for step in part.criterion_path_],
            "convergence": [
                {**one, "quantity": titled(name, name_sides(part, one["quantity"]))}
                for name, part in parts
                for one in part.convergence_
            ],
            "validation": loaded.validation,
            "notes": loaded.notes,
        }
    )


@click.command("explain")
@click.argument("model")
@click.argument("table")
@click.option("--row", "rows", multiple=True, type=int, help="Explain this row (from 1); may be repeated.")
@separator_option
@command
def explain_command(output: Output, model: str, table: str, rows: tuple[int, ...], separator: str | None) -> None:
    """Say what MODEL learned, on the rows of TABLE (- is standard input), or why a row is what it is."""
    import numpy as np

    from pbdn.cli.table_model import load_model
    from pbdn.errors import InvalidInputError
    from pbdn.inspection.access import feature_names
    from pbdn.inspection.columns import date_features
    from pbdn.inspection.effects import feature_effects
    from pbdn.inspection.rules import explain_row, subtype_rules
    from pbdn.tables import read_table

    loaded = load_model(model)
    data = read_table(table, separator, loaded.needs_text)
    features, notes = loaded.features(data)
    wrong = [row for row in rows if not 1 <= row <= data.n_rows]
    if wrong:
        raise InvalidInputError(f"--row {wrong[0]} is outside the table, which has rows 1 to {data.n_rows}.")
    for note in data.notes + notes:
        output.note(note)
    values = np.asarray(features)
    if rows:
        found, names = [], feature_names(loaded.estimator)
        dates = {names[feature] for feature in date_features(loaded.estimator)}
        for row in rows:
            found.append({"row": row, **explain_row(loaded.estimator, values[row - 1], values)})
            _show_row(output, found[-1], dates)
        output.result({"rows": found})
        return
    effects = feature_effects(loaded.estimator, values)
    rules = subtype_rules(loaded.estimator, values)
    output.show("Features by how far predictions move when their values are shuffled:")
    if loaded.estimator._predicts == "class":
        shown = [[e["feature"], f"{e['moved']:.3f}", f"{e['flips']:.1%}"] for e in effects[:15]]
        output.show(text_table(["feature", "probability moves", "labels flip"], shown))
    else:
        shown = [[e["feature"], f"{e['moved']:.4g}", f"{e['share']:.1%}"] for e in effects[:15]]
        moved = "mean moves" if loaded.estimator._predicts == "amount" else "median moves"
        output.show(text_table(["feature", moved, "share"], shown))
    output.show()
    no_moves = loaded.estimator._predicts in ("class", "grade")
    output.show(
        "What each expert votes for:" if no_moves else "What each expert votes for, and how far it moves medians:"
    )
    lines = [
        [
            str(r["layer"]),
            str(r["side"]),
            str(r["expert"]),
            f"{r['weight']:.3g}",
            f"{r['share']:.0%}",
            *([] if no_moves else ["" if r["moves"] is None else f"{r['moves']:+.3g}"]),
            r["rule"],
        ]
        for r in rules
    ]
    moves = [] if no_moves else ["moves medians"]
    output.show(text_table(["layer", "for", "expert", "weight", "votes", *moves, "rows like"], lines))
    output.result({"features": effects, "subtypes": rules})


def _show_row(output: Output, found: dict[str, Any], dates: set[str]) -> None:
    from pbdn.inspection.columns import date_text

    def written(feature: str, value: float) -> str:
        return date_text(value) if feature in dates else f"{value:.4g}"

    numbers = "prediction" in found
    if numbers:
        output.show(
            f"Row {found['row']}: {found['prediction']:.4g}, with 90 % between {found['low']:.4g} and {found['high']:.4g}."
        )
    else:
        output.show(f"Row {found['row']}: {found['label']} with probability {found['probability']:.3f}.")
    votes = ", ".join(f"expert {v['expert']} for {v['side']} ({v['vote']:.2f})" for v in found["votes"][:4])
    output.show(f"  Strongest votes: {votes}.")
    style, noise = ("{:+.4g}", 1e-9 * abs(found["prediction"])) if numbers else ("{:+.3f}", 0.0)
    lines = [
        [
            f["feature"],
            *(written(f["feature"], f[key]) for key in ("value", "usual")),
            style.format(f["change"] * (abs(f["change"]) > noise)),
        ]
        for f in found["features"][:8]
    ]
    what = "prediction" if numbers else "probability"
    table = text_table(["feature", "value", "median", f"{what} against the median"], lines)
    output.show("  " + table.replace("\n", "\n  "))
