"""Warnings point at the line of the user, however deep the library was when it warned."""

import warnings
from functools import partial
from inspect import currentframe

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fitted import blobs, small
from pbdn import MapConfig
from pbdn.errors import DepthLimitWarning, warn


def deeper(layers, log_likelihood, n_rows):
    return -float(len(layers))


def limited():
    """An estimator that always warns of its depth."""
    return small("map", criterion=deeper, map_config=MapConfig(n_minibatches=5))


def assert_here(seen, line, n_warnings):
    assert [(one.filename, one.lineno) for one in seen] == [(__file__, line)] * n_warnings


def test_a_plain_fit(rng):
    X, y = blobs(rng)
    with pytest.warns(DepthLimitWarning) as seen:
        limited().fit(X, y)
    assert_here(seen, currentframe().f_lineno - 1, 1)
    with pytest.warns(UserWarning, match="only one class") as seen:
        limited().fit(X, np.zeros(len(y)))
    assert_here(seen, currentframe().f_lineno - 1, 1)


def test_chains_and_streams(rng):
    X, y = blobs(rng)
    with pytest.warns(UserWarning) as seen:
        small(criterion=deeper, n_sweeps=6, n_burn_in=3).fit(X, y)
    assert_here(seen, currentframe().f_lineno - 1, 2)  # depth, convergence
    with pytest.warns(DepthLimitWarning) as seen:
        limited().fit([(X, y)])
    assert_here(seen, currentframe().f_lineno - 1, 1)


def test_through_scikit_learn(rng):
    X, y = blobs(rng)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cross_val_score(limited(), X, y, cv=2)
    assert_here(seen, currentframe().f_lineno - 1, 2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        GridSearchCV(make_pipeline(StandardScaler(), limited()), {"standardscaler__with_mean": [True]}, cv=2).fit(X, y)
    assert_here(seen, currentframe().f_lineno - 1, 3)


def called_from(module, function):
    """Call a function from a module of that name."""
    scope = {"__name__": module, "function": function}
    exec("def call(): function()", scope)
    return scope["call"]


@pytest.mark.parametrize("module", ["pbdn", "pbdn.growth.fit_network", "sklearn.pipeline", "joblib"])
def test_frames_of_the_library_are_passed_over(module):
    with pytest.warns(UserWarning, match="look") as seen:
        called_from(module, called_from("pbdn.deep", partial(warn, "look")))()
    assert_here(seen, currentframe().f_lineno - 1, 1)


def test_other_modules_are_users():
    with pytest.warns(UserWarning, match="look") as seen:
        called_from("pbdn_of_mine", called_from("pbdn.deep", partial(warn, "look")))()
    assert [one.filename for one in seen] == ["<string>"]  # the code of pbdn_of_mine
