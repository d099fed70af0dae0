"""Counter-based random streams that belong to the data, not to the worker; uniform, normal, exponential and gamma variates.

A stream is the output of the Philox4x32-10 block cipher (Salmon et al. 2011) at

    key     = hash(seed, depth, side, chain)
    counter = (position, row block, sweep, purpose),

so the draws of a row block in a sweep are the same whatever thread, process or restart makes them, and no
state has to be stored between sweeps. The memory of a stream is a plain uint64 array (`stream_buffer`): a short
header and a buffer that is refilled a few blocks at a time, which lets the compiler vectorise the cipher. Compiled
code holds a stream by the *address* of that array, because an array argument costs an atomic reference count per
call, ten times the draw itself; so whoever opens a stream must keep its buffer alive (kernels get it as an argument).
The header also holds the address of the compiled cipher: called by it, the cipher is compiled once, and not again into each
of the thirty functions that draw random numbers.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import address_of, elementary, internal, kernel

# purposes: one independent stream each within a sweep
# (NumPy integers, because a literal argument makes the compiler specialise for every value)
TABLES, PG_WEIGHTS, WEIGHTS, HYPERPLANES, INITIAL, MISSING_CUSTOMERS, RESPONSE, ROW_RESPONSE = (
    np.int64(j) for j in range(8)
)

_HEADER = 7
_KEY, _BLOCK, _SWEEP, _PURPOSE, _POSITION, _CURSOR, _CIPHER = range(_HEADER)
_BATCH = np.int64(32)  # cipher calls per refill, two words each
_BEGIN, _END = np.uint64(_HEADER), np.uint64(_HEADER + 2 * _BATCH)
_WORD = np.uint64(8)  # bytes

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_TO_UNIT = 2.0**-53

_WORDS = types.CPointer(types.uint64)


class SweepStreams(NamedTuple):
    """The random streams of one sweep of one chain; `stream_at` opens them one at a time, all in the same buffer.

    ``first_block`` is the number that the first row block has among all blocks, where only a part of the rows is here.
    """

    buffer: NDArray[np.uint64]
    key: np.uint64
    sweep: int
    first_block: int = 0


def stream_key(seed: int, *where: int) -> np.uint64:
    """64-bit key of all streams of one chain: where = (depth, side, chain)."""
    return np.uint64(np.random.SeedSequence(seed, spawn_key=where).generate_state(1, np.uint64)[0])


def stream_buffer() -> NDArray[np.uint64]:
    """Memory for one stream."""
    buffer = np.zeros(int(_END), np.uint64)
    buffer[_CIPHER] = _cipher_address()
    return buffer


@elementary
def philox(x0, x1, x2, x3, k0, k1):
    """Philox4x32-10 of one counter and a two-word key (each a uint32 held in a uint64)."""
    for _ in range(10):
        p0, p1 = _M0 * x0, _M1 * x2
        x0, x1, x2, x3 = (p1 >> _SHIFT) ^ x1 ^ k0, p1 & _LOW, (p0 >> _SHIFT) ^ x3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return x0, x1, x2, x3


def encrypt(words: Any, calls: Any, out: Any) -> None:
    """Encrypt the stream's next counters into 2 ``calls`` words: low halves of the results first, then the high halves."""
    k0, k1 = words[_KEY] & _LOW, words[_KEY] >> _SHIFT
    base = words[_POSITION]
    c1, c2, c3 = words[_BLOCK], words[_SWEEP], words[_PURPOSE]
    for call in range(calls):
        x0, x1, x2, x3 = philox((base + np.uint64(call)) & _LOW, c1, c2, c3, k0, k1)
        out[call] = (x1 << _SHIFT) | x0
        out[calls + call] = (x3 << _SHIFT) | x2
    words[_POSITION] = base + np.uint64(calls)


@cache
def _cipher_address() -> int:
    """Where the compiled `encrypt` lies in this process."""
    return address_of(encrypt, types.void(_WORDS, types.int64, _WORDS))


@intrinsic
def _memory(typing_context: Any, address: Any) -> Any:
    """The words at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(64).as_pointer())

    return _WORDS(types.uintp), generate


@intrinsic
def _run_cipher(typing_context: Any, words: Any, calls: Any, out: Any) -> Any:
    """`encrypt`, by the address in the stream's header."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word.as_pointer(), word, word.as_pointer()])
        address = builder.load(builder.gep(args[0], [word(_CIPHER)]))
        builder.call(builder.inttoptr(address, kind.as_pointer()), args)
        return context.get_dummy_value()

    return types.void(_WORDS, types.int64, _WORDS), generate


@kernel
def open_stream(buffer, key, sweep, block, purpose):
    """The stream of (key; sweep, row block, purpose), at its start, in the memory of ``buffer``."""
    buffer[_KEY] = np.uint64(key)
    buffer[_BLOCK] = np.uint64(block) & _LOW
    buffer[_SWEEP] = np.uint64(sweep) & _LOW
    buffer[_PURPOSE] = np.uint64(purpose) & _LOW
    buffer[_POSITION] = np.uint64(0)
    buffer[_CURSOR] = _END
    return buffer.ctypes.data


@internal
def stream_at(streams: SweepStreams, block, purpose):
    """The stream of a row block (or an expert) and a purpose in this sweep."""
    return open_stream(streams.buffer, streams.key, streams.sweep, streams.first_block + block, purpose)


@internal
def bits(stream):
    """64 random bits."""
    words = _memory(stream)
    cursor = words[_CURSOR]
    if cursor == _END:
        _run_cipher(words, _BATCH, _memory(stream + _WORD * _BEGIN))
        cursor = _BEGIN
    words[_CURSOR] = cursor + np.uint64(1)
    return words[cursor]


@internal
def fill_bits(stream, out, n):
    """The stream's next cipher calls as n or n + 1 words of 64 random bits in ``out``; words left in the buffer are dropped."""
    words = _memory(stream)
    _run_cipher(words, (n + 1) // 2, _memory(out.ctypes.data))
    words[_CURSOR] = _END


@internal
def uniform(stream):
    """U ~ Uniform(0, 1), never 0 or 1."""
    return (np.float64(bits(stream) >> np.uint64(11)) + 0.5) * _TO_UNIT


@internal
def exponential(stream):
    """E ~ Exp(1)."""
    return -np.log(uniform(stream))


def _ziggurat() -> tuple[FloatArray, FloatArray]:
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


@internal
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


@internal
def gamma_at_least_one(stream, shape):
    """G ~ Gamma(shape, 1) for shape ≥ 1 (Marsaglia & Tsang 2000); exact."""
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        x = normal(stream)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = uniform(stream)
        x2 = x * x
        if u < 1.0 - 0.0331 * x2 * x2 or np.log(u) < 0.5 * x2 + d * (1.0 - v + np.log(v)):
            return d * v


@internal
def log_gamma_variate(stream, shape):
    """ln G with G ~ Gamma(shape, 1), any shape > 0: finite where G itself underflows.

    For shape < 1: G = G' U^{1/shape} with G' ~ Gamma(shape + 1, 1).
    """
    if shape >= 1.0:
        return np.log(gamma_at_least_one(stream, shape))
    return np.log(gamma_at_least_one(stream, shape + 1.0)) - exponential(stream) / shape


@internal
def gamma_variate(stream, shape):
    """G ~ Gamma(shape, 1), any shape > 0; a value below the smallest double is 0."""
    if shape >= 1.0:
        return gamma_at_least_one(stream, shape)
    return np.exp(log_gamma_variate(stream, shape))
