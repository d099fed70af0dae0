"""Sums over rows: packed Gram matrices and moments."""

import numpy as np
import pytest
import scipy.sparse as sp

from draws import from_python
from pbdn.gibbs import gram as gram_module
from pbdn.gibbs.kernel_arguments import RowTerms
from pbdn.gibbs.rows import BLOCK_ROWS, make_rows

gram_scratch, add_block = from_python(gram_module.gram_scratch), from_python(gram_module.add_block)


@pytest.mark.parametrize(("n", "d"), [(5, 0), (5, 3), (256, 2), (100, 40), (256, 40), (150, 75)])
def test_sums_over_rows(rng, n, d):
    """Packed Gram matrices and moments: dense with few and with many inputs, CSR, einsum."""
    inputs = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    target = rng.random(n) < 0.5
    omega, linear = np.zeros((BLOCK_ROWS, 3)), np.zeros((BLOCK_ROWS, 3))
    omega[:n], linear[:n] = rng.gamma(1.0, size=(n, 3)), rng.standard_normal((n, 3))
    x = np.column_stack([np.ones(n), inputs])
    upper = np.triu_indices(d + 1)
    expected = np.einsum("nk,nv,nw->vwk", omega[:n], x, x)[upper]
    for form in (inputs, sp.csr_array(inputs)):
        rows = make_rows(form, target, merge=False).arrays
        gram, moment = np.zeros((len(upper[0]), 3)), np.zeros((d + 1, 3))
        add_block(rows.dense, rows.sparse, 0, n, RowTerms(omega, linear), gram_scratch(d + 1, 3), gram, moment)
        assert np.abs(gram - expected).max() < 1e-11
        assert np.abs(moment - x.T @ linear[:n]).max() < 1e-11
