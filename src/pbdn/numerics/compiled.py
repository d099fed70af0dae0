"""How the Gibbs core compiles its functions: cached on disk, without the interpreter's lock, division by zero as in NumPy."""

from numba import njit

_COMMON = {"cache": True, "nogil": True, "error_model": "numpy"}
_NO_ENTRANCE = {**_COMMON, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

kernel = njit(**_COMMON, no_cfunc_wrapper=True)
"""A function that Python calls."""

internal = njit(**_NO_ENTRANCE)
"""A function that only kernels call: compiled without an entrance for Python, which takes as long to compile as the function.
Calling one from Python ends the process; tests call them through a kernel of their own."""

vectorised = njit(**_NO_ENTRANCE, fastmath={"contract"})
"""An internal function of straight-line loops, with multiplications and additions fused."""

summing = njit(**_NO_ENTRANCE, fastmath={"contract", "reassoc"})
"""An internal function whose sums may be taken in any order, which lets them be vectorised."""

elementary = njit(**_NO_ENTRANCE, fastmath={"contract"}, forceinline=True)
"""An internal function of one number that becomes part of the loops calling it, so that they are vectorised. It is so at the
level of machine code: put in as Python statements (``inline="always"``) its types would be inferred again in every caller."""

inlined = njit(**_COMMON, inline="always")
"""A part of one or two kernels that stands alone for reading and testing. Compiled by itself, it would be optimised with all
that it calls, and then again in the kernel."""
