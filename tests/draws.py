"""Many draws of a compiled variate from one stream, for tests of its law."""

from functools import cache, partial

import mpmath as mp
import numpy as np
from numba import njit

from pbdn.gibbs.event_times import draw_events
from pbdn.gibbs.first_events import draw_first_events
from pbdn.gibbs.kernel_arguments import Blocks, BlockSums, Experts
from pbdn.variates.random_stream import SweepStreams, open_stream, stream_buffer, stream_key

WEIGHTS = np.array([0.4, 1.5, 0.05])


@cache
def from_python(function):
    """A function that only kernels call, with an entrance for Python; compiled once in a session."""
    return njit(lambda *arguments: function(*arguments))


@njit(nogil=True)
def _fill0(draw, buffer, key, out):
    stream = open_stream(buffer, key, 0, 0, 0)
    for i in range(out.size):
        out[i] = draw(stream)


@njit(nogil=True)
def _fill1(draw, buffer, key, a, out):
    stream = open_stream(buffer, key, 0, 0, 0)
    for i in range(out.size):
        out[i] = draw(stream, a)


@njit(nogil=True)
def _fill2(draw, buffer, key, a, b, out):
    stream = open_stream(buffer, key, 0, 0, 0)
    for i in range(out.size):
        out[i] = draw(stream, a, b)


def draws(variate, seed, n, *parameters):
    """n draws of variate(stream, *parameters), the parameters being numbers."""
    out = np.empty(n)
    fill = (_fill0, _fill1, _fill2)[len(parameters)]
    fill(variate, stream_buffer(), stream_key(seed), *map(float, parameters), out)
    return out


@njit(nogil=True)
def _fill_vectors(draw, buffer, key, arguments, out):
    stream = open_stream(buffer, key, 0, 0, 0)
    for i in range(out.shape[0]):
        values = draw(stream, *arguments)
        for j in range(out.shape[1]):  # a slice would take longer to compile
            out[i, j] = values[j]


def vector_draws(update, seed, n, size, *arguments):
    """n draws of update(stream, *arguments), each an array of ``size`` numbers."""
    out = np.empty((n, size))
    _fill_vectors(update, stream_buffer(), stream_key(seed), arguments, out)
    return out


def open_at(seed, index=0):
    """A stream and the buffer that must be kept alive with it."""
    buffer = stream_buffer()
    return open_stream(buffer, stream_key(seed), index, 0, 0), buffer


# Run phase A of a sweep on all rows, for tests of its laws.


def streams_of(seed, sweep=0):
    return SweepStreams(stream_buffer(), stream_key(seed), sweep)


def empty_sums(n_blocks, n_experts):
    return BlockSums(np.empty((n_blocks, n_experts)), np.empty((n_blocks, n_experts)), np.empty(n_blocks))


def events_of(rows, planes, weights, seed, first_only, sweep=0, in_blocks=False):
    """`Tables` (or the winners), watched, tables of experts, exposure sums, log-likelihood."""
    watched, winner = np.empty(rows.n_rows), np.empty(rows.n_rows, int)
    draw = draw_first_events if in_blocks else partial(draw_events, first_only)
    experts = Experts(planes, np.log(weights), np.ones(len(weights), bool))
    sums = empty_sums(rows.n_blocks, len(weights))
    found = draw(
        rows.arrays, experts, streams_of(seed, sweep), Blocks(0, rows.n_blocks), watched,
        *([winner] if in_blocks else []), sums,
    )  # fmt: skip
    return winner if in_blocks else found, watched, sums.n_tables.sum(0), sums.exposure.sum(0), sums.log_lik.sum()


# Polya-Gamma laws from their definitions, sharing nothing with the sampler.


def exact_cumulants(b, c, order=4):
    """Cumulants 1 to ``order`` of PG(b, c): b times those of PG(1, c)."""
    return [float(b) * cumulant for cumulant in _cumulants_of_one(float(c), order)]


@cache
def _cumulants_of_one(c, order):
    """Derivatives of ln cosh √(c²/4 + t/2), to 30 digits.

    The Taylor coefficients of g(u) = ln cosh √u at u = c²/4 come from Cauchy's integral over a circle inside the
    first singularity (u = -π²/4).
    """
    with mp.workdps(40):
        u = mp.mpf(c) ** 2 / 4
        radius, n = (u + mp.pi**2 / 4) / 2, 128
        total = [mp.mpc(0)] * (order + 1)
        for j in range(n):
            turn = mp.expjpi(mp.mpf(2 * j) / n)
            z = mp.sqrt(u + radius * turn)
            value = z + mp.log1p(mp.exp(-2 * z))  # ln 2 cosh z, Re z ≥ 0
            for p in range(1, order + 1):
                total[p] += value * turn ** (-p)
        return [
            float((-1) ** (p + 1) * mp.factorial(p) * (total[p].real / n / radius**p) / mp.mpf(2) ** p)
            for p in range(1, order + 1)
        ]


def polya_gamma_transform(b, c):
    """s ↦ E e^{-sω}, stable for complex s and any c."""

    def transform(s):
        z = np.sqrt(0.25 * c * c + 0.5 * s)
        return np.exp(-b * (0.5 * s / (z + 0.5 * c) + np.log1p(np.exp(-2 * z)) - np.log1p(np.exp(-c))))

    return transform


def invert_cdf(transform, x, n_terms=600, n_average=14, accuracy=23.0):
    """P(X ≤ x) for X ≥ 0 by the Euler algorithm of Abate & Whitt (1995); error about e^{-accuracy}."""
    x = np.asarray(x, dtype=float)[:, None]
    k = np.arange(1, n_terms + n_average + 1)
    start = accuracy / (2 * x)
    terms = (-1.0) ** k * np.real(transform(start + 1j * np.pi * k / x) / (start + 1j * np.pi * k / x))
    first = 0.5 * np.real(transform(start) / start)
    partial = first + np.cumsum(terms, axis=1)[:, n_terms - 1 :]
    binomial = np.array([float(mp.binomial(n_average, j)) for j in range(n_average + 1)]) / 2.0**n_average
    return (np.exp(accuracy / 2) / x[:, 0]) * (partial @ binomial)
