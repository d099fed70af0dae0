"""Rows, settings and single networks for the tests of networks of folds."""

import warnings
from dataclasses import replace

import numpy as np

from pbdn import MapConfig, PBDNClassifier
from pbdn.config import resolve
from pbdn.data.labelled_rows import LabelledRows
from pbdn.errors import ConvergenceWarning, DepthLimitWarning
from pbdn.growth.run import Run
from pbdn.growth.trainee import Trainee
from pbdn.growth.views import make_views
from pbdn.model.network import Layer, Side
from pbdn.model.response import TwoClasses

RESPONSE = TwoClasses()


def rings(rng, n=160, noise=0.1):
    """A disc in a ring: no hyperplane separates them, one circle does."""
    y = np.arange(n) % 2
    angle = rng.uniform(0, 2 * np.pi, n)
    radius = np.where(y == 1, 0.5, 1.5)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + noise * rng.normal(size=(n, 2)), y


def half_planes(rng, n=160):
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)


def model(**more):
    own = ("n_members", "curved", "n_minibatches")
    settings = {"n_minibatches": 150} | {name: more.pop(name) for name in own if name in more}
    return PBDNClassifier(
        inference="map", random_state=more.pop("random_state", 0), map_config=MapConfig(**settings), **more
    )


def fitted(estimator, X, y, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DepthLimitWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y, **more)


def trainee_of(X, y, weights=None, plain=False):
    view = replace(make_views(LabelledRows(X, y, weights), False, 0)[0], plain=plain)
    return Trainee(view, np.ones(y.size, dtype=bool), 0, RESPONSE, config_of().map, Run(seed=0))


def config_of(max_depth=2, **more):
    return resolve(
        RESPONSE, inference="map", criterion="folds", max_depth=max_depth, max_experts=6, priors=None, gibbs_config=None,
        map_config=MapConfig(n_minibatches=200, **more),
    )  # fmt: skip


def on_a_line(rng, n_rows=400, location=(0.0, 0.0)):
    """Rows, and a network of one expert a side whose two distributions lie about the same value."""
    X = rng.normal(size=(n_rows, 2))
    line = np.array([[-2.0, 1.5, -1.0]])
    times = np.array([3.0])
    sides = (
        Side(line + times * np.array([-location[0], 0, 0]), np.ones(1), times),
        Side(np.array([[-2.0, -1.5, 1.0]]) + times * np.array([location[1], 0, 0]), np.ones(1), times),
    )
    return X, (Layer(sides),)
