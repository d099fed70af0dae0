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
