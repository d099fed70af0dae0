"""Limits on work and on time: steps, rows, threads and the clock."""

import sys

import numpy as np
import pytest

from folds import RESPONSE, config_of, rings
from pbdn.config import starts_for
from pbdn.data.labelled_rows import LabelledRows, rows_to_prepare
from pbdn.data.open_stream import open_source
from pbdn.growth.committee import grow_committee
from pbdn.growth.run import Run, StopSignal, n_threads
from pbdn.growth.trainee import JOINT_NUMBERS, joint_work
from pbdn.model.network import Side
from pbdn.sgd.objective import pack
from pbdn.sgd.pruning import log_inactivity, log_likelihoods
from pbdn.sgd.train_layer import fit_map


def test_work_is_budgeted_by_numbers():
    assert starts_for(20, 2, 20) == (3, 10)
    assert starts_for(201, 2, 20) == (1, 9)
    assert starts_for(201, 2, 4) == (2, 4)
    assert starts_for(100_000, 2, 20) == (1, 2)
    assert joint_work(400, 500, 1500) == (1500, 200)
    assert joint_work(100_000, 500, 1500)[1] == 10 * 100_000 // 1500
    for n_rows, n_coefficients in [(400, 50_000), (10**6, 100), (10**6, 50_000), (4000, 10**5)]:
        steps, size = joint_work(n_rows, n_coefficients, 1500)
        assert 200 <= steps <= 1500
        assert size >= 200
        assert steps * size * n_coefficients <= max(JOINT_NUMBERS, 200 * 200 * n_coefficients)


def test_many_rows_are_thinned_and_small_classes_kept(rng):
    codes = np.r_[np.zeros(900, int), np.full(30, 1), np.full(500, 2)]
    rows = LabelledRows(rng.normal(size=(codes.size, 3)), codes)
    thin = rows.thinned(300)
    assert thin.n_rows <= 300
    assert np.bincount(thin.codes)[1] == 30
    np.testing.assert_allclose(np.bincount(thin.codes, thin.weights), np.bincount(codes))
    order = rng.permutation(codes.size)
    again = rows.take(order).thinned(300)
    np.testing.assert_array_equal(again.inputs, thin.inputs)  # which rows stay does not depend on their order
    assert rows.thinned(codes.size) is rows
    weighted = LabelledRows(rows.inputs, codes, rng.uniform(1, 2, codes.size)).thinned(300)
    np.testing.assert_allclose(weighted.weights.sum(), 1.5 * codes.size, rtol=0.1)


def test_rows_are_chosen_before_their_features_are_made(monkeypatch):
    monkeypatch.setattr("pbdn.data.labelled_rows.MOST_TRAINED", 900)
    monkeypatch.setattr("pbdn.data.labelled_rows.FEWEST_TRAINED", 10)
    codes = np.r_[np.zeros(900, int), np.full(30, 1), np.full(500, 2)]
    chosen, weights = rows_to_prepare(codes, None, n_features=3)
    assert np.all(np.diff(chosen) > 0)
    assert np.bincount(codes[chosen])[1] == 30
    np.testing.assert_allclose(np.bincount(codes[chosen], weights), np.bincount(codes))
    thin = LabelledRows(np.zeros((chosen.size, 3)), codes[chosen])
    assert thin.thinned(thin.most_trained) is thin  # the fit takes them all
    given = np.where(np.arange(codes.size) % 2, 2.0, 0.0)
    chosen, weights = rows_to_prepare(codes, given, n_features=3)
    assert np.all(chosen % 2 == 1)  # rows without weight are not learnt from
    np.testing.assert_allclose(np.bincount(codes[chosen], weights), np.bincount(codes, given))
    every, same = rows_to_prepare(codes[:20], given[:20], n_features=3)
    np.testing.assert_array_equal(every, np.arange(20))
    assert same is not None


def test_threads_are_those_of_the_folds_unless_asked():
    assert n_threads(1, True) == n_threads(None, False) == 1
    assert 1 <= n_threads(None, True) <= 5
    assert n_threads(7, True) == 7


class Clock:
    """Time that a test moves: every look at it takes a second."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("n_looks", [1, 3, 8, 20])
def test_nothing_is_trained_after_the_clock_has_struck(n_looks, rng, monkeypatch):
    """However late it strikes: whoever works asks before the next piece of work, and pieces are small."""
    X, y = rings(rng, 120)
    stop = StopSignal(float(n_looks) + 0.5, 60.0, clock=Clock())
    late = []
    for place in ("pbdn.sgd.joint_training.run_joint_steps", "pbdn.sgd.trainer.run_minibatches"):
        module, name = place.rsplit(".", 1)
        real = getattr(sys.modules[module], name)

        def watched(*arguments, real=real):
            late.append(stop.clock.now > stop.deadline)
            return real(*arguments)

        monkeypatch.setattr(place, watched)
    growth = grow_committee(LabelledRows(X, y), RESPONSE, config_of(), Run(0, stop=stop))
    assert growth.reason == "interrupted"
    assert not any(late)
    assert growth.fits


def test_a_compiled_call_is_short_however_large_a_layer_is(rng, monkeypatch):
    monkeypatch.setattr("pbdn.sgd.trainer.CALL_NUMBERS", 2e4)
    source = LabelledRows(rng.normal(size=(300, 4)), np.arange(300) % 2).source(2)
    settings = config_of().map
    steps = []
    fit_map(source, RESPONSE.labelling, config=settings, on_progress=lambda info: steps.append(info["step"]))
    per_call = np.diff([0, *steps])
    assert per_call.max() * 100 * (2 * 6 * 6) <= 2e4
    whole = fit_map(source, RESPONSE.labelling, config=settings)
    monkeypatch.undo()
    again = fit_map(source, RESPONSE.labelling, config=settings)
    np.testing.assert_array_equal(whole.sides[0].hyperplanes, again.sides[0].hyperplanes)


def test_passes_over_a_stream_end_when_the_time_is_up(rng):
    rows, codes = rng.normal(size=(600, 3)), np.arange(600) % 2
    batches = [(rows[i : i + 100], codes[i : i + 100]) for i in range(0, 600, 100)]
    source = open_source(batches, None)
    parameters, starts = pack([Side(rng.normal(size=(2, 4)), np.ones(2)) for _ in range(2)])
    sides = parameters, starts, RESPONSE.labelling.positive
    guess = log_likelihoods(source, *sides, lambda: True)
    block = LabelledRows(rows[:100], codes[:100]).source(2)
    np.testing.assert_allclose(guess, 6.0 * log_likelihoods(block, *sides), rtol=1e-9)
    assert (log_inactivity(source, *sides, floor=-1e9, should_stop=lambda: True) == -np.inf).all()
    np.testing.assert_allclose(log_likelihoods(source, *sides, lambda: False), log_likelihoods(source, *sides))
