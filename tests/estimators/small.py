"""Small fits for tests of the estimators: short chains, few experts."""

import warnings
from typing import Any

import numpy as np

from pbdn import PBDNClassifier
from pbdn.errors import ConvergenceWarning, DepthLimitWarning
from pbdn.sgd.config import MapConfig

GIBBS: dict[str, Any] = {
    "inference": "gibbs",
    "n_sweeps": 60,
    "n_burn_in": 30,
    "n_draws": 20,
    "max_experts": 6,
}
MAP: dict[str, Any] = {"inference": "map", "map_config": MapConfig(max_experts=6, n_minibatches=200, polish=True)}
SETTINGS = {"gibbs": GIBBS, "map": MAP, "map+gibbs": {**MAP, **GIBBS, "inference": "map+gibbs"}}


def small(inference="gibbs", cls=PBDNClassifier, **parameters):
    """An unfitted estimator with small settings."""
    settings = {"random_state": 0, **SETTINGS[inference], **parameters}
    if cls is PBDNClassifier:
        settings = {"max_depth": 2, "n_paths": 2, **settings}
    return cls(**settings)


def fitted(estimator, X, y, **more):
    """Fit, without the advice that short chains call for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DepthLimitWarning)
        return estimator.fit(X, y, **more)


def blobs(rng, n=90, n_features=3, n_classes=2, spread=1.0):
    """Gaussian classes on a simplex, overlapping."""
    y = np.arange(n) % n_classes
    X = rng.normal(scale=spread, size=(n, n_features))
    X[np.arange(n), y % n_features] += 2.0
    return X, y


def assert_probabilities(p, n, n_classes):
    """Finite, within [0, 1], rows summing to one."""
    assert p.shape == (n, n_classes)
    assert np.isfinite(p).all()
    assert p.min() >= 0.0
    assert p.max() <= 1.0
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
