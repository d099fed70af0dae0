"""
A criterion and a response of your own
======================================

A criterion is a function. A response is what each row says about a Poisson process on log-time. Neither needs a change in the library.
"""

import matplotlib.pyplot as plt
import numpy as np

from pbdn import PBDNClassifier
from pbdn.datasets import make_xor
from pbdn.gibbs.chain import ChainSettings, run_chain
from pbdn.gibbs.rows import EXACT, NOTHING, make_rows
from pbdn.model.criteria import count_inputs
from pbdn.model.likelihood import softplus

# %%
# A criterion
# -----------
# It gets the layers kept so far and the newest one, the log-likelihood of the newest, and the number of rows; growth stops when its
# value does not fall. It replaces the default, by which rows kept back decide. Here is one between AIC and BIC.


def hannan_quinn(layers, log_likelihood, n_rows):
    """Hannan and Quinn's criterion: 2 ln ln n for every coefficient."""
    return 2 * np.log(np.log(n_rows)) * count_inputs(layers) - 2 * log_likelihood


data = make_xor(400, seed=0)
for criterion in ("aic_inputs", hannan_quinn, "bic"):
    model = PBDNClassifier(criterion=criterion, random_state=0).fit(data.X, data.y)
    path = [round(step["criterion"]) for step in model.criterion_path_]
    print(f"{getattr(criterion, '__name__', criterion)}: values {path}, depth {model.depth_}")

# %%
# A response
# ----------
# The sampler sees rows of five kinds: nothing happened before log-time o_i, something did, the first event fell into an interval, an
# event at exactly that time, or a count of events. A label is "something before 0" or "nothing before 0". Survival times are rows too: an event at
# ln t, or nothing before ln t where a row is censored. The model of the time is
#
#     P(T > t | x) = exp(-Σ_k r_k ln(1 + t e^{x'β_k})).

rng = np.random.default_rng(0)
x = rng.uniform(-2, 2, (500, 1))
centre = 2.0 - 3.0 * np.abs(x[:, 0])  # those at both ends die first
times = np.exp(centre + rng.logistic(size=500))
censored = times > 5.0
watched = np.minimum(times, 5.0)

rows = make_rows(x, ~censored, offset=np.log(watched), kind=np.where(censored, NOTHING, EXACT))
chain = run_chain(rows, ChainSettings(n_sweeps=2000, n_burn_in=1000, n_draws=50), seed=0)
print(f"{censored.mean():.0%} censored; {chain.side.n_experts} experts")


def survival(draws, x, t):
    """P(T > t | x), averaged over posterior draws."""
    inputs = np.array([1.0, x])
    rates = [side.expert_weights * softplus(side.hyperplanes @ inputs + np.log(t)[:, None]) for side in draws]
    return np.mean([np.exp(-rate.sum(axis=1)) for rate in rates], axis=0)


t = np.geomspace(0.01, 50, 100)
_, ax = plt.subplots(layout="constrained")
for value, colour in ((0.0, "C0"), (1.5, "C1")):
    ax.plot(t, survival(chain.draws, value, t), color=colour, label=f"x = {value}")
    truth = 1 / (1 + t / np.exp(2.0 - 3.0 * abs(value)))
    ax.plot(t, truth, "--", color=colour, label=f"x = {value}, truth")
ax.axvline(5.0, color="gray", linewidth=0.8, label="censored from here on")
ax.set(xlabel="time t", ylabel="P(T > t)", xscale="log")
ax.legend()

# %%
# One side encloses those that live long. A second side, on -ln t, would enclose the others, and layers stack as before. A response worth
# keeping needs a joint-distribution test (``tests/joint.py``): draw parameters and data from the prior, alternate a sweep with new
# data, and compare the moments of both.
