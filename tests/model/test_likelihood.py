"""The likelihood and the priors."""

from dataclasses import asdict, fields

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse as sp

from pbdn.errors import InvalidInputError
from pbdn.model.likelihood import (
    expert_rates,
    log_likelihood,
    log_probability,
    probability,
    rate,
    signed_distances,
    softplus,
)
from pbdn.model.priors import GIBBS_PRIORS, MAP_PRIORS, MAP_PRIORS_OF_MANY_SIDES, PAPER_PRIORS, Hyperpriors

RATES = np.concatenate([np.geomspace(1e-300, 1e300, 121), [0.69, 0.6931471805599453, 0.694, 1.0, 36.0, 40.0, 745.0]])
NAMES = [field.name for field in fields(Hyperpriors)]
DEFAULTS = {"gibbs": GIBBS_PRIORS, "map": MAP_PRIORS, "map of many sides": MAP_PRIORS_OF_MANY_SIDES}


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
