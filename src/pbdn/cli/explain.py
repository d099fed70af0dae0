"""``pbdn explain``."""

from typing import Any

import click

from pbdn.cli.command import command, separator_option
from pbdn.cli.output import Output, text_table


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
    from pbdn.inspection.effects import feature_effects
    from pbdn.inspection.one_row import explain_row
    from pbdn.inspection.rules import subtype_rules
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
        found = []
        for row in rows:
            found.append({"row": row, **explain_row(loaded.estimator, values[row - 1], values)})
            _say_row(output, found[-1])
        output.result({"rows": found})
        return
    effects = feature_effects(loaded.estimator, values)
    rules = subtype_rules(loaded.estimator, values)
    output.say("Features by how far predictions move when their values are shuffled:")
    shown = [[e["feature"], f"{e['moved']:.3f}", f"{e['flips']:.1%}"] for e in effects[:15]]
    output.say(text_table(["feature", "probability moves", "labels flip"], shown))
    output.say()
    output.say("What each expert votes for:")
    lines = [
        [
            str(r["layer"]),
            str(r["side"]),
            str(r["expert"]),
            f"{r['weight']:.3g}",
            f"{r['share']:.0%}",
            r["rule"],
        ]
        for r in rules
    ]
    output.say(text_table(["layer", "for class", "expert", "weight", "votes", "rows like"], lines))
    output.result({"features": effects, "subtypes": rules})


def _say_row(output: Output, found: dict[str, Any]) -> None:
    output.say(f"Row {found['row']}: {found['label']} with probability {found['probability']:.3f}.")
    votes = ", ".join(f"expert {v['expert']} for {v['side']} ({v['vote']:.2f})" for v in found["votes"][:4])
    output.say(f"  Strongest votes: {votes}.")
    lines = [
        [f["feature"], f"{f['value']:.4g}", f"{f['usual']:.4g}", f"{f['change']:+.3f}"] for f in found["features"][:8]
    ]
    table = text_table(["feature", "value", "median", "probability against the median"], lines)
    output.say("  " + table.replace("\n", "\n  "))
