"""Learning batch by batch: what is kept between calls, what changes the depth, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from pbdn import ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.data.row_source import ArraySource
from pbdn.errors import InvalidInputError
from pbdn.model.labelling import for_each_class
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
    fitted = model(seed, max_depth=1, map_config=replace(CONFIG, n_minibatches=300)).fit(X, y)
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
    learner = model(seed, max_depth=1, map_config=replace(CONFIG, n_minibatches=300)).fit(X, y)
    if after == "load":
        learner.save(tmp_path / "model.pbdn")
        learner = PBDNClassifier.load(tmp_path / "model.pbdn")
    below = learner.layers_[0].sides
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
    fitted = model(seed, max_depth=2, map_config=replace(CONFIG, n_minibatches=300)).fit(X, y)
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
