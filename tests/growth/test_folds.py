"""Networks of folds: what the rows kept back decide, what is averaged, and what does not matter."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from folds import RESPONSE, config_of, fitted, half_planes, model, rings, trainee_of
from pbdn import MapConfig, PBDNClassifier, PBDNRegressor
from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth import committee, views
from pbdn.growth.committee import PENALTY_OF_FOLD, SEARCH_STEPS, _without_failures, grow_committee
from pbdn.growth.holdout import folds_of_rows
from pbdn.growth.run import Run
from pbdn.growth.search import FIRST_PENALTY, Search, Stage, Step, first_layer
from pbdn.growth.sharpening import sharpened
from pbdn.growth.trainee import Trainee
from pbdn.growth.trimming import (
    Limit,
    smaller,
)
from pbdn.growth.views import make_views
from pbdn.model.network import Layer, Network, Side


def test_a_ring_bends_the_first_layer_and_a_half_plane_does_not(rng):
    ring, plane = fitted(model(max_depth=1), *rings(rng)), fitted(model(max_depth=1), *half_planes(rng))
    assert ring.network_.curve is not None
    assert plane.network_.curve is None
    X, y = rings(rng)
    assert ring.score(X, y) > 0.97
    flat = fitted(model(max_depth=1, curved=False), X, y)
    assert flat.network_.curve is None


def stairs(rng, n=2000):
    """Log-odds that jump along the first feature, up and down again."""
    X = rng.normal(size=(n, 3))
    height = np.select([X[:, 0] < -0.8, X[:, 0] < -0.2, X[:, 0] < 0.4, X[:, 0] < 1.0], [-3.0, 3.0, -3.0, 3.0], -3.0)
    return X, (height + rng.logistic(size=n) > 0).astype(int)


@pytest.mark.parametrize("said_by", ["one square", "a saddle"])
def test_squares_of_few_features_are_found_among_many(rng, said_by):
    """At the first look forty squares say less than nothing; trained on without noise, with a stretch, the few that matter show."""
    X, new = rng.normal(size=(240, 40)), rng.normal(size=(2000, 40))
    odds = {
        "one square": lambda X: 2.0 * (X[:, 0] ** 2 - 1.0),
        "a saddle": lambda X: 2.0 * (X[:, 0] ** 2 - X[:, 1] ** 2),
    }[said_by]
    y = (rng.random(240) < expit(odds(X))).astype(int)
    model = PBDNClassifier(random_state=0).fit(X, y)
    assert model.network_.curve is not None
    share, p = expit(odds(new)), model.predict_proba(new)
    loss = -(share * np.log(p[:, 1]) + (1.0 - share) * np.log(p[:, 0])).mean()
    assert loss < 0.55  # 0.69 says nothing; the truths have 0.44 and 0.41


@pytest.mark.parametrize("n_rows", [300, 2000])
def test_stairs_take_ramps(rng, n_rows):
    """What one feature does in jumps, no hyperplane and no square can follow; ramps that do little are left out."""
    X, y = stairs(rng, n_rows)
    new, truth = stairs(rng)
    ramps, flat = fitted(model(max_depth=1), X, y), fitted(model(max_depth=1, curved=False), X, y)
    assert ramps.network_.curve.ramps
    tried = [one for one in ramps.trials_ if one["ramps"]]
    assert tried[-1]["kept"]
    assert ramps.network_.curve.n_bent <= tried[-1]["ramps"] < 0.7 * tried[0]["ramps"]  # many bends do nothing
    assert log_loss(truth, ramps.predict_proba(new)) < log_loss(truth, flat.predict_proba(new)) - 0.05
    assert np.count_nonzero(ramps.network_.curve.columns == 0) > np.count_nonzero(ramps.network_.curve.columns == 1)
    used = np.concatenate([side.hyperplanes[:, 4:] for side in ramps.network_.top.sides])
    assert used.any(axis=0).all()
    assert np.count_nonzero(used) < 0.8 * used.size


def test_deep_networks_beat_ramps_that_won_the_first_layer(rng, monkeypatch):
    """Three lines bound a triangle. One layer with ramps is nearer to it than one without, until there is a second layer."""
    X = rng.uniform(-1.0, 1.0, size=(600, 2))
    y = np.all([X[:, 1] > -0.5, X[:, 1] < 1.5 * X[:, 0] + 0.5, X[:, 1] < 0.5 - 1.5 * X[:, 0]], axis=0).astype(int)
    shallow, deep = (fitted(model(max_depth=depth, n_minibatches=None), X, y) for depth in (1, 3))
    assert shallow.network_.curve.ramps
    assert deep.depth_ > 1
    assert not any(trial["ramps"] and trial["kept"] for trial in deep.trials_)
    kept = [trial for trial in deep.trials_ if trial["kept"]]
    assert kept[-1]["deviance"] < min(trial["deviance"] for trial in deep.trials_ if trial["ramps"])
    assert [trial["deviance"] for trial in kept] == sorted((trial["deviance"] for trial in kept), reverse=True)
    assert [step["depth"] for step in deep.criterion_path_ if step["kept"]] == list(range(1, deep.depth_ + 1))
    assert deep.criterion_path_[0]["criterion"] == kept[0]["deviance"]
    monkeypatch.setattr("pbdn.growth.committee.MOST_SEARCHED_TWICE", (599, 599))  # many rows would take too long
    assert fitted(model(max_depth=3, n_minibatches=None), X, y).network_.curve.ramps


def test_what_was_tried_is_told(rng):
    X, y = half_planes(rng)
    found = fitted(model(max_depth=3), X, y)
    kept = [one for one in found.trials_ if one["kept"]]
    first = [one for one in found.trials_ if one["depth"] == 1 and one["penalty"] == FIRST_PENALTY]
    assert {(one["plain"], one["curved"]) for one in first} == {(True, False), (False, False), (False, True)}
    assert [one["deviance"] for one in kept] == sorted((one["deviance"] for one in kept), reverse=True)
    assert kept[-1]["depth"] == found.depth_
    assert [step["depth"] for step in found.criterion_path_ if step["kept"]] == list(range(1, found.depth_ + 1))


def test_the_deviance_is_that_of_rows_a_network_has_not_seen(rng):
    """The folds' networks rebuilt one by one give the losses that decided."""
    X, y = half_planes(rng, 120)
    rows, config, run = LabelledRows(X, y), config_of(1), Run(seed=3)
    growth = grow_committee(rows, RESPONSE, config, run)
    view = make_views(rows, False, run.seed)[0]
    folds = folds_of_rows(y)
    settings = config.map.shortened(SEARCH_STEPS)
    step = Step(True, FIRST_PENALTY, 1.0, settings.n_minibatches)
    total = 0.0
    for f in range(5):
        layers = Trainee(view, folds != f, f, RESPONSE, settings, run).follow((step,))
        p = Network(layers, 3, RESPONSE).predict(X[folds == f])
        total += RESPONSE.deviance(p, y[folds == f]).sum()
    flat = next(one for one in growth.trials if not (one.plain or one.curved))
    assert flat.deviance == pytest.approx(total, rel=1e-12)


def test_a_layer_must_pay_clearly():
    """A gain within its own standard error is no reason for another layer."""

    def stage(losses):
        return Stage(None, (), (), np.asarray(losses, dtype=float))

    old = stage(np.ones(100))
    assert not stage(np.ones(100)).clearly_below(old)
    assert stage(np.full(100, 0.9)).clearly_below(old)
    shaky = np.ones(100)
    shaky[:2] = 0.0, 1.5
    assert not stage(shaky).clearly_below(old)


@pytest.mark.parametrize("copies", [False, True])
def test_a_curve_must_pay_clearly_unless_rows_are_copies(copies, monkeypatch):
    shaky = np.ones(100)
    shaky[:2] = 0.0, 1.5
    step = Step(True, FIRST_PENALTY, 1.0, 1)
    flat, curved = (
        Stage(
            SimpleNamespace(shape="flat", curve=curve, plain=False, n_ramps=0, has_relevance=True, n_features=2),
            (step,),
            (),
            losses,
        )
        for curve, losses in ((None, np.ones(100)), ("a curve", shaky))
    )
    search = Search(RESPONSE, config_of(), Run(seed=0), [], copies=copies)
    monkeypatch.setattr(search, "after_each", lambda stages, step: [flat, curved])
    assert first_layer(search, [flat.view, curved.view])[0] is (curved if copies else flat)


def search_on(X, y, max_depth=1, **more):
    folds = folds_of_rows(y)
    return Search(RESPONSE, config_of(max_depth), Run(seed=2), [folds == f for f in range(5)], **more)


def views_of(X, y):
    flat, curved = make_views(LabelledRows(X, y), None, 0)[:2]
    return [replace(flat, plain=True), flat, curved]


def test_shapes_that_are_as_good_share_out_the_folds(rng, monkeypatch):
    """Each network sees and is judged by what its own shape sees; side by side they say the same as one by one."""
    monkeypatch.setattr("pbdn.growth.search.AS_GOOD", np.inf)
    X, y = half_planes(rng)
    search = search_on(X, y)
    (stage,) = first_layer(search, views_of(X, y), shared=True)
    shapes = [view.shape for view in stage.views]
    assert sorted(shapes[:3]) == ["curved", "flat", "plain"]
    assert shapes[3:] == shapes[:2]
    assert stage.view.shape == shapes[0] == search.trials[-1].shape.split(", ")[0]
    assert search.trials[-1].kept
    for f, layers in enumerate(stage.stacks):
        assert layers[0].sides[0].hyperplanes.shape[1] == 1 + stage.views[f].rows.n_features
        assert (shapes[f] == "plain") == (layers[0].n_experts == (1, 1))
    deeper = search.after(search.after(stage, search.new_layer(stage)), stage.history[-1]._replace(adds_layer=False))
    assert [view.shape for view in deeper.views] == shapes
    for one in (stage, deeper):
        np.testing.assert_array_equal(search.on_other_layers(one, one.stacks).losses, one.losses)
        common, (first,) = one.in_one_view(one.stacks[:1])
        assert not common.views
        np.testing.assert_allclose(search.on_other_layers(common, common.stacks).losses, one.losses, rtol=1e-10)
        for ours, theirs in zip(first, common.stacks[0], strict=True):
            np.testing.assert_array_equal(ours.sides[0].hyperplanes, theirs.sides[0].hyperplanes)


def test_a_shape_that_is_clearly_worse_has_no_share(rng):
    X, y = rings(rng)
    (stage,) = first_layer(search_on(X, y), views_of(X, y), shared=True)
    assert (stage.view.shape, stage.views) == ("curved", ())


def test_what_shares_is_told_and_one_network_has_one_shape(rng, monkeypatch):
    """Hyperplanes of networks without squares have zeros there, in what predicts and in what is saved."""
    monkeypatch.setattr("pbdn.growth.search.AS_GOOD", np.inf)
    X, y = half_planes(rng)
    found = fitted(model(max_depth=1), X, y)
    shape = [trial["shape"] for trial in found.trials_ if trial["kept"]][-1]
    assert sorted(shape.split(", ")) == ["curved", "flat", "plain"]
    (layer,) = found.network_.layers
    squares = [side.hyperplanes[:, 1 + X.shape[1] :] for side in layer.sides]
    for m, name in enumerate((*shape.split(", "), *shape.split(", "))[:5]):
        seen = [planes[own == m] for planes, own in zip(squares, found.network_.owners, strict=True)]
        assert np.concatenate(seen).any() == (name == "curved")
    alone = fitted(model(n_members=1, max_depth=1), X, y)
    assert not any("," in trial["shape"] for trial in alone.trials_)


def test_networks_of_several_shapes_resume_to_the_same_bits(rng, monkeypatch, tmp_path):
    monkeypatch.setattr("pbdn.growth.search.AS_GOOD", np.inf)
    monkeypatch.setattr("pbdn.growth.checkpoint.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("pbdn.growth.checkpoint.COST_SHARE", np.inf)
    X, y = half_planes(rng, 80)
    straight = fitted(model(max_depth=2), X, y)
    take, calls = Trainee._take, []

    def killed(self, *arguments):
        calls.append(self.number)
        if len(calls) == 40:
            raise KeyboardInterrupt
        return take(self, *arguments)

    monkeypatch.setattr(Trainee, "_take", killed)
    with pytest.raises(KeyboardInterrupt):
        fitted(model(max_depth=2, checkpoint=tmp_path / "c"), X, y)
    n_calls = len(calls)
    resumed = fitted(model(max_depth=2, checkpoint=tmp_path / "c"), X, y)
    assert resumed.trials_ == straight.trials_
    np.testing.assert_array_equal(resumed.predict_proba(X), straight.predict_proba(X))
    monkeypatch.setattr(Trainee, "_take", take)
    assert len(calls) - n_calls > 10


@pytest.mark.parametrize("gain", [-0.5, 0.5])
def test_a_side_has_more_experts_where_rows_kept_back_are_likelier(gain, monkeypatch):
    losses = np.ones(100)
    losses[:2] = 0.0, 2.0 - gain
    step = Step(True, FIRST_PENALTY, 1.0, 1)
    plain, flat = (
        Stage(
            SimpleNamespace(shape="flat", curve=None, plain=plain, n_ramps=0, has_relevance=True), (step,), (), losses
        )
        for plain, losses in ((True, np.ones(100)), (False, losses))
    )
    search = Search(RESPONSE, config_of(), Run(seed=0), [])
    monkeypatch.setattr(search, "after_each", lambda stages, step: [plain, flat])
    assert first_layer(search, [plain.view, flat.view])[0] is (flat if gain > 0 else plain)


def test_a_plain_network_has_one_expert_on_each_side(rng):
    """Where nothing more is to be learned: rows whose log-odds are linear."""
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] - X[:, 1] + rng.logistic(size=300) > 0).astype(int)
    found = fitted(model(max_depth=1), X, y)
    kept = [one for one in found.trials_ if one["kept"]]
    few = found.n_experts_ == [(5, 5)]
    assert few or not kept[0]["plain"]
    alone = trainee_of(X, y, plain=True)
    first = alone.follow((Step(True, FIRST_PENALTY, 1.0, 50),))
    assert first[0].n_experts == (1, 1)
    second = alone.follow((Step(True, FIRST_PENALTY, 1.0, 50),) * 2)
    assert second[0].n_experts == (1, 1)
    assert sum(second[1].n_experts) > 2  # layers above are not held down


def test_a_row_of_weight_three_is_three_rows_where_the_number_of_rows_decides(rng):
    X, y = rng.normal(size=(4, 2)), np.array([0, 1, 0, 1])
    weights = np.full(4, 3.0)
    weighted, repeated = (
        fitted(model(), X, y, sample_weight=weights),
        fitted(model(), np.repeat(X, 3, 0), np.repeat(y, 3)),
    )
    assert weighted.config_.criterion == repeated.config_.criterion == "folds"
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    assert fitted(model(), X, y, sample_weight=0.5 * weights).config_.criterion == "aic_inputs"


@pytest.mark.parametrize(("n_parts", "most"), [(5, 0.8), (12, 1.2)])
def test_very_few_rows_are_not_believed_too_much(rng, n_parts, most):
    """Few rows with labels that are often wrong: probabilities of the default are worth more than those of one network by AIC."""
    X = rng.normal(size=(2000, 5))
    y = (X[:, 0] + rng.logistic(size=2000) > 0).astype(int)
    losses = {"auto": 0.0, "aic_inputs": 0.0}
    for part in np.array_split(np.arange(100), n_parts):
        for criterion in losses:
            found = fitted(PBDNClassifier(criterion=criterion, random_state=0), X[part], y[part])
            losses[criterion] += log_loss(y[100:], found.predict_proba(X[100:])) / n_parts
    assert found.config_.criterion == "aic_inputs"
    assert losses["auto"] < min(most, losses["aic_inputs"])


def test_one_network_is_smaller_than_three_and_all_learn_from_all_rows(rng, monkeypatch):
    X, y = half_planes(rng)
    monkeypatch.setattr(views, "FEWEST_ALONE", views.FEWEST_RAMPED)  # or there would be other shapes to try
    seen = []
    real = Trainee.follow
    monkeypatch.setattr(Trainee, "follow", lambda self, history: seen.append(self.rows.n_rows) or real(self, history))
    one, three = (fitted(model(n_members=n, max_depth=1), X, y) for n in (1, 3))
    assert seen == [len(y)] * 4
    assert one.complexity_ < three.complexity_
    assert one.trials_ == three.trials_
    assert one.score(X, y) > 0.85
    np.testing.assert_allclose(three.network_.predict_members(X)[0], one.predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(three.network_.predict_folds(X), one.network_.predict_folds(X))
    assert len(one.network_.predict_folds(X)) == 5


def test_the_networks_of_the_folds_predict_and_say_how_sure_they_are(rng):
    X, y = half_planes(rng)
    found = fitted(model(max_depth=1), X, y)
    assert found.network_.n_members == 5
    assert found.network_.folds is None
    np.testing.assert_array_equal(found.network_.predict_folds(X), found.network_.predict_members(X))


def test_of_large_networks_the_first_predict_and_all_say_how_sure_they_are(rng, monkeypatch):
    X, y = half_planes(rng)
    whole = fitted(model(max_depth=1), X, y).network_
    monkeypatch.setattr("pbdn.growth.committee.OF_CLASSES", Limit(1, 3))
    first = fitted(model(max_depth=1), X, y).network_
    np.testing.assert_allclose(first.predict_members(X), whole.predict_members(X)[:3], rtol=1e-12)
    np.testing.assert_allclose(first.predict_folds(X), whole.predict_members(X), rtol=1e-12)


def test_a_network_that_fits_its_rows_badly_is_trained_once_more(rng, monkeypatch):
    X, y = half_planes(rng)
    real, numbers = Trainee.follow, []

    def broken(self, history):
        numbers.append(self.number)
        layers = real(self, history)
        if self.number != 5:
            return layers
        flat = [Side(0.0 * side.hyperplanes, side.expert_weights) for side in layers[-1].sides]
        return (*layers[:-1], Layer(tuple(flat)))

    monkeypatch.setattr(Trainee, "follow", broken)
    found = fitted(model(n_members=3, max_depth=1), X, y)
    assert sorted(numbers) == [5, 6, 7, 1005]
    assert found.score(X, y) > 0.85
    assert np.abs(found.network_.predict_members(X)[0, :, 1] - 0.5).max() > 0.3


def test_above_a_size_one_fold_decides_and_the_others_follow(rng, monkeypatch):
    monkeypatch.setattr("pbdn.config.defaults.SEARCHED_NUMBERS", (100, 100))
    X, y = half_planes(rng, 150)
    followed = []
    real = Trainee.follow
    monkeypatch.setattr(Trainee, "follow", lambda self, history: followed.append(self.number) or real(self, history))
    found = fitted(model(max_depth=1), X, y)
    assert sorted(followed) == [1, 2, 3, 4]
    assert found.score(X, y) > 0.8
    used = np.abs(found.layers_[0].sides[0].hyperplanes).sum(axis=1)
    assert (used > 0).all()


@pytest.mark.parametrize(("room", "others"), [(1, []), (10**6, [2, 3, 4])])
def test_on_a_line_two_folds_decide_and_no_more_follow_than_there_is_room_for(rng, monkeypatch, room, others):
    monkeypatch.setattr("pbdn.config.defaults.SEARCHED_NUMBERS", (100, 100))
    monkeypatch.setattr("pbdn.growth.committee.ON_A_LINE", Limit(room, 1))
    X, _ = half_planes(rng, 150)
    followed = []
    real = Trainee.follow
    monkeypatch.setattr(Trainee, "follow", lambda self, history: followed.append(self.number) or real(self, history))
    config = MapConfig(n_minibatches=150)
    found = PBDNRegressor(max_depth=1, map_config=config, random_state=0).fit(X, X[:, 0] + 0.1 * rng.normal(size=150))
    assert sorted(followed) == others
    assert found.network_.n_members == (1 if room == 1 else 5)
    assert found.score(X, X[:, 0]) > 0.8


def test_jobs_and_the_order_of_rows_do_not_matter(rng):
    X, y = half_planes(rng, 100)
    mixed = rng.permutation(len(y))
    one, two, other = model(max_depth=1), model(max_depth=1, n_jobs=2), model(max_depth=1)
    fitted(one, X, y), fitted(two, X, y), fitted(other, X[mixed], y[mixed])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_a_constant_feature_changes_nothing(rng):
    X, y = half_planes(rng, 100)
    plain = fitted(model(max_depth=1), X, y)
    wide = np.column_stack([X, np.full((len(y), 2), 7.0)])
    more = fitted(model(max_depth=1), wide, y)
    assert all((side.hyperplanes[:, 4:6] == 0).all() for side in more.layers_[0].sides)
    assert more.n_experts_ == plain.n_experts_ or abs(more.score(wide, y) - plain.score(X, y)) < 0.1


def test_interrupted_in_the_search_keeps_what_was_kept(rng):
    """The stop after the first layer leaves the networks of that layer, averaged."""
    X, y = half_planes(rng, 100)
    rows, config = LabelledRows(X, y), config_of(3)

    class Stop:
        def layer_begins(self, depth):
            self.depth = depth

        def layer_ends(self, fits):
            return True

    growth = grow_committee(rows, RESPONSE, config, Run(seed=1), Stop())
    assert growth.reason == "observer"
    assert len(growth.fits) == 1
    assert {one.depth for one in growth.trials} == {1}


def test_a_class_too_small_to_fold_is_in_all_networks(rng):
    X, y = half_planes(rng, 100)
    y = np.where(np.arange(100) < 3, 1, 0)
    found = fitted(model(max_depth=1), X, y)
    assert np.isfinite(found.predict_proba(X)).all()


def test_search_begins_with_nothing(rng):
    X, y = half_planes(rng, 60)
    search = Search(RESPONSE, config_of(), Run(seed=0), [np.zeros(60, bool)])
    stage = search.begin(make_views(LabelledRows(X, y), False, 0)[0])
    assert stage.depth == 0
    assert stage.stacks == ((),)


@pytest.mark.parametrize("n_jobs", [1, 5])
@pytest.mark.parametrize("bad", [False, True])
def test_folds_that_go_ahead_spare_the_others_a_bad_step(rng, monkeypatch, bad, n_jobs):
    """A penalty that flattens all is tried by two folds, one that does not by all; how many threads there are changes nothing."""
    X, y = half_planes(rng, 200)
    folds = folds_of_rows(y)
    search = Search(RESPONSE, config_of(1), Run(seed=2, n_jobs=n_jobs), [folds == f for f in range(5)])
    begun = search.begin(make_views(LabelledRows(X, y), False, 0)[0])
    stage = search.after(begun, search.new_layer(begun)._replace(penalty=0.3 if bad else 1000.0))
    step = stage.history[-1]._replace(adds_layer=False, penalty=1000.0 if bad else 0.3)
    everywhere = search.after(stage, step)
    taken, take = [], Trainee.take

    def counted(trainee, *arguments):
        taken.append(trainee.number)
        return take(trainee, *arguments)

    monkeypatch.setattr(Trainee, "take", counted)
    found = search.after(stage, step, 1.0)
    n_taken = 2 if bad else 5
    assert sorted(taken) == list(range(5 if n_jobs == 5 else n_taken))
    expected = (*everywhere.stacks[:n_taken], *stage.stacks[n_taken:])
    for layers, others in zip(found.stacks, expected, strict=True):
        for ours, theirs in zip(layers[0].sides, others[0].sides, strict=True):
            np.testing.assert_array_equal(ours.hyperplanes, theirs.hyperplanes)
    np.testing.assert_array_equal(found.losses, search.on_other_layers(found, found.stacks).losses)
    assert found.history == everywhere.history
    assert (found.deviance > stage.deviance) == bad


def test_a_network_that_failed_gets_another_try(rng):
    """A fold whose network says the opposite is trained again; the others stay as they are."""
    X, y = half_planes(rng, 100)
    rows, run = LabelledRows(X, y), Run(seed=2)
    folds = folds_of_rows(y)
    search = Search(RESPONSE, config_of(1), run, [folds == f for f in range(5)])
    begun = search.begin(make_views(rows, False, 0)[0])
    stage = search.after(begun, search.new_layer(begun))
    wrong = tuple(Layer(layer.sides[::-1]) for layer in stage.stacks[3])
    stacks = (*stage.stacks[:3], wrong, stage.stacks[4])
    held = zip(stacks, search.held, strict=True)
    losses = np.concatenate([stage.view.losses(layers, kept, RESPONSE) for layers, kept in held])
    mended = _without_failures(search, replace(stage, stacks=stacks, losses=losses))
    assert mended.deviance < losses.sum()
    assert [a is b for a, b in zip(mended.stacks, stacks, strict=True)] == [True, True, True, False, True]


def test_classes_that_are_all_too_small_to_fold(rng):
    """Nothing can be kept back: one layer, trained on all rows."""
    y = np.repeat(np.arange(20), 3)
    X = rng.normal(size=(60, 2)) + y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = PBDNClassifier(random_state=0, map_config=MapConfig(n_minibatches=5)).fit(X, y)
    assert found.config_.criterion == "folds"
    assert found.depth_ == 1
    assert found.predict_proba(X).shape == (60, 20)


def test_rows_kept_back_say_how_much_relevance_counts(rng, monkeypatch):
    """It is tried last, from one on; coordinates of a span have none."""
    X, y = half_planes(rng)
    trials = fitted(model(max_depth=1), X, y).trials_
    tried = [trial["relevance"] for trial in trials]
    assert tried[0] == 1.0
    assert 2.0 in tried
    assert set(tried[: tried.index(2.0)]) == {1.0}
    monkeypatch.setattr(views, "MOST_STRETCHED", 0)
    wide = rng.normal(size=(40, 60))
    assert {trial["relevance"] for trial in fitted(model(max_depth=1), wide, np.arange(40) % 2).trials_} == {0.0}


@pytest.mark.parametrize(("falls", "n_rounds"), [([1.0, 0.95], 1), ([1.0, 0.8, 0.75], 2), ([1.0, 0.8, 0.6, 0.6], 3)])
def test_settings_are_looked_at_again_while_much_is_gained(falls, n_rounds, rng, monkeypatch):
    """``falls`` are the deviances after every round, beside that before the first."""
    X, y = half_planes(rng, 100)
    search = search_on(X, y)
    begun = search.begin(views_of(X, y)[0])
    stage = search.after(begun, search.new_layer(begun)._replace(n_steps=5))
    rounds, deviance = [], stage.deviance

    def along(search, setting, values, stage):
        if setting == "penalty":
            rounds.append(setting)
        return replace(stage, losses=stage.losses * (falls[len(rounds)] * deviance / stage.deviance))

    monkeypatch.setattr(committee, "_along", along)
    assert committee._strength(search, stage).deviance == pytest.approx(falls[n_rounds] * deviance)
    assert len(rounds) == n_rounds
    rounds.clear()
    committee._strength(replace(search, held=search.held[:1]), stage)
    assert len(rounds) == 1


def test_the_last_training_of_few_rows_has_other_penalties_in_every_fold(rng, monkeypatch):
    seen = {}

    def watched(trainee, layers, history):
        seen[trainee.number] = history[-1].penalty
        return smaller(trainee, layers, history)

    monkeypatch.setattr("pbdn.growth.committee.smaller", watched)
    found = fitted(model(), *half_planes(rng))
    best = [trial for trial in found.trials_ if trial["kept"]][-1]["penalty"]
    assert [seen[f] / best for f in range(5)] == pytest.approx(PENALTY_OF_FOLD)


@pytest.mark.parametrize("factor", [1.0, 0.01])
def test_smaller_networks_are_taken_unless_rows_kept_back_are_clearly_less_likely(factor, rng, monkeypatch):
    """Networks that are hardly sure of anything stand for those that were harmed."""
    X, y = half_planes(rng)
    harmed = []

    def smaller_ones(trainee, layers, history):
        harmed.append(sharpened(layers, factor, trainee.rows))
        return harmed[-1]

    monkeypatch.setattr("pbdn.growth.committee.smaller", smaller_ones)
    averaged = []
    real = committee._trimmed
    monkeypatch.setattr(committee, "_trimmed", lambda stacks, *more: averaged.extend(stacks) or real(stacks, *more))
    fitted(model(), X, y)
    assert [any(one is other for other in harmed) for one in averaged] == [factor == 1.0] * 5


def test_networks_count_the_rows_of_each_class(rng):
    X, y = half_planes(rng, 120)
    np.testing.assert_array_equal(fitted(model(), X, y).network_.class_rows, np.bincount(y))
    twice = fitted(model(), X, y, sample_weight=np.full(120, 2.0))
    np.testing.assert_array_equal(twice.network_.class_rows, 2.0 * np.bincount(y))
    weights = rng.uniform(0.5, 2.0, size=120)
    found = fitted(model(), X, y, sample_weight=weights).network_.class_rows
    np.testing.assert_allclose(found, np.bincount(y, weights))
    alone = fitted(model(n_members=1), X, y).network_
    assert alone.has_folds
    np.testing.assert_array_equal(alone.class_rows, np.bincount(y))
