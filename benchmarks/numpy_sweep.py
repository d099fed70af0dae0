"""A straightforward vectorised NumPy version of the sweep: the yardstick for speed and an independent oracle in tests.

Written from the conditionals alone. It shares no code with `pbdn.gibbs` or `pbdn.variates`: events are drawn as whole
Poisson processes whose first point is kept, Polya-Gamma variables are truncated sums with a gamma matched to the
rest, counts of tables are sums of Bernoulli draws, Gaussians come from `scipy.linalg`.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from pbdn.gibbs.rows import BEFORE, Rows, make_rows
from pbdn.gibbs.state import GlobalState, initial_state
from pbdn.model.priors import GIBBS_PRIORS

FloatArray = NDArray[np.float64]


def polya_gamma(rng: np.random.Generator, b: FloatArray, c: FloatArray, n_terms: int = 8) -> FloatArray:
    """ω ~ PG(b, c): leading gamma terms plus one gamma matched to the rest; inverse Gaussian for |c| ≥ 15."""
    b, c = np.broadcast_arrays(b, np.abs(c))
    out = np.empty(b.shape)
    far = c >= 15.0
    mean, shape = b[far] / (2 * c[far]), b[far] ** 2 / 4
    y = rng.standard_normal(mean.shape) ** 2
    large = mean + mean * (mean * y + np.sqrt(4 * mean * shape * y + (mean * y) ** 2)) / (2 * shape)
    small = mean**2 / large
    out[far] = np.where(rng.random(mean.shape) * (mean + small) <= mean, small, large)
    b, c = b[~far], c[~far]
    safe = np.maximum(c, 1e-2)
    tanh, sech2 = np.tanh(safe / 2), 1 / np.cosh(safe / 2) ** 2
    mean = b * np.where(c < 1e-2, 0.25 - c**2 / 48, tanh / (2 * safe))
    variance = b * np.where(c < 1e-2, 1 / 24 - c**2 / 120, (tanh - safe / 2 * sech2) / (2 * safe**3))
    total = np.zeros(b.shape)
    for n in range(1, n_terms):
        d = 2 * np.pi**2 * (n - 0.5) ** 2 + c**2 / 2
        total += rng.standard_gamma(b) / d
        mean, variance = mean - b / d, variance - b / d**2
    out[~far] = total + rng.standard_gamma(mean**2 / variance) * variance / mean
    return out


def positive_poisson(rng: np.random.Generator, mean: FloatArray) -> NDArray[np.int64]:
    """n ~ Poisson(mean) given n ≥ 1, by rejection."""
    out = np.zeros(mean.shape, np.int64)
    todo = np.flatnonzero(out == 0)
    while todo.size:
        m = mean[todo]
        shifted = m <= 1
        n = rng.poisson(m) + shifted
        accept = np.where(shifted, rng.random(m.shape) * n < 1, n > 0)
        out[todo[accept]] = n[accept]
        todo = todo[~accept]
    return out


def draw_tables(
    rng: np.random.Generator, rows: FloatArray, psi: FloatArray, weights: FloatArray, exposure: FloatArray
) -> tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]:
    """All points of the processes of the given rows before their offsets, given one or more: row, expert, η."""
    soft = np.logaddexp(0.0, psi[rows])
    mass = np.cumsum(soft * weights, axis=1)
    number = positive_poisson(rng, mass[:, -1] * exposure[rows])
    at = np.repeat(np.arange(rows.size), number)
    expert = (rng.random(at.size) * mass[at, -1])[:, None] >= mass[at]
    expert = np.minimum(expert.sum(axis=1), weights.size - 1)
    eta = np.log(np.expm1(np.minimum(rng.random(at.size) * soft[at, expert], 700.0)))
    return rows[at], expert, np.minimum(eta, psi[rows[at], expert])


def sweep(
    rng: np.random.Generator, sampler: str, rows: Rows, state: GlobalState, priors: Any, n_terms: int = 8
) -> GlobalState:
    """One sweep of `first_events` or `event_times` for binary dense rows, state in, state out."""
    data = rows.arrays
    x, offset, exposure = data.dense, data.offset, data.exposure
    n_experts, n_inputs = state.hyperplanes.shape
    psi = x @ state.hyperplanes.T + offset[:, None]
    positive = np.flatnonzero(data.kind == BEFORE)
    row, expert, eta = draw_tables(rng, positive, psi, np.exp(state.log_weights), exposure)
    delta = eta - psi[row, expert] + offset[row]
    watched = offset.copy()
    if sampler == "first_events":
        order = np.lexsort((delta, row))
        first = order[np.r_[True, np.diff(row[order]) > 0]] if order.size else order
        row, expert, eta, delta = row[first], expert[first], eta[first], delta[first]
        watched[row] = delta
        psi = psi + (watched - offset)[:, None]
    tables = np.bincount(expert, minlength=n_experts)
    exposure_sum = exposure @ np.logaddexp(0.0, psi)

    share = state.mass / n_experts
    mass_tables = sum(int(np.sum(rng.random(n) * (share + np.arange(n)) < share)) for n in tables)
    mass_rate = priors.mass_rate + np.log1p(exposure_sum / state.inv_scale).mean()
    mass = rng.standard_gamma(priors.mass_shape + mass_tables) / mass_rate
    shape = mass / n_experts + tables
    log_weights = np.log(rng.standard_gamma(shape + 1)) - rng.standard_exponential(n_experts) / shape
    log_weights -= np.log(state.inv_scale + exposure_sum)
    weights = np.exp(log_weights)
    inv_scale = rng.standard_gamma(priors.inv_scale_shape + mass) / (priors.inv_scale_rate + weights.sum())

    base = np.maximum(exposure[:, None] * weights, 1e-200)
    omega = polya_gamma(rng, base, psi, n_terms)
    linear = -0.5 * base - omega * watched[:, None]
    table_omega = polya_gamma(rng, np.ones(eta.shape), eta, n_terms)
    np.add.at(omega, (row, expert), table_omega)
    np.add.at(linear, (row, expert), 0.5 - table_omega * delta)

    planes = np.empty((n_experts, n_inputs))
    for k in range(n_experts):
        precision = (x.T * omega[:, k]) @ x
        precision[np.diag_indices(n_inputs)] += state.coef_precision[k]
        scale = 1 / np.sqrt(np.diag(precision))
        factor = linalg.cholesky(precision * scale * scale[:, None], lower=True)
        z = linalg.solve_triangular(factor, scale * (x.T @ linear[:, k]), lower=True)
        z += rng.standard_normal(n_inputs)
        planes[k] = scale * linalg.solve_triangular(factor, z, lower=True, trans="T")
    rate = state.coef_rate[:, None] + 0.5 * planes**2
    coef_precision = rng.standard_gamma(priors.coef_shape + 0.5, size=planes.shape) / rate
    coef_rate = rng.standard_gamma(priors.coef_rate_shape + priors.coef_shape * n_inputs, size=n_experts)
    coef_rate /= priors.coef_rate_rate + coef_precision.sum(axis=1)
    return GlobalState(planes, log_weights, float(mass), float(inv_scale), coef_precision, coef_rate)


def time_sweep(X: Any, y: Any, n_experts: int, n_sweeps: int = 20) -> float:
    """Best seconds per `first_events` sweep on these rows, after a warm-up of as many sweeps."""
    rng = np.random.default_rng(0)
    rows, priors = make_rows(X, y, single_events=True, merge=False), GIBBS_PRIORS
    state = initial_state(n_experts, rows.n_inputs)
    best = np.inf
    for index in range(2 * n_sweeps):
        began = time.perf_counter()
        state = sweep(rng, "first_events", rows, state, priors)
        if index >= n_sweeps:
            best = min(best, time.perf_counter() - began)
    return float(best)
