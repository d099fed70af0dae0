"""``pbdn inspect``."""

import os

import click

from pbdn.cli.command import command
from pbdn.cli.output import Output, counted, text_table


@click.command("inspect")
@click.argument("model")
@command
def inspect_command(output: Output, model: str) -> None:
    """Show what is in MODEL: architecture, sizes, criterion path, columns, measured quality."""
    from pbdn.cli.table_model import load_model, quality_words
    from pbdn.inspection.access import feature_names, name_sides

    loaded = load_model(model)
    estimator = loaded.estimator
    size = os.path.getsize(model)
    output.say(f"{type(estimator).__name__} of {size / 1000:.1f} kB, inference {estimator.inference_}.")
    output.say(f"Target {loaded.target or '(not stored)'}; classes {', '.join(map(str, estimator.classes_))}.")
    output.say(
        f"{counted(len(feature_names(estimator)), 'feature')}, {counted(estimator.depth_, 'layer')}, "
        f"{counted(estimator.n_weights_, 'weight')}, "
        f"complexity {estimator.complexity_:.1f} inner products a row."
    )
    path = [
        [
            str(step["depth"]),
            " + ".join(map(str, step["n_experts"])),
            f"{step['log_likelihood']:.1f}",
            str(step["n_parameters"]),
            f"{step['criterion']:.1f}",
            "kept" if step["kept"] else "dropped",
        ]
        for step in estimator.criterion_path_
    ]
    output.say()
    output.say(text_table(["layer", "experts", "log-likelihood", "parameters", "criterion", ""], path))
    output.say()
    output.say(text_table(["column", "what became of it"], [[p.name, p.words] for p in loaded.preparation.columns]))
    if loaded.validation:
        output.say()
        output.say("\n  ".join(quality_words(loaded.validation)))
    for note in loaded.notes:
        output.note(note)
    output.result(
        {
            "estimator": type(estimator).__name__,
            "bytes": size,
            "inference": estimator.inference_,
            "target": loaded.target,
            "classes": estimator.classes_,
            "features": feature_names(estimator),
            "columns": [{"name": p.name, "kind": p.kind, "decision": p.words} for p in loaded.preparation.columns],
            "depth": estimator.depth_,
            "experts": estimator.n_experts_,
            "weights": estimator.n_weights_,
            "complexity": estimator.complexity_,
            "criterion_path": estimator.criterion_path_,
            "convergence": [
                {**one, "quantity": name_sides(estimator, one["quantity"])} for one in estimator.convergence_
            ],
            "validation": loaded.validation,
            "notes": loaded.notes,
        }
    )
