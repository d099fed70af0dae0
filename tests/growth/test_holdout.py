"""Depth by rows kept back: folds, what they see, and how they decide."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from pbdn import MapConfig, PBDNClassifier
from pbdn.config import defaults, resolve
from pbdn.data.labelled_rows import LabelledRows
from pbdn.errors import DepthLimitWarning
from pbdn.estimators import fitting
from pbdn.files import read_container, write_container
from pbdn.growth import holdout
from pbdn.growth.depth import LayerFit, grow
from pbdn.growth.holdout import RARE, KeptBack, folds_of_rows, keep_back
from pbdn.growth.run import Run
from pbdn.model.network import Layer, Side
from pbdn.model.response import response_for_classes
from pbdn.sgd.polish import polish


def test_folds_are_even_within_classes(rng):
    codes = np.concatenate([np.zeros(50, int), np.ones(12, int), np.full(4, 2), [3]])[rng.permutation(67)]
    folds = folds_of_rows(codes)
    assert [np.bincount(folds[codes == c]).tolist() for c in (0, 1)] == [[10] * 5, [3, 3, 2, 2, 2]]
    assert (folds[codes >= 2] == RARE).all()
    assert np.array_equal(folds, folds_of_rows(codes))
    assert not np.array_equal(folds[codes == 0], np.sort(folds[codes == 0]))


class Steps:
    """An engine whose layer t is the number t."""

    n_rows = 10

    def __init__(self):
        self.seen = []

    def fit_layer(self, depth):
        return LayerFit(Layer((Side(np.full((1, 2), float(depth)), np.ones(1)),)), (0.0,))

    def has_room(self, layer):
        return True

    def advance(self, layer):
        self.seen.append(layer.sides[0].hyperplanes[0, 0])


def grown(tables, max_depth=4, **more):
    """Growth where fold f loses ``tables[f][t]`` (one value per row) with t + 1 layers."""
    engines = [Steps() for _ in tables]
    losses = [lambda layers, table=table: table[len(layers) - 1] for table in tables]
    folds = KeptBack(engines, losses, Run(seed=0), [lambda layers, tells: None] * len(tables))
    return grow(folds, folds.criterion, max_depth, **more), engines


def test_all_folds_decide_together(rng):
    """A second layer that one fold likes and another does not; each fold goes on from its own layers."""
    base = rng.gamma(2.0, size=(2, 50))
    for gain, depth in ((-0.1, 2), (0.1, 1)):
        tables = [[base[0], base[0] - 1.0, base[0] - 1.0], [base[1], base[1] + 1.0 + gain, base[1] + 2.0]]
        growth, engines = grown(tables, max_depth=3)
        assert len(growth.fits) == depth
        deviance = [sum(table[t].sum() for table in tables) for t in range(len(growth.path))]
        assert [step.criterion for step in growth.path] == pytest.approx(deviance)
        assert all(engine.seen == [1.0, 2.0][:depth] for engine in engines)


def test_nothing_kept_back_is_one_layer():
    growth, _ = grown([[np.empty(0)] * 3])
    assert len(growth.fits) == 1


def test_no_layer_is_tried_where_next_to_nothing_is_left():
    tables = [[np.full(10, loss) for loss in (1.0, 0.01, 0.001, 0.0)]]
    for good_enough, depth in ((0.2, 2), (0.05, 3), (-np.inf, 4)):
        growth, engines = grown(tables, good_enough=good_enough)
        assert (len(growth.fits), len(growth.path)) == (depth, depth)
        assert growth.reason == ("criterion" if depth < 4 else "max_depth")
        assert engines[0].seen == [1.0, 2.0, 3.0][: depth - 1]


@pytest.mark.parametrize(("n_classes", "weight"), [(2, 0.0), (3, 60.0)])
def test_the_weight_kept_back_counts_with_several_classes(rng, n_classes, weight):
    """Half of 120 rows weigh nothing, the others one each; all are kept back once."""
    codes, response = np.arange(120) // 2 % n_classes, response_for_classes(n_classes)
    rows = LabelledRows(rng.normal(size=(120, 2)), codes, np.arange(120) % 2 * 1.0)
    options = dict.fromkeys(("priors", "gibbs_config", "map_config"))
    config = resolve(response, inference="map", criterion="holdout", max_depth=2, max_experts=2, **options)
    assert keep_back(rows, response, config, Run(seed=0)).weight == weight


@pytest.mark.parametrize(("limit", "n_folds"), [(120, 5), (119, 1)])
def test_every_row_is_kept_back_once_where_rows_are_few(rng, monkeypatch, limit, n_folds):
    """No fold's engine sees the rows it is scored on, and weights travel with their rows."""
    X, y = rng.normal(size=(120, 2)), np.repeat([0, 1, 2], 40)
    X[:, 0] += y
    fitted_rows, made = [], holdout.make_engine

    def spy(rows, *others):
        fitted_rows.append((rows.inputs, rows.weights))
        return made(rows, *others)

    monkeypatch.setattr(holdout, "make_engine", spy)
    monkeypatch.setattr(holdout, "FOLDED_ROWS", limit)
    weights = rng.uniform(0.5, 2.0, 120)
    quick = {"map_config": MapConfig(n_minibatches=20), "max_experts": 2, "max_depth": 1}
    PBDNClassifier(inference="map", criterion="holdout", random_state=0, **quick).fit(X, y, sample_weight=weights)
    *parts, (whole, whole_weights) = fitted_rows
    assert len(parts) == n_folds
    assert np.array_equal(whole_weights, weights)
    place = {row.tobytes(): at for at, row in enumerate(whole)}
    absences = np.full(120, n_folds)
    for part, part_weights in parts:
        index = [place[row.tobytes()] for row in part]
        assert np.array_equal(weights[index], part_weights)
        absences[index] -= 1
    assert np.bincount(absences).tolist() == ([0, 120] if n_folds == 5 else [96, 24])


def kept_back_with(rng, grown_losses, polished_losses, n_polishers=2):
    """Folds after growth; what they lose with so many layers, as grown and polished, is said for each fold and every row."""
    base = rng.uniform(1.0, 1.5, size=(2, 20))

    def polisher(layers, tells):
        return [Layer((*layer.sides, *layer.sides)) for layer in layers]  # two sides: polished

    def loss_of(f):
        def loss(layers):
            losses = grown_losses if len(layers[0].sides) == 1 else polished_losses
            return base[f] + losses[len(layers) - 1][f]

        return loss

    n_folds = len(grown_losses[0])
    polishers = [polisher if f < n_polishers else lambda layers, tells: None for f in range(n_folds)]
    engines, losses = [Steps() for _ in range(n_folds)], [loss_of(f) for f in range(n_folds)]
    folds = KeptBack(engines, losses, Run(seed=0, n_jobs=2), polishers)
    return folds, len(grow(folds, folds.criterion, 3).fits)


def said(depth_and_stacks):
    """The depth, and whether there are polished layers of it for every fold."""
    depth, stacks = depth_and_stacks
    assert stacks is None or all(len(stack) == depth for stack in stacks)
    return depth, stacks is not None


def test_all_rows_kept_back_decide_whether_to_polish(rng):
    """Two folds that disagree are judged by their sum; a fold without a polish vetoes it."""
    grown_losses = ((0.0, 0.0), (-1.0, -1.0), (-0.8, -0.8))
    for gains, pays in (((-1.3, -0.8), True), ((-1.2, -0.7), False)):
        folds, depth = kept_back_with(rng, grown_losses, ((-9.0, -9.0), gains, (-9.0, -9.0)))
        assert depth == 2
        assert said(folds.best_polished(depth)) == (2, pays)
    folds, depth = kept_back_with(rng, grown_losses, ((0.0, 0.0), (-1.3, -1.3), (-2.0, -2.0)), n_polishers=1)
    assert said(folds.best_polished(depth)) == (2, False)


@pytest.mark.parametrize(
    ("grown_more", "one", "two", "expected"),
    [
        (0.1, 0.0, -0.2, (2, True)),
        (0.1, -0.3, -0.2, (1, True)),
        (0.1, 0.2, 0.3, (1, False)),
        (0.9, 0.0, -0.2, (1, False)),  # hopeless as grown
    ],
)
def test_a_layer_that_pays_once_it_is_polished_is_kept(rng, grown_more, one, two, expected):
    """The layer that ended growth is polished too; it stays if that beats what came before it, polished or not."""
    grown_losses, polished_losses = ((0.0,), (grown_more,), (9.0,)), ((one,), (two,), (-9.0,))
    folds, depth = kept_back_with(rng, grown_losses, polished_losses)
    assert depth == 1
    assert said(folds.best_polished(depth)) == expected


def test_rows_say_whether_there_are_folds(rng, monkeypatch):
    """Classes apart are one network, classes that overlap are networks of folds; rows that weigh nothing say nothing."""
    monkeypatch.setattr(defaults, "MOST_FOLDED", ((np.inf, 0),))
    y = np.arange(120) % 3
    apart, blurred = (np.eye(3)[y] * 3.0 + spread * rng.normal(size=(120, 3)) for spread in (0.3, 3.0))
    both, twice, weights = np.concatenate([apart, blurred]), np.concatenate([y, y]), np.repeat([1.0, 0.0], 120)

    def chosen(X, y, weights=None):
        quick = MapConfig(n_minibatches=100)
        model = PBDNClassifier(map_config=quick, max_experts=2, max_depth=1, random_state=0)
        return model.fit(X, y, sample_weight=weights).config_.criterion

    assert chosen(apart, y) == "holdout"
    assert chosen(blurred, y) == "folds"
    assert chosen(both, twice, weights) == "holdout"
    assert chosen(both, twice, 1.0 - weights) == "folds"


def test_the_trial_sees_the_same_rows_in_any_order_and_for_weights_or_copies(rng, monkeypatch):
    monkeypatch.setattr(defaults, "MOST_FOLDED", ((np.inf, 0),))
    X, y, seen = rng.normal(size=(60, 2)), np.arange(60) % 3, []

    def judge(rows, response, config, run):
        seen.append(np.column_stack([rows.inputs, rows.codes]))
        return False

    monkeypatch.setattr(fitting, "leave_much_open", judge)
    copies = np.concatenate([np.arange(60), np.arange(20)])[rng.permutation(80)]
    model = PBDNClassifier(map_config=MapConfig(n_minibatches=20), max_experts=2, max_depth=1)
    model.fit(X, y, sample_weight=np.where(np.arange(60) < 20, 2, 1))
    model.fit(X[copies], y[copies])
    np.testing.assert_array_equal(*seen)


@pytest.fixture
def rings(rng):
    """Three nested rings, standardised: one layer is not enough."""
    codes = np.arange(240) % 3
    angle, radius = rng.uniform(0, 2 * np.pi, 240), 1.0 + codes + 0.2 * rng.normal(size=240)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return (X - X.mean(axis=0)) / X.std(axis=0), codes


def ring_model(polished=True, **more):
    config = MapConfig(n_minibatches=400, polish=polished)
    return PBDNClassifier(
        inference="map", map_config=config, max_experts=4, max_depth=2, standardize=False, random_state=1, **more
    )


def planes(model):
    return [side.hyperplanes for layer in model.layers_ for side in layer.sides]


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
@pytest.mark.parametrize("pays", [True, False])
def test_the_network_is_polished_where_that_pays(rings, monkeypatch, pays):
    """Where it pays the fit is the polish of the network as grown, else the network as grown, bit for bit."""
    X, y = rings
    grown_model = ring_model(polished=False, criterion="holdout").fit(X, y)
    told, real = [], holdout.polish
    stacks = [()] if pays else None  # of five folds, nothing is taken from these
    monkeypatch.setattr(KeptBack, "best_polished", lambda self, depth: (depth, stacks))
    monkeypatch.setattr(holdout, "polish", lambda *rows, **more: told.append(more) or real(*rows, **more))
    model = ring_model(criterion="holdout").fit(X, y)
    assert model.depth_ == grown_model.depth_ == 2
    assert [step["polished"] for step in model.criterion_path_] == [False, pays]
    expected = grown_model.layers_
    if pays:
        labelling = response_for_classes(3).labelling
        expected = polish(expected, X, y, None, config=model.config_.map, seed=told[-1]["seed"], labelling=labelling)
    for found, side in zip(planes(model), [s for layer in expected for s in layer.sides], strict=True):
        assert np.array_equal(found, side.hyperplanes)


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
def test_jobs_do_not_change_a_polish(rings):
    X, y = rings
    one, two = (ring_model(criterion="holdout", n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.criterion_path_[-1]["polished"] == two.criterion_path_[-1]["polished"]
    assert all(np.array_equal(a, b) for a, b in zip(planes(one), planes(two), strict=True))


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
def test_sparse_rows_and_other_criteria_stay_as_grown(rings):
    X, y = rings
    sparse = ring_model(criterion="holdout").fit(sp.csr_array(X), y)
    counted = ring_model(criterion="aic").fit(X, y)
    for model in (sparse, counted):
        assert not any(step["polished"] for step in model.criterion_path_)


def test_a_polish_cut_short_keeps_the_network_as_grown(rings, monkeypatch):
    X, y = rings
    monkeypatch.setattr(KeptBack, "best_polished", lambda self, depth: (depth, [()]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DepthLimitWarning)
        grown_model = ring_model(polished=False, criterion="holdout").fit(X, y)
    real = holdout.polish

    def too_late(*arguments, should_stop, **more):
        should_stop.deadline = 0.0
        return real(*arguments, should_stop=should_stop, **more)

    monkeypatch.setattr(holdout, "polish", too_late)
    with pytest.warns(UserWarning, match="reached: the network keeps 2 layer"):
        model = ring_model(criterion="holdout", time_limit=1e6).fit(X, y)
    assert all(np.array_equal(a, b) for a, b in zip(planes(model), planes(grown_model), strict=True))
    assert not model.criterion_path_[-1]["polished"]


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
def test_a_polished_network_of_one_fold_is_polished_again_on_all_rows(rings, monkeypatch, tmp_path):
    """It is not grown anew, and a fit that is resumed is the same to the bit whatever it has kept."""
    X, y = rings
    monkeypatch.setattr(holdout, "FOLDED_ROWS", 0)
    told, real, make = [], holdout.polish, holdout.make_engine
    monkeypatch.setattr(holdout, "polish", lambda *rows, **more: told.append((rows, more)) or real(*rows, **more))
    made = []
    monkeypatch.setattr(holdout, "make_engine", lambda rows, *others: made.append(rows.n_rows) or make(rows, *others))
    path = tmp_path / "fit.ckpt"
    model = ring_model(criterion="holdout", checkpoint=path).fit(X, y)
    assert model.criterion_path_[-1]["polished"]
    assert made == [192]
    (_, *four_fifths), (first, *every) = (rows for rows, _ in told)
    assert [len(four_fifths[0]), len(every[0])] == [192, 240]
    again = real(*told[0][0], **told[0][1])
    for one, other in zip(first, again, strict=True):
        assert all(np.array_equal(a.hyperplanes, b.hyperplanes) for a, b in zip(one.sides, other.sides, strict=True))
    resumed = ring_model(criterion="holdout", checkpoint=path, n_jobs=2).fit(X, y)
    assert len(told) == 2
    header, arrays = read_container(path, kind="checkpoint")
    some = {name: array for name, array in arrays.items() if name.startswith("trial.map.1/")}
    assert 0 < len(some) < len(arrays)
    write_container(path, header, some)
    half = ring_model(criterion="holdout", checkpoint=path).fit(X, y)
    for other in (resumed, half):
        assert all(np.array_equal(a, b) for a, b in zip(planes(model), planes(other), strict=True))


def test_time_that_ends_in_the_last_polish_leaves_the_network_of_one_fold(rings, monkeypatch):
    X, y = rings
    monkeypatch.setattr(holdout, "FOLDED_ROWS", 0)
    real, polished = holdout.polish, []

    def too_late(layers, inputs, *others, should_stop, **more):
        if len(inputs) == len(X):
            should_stop.deadline = 0.0
        polished.append(real(layers, inputs, *others, should_stop=should_stop, **more))
        return polished[-1]

    monkeypatch.setattr(holdout, "polish", too_late)
    with pytest.warns(UserWarning, match="reached: the network keeps 2 layer"):
        model = ring_model(criterion="holdout", time_limit=1e6).fit(X, y)
    left, none = polished
    assert none is None
    for found, side in zip(planes(model), [s for layer in left for s in layer.sides], strict=True):
        assert np.array_equal(found, side.hyperplanes)


def test_a_layer_less_is_kept_where_that_is_better_once_polished(rings, monkeypatch):
    """Two layers are as grown the best, one is once polished; the path says which stayed, and nobody asks for more depth."""
    X, y = rings
    monkeypatch.setattr(holdout, "FOLDED_ROWS", 0)
    monkeypatch.setattr(KeptBack, "best_polished", lambda self, depth: (depth - 1, [self.layers[0][: depth - 1]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DepthLimitWarning)
        model = ring_model(criterion="holdout").fit(X, y)
    assert model.depth_ == 1
    assert [step["kept"] for step in model.criterion_path_] == [True, False]


def test_one_fold_tries_a_layer_less_too(rng):
    grown_losses, polished_losses = ((0.0,), (-1.0,), (-0.9,)), ((-2.0,), (-1.5,), (-1.6,))
    folds, depth = kept_back_with(rng, grown_losses, polished_losses)
    assert depth == 2
    assert said(folds.best_polished(depth)) == (1, True)
