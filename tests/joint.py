"""Geweke's joint-distribution test: forward draws of (parameters, labels) against sweeps and new labels in turn.

Both must have the same law. Compared are means of functions that do not depend on the numbering of experts, products
of parameters among them (a wrong order of γ₀ and r shows only there). The chain's standard errors come from batch means.
"""

import numpy as np
from scipy import stats

from pbdn.gibbs.rows import BEFORE, COUNT, EXACT, INTERVAL, NOTHING, make_rows
from pbdn.gibbs.state import GlobalState, prior_values
from pbdn.gibbs.sweep import Workers, initial_latent, single_blas_thread, sweep
from pbdn.model.priors import Hyperpriors, simulate_parameters
from pbdn.variates.random_stream import stream_key

PRIORS = Hyperpriors(
    mass_shape=3.0,
    mass_rate=2.0,
    inv_scale_shape=4.0,
    inv_scale_rate=3.0,
    coef_shape=3.0,
    coef_rate_shape=4.0,
    coef_rate_rate=3.0,
)
N_ROWS, N_EXPERTS, N_INPUTS = 5, 3, 3


def design(rng):
    """Inputs without the constant, offsets and exposures of the small problem."""
    inputs = rng.standard_normal((N_ROWS, N_INPUTS - 1))
    return inputs, rng.normal(0.0, 0.5, N_ROWS), rng.uniform(0.5, 1.5, N_ROWS)


def functions(p, counts):
    """Label-free functions of (parameters, data); ``p`` as from simulate_parameters, counts (draws, rows)."""
    r, beta = p["expert_weights"], p["hyperplanes"]
    total = r.sum(1)
    log_r = np.log(np.maximum(r, 1e-30))
    share = r / total[:, None]
    log_alpha, log_b = np.log(p["coef_precision"]), np.log(p["coef_rate"])
    y = counts.astype(float)
    tame = np.arctan(beta)  # β has heavy tails
    return np.column_stack(
        [
            np.log(p["mass"]),
            p["mass"],
            np.log(p["inv_scale"]),
            p["inv_scale"],
            np.log(total),
            total,
            np.log(r.max(1)),
            np.maximum(log_r, -20.0).mean(1),
            p["mass"] * np.log(total),
            np.log(p["mass"]) * np.maximum(log_r, -20.0).mean(1),
            p["inv_scale"] * total,
            np.log(p["mass"]) * np.log(p["inv_scale"]),
            tame[:, :, 0].mean(1),
            tame[:, :, 1].mean(1),
            (tame**2)[:, :, 0].mean(1),
            (tame**2)[:, :, 1:].mean((1, 2)),
            (share * tame[:, :, 0]).sum(1),
            (share * tame[:, :, 1] * tame[:, :, 2]).sum(1),
            (share**2).sum(1),
            log_alpha[:, :, 0].mean(1),
            log_alpha[:, :, 1:].mean((1, 2)),
            log_b.mean(1),
            (log_b[:, :, None] * np.abs(tame)).mean((1, 2)),
            (log_alpha * tame**2).mean((1, 2)),
            y.mean(1),
            y[:, 0] * y[:, 1],
            y.mean(1) * np.log(total),
            (y * (np.arange(y.shape[1]) - y.shape[1] // 2)).sum(1) * tame[:, :, 1].mean(1),
            y.mean(1) * (share * tame[:, :, 0]).sum(1),
        ]
    )


def cumulative_rate(hyperplanes, weights, inputs, offset, exposure):
    """e_i Σ_k r_k s(x_i'β_k + o_i) by plain NumPy."""
    x = np.column_stack([np.ones(len(inputs)), inputs])
    distance = np.einsum("nd,...kd->...nk", x, hyperplanes) + offset[:, None]
    return exposure * np.einsum("...nk,...k->...n", np.logaddexp(0.0, distance), weights)


def forward(rng, n_draws, response, world):
    """Functions of independent draws from the joint law."""
    inputs, offset, exposure = world
    p = simulate_parameters(rng, PRIORS, N_EXPERTS, N_INPUTS, n_draws)
    counts = response.simulate(rng, p["hyperplanes"], p["expert_weights"], inputs, offset, exposure)
    return functions(p, counts)


def successive(rng, seed, n_sweeps, sampler, response, world, sweep_function=sweep, is_enough=lambda chain: False):
    """Functions along the chain that alternates one sweep with new labels.

    At a quarter and at half of the sweeps ``is_enough(functions so far)`` may end the chain.
    """
    inputs, offset, exposure = world
    p = simulate_parameters(rng, PRIORS, N_EXPERTS, N_INPUTS, 1)
    state = GlobalState(
        p["hyperplanes"][0],
        np.log(p["expert_weights"][0]),
        float(p["mass"][0]),
        float(p["inv_scale"][0]),
        p["coef_precision"][0],
        p["coef_rate"][0],
    )
    counts = response.simulate(rng, p["hyperplanes"], p["expert_weights"], inputs, offset, exposure)
    key, priors, workers = stream_key(seed), prior_values(PRIORS), Workers()
    active = np.ones(N_EXPERTS, bool)
    rows = make_rows(inputs, counts[0] > 0, offset=offset, exposure=exposure, merge=False)
    latent = initial_latent(sampler, rows, N_EXPERTS)
    names = ("hyperplanes", "expert_weights", "mass", "inv_scale", "coef_precision", "coef_rate")
    history = {name: [] for name in names}
    seen = []

    def so_far():
        return functions({name: np.array(values) for name, values in history.items()}, np.array(seen))

    with single_blas_thread():
        for index in range(n_sweeps):
            if index in (n_sweeps // 4, n_sweeps // 2) and is_enough(so_far()):
                break
            rows = response.rows(rows, counts[0])
            state, latent, _ = sweep_function(sampler, rows, state, latent, active, priors, key, index, workers)
            if latent is not None:
                latent = response.renew_latent(rng, latent, state, inputs, offset, exposure)
                counts = (latent.sum(1) > 0)[None, :]
            else:
                counts = response.simulate(
                    rng, state.hyperplanes[None], np.exp(state.log_weights)[None], inputs, offset, exposure
                )
            values = (
                state.hyperplanes,
                np.exp(state.log_weights),
                state.mass,
                state.inv_scale,
                state.coef_precision,
                state.coef_rate,
            )
            for name, value in zip(names, values, strict=True):
                history[name].append(value)
            seen.append(counts[0])
    return so_far()


class Binary:
    """y_i = [an event before o_i]."""

    def simulate(self, rng, hyperplanes, weights, inputs, offset, exposure):
        rate = cumulative_rate(hyperplanes, weights, inputs, offset, exposure)
        return rng.random(rate.shape) < -np.expm1(-rate)

    def rows(self, rows, y):
        kind = np.where(y, BEFORE, NOTHING).astype(np.int64)
        return type(rows)(rows.arrays._replace(kind=kind, copies=y.astype(float)), rows.n_inputs)

    def renew_latent(self, rng, latent, state, inputs, offset, exposure):
        """New (m, y) given the parameters: m_ik ~ NB(e_i r_k, σ(ψ_ik)) and y = [Σ m ≥ 1]."""
        x = np.column_stack([np.ones(len(inputs)), inputs])
        distance = x @ state.hyperplanes.T + offset[:, None]
        shape = exposure[:, None] * np.exp(state.log_weights)
        with np.errstate(over="ignore"):
            return rng.poisson(np.minimum(rng.gamma(shape) * np.exp(distance), 1e15)).astype(float)


class Counts(Binary):
    """Poisson counts of events before o_i."""

    def simulate(self, rng, hyperplanes, weights, inputs, offset, exposure):
        rate = cumulative_rate(hyperplanes, weights, inputs, offset, exposure)
        return np.minimum(rng.poisson(np.minimum(rate, 1e6)), 1_000_000)

    def rows(self, rows, y):
        kind = np.full(len(y), COUNT, np.int64)
        return type(rows)(rows.arrays._replace(kind=kind, copies=y.astype(float)), rows.n_inputs)


class Ordinal(Binary):
    """2: before the cut at o_i - 1; 1: in (o_i - 1, o_i]; 0: nothing before o_i."""

    def simulate(self, rng, hyperplanes, weights, inputs, offset, exposure):
        late = cumulative_rate(hyperplanes, weights, inputs, offset, exposure)
        early = cumulative_rate(hyperplanes, weights, inputs, offset - 1.0, exposure)
        first = rng.exponential(size=late.shape)
        return np.where(first < early, 2, np.where(first < late, 1, 0))

    def rows(self, rows, y):
        base = rows.arrays
        if not hasattr(self, "offset"):
            self.offset = base.offset
        kind = np.select([y == 2, y == 1], [BEFORE, INTERVAL], NOTHING).astype(np.int64)
        arrays = base._replace(
            kind=kind,
            copies=(y > 0).astype(float),
            offset=np.where(y == 2, self.offset - 1.0, self.offset),
            start=self.offset - 1.0,
        )
        return type(rows)(arrays, rows.n_inputs)


class Exact(Binary):
    """The log-time of the first event, right-censored at o_i + 1; the functions see whether it was observed."""

    def simulate(self, rng, hyperplanes, weights, inputs, offset, exposure):
        """Expert k has its first event where e r s(ψ + t) is an exponential variable; the first of them counts."""
        x = np.column_stack([np.ones(len(inputs)), inputs])
        distance = np.einsum("nd,...kd->...nk", x, hyperplanes)
        rate = exposure[:, None] * np.maximum(weights, 1e-300)[..., None, :]
        target = rng.exponential(size=distance.shape) / rate
        time = (target + np.log(-np.expm1(-target)) - distance).min(axis=-1)
        self.time = time[0]  # used where there is one draw
        return time < offset + 1.0

    def rows(self, rows, y):
        base = rows.arrays
        if not hasattr(self, "offset"):
            self.offset = base.offset
        kind = np.where(y, EXACT, NOTHING).astype(np.int64)
        arrays = base._replace(kind=kind, copies=y.astype(float), offset=np.where(y, self.time, self.offset + 1.0))
        return type(rows)(arrays, rows.n_inputs)


def z_scores(direct, chain, n_batches=50):
    """z-scores of all functions, and the effective sample sizes of the chain."""
    size = len(chain) // n_batches
    batches = chain[: size * n_batches].reshape(n_batches, size, -1).mean(1)
    error = batches.var(0, ddof=1) / n_batches
    z = (batches.mean(0) - direct.mean(0)) / np.sqrt(error + direct.var(0) / len(direct))
    effective = np.where(error > 0, chain.var(0) / np.maximum(error, 1e-300), np.inf)
    return z, effective


def joint_z(rng, seed, sampler, response, n_sweeps, n_forward=100_000, sweep_function=sweep, beyond=np.inf):
    """z-scores of all functions, and the effective sample sizes of the chain, which may end early: when one is ``beyond``."""
    world = design(rng)
    direct = forward(rng, n_forward, response, world)
    return chain_z(rng, seed, sampler, response, n_sweeps, world, direct, sweep_function, beyond)


def chain_z(rng, seed, sampler, response, n_sweeps, world, direct, sweep_function=sweep, beyond=np.inf):
    """The same, given the rows and the functions of forward draws."""

    def shows(chain):
        return np.abs(z_scores(direct, chain)[0]).max() > beyond

    return z_scores(direct, successive(rng, seed, n_sweeps, sampler, response, world, sweep_function, shows))


def z_limit(alpha, n_functions, n_batches=50):
    """Bonferroni limit for the largest of the z-scores, with the t law of batch means."""
    return float(stats.t.isf(alpha / (2 * n_functions), n_batches - 1))
