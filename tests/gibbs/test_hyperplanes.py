"""The conditionals of α and b against their closed forms, and the floor of precisions."""

import numpy as np
from numba import njit

from checks import assert_gamma
from draws import vector_draws
from pbdn.gibbs import hyperplanes
from pbdn.gibbs.kernel_arguments import Statistics
from pbdn.gibbs.state import prior_values
from pbdn.model.priors import Hyperpriors
from pbdn.variates.random_stream import SweepStreams, stream_buffer

N = 100_000


@njit
def one_coef_rate(stream, precision, coef_shape, shape, rate):
    return np.array([hyperplanes.draw_coef_rate(stream, precision, coef_shape, shape, rate)])


def test_precisions(seed):
    """α_v ~ Gamma(a_β + ½, b + β_v² / 2)."""
    beta = np.array([0.0, 1e-3, 2.0, -30.0])
    x = vector_draws(hyperplanes.draw_precisions, seed, N, 4, beta, 0.8, 1.5)
    for v in range(4):
        assert_gamma(x[:, v], 2.0, 0.8 + beta[v] ** 2 / 2)


def test_coef_rate(seed):
    """b ~ Gamma(e₀ + a_β D, f₀ + Σ α)."""
    precision = np.array([0.1, 2.0, 30.0])
    x = vector_draws(one_coef_rate, seed, N, 1, precision, 0.4, 1.1, 0.6)[:, 0]
    assert_gamma(x, 1.1 + 1.2, 0.6 + precision.sum())


def test_precision_floor_enters_the_draw_of_hyperplanes_only(rng):
    """The floor bounds what the Gaussian sees; zero is the model."""
    gram, moment = np.zeros((1, 3, 1)), np.zeros((1, 2, 1))
    tiny = np.full((1, 2), 1e-12)
    spread = []
    for floor in (0.0, 1e-3):
        priors = prior_values(Hyperpriors(precision_floor=floor))
        buffer = stream_buffer()
        planes = [
            hyperplanes.draw_experts(
                Statistics(gram, moment, 1), tiny, np.ones(1), priors, SweepStreams(buffer, np.uint64(1), index)
            )[0]
            for index in range(400)
        ]
        spread.append(np.std(planes))
    assert spread[0] > 1e5
    assert 25 < spread[1] < 40
