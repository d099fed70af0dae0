"""Random bits: published answers of the cipher, independence of streams, elementary laws."""

import numpy as np
import pytest
from scipy import stats

from checks import Z_MAX, assert_cdf, assert_mean, assert_variance
from draws import draws, from_python
from pbdn.variates.random_stream import (
    bits,
    exponential,
    normal,
    open_stream,
    philox,
    stream_buffer,
    stream_key,
    uniform,
)

cipher, next_bits = from_python(philox), from_python(bits)

# Random123's known answers for philox4x32 with ten rounds: counter, key, result
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_philox_known_answers(counter, key, answer):
    assert tuple(int(word) for word in cipher(*map(np.uint64, counter + key))) == answer


KEY = np.uint64(123)


def words(n, *where, key=KEY):
    buffer = stream_buffer()
    stream = open_stream(buffer, key, *where)
    return np.array([next_bits(stream) for _ in range(n)], dtype=np.uint64)


def test_stream_is_the_cipher_of_its_counters():
    """Words of a stream are Philox outputs of (position, block, sweep, purpose), in the documented order."""
    key = stream_key(7, 1, 2)
    got = words(128, 5, 9, 3, key=key)
    k = int(key)
    blocks = [cipher(*map(np.uint64, (position, 9, 5, 3, k & 0xFFFFFFFF, k >> 32))) for position in range(64)]
    blocks = [[int(word) for word in block] for block in blocks]
    low = [block[1] << 32 | block[0] for block in blocks]
    high = [block[3] << 32 | block[2] for block in blocks]
    assert got.tolist() == low[:32] + high[:32] + low[32:] + high[32:]


@pytest.mark.parametrize("other", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (2**31, 0, 0), (0, 2**31, 0)])
def test_sweeps_blocks_and_purposes_have_their_own_streams(other):
    a, b = words(4096, 0, 0, 0), words(4096, *other)
    assert not np.intersect1d(a, b).size
    agreeing = sum(int(x).bit_count() for x in ~(a ^ b))
    n_bits = 64 * a.size
    assert abs(agreeing - n_bits / 2) < Z_MAX * np.sqrt(n_bits) / 2


def test_keys_depend_on_every_part():
    places = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 1)]
    keys = [int(stream_key(seed, *where)) for seed in (0, 1, 2**40) for where in places]
    assert len(set(keys)) == len(keys)


def test_reopening_gives_the_same_bits():
    assert np.array_equal(words(1000, 3, 4, 1), words(1000, 3, 4, 1))


@pytest.mark.parametrize(
    ("variate", "law"),
    [(uniform, stats.uniform()), (normal, stats.norm()), (exponential, stats.expon())],
    ids=["uniform", "normal", "exponential"],
)
def test_elementary_laws(seed, variate, law):
    x = draws(variate, seed, 1_000_000)
    assert np.isfinite(x).all()
    points = law.ppf(np.linspace(1e-6, 1 - 1e-6, 2001))
    assert_cdf(x, points, law.cdf(points))
    mean, variance, _, excess = law.stats("mvsk")
    assert_mean(x, mean, variance)
    assert_variance(x, variance, excess * variance**2)


def test_uniform_is_never_zero_or_one(seed):
    u = draws(uniform, seed, 1_000_000)
    assert u.min() > 0
    assert u.max() < 1


def test_normal_tail(seed):
    """Beyond the ziggurat's edge at 3.654 the tail has its own algorithm."""
    z = draws(normal, seed, 4_000_000)
    for edge in (3.0, 3.6541528853610088, 4.0):
        p = 2 * stats.norm.sf(edge)
        n = np.sum(np.abs(z) > edge)
        assert abs(n - p * z.size) < Z_MAX * np.sqrt(p * z.size)
    beyond = np.abs(z[np.abs(z) > 3.6541528853610088])
    points = np.linspace(3.66, 5.0, 200)
    cut = stats.norm.sf(3.6541528853610088)
    assert_cdf(beyond, points, 1 - stats.norm.sf(points) / cut)


def test_lagged_draws_are_uncorrelated(seed):
    z = draws(normal, seed, 1_000_000)
    for lag in (1, 2, 31, 32, 33, 63, 64, 65):
        product = z[lag:] * z[:-lag]
        assert_mean(product, 0.0, 1.0, f"lag {lag}")
