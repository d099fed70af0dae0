"""Small fitted models that several test files share."""

import warnings
from functools import lru_cache
from types import SimpleNamespace

import numpy as np

from pbdn import (
    GibbsConfig,
    ISHMClassifier,
    MapConfig,
    PBDNClassifier,
    PBDNCountRegressor,
    PBDNOrdinalClassifier,
    PBDNRegressor,
    PBDNSurvival,
)
from pbdn.data.frames import NamedArray
from pbdn.datasets import make_xor

HOSTILE = "<script>alert('x')</script>\"&|`*{{7*7}}$x_$\n"
QUICK_MAP = MapConfig(n_minibatches=300)


def quietly(estimator, X, y):
    """Fit without the warnings of short chains."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def xor_rows(n=160, seed=0):
    data = make_xor(n, seed=seed)
    return np.asarray(data.X), np.asarray(data.y)


@lru_cache
def sampled():
    """Two chains, draws, two layers at most."""
    X, y = xor_rows()
    chains = GibbsConfig(n_sweeps=60, n_burn_in=20, n_draws=40, n_chains=2)
    model = PBDNClassifier(inference="map+gibbs", gibbs_config=chains, max_depth=2, random_state=0)
    return quietly(model, X, y), X, y


@lru_cache
def optimised():
    """MAP."""
    X, y = xor_rows()
    return quietly(PBDNClassifier(inference="map", map_config=QUICK_MAP, max_depth=2, random_state=0), X, y), X, y


@lru_cache
def three_classes():
    """Named features and classes that try to become markup."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.array(["a", HOSTILE, "c"], dtype=object)[np.argmax(X, axis=1)].astype(str)
    named = NamedArray(X, [HOSTILE, "</title>", "x = 'y'"])
    return (
        quietly(PBDNClassifier(inference="map", map_config=QUICK_MAP, max_depth=1, random_state=0), named, y),
        named,
        y,
    )


@lru_cache
def numbers(kind="number"):
    """A column that matters, one that bends and one that does not, a target of the kind, and a model of it."""
    rng = np.random.default_rng(3)
    X = NamedArray(rng.normal(size=(150, 3)), ["size", "age", "noise"])
    value = 10.0 + 3.0 * X[:, 0] + np.abs(X[:, 1]) + 0.5 * rng.normal(size=150)
    options = {"map_config": QUICK_MAP, "max_depth": 1, "max_experts": 4, "random_state": 0}
    if kind == "count":
        return (
            quietly(PBDNCountRegressor(**options), X, np.maximum(value, 0.0).round()),
            X,
            np.maximum(value, 0.0).round(),
        )
    if kind == "grade":
        y = np.array(["bad", "fair", "good"])[np.digitize(value, [8.0, 12.0])]
        return quietly(PBDNOrdinalClassifier(**options), X, y), X, y
    if kind == "time":
        time = np.exp(0.1 * np.asarray(value))
        y = np.array(
            list(zip(time < 4.0, np.minimum(time, 4.0), strict=True)), dtype=[("event", bool), ("time", float)]
        )
        return quietly(PBDNSurvival(**options), X, y), X, y
    return quietly(PBDNRegressor(log=False, **options), X, np.asarray(value)), X, np.asarray(value)


@lru_cache
def lone_side():
    """A single hyperplane machine."""
    X, y = xor_rows()
    chains = GibbsConfig(n_sweeps=40, n_draws=10)
    return quietly(ISHMClassifier(inference="map+gibbs", gibbs_config=chains, random_state=0), X, y), X, y


def with_network(network, names=None):
    """An estimator around a network made by hand; its classes are 0, 1, …"""
    model = PBDNClassifier()
    model.network_, model.paths_, model.config_ = network, (), SimpleNamespace(prediction="point")
    model.n_features_in_ = network.n_features
    model.classes_ = np.arange(network.response.n_outputs)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model
