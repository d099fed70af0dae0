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
# Five networks were trained, each without a fifth of the rows. The rows that a network had not seen chose the depth: another layer
# stays only if it makes them clearly likelier. The five were then averaged into one. The display shows their deviance after each layer.

CriterionPathDisplay.from_estimator(model)

# %%
# They also chose whether the first layer is curved, how strongly coefficients are penalised, and how much noise the rows get in training.

for trial in model.trials_:
    shape = "curved" if trial["curved"] else "flat"
    print(
        f"{shape}, depth {trial['depth']}, penalty {trial['penalty']:g}, noise {trial['noise']:g}: "
        f"deviance {trial['deviance']:.1f}, {'kept' if trial['kept'] else 'dropped'}"
    )

# %%
# The decision map, with the lines of the first layer where its experts begin to vote.

DecisionMapDisplay.from_estimator(model, X_test, y_test)

# %%
# The whole network: features, experts, classes, and the strong connections.

NetworkDiagramDisplay.from_estimator(model, X_test)

# %%
# How far the five networks of the folds differ gives intervals of the probabilities. They are very wide here: 600 rows on two long arms are few, and
# a network that misses a fifth of them may go astray.

low, high = model.predict_proba_interval(X_test[:4])[:, 1].T
for p, a, b, y in zip(model.predict_proba(X_test[:4])[:, 1], low, high, y_test[:4], strict=True):
    print(f"P(class 1) = {p:.3f}, 95 % interval {a:.3f} to {b:.3f}; the class is {y}")
