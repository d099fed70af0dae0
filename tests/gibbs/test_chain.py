"""The chain: same bits however it is cut, pruning, recording, trace and hard data."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks import numpy_sweep

from checks import Z_MAX
from pbdn.errors import InvalidInputError
from pbdn.gibbs import chain as chain_module
from pbdn.gibbs.chain import TRACED, ChainSettings, ChainState, run_chain, start_chain
from pbdn.gibbs.rows import BLOCK_ROWS, make_rows
from pbdn.gibbs.state import GlobalState, initial_state, prior_values, state_from_side
from pbdn.gibbs.sweep import Workers, initial_latent, sweep
from pbdn.model.network import Side
from pbdn.model.priors import Hyperpriors
from pbdn.variates.random_stream import stream_key

SAMPLERS = ["first_events", "event_times", "counts"]
INFORMATIVE = Hyperpriors(3.0, 2.0, 4.0, 3.0, 3.0, 4.0, 3.0)
PAPER = Hyperpriors(0.01, 0.01, 1.0, 1.0, 1e-6, 1.0, 1.0)


def problem(rng, n=1500, d=3):
    inputs = rng.standard_normal((n, d))
    return inputs, rng.random(n) < 1 / (1 + np.exp(1 - 2 * inputs[:, 0] * inputs[:, 1]))


def quick(sampler="first_events", **changes):
    short = ChainSettings(sampler, max_experts=5, n_sweeps=30, n_burn_in=10, n_draws=5, prune_every=10)
    return replace(short, **changes)


def assert_same(one, two):
    """Two results, bit for bit."""
    assert one.log_likelihood == two.log_likelihood
    assert one.recorded_sweep == two.recorded_sweep
    for a, b in zip((one.side, *one.draws), (two.side, *two.draws), strict=True):
        assert np.array_equal(a.hyperplanes, b.hyperplanes)
        assert np.array_equal(a.expert_weights, b.expert_weights)
    for name in TRACED:
        assert np.array_equal(one.trace[name], two.trace[name], equal_nan=True)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_threads_give_the_same_bits(rng, seed, sampler):
    inputs, target = problem(rng, 40 * BLOCK_ROWS)  # more blocks than groups
    rows = make_rows(inputs, target, merge=False)
    assert rows.group_blocks > 1
    settings = quick(sampler, n_sweeps=5, n_burn_in=2)
    assert_same(run_chain(rows, settings, seed), run_chain(rows, settings, seed, n_threads=2))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("max_experts", [1, 5, 20])
def test_one_call_and_single_kernels_give_the_same_bits(rng, seed, sampler, max_experts):
    """One thread runs the whole sweep compiled in one piece, two threads call its kernels one by one."""
    rows = make_rows(*problem(rng, 700), merge=False)
    settings = quick(sampler, n_sweeps=40, max_experts=max_experts)
    assert_same(run_chain(rows, settings, seed), run_chain(rows, settings, seed, n_threads=2))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_stop_and_resume_gives_the_same_bits(rng, seed, sampler):
    rows = make_rows(*problem(rng, 300), merge=False)
    settings = quick(sampler)
    whole = run_chain(rows, settings, seed)
    for stop_at in (1, 10, 25, 29):
        saved = {}

        def keep(chain, stop_at=stop_at, saved=saved):
            if chain.done == stop_at:
                saved.update({name: np.copy(value) for name, value in chain.to_arrays().items()})

        broken = run_chain(rows, settings, seed, on_sweep=keep, should_stop=lambda saved=saved: bool(saved))
        assert not broken.complete
        assert broken.final.done == stop_at
        resumed = run_chain(rows, settings, seed, resume=ChainState.from_arrays(saved, settings.n_sweeps))
        assert resumed.complete
        assert_same(whole, resumed)
        assert_same(whole, run_chain(rows, settings, seed, resume=broken.final))  # the state in memory goes on too


def test_seed_and_place_name_the_chain(rng, seed):
    rows = make_rows(*problem(rng, 100))
    one, again = (run_chain(rows, quick(), seed, (1, 0, 2)) for _ in range(2))
    assert_same(one, again)
    for other in (run_chain(rows, quick(), seed + 1, (1, 0, 2)), run_chain(rows, quick(), seed, (1, 1, 2))):
        assert not np.array_equal(one.trace["mass"], other.trace["mass"])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_dense_and_sparse_agree(rng, seed, sampler):
    """The same draws while rounding lets them: two sweeps agree to many digits."""
    inputs, target = problem(rng, 400, 6)
    inputs[rng.random(inputs.shape) < 0.7] = 0.0
    states = []
    for form in (inputs, sp.csr_array(inputs)):
        rows = make_rows(form, target, merge=False)
        state, latent = initial_state(4, rows.n_inputs), initial_latent(sampler, rows, 4)
        for index in range(2):
            state, latent, info = sweep(
                sampler,
                rows,
                state,
                latent,
                np.ones(4, bool),
                prior_values(INFORMATIVE),
                stream_key(seed),
                index,
                Workers(),
            )
        states.append((state, info))
    for a, b in zip(states[0][0], states[1][0], strict=True):
        assert np.allclose(a, b, rtol=1e-7, atol=1e-9)
    assert np.isclose(states[0][1].log_likelihood, states[1][1].log_likelihood, rtol=1e-9)


def test_window_pruning_stops_at_burn_in(rng, seed):
    """Empty experts go in burn-in only; afterwards their number is fixed."""
    rows = make_rows(*problem(rng, 300))
    widths = []
    settings = quick(max_experts=20, n_sweeps=900, n_burn_in=600, prune_every=50, priors=PAPER)
    run_chain(rows, settings, seed, on_sweep=lambda chain: widths.append(chain.state.n_experts))
    changes = np.flatnonzero(np.diff(widths)) + 2  # sweeps after which the number fell
    assert widths[-1] < 20
    assert (np.diff(widths) <= 0).all()
    assert (changes % 50 == 0).all()
    assert changes.max() <= 600


def test_paper_pruning_drops_what_is_empty_now(rng, seed):
    rows = make_rows(*problem(rng, 300))
    seen = []

    def watch(chain):
        seen.append((chain.state.n_experts, int(chain.trace[chain.done, TRACED.index("n_active")])))

    run_chain(rows, quick(max_experts=20, pruning="paper", prune_every=7), seed, on_sweep=watch)
    for number, (width, active) in enumerate(seen, start=1):
        assert width == active if number % 7 == 0 else width >= active
    widths = []
    run_chain(rows, quick(max_experts=8, pruning="none"), seed, on_sweep=lambda c: widths.append(c.state.n_experts))
    assert set(widths) == {8}


def test_pruning_leaves_one_expert(seed):
    """No events at all: every expert is empty, the last one stays."""
    rows = make_rows(np.zeros((30, 1)), np.zeros(30, bool))
    result = run_chain(rows, quick(pruning="paper", prune_every=5), seed)
    assert result.final.state.n_experts == 1
    assert result.side.n_experts == 1


def test_recorded_draw_is_the_best_one(rng, seed):
    rows = make_rows(*problem(rng, 200))
    for record, first in (("collection", 11), ("whole_chain", 100)):
        n_sweeps = 30 if record == "collection" else 150
        result = run_chain(rows, quick(n_sweeps=n_sweeps, record=record), seed)
        score = result.trace["log_likelihood"]
        assert len(score) == n_sweeps + 1
        best = first + np.flatnonzero(score[first:] == score[first:].max())[-1]
        assert result.recorded_sweep == best
        assert result.log_likelihood == score[best]
        # the recorded side, scored afresh: active experts only
        psi = rows.arrays.dense @ result.side.hyperplanes.T
        rate = np.logaddexp(0, psi) @ result.side.expert_weights
        target = rows.arrays.kind == 1
        fresh = np.where(target, np.log(-np.expm1(-rate)), -rate).sum()
        assert np.isclose(fresh, result.log_likelihood, rtol=1e-9)


def test_kept_sweeps():
    kept = quick(n_sweeps=100, n_burn_in=50, n_draws=5).kept_sweeps()
    assert kept.tolist() == [51, 63, 76, 88, 100]
    assert quick(n_sweeps=10, n_burn_in=8, n_draws=50).kept_sweeps().tolist() == [9, 10]
    assert quick(n_sweeps=10, n_burn_in=10).kept_sweeps().size == 0


def test_trace_and_draws(rng, seed):
    rows = make_rows(*problem(rng, 200))
    result = run_chain(rows, quick(), seed)
    assert len(result.draws) == 5
    assert np.isfinite(result.trace["log_likelihood"]).all()
    for name in TRACED[1:]:
        assert np.isnan(result.trace[name][0])  # nothing was drawn before the first sweep
        assert np.isfinite(result.trace[name][1:]).all()
    events = int((rows.arrays.kind == 1).sum())
    assert (result.trace["n_tables"][1:] == events).all()  # one first event per row
    last = result.final.state
    assert np.isclose(result.trace["total_weight"][-1], np.exp(last.log_weights).sum())


def test_callbacks_and_time_limit(rng, seed):
    rows = make_rows(*problem(rng, 100))
    done = []
    result = run_chain(rows, quick(), seed, on_sweep=lambda c: done.append(c.done), should_stop=lambda: len(done) >= 4)
    assert done == [1, 2, 3, 4]
    assert not result.complete
    assert result.draws  # the state it stopped at stands in
    assert np.isfinite(result.log_likelihood)


def test_counts_refuses_copies(rng):
    rows = make_rows(np.ones((20, 1)), np.arange(20) % 2 == 0)
    with pytest.raises(InvalidInputError, match="one copy"):
        start_chain(rows, quick("counts"))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_weights_are_checked(weight):
    with pytest.raises(InvalidInputError, match="weight"):
        make_rows(np.ones((2, 1)), np.array([True, False]), weight=[1.0, weight])


def test_rows_of_zero_weight_are_absent(rng, seed):
    inputs, target = problem(rng, 60)
    weight = (rng.random(60) < 0.5).astype(float)
    one = make_rows(inputs, target, weight=weight, merge=False)
    two = make_rows(inputs[weight > 0], target[weight > 0], merge=False)
    assert_same(run_chain(one, quick(), seed), run_chain(two, quick(), seed))


def test_real_weights(rng, seed):
    """Any weight runs; on rows without event it is an exposure."""
    inputs, target = problem(rng, 80)
    weight = rng.uniform(0.1, 2.5, 80)
    rows = make_rows(inputs, target, weight=weight, merge=False)
    assert np.allclose(rows.arrays.exposure, weight)
    for sampler in ("first_events", "event_times"):
        assert np.isfinite(run_chain(rows, quick(sampler), seed).trace["log_likelihood"]).all()


SWEEPS, AT_FIRST, N_BATCHES = 2250, 500, 25  # the t law of so few batches: limits are 1.3 times those of a normal law
ANCHORS = np.column_stack([np.ones(5), np.linspace(-2, 2, 5)])


def looked_at(state):
    """Probabilities at the anchors, where inputs beyond the first are zero; the total weight; the mass."""
    rate = np.logaddexp(0, ANCHORS @ state.hyperplanes[:, :2].T) @ np.exp(state.log_weights)
    return [*-np.expm1(-rate), np.log(np.exp(state.log_weights).sum()), state.mass]


def batch_means(seen):
    """Means after burn-in, and their squared standard errors."""
    batches = np.array(seen[AT_FIRST:]).reshape(N_BATCHES, -1, 7).mean(1)
    return batches.mean(0), batches.var(0, ddof=1) / N_BATCHES


def posterior_mean(rows, sampler, seed, priors=INFORMATIVE):
    """What is looked at, on average over a chain."""
    seen = []
    settings = ChainSettings(
        sampler=sampler, max_experts=3, n_sweeps=SWEEPS, n_burn_in=AT_FIRST, pruning="none", n_draws=1, priors=priors
    )
    run_chain(rows, settings, seed, on_sweep=lambda chain: seen.append(looked_at(chain.state)))
    return batch_means(seen)


def oracle_mean(rng, rows, sampler):
    """The same of the NumPy sweep."""
    state, seen = initial_state(3, 2)._replace(coef_rate=np.ones(3)), []
    for _ in range(SWEEPS):
        state = numpy_sweep.sweep(rng, sampler, rows, state, INFORMATIVE)
        seen.append(looked_at(state))
    return batch_means(seen)


def assert_means_agree(one, other, what=""):
    z = (one[0] - other[0]) / np.sqrt(one[1] + other[1])
    assert np.abs(z).max() < 1.3 * Z_MAX, (what, z)


PROBLEMS = {
    "line": (np.linspace(-2, 2, 24)[:, None], np.arange(24) % 5 > 1),
    "bump": (np.linspace(-2, 2, 30)[:, None], np.abs(np.linspace(-2, 2, 30)) < 1.0),
    "few": (np.array([[-1.0], [0.0], [1.0], [3.0]]), np.array([False, True, True, False])),
}


@pytest.mark.parametrize(
    "name", ["line", *(pytest.param(name, marks=pytest.mark.statistical) for name in ("bump", "few"))]
)
def test_agrees_with_the_oracle(rng, seed, name):
    """Posterior means: three samplers and the NumPy sweep, within Monte-Carlo error."""
    rows = make_rows(*PROBLEMS[name], merge=False)
    oracle = oracle_mean(rng, rows, "event_times")
    for sampler in SAMPLERS:
        assert_means_agree(posterior_mean(rows, sampler, seed), oracle, sampler)


@pytest.mark.parametrize("name", ["bump", "few"])
def test_samplers_agree(seed, name):
    """Posterior means of the three samplers, within Monte-Carlo error."""
    rows = make_rows(*PROBLEMS[name], merge=False)
    first, *others = (posterior_mean(rows, sampler, seed + j) for j, sampler in enumerate(SAMPLERS))
    for sampler, other in zip(SAMPLERS[1:], others, strict=True):
        assert_means_agree(first, other, sampler)


def test_merged_rows_have_the_posterior_of_copies(rng, seed):
    inputs = np.repeat(np.array([[-1.0], [0.0], [1.0], [2.0]]), 8, axis=0)
    target = rng.random(32) < np.repeat([0.2, 0.4, 0.6, 0.9], 8)
    merged, apart = make_rows(inputs, target), make_rows(inputs, target, merge=False)
    assert merged.n_rows == 4
    one = posterior_mean(apart, "first_events", seed)
    for sampler in ("first_events", "event_times"):
        assert_means_agree(one, posterior_mean(merged, sampler, seed + 1), sampler)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_separable_data_and_paper_priors(seed, sampler):
    """Separable, badly scaled, with a constant column: everything stays finite."""
    x = np.concatenate([np.linspace(-3, -1, 40), np.linspace(1, 3, 40)])
    inputs = np.column_stack([x, 1e6 * x, np.full(80, 5.0), 1e-6 * x])
    rows = make_rows(inputs, x > 0)
    result = run_chain(rows, quick(sampler, n_sweeps=300, n_burn_in=100, max_experts=10, priors=PAPER), seed)
    assert np.isfinite(result.trace["log_likelihood"]).all()
    assert np.isfinite(result.side.hyperplanes).all()
    assert result.log_likelihood > -5.0  # -55 without inputs


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_steep_experts_and_tiny_weights(rng, seed, sampler):
    """|ψ| in the hundreds and weights that underflow, as a start."""
    inputs, target = problem(rng, 60)
    rows = make_rows(inputs, target)
    start = GlobalState(
        300.0 * rng.standard_normal((4, 4)), np.array([0.0, -800.0, -1500.0, 2.0]), 1e-12, 1e-12,
        np.full((4, 4), 1e-5), np.full(4, 1e-5),
    )  # fmt: skip
    result = run_chain(rows, quick(sampler, max_experts=4, pruning="none", priors=PAPER), seed, start=start)
    assert np.isfinite(result.trace["log_likelihood"]).all()
    assert np.isfinite(result.final.state.hyperplanes).all()
    assert np.isfinite(result.final.state.log_weights).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_fewer_rows_than_inputs(rng, seed, sampler):
    """The dual draw: same posterior as the plain one (inputs that are zero add nothing but prior draws)."""
    inputs, target = PROBLEMS["few"]
    wide = np.column_stack([inputs, np.zeros((4, 5))])
    rows = make_rows(wide, target, merge=False)
    assert rows.n_rows < rows.n_inputs
    # b_k is shared by all coefficients of an expert: compare where its prior is nearly a point
    sharp = Hyperpriors(3.0, 2.0, 4.0, 3.0, 3.0, 4e5, 3e5)
    plain = posterior_mean(make_rows(inputs, target, merge=False), sampler, seed, sharp)
    assert_means_agree(posterior_mean(rows, sampler, seed + 1, sharp), plain)


def test_start_from_a_side(rng, seed):
    side = Side(rng.standard_normal((2, 4)), np.array([0.5, 0.0]))
    state = state_from_side(side, 5)
    assert state.n_experts == 5
    rows = make_rows(*problem(rng, 100))
    assert np.isfinite(run_chain(rows, quick(), seed, start=state).log_likelihood)


def test_selecting_no_expert_keeps_the_heaviest():
    state = initial_state(3, 2)._replace(log_weights=np.array([-1.0, 2.0, 0.0]))
    assert state.to_side(np.zeros(3, bool)).expert_weights.tolist() == [np.exp(2.0)]


def test_window_constants_mean_what_they_say():
    """An expert with one table goes after some 230 empty sweeps."""
    activity, sweeps = 1.0, 0
    while activity >= chain_module.WINDOW_FLOOR:
        activity *= 1 - 1 / chain_module.WINDOW
        sweeps += 1
    assert 225 <= sweeps <= 235
