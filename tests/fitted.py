"""Small estimators, with short chains, few steps and few experts; and small fitted models that several test files share."""

import warnings
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pbdn import (
    GibbsConfig,
    ISHMClassifier,
    MapConfig,
    PBDNAmountRegressor,
    PBDNClassifier,
    PBDNCountRegressor,
    PBDNOrdinalClassifier,
    PBDNRegressor,
    PBDNSurvival,
)
from pbdn.datasets import make_xor
from pbdn.errors import ConvergenceWarning, DepthLimitWarning
from pbdn.numerics.arrays import NamedArray

HOSTILE = "<script>alert('x')</script>\"&|`*{{7*7}}$x_$\n"
QUICK_MAP = MapConfig(n_minibatches=300)
CHAIN = GibbsConfig(n_sweeps=60, n_burn_in=30, n_draws=20, n_paths=2)
STEPS = MapConfig(n_minibatches=200, polish=True)
GIBBS: dict[str, Any] = {"inference": "gibbs", "max_experts": 6, "gibbs_config": CHAIN}
MAP: dict[str, Any] = {"inference": "map", "max_experts": 6, "map_config": STEPS}
FOLDS: dict[str, Any] = {"max_experts": 6, "map_config": MapConfig(n_minibatches=40)}
SETTINGS = {"gibbs": GIBBS, "map": MAP, "map+gibbs": {**MAP, **GIBBS, "inference": "map+gibbs"}, "folds": FOLDS}
VALUES: dict[str, Any] = {
    "random_state": 0,
    "max_depth": 1,
    "max_experts": 4,
    "map_config": MapConfig(n_minibatches=150),
}
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


def hidden_numbers(n):
    """Two features, and a number that is the first of them and some noise; the same for every test."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + 0.3 * rng.normal(size=n)


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


@contextmanager
def without_tuning():
    """Within, networks of folds keep the penalty and noise that they begin with: for fits that are not a test's subject."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pbdn.growth.committee._strength", lambda search, stage: stage)
        yield


def quietly(estimator, X, y):
    """Fit without the warnings of short chains."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def quickly(estimator, X, y):
    """Fit quietly and without tuning."""
    with without_tuning():
        return quietly(estimator, X, y)


@contextmanager
def without_pictures():
    """Within, the pictures of reports are empty: for tests of what a page says. Others draw those of every kind of model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pbdn.report.html.page_svg", lambda *_, **__: "")
        yield


def xor_rows(n=160, seed=0):
    data = make_xor(n, seed=seed)
    return np.asarray(data.X), np.asarray(data.y)


@lru_cache
def sampled():
    """Two chains, draws, two layers at most."""
    X, y = xor_rows()
    chains = GibbsConfig(n_sweeps=60, n_burn_in=20, n_draws=40, n_chains=2)
    settings = {"gibbs_config": chains, "map_config": QUICK_MAP, "max_depth": 2}
    model = PBDNClassifier(inference="map+gibbs", random_state=0, **settings)
    return quickly(model, X, y), X, y


@lru_cache
def optimised():
    """MAP."""
    X, y = xor_rows()
    return quickly(PBDNClassifier(inference="map", map_config=QUICK_MAP, max_depth=2, random_state=0), X, y), X, y


@lru_cache
def three_classes():
    """Named features and classes that try to become markup."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.array(["a", HOSTILE, "c"], dtype=object)[np.argmax(X, axis=1)].astype(str)
    named = NamedArray(X, [HOSTILE, "</title>", "x = 'y'"])
    return (
        quickly(PBDNClassifier(inference="map", map_config=QUICK_MAP, max_depth=1, random_state=0), named, y),
        named,
        y,
    )


@lru_cache
def numbers(kind="number"):
    """A column that matters, one that bends and one that does not, a target of the kind, and a model of it."""
    rng = np.random.default_rng(3)
    X = NamedArray(rng.normal(size=(150, 3)), ["size", "age", "noise"])
    value = 10.0 + 3.0 * X[:, 0] + np.abs(X[:, 1]) + 0.5 * rng.normal(size=150)
    options = {"map_config": MapConfig(n_minibatches=200), "max_depth": 1, "max_experts": 4, "random_state": 0}
    if kind == "count":
        return (
            quickly(PBDNCountRegressor(**options), X, np.maximum(value, 0.0).round()),
            X,
            np.maximum(value, 0.0).round(),
        )
    if kind == "grade":
        y = np.array(["bad", "fair", "good"])[np.digitize(value, [8.0, 12.0])]
        return quickly(PBDNOrdinalClassifier(**options), X, y), X, y
    if kind == "time":
        time = np.exp(0.1 * np.asarray(value))
        y = np.array(
            list(zip(time < 4.0, np.minimum(time, 4.0), strict=True)), dtype=[("event", bool), ("time", float)]
        )
        return quickly(PBDNSurvival(**options), X, y), X, y
    if kind == "causes":
        times = np.stack([np.exp(0.1 * np.asarray(value)), np.exp(1.5 - 0.3 * X[:, 1]), np.full(150, 4.0)])
        cause = np.array([1, 2, 0])[times.argmin(axis=0)]
        y = np.array(list(zip(cause, times.min(axis=0), strict=True)), dtype=[("cause", int), ("time", float)])
        return quickly(PBDNSurvival(**options), X, y), X, y
    if kind == "amount":
        y = np.where(X[:, 2] + rng.logistic(size=150) > 0.0, np.maximum(np.asarray(value), 0.1), 0.0)
        return quickly(PBDNAmountRegressor(**options), X, y), X, y
    return quickly(PBDNRegressor(log=False, **options), X, np.asarray(value)), X, np.asarray(value)


@lru_cache
def lone_side():
    """A single hyperplane machine."""
    X, y = xor_rows()
    chains = GibbsConfig(n_sweeps=40, n_draws=10)
    return quickly(ISHMClassifier(inference="map+gibbs", gibbs_config=chains, random_state=0), X, y), X, y


@lru_cache
def page_of(build):
    """The report of one of the models, on its own rows."""
    from pbdn.report import collect, render_html

    model, X, y = build()
    return render_html(collect(model, X, y, source="rows", target="label"))


@lru_cache
def hostile_page():
    """A report in which every name tries to become markup."""
    from pbdn.report import collect, render_html

    model, X, y = three_classes()
    return render_html(
        collect(model, X, y, source=HOSTILE, target=HOSTILE, columns=[(HOSTILE, HOSTILE)], notes=[HOSTILE])
    )


@lru_cache
def number_page(kind="number"):
    """What a report with rivals says about a model of numbers, and its page."""
    from pbdn.report import collect, render_html

    model, X, y = numbers(kind)
    data = collect(model, X, y, source="rows", target="price", training=(X, y))
    return data, render_html(data)


def with_network(network, names=None):
    """An estimator around a network made by hand; its classes are 0, 1, …"""
    model = PBDNClassifier()
    model.network_, model.paths_, model.config_ = network, (), SimpleNamespace(prediction="point")
    model.n_features_in_ = network.n_features
    model.classes_ = np.arange(network.response.n_outputs)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model
