"""A model card in Markdown, from the data of the report."""

import re
from typing import Any

from pbdn.inspection.access import titled
from pbdn.inspection.columns import with_article
from pbdn.report.data import ReportData
from pbdn.report.html import measures
from pbdn.report.words import convergence_words

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>&~$])")


def md(text: Any) -> str:
    """Text that cannot become Markdown or markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split())).replace("\\<", "&lt;").replace("\\>", "&gt;")


def render_card(data: ReportData) -> str:
    """The card as Markdown text."""
    facts = data.facts
    title = f"# Model card: {md(facts['target'] or facts['estimator'])}"
    lines = [title, "", *(f"- {md(sentence)}" for sentence in data.sentences), ""]
    lines += _table(
        ["", ""],
        [
            ["estimator", facts["estimator"]],
            ["library", f"pbdn {facts['version']}"],
            ["described on", f"{facts['source'] or 'rows given'}, {facts['rows']} rows"],
            ["predicts", ", ".join(map(str, facts["classes"])) or with_article(facts["predicts"])],
            ["features", len(facts["features"])],
            ["inference", f"{facts['inference']}, {facts['draws']} posterior draws"],
            ["layers", facts["depth"]],
            *(
                [titled(name, "experts per side"), "; ".join(" + ".join(map(str, layer)) for layer in experts)]
                for name, experts in facts["networks"]
            ),
            ["weights", facts["weights"]],
        ],
    )
    lines += ["## Quality", ""]
    for where, measured in measures(data):
        lines += [f"On {md(where)}:", ""]
        style = "{:.4f}" if facts["classes"] else "{:.4g}"
        rows = [
            [name, style.format(value), f"{style.format(low)} to {style.format(high)}"]
            for name, value, low, high in measured
        ]
        lines += _table(["measure", "value", "95 % interval"], rows)
    if not measures(data):
        lines += ["Not measured: no labels or values were given.", ""]
    lines += ["## Columns that matter", ""]
    effects = [
        [one["feature"], f"{one['share']:.1%}", f"{one['moved']:.4g}", f"{one['flips']:.1%}"]
        for one in data.effects[:10]
    ]
    if facts["predicts"] == "class":
        lines += _table(["column", "importance", "probability moves", "labels flip"], effects)
    else:
        moved = "mean moves" if facts["predicts"] == "amount" else "median moves"
        lines += _table(["column", "importance", moved], [line[:3] for line in effects])
    lines += ["## What each expert votes for", ""]
    rules = [
        [r["layer"], r["side"], r["expert"], f"{r['weight']:.3g}", f"{r['share']:.0%}", r["rule"]]
        for r in data.rules[:40]
    ]
    lines += _table(["layer", "for", "expert", "weight", "share", "rows like"], rules)
    lines += ["## Depth", ""]
    steps = [
        [
            titled(s["network"], s["depth"]),
            " + ".join(map(str, s["n_experts"])),
            f"{s['criterion']:.1f}",
            "kept" if s["kept"] else "dropped",
        ]
        for s in data.path
    ]
    lines += _table(["layer", "experts", "criterion", ""], steps)
    if data.convergence:
        lines += ["## Convergence", "", md(convergence_words(data.convergence)), ""]
    if data.columns:
        lines += ["## Columns", "", *_table(["column", "decision"], [list(one[:2]) for one in data.columns])]
    alerts = [f"- {md(one.name)}: {md(text)}" for one in data.profile for text in one.alerts]
    if alerts:
        lines += ["## Check these columns", "", *alerts, ""]
    lines += [
        "## Limits",
        "",
        "Effects of features tell what the network uses, not what causes what. Intervals of measures hold for rows like those",
        "measured on. Posterior intervals treat the lower layers as fixed.",
        "",
    ]
    if data.notes:
        lines += ["## Notes of the fit", "", *(f"- {md(note)}" for note in data.notes), ""]
    return "\n".join(lines)


def _table(header: list[str], rows: list[list[Any]]) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return [*lines, *("| " + " | ".join(md(cell) for cell in row) + " |" for row in rows), ""]
