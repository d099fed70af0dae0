"""One network of several classes that is trained the long way, beside those of the folds."""

from dataclasses import replace

import numpy as np
import pytest

from pbdn import MapConfig, PBDNClassifier
from pbdn.config import resolve
from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth import long_way
from pbdn.growth.holdout import deal_into_folds, deviance_of_shares
from pbdn.growth.long_way import trained_long
from pbdn.growth.run import Run, StopSignal
from pbdn.growth.search import Search
from pbdn.growth.views import make_views
from pbdn.model.committee import committee
from pbdn.model.network import Network
from pbdn.model.response import response_for_classes

RESPONSE = response_for_classes(3)


def triangles(rng, n=360):
    """Three classes that sit in pairs of opposite sixths of the plane: no layer of hyperplanes alone tells them apart."""
    angle, radius = rng.uniform(0, 2 * np.pi, n), rng.uniform(0.5, 2.0, n)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return X, (angle // (np.pi / 3)).astype(int) % 3


def settings_of(n_steps=60, **more):
    return resolve(
        RESPONSE,
        inference="map",
        criterion="folds",
        max_depth=2,
        max_experts=4,
        priors=None,
        gibbs_config=None,
        map_config=MapConfig(n_minibatches=n_steps, **more),
        n_rows=360,
        n_features=2,
    )


def two_layers(rng, curved=False, run=None, config=None):
    """A search on triangles, and networks of its folds that are two layers deep and hardly trained."""
    X, y = triangles(rng)
    rows = LabelledRows(X, y)
    folds = deal_into_folds(rows, RESPONSE)
    search = Search(
        RESPONSE, config or settings_of(), Run(seed=3) if run is None else run, [folds == f for f in range(5)]
    )
    stage = search.begin(make_views(rows, curved, 3)[0])
    for _ in range(2):
        stage = search.after(stage, search.new_layer(stage)._replace(n_steps=5))
    return search, stage


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(long_way, "MUCH_OPEN", np.inf)


def model(**more):
    config = MapConfig(n_minibatches=400, curved=False, **more.pop("map_config", {}))
    return PBDNClassifier(criterion="folds", map_config=config, max_experts=6, max_depth=2, random_state=1, **more)


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
def test_classes_told_well_apart_are_averaged_with_a_network_that_took_the_long_way(rng, monkeypatch, tmp_path):
    X, y = triangles(rng)
    found = model().fit(X, y).network_
    assert (found.depth, found.folds.n_members) == (2, 5)
    monkeypatch.setattr(long_way, "MUCH_OPEN", 0.0)
    short = model().fit(X, y).network_
    members = found.predict_members(X)
    np.testing.assert_allclose(members[1:], short.predict_members(X)[: found.n_members - 1], atol=1e-12)
    np.testing.assert_allclose(found.predict_folds(X), short.predict_folds(X), atol=1e-12)
    assert np.abs(members[0] - members[1:]).max(axis=(1, 2)).min() > 0.1
    again = model()
    monkeypatch.undo()
    again.fit(X, y)
    np.testing.assert_array_equal(again.network_.predict(X), found.predict(X))
    again.save(tmp_path / "long.pbdn")
    np.testing.assert_array_equal(
        PBDNClassifier.load(tmp_path / "long.pbdn").predict_proba_interval(X), again.predict_proba_interval(X)
    )
    low, high = np.moveaxis(again.predict_proba_interval(X), -1, 0)
    assert ((low <= again.predict_proba(X)) & (again.predict_proba(X) <= high)).all()


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("curved", [True, False])
def test_it_is_as_deep_as_those_of_the_folds_and_sees_no_squares(curved, rng):
    search, stage = two_layers(rng, curved)
    network = trained_long(search, stage)
    assert network.depth == stage.depth == 2
    first = np.concatenate([side.hyperplanes for side in network.layers[0].sides])
    assert first.shape[1] == 1 + stage.view.rows.n_features == 1 + 2 + 2 * curved
    assert first[:, 1:3].any(axis=0).all()
    assert not first[:, 3:].any()
    assert np.isfinite(network.predict(stage.view.rows.inputs)).all()


@pytest.mark.usefixtures("always")
def test_it_learns_more_than_networks_that_took_few_steps(rng):
    search, stage = two_layers(rng, config=settings_of(1500))
    network = trained_long(search, stage)
    rows = stage.view.rows
    losses = RESPONSE.losses(network.top, network.top_inputs(rows.inputs), rows.targets)
    assert losses.sum() < 0.5 * stage.deviance


def test_it_is_left_out_where_it_does_not_pay(rng, monkeypatch):
    search, stage = two_layers(rng)
    kept = np.logical_or.reduce(search.held)
    share = stage.deviance / deviance_of_shares(stage.view.rows, kept, 3)
    monkeypatch.setattr(long_way, "MUCH_OPEN", 0.99 * share)
    assert trained_long(search, stage) is None
    monkeypatch.setattr(long_way, "MUCH_OPEN", 1.01 * share)
    assert trained_long(search, stage) is not None
    with monkeypatch.context() as patch:
        patch.setattr(long_way, "FEWEST_ROWS", 361)
        assert trained_long(search, stage) is None
    monkeypatch.setattr(long_way, "MOST_NUMBERS", 360 * 2 * 6 - 1)
    assert trained_long(search, stage) is None


@pytest.mark.usefixtures("always")
def test_beside_networks_of_one_layer_it_has_two(rng):
    """Those of one layer stand on an empty one then, and say the same; who allows one layer only gets no network more."""
    X, y = triangles(rng)
    rows = LabelledRows(X, y)
    folds = deal_into_folds(rows, RESPONSE)
    search = Search(RESPONSE, settings_of(), Run(seed=3), [folds == f for f in range(5)])
    begun = search.begin(make_views(rows, True, 3)[0])
    stage = search.after(begun, search.new_layer(begun))
    assert trained_long(replace(search, config=replace(search.config, max_depth=1)), stage) is None
    long = trained_long(search, stage)
    flat = [Network(layers, stage.view.rows.n_features, RESPONSE) for layers in stage.stacks[:2]]
    both, X = committee([long, *flat]), stage.view.rows.inputs
    assert (both.depth, [one.depth for one in flat]) == (2, [1, 1])
    for member, own in zip(both.predict_members(X), [long, *flat], strict=True):
        np.testing.assert_allclose(member, own.predict(X), rtol=1e-12)
    assert both.layers[0].n_experts == long.layers[0].n_experts


@pytest.mark.usefixtures("always")
def test_who_wants_squares_or_no_polish_does_not_get_it(rng):
    assert settings_of(curved=True).alone is None
    search, stage = two_layers(rng, config=settings_of(polish=False))
    assert trained_long(search, stage) is None


@pytest.mark.usefixtures("always")
def test_it_is_left_out_when_the_time_is_up(rng):
    """Before it begins, while it grows, and while it is polished."""
    looks = 0

    def clock():
        nonlocal looks
        looks += 1
        return float(looks > limit)

    limit = 10**9
    run = Run(seed=3, stop=StopSignal(deadline=0.5, clock=clock))
    search, stage = two_layers(rng, run=run)
    looks = 0
    assert trained_long(search, stage) is not None
    whole = looks
    for share in (0.0, 0.3, 0.6, 0.9):
        looks, limit = 0, int(share * whole)
        assert trained_long(search, stage) is None


def test_shares_alone_say_as_much_as_their_entropy(rng):
    codes = np.repeat([0, 1, 2], [10, 20, 70])
    rows = LabelledRows(rng.normal(size=(100, 1)), codes)
    kept = np.arange(100) % 10 == 0
    expected = -2.0 * sum(np.log(np.bincount(codes)[codes[i]] / 100) for i in np.flatnonzero(kept))
    assert deviance_of_shares(rows, kept, 3) == pytest.approx(expected)
    weights = rng.integers(1, 4, size=100)
    copies = np.repeat(np.arange(100), weights)
    weighted = deviance_of_shares(LabelledRows(rows.inputs, codes, weights.astype(float)), kept, 3)
    repeated = deviance_of_shares(LabelledRows(rows.inputs[copies], codes[copies]), kept[copies], 3)
    assert weighted == pytest.approx(repeated)


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
def test_an_interrupted_fit_goes_on_to_the_same_bits(rng, monkeypatch, tmp_path):
    monkeypatch.setattr("pbdn.growth.checkpoint.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("pbdn.growth.checkpoint.COST_SHARE", np.inf)
    X, y = triangles(rng)
    straight = model().fit(X, y)

    def killed(*arguments, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pbdn.growth.holdout.polish", killed)
        with pytest.raises(KeyboardInterrupt):
            model(checkpoint=tmp_path / "c").fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr("pbdn.growth.engines.fit_map", killed)  # the layers of the long way are in the file
        resumed = model(checkpoint=tmp_path / "c").fit(X, y)
    np.testing.assert_array_equal(resumed.predict_proba(X), straight.predict_proba(X))
