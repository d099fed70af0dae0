"""Joint-distribution tests of responses with extras, the planted bugs that they catch, and ranks of the truth (SBC)."""

import numpy as np
import pytest
from scipy import stats

from checks import ALPHA
from joint import N_EXPERTS, N_INPUTS, PRIORS, functions, z_limit
from pbdn.gibbs import counted_responses, timed_responses
from pbdn.gibbs.responses import GammaPrior, response_sweep
from pbdn.gibbs.rows import Rows
from pbdn.gibbs.state import GlobalState, prior_values
from pbdn.gibbs.sweep import Workers, single_blas_thread
from pbdn.model.simulate import simulate_parameters
from pbdn.variates.random_stream import stream_key

N_ROWS = 5
PARAMETERS = ("hyperplanes", "expert_weights", "mass", "inv_scale", "coef_precision", "coef_rate")


def first_log_times(rng, psi, weights):
    """Log-time of the first event of each row: the least of ln E - ψ_k - ln θ_k, E ~ Exp(1), θ_k ~ Gamma(r_k, 1)."""
    shape = np.broadcast_to(np.maximum(weights, 1e-290)[:, None, :], psi.shape)
    log_theta = np.log(rng.gamma(shape + 1.0)) + np.log(rng.random(psi.shape)) / shape
    return (np.log(rng.exponential(size=psi.shape)) - psi - log_theta).min(axis=2)


def rates(psi, weights):
    return np.einsum("gnk,gk->gn", np.logaddexp(0.0, psi), weights)


class Values:
    """Real values with a scale: rows 0 and 4 exact, 1 censored on the right, 2 on the left, 3 known up to rounding."""

    prior, extra, n_extras = GammaPrior(4.0, 3.0), "scale", 1

    def extras(self, rng, n):
        return rng.gamma(self.prior.shape, size=(n, 1)) / self.prior.rate

    def simulate(self, rng, psi, weights, extras):
        y = first_log_times(rng, psi[0], weights[0]) / extras[0]
        low, high = y.copy(), y.copy()
        late, early, close = y[:, 1] > 0.3, y[:, 2] < -0.3, np.abs(y[:, 3]) < 3
        low[late, 1], high[late, 1] = 0.3, np.inf
        low[early, 2], high[early, 2] = -np.inf, -0.3
        low[close, 3], high[close, 3] = np.floor(y[close, 3]), np.floor(y[close, 3]) + 1
        return np.stack([low, high], axis=2)

    def rows(self, inputs, exposure, data, side):
        return timed_responses.timed_rows(inputs, data[:, 0], data[:, 1], prior=self.prior)

    def seen(self, data):
        low = np.where(np.isinf(data[:, :, 0]), data[:, :, 1], data[:, :, 0])
        return np.arctan(low) + 0.5 * np.isinf(data[:, :, 0]) - 0.5 * np.isinf(data[:, :, 1])


class Grades:
    """Four grades; the extras are gaps."""

    prior, extra, n_extras = GammaPrior(3.0, 2.0), "cut_points", 2

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

    prior, extra, n_extras = GammaPrior(3.0, 2.0), "dispersion", 1

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


WORLDS = [Values, Grades, Counts, Amounts, Causes]


def all_functions(sides, extras, seen):
    """Functions of every side's parameters and the data, and of its extras."""
    out = []
    for p, extra in zip(sides, extras, strict=True):
        total, bias = np.log(p["expert_weights"].sum(1)), np.arctan(p["hyperplanes"])[:, :, 0].mean(1)
        log_extra = np.log(extra)
        out += [functions(p, seen), log_extra, log_extra**2, log_extra * total[:, None], log_extra * bias[:, None]]
        out += [log_extra * seen.mean(1)[:, None], log_extra * np.log(p["coef_rate"]).mean(1)[:, None]]
    return np.column_stack(out)


def world_of(rng, world):
    """Inputs and exposures."""
    world.exposure = rng.uniform(0.5, 1.5, N_ROWS)
    inputs = rng.standard_normal((N_ROWS, N_INPUTS - 1))
    return inputs, np.column_stack([np.ones(N_ROWS), inputs])


def prior_draws(rng, world, n):
    sides = [
        simulate_parameters(rng, PRIORS, N_EXPERTS, N_INPUTS, n) for _ in range(getattr(world, "n_sides", 1))
    ]
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


def successive(rng, seed, world, inputs, x, n_sweeps):
    """Functions along the chain that alternates one sweep of every side with new data."""
    sides, numbers = prior_draws(rng, world, 1)
    data = simulated(rng, world, x, sides, numbers)
    states, extras = [state_of(p) for p in sides], [as_extras(world, values[0]) for values in numbers]
    priors, workers, active = prior_values(PRIORS), Workers(), np.ones(N_EXPERTS, bool)
    keys = [stream_key(seed, s) for s in range(len(sides))]
    history = [{name: [] for name in PARAMETERS} for _ in sides]
    seen, along = [], [[] for _ in sides]
    with single_blas_thread():
        for index in range(n_sweeps):
            for s in range(len(sides)):
                rows, response = world.rows(inputs, world.exposure, data[0], s)
                states[s], extras[s], _, _ = response_sweep(
                    "first_events", rows, response, states[s], extras[s], None, active, priors, keys[s], index, workers
                )
                if not np.exp(states[s].log_weights).sum() < 1e4:
                    raise DivergedError
            sides = [as_draws(state) for state in states]
            numbers = [as_numbers(world, extra)[None] for extra in extras]
            data = simulated(rng, world, x, sides, numbers)
            seen.append(data[0])
            for s, p in enumerate(sides):
                along[s].append(numbers[s][0])
                for name in PARAMETERS:
                    history[s][name].append(p[name][0])
    sides = [{name: np.array(values) for name, values in one.items()} for one in history]
    return all_functions(sides, [np.array(values) for values in along], world.seen(np.array(seen)))


class DivergedError(Exception):
    """The chain left every region that the prior could reach."""


def joint_z(rng, seed, world, n_sweeps, n_forward=60_000, n_batches=50):
    """z-scores of all functions, and the effective sample sizes of the chain."""
    inputs, x = world_of(rng, world)
    sides, extras = prior_draws(rng, world, n_forward)
    direct = all_functions(sides, extras, world.seen(simulated(rng, world, x, sides, extras)))
    chain = successive(rng, seed, world, inputs, x, n_sweeps)
    batches = chain.reshape(n_batches, n_sweeps // n_batches, -1).mean(1)
    error = batches.var(0, ddof=1) / n_batches
    z = (batches.mean(0) - direct.mean(0)) / np.sqrt(error + direct.var(0) / n_forward)
    return z, chain.var(0) / np.maximum(error, 1e-300)


def largest_z(seed, world, n_sweeps):
    rng = np.random.default_rng(seed)
    try:
        z, effective = joint_z(rng, seed, world, n_sweeps)
    except DivergedError:
        return np.inf, 0.0, 0.0
    assert np.isfinite(z).all()
    return np.abs(z).max(), z_limit(ALPHA, len(z)), effective.min()


@pytest.mark.parametrize("world", WORLDS)
def test_joint_law(seed, world):
    found, limit, effective = largest_z(seed, world(), 5_000)
    assert found < limit, f"largest |z| {found:.1f}, limit {limit:.1f}"
    assert effective > 50


@pytest.mark.statistical
@pytest.mark.parametrize("world", WORLDS)
def test_joint_law_in_a_long_run(seed, world):
    rng = np.random.default_rng(seed)
    z, effective = joint_z(rng, seed, world(), 100_000, n_forward=1_000_000)
    print(f"{world.__name__}: largest |z| {np.abs(z).max():.1f}, least {effective.min():.0f} effective draws")
    assert np.abs(z).max() < z_limit(ALPHA, len(z))
    assert effective.min() > 500
