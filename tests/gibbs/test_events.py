"""Phase A: laws of events, merged rows, extremes; log-likelihoods of rows, for every kind of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from scipy import stats

from checks import ALPHA, Z_MAX, assert_cdf, assert_counts
from draws import WEIGHTS, empty_sums, events_of, streams_of, vector_draws
from pbdn.gibbs.event_times import choose_in_logs, draw_events
from pbdn.gibbs.kernel_arguments import Blocks, Experts, Statistics
from pbdn.gibbs.log_likelihood import SideRates, log_likelihood
from pbdn.gibbs.polya_gamma_weights import sum_statistics
from pbdn.gibbs.rows import BEFORE, COUNT, EXACT, INTERVAL, NOTHING, make_rows


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
        row, _, omega, linear = events[:4]
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
    tables, watched, _, exposure, _ = events_of(rows, psi[:, None], WEIGHTS, seed, False)
    row, expert, omega, linear = tables[:4]
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
            sum_statistics(
                rows.arrays, watched, planes, WEIGHTS, None, events, streams_of(seed, sweep), Blocks(0, 1),
                Statistics(gram, moment, 1),
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
    watched, sums = np.empty(n), empty_sums(1, 3)
    statistics = Statistics(np.zeros((1, 3, 3)), np.zeros((1, 2, 3)), 1)
    experts = Experts(planes, log_weights, np.ones(3, bool))
    for sweep in range(50):
        streams = streams_of(3, sweep)
        events = draw_events(first_only, rows.arrays, experts, streams, Blocks(0, 1), watched, sums)
        sum_statistics(
            rows.arrays, watched, planes, np.exp(log_weights), None, events, streams, Blocks(0, 1), statistics
        )
        for values in (watched, *sums, *statistics[:2], events.pg_weight, events.linear):
            assert np.isfinite(values).all()
        assert sums.n_tables.sum() >= 3
        assert (watched <= 0).all()


def test_counted_events_lie_before_the_offset_whatever_row_came_before(seed):
    """Rows of an interval leave nothing behind for rows with a count: distances have the law s(η)/s(ψ) down to zero."""
    psi, n = np.array([0.5, -1.0, 2.0]), 20_000
    counted = np.arange(n) % 2 == 1
    kind = np.where(counted, COUNT, INTERVAL)
    rows = make_rows(np.empty((n, 0)), np.ones(n, int), kind=kind, start=np.full(n, -0.1), merge=False)
    tables = events_of(rows, psi[:, None], WEIGHTS, seed, False)[0]
    mine = counted[tables.row] & (tables.expert == 1)
    eta = (0.5 - tables.linear[mine]) / tables.pg_weight[mine] + psi[1]
    points = np.quantile(eta, np.linspace(0.01, 0.99, 99))
    assert_cdf(eta, points, np.logaddexp(0, points) / np.logaddexp(0, psi[1]))


def test_choice_in_logs(seed):
    """P(k) ∝ r_k s(ψ_k) where both underflow."""

    @njit
    def chosen(stream, log_weights, psi):
        return np.array([float(choose_in_logs(stream, log_weights, psi))])

    log_weights, psi = np.array([-900.0, -500.0, -1.0]), np.array([-100.0, -500.5, -3000.0])
    x = vector_draws(chosen, seed, 50_000, 1, log_weights, psi)[:, 0]
    p = np.exp(log_weights + psi - (log_weights + psi).max())
    assert_counts(np.bincount(x.astype(int), minlength=3)[:2], (p / p.sum())[:2])


@pytest.mark.parametrize("kind", [INTERVAL, COUNT])
@pytest.mark.parametrize("first_only", [False, True])
def test_events_of_vanishing_rates_lie_where_the_row_says(seed, kind, first_only):
    """s(ψ) = e^ψ there: ψ - η is exponential, cut to the length of an interval."""
    n, psi = 20_000, -800.0
    rows = make_rows(np.empty((n, 0)), np.ones(n, int), kind=np.full(n, kind), start=np.full(n, -0.5), merge=False)
    tables, watched, *_ = events_of(rows, np.full((3, 1), psi), WEIGHTS, seed, first_only)
    before = -(0.5 - tables.linear) / tables.pg_weight
    assert len(before) == n
    points = np.quantile(before, np.linspace(0.01, 0.99, 99))
    longest = 0.5 if kind == INTERVAL else np.inf
    assert before.max() <= longest
    assert_cdf(before, points, np.expm1(-points) / np.expm1(-longest))
    if first_only and kind == INTERVAL:
        assert (watched >= -0.5).all()


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
