"""Many draws of a compiled variate from one stream, for tests of its law."""

import numpy as np
from numba import njit

from pbdn.variates.random_stream import open_stream, stream_buffer, stream_key


def from_python(function):
    """A function that only kernels call, with an entrance for Python."""
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
        out[i] = draw(stream, *arguments)


def vector_draws(update, seed, n, size, *arguments):
    """n draws of update(stream, *arguments), each an array of ``size`` numbers."""
    out = np.empty((n, size))
    _fill_vectors(update, stream_buffer(), stream_key(seed), arguments, out)
    return out


def open_at(seed, index=0):
    """A stream and the buffer that must be kept alive with it."""
    buffer = stream_buffer()
    return open_stream(buffer, stream_key(seed), index, 0, 0), buffer
