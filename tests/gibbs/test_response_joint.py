"""Joint-distribution tests of responses with extras, the planted bugs that they catch, and ranks of the truth (SBC).

The short tests take independent draws of (parameters, data) from the joint law, make one sweep, and look at the mean change of
many functions: it is zero if and only if the sweep leaves their means alone. The long ones are Geweke's.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from checks import ALPHA
from joint import N_EXPERTS, N_INPUTS, PRIORS, functions, z_limit
from pbdn.gibbs import counted_responses, timed_responses
from pbdn.gibbs.responses import GammaPrior, response_sweep
from pbdn.gibbs.rows import GIVEN_BEFORE, GIVEN_NOTHING, Rows
from pbdn.gibbs.state import GlobalState, prior_values
from pbdn.gibbs.sweep import Workers, single_blas_thread
from pbdn.model.priors import simulate_parameters
from pbdn.variates.random_stream import stream_key

ROWS_OF_A_SWEEP, ROWS_OF_A_CHAIN = 20, 5
PARAMETERS = ("hyperplanes", "expert_weights", "mass", "inv_scale", "coef_precision", "coef_rate")


def first_log_times(rng, psi, weights):
    """Log-time of the first event of each row: the least of ln E - ψ_k - ln θ_k, E ~ Exp(1), θ_k ~ Gamma(r_k, 1)."""
    shape = np.broadcast_to(np.maximum(weights, 1e-290)[:, None, :], psi.shape)
    log_theta = np.log(rng.gamma(shape + 1.0)) + np.log(rng.random(psi.shape)) / shape
    return (np.log(rng.exponential(size=psi.shape)) - psi - log_theta).min(axis=2)


def rates(psi, weights):
    return np.einsum("gnk,gk->gn", np.logaddexp(0.0, psi), weights)


class Values:
    """Real values with a scale, known within bounds: exactly, or up to rounding in every fifth row.

    Without bounds the chain would hardly move where expert weights are small and values are huge.
    """

    prior, extra = GammaPrior(4.0, 1.5), "scale"
    first, last = np.array([-3.0, -3.0, -0.3, -3.0, -3.0]), np.array([3.0, 0.3, 3.0, 3.0, 3.0])  # repeated

    def extras(self, rng, n):
        return rng.gamma(self.prior.shape, size=(n, 1)) / self.prior.rate

    def simulate(self, rng, psi, weights, extras):
        y = first_log_times(rng, psi[0], weights[0]) / extras[0]
        low, high = y.copy(), y.copy()
        low[:, 3::5], high[:, 3::5] = np.floor(y[:, 3::5]), np.floor(y[:, 3::5]) + 1
        first, last = (np.resize(bound, y.shape[1]) for bound in (self.first, self.last))
        early, late = y < first, y > last
        low[early], high[late] = -np.inf, np.inf
        high, low = np.where(early, first, high), np.where(late, last, low)
        return np.stack([low, high], axis=2)

    def rows(self, inputs, exposure, data, side):
        return timed_responses.timed_rows(inputs, data[:, 0], data[:, 1], prior=self.prior)

    def seen(self, data):
        low = np.where(np.isinf(data[:, :, 0]), data[:, :, 1], data[:, :, 0])
        return np.arctan(low) + 0.5 * np.isinf(data[:, :, 0]) - 0.5 * np.isinf(data[:, :, 1])


class Limited(Values):
    """Values of which some rows are only there because they lie above a limit, and others below one."""

    limit = np.array([-0.6, 0.4, -np.inf, 0.2, 0.5])
    above = np.array([True, False, True, True, False])

    def simulate(self, rng, psi, weights, extras):
        """y with H(y) = H(limit) + E above, and 1 - e^{-H(y)} = U (1 - e^{-H(limit)}) below, by halving."""
        n, n_rows = psi[0].shape[:2]
        limit, above = np.resize(self.limit, n_rows), np.resize(self.above, n_rows)

        def rate(y):
            return rates(psi[0] + (extras[0] * y)[:, :, None], weights[0])

        at_limit = rate(np.broadcast_to(np.where(np.isinf(limit), -1e300, limit), (n, n_rows)))
        uniform = rng.random((n, n_rows))
        reached = np.where(above, at_limit - np.log(uniform), -np.log1p(uniform * np.expm1(-at_limit)))
        low, high = np.full((n, n_rows), -4.0), np.full((n, n_rows), 4.0)  # all is censored before
        for _ in range(50):
            middle = 0.5 * (low + high)
            early = rate(middle) < reached
            low, high = np.where(early, middle, low), np.where(early, high, middle)
        y = 0.5 * (low + high)
        first, last = np.where(above & np.isfinite(limit), -4.0, -1.5), np.where(above, 1.5, 4.0)
        bounds = np.stack([np.where(y < first, -np.inf, np.minimum(y, last)), np.where(y > last, np.inf, y)], axis=2)
        bounds[:, :, 1] = np.where(y < first, first, bounds[:, :, 1])
        return np.concatenate([bounds, np.broadcast_to(limit[:, None], (n, n_rows, 1))], axis=2)

    def rows(self, inputs, exposure, data, side):
        return timed_responses.timed_rows(inputs, data[:, 0], data[:, 1], limit=data[:, 2], prior=self.prior)


class Grades:
    """Four grades; the extras are gaps."""

    prior, extra = GammaPrior(3.0, 2.0), "cut_points"

    def extras(self, rng, n):
        return rng.gamma(self.prior.shape, size=(n, 2)) / self.prior.rate

    def simulate(self, rng, psi, weights, extras):
        u = first_log_times(rng, psi[0], weights[0])
        cuts = np.cumsum(np.column_stack([np.zeros(len(u)), extras[0]]), axis=1)
        return (u[:, :, None] > cuts[:, None, :]).sum(axis=2)

    def rows(self, inputs, exposure, data, side):
        return timed_responses.graded_rows(inputs, data, 4, prior=self.prior)

    def seen(self, data):
        return data


class Counts:
    """Overdispersed counts with exposures."""

    prior, extra = GammaPrior(3.0, 2.0), "dispersion"

    def extras(self, rng, n):
        return rng.gamma(self.prior.shape, size=(n, 1)) / self.prior.rate

    def simulate(self, rng, psi, weights, extras):
        noise = rng.gamma(np.broadcast_to(extras[0], psi[0].shape[:2])) / extras[0]
        return rng.poisson(np.minimum(noise * self.exposure * rates(psi[0], weights[0]), 1e6))

    def rows(self, inputs, exposure, data, side):
        return counted_responses.counted_rows(inputs, data, exposure=exposure, prior=self.prior)

    def seen(self, data):
        return np.minimum(data, 30)


class Amounts(Counts):
    """Sums of a Poisson number of exponential parts."""

    prior, extra = GammaPrior(4.0, 3.0), "amount_rate"

    def simulate(self, rng, psi, weights, extras):
        parts = rng.poisson(np.minimum(rates(psi[0], weights[0]), 1e6))
        return np.where(parts > 0, rng.gamma(np.maximum(parts, 1)) / extras[0], 0.0)

    def rows(self, inputs, exposure, data, side):
        return counted_responses.amount_rows(inputs, data, prior=self.prior)


class Causes(Values):
    """Two competing causes, each a side with a scale of its own; all rows censored at 1."""

    n_sides = 2

    def simulate(self, rng, psi, weights, extras):
        y = np.stack([first_log_times(rng, psi[s], weights[s]) / extras[s] for s in range(2)], axis=2)
        first = y.min(axis=2)
        return np.stack([np.minimum(first, 1.0), np.where(first < 1.0, y.argmin(axis=2), -1)], axis=2)

    def rows(self, inputs, exposure, data, side):
        bounds = timed_responses.bounds_of_cause(data[:, 0], data[:, 1], side)
        return timed_responses.timed_rows(inputs, *bounds, prior=self.prior)

    def seen(self, data):
        return np.arctan(data[:, :, 0]) + data[:, :, 1]


WORLDS = [Values, Limited, Grades, Counts, Amounts, Causes]


def all_functions(sides, extras, seen):
    """Functions of every side's parameters and the data, and of its extras."""
    out = []
    for p, extra in zip(sides, extras, strict=True):
        total, bias = np.log(p["expert_weights"].sum(1)), np.arctan(p["hyperplanes"])[:, :, 0].mean(1)
        log_extra = np.log(extra)
        out += [functions(p, seen), log_extra, log_extra**2, log_extra * total[:, None], log_extra * bias[:, None]]
        out += [
            log_extra * seen.mean(1)[:, None],
            log_extra * np.log1p(seen.var(1))[:, None],
            log_extra * np.log(p["coef_rate"]).mean(1)[:, None],
        ]
    return np.column_stack(out)


def world_of(rng, world, n_rows):
    """Inputs without and with the constant; exposures."""
    world.exposure = rng.uniform(0.5, 1.5, n_rows)
    inputs = rng.standard_normal((n_rows, N_INPUTS - 1))
    return inputs, np.column_stack([np.ones(n_rows), inputs])


def prior_draws(rng, world, n):
    sides = [simulate_parameters(rng, PRIORS, N_EXPERTS, N_INPUTS, n) for _ in range(getattr(world, "n_sides", 1))]
    for p in sides:
        np.maximum(p["expert_weights"], 1e-300, out=p["expert_weights"])  # some are too small for a double
    return sides, [world.extras(rng, n) for _ in sides]


def simulated(rng, world, x, sides, extras):
    psi = [np.einsum("nd,gkd->gnk", x, p["hyperplanes"]) for p in sides]
    return world.simulate(rng, psi, [p["expert_weights"] for p in sides], extras)


def state_of(p):
    weights = np.maximum(p["expert_weights"][0], 1e-300)
    names = ("coef_precision", "coef_rate")
    return GlobalState(
        p["hyperplanes"][0], np.log(weights), float(p["mass"][0]), float(p["inv_scale"][0]), *(p[n][0] for n in names)
    )


def as_extras(world, values):
    """The numbers of a world as the sampler has them: gaps become cut points."""
    return {world.extra: np.r_[0.0, np.cumsum(values)] if world.extra == "cut_points" else np.array(values[0])}


def as_numbers(world, extras):
    value = extras[world.extra]
    return np.diff(value) if world.extra == "cut_points" else np.array([value])


def as_draws(state):
    return {
        "hyperplanes": state.hyperplanes[None],
        "expert_weights": np.exp(state.log_weights)[None],
        "mass": np.array([state.mass]),
        "inv_scale": np.array([state.inv_scale]),
        "coef_precision": state.coef_precision[None],
        "coef_rate": state.coef_rate[None],
    }


class Sweeper:
    """Sweeps of every side of a world, given its data."""

    def __init__(self, seed, world, inputs, n_sides):
        self.world, self.inputs = world, inputs
        self.keys = [stream_key(seed, s) for s in range(n_sides)]
        self.priors, self.workers, self.active = prior_values(PRIORS), Workers(), np.ones(N_EXPERTS, bool)

    def sweep(self, data, states, extras, index):
        new = []
        for s, key in enumerate(self.keys):
            rows, response = self.world.rows(self.inputs, self.world.exposure, data, s)
            state, extra, _, _ = response_sweep(
                "first_events", rows, response, states[s], extras[s], None, self.active, self.priors, key, index,
                self.workers,
            )  # fmt: skip
            new.append((as_draws(state), as_numbers(self.world, extra)[None]))
        return [p for p, _ in new], [numbers for _, numbers in new]


def stacked(draws):
    """A list of (parameters, extras), each of one draw of all sides, as arrays of all draws by side."""
    n_sides = len(draws[0][0])
    sides = [{name: np.concatenate([p[s][name] for p, _ in draws]) for name in PARAMETERS} for s in range(n_sides)]
    return sides, [np.concatenate([numbers[s] for _, numbers in draws]) for s in range(n_sides)]


def after_one_sweep(rng, seed, world, n):
    """z-scores of the change of every function in one sweep from independent draws of the joint law: its mean is zero."""
    inputs, x = world_of(rng, world, ROWS_OF_A_SWEEP)
    sides, numbers = prior_draws(rng, world, n)
    data = simulated(rng, world, x, sides, numbers)
    sweeper, new = Sweeper(seed, world, inputs, len(sides)), []
    with single_blas_thread():
        for g in range(n):
            states = [state_of({name: p[name][g : g + 1] for name in PARAMETERS}) for p in sides]
            extras = [as_extras(world, values[g]) for values in numbers]
            new.append(sweeper.sweep(data[g], states, extras, g))
    seen = world.seen(data)
    change = all_functions(*stacked(new), seen) - all_functions(sides, numbers, seen)
    change = change[:, change.any(axis=0)]  # functions of the data alone stay
    return change.mean(0) / (change.std(0) / np.sqrt(n))


def along_a_chain(rng, seed, world, n_sweeps, n_forward, n_batches=50):
    """z-scores of all functions along a chain of sweeps and new data in turn, and its effective sample sizes."""
    inputs, x = world_of(rng, world, ROWS_OF_A_CHAIN)
    sides, numbers = prior_draws(rng, world, n_forward)
    direct = all_functions(sides, numbers, world.seen(simulated(rng, world, x, sides, numbers)))
    sides, numbers = prior_draws(rng, world, 1)
    sweeper, draws, seen = Sweeper(seed, world, inputs, len(sides)), [], []
    with single_blas_thread():
        for index in range(n_sweeps):
            data = simulated(rng, world, x, sides, numbers)
            states, extras = [state_of(p) for p in sides], [as_extras(world, values[0]) for values in numbers]
            draws.append((sides, numbers))
            seen.append(data[0])
            sides, numbers = sweeper.sweep(data[0], states, extras, index)
    chain = all_functions(*stacked(draws), world.seen(np.array(seen)))
    batches = chain.reshape(n_batches, n_sweeps // n_batches, -1).mean(1)
    error = batches.var(0, ddof=1) / n_batches
    z = (batches.mean(0) - direct.mean(0)) / np.sqrt(error + direct.var(0) / n_forward)
    return z, chain.var(0) / np.maximum(error, 1e-300)


def largest_z(seed, world, n):
    """The largest |z| after one sweep, and its limit."""
    z = after_one_sweep(np.random.default_rng(seed), seed, world, n)
    assert np.isfinite(z).all()
    return np.abs(z).max(), stats.norm.isf(ALPHA / (2 * len(z)))


@pytest.mark.parametrize("world", WORLDS)
def test_a_sweep_keeps_the_joint_law(seed, world):
    found, limit = largest_z(seed, world(), 1_000)
    assert found < limit, f"largest |z| {found:.1f}, limit {limit:.1f}"


@pytest.mark.statistical
@pytest.mark.parametrize("world", WORLDS)
def test_joint_law_in_a_long_run(rng, seed, world):
    z, effective = along_a_chain(rng, seed, world(), 40_000, n_forward=300_000)
    print(f"{world.__name__}: largest |z| {np.abs(z).max():.1f}, least {effective.min():.0f} effective draws")
    assert np.abs(z).max() < z_limit(ALPHA, len(z))
    assert effective.min() > 200


# planted bugs

log_stretch_prior = timed_responses.log_stretch_prior
draw_conditions = timed_responses.draw_conditions
draw_cut_point, draw_exposures = timed_responses.draw_cut_point, counted_responses.draw_exposures
log_count_likelihood, draw_amount_rate = counted_responses.log_count_likelihood, counted_responses.draw_amount_rate


def density_without_scale(patch):
    """The density of an exact value without its factor τ."""

    def wrong(rates, scale, *changes):
        arrays = rates.rows.arrays
        return rates.log_likelihood(scale * arrays.offset, scale * arrays.start, *changes)

    patch(timed_responses, "timed_log_likelihood", wrong)


def stretch_without_jacobian(patch):
    """A change of scale that takes the hyperplanes along, without the Jacobian of b."""

    def wrong(log_factor, sizes, prior, state, *rest):
        return log_stretch_prior(log_factor, sizes, prior, state, *rest) - 2.0 * state.n_experts * log_factor

    patch(timed_responses, "log_stretch_prior", wrong)


def stale_offsets(patch):
    """The sweep sees the values at scale one."""
    patch(timed_responses, "rows_at_scale", lambda rows, scale: rows)


def limits_forgotten(patch, kind=(GIVEN_NOTHING, GIVEN_BEFORE)):
    """A sweep that does not know of the limits, of one kind or of both; the scale does."""

    def wrong(rows, *rest):
        drawn = draw_conditions(rows, *rest)
        gone, arrays = np.isin(rows.arrays.kind, kind), drawn.arrays
        less = {"copies": np.where(gone, 0.0, arrays.copies), "exposure": np.where(gone, 0.0, arrays.exposure)}
        return replace(drawn, arrays=arrays._replace(**less))

    patch(timed_responses, "draw_conditions", wrong)


def limits_below_forgotten(patch):
    """The same of limits that lie below the values."""
    limits_forgotten(patch, GIVEN_NOTHING)


def limits_above_forgotten(patch):
    """The same of limits that lie above the values."""
    limits_forgotten(patch, GIVEN_BEFORE)


def cut_without_the_grade_above(patch):
    """A cut point that looks only at the rows below it."""

    def wrong(j, cuts, rates, prior, stream):
        arrays = rates.rows.arrays
        below = np.flatnonzero(arrays.offset <= j + 1.0)
        fields = {name: getattr(arrays, name)[below] for name in arrays._fields if name not in ("dense", "sparse")}
        part = Rows(arrays._replace(dense=arrays.dense[below], **fields), rates.rows.n_inputs)
        less = timed_responses.SideRates.__new__(timed_responses.SideRates)
        less.rows, less.weights, less.distances = part, rates.weights, rates.distances[below]
        return draw_cut_point(j, cuts, less, prior, stream)

    patch(timed_responses, "draw_cut_point", wrong)


def cut_without_prior(patch):
    """Gaps without their prior."""
    patch(timed_responses, "log_gap_prior", lambda gap, prior: 0.0 if gap > 0 else -np.inf)


def dispersion_without_rising_factor(patch):
    """The negative binomial law without Γ(y + φ) / Γ(φ)."""

    def wrong(dispersion, counts, rate):
        rising = gammaln(counts + dispersion) - gammaln(dispersion)
        return log_count_likelihood(dispersion, counts, rate) - rising.sum()

    patch(counted_responses, "log_count_likelihood", wrong)


def exposures_without_counts(patch):
    """e ~ Gamma(φ, φ + λ)."""

    def wrong(counts, *rest):
        draw_exposures(np.zeros_like(counts), *rest)

    patch(counted_responses, "draw_exposures", wrong)


def exposures_without_rates(patch):
    """e ~ Gamma(φ + y, φ)."""

    def wrong(counts, rate, *rest):
        draw_exposures(counts, np.zeros_like(rate), *rest)

    patch(counted_responses, "draw_exposures", wrong)


def parts_of_a_poisson_law(patch):
    """P(n) ∝ zⁿ / n! for zⁿ / (n! (n-1)!)."""
    rng = np.random.default_rng(1)

    def wrong(amounts, rate, amount_rate, streams, out):
        out[:] = np.where(amounts > 0, np.maximum(rng.poisson(amount_rate * amounts * rate), 1), 0)

    patch(counted_responses, "draw_parts", wrong)


def amount_rate_by_rows(patch):
    """ς with one part for each positive amount."""

    def wrong(stream, parts, amounts, prior):
        return draw_amount_rate(stream, np.minimum(parts, 1.0), amounts, prior)

    patch(counted_responses, "draw_amount_rate", wrong)


def other_causes_dropped(patch):
    """Rows of another cause say nothing about this one."""

    def wrong(value, cause, own):
        return np.where(cause == own, value, -np.inf), np.where(cause == own, value, np.inf)

    patch(timed_responses, "bounds_of_cause", wrong)


def other_causes_watched_to_the_end(patch):
    """Rows of another cause count as censored at the end of the study."""
    patch(
        timed_responses,
        "bounds_of_cause",
        lambda value, cause, own: (np.where(cause == own, value, 1.0), np.where(cause == own, value, np.inf)),
    )


def long(world, plant):
    """Among the longer evidence: others like it stay in every run."""
    return pytest.param(world, plant, marks=pytest.mark.statistical)


BUGS = [
    (Values, density_without_scale),
    (Values, stretch_without_jacobian),
    long(Values, stale_offsets),
    (Limited, limits_below_forgotten),
    (Limited, limits_above_forgotten),
    (Grades, cut_without_the_grade_above),
    long(Grades, cut_without_prior),
    long(Grades, stretch_without_jacobian),
    (Counts, dispersion_without_rising_factor),
    (Counts, exposures_without_counts),
    long(Counts, exposures_without_rates),
    (Amounts, parts_of_a_poisson_law),
    (Amounts, amount_rate_by_rows),
    long(Causes, other_causes_dropped),
    (Causes, other_causes_watched_to_the_end),
]


@pytest.mark.parametrize(("world", "plant"), BUGS, ids=lambda p: p.__name__)
def test_seeded_bug_is_caught(seed, monkeypatch, world, plant):
    """A bug that shows at one and a half times the limit in a quarter of the draws needs no more of them."""
    plant(monkeypatch.setattr)
    n_draws = 2_000 if world in (Values, Limited, Grades) else 600  # their moves take turns
    found, limit = largest_z(seed, world(), n_draws // 4)
    if found < 1.5 * limit:
        found, limit = largest_z(seed, world(), n_draws)
    print(f"{plant.__name__}: largest |z| {found:.1f}, limit {limit:.1f}")
    assert found > limit, f"{plant.__name__} was missed: largest |z| {found:.1f}, limit {limit:.1f}"


# ranks of the truth

N_RANKED, THIN, BURN_IN = 19, 20, 120


def ranks(rng, seed, world, n_sets):
    """Rank of the true extra among thinned draws of a chain that starts elsewhere, for simulated data sets."""
    inputs, x = world_of(rng, world, ROWS_OF_A_SWEEP)
    sides, numbers = prior_draws(rng, world, n_sets)
    starts, start_numbers = prior_draws(rng, world, n_sets)
    data = simulated(rng, world, x, sides, numbers)
    out = []
    with single_blas_thread():
        for g in range(n_sets):
            sweeper = Sweeper(seed + g, world, inputs, 1)
            now, extra, drawn = [{n: starts[0][n][g : g + 1] for n in PARAMETERS}], start_numbers[0][g], []
            for index in range(BURN_IN + N_RANKED * THIN):
                now, numbers_now = sweeper.sweep(data[g], [state_of(now[0])], [as_extras(world, extra)], index)
                extra = numbers_now[0][0]
                if index >= BURN_IN and (index - BURN_IN) % THIN == THIN - 1:
                    drawn.append(extra[0])
            out.append((np.array(drawn) < numbers[0][g, 0]).sum())
    return np.array(out)


@pytest.mark.statistical
@pytest.mark.parametrize("world", [Values, Counts])
def test_ranks_of_scale_and_dispersion(rng, seed, world):
    rank = ranks(rng, seed, world(), 100)
    counts = np.histogram(rank, bins=10, range=(-0.5, N_RANKED + 0.5))[0]
    assert stats.chisquare(counts).pvalue > ALPHA, counts
    z = (rank.mean() - N_RANKED / 2) / np.sqrt(((N_RANKED + 1) ** 2 - 1) / 12 / len(rank))
    print(f"{world.__name__}: {counts.tolist()}, z {z:.1f}")
    assert abs(z) < stats.norm.isf(ALPHA / 2)
