"""Loaders and generators give what they say."""

import hashlib
import struct

import numpy as np
import pytest
from scipy.sparse import issparse
from scipy.stats import norm

from pbdn.datasets import (
    cache_folder,
    fetch,
    load_a9a,
    load_extra,
    load_ida,
    load_ijcnn1,
    load_mnist,
    load_mnist_pair,
    loaders,
    make_circles,
    make_ringnorm,
    make_two_spirals,
    make_twonorm,
    make_waveform,
    make_xor,
    sources,
)
from pbdn.datasets.loaders import every_tenth_row
from pbdn.errors import FileFormatError, InvalidInputError

IDA_SHAPES = {
    "banana": (5300, 2, 400, 2376),
    "breast_cancer": (277, 9, 200, 81),
    "titanic": (2201, 3, 150, 711),
    "waveform": (5000, 21, 400, 1647),
    "german": (1000, 20, 700, 300),
    "image": (2310, 18, 1300, 1320),
    "diabetis": (768, 8, 468, 268),
    "flare_solar": (1066, 9, 666, 589),
    "splice": (3175, 60, 1000, 1527),
    "twonorm": (7400, 20, 400, 3703),
}
GENERATORS = [make_two_spirals, make_xor, make_circles, make_waveform, make_twonorm, make_ringnorm]


@pytest.mark.parametrize("name", IDA_SHAPES)
def test_ida_sets_have_their_rows_and_splits(real_data, name):
    real_data(name)
    data = load_ida(name)
    n, width, n_train, n_ones = IDA_SHAPES[name]
    assert data.X.shape == (n, width)
    assert data.X.dtype == np.float64
    assert data.y.sum() == n_ones
    assert data.n_splits == 10
    for k in range(10):
        assert len(data.train[k]) == n_train
        np.testing.assert_array_equal(np.sort(np.r_[data.train[k], data.test[k]]), np.arange(n))
    assert sum(data.split_is_original) == (10 if name in fetch.IDA_NAMES else int(name == "twonorm"))


@pytest.mark.parametrize(("load", "n", "width", "sizes"), [
    (load_ijcnn1, 141_691, 22, (14_170, 14_169)),
    (load_a9a, 48_842, 123, (4885, 4885, 4884)),
])  # fmt: skip
def test_the_papers_tries(real_data, load, n, width, sizes):
    real_data(load.__name__.removeprefix("load_"))
    data = load()
    assert data.X.shape == (n, width)
    assert issparse(data.X) == (load is load_a9a)
    assert data.n_splits == 5
    assert tuple(len(rows) for rows in data.train[: len(sizes)]) == sizes
    assert not any(data.split_is_original)
    original = load(protocol="original")
    assert original.split_is_original == (True,)
    assert original.train[0][-1] + 1 == original.test[0][0]
    with pytest.raises(InvalidInputError, match="'paper' or 'original'"):
        load(protocol="mine")


def test_every_tenth_row():
    train, test = every_tenth_row(25)
    np.testing.assert_array_equal(train[1], [1, 11, 21])
    np.testing.assert_array_equal(train[4], [4, 14, 24])
    for rows, others in zip(train, test, strict=True):
        np.testing.assert_array_equal(np.sort(np.r_[rows, others]), np.arange(25))


def test_mnist_is_the_published_one(real_data):
    """The digest that fetched files must have is that of the local copy in the published form."""
    real_data("mnist")
    data = load_mnist()
    assert data.X.shape == (70_000, 784)
    assert data.X.min() == 0.0
    assert data.X.max() == 1.0
    arrays = loaders.read_arrays("mnist", ("x_train",))
    digest = hashlib.sha256()
    for part in ("train", "test"):
        X, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        digest.update(struct.pack(">IIII", 2051, len(X), 28, 28) + X.tobytes())
        digest.update(struct.pack(">II", 2049, len(y)) + y.tobytes())
    assert digest.hexdigest() == sources.SOURCES["mnist"].sha256


def test_mnist_pairs(real_data):
    real_data("mnist")
    data = load_mnist_pair(3, 5)
    assert [len(data.train[0]), len(data.test[0])] == [6131 + 5421, 1010 + 892]
    assert data.y[data.train[0]].sum() == 5421
    paper = load_mnist_pair(3, 5, protocol="paper")
    assert paper.n_splits == 5
    assert len(paper.train[0]) == -(-len(data.y) // 10)
    np.testing.assert_array_equal(load_mnist_pair(5, 3).y, 1 - data.y)


@pytest.mark.parametrize("name", fetch.EXTRA_FILES)
def test_extra_sets(real_data, name):
    real_data(name)
    data = load_extra(name)
    assert len(data.y) == data.X.shape[0]
    assert np.isfinite(data.X).all()
    assert data.n_splits == 0
    with pytest.raises(InvalidInputError, match="split the rows yourself"):
        data.split(0)


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(InvalidInputError, match="banana"):
        load_ida("bananas")
    with pytest.raises(InvalidInputError, match="spambase"):
        load_extra("spam")
    with pytest.raises(InvalidInputError, match="two different digits"):
        load_mnist_pair(3, 3)


def test_local_copies_come_before_the_cache(monkeypatch, tmp_path):
    for place, value in (("data", 1.0), ("cache", 2.0)):
        (tmp_path / place).mkdir()
        np.savez(tmp_path / place / "extra_spambase.npz", X=np.full((2, 1), value), y=np.array([0, 1]))
    monkeypatch.setenv("PBDN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PBDN_DATA", str(tmp_path / "data"))
    assert load_extra("spambase").X[0, 0] == 1.0
    (tmp_path / "data" / "extra_spambase.npz").unlink()
    assert load_extra("spambase").X[0, 0] == 2.0
    monkeypatch.setenv("PBDN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInputError, match="PBDN_DATA="):
        load_extra("spambase")


@pytest.mark.parametrize("damage", ["text", "pickle", "missing", "cut"])
def test_damaged_files_are_refused_and_nothing_is_executed(empty_cache, damage):
    empty_cache.mkdir()
    path = empty_cache / "extra_spambase.npz"
    if damage == "text":
        path.write_text("not an archive")
    elif damage == "pickle":
        np.savez(path, X=np.array([{}], dtype=object), y=np.zeros(1))
    else:
        np.savez(path, X=np.zeros((1, 1)))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(FileFormatError, match=r"extra_spambase\.npz .*delete or replace"):
        load_extra("spambase")


def test_cache_folder_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("PBDN_CACHE", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pbdn"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder().parts[-3:] == ("Library", "Caches", "pbdn")
    monkeypatch.setenv("PBDN_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


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
