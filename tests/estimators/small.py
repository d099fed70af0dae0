"""Small fits for tests of the estimators: short chains, few steps, few experts."""

import warnings
from dataclasses import fields, replace
from typing import Any

import numpy as np

from pbdn import GibbsConfig, MapConfig, PBDNClassifier
from pbdn.errors import ConvergenceWarning, DepthLimitWarning

CHAIN = GibbsConfig(n_sweeps=60, n_burn_in=30, n_draws=20, n_paths=2)
STEPS = MapConfig(n_minibatches=200, polish=True)
GIBBS: dict[str, Any] = {"inference": "gibbs", "max_experts": 6, "gibbs_config": CHAIN}
MAP: dict[str, Any] = {"inference": "map", "max_experts": 6, "map_config": STEPS}
FOLDS: dict[str, Any] = {"max_experts": 6, "map_config": MapConfig(n_minibatches=40)}
SETTINGS = {"gibbs": GIBBS, "map": MAP, "map+gibbs": {**MAP, **GIBBS, "inference": "map+gibbs"}, "folds": FOLDS}
CHAIN_FIELDS = {field.name for field in fields(GibbsConfig)}


def small(kind="gibbs", cls=PBDNClassifier, **parameters):
    """An unfitted estimator with small settings; fields of `GibbsConfig` may be given beside its parameters."""
    chain = {name: parameters.pop(name) for name in CHAIN_FIELDS & set(parameters)}
    settings = {"random_state": 0, **SETTINGS[kind], "gibbs_config": replace(CHAIN, **chain), **parameters}
    if cls is PBDNClassifier:
        one_network = {} if kind == "folds" else {"criterion": "aic_inputs"}
        settings = {"max_depth": 2, **one_network, **settings}
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
