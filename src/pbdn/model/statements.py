"""What a row says about its process, for every response.

A side is a Poisson process on a line with cumulative rate H_i(u); the row's value is its first point. A row says of that point
what two bounds say: "in (low, high]". An infinite bound says nothing, and equal bounds say "exactly here". A class label is the
case of one bound at 0. The second side of a pair sees the line the other way round: its bounds are (-high, -low).
"""

import numpy as np

from pbdn.numerics.arrays import FloatArray, IntArray

# kinds of statements; COUNT says how many points lie before 0
NOTHING, BEFORE, INTERVAL, EXACT, COUNT = range(5)


def kinds_of(bounds: FloatArray) -> IntArray:
    """The kind of every row of ``bounds``, shape (n, 2).

    NOTHING before ``low`` (no upper bound), something BEFORE ``high`` (no lower bound), first point in the INTERVAL, or EXACT.
    A row without any bound says NOTHING before -inf, which holds of every value.
    """
    low, high = bounds[:, 0], bounds[:, 1]
    kinds = np.where(np.isposinf(high), NOTHING, np.where(np.isneginf(low), BEFORE, INTERVAL))
    return np.asarray(np.where(low == high, EXACT, kinds), np.int64)


def flipped(bounds: FloatArray) -> FloatArray:
    """The same statements about the negative of the value."""
    return np.ascontiguousarray(-bounds[:, ::-1])
