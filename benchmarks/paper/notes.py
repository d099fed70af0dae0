"""The words of the pages that are not numbers."""

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
