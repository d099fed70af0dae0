"""Small dense matrix products inside compiled loops.

A block of C = A B is held in registers while the depth is run through: four rows and eight columns, or with AVX-512 eight rows
and up to 24 columns. LLVM turns vectors of eight doubles into whatever the processor has. Sums run along the depth in order, so results do not
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


def _block_shape() -> tuple[int, int]:
    """Rows, and vectors of columns, of the largest block whose sums fit the vector registers of this processor."""
    try:
        return (8, 3) if get_host_cpu_features().get("avx512f") else (4, 1)
    except RuntimeError:  # unknown processor
        return (4, 1)


BLOCK_ROWS, MOST_VECTORS = _block_shape()


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


def _block_of(n_vectors: int) -> Any:
    """Instructions for a block of BLOCK_ROWS rows and so many vectors of columns."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        c, c_row, a, a_row, a_depth, b, b_depth, depth = arguments
        numbers, number = Lanes(builder), ir.DoubleType()
        base_a, base_b, base_c = (builder.inttoptr(p, number.as_pointer()) for p in (a, b, c))
        places = [(r, v) for r in range(BLOCK_ROWS) for v in range(n_vectors)]
        sums = {place: cgutils.alloca_once_value(builder, numbers.constant(0.0)) for place in places}

        def vector_at(base: Any, row: Any, stride: Any, v: int) -> Any:
            place = builder.add(builder.mul(row, stride), ir.Constant(stride.type, v * LANES))
            return builder.bitcast(builder.gep(base, [place]), numbers.kind.as_pointer())

        with cgutils.for_range(builder, depth) as loop:
            columns = [builder.load(vector_at(base_b, loop.index, b_depth, v), align=8) for v in range(n_vectors)]
            start = builder.gep(base_a, [builder.mul(loop.index, a_depth)])
            for r in range(BLOCK_ROWS):
                place = builder.mul(a_row, ir.Constant(a_row.type, r))
                value = numbers.spread(builder.load(builder.gep(start, [place]), align=8))
                for v in range(n_vectors):
                    total = numbers.add(builder.load(sums[r, v]), numbers.multiply(value, columns[v]))
                    builder.store(total, sums[r, v])
        for r, v in places:
            row = ir.Constant(c_row.type, r)
            builder.store(builder.load(sums[r, v]), vector_at(base_c, row, c_row, v), align=8)
        return context.get_dummy_value()

    @instructions
    def block(
        typing_context: Any, c: Any, c_row: Any, a: Any, a_row: Any, a_depth: Any, b: Any, b_depth: Any, depth: Any
    ) -> Any:
        """Store C[r, s] = Σ_t A[r, t] B[t, s] for one block; addresses in bytes, strides in elements."""
        size, address = types.intp, types.uintp
        return types.void(address, size, address, size, size, address, size, size), generate

    return block


_block, _block_of_two, _block_of_three = _block_of(1), _block_of(2), _block_of(3)


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
def product_at(
    n_rows: int, n_columns: int, depth: int, a: Any, a_row: int, a_depth: int, b: Any, b_depth: int, c: Any, c_row: int
) -> None:
    """C = A B for numbers at addresses, with given strides; rows and columns are padded, the depth is not."""
    s = 0
    while s < n_columns:
        n_vectors = min((n_columns - s) // LANES, MOST_VECTORS)
        from_b = b + 8 * s
        for r in range(0, n_rows, BLOCK_ROWS):
            from_a, to = a + 8 * r * a_row, c + 8 * (r * c_row + s)
            if n_vectors == 3:
                _block_of_three(to, c_row, from_a, a_row, a_depth, from_b, b_depth, depth)
            elif n_vectors == 2:
                _block_of_two(to, c_row, from_a, a_row, a_depth, from_b, b_depth, depth)
            else:
                _block(to, c_row, from_a, a_row, a_depth, from_b, b_depth, depth)
        s += n_vectors * LANES


@summing
def product(
    n_rows: int, n_columns: int, depth: int, a: Any, a_row: int, a_depth: int, b: Any, b_depth: int, c: Any, c_row: int
) -> None:
    """`product_at` for flat arrays."""
    product_at(n_rows, n_columns, depth, a.ctypes.data, a_row, a_depth, b.ctypes.data, b_depth, c.ctypes.data, c_row)
