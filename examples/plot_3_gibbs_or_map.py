"""
MAP, posterior draws, or the paper's sampler
============================================

The same rows in three ways. ``"map"`` is the default: five networks by stochastic gradients, averaged into one. ``"map+gibbs"`` adds
posterior draws of its top layer. ``"gibbs"`` is the paper's sampler, which draws every layer.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from pbdn import GibbsConfig, PBDNClassifier
from pbdn.datasets import make_waveform
from pbdn.plots import CalibrationDisplay, TraceDisplay

data = make_waveform(3000, seed=0)
X_train, y_train, X_test, y_test = data.X[:600], data.y[:600], data.X[600:], data.y[600:]

figure, panels = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
fitted = {}
for name, panel in zip(("map", "map+gibbs", "gibbs"), panels, strict=True):
    began = time.process_time()
    model = PBDNClassifier(inference=name, gibbs_config=GibbsConfig(n_chains=2), random_state=0).fit(X_train, y_train)
    seconds = time.process_time() - began
    probability = model.predict_proba(X_test)
    CalibrationDisplay.from_predictions(y_test, probability, model.classes_, ax=panel)
    panel.set_title(name)
    fitted[name] = model
    print(
        f"{name}: error {1 - model.score(X_test, y_test):.1%}, log-loss {log_loss(y_test, probability):.3f}, "
        f"depth {model.depth_}, experts {model.n_experts_}, {seconds:.1f} s (the first fit of an engine compiles)"
    )

# %%
# On the diagonal a probability of 70 % is right in 70 of 100 cases. The first two predict by the same trained network, so they agree.
#
# Two kinds of intervals
# ----------------------
# Without draws, intervals say how far the prediction would move with other rows: from five networks, each of which has missed a
# fifth of them. With draws they are credible intervals.

same = np.array_equal(fitted["map"].predict_proba(X_test), fitted["map+gibbs"].predict_proba(X_test))
print(f"map and map+gibbs predict the same: {same}")
for name, model in fitted.items():
    low, high = np.moveaxis(model.predict_proba_interval(X_test)[:, 1], -1, 0)
    print(f"{name}: mean width of the 95 % intervals {np.mean(high - low):.3f}")

# %%
# Has the chain converged?
# ------------------------
# The numbering of experts means nothing, so only quantities that do not depend on it are judged. R-hat and effective sample sizes are
# those of the top layer. `PBDNClassifier` warns when they are poor, and says what to raise.

TraceDisplay.from_estimator(fitted["map+gibbs"])
for one in fitted["map+gibbs"].convergence_[:4]:
    print(f"{one['quantity']}: R-hat {one['r_hat']:.3f}, effective draws {one['ess_bulk']:.0f}")

# %%
# The draws as an `xarray.DataTree` in ArviZ's schema, for its plots, diagnostics and LOO.

print(fitted["map+gibbs"].to_datatree(X_test[:5], y_test[:5]))
