"""Views and products of contiguous matrices inside kernels.

All products are of contiguous matrices into a third, so that the compiler meets one kind of them.
"""

from typing import NamedTuple

import numpy as np

from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.numerics.compiled import internal


class SparseInputs(NamedTuple):
    """Inputs as CSR arrays."""

    pointers: IntArray
    columns: IntArray
    values: FloatArray


@internal
def as_matrix(numbers, n_rows, n_columns):
    """The beginning of a vector as a matrix."""
    return numbers[: n_rows * n_columns].reshape(n_rows, n_columns)


@internal
def as_vector(matrix):
    """A contiguous matrix as a vector."""
    return matrix.reshape(matrix.size)


@internal
def multiply(left, right, out):
    """out = left @ right."""
    np.dot(left, right, out)


@internal
def transposed(matrix):
    """A contiguous transpose."""
    out = np.empty((matrix.shape[1], matrix.shape[0]))
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[j, i] = matrix[i, j]
    return out


@internal
def block_distances(dense, sparse, offset, planes_t, low, high, out):
    """ψ_ik for rows low ≤ i < high; ``planes_t`` is D × K. ``sparse`` is None where the inputs are dense."""
    n_experts = planes_t.shape[1]
    if sparse is None:
        multiply(dense[low:high], planes_t, out[: high - low])
        for i in range(low, high):
            if offset[i] != 0.0:
                for k in range(n_experts):
                    out[i - low, k] += offset[i]
    else:
        pointers, columns, values = sparse
        for i in range(low, high):
            for k in range(n_experts):
                out[i - low, k] = offset[i]
            for at in range(pointers[i], pointers[i + 1]):
                v, x = columns[at], values[at]
                for k in range(n_experts):
                    out[i - low, k] += x * planes_t[v, k]
