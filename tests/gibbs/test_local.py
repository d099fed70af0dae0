"""The local step: softplus, sums over rows, laws of events, merged rows, log-likelihoods, extremes."""

from functools import partial

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from scipy import stats

from checks import ALPHA, Z_MAX, assert_cdf, assert_counts
from draws import from_python, vector_draws
from pbdn.gibbs import gram as gram_module
from pbdn.gibbs import local
from pbdn.gibbs.first_events import draw_first_events
from pbdn.gibbs.rows import BEFORE, BLOCK_ROWS, COUNT, EXACT, INTERVAL, NOTHING, make_rows
from pbdn.gibbs.state import initial_state
from pbdn.gibbs.sweep import log_likelihood
from pbdn.numerics.softplus import softplus, softplus_block
from pbdn.variates.stream import stream_buffer, stream_key

WEIGHTS = np.array([0.4, 1.5, 0.05])
gram_scratch, add_block = from_python(gram_module.gram_scratch), from_python(gram_module.add_block)


def test_softplus_block():
    x = np.concatenate(
        [np.linspace(-745, 800, 4001), np.linspace(-40, 40, 4001), [0.0, -1e-300, 1e-300, -699.9, 1e3, -1e3]]
    )
    x = x[: len(x) // 4 * 4].reshape(-1, 4)
    out = np.empty_like(x)
    njit(lambda x, n, out: softplus_block(x, n, out))(x, len(x), out)
    with mp.workdps(30):
        exact = np.array([float(mp.log1p(mp.exp(mp.mpf(v)))) for v in x.ravel()]).reshape(x.shape)
    inside = x > -700
    assert np.max(np.abs(out[inside] / exact[inside] - 1)) < 1e-15
    assert ((out[~inside] > 0) & (out[~inside] < 1e-303)).all()
    one = from_python(softplus)
    assert max(abs(one(v) / e - 1) for v, e in zip(x.ravel(), exact.ravel(), strict=True) if v > -700) < 1e-15


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
        add_block(rows.dense, rows.sparse, 0, n, omega, linear, *gram_scratch(d + 1, 3), gram, moment)
        assert np.abs(gram - expected).max() < 1e-11
        assert np.abs(moment - x.T @ linear[:n]).max() < 1e-11


def events_of(rows, planes, weights, seed, first_only, sweep=0, in_blocks=False):
    """Phase A of all rows: (row, expert, ω, ½ - ωδ) or winners, watched, tables, exposure sums, log-likelihood."""
    watched, winner = np.empty(rows.n_rows), np.empty(rows.n_rows, int)
    draw = draw_first_events if in_blocks else partial(local.draw_events, first_only)
    tables, exposure = np.empty((rows.n_blocks, len(weights))), np.empty((rows.n_blocks, len(weights)))
    log_lik = np.empty(rows.n_blocks)
    active = np.ones(len(weights), bool)
    found = draw(
        rows.arrays, planes, np.log(weights), active, stream_key(seed), sweep, 0, rows.n_blocks,
        stream_buffer(), watched, *([winner] if in_blocks else []), tables, exposure, log_lik,
    )  # fmt: skip
    return winner if in_blocks else found[:4], watched, tables.sum(0), exposure.sum(0), log_lik.sum()


def brute_force_first(rng, psi, low, weights, n):
    """Earliest point of each of n processes with one or more in (low, 0]: all points are drawn, the first is kept."""
    s_low, s_high = np.logaddexp(0, psi + low), np.logaddexp(0, psi)
    number = np.zeros((0, len(psi)), int)
    while len(number) < n:
        new = rng.poisson(weights * (s_high - s_low), size=(200_000, len(psi)))
        number = np.concatenate([number, new[new.sum(1) > 0]])
    number = number[:n]
    k = np.repeat(np.tile(np.arange(len(psi)), n), number.ravel())
    process = np.repeat(np.arange(n), number.sum(1))
    s = s_low[k] + rng.random(len(k)) * (s_high - s_low)[k]
    delta = np.log(np.expm1(s)) - psi[k]
    order = np.lexsort((delta, process))
    first = order[np.r_[True, np.diff(process[order]) > 0]]
    return k[first], delta[first]


@pytest.mark.parametrize("way", ["before", "interval", "in blocks"])
@pytest.mark.parametrize("bias", [-4.0, 0.0, 4.0])
def test_first_event(rng, seed, bias, way):
    """Expert and log-time of the earliest point, against brute force; the base is watched up to it."""
    psi = np.array([0.5, -1.0, 2.0]) + bias
    planes = psi[:, None]
    n = 20_000
    interval = way == "interval"
    kind = np.full(n, INTERVAL if interval else BEFORE)
    start = np.full(n, -1.0)
    rows = make_rows(np.empty((n, 0)), np.ones(n), kind=kind, start=start, merge=False)
    in_blocks = way == "in blocks"
    events, watched, tables, exposure, _ = events_of(rows, planes, WEIGHTS, seed, True, in_blocks=in_blocks)
    expert = events if in_blocks else events[1]
    if not in_blocks:
        row, _, omega, linear = events
        assert np.array_equal(row, np.arange(n))
        assert np.allclose((0.5 - linear) / omega, watched, atol=1e-9, rtol=1e-9)
    assert np.array_equal(tables, np.bincount(expert, minlength=3))
    assert np.allclose(exposure, np.logaddexp(0, psi + watched[:, None]).sum(0))
    low = -1.0 if interval else -np.inf
    assert ((watched <= 0) & (watched >= low)).all()
    k, t = brute_force_first(rng, psi, low, WEIGHTS, n)
    assert stats.chi2_contingency([np.bincount(k, minlength=3), np.bincount(expert, minlength=3)]).pvalue > ALPHA
    assert stats.ks_2samp(t, watched, method="asymp").pvalue > ALPHA
    for j in range(3):  # the pair (expert, time), not only its margins
        if min(np.sum(k == j), np.sum(expert == j)) > 100:
            assert stats.ks_2samp(t[k == j], watched[expert == j], method="asymp").pvalue > ALPHA
    # P(first ≤ u) = (1 - e^{-(H(u) - H(low))}) / (1 - e^{-(H(0) - H(low))})
    points = np.quantile(watched, np.linspace(0.01, 0.99, 99))
    total = lambda u: np.logaddexp(0, psi + u) @ WEIGHTS  # noqa: E731
    base = 0.0 if low == -np.inf else total(low)
    cdf = np.array([-np.expm1(base - total(u)) for u in points]) / -np.expm1(base - total(0.0))
    assert_cdf(watched, points, cdf)


def test_events_in_blocks_and_row_by_row_agree(rng, seed):
    """Exposures, offsets, silent rows, an idle expert: same log-likelihood, same sums in law."""
    n, k = 900, 4
    inputs, target = rng.standard_normal((n, 2)), rng.random(n) < 0.5
    rows = make_rows(inputs, target, exposure=rng.uniform(0.2, 3, n), offset=rng.standard_normal(n), merge=False)
    assert rows.single_events
    planes, weights = 1.5 * rng.standard_normal((k, 3)), np.array([0.4, 1.5, 0.05, 1e-12])
    sums = {True: [], False: []}
    for in_blocks, found in sums.items():
        for sweep in range(400):
            events, watched, tables, exposed, log_lik = events_of(rows, planes, weights, seed, True, sweep, in_blocks)
            found.append([*tables, *exposed, watched.sum(), (watched**2).sum(), log_lik])
            silent = ~target
            assert np.array_equal(watched[silent], rows.arrays.offset[silent])
            assert (watched <= rows.arrays.offset).all()
            if in_blocks:
                assert np.array_equal(events >= 0, target)
    one, two = np.array(sums[True]), np.array(sums[False])
    assert np.allclose(one[:, -1], two[:, -1], rtol=1e-12)
    spread = np.sqrt((one.var(0) + two.var(0)) / 400)[:-1]
    difference = np.abs(one.mean(0) - two.mean(0))[:-1]
    assert (difference <= Z_MAX * spread + 1e-12).all()


def test_faint_rows_in_blocks(seed):
    """Rates that underflow: the expert is chosen by logarithms, in proportion to r e^ψ, and the event lies an Exp(1) before the offset."""
    n, psi = 20_000, np.array([-701.0, -700.0, -702.0])
    rows = make_rows(np.empty((n, 0)), np.ones(n, bool), merge=False)
    expert, watched, *_ = events_of(rows, psi[:, None], WEIGHTS, seed, True, in_blocks=True)
    share = WEIGHTS * np.exp(psi + 700)
    assert_counts(np.bincount(expert, minlength=3), share / share.sum())
    points = np.quantile(watched, np.linspace(0.01, 0.99, 99))
    assert_cdf(watched, points, np.exp(points))


def test_event_tables(seed):
    """All tables: numbers zero-truncated Poisson, experts ∝ r_k s(ψ_k), distances with law s(η)/s(ψ)."""
    psi, n = np.array([0.5, -1.0, 2.0]), 40_000
    rows = make_rows(np.empty((n, 0)), np.ones(n, bool), merge=False)
    (row, expert, omega, linear), watched, _, exposure, _ = events_of(rows, psi[:, None], WEIGHTS, seed, False)
    mass = WEIGHTS * np.logaddexp(0, psi)
    number = np.bincount(row, minlength=n)
    top = number.max() + 1
    law = stats.poisson.pmf(np.arange(top + 1), mass.sum()) / -np.expm1(-mass.sum())
    assert_counts(np.bincount(number, minlength=top + 1)[1:], law[1:] / law[1:].sum())
    assert_counts(np.bincount(expert, minlength=3), mass / mass.sum())
    assert (watched == 0).all()
    assert np.allclose(exposure, n * np.logaddexp(0, psi))
    eta = (0.5 - linear) / omega + psi[expert]
    for k in (0, 1):
        mine = eta[expert == k]
        points = np.quantile(mine, np.linspace(0.01, 0.99, 99))
        assert_cdf(mine, points, np.logaddexp(0, points) / np.logaddexp(0, psi[k]))


@pytest.mark.parametrize("first_only", [False, True])
def test_merged_rows_are_copies_in_law(rng, seed, first_only):
    """Means of tables, statistics and log-likelihood: merged rows, integer weights, plain copies."""
    base = np.array([[0.3], [-1.2], [2.0]])
    which = rng.integers(0, 3, 30)
    inputs, target = base[which], rng.random(30) < 0.6
    planes = rng.standard_normal((3, 2))
    _, first, copies = np.unique(np.column_stack([which, target]), axis=0, return_index=True, return_counts=True)
    forms = {
        "copies": make_rows(inputs, target, merge=False),
        "merged": make_rows(inputs, target),
        "weights": make_rows(inputs[first], target[first], weight=copies, merge=False),
    }
    assert forms["merged"].n_rows == 3
    sums = {}
    for name, rows in forms.items():
        drawn = []
        for sweep in range(3000):
            events, watched, tables, exposure, log_lik = events_of(rows, planes, WEIGHTS, seed, first_only, sweep)
            gram, moment = np.zeros((1, 3, 3)), np.zeros((1, 2, 3))
            # the kernel wants the events with their block ends
            ends = np.array([len(events[0])])
            local.sum_statistics(
                rows.arrays, watched, planes, WEIGHTS, None, (*events, ends), stream_key(seed), sweep, 0, 1, 1,
                stream_buffer(), gram, moment,
            )  # fmt: skip
            drawn.append(np.concatenate([tables, exposure, gram.ravel(), moment.ravel(), [log_lik]]))
        sums[name] = np.array(drawn)
    one = sums["copies"]
    for name in ("merged", "weights"):
        other = sums[name]
        assert np.allclose(one[:, -1], other[:, -1], rtol=1e-10)  # the log-likelihood is not random
        if first_only:  # another augmentation where a row stands for several: see test_chain for the posterior
            continue
        spread = np.sqrt(one.var(0) + other.var(0))
        z = (one.mean(0) - other.mean(0))[spread > 1e-9] / (spread[spread > 1e-9] / np.sqrt(len(one)))
        assert np.abs(z).max() < Z_MAX, (name, z)


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
        COUNT: count * np.log(h) - h,  # without ln y!
    }[kind]
    out = np.empty(1)
    local.total_log_likelihood(rows.arrays, planes, WEIGHTS, out)
    assert np.isclose(out[0], weight * expected.sum(), rtol=1e-10)
    state = initial_state(3, 3)._replace(hyperplanes=planes, log_weights=np.log(WEIGHTS))
    for form in (rows, sparse_rows):
        assert np.isclose(log_likelihood(form, state, np.ones(3, bool)), weight * expected.sum(), rtol=1e-10)
    seen = events_of(rows, planes, WEIGHTS, 1, False)[-1]
    assert np.isclose(seen, weight * expected.sum(), rtol=1e-10)


@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("distance", [-1e3, -600.0, 600.0, 1e3])
@pytest.mark.parametrize("log_weight", [-1000.0, -690.0, 0.0])
def test_extremes_stay_finite(first_only, distance, log_weight):
    if not first_only and distance > 0 and log_weight == 0.0:
        distance = 300.0  # a row has about r s(ψ) tables
    n = 6
    rows = make_rows(np.linspace(0.9, 1.1, n)[:, None], np.arange(n) % 2 == 0, merge=False)
    planes = np.array([[0.0, distance], [0.0, -distance], [distance, 0.0]])
    log_weights = np.array([log_weight, log_weight, 2 * log_weight])
    watched, tables, exposure = np.empty(n), np.empty((1, 3)), np.empty((1, 3))
    log_lik, gram, moment = np.empty(1), np.zeros((1, 3, 3)), np.zeros((1, 2, 3))
    key, active = stream_key(3), np.ones(3, bool)
    for sweep in range(50):
        events = local.draw_events(
            first_only, rows.arrays, planes, log_weights, active, key, sweep, 0, 1, stream_buffer(), watched,
            tables, exposure, log_lik,
        )  # fmt: skip
        local.sum_statistics(
            rows.arrays, watched, planes, np.exp(log_weights), None, events, key, sweep, 0, 1, 1, stream_buffer(),
            gram, moment,
        )  # fmt: skip
        for values in (watched, tables, exposure, log_lik, gram, moment, events[2], events[3]):
            assert np.isfinite(values).all()
        assert tables.sum() >= 3
        assert (watched <= 0).all()


def test_choice_in_logs(seed):
    """P(k) ∝ r_k s(ψ_k) where both underflow."""

    @njit
    def chosen(stream, log_weights, psi):
        return np.array([float(local.choose_in_logs(stream, log_weights, psi))])

    log_weights, psi = np.array([-900.0, -500.0, -1.0]), np.array([-100.0, -500.5, -3000.0])
    x = vector_draws(chosen, seed, 50_000, 1, log_weights, psi)[:, 0]
    p = np.exp(log_weights + psi - (log_weights + psi).max())
    assert_counts(np.bincount(x.astype(int), minlength=3)[:2], (p / p.sum())[:2])
