"""How the Gibbs core compiles its functions: cached on disk, without the interpreter's lock, division by zero as in NumPy."""

from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
"""A function that Python calls."""

internal = njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""A function that only kernels call: compiled without an entrance for Python, which takes as long to compile as the function.
Calling one from Python ends the process; tests call them through a kernel of their own."""

vectorised = njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"contract"},
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)
"""An internal function of straight-line loops, with multiplications and additions fused."""

summing = njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"contract", "reassoc"},
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)
"""An internal function whose sums may be taken in any order, which lets them be vectorised."""

elementary = njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"contract"},
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    forceinline=True,
)
"""An internal function of one number that becomes part of the loops calling it, so that they are vectorised. It is so at the
level of machine code: put in as Python statements (``inline="always"``) its types would be inferred again in every caller."""

inlined = njit(cache=True, nogil=True, error_model="numpy", inline="always")
"""A part of one or two kernels that stands alone for reading and testing. Compiled by itself, it would be optimised with all
that it calls, and then again in the kernel."""
