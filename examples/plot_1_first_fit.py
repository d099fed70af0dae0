"""
A first fit
===========

Two interleaved spirals, the default settings, and what a fitted model can tell.
"""

from pbdn import PBDNClassifier
from pbdn.datasets import make_two_spirals
from pbdn.plots import CriterionPathDisplay, DecisionMapDisplay, NetworkDiagramDisplay

X_train, y_train, X_test, y_test = make_two_spirals(1200, seed=0).split(0)
model = PBDNClassifier(random_state=0).fit(X_train, y_train)

print(f"test error {1 - model.score(X_test, y_test):.1%}")
print(f"depth {model.depth_}, experts per layer and side {model.n_experts_}")

# %%
# The model chose its width and depth. Every side of a layer starts with 20 experts, and those that no row needs are dropped. Layers are
# added until the criterion does not fall any more.

CriterionPathDisplay.from_estimator(model)

# %%
# The decision map, with the hyperplanes of the first layer. They are straight; the bends come from the layers above.

DecisionMapDisplay.from_estimator(model, X_test, y_test)

# %%
# The whole network: features, experts, classes, and the strong connections.

NetworkDiagramDisplay.from_estimator(model, X_test)

# %%
# Probabilities are averages over posterior draws, and the draws give intervals.

low, high = model.predict_proba_interval(X_test[:4])[:, 1].T
for p, a, b, y in zip(model.predict_proba(X_test[:4])[:, 1], low, high, y_test[:4], strict=True):
    print(f"P(class 1) = {p:.3f}, 95 % interval {a:.3f} to {b:.3f}; the class is {y}")
