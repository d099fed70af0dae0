"""Invariances of a fit: order of rows, weights, scales, labels, cores, files."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import log_loss

from fitted import blobs, fitted, small
from pbdn import ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.errors import FileFormatError
from pbdn.model.network import Network
from pbdn.model.scaling import standard_scaling


def same_network(a: Network, b: Network) -> bool:
    """Equal to the last bit, kept draws included."""

    def sides(network):
        return [s for layer in network.layers for group in (layer.sides, *layer.draws) for s in group]

    mine, theirs = sides(a), sides(b)
    return len(mine) == len(theirs) and all(
        np.array_equal(x.hyperplanes, z.hyperplanes) and np.array_equal(x.expert_weights, z.expert_weights)
        for x, z in zip(mine, theirs, strict=True)
    )


# ------------------------------------------------------------------------------------------ row order


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("sampler", ["first_events", "event_times", "counts"])
def test_row_order_does_not_change_a_bit(sampler, container, rng):
    X, y = blobs(rng)
    X[:10] = X[10:20]  # some rows twice, with contradicting or equal labels
    order = rng.permutation(len(y))
    a = fitted(small(sampler=sampler), container(X), y)
    b = fitted(small(sampler=sampler), container(X[order]), y[order])
    assert same_network(a.network_, b.network_)


def test_column_order_keeps_the_law(rng):
    """Predictions with permuted columns agree within the spread between seeds."""
    X, y = blobs(rng, n=60)
    order = np.array([2, 0, 1])
    point = X[:1]

    def average(columns, seed):
        model = small(max_depth=1, random_state=seed, n_sweeps=60, n_burn_in=20, n_draws=40, prediction="posterior")
        return fitted(model, X[:, columns], y).predict_proba(point[:, columns])[0, 1]

    straight = np.array([average(np.arange(3), seed) for seed in range(12)])
    permuted = np.array([average(order, 100 + seed) for seed in range(12)])
    error = np.sqrt(straight.var(ddof=1) / 12 + permuted.var(ddof=1) / 12)
    assert abs(straight.mean() - permuted.mean()) < 7.0 * error  # t with some 20 degrees of freedom: 1e-6


# -------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("sampler", ["first_events", "event_times", "counts"])
def test_whole_weights_are_repeated_rows(sampler, rng):
    X, y = blobs(rng)
    weights = rng.integers(0, 4, size=len(y))
    weighted = fitted(small(sampler=sampler), X, y, sample_weight=weights)
    repeated = fitted(small(sampler=sampler), np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert same_network(weighted.network_, repeated.network_)


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_weight_zero_is_an_absent_row(inference, rng):
    X, y = blobs(rng)
    keep = rng.random(len(y)) < 0.7
    weighted = fitted(small(inference), X, y, sample_weight=keep.astype(float))
    absent = fitted(small(inference), X[keep], y[keep])
    assert same_network(weighted.network_, absent.network_)


def test_map_weights_enter_the_objective(rng):
    """Whole weights and repeated rows have one objective: the optima agree although minibatches differ."""
    X, y = blobs(rng, n=60)
    weights = rng.integers(1, 4, size=len(y))
    a = fitted(small("map", max_depth=1), X, y, sample_weight=weights).predict_proba(X)
    b = fitted(small("map", max_depth=1), np.repeat(X, weights, axis=0), np.repeat(y, weights)).predict_proba(X)
    np.testing.assert_allclose(a, b, atol=0.1)


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_class_weight_is_a_row_weight(inference, rng):
    X, y = blobs(rng, n_classes=3)
    by_class = fitted(small(inference, class_weight={0: 1, 1: 3, 2: 2}), X, y)
    by_row = fitted(small(inference), X, y, sample_weight=np.array([1, 3, 2])[y])
    assert same_network(by_class.network_, by_row.network_)


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_a_heavier_class_is_predicted_more_often(inference, rng):
    X, y = blobs(rng, n=150, spread=1.5)
    light, heavy = (
        fitted(small(inference, class_weight={0: 1.0, 1: w}), X, y).predict_proba(X)[:, 1].mean() for w in (1, 5.5)
    )
    assert heavy > light + 0.05


# --------------------------------------------------------------------------------------------- scales


@pytest.mark.parametrize("inference", ["gibbs", "map"])
@pytest.mark.parametrize("factor", [1e12, 1e-12])
def test_rescaling_a_column_keeps_the_held_out_log_loss(inference, factor, rng):
    X, y = blobs(rng, n=200)
    train = rng.permutation(200) < 120
    rescaled = X * np.array([1.0, factor, 1.0])
    losses = [
        log_loss(y[~train], fitted(small(inference), Z[train], y[train]).predict_proba(Z[~train]))
        for Z in (X, rescaled)
    ]
    assert abs(losses[0] - losses[1]) < 1e-3


def test_standardisation_is_folded_into_the_network(rng):
    X, y = blobs(rng)
    X = X * [1.0, 50.0, 0.02] + [0.0, 300.0, -5.0]
    model = fitted(small(max_depth=3), X, y)
    scaled = standard_scaling(X).apply(X)
    np.testing.assert_allclose(scaled, (X - X.mean(axis=0)) / X.std(axis=0), atol=1e-9)
    again = fitted(small(max_depth=3, standardize=False), scaled, y)
    assert model.n_experts_ == again.n_experts_
    np.testing.assert_allclose(model.predict_proba(X), again.predict_proba(scaled), atol=1e-6)
    assert not np.allclose(model.layers_[0].sides[0].hyperplanes, again.layers_[0].sides[0].hyperplanes)


# --------------------------------------------------------------------------------------------- labels


def test_flipping_the_labels_swaps_the_sides_of_the_map(rng):
    """One step of Adam from one start: the sides of flipped labels are those of the labels, exchanged in law."""
    X, y = blobs(rng, n=200, spread=0.8)
    a = fitted(small("map", max_depth=1), X, y)
    b = fitted(small("map", max_depth=1), X, 1 - y)
    np.testing.assert_allclose(a.predict_proba(X)[:, 1], b.predict_proba(X)[:, 0], atol=0.15)
    assert np.corrcoef(a.predict_proba(X)[:, 1], b.predict_proba(X)[:, 0])[0, 1] > 0.95


def test_flipping_the_labels_swaps_the_sides_of_the_chains(rng):
    X, y = blobs(rng, n=60)
    point = X[:1]

    def average(labels, column, seed):
        model = small(max_depth=1, random_state=seed, n_sweeps=60, n_burn_in=20, n_draws=40, prediction="posterior")
        return fitted(model, X, labels).predict_proba(point)[0, column]

    straight = np.array([average(y, 1, seed) for seed in range(12)])
    flipped = np.array([average(1 - y, 0, 100 + seed) for seed in range(12)])
    error = np.sqrt(straight.var(ddof=1) / 12 + flipped.var(ddof=1) / 12)
    assert abs(straight.mean() - flipped.mean()) < 7.0 * error


def test_two_classes_are_the_papers_pair(rng):
    X, y = blobs(rng)
    model = fitted(small(prediction="point"), X, y)
    inputs = model.network_.top_inputs(X)
    rate_of_no, rate_of_yes = (
        sum(
            r * np.logaddexp(0.0, inputs @ beta[1:] + beta[0])
            for beta, r in zip(side.hyperplanes, side.expert_weights, strict=True)
        )
        for side in model.network_.top.sides
    )
    expected = 0.5 * ((1.0 - np.exp(-rate_of_yes)) + np.exp(-rate_of_no))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, rtol=1e-9, atol=1e-12)


def test_single_side_is_the_bernoulli_poisson_link(rng):
    X, y = blobs(rng, spread=0.7)
    model = fitted(small(cls=ISHMClassifier, prediction="point"), X, np.array(["no", "yes"])[y])
    (side,) = model.layers_[0].sides
    rate = np.logaddexp(0.0, X @ side.hyperplanes[:, 1:].T + side.hyperplanes[:, 0]) @ side.expert_weights
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1.0 - np.exp(-rate), rtol=1e-9)
    assert model.depth_ == 1
    assert model.n_experts_ == [(side.n_experts,)]
    assert model.score(X, np.array(["no", "yes"])[y]) > 0.8
    # the recorded log-likelihood is that of the labels
    p = model.predict_proba(X)[np.arange(len(y)), y]
    np.testing.assert_allclose(model.criterion_path_[0]["log_likelihood"], np.log(p).sum(), rtol=1e-8)


# -------------------------------------------------------------------------------------- cores, seeds


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_number_of_jobs_does_not_change_a_bit(inference, rng):
    X, y = blobs(rng, n=400, n_classes=3)
    short = {"n_chains": 2, "n_sweeps": 16, "n_burn_in": 8, "n_draws": 8}
    one, two, five = (fitted(small(inference, n_jobs=n, **short), X, y) for n in (1, 2, 5))
    assert same_network(one.network_, two.network_)
    assert same_network(one.network_, five.network_)


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_seeds_decide_the_fit(inference, rng):
    X, y = blobs(rng)
    first, again, other = (fitted(small(inference, random_state=s), X, y) for s in (3, 3, 4))
    assert same_network(first.network_, again.network_)
    assert not same_network(first.network_, other.network_)


# -------------------------------------------------------------------------------------------- saving


@pytest.mark.parametrize(
    ("inference", "more"),
    [
        ("gibbs", {"prediction": "point"}),
        ("gibbs", {"prediction": "posterior", "class_weight": {"a": 1.5, "b": 2}}),
        ("gibbs", {"prediction": "paths", "n_paths": 2}),
        ("map", {}),
    ],
)
def test_save_load_predict_is_bit_equal(inference, more, tmp_path, rng):
    pd = pytest.importorskip("pandas")
    X, y = blobs(rng)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = fitted(small(inference, **more), table, np.array(["a", "b"])[y])
    model.save(tmp_path / "model.pbdn")
    loaded = PBDNClassifier.load(tmp_path / "model.pbdn")
    np.testing.assert_array_equal(model.predict_proba(table), loaded.predict_proba(table))
    np.testing.assert_array_equal(model.transform(table), loaded.transform(table))
    assert same_network(model.network_, loaded.network_)
    assert loaded.get_params() == model.get_params()
    assert list(loaded.feature_names_in_) == ["a", "b", "c"]
    assert loaded.criterion_path_ == model.criterion_path_
    if inference == "gibbs":
        np.testing.assert_array_equal(model.predict_proba_interval(table), loaded.predict_proba_interval(table))
    pd.testing.assert_frame_equal(model.subtypes(table), loaded.subtypes(table))


@pytest.mark.parametrize("labels", [np.array([0, 1]), np.array([False, True]), np.array([1.5, 2.5]) * 2])
def test_labels_survive_a_file(labels, tmp_path, rng):
    X, y = blobs(rng)
    model = fitted(small("map", class_weight={labels[0].item(): 1.0, labels[1].item(): 2.0}), X, labels[y])
    model.save(tmp_path / "m")
    loaded = PBDNClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.class_weight == model.class_weight


def test_one_class_survives_a_file(tmp_path, rng):
    X = rng.normal(size=(5, 2))
    with pytest.warns(UserWarning, match="only one class"):
        model = small().fit(X, ["only"] * 5)
    model.save(tmp_path / "m")
    assert list(PBDNClassifier.load(tmp_path / "m").predict(X)) == ["only"] * 5


def test_files_of_the_other_estimator_and_damaged_files_are_refused(tmp_path, rng):
    X, y = blobs(rng)
    path = tmp_path / "model.pbdn"
    fitted(small("map"), X, y).save(path)
    with pytest.raises(ValueError, match=r"holds a PBDNClassifier; load it with PBDNClassifier\.load"):
        ISHMClassifier.load(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileFormatError):
        PBDNClassifier.load(path)


# --------------------------------------------------------------------------------- posterior intervals


def test_intervals_are_nested_and_hold_the_mean(rng):
    X, y = blobs(rng, n_classes=3)
    model = fitted(small(n_sweeps=100, n_burn_in=40, n_draws=60), X, y)
    draws = model.posterior_predictive_proba(X)
    assert draws.shape == (60, len(y), 3)
    np.testing.assert_allclose(draws.mean(axis=0), model.predict_proba(X), rtol=1e-12)
    narrow, wide = model.predict_proba_interval(X, 0.5), model.predict_proba_interval(X, 0.9)
    assert narrow.shape == (len(y), 3, 2)
    assert np.all(wide[..., 0] <= narrow[..., 0])
    assert np.all(narrow[..., 1] <= wide[..., 1])
    assert np.all(narrow[..., 0] <= narrow[..., 1])
    p = model.predict_proba(X)
    assert np.mean((wide[..., 0] <= p) & (p <= wide[..., 1])) > 0.9
    np.testing.assert_allclose(wide, np.moveaxis(np.quantile(draws, [0.05, 0.95], axis=0), 0, -1), rtol=1e-12)
    for level in (0.0, 1.0, 95):
        with pytest.raises(ValueError, match="level="):
            model.predict_proba_interval(X, level)


def test_paths_average_runs_that_pass_a_draw_upward(rng):
    X, y = blobs(rng)
    model = fitted(small(prediction="paths", n_paths=3), X, y)
    assert len(model.paths_) == 3
    assert all(path.depth == model.depth_ for path in model.paths_)
    assert not same_network(model.paths_[0], model.paths_[1])
    expected = np.mean([path.predict_mean(X) for path in model.paths_], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-12)
    n_draws = sum(len(path.top.draws) for path in model.paths_)
    assert model.posterior_predictive_proba(X).shape == (n_draws, len(y), 2)


# ------------------------------------------------------------------------------------- which inference


def test_auto_is_map_and_has_intervals_from_the_folds(rng):
    X, y = blobs(rng, n=60)
    X3, y3 = blobs(rng, n=60, n_classes=3)
    for rows, labels in ((X, y), (X3, y3)):
        model = fitted(small("folds", max_depth=1), rows, labels)
        assert (model.inference_, model.config_.criterion) == ("map", "folds")
        ends = model.predict_proba_interval(rows, 0.9)
        p = model.predict_proba(rows)
        assert ((ends[..., 0] <= p) & (p <= ends[..., 1])).all()
        with pytest.raises(ValueError, match=r"inference='map' keeps no posterior draws.*map\+gibbs"):
            model.posterior_predictive_proba(rows)
    one = fitted(small("folds", max_depth=1, map_config=MapConfig(n_minibatches=40, n_members=1)), X, y)
    ends = one.predict_proba_interval(X)
    assert ((ends[..., 0] <= one.predict_proba(X)) & (one.predict_proba(X) <= ends[..., 1])).all()
    grown = fitted(small("map", max_depth=1), X, y)
    with pytest.raises(ValueError, match=r"inference='map' keeps no posterior draws.*map\+gibbs"):
        grown.predict_proba_interval(X)
    asked = fitted(small("folds", max_depth=1, prediction="posterior"), X, y)
    assert asked.inference_ == "map+gibbs"
    assert asked.predict_proba_interval(X).shape == (60, 2, 2)
