"""Synthetic two-class problems, each a pure function of its size, its noise and an explicit seed."""

import numpy as np

from pbdn.datasets.loaders import Dataset, alternate_rows
from pbdn.errors import InvalidInputError
from pbdn.numerics.arrays import FloatArray, IntArray

WAVES = np.stack([np.clip(6.0 - np.abs(np.arange(1, 22) - centre), 0.0, None) for centre in (11, 7, 15)])
"""Breiman's three triangular waves on 21 points, peaks at points 11, 7 and 15."""


def make_two_spirals(n: int = 4000, noise: float = 0.8, seed: int = 0) -> Dataset:
    """Two interleaved spirals of two turns: angle a = 4π√u, point ∓(cos a, -sin a)·a + noise·(u', u'').

    The uniform noise on [0, ``noise``] is not centred, as in the paper. Rows of class 0 come first; even rows
    train and odd rows test.

    Parameters
    ----------
    n : int, default 4000
        Rows, half of them in each class (class 1 gets the odd one).
    noise : float, default 0.8
        Length of the interval of the uniform noise added to each coordinate; 0 gives the bare curves.
    seed : int, default 0
        Seed of ``numpy.random.default_rng``.
    """
    _check(n, noise)
    rng = np.random.default_rng(seed)
    counts = (n // 2, n - n // 2)
    parts = []
    for sign, count in zip((-1.0, 1.0), counts, strict=True):
        angle = np.sqrt(rng.random(count)) * 4.0 * np.pi
        curve = sign * angle[:, None] * np.column_stack([np.cos(angle), -np.sin(angle)])
        parts.append(curve + noise * rng.random((count, 2)))
    return _dataset("two_spirals", np.concatenate(parts), np.repeat([0, 1], counts), ("x1", "x2"))


def make_xor(n: int = 1000, noise: float = 0.1, seed: int = 0) -> Dataset:
    """Uniform points of [-1, 1]², y = 1 where the coordinates differ in sign; then Gaussian noise on X."""
    _check(n, noise)
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-1.0, 1.0, (n, 2))
    y = (corners[:, 0] * corners[:, 1] < 0).astype(np.int64)
    return _dataset("xor", corners + noise * rng.standard_normal((n, 2)), y, ("x1", "x2"))


def make_circles(n: int = 1000, noise: float = 0.1, seed: int = 0, inner_radius: float = 0.5) -> Dataset:
    """Two concentric circles, y = 0 on the inner and y = 1 on the outer (radius 1), with Gaussian noise."""
    _check(n, noise)
    if not 0.0 < inner_radius < 1.0:
        raise InvalidInputError(f"inner_radius must lie between 0 and 1, exclusive; got {inner_radius!r}.")
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    radius = np.where(y == 1, 1.0, inner_radius)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return _dataset("circles", X + noise * rng.standard_normal((n, 2)), y, ("x1", "x2"))


def make_waveform(n: int = 5000, noise: float = 1.0, seed: int = 0) -> Dataset:
    """Breiman's waveform: u·wave_a + (1 - u)·wave_b + N(0, noise²) on 21 points; y = 1 for the first class.

    The three classes mix the wave pairs (1, 2), (1, 3), (2, 3) with equal probability; class (1, 2) against
    the other two gives about one third of the rows y = 1, as in the two-class benchmark of that name.
    """
    _check(n, noise)
    rng = np.random.default_rng(seed)
    kind = rng.integers(3, size=n)
    first, second = np.array([0, 0, 1])[kind], np.array([1, 2, 2])[kind]
    u = rng.random((n, 1))
    X = u * WAVES[first] + (1.0 - u) * WAVES[second] + noise * rng.standard_normal((n, 21))
    return _dataset("waveform", X, (kind == 0).astype(np.int64), tuple(f"t{i + 1}" for i in range(21)))


def make_twonorm(n: int = 7400, n_features: int = 20, seed: int = 0) -> Dataset:
    """Breiman's twonorm: N(+a, I) for y = 1 and N(-a, I) for y = 0, every entry of a being 2/√n_features.

    The optimal rule is the sign of the sum of the features; its error is Φ(-2) = 2.3 %.
    """
    _check(n, 0.0, n_features)
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    centre = np.where(y == 1, 1.0, -1.0)[:, None] * (2.0 / np.sqrt(n_features))
    return _dataset("twonorm", centre + rng.standard_normal((n, n_features)), y)


def make_ringnorm(n: int = 7400, n_features: int = 20, seed: int = 0) -> Dataset:
    """Breiman's ringnorm: N(0, 4 I) for y = 0 and N(a, I) for y = 1, every entry of a being 1/√n_features."""
    _check(n, 0.0, n_features)
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    noise = rng.standard_normal((n, n_features))
    X = np.where((y == 1)[:, None], 1.0 / np.sqrt(n_features) + noise, 2.0 * noise)
    return _dataset("ringnorm", X, y)


def _dataset(name: str, X: FloatArray, y: IntArray, names: tuple[str, ...] | None = None) -> Dataset:
    train, test = alternate_rows(len(y))
    names = names or tuple(f"x{i + 1}" for i in range(X.shape[1]))
    return Dataset(
        name=name,
        X=X,
        y=y.astype(np.int64),
        train=(train,),
        test=(test,),
        feature_names=names,
        description=f"synthetic {name}, {X.shape[0]} rows x {X.shape[1]} features, even rows train",
    )


def _check(n: int, noise: float, n_features: int = 2) -> None:
    if n < 2:
        raise InvalidInputError(f"n must be at least 2 rows; got {n!r}.")
    if not 0.0 <= noise < np.inf:
        raise InvalidInputError(f"noise must be finite and not negative; got {noise!r}.")
    if n_features < 1:
        raise InvalidInputError(f"n_features must be at least 1; got {n_features!r}.")
