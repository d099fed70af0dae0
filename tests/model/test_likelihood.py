"""The likelihood, the priors and the curve of a network."""

from dataclasses import asdict, fields

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse as sp

from networks import random_curve, random_network, random_ramps
from pbdn.errors import InvalidInputError
from pbdn.model.likelihood import (
    average_answer,
    expert_rates,
    log_likelihood,
    log_probability,
    probability,
    rate,
    signed_distances,
    softplus,
)
from pbdn.model.priors import GIBBS_PRIORS, MAP_PRIORS, MAP_PRIORS_OF_MANY_SIDES, PAPER_PRIORS, Hyperpriors
from pbdn.model.scaling import Scaling, standard_scaling
from pbdn.model.wiring import Curve, curve_of, ramps_of

RATES = np.concatenate([np.geomspace(1e-300, 1e300, 121), [0.69, 0.6931471805599453, 0.694, 1.0, 36.0, 40.0, 745.0]])
NAMES = [field.name for field in fields(Hyperpriors)]
DEFAULTS = {"gibbs": GIBBS_PRIORS, "map": MAP_PRIORS, "map of many sides": MAP_PRIORS_OF_MANY_SIDES}
N_FEATURES = 5
EXPERTS = ((2, 3), (1, 2), (4, 1))  # per layer, per side


# The likelihood and the priors.


# Rates, probabilities and log-likelihoods from λ = 1e-300 to 1e300, and the polytope of Theorem 1.


def test_probability_and_its_logarithm():
    """To a few units in the last place of mpmath, without a warning."""
    with mp.workdps(400):
        for lam, p, log_p in zip(RATES, probability(RATES), log_probability(RATES), strict=True):
            exact = -mp.expm1(-mp.mpf(lam)) if lam < 1e3 else mp.mpf(1)
            exact_log = mp.log(exact) if lam < 800 else mp.mpf(0)
            assert abs(p - float(exact)) <= 4e-16 * float(exact)
            assert abs(log_p - float(exact_log)) <= 4e-16 * max(abs(float(exact_log)), 1e-300) or lam > 700
    assert (probability(RATES) > 0).all()
    assert (probability(RATES) <= 1).all()


def test_average_of_answers():
    """The rate of the average answer, to a few units in the last place of mpmath; of equal answers it is theirs."""
    of_three = np.stack([RATES, RATES[::-1], np.roll(RATES, 7)])
    with mp.workdps(700):
        for lams, found in zip(of_three.T, average_answer(of_three), strict=True):
            no = sum(mp.exp(-mp.mpf(lam)) if lam < 1e4 else mp.mpf(0) for lam in lams) / 3
            exact = -mp.log(no) if no else None
            assert exact is None or abs(found - float(exact)) <= 8e-16 * float(exact)
    np.testing.assert_array_equal(average_answer(np.stack([RATES] * 3)), RATES)


def test_log_likelihood_extremes():
    ones, zeros = np.ones(RATES.shape, bool), np.zeros(RATES.shape, bool)
    assert np.isfinite(log_likelihood(RATES, ones)).all()
    assert np.array_equal(log_likelihood(RATES, zeros), -RATES)
    assert np.isneginf(log_probability(np.array([0.0])))
    assert np.isclose(log_likelihood(np.array([1e-300]), np.array([True]))[0], np.log(1e-300))


@pytest.mark.parametrize("psi", [-745.0, -700.0, -37.0, -1e-10, 0.0, 1e-10, 37.0, 700.0, 1e300])
def test_softplus(psi):
    with mp.workdps(60):
        exact = float(mp.log1p(mp.exp(mp.mpf(psi)))) if psi < 1e4 else psi
    assert np.isclose(softplus(np.array(psi)), exact, rtol=4e-16, atol=0)


def test_softplus_of_large_arrays(rng):
    """A compiled pass, of any order in memory and any size, leaves its numbers alone and agrees with the one for few."""
    psi = rng.normal(size=(401, 301)) * 10.0 ** rng.integers(-3, 3, size=(401, 1))
    psi[0, :3] = np.inf, -np.inf, -720.0
    expected = np.logaddexp(0.0, psi)
    for numbers in (psi, np.asfortranarray(psi), psi[:, ::2]):
        before = numbers.copy()
        few = expected[:, ::2] if numbers.shape != psi.shape else expected
        np.testing.assert_allclose(softplus(numbers), few, rtol=1e-15, atol=1e-303)
        np.testing.assert_array_equal(numbers, before)


def test_rates_are_sums_of_expert_rates(rng):
    planes, weights, x = rng.standard_normal((3, 5)), rng.gamma(1.0, size=3), rng.standard_normal((7, 4))
    direct = np.array(
        [sum(r * np.log1p(np.exp(b[0] + row @ b[1:])) for r, b in zip(weights, planes, strict=True)) for row in x]
    )
    assert np.allclose(rate(planes, weights, x), direct, rtol=1e-13)
    assert np.allclose(expert_rates(planes, weights, x).sum(1), direct, rtol=1e-13)
    assert np.allclose(signed_distances(planes, sp.csr_array(x)), signed_distances(planes, x), rtol=1e-13)


@settings(max_examples=300, deadline=None)
@given(
    planes=st.lists(st.tuples(*[st.floats(-5, 5)] * 3), min_size=1, max_size=6),
    log_weights=st.lists(st.floats(-8, 3), min_size=6, max_size=6),
    point=st.tuples(st.floats(-5, 5), st.floats(-5, 5)),
    slack=st.floats(1e-9, 0.5),
)
def test_theorem_1(planes, log_weights, point, slack):
    """P(y=1|x) ≤ p₀ implies x'β_k ≤ ln((1 - p₀)^{-1/r_k} - 1) for every k: the set lies in a convex polytope."""
    planes, x = np.array(planes), np.array([point])
    weights = np.exp(np.array(log_weights[: len(planes)]))
    lam = rate(planes, weights, x)[0]
    bound_rate = lam * (1 + slack)  # -ln(1 - p₀) for some p₀ ≥ P(y=1|x)
    psi = signed_distances(planes, x)[0]
    with np.errstate(over="ignore"):
        bounds = np.where(bound_rate / weights > 30, bound_rate / weights, np.log(np.expm1(bound_rate / weights)))
    assert (psi <= bounds + 1e-7 * (1 + np.abs(bounds))).all()


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    share=st.floats(0, 1),
)
def test_low_probability_regions_are_convex(seed, share):
    """λ is convex in x, so {x: P(y=1|x) ≤ p₀} is convex."""
    rng = np.random.default_rng(seed)
    planes, weights = 3 * rng.standard_normal((4, 3)), rng.gamma(0.5, size=4)
    a, b = 3 * rng.standard_normal((2, 1, 2))
    ends = max(rate(planes, weights, a)[0], rate(planes, weights, b)[0])
    assert rate(planes, weights, share * a + (1 - share) * b)[0] <= ends * (1 + 1e-12)


# One prior object for both engines: a field that is set replaces the default of that field alone.


@pytest.mark.parametrize("defaults", DEFAULTS.values(), ids=DEFAULTS)
@pytest.mark.parametrize("name", NAMES)
def test_setting_one_field_changes_that_one_alone(name, defaults):
    filled = Hyperpriors(**{name: 7.25}).over(defaults)
    assert asdict(filled) == asdict(defaults) | {name: 7.25}


@pytest.mark.parametrize("defaults", DEFAULTS.values(), ids=DEFAULTS)
def test_nothing_set_is_the_default_and_everything_set_is_itself(defaults):
    assert Hyperpriors().over(defaults) == defaults
    assert PAPER_PRIORS.over(defaults) == PAPER_PRIORS


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 0.0])
def test_values_that_no_law_has_are_named(name, value):
    if name == "precision_floor" and value == 0.0:
        assert Hyperpriors(precision_floor=value).precision_floor == 0.0
        return
    with pytest.raises(InvalidInputError, match=f"{name}={value!r} must be a finite number"):
        Hyperpriors(**{name: value})


def test_zero_counts_as_set():
    assert Hyperpriors(precision_floor=0.0).over(Hyperpriors(precision_floor=1e-3)).precision_floor == 0.0


@pytest.mark.parametrize("priors", [*DEFAULTS.values(), PAPER_PRIORS], ids=[*DEFAULTS, "paper"])
def test_defaults_leave_no_field_open(priors):
    assert all(isinstance(value, float) for value in asdict(priors).values())


def test_values_of_the_paper_and_where_the_defaults_differ():
    assert Hyperpriors(0.01, 0.01, 1.0, 1.0, 1e-6, 1.0, 1.0, 0.0) == PAPER_PRIORS
    changed = {name for name in NAMES if getattr(GIBBS_PRIORS, name) != getattr(PAPER_PRIORS, name)}
    assert changed == {"mass_shape", "mass_rate", "coef_shape"}
    changed = {name for name in NAMES if getattr(MAP_PRIORS, name) != getattr(MAP_PRIORS_OF_MANY_SIDES, name)}
    assert changed == {"coef_shape", "coef_rate_shape"}


# Curved first layers: squares or ramps beside the features, folded scaling, limits.


def curved(rng, depth=2, make=random_curve, **options):
    curve = make(rng, N_FEATURES, 3)
    return random_network(rng, EXPERTS[:depth], N_FEATURES, curve=curve, total_spread=1.0, **options)


def some_zero(rng, shape):
    return rng.normal(size=shape) * (rng.random(shape) < 0.4)


def test_squares_stand_after_the_features(rng):
    curve = Curve(np.array([0, 3]), np.array([1.0, -2.0]), np.array([2.0, 1.0]))
    x = rng.normal(size=(6, 4))
    assert curve.n_bent == 2
    np.testing.assert_array_equal(
        curve.expand(x), np.column_stack([x, ((x[:, 0] - 1.0) / 2.0) ** 2, (x[:, 3] + 2.0) ** 2])
    )


def test_ramps_stand_after_the_features(rng):
    curve = Curve(np.array([0, 3, 3]), np.array([1.0, -2.0, 0.5]), np.array([2.0, 2.5, 1.0]), ramps=True)
    x = np.array([[0.9, 0.0, 0.0, -3.0], [2.0, 0.0, 0.0, -2.0], [3.0, 0.0, 0.0, 0.5], [9.0, 0.0, 0.0, 1.0]])
    bent = [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.5]]
    np.testing.assert_array_equal(curve.expand(x), np.column_stack([x, bent]))
    assert curve.without(np.array([3])).columns.tolist() == [0]
    assert curve.without(np.array([0, 3])) is None


def test_ramps_lead_from_quantile_to_quantile(rng):
    x = np.column_stack([rng.normal(size=1001), np.arange(1001) % 2, np.arange(1001) % 4, np.zeros(1001)])
    curve = ramps_of(x, 8)
    assert curve.ramps
    assert curve.columns.tolist() == [0] * 8 + [2] * 3
    np.testing.assert_allclose(curve.centers[:8], np.quantile(x[:, 0], np.arange(8) / 8), rtol=1e-12)
    np.testing.assert_allclose(curve.centers[1:8], (curve.centers + curve.scales)[:7], rtol=1e-12)
    assert (curve.centers[8:].tolist(), curve.scales[8:].tolist()) == ([0.0, 1.0, 2.0], [1.0, 1.0, 1.0])
    at_ends = curve.bend(np.repeat(np.append(curve.centers[:8], x[:, 0].max())[:, None], 11, axis=1))
    np.testing.assert_allclose(at_ends[:, :8].sum(axis=1), np.arange(9), atol=1e-12)
    assert ramps_of(x[:, [1, 3]], 8) is None


def test_zeros_of_sparse_features_stay_zero(rng):
    x = some_zero(rng, (50, 4))
    curve = Curve(np.array([1, 2]), np.zeros(2), np.array([0.3, 7.0]))
    expanded = curve.expand(sp.csr_array(x))
    assert expanded.format == "csr"
    assert expanded.nnz == np.count_nonzero(x) + np.count_nonzero(x[:, 1:3])
    np.testing.assert_array_equal(expanded.toarray(), curve.expand(x))


@pytest.mark.parametrize("make", [random_curve, random_ramps])
def test_sparse_rows_are_bent_around_the_centres_of_dense_ones(rng, make):
    x, net = some_zero(rng, (20, N_FEATURES)), curved(rng, make=make)
    np.testing.assert_allclose(net.expand(sp.csr_array(x)).toarray(), net.expand(x), rtol=1e-15)
    np.testing.assert_allclose(net.predict(sp.csr_array(x)), net.predict(x), rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_features_of_two_values_have_no_square(rng, form):
    x = np.column_stack(
        [
            rng.normal(size=30),
            np.arange(30) % 2,
            np.full(30, 3.0),
            np.arange(30) % 3,
            np.zeros(30),
            -(np.arange(30) % 2),
        ]
    )
    curve = curve_of(form(x))
    assert curve.columns.tolist() == [0, 3]
    assert curve.columns.dtype == np.int64
    assert not curve.centers.any()
    assert np.all(curve.scales == 1.0)
    assert curve_of(form(x[:, [1, 2, 4]])) is None


def test_a_flat_network_expands_nothing(rng):
    net, x = random_network(rng), rng.normal(size=(3, 4))
    assert net.expand(x) is x
    assert net.n_expanded == net.n_features


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_curved_network_sees_the_squares(rng, depth):
    net, x = curved(rng, depth), rng.normal(size=(6, N_FEATURES))
    expanded = np.column_stack([x, ((x[:, net.curve.columns] - net.curve.centers) / net.curve.scales) ** 2])
    assert net.n_expanded == expanded.shape[1] == N_FEATURES + 3
    seen = [expanded]
    for layer in net.layers:
        inputs = np.concatenate(seen[-2:], axis=1)
        seen.append(
            np.concatenate(
                [np.log1p(np.exp(inputs @ s.hyperplanes[:, 1:].T + s.hyperplanes[:, 0])) for s in layer.sides], axis=1
            )
        )
    split = net.top.n_experts[0]
    rates = [
        seen[-1][:, :split] @ net.top.sides[0].expert_weights,
        seen[-1][:, split:] @ net.top.sides[1].expert_weights,
    ]
    np.testing.assert_allclose(net.side_probability(x), 1.0 - np.exp(-np.column_stack(rates)), rtol=1e-11)


@pytest.mark.parametrize("make", [random_curve, random_ramps])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scaling_is_folded_into_features_squares_and_centres(rng, depth, make):
    net = curved(rng, depth, make, n_draws=2)
    scaling = Scaling(rng.normal(size=N_FEATURES), rng.gamma(2.0, size=N_FEATURES), quantum=0.0)
    x = scaling.center + scaling.scale * rng.normal(size=(20, N_FEATURES))
    folded = scaling.fold(net)
    np.testing.assert_allclose(folded.predict(x), net.predict(scaling.apply(x)), rtol=1e-10)
    np.testing.assert_allclose(folded.predict_draws(x), net.predict_draws(scaling.apply(x)), rtol=1e-10)
    back = scaling.unfold(folded)
    np.testing.assert_allclose(back.curve.centers, net.curve.centers, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(back.curve.scales, net.curve.scales, rtol=1e-12)
    for ours, theirs in zip(back.layers, net.layers, strict=True):
        for a, b in zip(ours.sides, theirs.sides, strict=True):
            np.testing.assert_allclose(a.hyperplanes, b.hyperplanes, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("make", [random_curve, random_ramps])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scaling_of_the_squares_is_folded_too(rng, depth, make):
    """Training sees standardised squares or ramps; the network bends by itself."""
    net, x = curved(rng, depth, make), rng.normal(size=(20, N_FEATURES))
    squares = net.expand(x)[:, N_FEATURES:]
    scaling = standard_scaling(squares)
    on_scaled = random_network(rng, EXPERTS[:depth], net.n_expanded, total_spread=1.0)
    folded = scaling.fold_bent(type(net)(on_scaled.layers, N_FEATURES, net.response, net.curve))
    given = np.column_stack([x, (squares - scaling.center) / scaling.scale])
    np.testing.assert_allclose(folded.predict(x), on_scaled.predict(given), rtol=1e-10)


def test_features_within_their_limits_do_not_overflow(rng):
    net = curved(rng, 3, n_draws=2)
    limits = net.feature_limits
    assert limits.shape == (N_FEATURES,)
    flat = np.delete(np.arange(N_FEATURES), net.curve.columns)
    assert np.all(limits[net.curve.columns] < 1e101)
    assert np.all(limits[flat] > 1e190)
    assert np.all(curved(rng, 3, random_ramps).feature_limits > 1e190)
    with np.errstate(over="raise", invalid="raise"):
        assert np.isfinite(net.predict(np.vstack([limits, -limits]))).all()
        assert np.isfinite(net.predict_draws(np.vstack([limits, -limits]))).all()


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e300])
def test_any_unit_of_measurement(rng, unit):
    """The square of the unit is not a double; nothing is lost, nothing overflows."""
    net, x = curved(rng, 2), rng.normal(size=(20, N_FEATURES))
    scaling = Scaling(np.zeros(N_FEATURES), np.full(N_FEATURES, unit), quantum=0.0)
    with np.errstate(over="raise", invalid="raise"):
        folded = scaling.fold(net)
        np.testing.assert_allclose(folded.predict(unit * x), net.predict(x), rtol=1e-10)
        assert np.all(folded.feature_limits > 1e6 * unit)
        assert np.isfinite(scaling.unfold(folded).predict(x)).all()
