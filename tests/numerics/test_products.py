"""Block products against NumPy, for sizes that are not multiples of the block and both directions of A."""

import numpy as np
import pytest

from pbdn.numerics.products import padded, product


@pytest.mark.parametrize(("n", "k", "depth"), [(1, 1, 1), (8, 8, 3), (100, 31, 19), (128, 42, 123), (9, 17, 0)])
def test_product(rng, n, k, depth):
    rows, columns = padded(n), padded(k)
    a, b, c = rng.normal(size=(rows, depth)), rng.normal(size=(depth, columns)), np.empty((rows, columns))
    product(rows, columns, depth, a, max(depth, 1), 1, b, columns, c, columns)
    np.testing.assert_allclose(c, a @ b, rtol=1e-13, atol=1e-13)
    turned = np.ascontiguousarray(a.T)
    product(rows, columns, depth, turned, 1, rows, b, columns, c, columns)
    np.testing.assert_allclose(c, a @ b, rtol=1e-13, atol=1e-13)
