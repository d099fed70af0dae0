"""Elementary functions as straight-line arithmetic, which the compiler turns into vector instructions inside loops.

Each is within a few units of the last place (1e-15 relative) on the range it states.
"""

from math import factorial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pbdn.numerics.compiled import elementary

_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_MAGIC = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to a whole number, kept in the low bits
_MAGIC_BITS = np.int64(np.float64(_MAGIC).view(np.int64))
ONE_BITS = np.int64(0x3FF0000000000000)
_ROOT_HALF_BITS = np.int64(np.float64(np.sqrt(0.5)).view(np.int64))
LEAST_EXPONENT = -700.0  # e^x is not taken below this

# coefficients from the constant on
_EXP = tuple(1.0 / factorial(j) for j in range(14))  # e^r on |r| ≤ ½ ln 2: error 2e-17
_EXP_FITTED = (  # the same by interpolation at eleven Chebyshev nodes: error 3e-16
    *(1.0, 1.0000000000000067, 0.5000000000000006, 0.16666666666554406, 0.04166666666657314, 0.008333333385667782),
    *(0.0013888888932488599, 0.00019841170270440067, 2.4801504346997686e-05, 2.764018079620985e-06),
    2.7626357241447223e-07,
)
_EXP_RISE = _EXP[1:]  # (e^r - 1) / r
_EXP_RATIO = tuple((-1.0) ** j / factorial(j + 1) for j in range(12))  # (1 - e^-t) / t on t ≤ 0.35
_ATANH = tuple(1.0 / (2 * j + 1) for j in range(17))  # atanh(z) / z in z², on z ≤ ⅓: error 2e-17
_ATANH_SHORT = _ATANH[:11]  # on z ≤ 0.172
ATANH_FITTED = (  # on z ≤ ⅓, by interpolation at ten Chebyshev nodes: error 1e-16
    *(1.0, 0.33333333333341286, 0.19999999997643111, 0.14285714555926696, 0.1111109542517742),
    *(0.09091430061792541, 0.07681835414020503, 0.06795678830141709, 0.049402605192742394, 0.08890666523141126),
)
_SINE = tuple((-1.0) ** j * (np.pi / 2) ** (2 * j + 1) / factorial(2 * j + 1) for j in range(12))  # sin(πv/2) / v in v²


@intrinsic
def as_bits(typing_context: Any, x: Any) -> Any:
    """The 64 bits of a double, as int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def as_float(typing_context: Any, n: Any) -> Any:
    """The double with the 64 bits of an int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def polynomial(typing_context: Any, x: Any, coefficients: Any) -> Any:
    """Σ_j coefficients_j x^j by Horner's rule, in fused multiply-adds; ``coefficients`` is a constant tuple.

    Made as one instruction sequence: as Python statements the compiler would infer the type of every step anew.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.extract_value(args[1], coefficients.count - 1)
        for j in range(coefficients.count - 2, -1, -1):
            product = builder.fmul(value, args[0], flags=("contract",))
            value = builder.fadd(product, builder.extract_value(args[1], j), flags=("contract",))
        return value

    return types.float64(types.float64, coefficients), generate


@elementary
def exp_negative(x):
    """e^x for x ≤ 0 (e^-700 at least); NaN stays NaN."""
    t = LEAST_EXPONENT if x < LEAST_EXPONENT else x
    shifted = t * _LOG2E + _MAGIC
    k = shifted - _MAGIC
    r = (t - k * _LN2_HIGH) - k * _LN2_LOW
    return polynomial(r, _EXP) * as_float((as_bits(shifted) + np.int64(1023)) << np.int64(52))


@elementary
def atanh_ratio(q):
    """atanh(z) / z with q = z² ≤ 1/9, by its series."""
    return polynomial(q, _ATANH)


@elementary
def atanh_ratio_fitted(q):
    """The same by a fitted polynomial of ten terms instead of seventeen, for the MAP engine."""
    return polynomial(q, ATANH_FITTED)


@elementary
def log_positive(x):
    """ln x for a normal x > 0."""
    bits = as_bits(x)
    exponent = (bits - _ROOT_HALF_BITS) >> np.int64(52)
    f = as_float(bits - (exponent << np.int64(52))) - 1.0  # √½ ≤ 1 + f < √2
    z = f / (2.0 + f)  # |z| < 0.172
    k = as_float(exponent + _MAGIC_BITS) - _MAGIC
    return k * _LN2_HIGH + (k * _LN2_LOW + 2.0 * z * polynomial(z * z, _ATANH_SHORT))


@elementary
def one_minus_exp(x):
    """1 - e^{-x} for x ≥ 0, to full relative accuracy: by series below ⅓."""
    t = x if x < 0.35 else 0.35
    return t * polynomial(t, _EXP_RATIO) if x < 0.35 else 1.0 - exp_negative(-x)


@elementary
def minus_log_one_minus(w):
    """-ln(1 - w) for 0 ≤ w < 1, to full relative accuracy: by series below ½."""
    t = w if w < 0.5 else 0.5
    z = t / (2.0 - t)
    return 2.0 * z * atanh_ratio(z * z) if w < 0.5 else -log_positive(1.0 - w)


@elementary
def sine_quarter(v):
    """sin(πv/2) for 0 ≤ v ≤ 1, to full relative accuracy."""
    return v * polynomial(v * v, _SINE)


@elementary
def unit_interval(word):
    """U in (0, 1) from the upper 52 of 64 random bits (a uint64)."""
    return as_float(np.int64(word >> np.uint64(12)) | ONE_BITS) - (1.0 - 2.0**-53)


LANES = 8  # doubles of one vector


class Lanes:
    """Writes the instructions of arithmetic on vectors of LANES doubles, for intrinsics of numba."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.kind, self.bits = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.IntType(64), LANES)

    def constant(self, value: float) -> Any:
        """The same number in all lanes."""
        return ir.Constant(self.kind, [float(value)] * LANES)

    def spread(self, value: Any) -> Any:
        """A double in all lanes."""
        undefined, first = ir.Constant(self.kind, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        single = self.builder.insert_element(undefined, value, first)
        return self.builder.shuffle_vector(
            single, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        )

    def load(self, address: Any) -> Any:
        """The doubles at an address."""
        return self.builder.load(self.builder.inttoptr(address, self.kind.as_pointer()), align=8)

    def store(self, value: Any, address: Any) -> None:
        """Put doubles at an address."""
        self.builder.store(value, self.builder.inttoptr(address, self.kind.as_pointer()), align=8)

    def multiply(self, a: Any, b: Any) -> Any:
        """a b, fused with an addition that follows."""
        return self.builder.fmul(a, b, flags=("contract",))

    def add(self, a: Any, b: Any) -> Any:
        """a + b, fused with a multiplication before it."""
        return self.builder.fadd(a, b, flags=("contract",))

    def polynomial(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        """Σ_j coefficients_j x^j, even and odd powers apart: two shorter chains."""
        square = self.multiply(x, x)

        def horner(some: tuple[float, ...]) -> Any:
            value = self.constant(some[-1])
            for one in some[-2::-1]:
                value = self.add(self.multiply(value, square), self.constant(one))
            return value

        return self.add(self.multiply(horner(coefficients[1::2]), x), horner(coefficients[::2]))

    def exp_negative(self, x: Any) -> Any:
        """e^x for x ≤ 0, as the function `exp_negative`, by a fitted polynomial."""
        r, power = self._power_of_two(self._at_least(x, LEAST_EXPONENT))
        return self.multiply(self.polynomial(r, _EXP_FITTED), power)

    def exp_minus_one(self, x: Any) -> Any:
        """e^x - 1, to full relative accuracy; as of ±700 for x beyond."""
        high = self.constant(-LEAST_EXPONENT)
        t = self.builder.select(self.builder.fcmp_ordered(">", x, high), high, self._at_least(x, LEAST_EXPONENT))
        r, power = self._power_of_two(t)
        part = self.multiply(r, self.polynomial(r, _EXP_RISE))
        return self.add(self.multiply(part, power), self.builder.fsub(power, self.constant(1.0)))

    def log_one_plus(self, x: Any) -> Any:
        """ln(1 + x) for x ≥ 0, to full relative accuracy: what 1 + x loses is put back."""
        builder, one = self.builder, self.constant(1.0)
        whole = builder.fadd(x, one)
        bits = builder.bitcast(whole, self.bits)
        exponent = builder.ashr(builder.sub(bits, self._integer(_ROOT_HALF_BITS)), self._integer(52))
        scale = builder.shl(exponent, self._integer(52))
        near_one = builder.bitcast(builder.sub(bits, scale), self.kind)
        shrunk = builder.bitcast(builder.sub(self._integer(ONE_BITS), scale), self.kind)
        lost = builder.fsub(x, builder.fsub(whole, one))
        f = self.add(self.multiply(lost, shrunk), builder.fsub(near_one, one))
        z = builder.fdiv(f, builder.fadd(f, self.constant(2.0)))
        series = self.multiply(self.add(z, z), self.polynomial(self.multiply(z, z), _ATANH_SHORT))
        k = builder.fsub(
            builder.bitcast(builder.add(exponent, self._integer(_MAGIC_BITS)), self.kind), self.constant(_MAGIC)
        )
        low = self.add(self.multiply(k, self.constant(_LN2_LOW)), series)
        return self.add(self.multiply(k, self.constant(_LN2_HIGH)), low)

    def _integer(self, value: Any) -> Any:
        return ir.Constant(self.bits, [int(value)] * LANES)

    def _at_least(self, x: Any, least: float) -> Any:
        return self.builder.select(self.builder.fcmp_ordered("<", x, self.constant(least)), self.constant(least), x)

    def _power_of_two(self, t: Any) -> tuple[Any, Any]:
        """r and 2^k with t = r + k ln 2 and |r| ≤ ½ ln 2."""
        builder = self.builder
        shifted = self.add(self.multiply(t, self.constant(_LOG2E)), self.constant(_MAGIC))
        k = builder.fsub(shifted, self.constant(_MAGIC))
        r = self.add(
            self.add(t, self.multiply(k, self.constant(-_LN2_HIGH))), self.multiply(k, self.constant(-_LN2_LOW))
        )
        exponent = builder.add(builder.bitcast(shifted, self.bits), self._integer(1023))
        return r, builder.bitcast(builder.shl(exponent, self._integer(52)), self.kind)
