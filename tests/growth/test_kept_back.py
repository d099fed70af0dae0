"""Depth by rows kept back: folds, what they see, and how they decide."""

import numpy as np
import pytest

from pbdn import PBDNClassifier, fitting
from pbdn.growth.gibbs_engine import StopSignal
from pbdn.growth.grow import LayerFit, grow
from pbdn.growth.kept_back import RARE, KeptBack, folds_of_rows
from pbdn.model.network import Layer, Side
from pbdn.sgd.config import MapConfig


def test_folds_are_even_within_classes(rng):
    codes = np.concatenate([np.zeros(50, int), np.ones(12, int), np.full(4, 2), [3]])[rng.permutation(67)]
    folds = folds_of_rows(codes, seed=5)
    assert [np.bincount(folds[codes == c]).tolist() for c in (0, 1)] == [[10] * 5, [3, 3, 2, 2, 2]]
    assert (folds[codes >= 2] == RARE).all()
    assert np.array_equal(folds, folds_of_rows(codes, seed=5))
    assert not np.array_equal(folds, folds_of_rows(codes, seed=6))


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


def grown(tables, max_depth=4):
    """Growth where fold f loses ``tables[f][t]`` (one value per row) with t + 1 layers."""
    engines = [Steps() for _ in tables]
    losses = [lambda layers, table=table: table[len(layers) - 1] for table in tables]
    folds = KeptBack(engines, losses, 1, StopSignal())
    return grow(folds, folds.criterion, max_depth), engines


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


@pytest.mark.parametrize(("limit", "n_folds"), [(120, 5), (119, 1)])
def test_every_row_is_kept_back_once_where_rows_are_few(rng, monkeypatch, limit, n_folds):
    """No fold's engine sees the rows it is scored on, and weights travel with their rows."""
    X, y = rng.normal(size=(120, 2)), np.repeat([0, 1, 2], 40)
    X[:, 0] += y
    fitted_rows, made = [], fitting.make_engine

    def spy(scaled, plan, *others, **more):
        fitted_rows.append((scaled, plan.weights))
        return made(scaled, plan, *others, **more)

    monkeypatch.setattr(fitting, "make_engine", spy)
    monkeypatch.setattr(fitting, "FOLDED_ROWS", limit)
    config = MapConfig(max_experts=2, n_minibatches=20)
    weights = rng.uniform(0.5, 2.0, 120)
    PBDNClassifier(inference="map", map_config=config, max_depth=1, random_state=0).fit(X, y, sample_weight=weights)
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
