"""PBDNRegressor: what it predicts, what it takes, and what it says of targets it cannot take."""

import warnings

import numpy as np
import pytest

from pbdn import MapConfig, PBDNRegressor
from pbdn.errors import InvalidInputError

FEW = MapConfig(n_minibatches=150)


def small(**parameters):
    return PBDNRegressor(
        **{"random_state": 0, "max_depth": 1, "max_experts": 4, "log": False, "map_config": FEW} | parameters
    )


def bent(rng, n=150):
    """A bent surface with noise of standard deviation 0.2."""
    X = rng.normal(size=(n, 3))
    return X, np.abs(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(5)
    X, y = bent(rng)
    return X, y, small().fit(X, y)


def test_it_learns(case):
    X, y, model = case
    assert model.score(X, y) > 0.8
    spread = y.std()
    assert (
        model.log_score(X, y) > -0.5 * np.log(2 * np.pi * spread**2) - 0.5
    )  # of a normal that knows mean and spread only
    assert model.crps(X, y) < 0.56 * spread
    interval = model.predict_interval(X, 0.9)
    assert 0.8 < np.mean((y >= interval[:, 0]) & (y <= interval[:, 1])) <= 1.0
    assert model.feature_importances_.argmin() == 2


def test_answers_agree_with_the_distribution(case):
    X, y, model = case
    d = model.predict_distribution(X)
    np.testing.assert_allclose(model.predict(X), d.mean(), rtol=1e-12)
    np.testing.assert_allclose(model.predict_quantiles(X, [0.05, 0.95]), model.predict_interval(X, 0.9), rtol=1e-9)
    np.testing.assert_allclose(model.predict_quantiles(X, 0.5), d.median(), rtol=1e-12)
    assert model.log_score(X, y) == pytest.approx(d.logpdf(y).mean())
    np.testing.assert_allclose(model.network_.predict(X)[:, 0], d.median(), rtol=1e-9)


def test_at_the_centre_it_is_a_classifier(case):
    """P(Y ≤ centre) by the distribution is the paper's average of the sides' answers, so votes mean what they mean."""
    X, _, model = case
    centre = model.network_.response.center
    p = model.network_.side_probability(X)
    np.testing.assert_allclose(model.predict_distribution(X).cdf(centre), 0.5 * (p[:, 0] + 1.0 - p[:, 1]), rtol=1e-10)
    sides = set(model.subtypes(X)["side"]) | set(model.explain(X[:2])["side"])
    assert sides == {f"at most {centre:.4g}", f"above {centre:.4g}"}
    assert list(model.effects(X)["feature"])[-1] == "x2"


def test_a_file_predicts_the_same(case, tmp_path):
    X, _, model = case
    model.save(tmp_path / "model.pbdn")
    again = PBDNRegressor.load(tmp_path / "model.pbdn")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
    assert again.log_ is False


def test_shift_and_scale_of_y_only_shift_and_scale(case):
    X, y, model = case
    other = small().fit(X, 1024.0 * y + 2048.0)
    np.testing.assert_allclose(other.predict(X), 1024.0 * model.predict(X) + 2048.0, rtol=1e-6)


def test_logarithms_are_found_where_they_suit(rng):
    X, z = bent(rng)
    more = {"map_config": MapConfig(n_minibatches=300), "log": "auto"}
    model = small(**more).fit(X, np.exp(2.0 * z))
    assert model.log_
    assert model.predict(X).min() > 0.0
    assert not small(**more).fit(X, 20.0 + z).log_  # nearly the same, and no trial is worth it
    assert not small(**more).fit(X, z).log_


def test_a_row_far_outside_has_a_mean_of_this_world(rng, tmp_path):
    """The logarithm goes on in a straight line, so that its exponential would not."""
    X = rng.normal(size=(150, 1))
    y = np.exp(X[:, 0] + 0.3 * rng.normal(size=150))
    model = small(log=True).fit(X, y)
    far = model.predict([[30.0]])[0]
    assert y.max() < far <= np.exp(np.log(y.max()) + np.log(y).std()) * (1 + 1e-9)
    model.save(tmp_path / "m.pbdn")
    assert PBDNRegressor.load(tmp_path / "m.pbdn").predict([[30.0]])[0] == far


def test_censored_rows_say_what_they_say(rng):
    """Values above 1 known only to be so, and rounded ones: predictions reach beyond, unlike with the bound as a value."""
    X, y = bent(rng, 300)
    bounds = np.column_stack([y, y])
    bounds[y > 1.0] = (1.0, np.inf)
    bounds[:50] = np.column_stack([np.floor(2 * y[:50]) / 2, np.floor(2 * y[:50]) / 2 + 0.5])
    high = y > 1.3
    told = small().fit(X, bounds)
    cut = small().fit(X, np.minimum(y, 1.0))
    assert np.mean((told.predict(X) - y)[high] ** 2) < 0.5 * np.mean((cut.predict(X) - y)[high] ** 2)
    assert np.isfinite(told.log_score(X, bounds))


def test_with_logarithms_a_row_above_zero_says_nothing(rng):
    X, y = bent(rng, 60)
    bounds = np.column_stack([np.exp(y), np.exp(y)])
    short = {"log": True, "map_config": MapConfig(n_minibatches=20)}
    bounds[:5] = (0.0, np.inf)
    one, other = small(**short).fit(X, bounds), small(**short).fit(X[5:], bounds[5:])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_weights_are_copies(rng):
    X, y = bent(rng, 60)
    weights = rng.integers(0, 3, 60)
    one = small().fit(X, y, sample_weight=weights)
    two = small().fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_frames_with_categories_and_missing_values(rng):
    pd = pytest.importorskip("pandas")
    X, y = bent(rng, 120)
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "yes", "no"), "c": X[:, 2]})
    frame.loc[::7, "c"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = small().fit(frame, y + (X[:, 1] > 0))
        predicted = model.predict(frame.iloc[:5])
    assert predicted.shape == (5,)
    assert model.feature_importances_.shape == (3,)


def test_one_value_is_predicted_always(rng, tmp_path):
    X = rng.normal(size=(20, 2))
    for value in (0.0, 3.0, -1e200):
        with pytest.warns(UserWarning, match="only one value"):
            model = small().fit(X, np.full(20, value))
        np.testing.assert_allclose(model.predict(X), value, rtol=1e-8)
        np.testing.assert_allclose(model.predict_interval(X), value, rtol=1e-6, atol=1e-200)
    model.save(tmp_path / "constant.pbdn")
    np.testing.assert_allclose(PBDNRegressor.load(tmp_path / "constant.pbdn").predict(X), value, rtol=1e-8)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_any_unit_of_y(rng, factor):
    X, y = bent(rng, 60)
    model = small(map_config=MapConfig(n_minibatches=60)).fit(X, y * factor)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.log_score(X, y * factor))


def test_few_rows(rng):
    X, y = bent(rng, 6)
    for n in (2, 3, 6):
        assert np.isfinite(small(map_config=MapConfig(n_minibatches=30)).fit(X[:n], y[:n]).predict(X)).all()


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (lambda y: np.where(np.arange(y.size) == 3, np.nan, y), "y contains NaN"),
        (lambda y: np.where(np.arange(y.size) == 3, np.inf, y), "y contains infinity"),
        (lambda y: np.column_stack([y + 1.0, y]), "the first must not be above the second"),
        (lambda y: np.column_stack([y, np.where(y > 0, np.nan, y)]), "has NaN in row"),
        (lambda y: np.column_stack([y, np.full(y.size, np.inf)]), "all are censored from above"),
        (lambda y: np.column_stack([np.full(y.size, -np.inf), y]), "all are censored from below"),
        (lambda y: np.tile([-np.inf, np.inf], (y.size, 1)), "any bound"),
        (lambda y: np.full(y.size, "tall"), "y must be numbers"),
    ],
)
def test_targets_that_cannot_be_fitted_are_told(rng, targets, message):
    X, y = bent(rng, 30)
    with pytest.raises(ValueError, match=message):
        small().fit(X, targets(y))


def test_parameters_that_cannot_be_are_told(rng):
    X, y = bent(rng, 30)
    with pytest.raises(InvalidInputError, match="only values above 0 have a logarithm"):
        small(log=True).fit(X, y)
    with pytest.raises(InvalidInputError, match="log='perhaps'"):
        small(log="perhaps").fit(X, y)
    with pytest.raises(InvalidInputError, match="sample_weight must not be negative"):
        small().fit(X, y, sample_weight=np.full(30, -1.0))


def test_a_checkpoint_goes_on_to_the_same_network(rng, tmp_path):
    X, y = bent(rng, 60)
    short = {"map_config": MapConfig(n_minibatches=40)}
    plain = small(**short).fit(X, y)
    kept = [small(checkpoint=tmp_path / "fit.ckpt", **short).fit(X, y) for _ in range(2)]  # the second finds all done
    for model in kept:
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))


@pytest.mark.filterwarnings("ignore:The criterion was still falling:pbdn.errors.DepthLimitWarning")
def test_monotone_columns_stay_monotone(rng):
    X, y = bent(rng, 100)
    model = small(max_depth=2, map_config=MapConfig(n_minibatches=60, monotonic_cst=[0, 1, 0])).fit(X, y)
    lines = np.repeat(X[:10], 9, axis=0)
    lines[:, 1] = np.tile(np.linspace(-3.0, 3.0, 9), 10)
    quantiles = model.predict_quantiles(lines, [0.1, 0.5, 0.9]).reshape(10, 9, 3)
    assert (np.diff(quantiles, axis=1) > -1e-9).all()


def test_time_that_is_up_before_a_first_layer_leaves_an_unfinished_one(rng):
    X = rng.normal(size=(60, 2))
    with pytest.warns(UserWarning, match="one unfinished layer"):
        model = PBDNRegressor(random_state=0, time_limit=1e-3).fit(X, X[:, 0])
    assert model.network_.depth == 1
    assert np.isfinite(model.predict(X)).all()


def test_a_few_huge_values_do_not_hide_the_rest(rng):
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=300)
    wrong = np.where(np.arange(300) % 150 == 7, 1e6, y)
    with pytest.warns(UserWarning, match="2 of 300 values of y are very far.*left out"):
        model = PBDNRegressor(random_state=0, max_depth=1).fit(X, wrong)
    ends = model.predict_interval(X)
    assert np.corrcoef(model.predict_quantiles(X, 0.5), X[:, 0])[0, 1] > 0.95
    assert 0.8 < np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) < 0.98
    assert model.score(X, y) > 0.8
    some = np.arange(300) % 150 != 7
    again = PBDNRegressor(random_state=0, max_depth=1).fit(X[some], y[some])
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    with pytest.warns(UserWarning, match="left out"):
        shares = PBDNRegressor(random_state=0, max_depth=1).fit(X, wrong, np.full(300, 1 / 300))
    np.testing.assert_allclose(shares.predict(X), again.predict(X), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PBDNRegressor(random_state=0, max_depth=1, map_config=MapConfig(n_minibatches=50)).fit(
            X, np.column_stack([wrong, wrong])
        )


def test_what_a_regressor_cannot_say_is_told(rng):
    X, y = bent(rng)
    with pytest.warns(UserWarning, match="two values only.*PBDNClassifier"):
        model = small().fit(X, (y > 0) * 1.0)
    with pytest.raises(InvalidInputError, match="use log_score"):
        model.score(X, np.column_stack([y, y + 1.0]))
    with pytest.raises(InvalidInputError, match="dates or lengths of time"):
        small().fit(X, np.full(len(y), np.datetime64("2024-01-01")))


@pytest.mark.parametrize(
    "wrong", [{"standardize": "no"}, {"n_jobs": "a"}, {"verbose": "a"}, {"checkpoint": 3}], ids=lambda one: str(*one)
)
def test_parameters_are_checked_by_name(rng, wrong):
    X, y = bent(rng)
    with pytest.raises(InvalidInputError, match=f"^{next(iter(wrong))}="):
        small(**wrong).fit(X, y)
