"""Whether chains have converged: by ArviZ's own R-hat and effective sizes, and by chains whose answer is known."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from fitted import small
from pbdn.gibbs.convergence import converge, split_r_hat
from pbdn.model.priors import Hyperpriors


@pytest.mark.parametrize("n_chains", [2, 4])
def test_r_hat_is_arvizs(n_chains, rng):
    values = np.cumsum(rng.normal(size=(n_chains, 200)), axis=1) * 0.1 + rng.normal(size=(n_chains, 200))
    expected = array_stats.rhat(values, method="rank", chain_axis=0, draw_axis=1)
    assert split_r_hat(values) == pytest.approx(float(expected), rel=1e-12)
    assert split_r_hat(np.round(values)) == pytest.approx(
        float(array_stats.rhat(np.round(values), method="rank", chain_axis=0, draw_axis=1)), rel=1e-12
    )


def test_one_chain_is_compared_with_itself(rng):
    assert split_r_hat(rng.normal(size=(1, 4000))) < 1.01
    assert split_r_hat(np.r_[rng.normal(size=500), rng.normal(size=500) + 1.0][None]) > 1.1  # level
    assert split_r_hat(np.r_[rng.normal(size=500), 3.0 * rng.normal(size=500)][None]) > 1.1  # spread
    assert split_r_hat(np.r_[np.zeros(10), np.ones(10)][None]) == np.inf  # stuck twice


def test_independent_draws_have_converged(rng):
    one = converge("x", rng.normal(size=(4, 1000)))
    assert not one.fails
    assert one.ess_wanted == 400
    assert 3000 < one.ess_bulk < 5500


def test_constant_quantities_have_converged():
    assert not converge("n_active", np.full((1, 50), 3.0)).fails


def test_drifts_few_draws_and_nan_have_not_converged(rng):
    assert converge("x", np.cumsum(rng.normal(size=(2, 500)), axis=1)).fails
    assert converge("x", rng.normal(size=(1, 5))).fails
    assert converge("x", np.array([[1.0, np.nan] * 50])).fails
    assert converge("x", rng.normal(size=(1, 60))).fails  # 60 draws cannot be worth 100


def test_limits_of_thinned_draws_are_met_by_independent_ones(rng):
    alarms = sum(converge("x", rng.normal(size=(1, 100)), thinned=True).fails for _ in range(100))
    assert alarms <= 12  # one in a hundred expected
    values = rng.normal(size=(1, 60))
    assert converge("x", values, thinned=True).ess_wanted == 12
    assert converge("x", np.repeat(values[:, :6], 10, axis=1), thinned=True).fails


@pytest.mark.long
def test_a_long_easy_chain_is_silent():
    """Labels that are noise, one expert and an informative prior mix well: no warning (it would be an error here)."""
    priors = Hyperpriors(
        mass_shape=20.0, mass_rate=20.0, inv_scale_shape=20.0, inv_scale_rate=20.0, coef_shape=5.0, coef_rate_shape=20.0
    )
    X, y = np.linspace(-2.0, 2.0, 60)[:, None], np.arange(60) % 2
    model = small(max_depth=1, n_sweeps=9000, n_burn_in=1000, n_draws=200, n_paths=1, max_experts=1, priors=priors)
    model.fit(X, y)
    assert len(model.convergence_) == 22
    every_sweep = [one for one in model.convergence_ if "anchor" not in one["quantity"]]
    assert max(one["r_hat"] for one in every_sweep) <= 1.01
    assert min(one["ess_bulk"] for one in every_sweep) >= 100
