"""Counter-based random streams that belong to the data, not to the worker.

A stream is the output of the Philox4x32-10 block cipher (Salmon et al. 2011) at

    key     = hash(seed, depth, side, chain)
    counter = (position, row block, sweep, purpose),

so the draws of a row block in a sweep are the same whatever thread, process or restart makes them, and no
state has to be stored between sweeps. The memory of a stream is a plain uint64 array (`stream_buffer`): a short
header and a buffer that is refilled a few blocks at a time, which lets the compiler vectorise the cipher. Compiled
code holds a stream by the *address* of that array, because an array argument costs an atomic reference count per
call, ten times the draw itself; so whoever opens a stream must keep its buffer alive (kernels get it as an argument).
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from pbdn.variates.compiled import inlined, internal, kernel

# purposes: one independent stream each within a sweep
# (NumPy integers, because a literal argument makes the compiler specialise for every value)
TABLES, PG_WEIGHTS, WEIGHTS, HYPERPLANES, INITIAL, MISSING_CUSTOMERS = (np.int64(j) for j in range(6))

_HEADER = 6  # key, block, sweep, purpose, position, cursor
_KEY, _BLOCK, _SWEEP, _PURPOSE, _POSITION, _CURSOR = range(_HEADER)
_BATCH = 32  # cipher calls per refill, two words each
_END = _HEADER + 2 * _BATCH

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_TO_UNIT = 2.0**-53


def stream_key(seed: int, *where: int) -> np.uint64:
    """64-bit key of all streams of one chain: where = (depth, side, chain)."""
    return np.uint64(np.random.SeedSequence(seed, spawn_key=where).generate_state(1, np.uint64)[0])


def stream_buffer() -> NDArray[np.uint64]:
    """Memory for one stream."""
    return np.zeros(_END, np.uint64)


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    """Cast an address to a pointer to uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(64).as_pointer())

    return types.CPointer(types.uint64)(types.uintp), generate


@internal
def _words(stream):
    """The memory behind a stream, as an array that is not reference-counted."""
    return carray(_pointer(stream), (_END,))


@inlined
def philox_round(x0, x1, x2, x3, k0, k1):
    """One Philox4x32 round on four words and a two-word round key (each a uint32 held in a uint64)."""
    p0 = _M0 * x0
    p1 = _M1 * x2
    return (p1 >> _SHIFT) ^ x1 ^ k0, p1 & _LOW, (p0 >> _SHIFT) ^ x3 ^ k1, p0 & _LOW


@inlined
def philox(x0, x1, x2, x3, k0, k1):
    """Philox4x32-10 of one counter; written out so that the compiler vectorises a loop over counters."""
    x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return philox_round(x0, x1, x2, x3, k0, k1)


@internal
def encrypt(words, calls, out):
    """Encrypt the stream's next counters into 2 ``calls`` words: low halves of the results first, then the high halves."""
    k0, k1 = words[_KEY] & _LOW, words[_KEY] >> _SHIFT
    base = words[_POSITION]
    c1, c2, c3 = words[_BLOCK], words[_SWEEP], words[_PURPOSE]
    low, high = out[:calls], out[calls : 2 * calls]
    for call in range(calls):
        x0, x1, x2, x3 = philox((base + np.uint64(call)) & _LOW, c1, c2, c3, k0, k1)
        low[call] = (x1 << _SHIFT) | x0
        high[call] = (x3 << _SHIFT) | x2
    words[_POSITION] = base + np.uint64(calls)


@kernel
def open_stream(buffer, key, sweep, block, purpose):
    """The stream of (key; sweep, row block, purpose), at its start, in the memory of ``buffer``."""
    buffer[_KEY] = np.uint64(key)
    buffer[_BLOCK] = np.uint64(block) & _LOW
    buffer[_SWEEP] = np.uint64(sweep) & _LOW
    buffer[_PURPOSE] = np.uint64(purpose) & _LOW
    buffer[_POSITION] = np.uint64(0)
    buffer[_CURSOR] = np.uint64(_END)
    return buffer.ctypes.data


@kernel
def bits(stream):
    """64 random bits."""
    words = _words(stream)
    cursor = words[_CURSOR]
    if cursor == np.uint64(_END):
        encrypt(words, np.int64(_BATCH), words[_HEADER:])
        cursor = np.uint64(_HEADER)
    words[_CURSOR] = cursor + np.uint64(1)
    return words[cursor]


@internal
def fill_bits(stream, out, n):
    """The stream's next cipher calls as n or n + 1 words of 64 random bits in ``out``; words left in the buffer are dropped."""
    words = _words(stream)
    encrypt(words, (n + 1) // 2, out)
    words[_CURSOR] = np.uint64(_END)


@kernel
def uniform(stream):
    """U ~ Uniform(0, 1), never 0 or 1."""
    return (np.float64(bits(stream) >> np.uint64(11)) + 0.5) * _TO_UNIT


@kernel
def exponential(stream):
    """E ~ Exp(1)."""
    return -np.log(uniform(stream))


def _ziggurat() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Layer edges x_0 > x_1 > … > x_256 = 0 of equal area under e^{-x²/2}, and the density at each edge.

    x_1 is the edge of the tail and x_0 the width of the base layer's rectangle (Marsaglia & Tsang 2000).
    """
    edge, area = 3.6541528853610088, 0.00492867323399
    x = np.zeros(257)
    x[1] = edge
    x[0] = area / np.exp(-0.5 * edge * edge)
    for i in range(2, 256):
        x[i] = np.sqrt(-2.0 * np.log(area / x[i - 1] + np.exp(-0.5 * x[i - 1] ** 2)))
    return x, np.exp(-0.5 * x * x)


_EDGE, _DENSITY = _ziggurat()
_TAIL = float(_EDGE[1])


@internal
def _normal_slow(stream, layer, x):
    """Wedge and tail of the ziggurat; returns (accepted, value ≥ 0)."""
    if layer == 0:
        while True:
            x = exponential(stream) / _TAIL
            if 2.0 * exponential(stream) > x * x:
                return True, _TAIL + x
    height = _DENSITY[layer] + uniform(stream) * (_DENSITY[layer + 1] - _DENSITY[layer])
    return height < np.exp(-0.5 * x * x), x


@kernel
def normal(stream):
    """Z ~ N(0, 1) by the 256-layer ziggurat."""
    while True:
        word = bits(stream)
        layer = np.int64(word & np.uint64(0xFF))
        negative = (word & np.uint64(0x100)) != np.uint64(0)
        x = (np.float64(word >> np.uint64(11)) + 0.5) * _TO_UNIT * _EDGE[layer]
        accepted = x < _EDGE[layer + 1]
        if not accepted:
            accepted, x = _normal_slow(stream, layer, x)
        if accepted:
            return -x if negative else x
