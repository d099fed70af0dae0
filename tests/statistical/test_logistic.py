"""One expert of weight one is Bayesian logistic regression: posterior mean and covariance against quadrature."""

import numpy as np
import pytest

from checks import Z_MAX
from pbdn.gibbs.event_times import draw_events
from pbdn.gibbs.gaussian import draw_gaussian
from pbdn.gibbs.kernel_arguments import Blocks, BlockSums, Experts, Statistics
from pbdn.gibbs.polya_gamma_weights import sum_statistics
from pbdn.gibbs.rows import make_rows
from pbdn.variates.random_stream import HYPERPLANES, SweepStreams, open_stream, stream_buffer, stream_key

PRECISION = np.array([0.5, 1.0])


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
    check(rng, seed, first_only, 60_000, merge)


@pytest.mark.statistical
@pytest.mark.parametrize("first_only", [False, True])
def test_logistic_regression_in_a_long_run(rng, seed, first_only):
    check(rng, seed, first_only, 2_000_000, False)
