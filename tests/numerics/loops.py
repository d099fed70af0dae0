"""Run straight-line functions of one number over an array, as vectorised loops do."""

import numpy as np
from numba import njit


def in_loop(function):
    """A Python function of an array from a compiled function of one number."""

    @njit(fastmath={"contract"}, error_model="numpy")
    def loop(x, out):
        for j in range(x.size):
            out[j] = function(x[j])

    def run(x):
        out = np.empty(x.size)
        loop(x, out)
        return out

    return run
