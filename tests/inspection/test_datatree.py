"""Posterior draws: the DataTree, and information criteria."""

import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from fitted import blobs, fitted, lone_side, optimised, sampled, small
from pbdn import PBDNCountRegressor, PBDNOrdinalClassifier, PBDNRegressor
from pbdn.errors import InvalidInputError
from pbdn.inspection.access import input_names
from pbdn.inspection.quality import pointwise_log_likelihood, psis_loo, waic
from pbdn.inspection.subtypes import inputs_of_layer

# Posterior draws in the ArviZ schema.


pytest.importorskip("xarray", reason="xarray is not installed: pip install 'pbdn[posterior]'")


def test_predictive_mean_is_what_the_network_predicts():
    model, X, y = sampled()
    tree = model.to_datatree(X, y)
    mean = tree["posterior_predictive"]["probability"].mean(("chain", "draw")).to_numpy()
    one_network = copy(model)  # as if its own draws were averaged, not those of further runs
    one_network.config_ = replace(model.config_, gibbs=replace(model.config_.gibbs, prediction="posterior"))
    np.testing.assert_allclose(mean, one_network.predict_proba(X), atol=1e-12)
    assert tree["posterior"].sizes["chain"] == 2
    assert tree["posterior"].sizes["draw"] == 20


def test_log_likelihood_of_a_lone_side_and_of_pooled_ones():
    for build in (lone_side, sampled):
        model, X, y = build()
        tree = model.to_datatree(X, y)
        chosen = tree["posterior_predictive"]["probability"].to_numpy()[:, :, np.arange(len(y)), y]
        np.testing.assert_allclose(np.exp(tree["log_likelihood"]["y"].to_numpy()), chosen, rtol=1e-8, atol=1e-300)


def test_sample_stats_belong_to_the_kept_draws():
    """The traced log-likelihood of a kept sweep is that of the draw kept there."""
    from pbdn.model.likelihood import log_likelihood

    model, X, y = lone_side()
    tree = model.to_datatree()
    stored = tree["sample_stats"]["log_likelihood"].to_numpy()[0, :, 0]
    again = [log_likelihood(draw[0].rate(X), y == 1).sum() for draw in model.network_.top.draws]
    np.testing.assert_allclose(stored, again, rtol=1e-8)
    assert tree["posterior"]["mass"].shape == tree["posterior"]["total_weight"].shape


def test_experts_are_ordered_and_padded():
    model, _, _ = sampled()
    layer = model.to_datatree()["top_layer"]
    weights = layer["weights"].to_numpy()
    counts = model.to_datatree()["posterior"]["n_experts"].to_numpy()
    np.testing.assert_array_equal(np.isfinite(weights).sum(axis=-1), counts)
    filled = np.nan_to_num(weights, nan=0.0)
    assert np.all(np.diff(filled, axis=-1) <= 0)
    names = layer["input"].to_numpy().tolist()
    assert names[0] == "bias"
    assert names[1:] == inputs_of_layer(model.network_, model.classes_, model.depth_, input_names(model))
    assert layer["hyperplanes"].sizes["input"] == len(names) == model.network_.n_inputs[-1]


def test_arviz_reads_it():
    stats = pytest.importorskip("arviz_stats")
    pytest.importorskip("arviz_base", reason="arviz-base is not installed: pip install 'pbdn[posterior]'")
    model, X, y = sampled()
    tree = model.to_datatree(X, y)
    table = stats.summary(tree, var_names=["total_weight", "mass"])
    assert len(table) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws: LOO says so
        loo = stats.loo(tree)
    total = tree["log_likelihood"]["y"].to_numpy()
    assert loo.elpd < np.log(np.exp(total).mean(axis=(0, 1))).sum()


def test_values_at_random_follow_what_draws_say_and_serve_predictive_checks(rng):
    stats = pytest.importorskip("arviz_stats")
    model, X, y = sampled()
    tree = model.to_datatree(X, y)
    told = tree["posterior_predictive"]
    assert set(np.unique(told["y"])) <= {0, 1}
    assert abs(float(told["y"].mean() - told["probability"][..., 1].mean())) < 0.02
    assert np.array_equal(told["y"], model.to_datatree(X)["posterior_predictive"]["y"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws: LOO says so
        pit = stats.loo_pit(tree)["y"].to_numpy()
    assert ((pit >= 0.0) & (pit <= 1.0)).all()
    assert stats.metrics(tree, kind="acc").mean > 0.8
    X = rng.normal(size=(60, 2))
    value = X[:, 0] + 0.3 * rng.normal(size=60)
    counts = np.floor(np.exp(1.0 + value))
    grades = np.digitize(value, [-0.5, 0.5])
    for cls, y in ((PBDNRegressor, value), (PBDNCountRegressor, counts), (PBDNOrdinalClassifier, grades)):
        tree = fitted(small("gibbs", cls, max_depth=1), X, y).to_datatree(X, y)
        drawn = tree["posterior_predictive"]["y"]
        assert drawn.dims == ("chain", "draw", "row")
        assert abs(float(drawn.mean()) - y.mean()) < 0.2 * np.ptp(y)
        assert cls is PBDNRegressor or np.array_equal(drawn, np.abs(np.round(drawn)))
        assert stats.metrics(tree, kind="rmse").mean < y.std()


def test_a_loaded_model_keeps_its_draws(tmp_path):
    model, X, y = sampled()
    model.save(tmp_path / "m.pbdn")
    tree = type(model).load(tmp_path / "m.pbdn").to_datatree(X, y)
    np.testing.assert_array_equal(
        tree["posterior"]["total_weight"].to_numpy(), model.to_datatree()["posterior"]["total_weight"].to_numpy()
    )
    assert "sample_stats" not in tree.children


def test_without_draws_or_with_strange_labels():
    model, X, y = optimised()
    with pytest.raises(InvalidInputError, match="keeps no posterior draws"):
        model.to_datatree(X, y)
    model, X, y = sampled()
    with pytest.raises(InvalidInputError, match="label 7"):
        model.to_datatree(X[:1], [7])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.to_datatree(X, y[:5])


# Information criteria from posterior draws against direct computations.


def test_waic_and_loo_against_direct_computation(rng):
    X, y = blobs(rng)
    model = fitted(small(max_depth=1, n_sweeps=300, n_burn_in=100, n_draws=200), X, y)
    draws = [sides[1] for sides in model.layers_[0].draws]
    log_lik = pointwise_log_likelihood(draws, X, y == 1)
    assert log_lik.shape == (len(draws), len(y))
    p = 1.0 - np.exp(-draws[7].rate(X))
    np.testing.assert_allclose(log_lik[7], np.log(np.where(y == 1, p, 1.0 - p)), rtol=1e-6, atol=1e-12)

    value, n_effective = waic(log_lik)
    density = logsumexp(log_lik, axis=0) - np.log(len(draws))
    penalty = np.array([np.var(column, ddof=1) for column in log_lik.T])
    assert value == pytest.approx(-2.0 * (density - penalty).sum())
    assert n_effective == pytest.approx(penalty.sum())

    loo, pareto_k = psis_loo(log_lik)
    assert pareto_k.shape == (len(y),)
    # plain importance sampling estimates the same quantity; the smoothing tames its largest weights
    raw = -2.0 * (np.log(len(draws)) - logsumexp(-log_lik, axis=0))
    ratios = -log_lik - logsumexp(-log_lik, axis=0)
    calm = np.exp(ratios).max(axis=0) < 0.02  # rows without dominating draws
    assert calm.sum() > 10
    one_by_one = np.array([psis_loo(log_lik[:, [i]])[0] for i in range(len(y))])
    assert loo == pytest.approx(one_by_one.sum())
    np.testing.assert_allclose(one_by_one[calm], raw[calm], rtol=0.05)
    assert loo > -2.0 * density.sum()  # leaving rows out costs
    assert abs(loo - value) < 0.3 * value  # and WAIC estimates the same


def test_loo_of_a_gaussian_mean_is_known_exactly(rng):
    """y_i ~ N(μ, 1), flat prior: without row i the predictive is N(mean of the others, 1 + 1/(n-1))."""
    y = rng.normal(size=30)
    mu = y.mean() + rng.normal(size=(20_000, 1)) / np.sqrt(30)
    log_lik = -0.5 * np.log(2 * np.pi) - 0.5 * (y - mu) ** 2
    others = (y.sum() - y) / 29
    variance = 1.0 + 1.0 / 29
    exact = -2.0 * (-0.5 * np.log(2 * np.pi * variance) - 0.5 * (y - others) ** 2 / variance).sum()
    loo, pareto_k = psis_loo(log_lik)
    assert loo == pytest.approx(exact, abs=0.1)
    assert pareto_k.max() < 0.7
    assert waic(log_lik)[0] == pytest.approx(exact, rel=0.02)
