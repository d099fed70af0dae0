"""Long statistical evidence: simulation-based calibration, and a limit that is logistic regression."""

import numpy as np
import pytest
from scipy import stats

from checks import ALPHA, Z_MAX
from joint import PRIORS
from pbdn.gibbs.event_times import draw_events
from pbdn.gibbs.hyperplanes import draw_gaussian
from pbdn.gibbs.kernel_arguments import Blocks, BlockSums, Experts, Statistics
from pbdn.gibbs.polya_gamma_weights import sum_statistics
from pbdn.gibbs.rows import make_rows
from pbdn.gibbs.state import GlobalState, prior_values
from pbdn.gibbs.sweep import Workers, initial_latent, single_blas_thread, sweep
from pbdn.model.priors import simulate_parameters, simulate_rate, simulate_target
from pbdn.variates.random_stream import HYPERPLANES, SweepStreams, open_stream, stream_buffer, stream_key

N_ROWS, N_EXPERTS, N_INPUTS = 12, 3, 3
N_DRAWS, THIN, BURN_IN = 19, 40, 400
NAMES = (
    "mass", "inv_scale", "total_weight", "largest_share", "mean_log_rate", "bias_of_heaviest", "shrinkage",
    "log_likelihood", "held_out_probability", "spread",
)  # fmt: skip
PRECISION = np.array([0.5, 1.0])


# Simulation-based calibration: the rank of the truth among posterior draws is uniform (Talts et al. 2018).


def quantities(weights, planes, mass, inv_scale, coef_rate, x, target, held_out):
    """Label-free quantities of one draw, data-dependent ones among them."""
    rate = np.maximum(simulate_rate(planes, weights, x), 1e-300)
    log_lik = np.where(target, np.log(-np.expm1(-rate)), -rate).sum()
    heaviest = np.argmax(weights)
    return [
        mass,
        inv_scale,
        weights.sum(),
        weights.max() / weights.sum(),
        np.log(rate).mean(),
        planes[heaviest, 0],
        np.log(coef_rate).mean(),
        log_lik,
        -np.expm1(-simulate_rate(planes, weights, held_out)[0]),
        np.abs(planes[:, 1:]).mean(),
    ]


def ranks(rng, seed, sampler, n_sets):
    """Rank of the truth among N_DRAWS thinned draws, for n_sets simulated data sets."""
    x = np.column_stack([np.ones(N_ROWS), rng.standard_normal((N_ROWS, N_INPUTS - 1))])
    held_out = np.array([[1.0, 0.5, -0.5]])
    truths = simulate_parameters(rng, PRIORS, N_EXPERTS, N_INPUTS, n_sets)
    priors, workers, active = prior_values(PRIORS), Workers(), np.ones(N_EXPERTS, bool)
    out = []
    with single_blas_thread():
        for g in range(n_sets):
            truth = {name: value[g] for name, value in truths.items()}
            rate = simulate_rate(truth["hyperplanes"], truth["expert_weights"], x)
            target = simulate_target(rng, rate)
            rows = make_rows(x[:, 1:], target, merge=False)
            start = simulate_parameters(rng, PRIORS, N_EXPERTS, N_INPUTS, 1)  # not the truth
            state = GlobalState(
                start["hyperplanes"][0],
                np.log(np.maximum(start["expert_weights"][0], 1e-300)),
                float(start["mass"][0]),
                float(start["inv_scale"][0]),
                start["coef_precision"][0],
                start["coef_rate"][0],
            )
            latent, key, drawn = initial_latent(sampler, rows, N_EXPERTS), stream_key(seed, g), []
            for index in range(BURN_IN + N_DRAWS * THIN):
                state, latent, _ = sweep(sampler, rows, state, latent, active, priors, key, index, workers)
                if index >= BURN_IN and (index - BURN_IN) % THIN == THIN - 1:
                    weights = np.exp(state.log_weights)
                    drawn.append(
                        quantities(
                            weights,
                            state.hyperplanes,
                            state.mass,
                            state.inv_scale,
                            state.coef_rate,
                            x,
                            target,
                            held_out,
                        )
                    )
            true = quantities(
                truth["expert_weights"],
                truth["hyperplanes"],
                truth["mass"],
                truth["inv_scale"],
                truth["coef_rate"],
                x,
                target,
                held_out,
            )
            out.append((np.array(drawn) < np.array(true)).sum(0))
    return np.array(out)


def assert_uniform(rank, n_bins):
    """Chi-squared over equal bins of the N_DRAWS + 1 ranks, and the mean, at the suite's rate per quantity."""
    assert rank.shape[1] == len(NAMES) >= 8
    for name, values in zip(NAMES, rank.T, strict=True):
        counts = np.histogram(values, bins=n_bins, range=(-0.5, N_DRAWS + 0.5))[0]
        p_value = stats.chisquare(counts).pvalue
        assert p_value > ALPHA, f"{name}: {counts.tolist()}"
        z = (values.mean() - N_DRAWS / 2) / np.sqrt(((N_DRAWS + 1) ** 2 - 1) / 12 / len(values))
        assert abs(z) < stats.norm.isf(ALPHA / 2), f"{name}: z = {z:.1f}"


def test_calibration_in_brief(rng, seed):
    assert_uniform(ranks(rng, seed, "first_events", 20), 4)


@pytest.mark.statistical
@pytest.mark.parametrize("sampler", ["first_events", "event_times", "counts"])
def test_calibration(rng, seed, sampler):
    assert_uniform(ranks(rng, seed, sampler, 200), 10)


# One expert of weight one is Bayesian logistic regression: posterior mean and covariance against quadrature.


def quadrature(x, target):
    """Mean and covariance of p(β) ∝ N(0, diag(α)⁻¹) ∏ σ(±x'β) on a grid."""
    axis = np.linspace(-9, 9, 721)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    log_p = -0.5 * grid**2 @ PRECISION
    for row, y in zip(x, target, strict=True):
        log_p -= np.logaddexp(0, -(grid @ row) if y else grid @ row)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ grid
    centred = grid - mean
    return mean, (p[:, None] * centred).T @ centred


def sampled(rows, first_only, seed, n_sweeps):
    """β along a chain made of the library's own conditionals, with ln r fixed at 0 and α fixed."""
    log_weights, weights, active = np.zeros(1), np.ones(1), np.ones(1, bool)
    key, planes = stream_key(seed), np.zeros((1, 2))
    watched = np.empty(rows.n_rows)
    sums = BlockSums(np.empty((1, 1)), np.empty((1, 1)), np.empty(1))
    out = np.empty((n_sweeps, 2))
    buffer = stream_buffer()
    for index in range(n_sweeps):
        streams, blocks = SweepStreams(buffer, key, index), Blocks(0, 1)
        experts = Experts(planes, log_weights, active)
        events = draw_events(first_only, rows.arrays, experts, streams, blocks, watched, sums)
        gram, moment = np.zeros((1, 3, 1)), np.zeros((1, 2, 1))
        statistics = Statistics(gram, moment, 1)
        sum_statistics(rows.arrays, watched, planes, weights, None, events, streams, blocks, statistics)
        stream = open_stream(buffer, key, index, 0, HYPERPLANES)
        planes, rescues = draw_gaussian(stream, gram[0, :, 0].copy(), moment[0, :, 0].copy(), PRECISION)
        planes = planes[None]
        assert rescues == 0
        out[index] = planes[0]
    return out


def check(rng, seed, first_only, n_sweeps, merge):
    feature = np.round(rng.standard_normal((16, 1)), 0 if merge else 8)
    target = rng.random(16) < 1 / (1 + np.exp(-0.5 - 1.5 * feature[:, 0]))
    mean, covariance = quadrature(np.column_stack([np.ones(16), feature[:, 0]]), target)
    rows = make_rows(feature, target, merge=merge)
    assert (rows.n_rows < 16) == merge
    beta = sampled(rows, first_only, seed, n_sweeps + 200)[200:]
    centred = beta - mean
    second = np.stack([centred[:, 0] ** 2, centred[:, 0] * centred[:, 1], centred[:, 1] ** 2], axis=1)
    for values, expected in ((beta, mean), (second, covariance[[0, 0, 1], [0, 1, 1]])):
        batches = values.reshape(50, -1, values.shape[1]).mean(1)
        z = (batches.mean(0) - expected) / (batches.std(0, ddof=1) / np.sqrt(50))
        assert np.abs(z).max() < 1.3 * Z_MAX, z  # t law of 50 batches


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("first_only", [False, True])
def test_logistic_regression(rng, seed, first_only, merge):
    check(rng, seed, first_only, 10_000, merge)


@pytest.mark.statistical
@pytest.mark.parametrize("first_only", [False, True])
def test_logistic_regression_in_a_long_run(rng, seed, first_only):
    check(rng, seed, first_only, 600_000, False)
