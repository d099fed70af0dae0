"""
Ten classes, and what the experts look for
==========================================

Handwritten digits of 8 x 8 pixels, by MAP. Every expert votes for rows of some kind. The *subtype* of an expert is the mean of the
rows, each counted by its vote.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from pbdn import PBDNClassifier
from pbdn.plots import CalibrationDisplay, ExpertWeightsDisplay, SubtypesDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
model = PBDNClassifier(inference="map", max_depth=1, random_state=0).fit(X_train, y_train)
print(f"test error {1 - model.score(X_test, y_test):.1%} with {sum(model.n_experts_[0])} experts")

# %%
# One line of images for each digit, and one for each "not" that digit. The strongest expert comes first. Below each image stands the
# share of rows that the expert votes for.

SubtypesDisplay.from_estimator(model, X_test, shape=(8, 8))

# %%
# The weights behind them.

_, ax = plt.subplots(figsize=(9, 3.5), layout="constrained")
ExpertWeightsDisplay.from_estimator(model, ax=ax)

# %%
# Which expert decided about a row? Its vote, the distance from its hyperplane, and whether it is the strongest of its side.

print(model.explain(X_test[:1]).sort_values("vote", ascending=False).head(5).to_string(index=False))
print("the digit is", y_test[0])

# %%
# With several classes calibration is that of the predicted class.

CalibrationDisplay.from_estimator(model, X_test, y_test)
