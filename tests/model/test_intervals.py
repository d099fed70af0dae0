"""Intervals from the networks that are averaged."""

import numpy as np
import pytest

from pbdn.model.intervals import WIDENING, jackknife_interval, log_odds


def test_it_is_the_jackknife_of_a_mean(rng):
    """Of a mean over groups, the jackknife over groups is the standard error of the mean of the groups' means."""
    groups = rng.normal(size=(5, 40))
    without = np.stack([np.delete(groups, m, axis=0).mean() for m in range(5)])
    members = 1.0 / (1.0 + np.exp(-without))[:, None, None]
    average = 1.0 / (1.0 + np.exp(-groups.mean()))
    low, high = log_odds(jackknife_interval(members, np.array([[average]]), 0.95))[0, 0]
    error = groups.mean(axis=1).std(ddof=1) / np.sqrt(5)
    assert high - low == pytest.approx(2 * 2.7764451 * WIDENING * error, rel=1e-6)
    assert 0.5 * (low + high) == pytest.approx(groups.mean(), rel=1e-6)


def test_ends_of_the_two_classes_mirror_each_other_and_stay_within_zero_and_one(rng):
    p = rng.uniform(1e-9, 1 - 1e-9, size=(5, 30))
    members = np.stack([1.0 - p, p], axis=-1)
    ends = jackknife_interval(members, members.mean(axis=0), 0.9)
    np.testing.assert_allclose(ends[:, 0], 1.0 - ends[:, 1, ::-1], atol=1e-9)
    assert (ends >= 0).all()
    assert (ends <= 1).all()
    wider = jackknife_interval(members, members.mean(axis=0), 0.99)
    assert (wider[..., 0] <= ends[..., 0]).all()
    assert (wider[..., 1] >= ends[..., 1]).all()


def test_members_that_agree_are_sure():
    members = np.full((5, 3, 2), 0.5)
    assert np.ptp(jackknife_interval(members, members[0], 0.95)) == 0.0
