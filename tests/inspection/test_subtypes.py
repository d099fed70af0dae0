"""What a fitted network says: subtypes, votes, hidden units, Theorem 1."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from estimators.small import blobs, fitted, small
from pbdn import ISHMClassifier
from pbdn.inspection.access import side_names
from pbdn.inspection.subtypes import polytope_limits, violations
from pbdn.model.network import Side


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
                assert (row["layer"], str(row["side"]), row["expert"]) == (t + 1, str(label), k)
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
    first = table[(table["side"] == model.classes_[0]) & (table["expert"] == 0)].iloc[0]
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
    with pytest.raises(ValueError, match="p0=1.0 must lie strictly between 0 and 1"):
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
