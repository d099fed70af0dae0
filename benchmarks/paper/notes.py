"""The words of the page that are not numbers."""

HEAD = """# The paper's tables and figures, and ours

Zhou, "Parsimonious Bayesian deep networks" (NeurIPS 2018). This page is written by `python -m benchmarks.paper render` from the records under
`benchmarks/results/paper` (one JSON file per fit, with seed, settings, versions and machine). `python -m benchmarks.paper all` makes the
records that are missing; `make paper-quick` makes a reduced set and page under `out/paper-quick`.

Every cell: the paper's mean ± s.d. over splits, then ours, then the difference (ours less the paper's) in the paper's standard
deviations, bold where that is more than one. "(3 of 10)": so many of the wanted splits were run."""

QUICK_WARNING = """

> **Quick profile**: two splits (one of the large sets), short chains and coarse searches for the slow rivals, the slowest columns left out.
> The numbers below show that everything runs; they are no measurement."""

AS_PUBLISHED = (
    "PBDNs run as the published code runs them (its sampler or script, priors, starting widths and recorded sample)."
)
CODE_FORMULA = "The published Gibbs code's formula: all weights divided by the number of inputs of the last layer."

TABLE1 = ""
TABLE2 = ""
TABLE3 = ""
TABLE5 = ""
FIGURE1 = ""
DIFFERENCES = ""
