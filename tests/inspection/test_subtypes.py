"""What a network says about rows: subtypes, votes, the polytope, and experts in words."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fitted import blobs, fitted, small, with_network
from networks import random_network
from pbdn import ISHMClassifier
from pbdn.inspection.access import input_names, side_names
from pbdn.inspection.rules import Bins, subtype_rules, telling_features
from pbdn.inspection.subtypes import inputs_of_layer, polytope_limits, violations, votes
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import OneSide
from pbdn.model.tails import Tails
from pbdn.model.wiring import Curve

# What a fitted network says: subtypes, votes, hidden units, Theorem 1.


@pytest.fixture(params=["gibbs", "map"])
def model_and_data(request, rng):
    X, y = blobs(rng, n_classes=3, spread=0.8)
    labels = np.array(["ash", "birch", "<i>cedar</i>"])[y]
    return fitted(small(request.param), X, labels), X


def test_transform_gives_the_units_of_the_top_layer(model_and_data):
    model, X = model_and_data
    inputs = model.network_.top_inputs(X)
    columns = [
        np.logaddexp(0.0, inputs @ beta[1:] + beta[0]) for side in model.network_.top.sides for beta in side.hyperplanes
    ]
    np.testing.assert_allclose(model.transform(X), np.column_stack(columns), rtol=1e-10, atol=1e-300)


def test_subtypes_are_equation_two(model_and_data):
    model, X = model_and_data
    table = model.subtypes(X)
    assert list(table.columns) == ["layer", "side", "expert", "weight", "share", "x0", "x1", "x2"]
    assert len(table) == sum(sum(layer) for layer in model.n_experts_)
    line = 0
    for t, inputs in enumerate(model.network_.layer_inputs(X)):
        for s, side in enumerate(model.layers_[t].sides):
            for k in range(side.n_experts):
                psi = inputs @ side.hyperplanes[k, 1:] + side.hyperplanes[k, 0]
                p = 1.0 - np.exp(-side.expert_weights[k] * np.logaddexp(0.0, psi))
                row = table.iloc[line]
                label = side_names(model)[s]
                assert (row["layer"], str(row["side"]), row["expert"]) == (t + 1, str(label), k + 1)
                assert row["weight"] == side.expert_weights[k]
                np.testing.assert_allclose(row["share"], p.mean(), rtol=1e-9, atol=1e-15)
                if p.sum() > 1e-9:
                    mean = (p[:, None] * X).sum(axis=0) / p.sum()
                    np.testing.assert_allclose(row[["x0", "x1", "x2"]].astype(float), mean, rtol=1e-6)
                line += 1


def test_votes_make_the_probability_of_a_side(model_and_data):
    """1 - Π_k (1 - p_ik) is the probability that side s says yes: a noisy-or of its experts."""
    model, X = model_and_data
    table = model.explain(X)
    labels = side_names(model)
    assert set(table["side"]) == set(labels)
    silent = table.assign(silent=1.0 - table["vote"]).groupby(["row", "side"])["silent"].prod().unstack()
    expected = model.network_.side_probability(X)
    np.testing.assert_allclose(1.0 - silent[labels].to_numpy(), expected, rtol=1e-9, atol=1e-12)
    best = table[table["strongest"]].groupby(["row", "side"])["vote"].max()
    np.testing.assert_array_equal(best, table.groupby(["row", "side"])["vote"].max())


def test_distances_are_euclidean(model_and_data):
    model, X = model_and_data
    table = model.explain(X[:1])
    inputs = model.network_.top_inputs(X[:1])[0]
    side = model.network_.top.sides[0]
    first = table[(table["side"] == model.classes_[0]) & (table["expert"] == 1)].iloc[0]
    beta = side.hyperplanes[0]
    foot = inputs - (inputs @ beta[1:] + beta[0]) * beta[1:] / (beta[1:] @ beta[1:])  # nearest point of the plane
    np.testing.assert_allclose(abs(first["distance"]), np.linalg.norm(inputs - foot), rtol=1e-8)
    assert np.sign(first["distance"]) == np.sign(inputs @ beta[1:] + beta[0])


def test_theorem_one_on_a_fit(model_and_data):
    model, X = model_and_data
    p = model.network_.side_probability(X)
    for p0 in (0.05, 0.5, 0.9):
        count = model.polytope_violations(X, p0)
        assert count.shape == p.shape
        assert not np.any(count[p <= p0])
        assert count.max() <= max(model.n_experts_[-1])
    with pytest.raises(ValueError, match="p0=1.0 must be a number above 0 and below 1"):
        model.polytope_violations(X, 1.0)


def test_a_row_beyond_one_hyperplane_violates_one_inequality():
    side = Side(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([1.0, 2.0]))
    limits = polytope_limits(side, 0.5)
    np.testing.assert_allclose(limits, np.log([2.0 - 1.0, np.sqrt(2.0) - 1.0]), atol=1e-15)
    rows = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(violations(side, rows, 0.5), [0, 1, 1, 2])


finite = st.floats(-50, 50, allow_nan=False)


@settings(max_examples=200, deadline=None)
@given(
    planes=arrays(float, (4, 3), elements=finite),
    weights=arrays(float, 4, elements=st.floats(1e-6, 1e3)),
    rows=arrays(float, (6, 2), elements=finite),
    p0=st.floats(1e-9, 1 - 1e-9),
)
def test_theorem_one_for_any_side(planes, weights, rows, p0):
    """Every x with P(y=1|x) ≤ p0 satisfies all inequalities."""
    side = Side(planes, weights)
    p = -np.expm1(-side.rate(rows))
    assert not np.any(violations(side, rows, p0)[p < p0 * (1.0 - 1e-9)])


def test_sparse_rows_are_explained_like_dense_ones(rng):
    X, y = blobs(rng)
    X[np.abs(X) < 0.8] = 0.0
    model = fitted(small(), sp.csr_array(X), y)
    dense, sparse = model.subtypes(X), model.subtypes(sp.csr_array(X))
    np.testing.assert_allclose(dense.select_dtypes("number"), sparse.select_dtypes("number"), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.polytope_violations(X), model.polytope_violations(sp.csr_array(X)))


def test_a_lone_side_speaks_for_the_second_class(rng):
    X, y = blobs(rng)
    model = fitted(small(cls=ISHMClassifier), X, np.array(["no", "yes"])[y])
    assert set(model.subtypes(X)["side"]) == {"yes"}
    assert set(model.explain(X)["side"]) == {"yes"}


def test_a_feature_named_like_a_column_is_kept_apart(rng):
    pd = pytest.importorskip("pandas")
    X, y = blobs(rng)
    table = pd.DataFrame(X, columns=["weight", "side", "c"])
    columns = list(fitted(small("map"), table, y).subtypes(table).columns)
    assert columns[-3:] == ["feature weight", "feature side", "c"]


# What is said of intervals is true of the rows that an expert votes for.


def one_expert(plane, curve, n_features=2, weight=5.0):
    """A lone expert: bias, slopes, squares or ramps."""
    return Network((Layer((Side(np.array([plane]), np.array([weight])),)),), n_features, OneSide(), curve)


def found(network, rows):
    """Intervals of the only expert."""
    return Bins.of(rows, range(rows.shape[1])).intervals(votes(network.top.sides[0], network.expand(rows)))[0]


def are_there(interval, values):
    between = (interval.low <= values) & (values <= interval.high)
    return between if interval.inside else ~between


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_squares_make_intervals(rng, sign):
    """sign · (x + 12 ((x - 1)/2)²) turns at 1 - 1/6: votes are near to it, or far from it."""
    curve = Curve(np.array([1]), np.array([1.0]), np.array([2.0]))
    network = one_expert([-6.0 * sign, 0.0, sign, 12.0 * sign], curve)
    rows = rng.normal(size=(900, 2)) * 3.0
    assert list(found(network, rows)) == [1]
    interval = found(network, rows)[1]
    assert interval.inside == (sign < 0)
    assert interval.low < 1.0 - 1.0 / 6.0 < interval.high
    cast, there = votes(network.top.sides[0], network.expand(rows))[:, 0], are_there(interval, rows[:, 1])
    assert interval.votes == pytest.approx(cast[there].sum() / cast.sum())
    assert interval.rows == pytest.approx(there.mean())
    assert interval.step > 0.5


@pytest.mark.parametrize("inside", [True, False])
def test_plateaus_of_ramps_are_told_from_end_to_end(rng, inside):
    """Up from 29 to 30 and down from 50 to 51: from 30 to 50, in whole years; or all others."""
    age = rng.integers(18, 90, 2000).astype(float)
    rows = np.column_stack([rng.normal(size=2000), age])
    curve = Curve(np.array([1, 1]), np.array([29.0, 50.0]), np.ones(2), ramps=True)
    sign = 1.0 if inside else -1.0
    network = one_expert([-10.0 if inside else 10.0, 0.0, 0.0, 20.0 * sign, -20.0 * sign], curve)
    told = found(network, rows)[1]
    assert (told.inside, told.low, told.high) == (inside, 30.0, 50.0)
    assert told.votes > 0.99
    assert found(one_expert([0.0, 0.0, 0.0, 6.0, 3.0], curve), rows) == {}  # it only rises


def test_no_other_interval_has_a_larger_excess(rng):
    rows = np.round(rng.normal(size=(300, 1)), 1)
    cast = np.exp(-2.0 * (rows - 0.3) ** 2) * rng.uniform(0.5, 1.0, size=(300, 1))
    (told,) = Bins.of(rows, [0]).intervals(cast)
    values = np.unique(rows)
    excess = []
    for low in values:
        for high in values[values >= low]:
            inside = (low <= rows) & (rows <= high)
            excess.append(cast[inside].sum() / cast.sum() - inside.mean())
    assert told[0].votes - told[0].rows == pytest.approx(max(np.max(excess), -np.min(excess)))


def test_the_words(rng):
    rows = np.column_stack([rng.normal(size=500), 1990.0 + np.round(20.0 * rng.normal(size=500))])
    curve = Curve(np.array([0, 1]), np.array([0.2, 1987.0]), np.ones(2))
    near = one_expert([4.0, 0.0, 0.0, -8.0, 0.0], curve)
    rule = subtype_rules(with_network(near, ["size", "year"]), rows)[0]
    assert re.fullmatch(r"size mostly between -\S+ and \S+ \(\d+ % of its votes, \d+ % of all rows\)", rule["rule"])
    assert rule["features"] == ["size"]
    far = one_expert([-4.0, 0.0, 0.0, 0.0, 0.02], curve)
    rule = subtype_rules(with_network(far, ["size", "year"]), rows)[0]
    assert re.match(r"year mostly below 19[67]\d or above (199|20[01])\d \(", rule["rule"])


def test_what_is_not_told(rng):
    rows = rng.normal(size=(500, 2))
    curve = Curve(np.array([0, 1]), np.zeros(2), np.ones(2))
    assert found(one_expert([0.0, 1.0, 2.0], None), rows) == {}  # flat
    assert found(one_expert([0.0, 8.0, 0.0, -1.0, 0.0], curve), rows) == {}  # turns at 4, where no row is
    assert list(found(one_expert([2.0, 0.0, 0.0, -4.0, -0.01], curve), rows)) == [0]  # the second square does little
    assert found(one_expert([-1e9, 0.0, 0.0, -4.0, 0.0], curve), rows) == {}  # never votes
    assert found(one_expert([2.0, 0.0, 0.0, -4.0, 0.0], curve), rows[:0]) == {}
    assert found(one_expert([2.0, 0.0, 0.0, -4.0, 0.0], curve), np.sign(rows)) == {}  # two values have nothing between


def test_layers_that_do_not_see_the_features_tell_intervals_too(rng):
    """The third layer sees units only; one of them speaks for rows near 0."""
    rows = rng.normal(size=(400, 2))
    curve = Curve(np.array([0]), np.zeros(1), np.ones(1))
    first = Layer((Side(np.array([[4.0, 0.0, 0.0, -16.0]]), np.ones(1)),))
    second = Layer((Side(np.array([[-1.0, 0.0, 0.0, 0.0, 2.0]]), np.ones(1)),))
    third = Layer((Side(np.array([[-4.0, 0.0, 2.0]]), np.ones(1)),))
    network = Network((first, second, third), 2, OneSide(), curve)
    rules = subtype_rules(with_network(network), rows)
    assert [rule["layer"] for rule in rules] == [1, 2, 3]
    assert all(rule["rule"].startswith("x0 mostly between -0.") for rule in rules)
    assert rules[0]["directions"] == rules[2]["directions"]


def test_of_many_features_those_that_weigh_most_are_looked_at(rng, monkeypatch):
    monkeypatch.setattr("pbdn.inspection.rules.MOST_FEATURES", 2)
    network = random_network(rng, ((3, 2),), 4, curve=Curve(np.array([2]), np.zeros(1), np.ones(1)))
    planes = np.concatenate([side.hyperplanes for side in network.top.sides])
    planes[:, 1:5] = [1e-3, 1.0, 1e-3, 1e-3]
    network = Network((Layer((Side(planes, np.ones(5)),)),), 4, OneSide(), network.curve)
    assert telling_features(network, np.ones(4)) == [1, 2]


def test_ramps_are_named_after_the_features_and_where_they_lie(rng):
    """In the units of the table, tails or not, and without what scaling leaves in the last digits."""
    curve = Curve(np.array([0, 0, 2]), np.array([3e-11, 1.0, 0.5]), np.array([1.0, 0.5, 1.0]), ramps=True)
    tails = Tails(np.array([2]), np.array([10.0]), np.array([4.0]), np.array([0.125]))
    network = replace(random_network(rng, ((2, 1),), 3, curve=curve), tails=tails)
    low, high = tails.inverse(np.array([0.5, 1.5]))
    named = input_names(with_network(network, ["a", "b", "c"]))
    assert named[3:] == ["a from 0 to 1", "a from 1 to 1.5", f"c from {round(low, 2):g} to {round(high, 2):g}"]
    assert tails.pull_in(np.array([low])) == pytest.approx(0.5)


def test_squares_are_named_after_the_features(rng):
    network = random_network(rng, ((2, 1), (1, 1), (1, 2)), 3, curve=Curve(np.array([0, 2]), np.zeros(2), np.ones(2)))
    units = ["layer1_for_no_expert0", "layer1_for_no_expert1", "layer1_for_yes_expert0"]
    classes = np.array(["no", "yes"])
    first = ["a", "b", "c", "a²", "c²"]
    assert input_names(with_network(network, ["a", "b", "c"])) == first
    assert inputs_of_layer(network, classes, 1, first) == first
    assert inputs_of_layer(network, classes, 2, first) == [*first, *units]
    assert inputs_of_layer(network, classes, 3, first) == [*units, "layer2_for_no_expert0", "layer2_for_yes_expert0"]
    for layer, width in enumerate(network.n_inputs, 1):
        assert len(inputs_of_layer(network, classes, layer, first)) == width - 1
