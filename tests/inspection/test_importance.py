"""Importances, effects, curves and Shapley values of fitted networks."""

import sys
import warnings
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp

from fitted import QUICK_MAP, lone_side, optimised, quickly, sampled, three_classes
from networks import random_network
from pbdn import PBDNClassifier
from pbdn.data.open_stream import KeptRows
from pbdn.errors import InvalidInputError
from pbdn.inspection.access import network_of
from pbdn.inspection.columns import ColumnGroup, date_text, number_text
from pbdn.inspection.curves import SMALLEST as KEPT_OFF
from pbdn.inspection.curves import EffectCurve, curve_words, effect_curves
from pbdn.inspection.effects import ChangedColumns, feature_effects, shuffled_moves
from pbdn.inspection.rules import subtype_rules
from pbdn.inspection.shapley import SMALLEST
from pbdn.model.wiring import Curve
from pbdn.numerics.arrays import NamedArray

BUILDS = [sampled, optimised, three_classes, lone_side]


@lru_cache
def six_features():
    """Only the third of six features matters, though the network sees all of them."""
    X = np.random.default_rng(3).standard_normal((300, 6))
    y = (X[:, 2] > 0).astype(int)
    config = replace(QUICK_MAP, curved=False)
    return quickly(PBDNClassifier(inference="map", map_config=config, max_depth=2, random_state=0), X, y), X, y


@lru_cache
def one_column_as_two_features():
    """A category of three values as three features, a date in days, and a number that does not matter."""
    rng = np.random.default_rng(5)
    kind = rng.integers(0, 3, 300)
    days = 17000.0 + rng.integers(0, 900, 300)
    X = np.column_stack([np.eye(3)[kind], days, rng.standard_normal(300)])
    y = np.where((kind == 1) ^ (days > 17500), "yes", "no")
    model = PBDNClassifier(inference="map", map_config=QUICK_MAP, max_depth=2, random_state=0)
    model.column_groups_ = [
        ColumnGroup(
            "kind",
            "category",
            (0, 1, 2),
            ("a", "b", "c"),
            (("a", (1.0, 0.0, 0.0)), ("b", (0.0, 1.0, 0.0)), ("c", (0.0, 0.0, 1.0))),
        ),
        ColumnGroup("since", "date", (3,), ("days",)),
        ColumnGroup("noise", "number", (4,)),
    ]
    names = ["kind = a", "kind = b", "kind = c", "since (days)", "noise"]
    named = NamedArray(X, names)
    return quickly(model, named, y), named, y


@pytest.mark.parametrize("build", BUILDS)
def test_importances_are_shares_and_survive_a_file(build, tmp_path):
    model, X, _ = build()
    found = model.feature_importances_
    assert found.shape == (np.asarray(X).shape[1],)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0)
    model.save(tmp_path / "model.pbdn")
    assert np.array_equal(type(model).load(tmp_path / "model.pbdn").feature_importances_, found)


def test_the_feature_that_matters_is_found_and_selected():
    from sklearn.feature_selection import SelectFromModel

    model, X, _ = six_features()
    assert model.feature_importances_[2] > 0.7
    assert SelectFromModel(model, prefit=True, threshold=0.5).get_support().tolist() == [0, 0, 1, 0, 0, 0]


def test_importances_before_a_fit_of_one_class_and_of_old_files():
    assert not hasattr(PBDNClassifier(), "feature_importances_")
    one = quickly(PBDNClassifier(), np.arange(8.0).reshape(4, 2), np.zeros(4))
    assert one.feature_importances_.tolist() == [0.0, 0.0]
    old = quickly(PBDNClassifier(inference="map", map_config=QUICK_MAP), np.eye(4), [0, 1, 0, 1])
    old._importances = None
    with pytest.raises(AttributeError, match="fit it again"):
        old.feature_importances_  # noqa: B018


def test_importances_of_sparse_streamed_and_incremental_fits():
    _, X, y = six_features()
    settings = {"inference": "map", "map_config": QUICK_MAP, "max_depth": 1, "random_state": 0}
    sparse = quickly(PBDNClassifier(**settings), sp.csr_array(X), y)
    streamed = quickly(PBDNClassifier(**settings), [(X[:150], y[:150]), (X[150:], y[150:])], None)
    steps = PBDNClassifier(**settings)
    for _ in range(20):
        steps.partial_fit(X, y, classes=[0, 1])
    for model in (sparse, streamed, steps):
        assert np.argmax(model.feature_importances_) == 2


def rows_sorted_by_a_column(rng, n=1000):
    X = rng.normal(size=(n, 3))
    X[:, 0] = np.sort(rng.integers(0, 10, n))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(4.5 + X[:, 1] - X[:, 0]))).astype(int)


def test_importances_of_a_sorted_stream_are_those_of_all_its_rows(rng):
    X, y = rows_sorted_by_a_column(rng)
    batches = [(X[X[:, 0] == value], y[X[:, 0] == value]) for value in range(10)]
    model = quickly(PBDNClassifier(inference="map", map_config=QUICK_MAP, random_state=0), batches, None)
    said = model.effects(X).set_index("feature").loc[["x0", "x1", "x2"], "share"]
    np.testing.assert_allclose(model.feature_importances_, said, atol=0.05)


def test_importances_of_batches_are_those_of_all_that_came(rng, tmp_path):
    X, y = rows_sorted_by_a_column(rng)
    model = PBDNClassifier(inference="map", map_config=QUICK_MAP, random_state=0)
    for low in range(0, len(X), 100):
        model.partial_fit(X[low : low + 100], y[low : low + 100], classes=[0, 1])
    model.partial_fit(X[:1], y[:1])
    said = model.effects(X).set_index("feature").loc[["x0", "x1", "x2"], "share"]
    np.testing.assert_allclose(model.feature_importances_, said, atol=0.05)
    model.save(tmp_path / "model.pbdn")
    again = PBDNClassifier.load(tmp_path / "model.pbdn").partial_fit(X[:1], y[:1])  # one row tells nothing more
    assert np.array_equal(again.feature_importances_, model.feature_importances_)
    again.partial_fit(X[:50], y[:50])
    assert not np.array_equal(again.feature_importances_, model.feature_importances_)


def test_a_sample_of_batches_is_bounded_and_even():
    kept = KeptRows.none(1, after_a_fit=False)
    for low in range(0, 20_000, 500):
        kept = kept.joined_by(sp.csr_array(np.arange(low, low + 500.0)[:, None]))
    assert kept.inputs.shape == (1000, 1)
    assert kept.n_seen == 20_000
    assert np.unique(kept.inputs).size == 1000
    assert abs(kept.inputs.mean() - 10_000) < 700


def test_importances_of_very_many_columns(rng):
    X = rng.standard_normal((80, 700))
    y = (X[:, 650] > 0).astype(int)
    X[:, 650] *= 5.0
    settings = {"inference": "map", "map_config": QUICK_MAP, "max_depth": 1, "random_state": 0, "standardize": False}
    model = quickly(PBDNClassifier(**settings), X, y)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert (model.feature_importances_ >= 0).all()
    assert np.argmax(model.feature_importances_) == 650


@pytest.mark.parametrize("build", BUILDS)
def test_changed_columns_predict_what_changed_rows_predict(build):
    model, X, _ = build()
    network, rows = network_of(model), np.asarray(X)[:30]
    changed = ChangedColumns(network, rows)
    for features in ((0,), (1,), (1, 0)):
        direct = rows.copy()
        direct[:, list(features)] += 0.7
        found = changed.predict(features, direct[:, list(features)])
        np.testing.assert_allclose(found, network.predict(direct), atol=1e-12)


def three_layers(rng):
    return random_network(rng, ((2, 3), (2, 1), (3, 2)))


def curved(rng):
    curve = Curve(np.array([0, 2]), np.array([0.5, -1.0]), np.array([2.0, 0.5]))
    wide = random_network(rng, ((2, 3), (2, 1)), n_features=6)
    return replace(wide, n_features=4, curve=curve)


def race(rng):
    from pbdn.experimental.race import Race

    return random_network(rng, ((2, 3, 2), (2, 1, 2)), response=Race(3))


@pytest.mark.parametrize("build", [three_layers, curved, race])
def test_changed_columns_of_other_networks(build, rng):
    network, rows = build(rng), rng.standard_normal((20, 4))
    direct = rows.copy()
    direct[:, [2, 1]] *= -1.5
    found = ChangedColumns(network, rows).predict((2, 1), direct[:, [2, 1]])
    np.testing.assert_allclose(found, network.predict(direct), atol=1e-8)


def test_shuffling_moves_as_far_as_predictions_of_shuffled_rows():
    model, X, _ = optimised()
    network = network_of(model)
    moved, flips = shuffled_moves(network, X, [(0,), (1,)], seed=7)
    rng, before = np.random.default_rng(7), network.predict(X)
    for j in (0, 1):
        changed = X.copy()
        changed[:, j] = X[rng.permutation(len(X)), j]
        after = network.predict(changed)
        assert moved[j] == pytest.approx(0.5 * np.abs(after - before).sum(axis=1).mean())
        assert flips[j] == np.mean(np.argmax(after, axis=1) != np.argmax(before, axis=1))


def test_features_of_one_column_are_one():
    model, X, _ = one_column_as_two_features()
    effects = feature_effects(model, np.asarray(X))
    assert {one["feature"] for one in effects} == {"kind", "since", "noise"}
    assert effects[-1]["feature"] == "noise"
    assert sum(one["share"] for one in effects) == pytest.approx(1.0)
    assert model.feature_importances_.shape == (3,)
    assert model.shap_values(X[:2], X[:30]).values.shape == (2, 3, 2)


def test_curves_are_the_mean_prediction_at_each_value():
    model, X, _ = optimised()
    curve = effect_curves(model, X, ["x1"], n_points=5, n_rows=len(X))[0]
    assert curve.at[0] == pytest.approx(np.quantile(X[:, 1], 0.01))
    for at, p, odds in zip(curve.at, curve.probability, curve.log_odds, strict=True):
        changed = X.copy()
        changed[:, 1] = at
        want = model.predict_proba(changed)
        np.testing.assert_allclose(p, want.mean(axis=0))
        kept_off = np.clip(want, KEPT_OFF, 1.0 - KEPT_OFF)
        np.testing.assert_allclose(odds[1], np.log(kept_off[:, 1] / kept_off[:, 0]).mean(), rtol=1e-6)
    assert curve.counts.sum() == len(X)
    assert (curve.low <= curve.high).all()


def test_curves_of_categories_and_dates():
    model, X, _ = one_column_as_two_features()
    kind, since, noise = effect_curves(model, X)
    assert kind.discrete
    assert kind.labels == ["a", "b", "c"]
    assert kind.counts.sum() == len(X)
    assert since.labels[0].startswith("2016-0")
    assert "near since = 20" in curve_words(since, "yes") or "as since grows" in curve_words(since, "yes")
    assert noise.span.max() < since.span.max()
    rules = " ".join(rule["rule"] for rule in subtype_rules(model, np.asarray(X)))
    assert "since" in rules
    assert "201" in rules
    assert "e+04" not in rules


def test_values_are_written_for_people():
    assert [number_text(v) for v in (17800.0, 0.5, 1234.5678, 12.3456, 1e-9, float("nan"))] == [
        "17800",
        "0.5",
        "1235",
        "12.35",
        "1e-09",
        "nan",
    ]
    assert date_text(17800.0) == "2018-09-26"
    assert date_text(1e300) == number_text(1e300)


# ------------------------------------------------------------------------------- Shapley values


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("output", ["probability", "log_odds"])
def test_shapley_values_add_up(build, output):
    model, X, _ = build()
    found = model.shap_values(X[:3], X[:25], output=output)
    p = np.clip(model.predict_proba(X[:3]), SMALLEST, 1.0 - SMALLEST)
    want = p if output == "probability" else np.log(p / (1 - p))
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, want, atol=1e-9)
    assert found.exact


@pytest.mark.parametrize("build", [sampled, optimised, three_classes])
def test_shapley_values_agree_with_shap(build, monkeypatch):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    compiled = ("_delta_masking", "_single_delta_mask"), ("_build_fixed_multi_output",)
    for module, names in zip(("shap.maskers._tabular", "shap.utils._masked_model"), compiled, strict=True):
        for name in names:  # takes seconds to compile, and no time on so few rows
            slow = getattr(sys.modules[module], name, None)
            monkeypatch.setattr(f"{module}.{name}", getattr(slow, "py_func", slow), raising=False)
    model, X, _ = build()
    rows = X[:35]
    masker = shap.maskers.Independent(np.asarray(rows), max_samples=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shap gives rows without names
        want = shap.explainers.Exact(model.predict_proba, masker)(np.asarray(rows)[:3], silent=True)
    found = model.shap_values(rows[:3], rows)
    np.testing.assert_allclose(found.values, want.values, atol=1e-10)
    np.testing.assert_allclose(found.base_values, want.base_values[0], atol=1e-10)


def test_sampled_orders_agree_with_all_coalitions_within_their_error():
    model, X, _ = six_features()
    exact = model.shap_values(X[:4], X[:20], method="exact")
    drawn = model.shap_values(X[:4], X[:20], method="orders", n_orders=200)
    assert exact.exact
    assert not drawn.exact
    np.testing.assert_allclose(drawn.values.sum(axis=1), exact.values.sum(axis=1), atol=1e-12)
    more = model.shap_values(X[:4], X[:20], method="orders", n_orders=3200)
    distance = (more.values - exact.values) / more.standard_error
    assert 0.5 < np.sqrt(np.mean(distance**2)) < 1.6  # 1 in expectation, over 24 values that hang together
    assert more.standard_error.mean() == pytest.approx(drawn.standard_error.mean() / 4, rel=0.3)


def test_what_cannot_be_explained_is_refused():
    model, X, _ = optimised()
    with pytest.raises(InvalidInputError, match="output='odds'"):
        model.shap_values(X[:1], X, output="odds")
    with pytest.raises(ValueError, match="0 sample"):
        model.shap_values(X[:1], X[:0])


# ---------------------------------------------------------------------------- decision function


@pytest.mark.parametrize("build", BUILDS)
def test_decisions_agree_with_labels_and_probabilities(build):
    model, X, _ = build()
    score, p = model.decision_function(X), model.predict_proba(X)
    if model.classes_.size == 2:
        assert score.shape == (len(X),)
        np.testing.assert_allclose(score, np.log(p[:, 1] / p[:, 0]))
        assert np.array_equal(model.classes_[(score > 0).astype(int)], model.predict(X))
    else:
        assert score.shape == p.shape
        assert np.array_equal(model.classes_[np.argmax(score, axis=1)], model.predict(X))


def test_decisions_are_finite_far_out():
    model, _, _ = optimised()
    far = np.array([[1e6, -1e6], [1e6, 1e6], [-1e9, 1e9]])
    assert np.isfinite(model.decision_function(far)).all()


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        ((0.268, 0.30, 0.316, 0.312, 0.308, 0.304, 0.300, 0.296, 0.292, 0.288, 0.283), "is highest, 32 %, near a = 2"),
        ((0.38, 0.383, 0.387, 0.391, 0.387, 0.383, 0.379), "is highest, 39.1 %, near a = 3 and lowest, 37.9 %, near 6"),
        ((0.376, 0.378, 0.381, 0.384, 0.388), "rises from 37.6 % to 38.8 % as a grows"),
        ((0.9, 0.5, 0.502, 0.3, 0.1), "falls from 90 % to 10 % as a grows"),
        ((0.5, 0.504, 0.5), "hardly moves the probability of yes"),
    ],
)
def test_a_hump_neither_rises_nor_falls(probability, words):
    p, at = np.array(probability), np.arange(float(len(probability)))
    both, group = np.column_stack([1.0 - p, p]), ColumnGroup("a", "number", (0,))
    labels = [number_text(value) for value in at]
    curve = EffectCurve(group, ["no", "yes"], at, labels, False, both, both, both, both, at, at[1:])
    assert words in curve_words(curve, "yes")
    with pytest.raises(InvalidInputError, match="label='maybe'"):
        curve_words(curve, "maybe")
