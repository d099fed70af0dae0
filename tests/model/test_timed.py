"""Values on a line: the predicted distributions keep the laws of distributions, and files keep them."""

import numpy as np
import pytest
from scipy.stats import kstest, logistic

from checks import ALPHA
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.files.network import network_from_arrays, network_to_arrays
from pbdn.model.committee import committee
from pbdn.model.distribution import Distribution
from pbdn.model.labelling import far_values
from pbdn.model.network import Layer, Network, Side
from pbdn.model.timed import OnALine, side_arrays

N_ROWS = 7


def random_network(rng, response, depth=1, n_features=3):
    def side(n_inputs, k):
        return Side(0.7 * rng.normal(size=(k, n_inputs + 1)), rng.gamma(2.0, size=k), 0.5 + rng.gamma(2.0, size=k))

    layers, n_inputs = [], n_features
    for _ in range(depth):
        layers.append(Layer((side(n_inputs, 3), side(n_inputs, 2))))
        n_inputs = n_features + 5
    return Network(tuple(layers), n_features, response)


def distribution(network, X):
    return Distribution(side_arrays(network.top, network.top_inputs(X)), network.response)


@pytest.fixture(params=[False, True], ids=["values", "logarithms"])
def case(request, rng):
    network = random_network(rng, OnALine(2.0, 0.5, request.param))
    return distribution(network, rng.normal(size=(N_ROWS, 3)))


def test_one_expert_of_weight_one_is_logistic_noise(rng):
    """P(Y > y) = 1/(1 + e^{ψ + τ y}): the first side and its mirror are the same distribution."""
    planes, times = np.array([[0.3, -1.0]]), np.array([2.0])
    sides = (Side(planes, np.ones(1), times), Side(-planes, np.ones(1), times))
    X = rng.normal(size=(N_ROWS, 1))
    found = distribution(Network((Layer(sides),), 1, OnALine()), X)
    exact = logistic(loc=-(0.3 - X[:, 0]) / 2.0, scale=0.5)
    y = rng.normal(size=(4, N_ROWS))
    for name in ("cdf", "sf", "pdf", "logpdf"):
        np.testing.assert_allclose(getattr(found, name)(y), getattr(exact, name)(y), rtol=1e-12)
    np.testing.assert_allclose(found.ppf(0.2), exact.ppf(0.2), rtol=1e-11)
    np.testing.assert_allclose(found.mean(), exact.mean(), atol=1e-6)
    np.testing.assert_allclose(found.std(), exact.std(), rtol=2e-3)  # without what lies beyond the ends


def test_quantiles_and_probabilities_agree(case):
    levels = np.array([1e-8, 0.01, 0.3, 0.5, 0.9, 1 - 1e-8])[:, None]
    y = case.ppf(levels)
    assert y.shape == (6, N_ROWS)
    assert (np.diff(y, axis=0) > 0).all()
    np.testing.assert_allclose(case.cdf(y), np.broadcast_to(levels, y.shape), rtol=1e-6)
    np.testing.assert_allclose(case.cdf(y) + case.sf(y), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(case.median(), y[3])
    np.testing.assert_allclose(case.interval(0.98)[:, 0], case.ppf(0.01), rtol=1e-10)
    assert np.isposinf(case.ppf(1.0)).all()


@pytest.mark.parametrize("steepness", [1.0, 30.0, 1e4])
@pytest.mark.parametrize("bias", [-1.0, 1.0])
def test_the_median_lies_where_both_sides_have_the_same_rate(bias, steepness):
    """Far around it no value is probable, or rates are next to nothing: s(b + τ u) = s(2b - 2τ u) at u = b / 3τ."""
    first, second = (Side(np.array([[bias * t, 0.0]]), np.ones(1), np.array([t])) for t in (steepness, 2.0 * steepness))
    network = Network((Layer((first, second)),), 1, OnALine())
    sides = side_arrays(network.top, np.zeros((1, 1)))
    twice = tuple(
        one._replace(
            distances=np.tile(one.distances, 2),
            weights=np.tile(one.weights, 2),
            time_coefs=np.tile(one.time_coefs, 2),
            starts=np.array([0, 1, 2]),
        )
        for one in sides
    )
    for arrays in (sides, twice):
        np.testing.assert_allclose(Distribution(arrays, OnALine()).median(), bias / 3.0, rtol=1e-9)


def test_density_is_the_slope_of_the_distribution(case):
    y, step = case.ppf(np.array([[0.1], [0.6]])), 1e-6
    slope = (case.cdf(y + step) - case.cdf(y - step)) / (2 * step)
    np.testing.assert_allclose(case.pdf(y), slope, rtol=1e-6)
    np.testing.assert_allclose(np.exp(case.logpdf(y)), case.pdf(y), rtol=1e-12)


def test_bounds_have_the_probability_between_them(case):
    low, high = case.ppf(0.2), case.ppf(0.7)
    inf = np.full(N_ROWS, np.inf)
    for bounds, expected in (((low, high), 0.5), ((low, inf), 0.8), ((-inf, high), 0.7)):
        np.testing.assert_allclose(np.exp(case.log_likelihood(np.column_stack(bounds))), expected, rtol=1e-9)


def test_a_limit_divides_by_the_probability_beyond_it(case):
    """Of bounds, of densities, and of rows without a limit among others; the density given the limit integrates to one."""
    low, high, limit = case.ppf(0.4), case.ppf(0.7), case.ppf(0.2)
    bounds = np.column_stack([low, high, limit])
    np.testing.assert_allclose(np.exp(case.log_likelihood(bounds)), 0.3 / 0.8, rtol=1e-9)
    exact = np.column_stack([high, high, np.where(np.arange(N_ROWS) < 3, limit, -np.inf)])
    expected = case.logpdf(high) - np.where(np.arange(N_ROWS) < 3, np.log(0.8), 0.0)
    np.testing.assert_allclose(case.log_likelihood(exact), expected, rtol=1e-9)
    y = case.ppf(np.linspace(0.2, 1.0 - 1e-6, 4001)[:, None])
    whole = [case.log_likelihood(np.column_stack([one, one, limit])) for one in y]
    np.testing.assert_allclose(np.trapezoid(np.exp(whole), y, axis=0), 1.0, atol=2e-3)


def test_moments_and_scores_are_integrals(case):
    """Against averages over evenly spread quantiles."""
    y = case.ppf(((np.arange(20_000) + 0.5) / 20_000)[:, None])
    np.testing.assert_allclose(case.mean(), y.mean(axis=0), rtol=2e-3)
    at = case.ppf(0.8)
    crps = np.abs(y - at).mean(axis=0) - 0.5 * np.abs(y - y[np.random.default_rng(0).permutation(20_000)]).mean(axis=0)
    np.testing.assert_allclose(case.crps(at), crps, rtol=0.05)


@pytest.mark.parametrize("y", [0.0, -3.0])
def test_values_that_have_no_logarithm_are_scored(rng, y):
    """No row can have them: their density is zero, and they are far from what comes by as much as anything else."""
    case = distribution(random_network(rng, OnALine(2.0, 0.5, log=True)), rng.normal(size=(N_ROWS, 3)))
    at = np.full(N_ROWS, y)
    np.testing.assert_array_equal(case.logpdf(at), -np.inf)
    np.testing.assert_array_equal(case.pdf(at), 0.0)
    np.testing.assert_array_equal(case.log_likelihood(np.column_stack([at - 1.0, at])), -np.inf)
    some = case.ppf(((np.arange(1000) + 0.5) / 1000)[:, None])
    between = np.abs(some[:, None] - some[None]).mean(axis=(0, 1))
    np.testing.assert_allclose(case.crps(at), case.mean() - y - 0.5 * between, rtol=0.02)
    np.testing.assert_allclose(case.mean_above(at), case.mean() - y, rtol=1e-3)


def test_samples_have_the_distribution(case):
    sample = case.sample(2000, random_state=1)
    assert kstest(case.cdf(sample)[:, 0], "uniform").pvalue > ALPHA


def test_rows_are_taken(case):
    np.testing.assert_array_equal(case[2:4].mean(), case.mean()[2:4])
    np.testing.assert_array_equal(case[0].median(), case.median()[:1])
    assert len(case) == N_ROWS


def test_shapes_that_do_not_fit_are_told(case):
    with pytest.raises(InvalidInputError, match="one value per row"):
        case.cdf(np.zeros(3))
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        case.ppf(1.5)
    with pytest.raises(InvalidInputError, match="coverage"):
        case.interval(1.0)


def test_a_committee_averages_the_rates_of_members_with_other_time_coefficients(rng):
    response = OnALine()
    members = [random_network(rng, response, depth=2) for _ in range(3)]
    one = committee(members)
    X, u = rng.normal(size=(N_ROWS, 3)), rng.normal(size=N_ROWS)

    def rate(network, s):
        return network.top.sides[s].units(network.top_inputs(X), u[:, None]) @ network.top.sides[s].expert_weights

    for s in range(2):
        np.testing.assert_allclose(rate(one, s), np.mean([rate(m, s) for m in members], axis=0), rtol=1e-12)
    np.testing.assert_allclose(one.predict_members(X), [m.predict(X) for m in members], rtol=1e-9)


def test_a_file_keeps_every_number(rng):
    network = random_network(rng, OnALine(3.0, 0.25, True, (0.5, 1.5)), depth=2)
    header, arrays = network_to_arrays(network)
    again = network_from_arrays(header, arrays)
    assert again.response == network.response
    X = rng.normal(size=(N_ROWS, 3))
    np.testing.assert_array_equal(again.predict(X), network.predict(X))
    for damage in (
        {"line": None},
        {"line": header["line"] | {"scale": -1.0}},
        {"response": "two_classes", "n_outputs": 2},
    ):
        with pytest.raises(FileFormatError):
            network_from_arrays(header | damage, arrays)
    bad = arrays | {"network.0.time_coefs": -arrays["network.0.time_coefs"]}
    with pytest.raises(FileFormatError, match="time coefficients"):
        network_from_arrays(header, bad)


def test_values_far_from_all_others(rng):
    y = rng.normal(size=400)
    y[:3] = 1e6, -1e6, 80.0
    np.testing.assert_array_equal(np.flatnonzero(far_values(y, None)), [0, 1, 2])
    np.testing.assert_array_equal(np.flatnonzero(far_values(np.abs(y), None)), [0, 1])  # 80 may be a tail
    often = np.where((np.arange(400) >= 3) & (np.arange(400) < 60), 2.0, 1.0)
    twice = np.concatenate([y, y[3:60]])
    np.testing.assert_array_equal(far_values(twice, None)[:400], far_values(y, often))
    few = np.where(np.arange(40) < 2, 1e6, y[40:80])
    assert not far_values(few, None).any()
    np.testing.assert_array_equal(np.flatnonzero(far_values(few[1:], None)), [0])  # one may always be
    assert not far_values(few[1:], np.where(np.arange(39) < 1, 2.0, 1.0)).any()
    assert not far_values(np.exp(4.0 * rng.normal(size=400)), None).any()  # a long tail
    assert not far_values(np.where(np.arange(400) < 390, y, 1e6), None).any()  # too many for mistakes
    assert not far_values(np.where(np.arange(400) < 398, 0.0, 1e6), None).any()  # half are the same
