"""Signed distances ψ_ik = x_i'β_k + o_i of a block of rows."""

from pbdn.gibbs.matrices import multiply
from pbdn.numerics.compiled import internal


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
