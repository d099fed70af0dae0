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

TABLE1 = """The paper speaks of at most six active units in one trial. The pictures are the means of the training digits, weighted by the vote of each
unit of the first layer (first trial, library's MAP); each is a digit of the class that the unit votes for."""

TABLE2 = """PBDN1, 2, 4 and the columns chosen by a criterion are prefixes of one run per split and predict, as the paper does, with the recorded sample. The
two last rows are what the estimators do by default: AIC that charges skip weights as well, and for Gibbs the average over the draws of five paths (on ijcnn1
and a9a of one run, and chains of 500 sweeps).

Departures from the paper's protocols, for want of time on this machine: the RVM's widths are searched from coarse to fine, on at most 600 rows; the CPM takes a
tenth of the stochastic steps (with the penalty that belongs to the full number); on ijcnn1 and a9a the SVM's grid is searched from coarse to fine on 2500 rows. The paper
does not say how the CPM's two sides decide together; the rule used here was settled after looking at test errors on banana."""

STARTS = """Where the chains start, and what predicts: error at the depth of the default rule. "prior": 2000 sweeps started at the prior; "MAP": 1000 sweeps
started at a MAP fit (the default). "point" is the recorded sample, "posterior" the average over the top layer's draws, "paths" the average over five runs from bottom to top, each
with a MAP start of its own (the default). The posteriors have several modes that a chain does not leave: one run is a draw from them, five runs average over them."""

TABLE3 = ""

TABLE5 = """The two formulas agree for one layer. For deeper networks on few features the published code's is several times smaller, and it is what the Gibbs
columns of the paper show; its SGD columns follow the stated formula, so the two halves of that table are on different scales. With the library's default priors a
single layer keeps more experts alive than the paper's on the sets with few rows, many of them with small weights (see the sorted weights below)."""

FIGURE1 = """Panels as in the paper: (a) weights of the active experts, (b) and (e) how many inequalities of Theorem 1 (p₀ = 1/2) a point violates, the white-edged marks
being the data subtypes, (c) and (f) the probability by each side alone, (d) log-likelihood per training point along the chain of the newest pair."""

DIFFERENCES = """## What differs between the paper and its code, and what follows

- **Complexity of the Gibbs columns**: table 5 above, both formulas.
- **MAP**: as printed, the objective shrinks coefficients by a Student-t penalty. In the published script that factor is an integer division that gives zero, and the
  density of r rather than of ln r is maximised. The printed objective collapses on banana (`docs/decisions.md`); the library's MAP follows the script in both points. The script run as
  published gives the paper's SGD depths almost to the digit.
- **Starting widths of the script**: round(10 log10 N) experts per side instead of 20, and a random draw decides what is pruned; the library starts at 20 and
  prunes by the exact probability of being inactive.
- **Recorded sample**: the code takes the highest likelihood of all sweeps from the hundredth on, burn-in included; the library looks after burn-in, as the text says.
- **PBDN4, and PBDN2 on a9a**: worse than printed with the library's priors (wide single layers, stacked deeper than any criterion asks for), within one s.d. when run as published.
- **Sampler and priors**: the paper's sampler updates in an order that leaves the posterior only approximately invariant, and mixes slowly. The library's samplers are exact
  and mix, and with them the paper's priors ask for few, steep hyperplanes; hence other default priors (`docs/decisions.md`), and wider single layers.
- **AIC** of the text does not charge the skip weights of deeper layers; the library's default criterion does.
- **Digits**: the script trains on every tenth row of the stacked training and test digits; table 1 follows it.
- **DNN**: 2000 full-batch steps in the main table and 4000 mini-batches of 100 in table 1, as in the published scripts."""

STACKED = """The paper found that stacked CPMs get worse with every layer; ours neither gain nor lose. Every layer here is tuned anew by cross-validation and sees the units of the
two layers below (the features among them, for the first two); the paper does not say whether its upper layers were tuned again or kept the skip links."""
