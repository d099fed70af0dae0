"""Write the pages: tables, pictures, what agrees, what does not and why."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import paper_values as paper
from benchmarks.data_and_methods import PAIRS
from benchmarks.paper import cells, figures, tables
from benchmarks.paper.cells import DEFAULTS, Comparison, Records
from benchmarks.paper.fits import DOCS, ROOT
from benchmarks.paper_values import DATASETS, METHODS

PICTURES = "images/reproduction"
"""Folder of the pictures, below that of the pages."""

# The words of the pages that are not numbers.

HEAD = """# The paper's tables and figures, and ours

This page sets the tables and figures of M. Zhou, "Parsimonious Bayesian deep networks" (NeurIPS 2018), beside our own.
`python -m benchmarks.paper render` writes it from the records in `benchmarks/results`. `python -m benchmarks.paper all` makes the
records that are missing. `make paper-quick` makes a reduced set under `out/paper-quick`.

A cell has three lines: the paper's mean ± s.d. over splits, ours, and the difference (ours less the paper's) in the paper's
standard deviations. A difference of more than one is bold. "(3 of 10)" says that so many of the wanted splits were run.
Every cell of ours has one seed per split, as in the paper. Most of these records were made before commits were recorded.

Further tables are in the [appendix](reproduction_tables.md)."""

APPENDIX_HEAD = """# The paper's tables and ours: appendix

These are the longer tables of [the reproduction](reproduction.md), which says how to read a cell.
`python -m benchmarks.paper render` writes this page too."""

QUICK_WARNING = """

> **Quick profile**: two splits (one of the large sets), short chains and coarse searches for the slow rivals. The slowest columns are left
> out. The numbers below show that everything runs. They are no measurement."""

AS_PUBLISHED = (
    "PBDNs run as the published code runs them (its sampler or script, priors, starting widths and recorded sample)."
)
CODE_FORMULA = "The published Gibbs code's formula: all weights divided by the number of inputs of the last layer."

TABLE1 = """The paper speaks of at most six active units in one trial. The pictures are means of the training digits, weighted by the vote of each
unit of the first layer (first trial, library's MAP). Each shows a digit of the class that the unit votes for."""

TABLE2 = """PBDN1, 2, 4 and the columns chosen by a criterion are parts of one growth per split. They predict with the recorded sample, as
the paper does. The two last rows are what the estimators do by default, networks of folds averaged into one, and the same with one network.

Some protocols are shorter than the paper's. The RVM's widths are searched from coarse to fine, on at most 600 rows. The CPM takes a
tenth of the stochastic steps, with the penalty that belongs to the full number. On ijcnn1 and a9a the SVM's grid is searched from coarse
to fine on 2500 rows. The paper does not say how the CPM's two sides decide together; the rule used here was settled after looking at test
errors on banana."""

STARTS = """The next table shows where the chains start, and what predicts: error at the depth of AIC over all inputs. "prior" has 2000 sweeps
started at the prior, "MAP" 1000 sweeps started at a MAP fit. "point" is the recorded sample, "posterior" the average over the top layer's
draws, "paths" the average over five runs from bottom to top, each with a MAP start of its own. The posterior has several modes that
a chain does not leave. One run finds one of them; five runs average over them."""

TABLE5 = """The two formulas agree for one layer. For deeper networks on few features the published code's is several times smaller. The Gibbs
columns of the paper follow it. Its SGD columns follow the stated formula, so the two halves of that table are on different scales. With
the library's default priors a single layer keeps more experts than the paper's on the sets with few rows, many of them with small
weights."""

FIGURE1 = """Panels as in the paper: (a) weights of the active experts. (b) and (e) how many inequalities of Theorem 1 (p₀ = 1/2) a point violates; the
white-edged marks are the data subtypes. (c) and (f) the probability by each side alone. (d) log-likelihood per training point along the
chain of the newest pair."""

DIFFERENCES = """## What differs between the paper and its code, and what follows

- **Complexity of the Gibbs columns**: [table 5](reproduction_tables.md) has both formulas.
- **MAP**: as printed, the objective shrinks coefficients by a Student-t penalty. In the published script that factor is an integer division
  that gives zero, and the density of r rather than of ln r is maximised. The printed objective collapses on banana (below table 2).
  The library's MAP follows the script in both points. The script run as published gives the paper's SGD depths almost to the digit.
- **Starting widths**: the script starts with round(10 log10 N) experts per side, and a random draw decides what is pruned. The library starts
  with 20 and prunes by the exact probability of being inactive.
- **Recorded sample**: the code takes the highest likelihood of all sweeps from the hundredth on, burn-in included. The library looks after
  burn-in, as the text says.
- **PBDN4, and PBDN2 on a9a**: worse than printed with the library's priors (wide single layers, stacked deeper than any criterion asks for),
  within one s.d. when run as published.
- **Sampler and priors**: the paper's sampler updates in an order that leaves the posterior only approximately invariant, and mixes slowly. The
  library's samplers are exact and mix. With them the paper's priors ask for few, steep hyperplanes; hence other default priors
  ([decisions](decisions.md)) and wider single layers.
- **AIC** of the text does not charge the skip weights of deeper layers. The library's criterion "aic_inputs" does.
- **Digits**: the script trains on every tenth row of the stacked training and test digits. Table 1 follows it.
- **DNN**: 2000 full-batch steps in the main table and 4000 mini-batches of 100 in table 1, as in the published scripts."""

STACKED = """The paper found that stacked CPMs get worse with every layer. Ours neither gain nor lose. Every layer here is tuned anew by
cross-validation and sees the units of the two layers below (for the first two, the features among them). The paper does not say whether
its upper layers were tuned again or kept the skip links."""


def render(target: str, profile: str) -> str:
    """Markdown of one table or figure; for "all" and "render", the page that was written with its appendix and pictures."""
    records = cells.read(ROOT[profile])
    if target not in ("all", "render"):
        return SECTIONS[target](records, profile)
    return str(write(records, profile, DOCS[profile]))


def write(records: Records, profile: str, folder: Path) -> Path:
    """Write pages and pictures; returns the first page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts(records, profile).items():
        (folder / name).write_text(text, encoding="utf-8")
    figures.draw(records, folder / PICTURES)
    return folder / "reproduction.md"


def pages() -> dict[Path, str]:
    """The committed pages and what they should say."""
    return {DOCS["full"] / name: text for name, text in texts(cells.read(ROOT["full"]), "full").items()}


def texts(records: Records, profile: str) -> dict[str, str]:
    """The page and its appendix, by file name."""
    quick = "" if profile == "full" else QUICK_WARNING
    page = [HEAD + quick, summary(records, profile)]
    page += [section(records, profile) for section in SECTIONS.values() if section is not table5]
    page += [more(records, profile), DIFFERENCES if profile == "full" else ""]
    appendix = [APPENDIX_HEAD + quick, "## Table 1: sizes of the networks", tables.mnist_sizes(records)]
    appendix += [published(records, profile), table5(records, profile), costs(records)]
    joined = {"reproduction.md": page, "reproduction_tables.md": appendix}
    return {name: "\n\n".join(part.strip() for part in parts if part.strip()) + "\n" for name, parts in joined.items()}


def summary(records: Records, profile: str) -> str:
    """How many cells agree, and which do not."""
    every = tables.error_cells(records, profile=profile)
    lines = ["## In short", ""]
    for name, group in (("rivals", METHODS[:8]), ("PBDN", METHODS[8:])):
        done = [cell for cell in every if cell.method in group and cell.gap is not None]
        worse, better = cells.beyond(done), [c for c in done if c.gap is not None and c.gap < -cells.ALARM]
        of = sum(cell.method in group for cell in every)
        text = f"- Test errors, {name}: {len(done)} of {of} cells run; {len(done) - len(worse) - len(better)} within one of the paper's s.d."
        text += _named(", more than one s.d. better", better) + _named(", more than one s.d. worse", worse)
        lines.append(text + ".")
    for method in ("default", "single", "aic_gibbs", "aic_eps_gibbs", "aic_sgd", "aic_eps_sgd"):
        mine = cells.comparisons(records, lambda *_: None, [method], "error", profile=profile)
        sets = [cell.data for cell in mine if cell.ours and ("svm", cell.data) in records]
        if sets:
            ours = np.mean(cells.normalised_ratios(mine, records, method, "error"))
            against = np.mean([cell.mean / paper.ERROR[cell.data]["svm"][0] for cell in mine if cell.data in sets])
            text = (
                f"- {cells.NAMES[method]}: mean error relative to our SVM {ours:.3f}, to the paper's SVM {against:.3f}"
            )
            if method in METHODS:
                theirs = np.mean([paper.ERROR[data][method][0] / paper.ERROR[data]["svm"][0] for data in sets])
                text += f" (the paper's column on these sets: {theirs:.3f})"
            lines.append(f"{text}, {len(sets)} sets.")
    return "\n".join(lines)


def _named(words: str, found: Sequence[Comparison]) -> str:
    if not found:
        return ""
    names = ", ".join(f"{cells.NAMES[c.method]} on {c.data.replace('_', ' ')} ({c.gap:+.1f})" for c in found)
    return f"{words}: {len(found)} ({names})"


def table1(records: Records, profile: str) -> str:
    """MNIST pairs."""
    parts = [
        "## Table 1: pairs of digits",
        "Test error in percent, five trials on every tenth row (published script).",
        cells.grid(tables.mnist_cells(records, profile), PAIRS),
        picture("subtypes.png", "Subtypes of the digits") if figures.has_subtypes(records) else "",
        TABLE1,
    ]
    return "\n\n".join(part for part in parts if part)


def table2(records: Records, profile: str) -> str:
    """Errors."""
    parts = ["## Table 2: test error in percent"]
    rows = tables.error_cells(records, profile=profile)
    rows += cells.comparisons(records, lambda *_: None, tuple(DEFAULTS), "error", profile=profile)
    last = cells.normalised(rows, records, paper.NORMALISED_ERROR, "error")
    parts += [cells.grid(rows, DATASETS, last=last), TABLE2]
    starts = tables.start_table(records)
    parts += [STARTS, starts] if starts else []
    parts += [tables.refold_sentence(records), tables.wider_grid_sentence(records), tables.printed_sentence(records)]
    return "\n\n".join(part for part in parts if part)


def table3(records: Records, profile: str) -> str:
    """Depths."""
    return "## Table 3: inferred depth\n\n" + cells.grid(tables.depth_cells(records, profile=profile), DATASETS)


def published(records: Records, profile: str) -> str:
    """Tables 2 and 3 of PBDNs run as the published code runs them."""
    methods = tables.published_methods(records)
    if not methods:
        return ""
    rows = tables.error_cells(records, methods, profile=profile, published=True)
    last = cells.normalised(rows, records, paper.NORMALISED_ERROR, "error")
    with_depth = [method for method in methods if method in paper.DEPTH]
    depths = tables.depth_cells(records, with_depth, profile=profile, published=True)
    parts = [
        "## Tables 2 and 3 as published",
        AS_PUBLISHED,
        "Test error in percent:",
        cells.grid(rows, DATASETS, last=last),
        "Inferred depth:",
        cells.grid(depths, DATASETS),
    ]
    return "\n\n".join(parts)


def table5(records: Records, profile: str) -> str:
    """Complexity by both formulas."""
    parts = ["## Table 5: equivalent number of support vectors or hyperplanes"]
    as_published = tables.published_methods(records)
    for words, what, methods, is_published in (
        ("The paper's formula: all weights divided by V + 1.", "complexity", METHODS, False),
        (CODE_FORMULA, "complexity_code", cells.GIBBS_METHODS, False),
        (AS_PUBLISHED + " The published code's formulas:", "complexity_code", as_published, True),
    ):
        if methods:
            sgd_as_stated = [
                cell
                for method in methods
                for cell in tables.complexity_cells(
                    records,
                    "complexity" if method in cells.SGD_METHODS else what,
                    [method],
                    profile=profile,
                    published=is_published,
                )
            ]
            last = cells.normalised(sgd_as_stated, records, paper.NORMALISED_COMPLEXITY, "complexity")
            parts += [words, cells.grid(sgd_as_stated, DATASETS, last=last)]
    return "\n\n".join([*parts, TABLE5])


def figure1(records: Records, profile: str) -> str:
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
    text += f"\n\nDepth by AIC: {chosen['aic']}, by AIC-ε: {chosen['aic_eps']}, by AIC over all inputs: {chosen['aic_inputs']}"
    text += f" (paper: {paper.TWO_SPIRALS_DEPTH} by both of its rules)."
    pictures = [
        picture(f"figure1-{depth}.png", f"Two spirals, {depth} pair{'s' if depth > 1 else ''}")
        for depth in figures.spirals_depths(records)
    ]
    return "\n\n".join([text, *pictures, FIGURE1])


def weights(records: Records, profile: str) -> str:
    """Sorted weights."""
    text = "## Sorted weights of the experts, one to four layers\n\n"
    if not figures.has_weights(records):
        return text + "not run"
    words = "First split, the most recently added pair; red: class 1 as ones, blue: class 0 as ones."
    return text + words + "\n\n" + picture("weights.png", "Sorted weights")


def more(records: Records, profile: str) -> str:
    """Experiments of the paper's text, and today's methods."""
    parts = [
        "## Further experiments of the text",
        "CPMs stacked as iSHM pairs are, test error in percent:",
        tables.stacked_table(records, profile),
        STACKED,
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
    for column in dict.fromkeys(column for column, data in records if data in DATASETS and column not in DEFAULTS):
        medians = []
        for data in DATASETS:
            found = [line["cpu_seconds"] for line in records.get((column, data), [])]
            medians.append(f"{np.median(found):.1f}" if found else "")
        lines.append(f"| {column} | " + " | ".join(medians) + " |")
    every = [line for (column, _), found in records.items() if column not in DEFAULTS for line in found]
    machines = {(line["machine"]["cpu"], line["machine"]["cores"]) for line in every}
    lines += [
        "",
        "Machine: "
        + "; ".join(f"{cpu}, {cores} cores" for cpu, cores in sorted(machines))
        + ", shared with other work.",
    ]
    return "\n".join(lines)


def picture(name: str, words: str) -> str:
    """A link to a picture."""
    return f"![{words}]({PICTURES}/{name})"


SECTIONS = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table5": table5,
    "figure1": figure1,
    "weights": weights,
}
