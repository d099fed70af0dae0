"""Learning batch by batch: what is kept between calls, what changes the depth, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from pbdn import (
    ISHMClassifier,
    MapConfig,
    PBDNAmountRegressor,
    PBDNClassifier,
    PBDNCountRegressor,
    PBDNOrdinalClassifier,
    PBDNRegressor,
    PBDNSurvival,
)
from pbdn.data.row_source import ArraySource
from pbdn.errors import InvalidInputError
from pbdn.model.labelling import flipped, for_each_class
from pbdn.model.network import Side
from pbdn.model.scaling import standard_scaling
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.online import IncrementalLayer

CONFIG = MapConfig(prune_every=40)


def xor(rng, n_rows=1500):
    X = rng.normal(size=(n_rows, 2))
    return X * [0.01, 300.0] + [5.0, -1000.0], (X[:, 0] * X[:, 1] < 0).astype(int)


def model(seed, **changes):
    settings = {"inference": "map", "random_state": seed % 2**31, "max_experts": 6, "map_config": CONFIG}
    return PBDNClassifier(**settings | changes)


def taught(estimator, X, y, n_passes, size=250):
    for _ in range(n_passes):
        for a in range(0, len(y), size):
            estimator.partial_fit(X[a : a + size], y[a : a + size], classes=[0, 1])
    return estimator


def test_batches_teach_what_no_hyperplane_can_say(rng, seed):
    X, y = xor(rng)
    learner = model(seed)
    taught(learner, X, y, 1)
    early = learner.score(X, y)
    taught(learner, X, y, 60)
    assert learner.score(X, y) > 0.85
    assert learner.score(X, y) > early
    assert learner.depth_ == 1
    assert all(1 <= k <= 6 for k in learner.n_experts_[0])


def test_calls_are_bound_by_state_not_by_luck(rng, seed):
    """Same batches, same model; moments count, so a restart in between gives another one."""
    X, y = xor(rng)
    first, second = (taught(model(seed), X, y, 2) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    first.partial_fit(X[:250], y[:250])
    second._increment = None  # as after load: parameters stay, moments start again
    second.partial_fit(X[:250], y[:250])
    assert not np.array_equal(first.predict_proba(X), second.predict_proba(X))


def test_depth_changes_only_when_told(rng, seed):
    X, y = xor(rng)
    learner = taught(model(seed), X, y, 20)
    below = learner.layers_[0].sides
    learner.grow()
    assert learner.depth_ == 1  # nothing happens before the next batch
    taught(learner, X, y, 20)
    assert learner.depth_ == 2
    widths = [side.n_experts for side in below]
    assert learner.n_experts_[0] == tuple(widths)
    for before, after in zip(below, learner.layers_[0].sides, strict=True):
        np.testing.assert_allclose(np.sort(after.expert_weights), np.sort(before.expert_weights), rtol=1e-12)
    assert learner.layers_[1].sides[0].hyperplanes.shape[1] == 1 + 2 + sum(widths)
    assert learner.score(X, y) > 0.85


def test_training_goes_on_after_fit_and_load(rng, seed, tmp_path):
    X, y = xor(rng)
    X, y = X[:500], y[:500]
    fitted = model(seed, max_depth=1, map_config=replace(CONFIG, n_minibatches=80)).fit(X, y)
    fitted.save(tmp_path / "model.pbdn")
    loaded = PBDNClassifier.load(tmp_path / "model.pbdn")
    for learner in (fitted, loaded):
        before = learner.predict_proba(X)
        learner.partial_fit(X[:200], y[:200])
        after = learner.predict_proba(X)
        assert not np.array_equal(before, after)
        assert np.abs(after - before).max() < 0.3  # two Adam steps do not start from nothing
    assert not hasattr(clone(fitted), "classes_")
    fitted.fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba(X), before, atol=1e-12)  # a new fit forgets the steps


@pytest.mark.parametrize("after", ["fit", "load"])
def test_growth_after_fit_and_load_starts_a_layer_on_top(after, rng, seed, tmp_path):
    X, y = xor(rng, 300)
    learner = model(seed, max_depth=1, map_config=replace(CONFIG, n_minibatches=80)).fit(X, y)
    if after == "load":
        learner.save(tmp_path / "model.pbdn")
        learner = PBDNClassifier.load(tmp_path / "model.pbdn")
    below = learner.network_.summed().top.sides  # what goes on is one network
    learner.grow()
    assert learner.depth_ == 1
    learner.partial_fit(X, y)
    assert learner.depth_ == 2
    for before, now in zip(below, learner.layers_[0].sides, strict=True):
        np.testing.assert_allclose(now.hyperplanes, before.hyperplanes, rtol=1e-8)
        np.testing.assert_array_equal(now.expert_weights, before.expert_weights)
    assert learner.layers_[1].sides[0].hyperplanes.shape[1] == 1 + learner.network_.n_expanded + sum(
        learner.n_experts_[0]
    )
    learner.partial_fit(X, y)
    assert learner.depth_ == 2  # asked for once


def test_no_criterion_is_asked(rng, seed):
    """Depth changes when told to, so a criterion that needs rows to keep back is no hindrance."""
    X, y = xor(rng, 40)
    learner = model(seed, criterion="holdout").partial_fit(X, y, classes=[0, 1])
    assert learner.depth_ == 1
    assert learner.config_.map.max_experts == 6


@pytest.mark.filterwarnings("ignore:The criterion was still falling")
def test_unfolding_is_the_inverse_of_folding(rng, seed):
    X, y = xor(rng)
    fitted = model(seed, max_depth=2, map_config=replace(CONFIG, n_minibatches=80)).fit(X, y)
    scaling = standard_scaling(X[:100])
    scaled = scaling.unfold(fitted.network_)
    np.testing.assert_allclose(scaled.predict(scaling.apply(X)), fitted.network_.predict(X), rtol=1e-7, atol=1e-8)


def test_weight_two_is_the_row_twice(rng, seed):
    """One step on the whole batch, so that the order of rows plays no part."""
    X, y = xor(rng, 60)
    config = replace(CONFIG, batch_size=10**6)
    weighted = model(seed, map_config=config).partial_fit(X, y, classes=[0, 1], sample_weight=np.full(60, 2.0))
    doubled = model(seed, map_config=config).partial_fit(np.repeat(X, 2, axis=0), np.repeat(y, 2), classes=[0, 1])
    np.testing.assert_allclose(weighted.predict_proba(X), doubled.predict_proba(X), rtol=1e-9)


def test_pruning_needs_evidence_and_steps(rng, seed):
    """Experts too weak to be active go once enough steps have passed; a side without a positive row keeps its own."""
    inputs = rng.normal(size=(400, 3))
    source = ArraySource(inputs, np.zeros(400, int), classes=[0, 1], sparse_below=0.0)
    side = Side(rng.normal(size=(3, 4)), np.array([1.0, 1e-9, 0.5]))
    settings = MapSettings(prune_every=10, learning_rate=1e-6)
    layer = IncrementalLayer(source, for_each_class(2), 1, settings, seed, (side, side))
    for _ in range(2):
        layer.learn(source)
    assert [s.n_experts for s in layer.sides] == [3, 3]  # 8 steps so far
    layer.learn(source)
    assert [s.n_experts for s in layer.sides] == [2, 3]
    np.testing.assert_allclose(layer.sides[0].expert_weights, [1.0, 0.5], rtol=1e-3)
    layer.learn(source)  # moments of the survivors fit their new places
    assert layer.n_rows == 1600
    assert layer.trainer.source.n_rows == 0  # no rows are kept


def test_what_is_refused(rng, seed):
    X, y = xor(rng, 50)
    with pytest.raises(InvalidInputError, match="classes must be passed on the first call"):
        model(seed).partial_fit(X, y)
    with pytest.raises(InvalidInputError, match="at least two"):
        model(seed).partial_fit(X, np.zeros(50), classes=[0])
    with pytest.raises(InvalidInputError, match="exactly two"):
        ISHMClassifier(inference="map").partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(InvalidInputError, match="balanced"):
        model(seed, class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    learner = model(seed).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(InvalidInputError, match="not among the classes"):
        learner.partial_fit(X, y + 1)
    with pytest.raises(InvalidInputError, match="not the same as on the last call"):
        learner.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="features"):
        learner.partial_fit(X[:, :1], y)
    with pytest.raises(InvalidInputError, match="one layer"):
        ISHMClassifier(inference="map").partial_fit(X, y, classes=[0, 1]).grow()


@pytest.mark.parametrize("inference", ["gibbs", "map+gibbs"])
def test_gibbs_has_no_partial_fit(inference):
    learner = PBDNClassifier(inference=inference)
    assert not hasattr(learner, "partial_fit")
    assert not hasattr(learner, "grow")
    with pytest.raises(AttributeError, match="partial_fit"):
        learner.partial_fit([[0.0]], [0])


def test_classes_that_come_late(rng, seed):
    """Four declared classes of which every chunk has one, and one never comes: all chunks are learnt from."""
    centres = 4.0 * np.array([[0, 1], [1, -1], [-1, -1], [0, 0]])
    learner = model(seed, max_experts=4, map_config=MapConfig(batch_size=20, learning_rate=0.05))
    parts = []
    for chunk in range(90):
        label = chunk % 3
        parts.append((centres[label] + rng.normal(size=(40, 2)), np.full(40, label)))
        learner.partial_fit(*parts[-1], classes=[0, 1, 2, 9])
    X, y = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    p = learner.predict_proba(X)
    assert list(learner.classes_) == [0, 1, 2, 9]
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-12)
    assert len(set(learner.predict(X).tolist())) > 1
    assert np.mean(p[:, 3]) < 0.25
    assert np.mean(p[np.arange(len(y)), y]) > 1 / 3


# Values on a line: the same calls, one more number per expert.


def bent(rng, n_rows=1000):
    """A roof over one of two columns of very different scale, with noise a tenth as wide; in units of a thousand."""
    X = rng.normal(size=(n_rows, 2))
    return X * [0.01, 300.0] + [5.0, -1000.0], 1000.0 * (3.0 - np.abs(X[:, 0]) + 0.1 * rng.normal(size=n_rows))


def said(kind, y):
    """The same numbers as every response tells them."""
    if kind is PBDNOrdinalClassifier:
        return np.digitize(y, [2000.0, 2500.0])
    if kind is PBDNCountRegressor:
        return np.maximum(y // 100.0, 0.0)
    if kind is PBDNAmountRegressor:
        return np.maximum(y - 2000.0, 0.0)
    if kind is PBDNSurvival:
        time = np.maximum(y, 1.0)
        return np.array(list(zip(time < 2700.0, np.minimum(time, 2700.0), strict=True)), "?,f8")
    return y


def line_model(seed, kind=PBDNRegressor, **changes):
    settings = {"inference": "map", "random_state": seed % 2**31, "max_experts": 5}
    return kind(**settings | {"map_config": MapConfig(learning_rate=0.03, prune_every=40, batch_size=50)} | changes)


def told(learner, X, y, n_passes, size=250):
    more = {"classes": [0, 1, 2]} if isinstance(learner, PBDNOrdinalClassifier) else {}
    for _ in range(n_passes):
        for a in range(0, len(X), size):
            learner.partial_fit(X[a : a + size], y[a : a + size], **more)
    return learner


def quality(learner, X, y):
    if isinstance(learner, PBDNOrdinalClassifier):
        return float(np.log(learner.predict_proba(X)[np.arange(len(y)), y]).mean())
    return learner.log_score(X, y)


@pytest.mark.parametrize(
    "kind", [PBDNRegressor, PBDNOrdinalClassifier, PBDNCountRegressor, PBDNSurvival, PBDNAmountRegressor]
)
def test_batches_teach_values_of_every_kind(kind, rng, seed, tmp_path):
    """Batches of a stream make other rows likelier; the model is one like any other, and goes on after load."""
    X, y = bent(rng)
    y = said(kind, y)
    learner = told(line_model(seed, kind), X[:750], y[:750], 1)
    early = quality(learner, X[750:], y[750:])
    told(learner, X[:750], y[:750], 14)
    late = quality(learner, X[750:], y[750:])
    assert late > early
    learner.save(tmp_path / "model.pbdn")
    loaded = kind.load(tmp_path / "model.pbdn")
    np.testing.assert_array_equal(loaded.predict(X), learner.predict(X))
    told(loaded, X[:250], y[:250], 1)
    assert not np.array_equal(loaded.transform(X), learner.transform(X))
    assert quality(loaded, X[750:], y[750:]) > early  # goes on where it was


def test_a_second_layer_of_batches_says_what_one_cannot(rng, seed):
    """A roof is one thing for the side of low values, and another for that of high ones, until they see each other's units."""
    X, y = bent(rng)
    learner = told(line_model(seed), X, y, 20)
    alone, below = learner.score(X, y), learner.layers_[0].sides
    assert learner.depth_ == 1
    told(learner.grow(), X, y, 20)
    assert learner.depth_ == 2
    assert learner.score(X, y) > max(0.9, alone)
    low, high = learner.predict_interval(X, 0.8).T
    assert 0.6 < np.mean((low < y) & (y < high)) < 0.97
    for before, after in zip(below, learner.layers_[0].sides, strict=True):
        np.testing.assert_allclose(np.sort(after.time_coefs), np.sort(before.time_coefs), rtol=1e-12)


def test_batches_of_numbers_are_bound_by_state(rng, seed):
    X, y = bent(rng, 500)
    first, second = (told(line_model(seed), X, y, 2) for _ in range(2))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    first.partial_fit(X[:250], y[:250])
    second._increment = None  # as after load: parameters stay, moments start again
    second.partial_fit(X[:250], y[:250])
    assert not np.array_equal(first.predict(X), second.predict(X))


def test_steps_go_on_after_a_fit(rng, seed):
    """Of numbers, and of one value only, which a batch of others makes forget."""
    X, y = bent(rng, 200)
    short = MapConfig(n_minibatches=60, n_members=2)
    fitted = line_model(seed, max_depth=1, map_config=short).fit(X, y)
    before, layout = fitted.predict(X), fitted.network_.response
    fitted.partial_fit(X, y)
    assert fitted.network_.response == layout
    assert 0.0 < np.abs(fitted.predict(X) - before).max() < y.std()
    with pytest.warns(UserWarning, match="only one value"):
        constant = line_model(seed).fit(X, np.full(200, 7.0))
    assert told(constant, X, y, 4).predict(X).std() > 0.1 * y.std()


def test_values_beyond_those_of_the_first_batch_count(rng, seed):
    """Means of counts reach as far as values seen in any batch."""
    X = rng.normal(size=(400, 1))
    y = np.concatenate([rng.poisson(3.0, 200), rng.poisson(300.0, 200)])
    learner = line_model(seed, PBDNCountRegressor).partial_fit(X[:200], y[:200])
    before = learner.network_.response
    learner.partial_fit(X[200:], y[200:])
    after = learner.network_.response
    assert after == replace(before, reach=after.reach)
    assert after.reach > after.to_line(y.max() + 1.0) > before.reach


def test_weight_two_is_the_value_twice(rng, seed):
    X, y = bent(rng, 60)
    config = MapConfig(batch_size=10**6)
    weighted = line_model(seed, map_config=config).partial_fit(X, y, np.full(60, 2.0))
    doubled = line_model(seed, map_config=config)
    doubled.partial_fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert weighted.network_.response.center == pytest.approx(doubled.network_.response.center)
    one = ArraySource(X, np.column_stack([y, y]) / 1000.0, weights=np.full(60, 2.0))
    two = ArraySource(np.repeat(X, 2, axis=0), np.repeat(np.column_stack([y, y]) / 1000.0, 2, axis=0))
    side = Side(0.1 * rng.normal(size=(2, 3)) * [1.0, 1.0, 0.001], np.ones(2), np.ones(2))
    layers = []
    for source in (one, two):
        layer = IncrementalLayer(source, for_each_class(2), 1, MapSettings(batch_size=10**6), seed, (side, side))
        layer.learn(source)
        layers.append(layer.sides)
    for a, b in zip(*layers, strict=True):
        np.testing.assert_allclose(a.hyperplanes, b.hyperplanes, rtol=1e-8)
        np.testing.assert_allclose(a.time_coefs, b.time_coefs, rtol=1e-8)


def test_experts_of_values_leave_by_the_exact_rule(rng, seed):
    """P(no event of an expert) by brute force over which expert the first point is of; weak experts go after enough steps."""
    inputs = rng.normal(size=(300, 2))
    u = rng.normal(size=300)
    bounds = np.column_stack([u, u])
    bounds[:40] = np.column_stack([u[:40] - 0.5, u[:40] + 0.5])
    bounds[40:60, 1] = np.inf
    bounds[60:80, 0] = -np.inf
    source = ArraySource(inputs, bounds, weights=rng.integers(1, 3, 300).astype(float))
    side = Side(rng.normal(size=(3, 3)), np.array([1.0, 1e-9, 0.5]), np.array([1.0, 2.0, 0.5]))
    layer = IncrementalLayer(
        source, for_each_class(2), 1, MapSettings(prune_every=8, learning_rate=1e-6), seed, (side,) * 2
    )
    log_inactive, weight = layer.trainer.evidence(source)
    for s, said_here in enumerate((bounds, flipped(bounds))):
        psi = side.hyperplanes[:, 0] + inputs @ side.hyperplanes[:, 1:].T
        expected = np.zeros(3)
        for i, (low, high) in enumerate(said_here):
            if np.isinf(high):
                continue
            if low == high:
                hazard = side.expert_weights * side.time_coefs / (1.0 + np.exp(-(psi[i] + side.time_coefs * high)))
                p = 1.0 - hazard / hazard.sum()
            else:
                added = side.expert_weights * np.log1p(np.exp(psi[i] + side.time_coefs * high))
                if np.isfinite(low):
                    added = added - side.expert_weights * np.log1p(np.exp(psi[i] + side.time_coefs * low))
                p = (np.exp(-added) - np.exp(-added.sum())) / -np.expm1(-added.sum())
            expected += source.block.weights[i] * np.log(p)
        np.testing.assert_allclose(log_inactive[3 * s : 3 * s + 3], expected, rtol=1e-6)
        assert weight[s] == source.block.weights[np.isfinite(said_here[:, 1])].sum()
    for _ in range(3):
        layer.learn(source)
    assert [one.n_experts for one in layer.sides] == [2, 2]


def test_refusals_come_in_order_and_change_nothing(rng, seed):
    """Parameters, then the target, rows, lengths, values; a refused batch leaves the model as it was."""
    X, y = bent(rng, 100)
    for given, match in [
        ({"log": "maybe"}, "log='maybe'"),
        ({"max_experts": 0}, "max_experts"),
    ]:
        with pytest.raises(InvalidInputError, match=match):
            line_model(seed, **given).partial_fit(None, None)
    with pytest.raises(ValueError, match="requires y"):
        line_model(seed).partial_fit(None, None)
    with pytest.raises(ValueError, match="X has 0 dimension"):
        line_model(seed).partial_fit(None, y[:3])
    with pytest.raises(ValueError, match="inconsistent"):
        line_model(seed).partial_fit(X, np.full(3, np.nan))
    with pytest.raises(ValueError, match="NaN"):
        line_model(seed).partial_fit(X, np.full(100, np.nan))
    with pytest.raises(InvalidInputError, match="upper bound"):
        line_model(seed).partial_fit(X, np.column_stack([y, np.full(100, np.inf)]))
    learner = line_model(seed, log=True).partial_fit(X, np.abs(y) + 1.0)
    before = learner.predict(X)
    with pytest.raises(InvalidInputError, match="only values above 0"):
        learner.partial_fit(X, -np.abs(y))
    with pytest.raises(ValueError, match="features"):
        learner.partial_fit(X[:, :1], y)
    np.testing.assert_array_equal(learner.predict(X), before)
    assert not hasattr(line_model(seed, inference="auto"), "partial_fit")
    with pytest.raises(InvalidInputError, match="classes must be passed on the first call"):
        line_model(seed, PBDNOrdinalClassifier).partial_fit(X, said(PBDNOrdinalClassifier, y))
    with pytest.raises(InvalidInputError, match="above zero"):
        line_model(seed, PBDNAmountRegressor).partial_fit(X, np.zeros(100))
    with pytest.raises(InvalidInputError, match="one cause"):
        line_model(seed, PBDNSurvival).partial_fit(X, np.array([(2, 1.0)] * 100, "i8,f8"))


def test_grades_keep_their_order_in_batches(rng, seed):
    X, y = bent(rng, 500)
    names = np.array(["small", "medium", "large"])
    grades = names[np.digitize(y, [2000.0, 2500.0])]
    learner = line_model(seed, PBDNOrdinalClassifier, categories=names)
    for _ in range(8):
        learner.partial_fit(X, grades)
    assert learner.classes_.tolist() == names.tolist()
    assert learner.score(X, grades) > 0.6
    with pytest.raises(InvalidInputError, match="not among the classes"):
        learner.partial_fit(X, np.where(grades == "small", "tiny", grades))
