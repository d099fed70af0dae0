"""Log-likelihoods of rows, for every kind of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from draws import WEIGHTS, events_of
from pbdn.gibbs.log_likelihood import SideRates, log_likelihood
from pbdn.gibbs.rows import BEFORE, COUNT, EXACT, INTERVAL, NOTHING, make_rows


@pytest.mark.parametrize("kind", [NOTHING, BEFORE, INTERVAL, EXACT, COUNT])
def test_row_log_likelihood(rng, kind):
    """Every kind of row against its formula, in the sweep's own pass and in the plain one; weights count copies."""
    n, weight = 7, 3.0
    inputs, planes = rng.standard_normal((n, 2)), rng.standard_normal((3, 3))
    offset, exposure = rng.normal(size=n), rng.uniform(0.5, 2, n)
    start = offset - rng.uniform(0.2, 1, n)
    count = rng.integers(0, 5, n)
    rows, sparse_rows = (
        make_rows(
            form, count, weight=np.full(n, weight), offset=offset, exposure=exposure, kind=np.full(n, kind),
            start=start, merge=False,
        )
        for form in (inputs, sp.csr_array(inputs))
    )  # fmt: skip
    x = np.column_stack([np.ones(n), inputs])
    psi = x @ planes.T + offset[:, None]
    h = exposure * (np.logaddexp(0, psi) @ WEIGHTS)
    h_start = exposure * (np.logaddexp(0, psi - offset[:, None] + start[:, None]) @ WEIGHTS)
    hazard = exposure * (WEIGHTS / (1 + np.exp(-psi))).sum(1)
    expected = {
        NOTHING: -h,
        BEFORE: np.log1p(-np.exp(-h)),
        INTERVAL: np.log(np.exp(-h_start) - np.exp(-h)),
        EXACT: np.log(hazard) - h,
        COUNT: stats.poisson.logpmf(count, h),
    }[kind]
    stretched = SideRates(rows, planes / 2.0, WEIGHTS).log_likelihood(rows.arrays.offset, rows.arrays.start, 2.0)
    assert np.isclose(stretched, weight * expected.sum(), rtol=1e-10)
    for form in (rows, sparse_rows):
        assert np.isclose(log_likelihood(form, planes, WEIGHTS), weight * expected.sum(), rtol=1e-10)
    seen = events_of(rows, planes, WEIGHTS, 1, False)[-1]
    assert np.isclose(seen, weight * expected.sum(), rtol=1e-10)
