"""What the MAP kernels do with rows, written for each kind of them: dense, CSR, and columns of a stream.

Which body is compiled follows from the length of the tuple ``rows`` (`pbdn.sgd.kernel_arguments.LabelledRows`). Only passes without a
gradient see columns.
"""

from typing import Any

from pbdn.numerics.compiled import chosen_by_type, summing, summing_kernel
from pbdn.numerics.products import number_at, padded_size, product
from pbdn.sgd.kernel_arguments import COLUMN, Group, Work, tile_of


@summing_kernel
def column_sum(addresses: Any, first: int, last: int) -> float:
    """Sum of the rows ``first`` to ``last`` of all columns: not finite if a value is not."""
    total, n_columns = 0.0, addresses.shape[0]
    for d in range(0, n_columns - 3, 4):  # four columns at a time: memory answers while others are asked for
        a0, a1, a2, a3 = addresses[d], addresses[d + 1], addresses[d + 2], addresses[d + 3]
        for i in range(first, last):
            total += (number_at(a0, i) + number_at(a1, i)) + (number_at(a2, i) + number_at(a3, i))
    for d in range(n_columns - n_columns % 4, n_columns):
        for i in range(first, last):
            total += number_at(addresses[d], i)
    return total


def gather(rows: Any, index: Any, work: Work) -> None:
    """Copy the rows ``index`` behind the leading ones of the buffer (dense rows only)."""


def checksum(rows: Any, first: int, last: int) -> float:  # type: ignore[empty-body]
    """A sum that is not finite if a value in the rows ``first`` to ``last`` is not; zero for rows checked before."""


def project(rows: Any, index: Any, parameters: Any, group: Group, work: Work) -> None:
    """ψ_ik = x_i'β_k for the rows ``index`` and the experts of a group in ``work.psi``; fills the padding with anything."""


def accumulate(rows: Any, index: Any, group: Group, work: Work, gradient: Any) -> None:
    """Add r_k Σ_i x_i slope_ik to the gradient of the biases and coefficients."""


def _choose(rows: Any, dense: Any, csr: Any, columns: Any) -> Any:
    return (dense, columns, csr)[len(rows) - 1]


@chosen_by_type(gather)
def _gather(rows: Any, index: Any, work: Work) -> Any:
    def dense(rows: Any, index: Any, work: Work) -> None:
        table, buffer = rows[0], work.buffer
        for i in range(index.shape[0]):
            row = index[i]
            for d in range(table.shape[1]):
                buffer[i, d + 1] = table[row, d]

    def csr(rows: Any, index: Any, work: Work) -> None:
        pass

    def columns(rows: Any, index: Any, work: Work) -> None:
        addresses, affine = rows
        n, buffer = index.shape[0], work.buffer.reshape(-1)
        first, is_run = index[0], index[n - 1] - index[0] == n - 1
        buffer[:n] = 1.0
        for d in range(addresses.shape[0]):
            start, center, factor = addresses[d], affine[0, d], affine[1, d]
            column = buffer[(d + 1) * COLUMN : (d + 2) * COLUMN]
            if is_run:
                for i in range(n):
                    column[i] = (number_at(start, first + i) - center) * factor
            else:
                for i in range(n):
                    column[i] = (number_at(start, index[i]) - center) * factor

    return _choose(rows, dense, csr, columns)


@chosen_by_type(checksum)
def _checksum(rows: Any, first: int, last: int) -> Any:
    def checked(rows: Any, first: int, last: int) -> float:
        return 0.0

    def columns(rows: Any, first: int, last: int) -> float:
        return column_sum(rows[0], first, last)

    return _choose(rows, checked, checked, columns)


@summing
def fill_panel(depth: int, parameters: Any, group: Group, panel: Any) -> None:
    """Hyperplanes of a group side by side in rows of its width."""
    table = panel[: depth * group.width].reshape((-1, group.width))
    for d in range(depth):
        for k in range(group.k1 - group.k0):
            table[d, k] = parameters[1 + d, group.k0 + k]


@chosen_by_type(project)
def _project(rows: Any, index: Any, parameters: Any, group: Group, work: Work) -> Any:
    def dense(rows: Any, index: Any, parameters: Any, group: Group, work: Work) -> None:
        n, depth, stride = index.shape[0], rows[0].shape[1] + 1, work.buffer.shape[1]
        fill_panel(depth, parameters, group, work.panel)
        width = group.width
        product(padded_size(n), width, depth, work.buffer, stride, 1, work.panel, width, work.psi, width)

    def csr(rows: Any, index: Any, parameters: Any, group: Group, work: Work) -> None:
        data, indices, indptr = rows
        psi, k0, width = tile_of(work.psi, index.shape[0], group), group.k0, group.k1 - group.k0
        for i in range(index.shape[0]):
            for k in range(width):
                psi[i, k] = parameters[1, k0 + k]
            j, end = indptr[index[i]], indptr[index[i] + 1]
            while j + 3 < end:
                a0, a1, a2, a3 = data[j], data[j + 1], data[j + 2], data[j + 3]
                d0, d1, d2, d3 = indices[j], indices[j + 1], indices[j + 2], indices[j + 3]
                for k in range(width):
                    psi[i, k] += (
                        a0 * parameters[2 + d0, k0 + k]
                        + a1 * parameters[2 + d1, k0 + k]
                        + a2 * parameters[2 + d2, k0 + k]
                        + a3 * parameters[2 + d3, k0 + k]
                    )
                j += 4
            while j < end:
                a0, d0 = data[j], indices[j]
                for k in range(width):
                    psi[i, k] += a0 * parameters[2 + d0, k0 + k]
                j += 1

    def columns(rows: Any, index: Any, parameters: Any, group: Group, work: Work) -> None:
        n, depth, width = index.shape[0], rows[0].shape[0] + 1, group.width
        fill_panel(depth, parameters, group, work.panel)
        product(padded_size(n), width, depth, work.buffer, 1, COLUMN, work.panel, width, work.psi, width)

    return _choose(rows, dense, csr, columns)


@chosen_by_type(accumulate)
def _accumulate(rows: Any, index: Any, group: Group, work: Work, gradient: Any) -> Any:
    def dense(rows: Any, index: Any, group: Group, work: Work, gradient: Any) -> None:
        n, depth, stride = index.shape[0], rows[0].shape[1] + 1, work.buffer.shape[1]
        weight, k0, width = work.experts[1], group.k0, group.width
        panel = work.panel[: stride * width].reshape((-1, width))
        product(padded_size(depth), width, n, work.buffer, 1, stride, work.slope, width, panel, width)
        for d in range(depth):
            for k in range(group.k1 - k0):
                gradient[1 + d, k0 + k] += weight[k] * panel[d, k]

    def csr(rows: Any, index: Any, group: Group, work: Work, gradient: Any) -> None:
        data, indices, indptr = rows
        slope, weight, k0, width = (
            tile_of(work.slope, index.shape[0], group), work.experts[1], group.k0, group.k1 - group.k0,
        )  # fmt: skip
        for i in range(index.shape[0]):
            for k in range(width):
                slope[i, k] *= weight[k]
                gradient[1, k0 + k] += slope[i, k]
            for j in range(indptr[index[i]], indptr[index[i] + 1]):
                a0, d0 = data[j], indices[j]
                for k in range(width):
                    gradient[2 + d0, k0 + k] += a0 * slope[i, k]

    return _choose(rows, dense, csr, None)
