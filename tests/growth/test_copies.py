"""Copies of rows, rows that look the same, and rows that are told apart."""

import warnings

import numpy as np
from sklearn.metrics import log_loss

from folds import RESPONSE, fitted, model
from pbdn import PBDNClassifier
from pbdn.data.labelled_rows import LabelledRows
from pbdn.errors import DepthLimitWarning
from pbdn.growth import search as search_module
from pbdn.growth.holdout import N_FOLDS, RARE, deal_into_folds, folds_of_rows
from pbdn.sgd.joint_training import mostly_copies


def test_networks_of_copied_rows_grow_without_noise_and_may_get_some(rng):
    cells = rng.normal(size=(6, 2))
    X = cells[rng.integers(6, size=120)]
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(int)
    copied, different = fitted(model(), X, y).trials_, fitted(model(), X + 0.1 * rng.normal(size=X.shape), y).trials_
    assert copied[0]["noise"] == 0.0 < different[0]["noise"]
    assert max(trial["noise"] for trial in copied) > 0.0


def test_rows_are_copies_where_few_differ(rng):
    X = rng.normal(size=(50, 3))
    assert not mostly_copies(X)
    assert not mostly_copies(np.repeat(X, 2, axis=0))
    assert mostly_copies(np.repeat(X, 3, axis=0))


def test_copies_of_a_row_are_in_one_fold_and_do_not_flatter_large_networks(rng):
    X = rng.normal(size=(120, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=120) > 0).astype(int)
    X_new = rng.normal(size=(2000, 3))
    y_new = (X_new[:, 0] + 0.5 * rng.normal(size=2000) > 0).astype(int)
    once, twice = (
        fitted(PBDNClassifier(random_state=0), X, y, sample_weight=np.full(120, weight)) for weight in (1.0, 2.0)
    )
    assert log_loss(y_new, twice.predict_proba(X_new)) < 1.2 * log_loss(y_new, once.predict_proba(X_new))
    copied = LabelledRows(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    folds = deal_into_folds(copied, RESPONSE).reshape(-1, 2)
    np.testing.assert_array_equal(folds[:, 0], folds[:, 1])
    np.testing.assert_array_equal(folds[:, 0], folds_of_rows(y))
    np.testing.assert_array_equal(deal_into_folds(LabelledRows(X, y), RESPONSE), folds_of_rows(y))


def test_a_class_of_few_kinds_of_rows_has_rows_in_every_fold(rng):
    """Three kinds of rows, each of which is always of the same class."""
    tip = rng.integers(3, size=150)
    X, y = np.eye(3)[tip], (tip == 1).astype(int)
    rows = LabelledRows(X, y)
    assert set(deal_into_folds(rows, RESPONSE)) == set(range(N_FOLDS))
    twice = LabelledRows(np.repeat(X[:6], 2, axis=0), np.repeat(y[:6], 2))
    assert RARE in deal_into_folds(twice, RESPONSE)  # few rows, given twice: a class of copies has none to spare
    model = PBDNClassifier(random_state=0).fit(X, y)
    assert log_loss(y, model.predict_proba(X)) < 0.03
    assert model.depth_ == 1


def test_rows_that_are_told_apart_need_no_other_layer(rng, monkeypatch):
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0.0).astype(int)
    X[:, 0] += 8.0 * y
    assert PBDNClassifier(random_state=0).fit(X, y).depth_ == 1
    monkeypatch.setattr(search_module, "GOOD_ENOUGH", 0.0)
    deep = PBDNClassifier(random_state=0, max_depth=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DepthLimitWarning)
        deep.fit(X, y)
    assert len(deep.criterion_path_) == 2  # one more would be tried


def test_rows_of_few_features_that_look_the_same_are_no_copies(rng):
    X, y = rng.integers(0, 3, size=(200, 1)).astype(float), rng.integers(0, 2, size=200)
    np.testing.assert_array_equal(deal_into_folds(LabelledRows(X, y), RESPONSE), folds_of_rows(y))
