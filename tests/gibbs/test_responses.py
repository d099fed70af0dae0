"""Responses with extras: laws of their draws, likelihoods, rows, and the chain that keeps them."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import integrate, stats
from scipy.special import gammaln

from checks import assert_cdf, assert_counts, assert_gamma
from draws import streams_of
from pbdn.errors import InvalidInputError
from pbdn.gibbs.chain import ChainSettings, ChainState, run_chain, traced_names
from pbdn.gibbs.counted_responses import (
    AmountRate,
    Overdispersion,
    amount_rows,
    counted_rows,
    draw_amount_rate,
    draw_exposures,
    draw_parts,
    log_amount_likelihood,
    log_count_likelihood,
)
from pbdn.gibbs.responses import ExtraStream, GammaPrior, SideRows, fill_conditions, slice_sample
from pbdn.gibbs.rows import (
    BEFORE,
    BLOCK_ROWS,
    COUNT,
    EXACT,
    GIVEN_BEFORE,
    GIVEN_NOTHING,
    INTERVAL,
    NOTHING,
    make_rows,
)
from pbdn.gibbs.state import GlobalState, prior_values
from pbdn.gibbs.timed_responses import TimeScale, bounds_of_cause, graded_rows, log_stretch_prior, timed_rows
from pbdn.model.network import Layer, Side
from pbdn.model.priors import Hyperpriors
from pbdn.model.timed import side_arrays, side_log_likelihood

PLANES, WEIGHTS = np.array([[0.3, 1.0], [-1.0, -0.5]]), np.array([0.7, 0.4])
PRIOR = GammaPrior(2.0, 3.0)


def cumulative(u, x=0.5):
    """H(u) of a row with input x under PLANES and WEIGHTS."""
    return np.logaddexp(0.0, PLANES @ [1.0, x] + np.asarray(u)[..., None]) @ WEIGHTS


# draws


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.4, 1.5)])
def test_slice_sampling_keeps_a_law(rng, bounds):
    """Draws from Gamma(3, 2), cut to the bounds, have that law after a step."""
    law = stats.gamma(3.0, scale=0.5)
    low, high = law.cdf(bounds)
    start = law.ppf(rng.uniform(low, high, 4_000))

    def log_density(x):
        return 2.0 * np.log(x) - 2.0 * x if x > 0 else -np.inf

    after = np.array([slice_sample(log_density, x, 0.7, rng.random, *bounds) for x in start])
    assert np.mean(after != start) > 0.99
    points = np.quantile(after, np.linspace(0.01, 0.99, 99))
    assert_cdf(after, points, (law.cdf(points) - low) / (high - low))
    assert abs(np.corrcoef(start, after)[0, 1]) < 0.9


def test_exposures_of_counts(seed):
    n = 60_000
    drawn = np.empty(n)
    draw_exposures(np.full(n, 3.0), np.full(n, 0.5), 1.5, streams_of(seed), drawn)
    assert_gamma(drawn, 4.5, 2.0)


def test_parts_of_an_amount(seed):
    """Against the law by enumeration; none where the amount is zero."""
    n, z = 60_000, 6.0
    drawn, amounts = np.empty(n), np.full(n, 2.0)
    amounts[0] = 0.0
    draw_parts(amounts, np.full(n, 1.5), 2.0, streams_of(seed), drawn)
    assert drawn[0] == 0
    number = np.arange(1, 30)
    mass = np.exp(number * np.log(z) - gammaln(number + 1) - gammaln(number))
    observed = np.bincount(drawn[1:].astype(int), minlength=30)[1:30]
    assert observed.sum() == n - 1
    assert_counts(observed, mass / mass.sum())


def test_numbers_of_conditions(seed):
    """Poisson and negative binomial laws, weights that are no whole numbers included."""
    n, rate, weight = 30_000, 0.7, 1.6
    kind, drawn = np.resize([GIVEN_NOTHING, GIVEN_BEFORE], 2 * n), np.empty(2 * n)
    fill_conditions(kind, np.full(2 * n, weight), np.full(2 * n, rate), streams_of(seed), drawn)
    for one, law in ((0, stats.poisson(weight * rate)), (1, stats.nbinom(weight, -np.expm1(-rate)))):
        assert_counts(np.bincount(drawn[one::2].astype(int), minlength=40)[:40], law.pmf(np.arange(40)))


def test_rate_of_amounts(seed):
    parts, amounts = np.array([2.0, 0.0, 3.0]), np.array([1.5, 0.0, 0.5])
    drawn = [draw_amount_rate(ExtraStream(streams_of(seed, g)), parts, amounts, PRIOR) for g in range(20_000)]
    assert_gamma(np.array(drawn), 7.0, 5.0)


@pytest.mark.parametrize("floor", [0.0, 0.8])
def test_stretch_prior_is_density_times_jacobian(rng, floor):
    """Against the prior written out, and a Jacobian by counting the numbers that are multiplied."""
    priors = prior_values(Hyperpriors(3.0, 2.0, 4.0, 3.0, 1.3, 2.5, 1.7, floor))
    shape = (3, 4)
    state = GlobalState(
        rng.normal(size=shape), np.zeros(3), 1.0, 1.0, rng.gamma(1.0, size=shape), rng.gamma(2.0, size=3)
    )
    sizes = rng.gamma(1.0, size=2)

    def direct(log_factor):
        c = np.exp(log_factor)
        moved = state.stretched(c)
        beta, alpha, b = moved.hyperplanes, moved.coef_precision, moved.coef_rate
        value = stats.gamma(PRIOR.shape, scale=1 / PRIOR.rate).logpdf(c * sizes).sum()
        value += stats.norm(0, 1 / np.sqrt(np.maximum(alpha, floor))).logpdf(beta).sum()
        value += (
            stats.gamma(1.3, scale=1 / b[:, None]).logpdf(alpha).sum() + stats.gamma(2.5, scale=1 / 1.7).logpdf(b).sum()
        )
        return value + log_factor * (sizes.size + beta.size - 2 * alpha.size + 2 * b.size)

    for at in (-0.7, 0.2, 1.1):
        new, old = (log_stretch_prior(value, sizes, PRIOR, state, priors) for value in (at, 0.0))
        assert np.isclose(new - old, direct(at) - direct(0.0), rtol=1e-10)


# likelihoods


def density(response, make, y):
    """exp of the log-likelihood of one row."""
    rows = make(y).rows
    return np.exp(response.log_likelihood(rows, PLANES, WEIGHTS, EXTRAS))


EXTRAS = {"scale": np.array(1.7), "cut_points": np.array([0.0, 0.9, 1.4]), "amount_rate": np.array(0.8)}
X = np.array([[0.5]])


def test_real_values_have_a_density(rng):
    """It integrates to the probabilities that censored rows have."""
    response = TimeScale(PRIOR)

    def of(low, high):
        return density(response, lambda y: timed_rows(X, [y[0]], [y[1]]), (low, high))

    area = integrate.quad(lambda y: of(y, y), -0.5, 0.8)[0]
    assert np.isclose(area, of(-0.5, 0.8), rtol=1e-7)
    assert np.isclose(of(-0.5, 0.8), np.exp(-cumulative(-0.85)) - np.exp(-cumulative(1.36)))
    assert np.isclose(of(0.8, np.inf), np.exp(-cumulative(1.36)))
    assert np.isclose(of(-np.inf, -0.5) + of(-0.5, 0.8) + of(0.8, np.inf), 1.0)


def test_grades_have_probabilities():
    response = graded_rows(X, [1], 4).response
    mass = [density(response, lambda g: graded_rows(X, [g], 4), g) for g in range(4)]
    survival = np.exp(-cumulative(EXTRAS["cut_points"]))
    assert np.allclose(mass, -np.diff(np.r_[1.0, survival, 0.0]))


def test_overdispersed_counts_are_negative_binomial(rng):
    counts, rate, dispersion = rng.integers(0, 9, 40).astype(float), rng.gamma(2.0, size=40), 1.3
    expected = stats.nbinom(dispersion, dispersion / (dispersion + rate)).logpmf(counts)
    constant = np.sum(counts * np.log(rate) - gammaln(counts + 1))
    assert np.isclose(log_count_likelihood(dispersion, counts, rate) + constant, expected.sum(), rtol=1e-10)
    rows, response = counted_rows(np.full((3, 1), 0.5), [0, 2, 5], exposure=[1.0, 2.0, 0.5])
    means = np.array([1.0, 2.0, 0.5]) * cumulative(0.0)
    found = response.log_likelihood(rows, PLANES, WEIGHTS, {"dispersion": np.array(dispersion)})
    assert np.isclose(found, stats.nbinom(dispersion, dispersion / (dispersion + means)).logpmf([0, 2, 5]).sum())


def test_amounts_have_a_density():
    """The sum over numbers of parts; with the probability of zero it makes one."""
    rate, amount_rate = 1.2, 0.8
    for y in (1e-6, 0.3, 5.0, 40.0):
        number = np.arange(1, 200)
        terms = stats.poisson.pmf(number, rate) * stats.gamma(number, scale=1 / amount_rate).pdf(y)
        found = log_amount_likelihood(amount_rate, np.array([y]), np.array([rate]))
        assert np.isclose(found, np.log(terms.sum()), rtol=1e-10)
    response = AmountRate(PRIOR)
    area = integrate.quad(lambda y: density(response, lambda v: amount_rows(X, [v]), y), 0, 60)[0]
    assert np.isclose(area + density(response, lambda v: amount_rows(X, [v]), 0.0), 1.0, rtol=1e-6)


# rows


def test_bounds_become_kinds(rng):
    inputs = rng.standard_normal((5, 2))
    low, high = [-np.inf, 1.0, 2.0, 3.0, -np.inf], [0.5, 1.0, 2.5, np.inf, np.inf]
    arrays = timed_rows(inputs, low, high).rows.arrays
    assert arrays.kind.tolist() == [BEFORE, EXACT, INTERVAL, NOTHING]  # the last row says nothing
    assert arrays.offset.tolist() == [0.5, 1.0, 2.5, 3.0]
    assert arrays.start.tolist() == [-np.inf, -np.inf, 2.0, -np.inf]
    assert timed_rows(inputs, low, high, prior=None).response is None


@pytest.mark.parametrize("sparse", [False, True])
def test_limits_divide_by_the_probability_beyond_them(rng, sparse):
    """The likelihood of rows and limits is that of the model, with weights; a sweep has the limits as other rows."""
    inputs, weight = rng.standard_normal((40, 1)), rng.integers(1, 4, 40).astype(float)
    u = rng.normal(size=40)
    low, high = np.where(u < -1.0, -np.inf, u), np.where(u > 1.0, np.inf, u + (u < -0.5))
    limit = np.where(np.arange(40) % 3 == 0, np.minimum(u, 0.0) - 0.4, np.where(u < 0.5, u + 1.5, np.inf))
    limit[np.isinf(low) & (limit < high)] = -np.inf
    rows, response = timed_rows(sp.csr_matrix(inputs) if sparse else inputs, low, high, limit=limit, weight=weight)
    scale = float(EXTRAS["scale"])
    side = Side(PLANES, WEIGHTS, np.full(2, scale))
    expected = weight @ side_log_likelihood(side_arrays(Layer((side,)), inputs)[0], np.column_stack([low, high, limit]))
    found = response.log_likelihood(rows, PLANES, WEIGHTS, EXTRAS)
    assert found == pytest.approx(expected, rel=1e-10)
    drawn, _, _ = response.draw(
        rows, GlobalState(PLANES, np.log(WEIGHTS), 1.0, 1.0, np.ones((2, 2)), np.ones(2)), EXTRAS,
        prior_values(Hyperpriors()), streams_of(1),
    )  # fmt: skip
    assert drawn.arrays.kind.max() == COUNT
    assert (drawn.arrays.exposure[drawn.arrays.kind == COUNT] == 0.0).all()


def test_a_cause_is_exact_and_the_others_censored():
    low, high = bounds_of_cause([1.0, 2.0, 3.0], ["a", "b", "none"], "b")
    assert low.tolist() == [1.0, 2.0, 3.0]
    assert high.tolist() == [np.inf, 2.0, np.inf]


def test_two_grades_are_a_binary_side(rng):
    inputs, grade = rng.standard_normal((30, 2)), rng.integers(0, 2, 30)
    rows, response = graded_rows(inputs, grade, 2)
    binary = make_rows(inputs, grade == 0, single_events=True)
    assert response is None
    for one, other in zip(rows.arrays, binary.arrays, strict=True):
        assert one is None or np.array_equal(one, other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: timed_rows(X, [1.0], [0.5]), "lower must be at most upper"),
        (lambda: timed_rows(X, [np.nan], [0.5]), "lower must be at most upper"),
        (lambda: timed_rows(X, [np.inf], [np.inf]), "lower must be at most upper"),
        (lambda: graded_rows(X, [3], 3), "whole numbers from 0 to 2"),
        (lambda: counted_rows(X, [1.5]), "count must be whole"),
        (lambda: counted_rows(X, [1], exposure=[0.0]), "exposure must be finite and above 0"),
        (lambda: counted_rows(X, [1], weight=[0.5]), "weight must be whole"),
        (lambda: amount_rows(X, [-1.0]), "amount must be finite"),
    ],
)
def test_wrong_rows_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize("name", ["values", "counts", "amounts"])
def test_a_whole_weight_counts_copies(rng, name):
    inputs, value = rng.standard_normal((4, 1)), np.array([0.0, 1.0, 2.0, 1.0])
    make = {
        "values": lambda x, y, **w: timed_rows(x, y, y, **w),
        "counts": counted_rows,
        "amounts": amount_rows,
    }[name]
    extras = {"scale": np.array(1.2), "dispersion": np.array(0.7), "amount_rate": np.array(1.1)}
    place = np.array([0, 0, 0, 2, 3])
    scores = [
        side.response.log_likelihood(side.rows, PLANES, WEIGHTS, extras)
        for side in (make(inputs, value, weight=[3, 0, 1, 1]), make(inputs[place], value[place]))
    ]
    assert np.isclose(*scores, rtol=1e-12)


# chains


def sides(rng, n=150, inputs=None):
    """A small side of every response."""
    x = rng.standard_normal((n, 2)) if inputs is None else inputs
    y = x @ np.array([1.0, -0.5]) + 0.4 * rng.standard_normal(n)
    y = np.asarray(y).ravel()
    return {
        "values": timed_rows(x, np.where(y < -1, -np.inf, y), np.where(y < -1, -1.0, np.where(y > 1, np.inf, y))),
        "grades": graded_rows(x, np.digitize(y, [-0.5, 0.0, 0.8]), 4),
        "counts": counted_rows(x, rng.poisson(np.exp(y)), exposure=rng.uniform(0.5, 2, n)),
        "amounts": amount_rows(x, np.where(y > 0, y, 0.0)),
        "plain counts": counted_rows(x, rng.poisson(np.exp(y)), prior=None),
    }


NAMES = ["values", "grades", "counts", "amounts", "plain counts"]
SETTINGS = ChainSettings(max_experts=4, n_sweeps=24, n_burn_in=8, n_draws=5, prune_every=5)


@pytest.mark.parametrize("name", NAMES)
def test_stop_and_resume_gives_the_same_bits(rng, seed, name):
    rows, response = sides(rng)[name]
    whole = run_chain(rows, SETTINGS, seed, response=response)
    for stop_at in (1, 15):
        saved = {}

        def keep(chain, stop_at=stop_at, saved=saved):
            if chain.done == stop_at:
                saved.update({name: np.copy(value) for name, value in chain.to_arrays().items()})

        run_chain(rows, SETTINGS, seed, response=response, on_sweep=keep, should_stop=lambda saved=saved: bool(saved))
        resumed = run_chain(
            rows, SETTINGS, seed, response=response, resume=ChainState.from_arrays(saved, SETTINGS.n_sweeps)
        )
        for key, value in whole.final.to_arrays().items():
            assert np.array_equal(value, resumed.final.to_arrays()[key], equal_nan=True), key
        for column, value in whole.trace.items():
            assert np.array_equal(value, resumed.trace[column], equal_nan=True)
        assert all(np.array_equal(value, resumed.extras[key]) for key, value in whole.extras.items())


@pytest.mark.parametrize("name", NAMES)
def test_the_recorded_draw_has_its_log_likelihood(rng, seed, name):
    """Side and extras belong together, in the recorded draw and in the kept ones."""
    rows, response = sides(rng)[name]
    result = run_chain(rows, SETTINGS, seed, response=response)
    assert tuple(result.trace) == traced_names(result.extras)
    assert len(result.draws) == len(result.draw_extras) == 5
    if response is None:
        assert result.extras == {}
        return
    score = response.log_likelihood(rows, result.side.hyperplanes, result.side.expert_weights, result.extras)
    assert np.isclose(score, result.log_likelihood, rtol=1e-9)
    last = response.log_likelihood(
        rows, result.draws[-1].hyperplanes, result.draws[-1].expert_weights, result.draw_extras[-1]
    )
    assert np.isclose(last, result.trace["log_likelihood"][-1], rtol=1e-9)


def test_extras_start_where_they_are_told(rng, seed):
    rows, response = sides(rng)["counts"]
    told = run_chain(rows, SETTINGS, seed, response=response, start_extras={"dispersion": 7.0})
    assert run_chain(rows, SETTINGS, seed, response=response).trace["dispersion"][1] != told.trace["dispersion"][1]
    assert isinstance(response, Overdispersion)


def test_threads_and_sparse_inputs_agree(rng, seed):
    x = rng.standard_normal((3 * BLOCK_ROWS, 2))
    x[rng.random(x.shape) < 0.5] = 0.0
    y = x[:, 0] + 0.3 * rng.standard_normal(len(x))
    settings = ChainSettings(max_experts=4, n_sweeps=3, n_burn_in=1, n_draws=1)
    results = [
        run_chain(rows, settings, seed, response=response, n_threads=n_threads)
        for form, n_threads in ((x, 1), (x, 2), (sp.csr_array(x), 1))
        for rows, response in [timed_rows(form, y, y)]
    ]
    assert results[0].extras == results[1].extras
    assert np.isclose(results[0].extras["scale"], results[2].extras["scale"], rtol=1e-6)


def test_the_counts_sampler_is_refused(rng, seed):
    rows, response = timed_rows(rng.standard_normal((9, 1)), np.zeros(9), np.full(9, np.inf))
    assert isinstance(SideRows(rows, response).response, TimeScale)
    with pytest.raises(InvalidInputError, match="first_events"):
        run_chain(rows, ChainSettings("counts", 3, n_sweeps=4, n_burn_in=1), seed, response=response)


def test_a_linear_regression_is_found(rng, seed):
    """Logistic noise around a line is one expert of weight one: its scale and slope come out."""
    x = rng.standard_normal((400, 1))
    y = 0.8 * x[:, 0] + 0.25 * rng.logistic(size=400)
    rows, response = timed_rows(x, y, y)
    result = run_chain(
        rows, ChainSettings(max_experts=5, n_sweeps=600, n_burn_in=300, n_draws=50), seed, response=response
    )
    truth = np.sum(stats.logistic.logpdf(y, 0.8 * x[:, 0], 0.25))
    assert result.log_likelihood > truth - 5
    assert 2.5 < np.mean([extras["scale"] for extras in result.draw_extras]) < 6.5
