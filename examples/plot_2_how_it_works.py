"""
How it works, in pictures
=========================

One side of one layer is an *infinite support hyperplane machine*,

    P(y = 1 | x) = 1 - exp(-Σ_k r_k ln(1 + e^{x'β_k})),

a committee whose members each vote "yes" on one side of a hyperplane. One vote is enough. The rows without a vote, those of the
other class, lie within a convex polytope.
"""

import matplotlib.pyplot as plt

from pbdn import ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.datasets import make_circles, make_two_spirals
from pbdn.plots import DecisionMapDisplay, ExpertWeightsDisplay, PolytopeViolationDisplay, TraceDisplay

data = make_circles(400, seed=0)
side = ISHMClassifier(inference="gibbs", random_state=0).fit(data.X, data.y)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
DecisionMapDisplay.from_estimator(side, data.X, data.y, ax=left)
PolytopeViolationDisplay.from_estimator(side, data.X, ax=right)

# %%
# Left: the outer circle is "yes", and the hyperplanes cut it off from the inner one. Right: how many of the inequalities
# x'β_k ≤ ln[(1 - p₀)^{-1/r_k} - 1] of the paper's Theorem 1 a point violates, for p₀ = 1/2. Points that violate none form the polytope;
# a row with P(yes) ≤ p₀ always lies in it.
#
# How many experts?
# -----------------
# The weights r_k have a gamma-process prior. Gibbs sampling starts with 20 experts. Those without rows get next to no weight and are
# dropped during burn-in (the shaded part).

TraceDisplay.from_estimator(side, quantity="n_active")

# %%
# It matters which class is "yes". With the labels flipped the machine has to enclose the *outer* circle in a polytope, and that cannot
# be done.

flipped = ISHMClassifier(inference="gibbs", random_state=0).fit(data.X, 1 - data.y)
print(f"outer circle is 'yes': accuracy {side.score(data.X, data.y):.3f}")
print(f"inner circle is 'yes': accuracy {flipped.score(data.X, 1 - data.y):.3f}")

# %%
# Pairs of sides, and layers
# --------------------------
# A layer therefore has a side for every class. The units ln(1 + e^{x'β_k}) of all sides are the inputs of the next layer, together with
# those of the layer before. Layers are added while they make rows that were kept back clearly likelier. The default averages three
# networks; here each map is of one, so that its lines can be told apart.

X_train, y_train, X_test, y_test = make_two_spirals(1200, seed=0).split(0)
figure, panels = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
for depth, panel in zip((1, 2, 3), panels, strict=True):
    one = MapConfig(n_members=1)
    model = PBDNClassifier(max_depth=depth, map_config=one, random_state=0).fit(X_train, y_train)
    DecisionMapDisplay.from_estimator(model, X_test, ax=panel, grid=80)
    panel.set_title(f"at most {depth} layer(s): test error {1 - model.score(X_test, y_test):.1%}")

# %%
# The weights of the experts of the last network, per layer and side.

ExpertWeightsDisplay.from_estimator(model)

# %%
# Curved experts
# --------------
# In a curved network experts see the squares of the features too. A hyperplane on [x, ((x - c)/s)²] is a quadric in the space of the
# features, so that a single expert can enclose a ball. Rows kept back decide whether the first layer is curved; here it is told. Both
# networks have one layer.

data = make_circles(400, seed=0)
figure, panels = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for curved, panel in zip((False, True), panels, strict=True):
    config = MapConfig(curved=curved, n_members=1)
    model = PBDNClassifier(max_depth=1, map_config=config, random_state=0).fit(data.X, data.y)
    DecisionMapDisplay.from_estimator(model, data.X, data.y, ax=panel)
    panel.set_title(f"{'curved' if curved else 'flat'}: {sum(model.n_experts_[0])} experts")
