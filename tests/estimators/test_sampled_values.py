"""Gibbs sampling of numbers, times, grades and counts: what draws say, and what is made of them."""

import numpy as np
import pytest

from pbdn import GibbsConfig, PBDNCountRegressor, PBDNOrdinalClassifier, PBDNRegressor, PBDNSurvival
from pbdn.errors import ConvergenceWarning, DepthLimitWarning, InvalidInputError
from pbdn.model.labelling import flipped
from pbdn.model.network import Layer
from pbdn.model.timed import side_arrays, side_log_likelihood

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::pbdn.errors.{one.__name__}") for one in (ConvergenceWarning, DepthLimitWarning)
]

N = 80
CHAIN = {"n_sweeps": 80, "n_draws": 12, "prediction": "posterior"}


def sampled(cls, **options):
    settings = {"inference": "gibbs", "random_state": 0, "max_depth": 1, "max_experts": 4}
    chain = GibbsConfig(**CHAIN | options.pop("chain", {}))
    return cls(**settings | {"gibbs_config": chain} | options)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 2))
    return X, X[:, 0] + 0.3 * rng.normal(size=N)


@pytest.fixture(scope="module")
def numbers(rows):
    X, z = rows
    bounds = np.column_stack([z, z])
    bounds[z > 1.0] = (1.0, np.inf)
    bounds[:10] = np.column_stack([np.floor(z[:10]), np.floor(z[:10]) + 1.0])
    return X, bounds, sampled(PBDNRegressor, log=False, max_depth=2, chain={"n_chains": 2}).fit(X, bounds)


@pytest.fixture(scope="module")
def times(rows):
    X, z = rows
    time = np.exp(z)
    y = np.array(list(zip(time < 2, np.minimum(time, 2), strict=True)), dtype=[("event", bool), ("time", float)])
    return X, y, sampled(PBDNSurvival).fit(X, y)


@pytest.fixture(scope="module")
def grades(rows):
    X, z = rows
    y = np.array(["c", "b", "a"])[np.digitize(z, [-0.5, 0.7])]
    return X, y, sampled(PBDNOrdinalClassifier, categories=["c", "b", "a"]).fit(X, y)


@pytest.fixture(scope="module")
def counts(rows):
    X, z = rows
    y = np.floor(np.exp(1.0 + z))
    return X, y, sampled(PBDNCountRegressor).fit(X, y)


def test_it_learns(numbers, times, grades, counts):
    X, bounds, model = numbers
    assert np.corrcoef(model.predict(X), X[:, 0])[0, 1] > 0.9
    assert np.isfinite(model.log_score(X, bounds))
    assert times[2].score(*times[:2]) > 0.8
    assert grades[2].score(*grades[:2]) > 0.7
    assert np.corrcoef(counts[2].predict(counts[0]), counts[1])[0, 1] > 0.7


def test_the_prediction_is_the_mean_over_draws(numbers):
    X, bounds, model = numbers
    whole = model.predict_distribution(X)
    draws = list(whole.draws())
    assert len(draws) == CHAIN["n_draws"]
    y = np.array([[-1.0], [0.2]])
    for name in ("cdf", "sf", "pdf"):
        np.testing.assert_allclose(getattr(whole, name)(y), np.mean([getattr(d, name)(y) for d in draws], axis=0))
    np.testing.assert_allclose(
        np.exp(whole.log_likelihood(bounds)), np.mean([np.exp(d.log_likelihood(bounds)) for d in draws], axis=0)
    )
    levels = np.array([[0.01], [0.5], [0.9]])
    np.testing.assert_allclose(whole.cdf(whole.ppf(levels)), np.broadcast_to(levels, (3, N)), rtol=1e-9)
    np.testing.assert_allclose(whole.mean(), np.mean([d.mean() for d in draws], axis=0))
    crps = whole.crps(0.3)
    points = np.linspace(-30.0, 30.0, 60_001)[:, None]
    exact = np.trapezoid((whole[:3].cdf(points) - (points >= 0.3)) ** 2, points[:, 0], axis=0)
    np.testing.assert_allclose(crps[:3], exact, rtol=1e-2)
    np.testing.assert_array_equal(whole[3:5].median(), whole.median()[3:5])


def test_intervals_are_quantiles_over_draws(numbers, times, grades, counts):
    X, _, model = numbers
    means = [d.mean() for d in model.predict_distribution(X).draws()]
    np.testing.assert_allclose(model.predict_mean_interval(X, 0.8), np.quantile(means, [0.1, 0.9], axis=0).T)
    for interval, middle in (
        (times[2].predict_survival_interval(X), times[2].predict_survival_function(X, return_array=True)),
        (grades[2].predict_proba_interval(X), grades[2].predict_proba(X)),
        (counts[2].predict_mean_interval(X), counts[2].predict(X)),
    ):
        assert interval.shape == (*middle.shape, 2)
        assert np.mean((interval[..., 0] <= middle) & (middle <= interval[..., 1])) > 0.95


def test_the_sampler_saw_what_the_network_says(numbers):
    """The traced log-likelihood of a kept sweep is that of the draw kept there, side by side, with its scale."""
    X, bounds, model = numbers
    model = sampled(PBDNRegressor, log=False).fit(X, bounds)
    inputs, on_line = model.network_.top_inputs(X), model.network_.response.to_line(bounds)
    kept = model.config_.chain.kept_sweeps()
    for s, seen in enumerate((on_line, flipped(on_line))):
        trace = model.trace_[-1][s][0]
        for sweep, draw in zip(kept, model.network_.top.draws, strict=True):
            found = side_log_likelihood(side_arrays(Layer(draw), inputs)[s], seen).sum()
            assert found == pytest.approx(trace["log_likelihood"][sweep], rel=1e-8)
            np.testing.assert_allclose(draw[s].time_coefs, trace["scale"][sweep], rtol=1e-12)


def test_the_default_averages_paths_of_a_grown_network(rows, tmp_path):
    X, z = rows
    chain = {"n_paths": 2, "n_sweeps": 40, "n_draws": 6, "prediction": None}
    model = sampled(PBDNRegressor, log=False, max_depth=2, chain=chain).fit(X, z)
    assert model.config_.prediction == "paths"
    assert len(model.paths_) == 2
    assert len(list(model.predict_distribution(X).draws())) == 6
    assert [step["depth"] for step in model.criterion_path_] == [1, 2]
    model.save(tmp_path / "model.pbdn")
    again = PBDNRegressor.load(tmp_path / "model.pbdn")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict_mean_interval(X), model.predict_mean_interval(X))


def test_a_map_start_and_a_point(rows):
    X, z = rows
    chain = {"start": "map", "prediction": "point", "n_sweeps": 20}
    model = sampled(PBDNRegressor, log=False, chain=chain).fit(X, z)
    assert len(list(model.predict_distribution(X).draws())) == 1
    assert model.score(X, z) > 0.7
    assert model.predict_mean_interval(X).shape == (N, 2)


def test_a_checkpoint_goes_on_to_the_same_draws(rows, tmp_path):
    X, z = rows
    chain = {"n_sweeps": 30}
    plain = sampled(PBDNRegressor, log=False, chain=chain).fit(X, z)
    for _ in range(2):
        kept = sampled(PBDNRegressor, log=False, chain=chain, checkpoint=tmp_path / "fit.ckpt").fit(X, z)
        np.testing.assert_array_equal(kept.predict(X), plain.predict(X))


def test_weights_are_copies(rows):
    X, z = rows
    weights = np.arange(N) % 3
    chain = {"n_sweeps": 20}
    one = sampled(PBDNRegressor, log=False, chain=chain).fit(X, z, sample_weight=weights)
    two = sampled(PBDNRegressor, log=False, chain=chain).fit(np.repeat(X, weights, axis=0), np.repeat(z, weights))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_draws_for_arviz(numbers, times, grades, counts):
    pytest.importorskip("xarray", reason="xarray is not installed: pip install 'pbdn[posterior]'")
    for (X, y, model), name in ((numbers, "mean"), (times, "median"), (grades, "probability"), (counts, "mean")):
        tree = model.to_datatree(X, y)
        predicted = tree["posterior_predictive"][name].to_numpy()
        assert predicted.shape[:3] == (model.config_.n_chains, CHAIN["n_draws"] // model.config_.n_chains, N)
        assert tree["log_likelihood"]["y"].shape == predicted.shape[:3]
        assert tree["posterior"]["scale"].shape == tree["posterior"]["total_weight"].shape
        assert tree["observed_data"]["y"].shape == (N,)
    X, y, model = times
    late = np.array([(*row, 0.5 * row["time"]) for row in y], dtype=[*y.dtype.descr, ("entry", float)])
    late[0] = (True, 0.0, 0.0)  # an event at zero lies before the smallest time
    given, plain = (model.to_datatree(X, said)["log_likelihood"]["y"].to_numpy() for said in (late, y))
    assert np.isfinite(given).all()
    assert (given[:, :, 1:] > plain[:, :, 1:]).all()
    by_draw = np.exp(tree["log_likelihood"]["y"].to_numpy()).mean((0, 1))
    assert np.log(by_draw).mean() == pytest.approx(counts[2].log_score(*counts[:2]))
    with pytest.raises(InvalidInputError, match="not fitted on"):
        grades[2].to_datatree(grades[0], np.full(N, "z"))


def test_what_cannot_be_is_told(rows, numbers):
    X, z = rows
    with pytest.raises(InvalidInputError, match="inference='guess'"):
        PBDNRegressor(inference="guess").fit(X, z)
    with pytest.raises(InvalidInputError, match="use inference='gibbs'"):
        PBDNRegressor(inference="map", gibbs_config=GibbsConfig(prediction="posterior")).fit(X, z)
    with pytest.raises(InvalidInputError, match="sampler='counts' takes binary rows"):
        sampled(PBDNRegressor, log=False, chain={"sampler": "counts"}).fit(X, z)
    with pytest.raises(InvalidInputError, match="level=1.0"):
        numbers[2].predict_mean_interval(X, 1.0)
    with pytest.raises(InvalidInputError, match=r"level=\[1.0, 2.0\] must be a number above 0 and below 1"):
        numbers[2].predict_mean_interval(X, [1.0, 2.0])
    with pytest.warns(UserWarning, match="only one value"):
        constant = sampled(PBDNRegressor).fit(X, np.ones(N))
    with pytest.raises(InvalidInputError, match="keeps no posterior draws"):
        constant.predict_mean_interval(X)
