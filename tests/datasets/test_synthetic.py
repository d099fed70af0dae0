import numpy as np
import pytest
from scipy.stats import norm

from pbdn.datasets import (
    make_circles,
    make_ringnorm,
    make_two_spirals,
    make_twonorm,
    make_waveform,
    make_xor,
)
from pbdn.errors import InvalidInputError

GENERATORS = [make_two_spirals, make_xor, make_circles, make_waveform, make_twonorm, make_ringnorm]


@pytest.mark.parametrize("make", GENERATORS)
def test_a_seed_gives_one_dataset(make):
    first, again, other = make(n=301, seed=3), make(n=301, seed=3), make(n=301, seed=4)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)
    assert first.X.shape == (301, len(first.feature_names))
    assert set(np.unique(first.y)) == {0, 1}
    rows = np.concatenate([first.train[0], first.test[0]])
    np.testing.assert_array_equal(np.sort(rows), np.arange(301))


def test_two_spirals_are_the_papers():
    spirals = make_two_spirals()
    assert spirals.X.shape == (4000, 2)
    assert len(spirals.train[0]) == len(spirals.test[0]) == 2000
    np.testing.assert_array_equal(spirals.train[0], np.arange(0, 4000, 2))
    assert spirals.y.sum() == 2000


def test_two_spirals_without_noise_lie_on_their_curves():
    spirals = make_two_spirals(n=200, noise=0.0, seed=1)
    radius = np.hypot(*spirals.X.T)
    sign = np.where(spirals.y == 1, 1.0, -1.0)
    np.testing.assert_allclose(spirals.X[:, 0], sign * radius * np.cos(radius), atol=1e-12)
    np.testing.assert_allclose(spirals.X[:, 1], -sign * radius * np.sin(radius), atol=1e-12)
    assert radius.max() <= 4 * np.pi


def test_the_spirals_noise_is_uniform_from_zero():
    bare, noisy = make_two_spirals(n=2000, noise=0.0, seed=5), make_two_spirals(n=2000, noise=0.8, seed=5)
    shift = noisy.X - bare.X
    assert shift.min() >= 0.0
    assert shift.max() <= 0.8
    assert abs(shift.mean() - 0.4) < 6 * 0.8 / np.sqrt(12 * shift.size)


def test_xor_labels_follow_the_quadrants():
    xor = make_xor(n=500, noise=0.0)
    np.testing.assert_array_equal(xor.y, xor.X[:, 0] * xor.X[:, 1] < 0)


def test_circles_have_their_radii():
    circles = make_circles(n=500, noise=0.0, inner_radius=0.4)
    np.testing.assert_allclose(np.hypot(*circles.X.T), np.where(circles.y == 1, 1.0, 0.4))


def test_twonorm_optimal_error():
    twonorm = make_twonorm(n=40_000, seed=2)
    error = np.mean((twonorm.X.sum(axis=1) > 0) != twonorm.y)
    best = norm.cdf(-2.0)
    assert abs(error - best) < 5 * np.sqrt(best * (1 - best) / 40_000)


def test_ringnorm_moments():
    ringnorm = make_ringnorm(n=40_000, seed=2)
    zeros, ones = ringnorm.X[ringnorm.y == 0], ringnorm.X[ringnorm.y == 1]
    assert abs(zeros.std() - 2.0) < 0.02
    assert abs(ones.mean() - 1 / np.sqrt(20)) < 0.01
    assert abs(ones.std() - 1.0) < 0.01


def test_waveform_class_means():
    """The mean of u·a + (1 - u)·b is the mean of the two waves."""
    waveform = make_waveform(n=30_000, seed=2)
    mean = waveform.X[waveform.y == 1].mean(axis=0)
    points = np.arange(1, 22)
    waves = [np.maximum(6 - abs(points - centre), 0) for centre in (11, 7)]
    np.testing.assert_allclose(mean, (waves[0] + waves[1]) / 2, atol=0.1)
    assert abs(waveform.y.mean() - 1 / 3) < 0.02


@pytest.mark.parametrize(
    ("arguments", "word"), [({"n": 1}, "n must"), ({"noise": -1.0}, "noise"), ({"noise": np.nan}, "noise")]
)
def test_bad_arguments_are_named(arguments, word):
    with pytest.raises(InvalidInputError, match=word):
        make_two_spirals(**arguments)
