"""Small dense matrix products inside compiled loops.

A block of eight (with AVX-512) or four rows and eight columns of C = A B is held in registers while the depth is run through;
LLVM turns vectors of eight doubles into whatever the processor has. Sums run along the depth in order, so results do not
depend on threads, on the shape of blocks, nor on a BLAS: that is why they are written by hand, not speed.
BLAS takes 1.1 to 3.9 times as long for the product of a minibatch (Neoverse N1, `python -m benchmarks.map_speed`).
Arrays are padded to multiples of eight; what is in the padding never reaches a result.
"""

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils

from pbdn.numerics.compiled import inlined, instructions, summing
from pbdn.numerics.elementary import LANES, Lanes  # rows and columns are padded to multiples of LANES


def _block_rows() -> int:
    """Rows of a block whose sums fit the vector registers of this processor."""
    try:
        return 8 if get_host_cpu_features().get("avx512f") else 4
    except RuntimeError:  # unknown processor
        return 4


BLOCK_ROWS = _block_rows()


def padded(size: int) -> int:
    """The next multiple of LANES."""
    return (size + LANES - 1) // LANES * LANES


padded_size = inlined(padded)


@inlined
def table(numbers: Any, n_rows: int, width: int) -> Any:
    """The first numbers of a flat array as a table.

    Loops over its two indices become vector instructions. Those over one index that is computed do not: it might be negative.
    """
    return numbers[: n_rows * width].reshape((n_rows, width))


@instructions
def number_at(typing_context: Any, address: Any, i: Any) -> Any:
    """Number i of the doubles at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = builder.inttoptr(arguments[0], ir.DoubleType().as_pointer())
        return builder.load(builder.gep(start, [arguments[1]]), align=8)

    return types.float64(types.uintp, types.intp), generate


@instructions
def block_product(
    typing_context: Any, c: Any, c_row: Any, a: Any, a_row: Any, a_depth: Any, b: Any, b_depth: Any, depth: Any
) -> Any:
    """Store C[r, s] = Σ_t A[r, t] B[t, s] for r < BLOCK_ROWS, s < LANES; addresses in bytes, strides in elements."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        c, c_row, a, a_row, a_depth, b, b_depth, depth = arguments
        numbers, number = Lanes(builder), ir.DoubleType()
        vector = numbers.kind
        base_a, base_b, base_c = (builder.inttoptr(p, number.as_pointer()) for p in (a, b, c))
        sums = [cgutils.alloca_once_value(builder, numbers.constant(0.0)) for _ in range(BLOCK_ROWS)]
        with cgutils.for_range(builder, depth) as loop:
            row = builder.gep(base_b, [builder.mul(loop.index, b_depth)])
            columns = builder.load(builder.bitcast(row, vector.as_pointer()), align=8)
            start = builder.gep(base_a, [builder.mul(loop.index, a_depth)])
            for r, total in enumerate(sums):
                place = builder.mul(a_row, ir.Constant(a_row.type, r))
                value = builder.load(builder.gep(start, [place]), align=8)
                product = numbers.multiply(numbers.spread(value), columns)
                builder.store(numbers.add(builder.load(total), product), total)
        for r, total in enumerate(sums):
            row = builder.gep(base_c, [builder.mul(c_row, ir.Constant(c_row.type, r))])
            builder.store(builder.load(total), builder.bitcast(row, vector.as_pointer()), align=8)
        return context.get_dummy_value()

    size = types.intp
    return types.void(types.uintp, size, types.uintp, size, size, types.uintp, size, size), generate


@instructions
def add_lines(
    typing_context: Any, out: Any, heights: Any, slopes: Any, row: Any, at: Any, beyond: Any, count: Any
) -> Any:
    """Store Σ_g H[at_g, s] + beyond_g S[at_g, s] for s < LANES; addresses in bytes, the stride of H and S in elements."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, heights, slopes, row, at, beyond, count = arguments
        numbers, number, whole = Lanes(builder), ir.DoubleType(), ir.IntType(64)
        vector = numbers.kind
        base_h, base_s, base_b = (builder.inttoptr(p, number.as_pointer()) for p in (heights, slopes, beyond))
        base_at = builder.inttoptr(at, whole.as_pointer())
        high, far = (cgutils.alloca_once_value(builder, numbers.constant(0.0)) for _ in range(2))
        with cgutils.for_range(builder, count) as loop:
            place = builder.mul(builder.load(builder.gep(base_at, [loop.index]), align=8), row)
            distance = numbers.spread(builder.load(builder.gep(base_b, [loop.index]), align=8))
            height, slope = (
                builder.load(builder.bitcast(builder.gep(base, [place]), vector.as_pointer()), align=8)
                for base in (base_h, base_s)
            )
            builder.store(numbers.add(builder.load(high), height), high)
            builder.store(numbers.add(builder.load(far), numbers.multiply(distance, slope)), far)
        numbers.store(numbers.add(builder.load(high), builder.load(far)), out)
        return context.get_dummy_value()

    size, address = types.intp, types.uintp
    return types.void(address, address, address, size, address, address, size), generate


@summing
def product(
    n_rows: int, n_columns: int, depth: int, a: Any, a_row: int, a_depth: int, b: Any, b_depth: int, c: Any, c_row: int
) -> None:
    """C = A B for flat arrays with given strides; rows and columns are padded, the depth is not."""
    start_a, start_b, start_c = a.ctypes.data, b.ctypes.data, c.ctypes.data
    for s in range(0, n_columns, LANES):
        for r in range(0, n_rows, BLOCK_ROWS):
            block_product(
                start_c + 8 * (r * c_row + s), c_row, start_a + 8 * r * a_row, a_row, a_depth,
                start_b + 8 * s, b_depth, depth,
            )  # fmt: skip
