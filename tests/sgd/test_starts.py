"""Several starts: scattered hyperplanes, and the best start of every side."""

import numpy as np

from pbdn.data.row_source import ArraySource
from pbdn.model.labelling import Labelling
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.starts import START_GAIN, fit_from_starts, scattered_sides
from pbdn.sgd.train_layer import fit_map

BOTH = Labelling((0, 1))


def test_hyperplanes_pass_through_rows_and_leave_constant_inputs_alone(rng):
    rows = rng.normal(size=(50, 4)) * [1.0, 10.0, 0.1, 0.0]
    sides = scattered_sides(rng, rows, 7, 3)
    assert len(sides) == 3
    for side in sides:
        distances = side.hyperplanes[:, 0] + rows @ side.hyperplanes[:, 1:].T
        assert np.abs(distances).min(axis=0).max() < 1e-9
        assert (side.hyperplanes[:, 4] == 0).all()
    spread = np.concatenate([(rows @ side.hyperplanes[:, 1:].T).std(axis=0) for side in sides])
    assert 0.5 * START_GAIN < spread.mean() < 1.5 * START_GAIN


def test_the_best_start_of_each_side_is_kept(rng):
    """Trained one by one from the same places, no start has a lower AIC than the one that was kept."""
    X = rng.normal(size=(80, 2))
    codes = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
    source, config = ArraySource(X, codes), MapSettings(n_minibatches=200, max_experts=4, prune_every=100)
    together = fit_from_starts(source, X, BOTH, depth=1, config=config, seed=5, n_starts=3)
    rng_of_starts = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(1, 0)))
    all_sides = scattered_sides(rng_of_starts, X, 4, 6)
    every = fit_map(source, Labelling(BOTH.sides * 3), depth=1, config=config, seed=5, initial=all_sides)
    charge = [2 * s.hyperplanes.size - 2 * v for s, v in zip(every.sides, every.log_likelihood, strict=True)]
    for s in range(2):
        kept = 2 * together.sides[s].hyperplanes.size - 2 * together.log_likelihood[s]
        assert kept == min(charge[s::2])
