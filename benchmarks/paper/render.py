"""Write the page: tables, pictures, what agrees, what does not and why."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import paper_values as paper
from benchmarks.paper import figures, notes, tables
from benchmarks.paper.fits import PAGE, PAIRS, RESULTS
from benchmarks.paper.tables import Comparison, Records
from benchmarks.paper_values import DATASETS, METHODS


def render(target: str, profile: str, results: Path | None = None, page: Path | None = None) -> str:
    """Markdown of one table, or the path of the pictures or of the page that was written."""
    records = tables.read(RESULTS[profile] if results is None else results)
    page = PAGE[profile] if page is None else page
    if target in ("all", "render"):
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text_of_page(records, profile, page), encoding="utf-8")
        return str(page)
    return SECTIONS[target](records, profile, page)


def text_of_page(records: Records, profile: str, page: Path) -> str:
    """The whole page."""
    quick = "" if profile == "full" else notes.QUICK_WARNING
    parts = [notes.HEAD + quick, summary(records, profile)]
    parts += [section(records, profile, page) for section in SECTIONS.values()]
    parts += [more(records, profile), notes.DIFFERENCES if profile == "full" else "", costs(records)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def summary(records: Records, profile: str) -> str:
    """How many cells agree, and which do not."""
    cells = tables.error_cells(records, profile=profile)
    lines = ["## In short", ""]
    for name, group in (("rivals", METHODS[:8]), ("PBDN", METHODS[8:])):
        done = [cell for cell in cells if cell.method in group and cell.gap is not None]
        worse, better = tables.beyond(done), [c for c in done if c.gap is not None and c.gap < -tables.ALARM]
        of = sum(cell.method in group for cell in cells)
        text = f"- Test errors, {name}: {len(done)} of {of} cells run; {len(done) - len(worse) - len(better)} within one of the paper's s.d."
        text += _named(", more than one s.d. better", better) + _named(", more than one s.d. worse", worse)
        lines.append(text + ".")
    for method in ("default_gibbs", "default_sgd", "aic_gibbs", "aic_eps_gibbs", "aic_sgd", "aic_eps_sgd"):
        mine = tables.comparisons(records, lambda *_: None, [method], "error", profile=profile)
        sets = [cell.data for cell in mine if cell.ours and ("svm", cell.data) in records]
        if sets:
            ours = np.mean(tables.normalised_ratios(mine, records, method, "error"))
            against = np.mean([cell.mean / paper.ERROR[cell.data]["svm"][0] for cell in mine if cell.data in sets])
            text = (
                f"- {tables.NAMES[method]}: mean error relative to our SVM {ours:.3f}, to the paper's SVM {against:.3f}"
            )
            if method in METHODS:
                theirs = np.mean([paper.ERROR[data][method][0] / paper.ERROR[data]["svm"][0] for data in sets])
                text += f" (the paper's column on these sets: {theirs:.3f})"
            lines.append(f"{text}, {len(sets)} sets.")
    return "\n".join(lines)


def _named(words: str, cells: Sequence[Comparison]) -> str:
    if not cells:
        return ""
    names = ", ".join(f"{tables.NAMES[c.method]} on {c.data.replace('_', ' ')} ({c.gap:+.1f})" for c in cells)
    return f"{words}: {len(cells)} ({names})"


def table1(records: Records, profile: str, page: Path) -> str:
    """MNIST pairs."""
    text = (
        "## Table 1: pairs of digits\n\nTest error in percent, five trials on every tenth row (published script).\n\n"
    )
    text += tables.grid(tables.mnist_cells(records, profile), PAIRS) + "\n\n" + tables.mnist_sizes(records)
    return text + _picture(figures.subtypes(records, images(page)), "Subtypes of the digits", page) + notes.TABLE1


def table2(records: Records, profile: str, page: Path) -> str:
    """Errors."""
    cells = tables.error_cells(records, profile=profile)
    cells += tables.comparisons(records, lambda *_: None, ("default_gibbs", "default_sgd"), "error", profile=profile)
    last = tables.normalised(cells, records, paper.NORMALISED_ERROR, "error")
    parts = ["## Table 2: test error in percent", tables.grid(cells, DATASETS, last=last), notes.TABLE2]
    methods = tables.published_methods(records)
    if methods:
        cells = tables.error_cells(records, methods, profile=profile, published=True)
        last = tables.normalised(cells, records, paper.NORMALISED_ERROR, "error")
        parts += [notes.AS_PUBLISHED, tables.grid(cells, DATASETS, last=last)]
    starts = tables.start_table(records)
    parts += [notes.STARTS, starts] if starts else []
    return "\n\n".join([*parts, tables.refold_sentence(records), tables.wider_grid_sentence(records)])


def table3(records: Records, profile: str, page: Path) -> str:
    """Depths."""
    parts = ["## Table 3: inferred depth", tables.grid(tables.depth_cells(records, profile=profile), DATASETS)]
    methods = [method for method in tables.published_methods(records) if method in paper.DEPTH]
    if methods:
        cells = tables.depth_cells(records, methods, profile=profile, published=True)
        parts += [notes.AS_PUBLISHED, tables.grid(cells, DATASETS)]
    return "\n\n".join([*parts, notes.TABLE3])


def table5(records: Records, profile: str, page: Path) -> str:
    """Complexity by both formulas."""
    parts = ["## Table 5: equivalent number of support vectors or hyperplanes"]
    published = tables.published_methods(records)
    for words, what, methods, as_published in (
        ("The paper's formula: all weights divided by V + 1.", "complexity", METHODS, False),
        (notes.CODE_FORMULA, "complexity_code", tables.GIBBS_METHODS, False),
        (notes.AS_PUBLISHED + " The published code's formulas:", "complexity_code", published, True),
    ):
        if methods:
            sgd_as_stated = [
                cell
                for method in methods
                for cell in tables.complexity_cells(
                    records,
                    "complexity" if method in tables.SGD_METHODS else what,
                    [method],
                    profile=profile,
                    published=as_published,
                )
            ]
            last = tables.normalised(sgd_as_stated, records, paper.NORMALISED_COMPLEXITY, "complexity")
            parts += [words, tables.grid(sgd_as_stated, DATASETS, last=last)]
    return "\n\n".join([*parts, notes.TABLE5])


def figure1(records: Records, profile: str, page: Path) -> str:
    """Two spirals."""
    text = "## Figure 1: two spirals\n\n"
    found = records.get(("figure1", "two_spirals"))
    if not found:
        return text + "not run"
    record = found[0]
    chosen = record["chosen"]
    lines = [
        "| pairs | units (blue + red as ones) | paper's units | test error %, point | posterior | AIC | AIC-ε |",
        "|" + "---|" * 7,
    ]
    for t, entry in enumerate(record["depths"], 1):
        units = " + ".join(map(str, entry["n_experts"]))
        lines.append(
            f"| {t} | {units} | {paper.TWO_SPIRALS_WIDTHS[t - 1]} | {entry['point']['error']:.2f} | "
            f"{entry['posterior']['error']:.2f} | {entry['criteria']['aic']:.0f} | {entry['criteria']['aic_eps']:.0f} |"
        )
    text += "\n".join(lines)
    text += f"\n\nDepth by AIC: {chosen['aic']}, by AIC-ε: {chosen['aic_eps']}, by the library's default rule: {chosen['aic_inputs']}"
    text += f" (paper: {paper.TWO_SPIRALS_DEPTH} by both of its rules).\n"
    for depth, path in figures.figure1(records, images(page)).items():
        text += _picture(path, f"Two spirals, {depth} pair{'s' if depth > 1 else ''}", page)
    return text + notes.FIGURE1


def weights(records: Records, profile: str, page: Path) -> str:
    """Sorted weights."""
    text = "## Sorted weights of the experts, one to four layers\n\n"
    path = figures.weights(records, images(page))
    words = (
        "First split, the most recently added pair; red: class 1 as ones, blue: class 0 as ones.\n"
        if path
        else "not run"
    )
    return text + words + _picture(path, "Sorted weights", page)


def more(records: Records, profile: str) -> str:
    """Experiments of the paper's text, and today's methods."""
    parts = [
        "## Further experiments of the text",
        "CPMs stacked as iSHM pairs are, test error in percent:",
        tables.stacked_table(records, profile),
        notes.STACKED,
        "DNNs with the widths a PBDN inferred, mean error divided by the SVM's:",
        tables.architecture_table(records, profile),
        "## What one would use today\n\nTest error in percent, mean ± s.d. over splits; no tuning.",
        tables.modern_table(records, profile),
    ]
    return "\n\n".join(parts)


def costs(records: Records) -> str:
    """CPU time of one fit."""
    lines = [
        "## CPU seconds of one fit, tuning and prediction included",
        "",
        "| column | " + " | ".join(d.replace("_", " ") for d in DATASETS) + " |",
    ]
    lines.append("|" + "---|" * (1 + len(DATASETS)))
    for column in dict.fromkeys(column for column, data in records if data in DATASETS):
        cells = []
        for data in DATASETS:
            found = [record["cpu_seconds"] for record in records.get((column, data), [])]
            cells.append(f"{np.median(found):.1f}" if found else "")
        lines.append(f"| {column} | " + " | ".join(cells) + " |")
    machines = {(r["machine"]["cpu"], r["machine"]["cores"]) for found in records.values() for r in found}
    lines += [
        "",
        "Machine: "
        + "; ".join(f"{cpu}, {cores} cores" for cpu, cores in sorted(machines))
        + ", shared with other work.",
    ]
    return "\n".join(lines)


def images(page: Path) -> Path:
    """Folder of the pictures of a page."""
    return page.parent / "images" / "reproduction"


def _picture(path: Path | None, words: str, page: Path) -> str:
    if path is None:
        return ""
    return f"\n\n![{words}]({Path(os.path.relpath(path, page.parent)).as_posix()})\n\n"


SECTIONS = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table5": table5,
    "figure1": figure1,
    "weights": weights,
}
