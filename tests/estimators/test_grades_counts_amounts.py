"""Ordered grades, counts and amounts: statements about intervals of a hidden number."""

import numpy as np
import pytest
from scipy.stats import norm

from fitted import VALUES, hidden_numbers
from pbdn import (
    GibbsConfig,
    MapConfig,
    PBDNAmountRegressor,
    PBDNCountRegressor,
    PBDNOrdinalClassifier,
)
from pbdn.errors import InvalidInputError

N = 150
SEED = 4  # of what a test draws beside the rows, which do not depend on the order of tests


@pytest.fixture(scope="module")
def rows():
    return hidden_numbers(N)


@pytest.fixture(scope="module")
def graded(rows):
    X, z = rows
    y = np.array(["low", "middle", "high"])[np.digitize(z, [-0.5, 0.7])]
    return X, y, PBDNOrdinalClassifier(categories=["low", "middle", "high"], **VALUES).fit(X, y)


@pytest.fixture(scope="module")
def counted(rows):
    """Counted over different lengths of time, whose logarithm is a feature."""
    X, _ = rows
    rng = np.random.default_rng(SEED)
    hours = rng.choice([0.5, 6.0], size=N)
    X = np.column_stack([X, np.log(hours)])
    rate = np.exp(0.5 + X[:, 0])
    y = rng.poisson(rate * hours)
    return X, y, hours, rate, PBDNCountRegressor(**VALUES).fit(X, y)


class TestGrades:
    def test_it_learns_in_the_order_given(self, graded):
        X, y, model = graded
        assert model.classes_.tolist() == ["low", "middle", "high"]
        assert model.score(X, y) > 0.75
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        assert p.min() >= 0.0
        assert np.corrcoef(p[:, 2] - p[:, 0], X[:, 0])[0, 1] > 0.8

    def test_cuts_are_where_a_normal_number_has_the_shares(self, graded):
        _, y, model = graded
        shares = np.cumsum([np.mean(y == grade) for grade in model.classes_])[:-1]
        np.testing.assert_allclose(model.network_.response.cuts, norm.ppf(shares), rtol=1e-12)

    def test_a_file_keeps_the_grades(self, graded, tmp_path):
        X, _, model = graded
        model.save(tmp_path / "model.pbdn")
        again = PBDNOrdinalClassifier.load(tmp_path / "model.pbdn")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))

    def test_an_ordered_categorical_says_its_order(self, rows):
        pd = pytest.importorskip("pandas")
        X, z = rows
        names = ["worse", "same", "better"]
        y = pd.Series(pd.Categorical(np.array(names)[np.digitize(z, [-0.5, 0.7])], names, ordered=True))
        short = VALUES | {"map_config": MapConfig(n_minibatches=20)}
        assert PBDNOrdinalClassifier(**short).fit(X, y).classes_.tolist() == names

    def test_labels_that_cannot_be_are_told(self, rows):
        X, z = rows
        with pytest.raises(InvalidInputError, match="not among categories"):
            PBDNOrdinalClassifier(categories=[0, 1], **VALUES).fit(X, np.digitize(z, [0.0, 1.0]))
        with pytest.raises(InvalidInputError, match="has a grade twice"):
            PBDNOrdinalClassifier(categories=[0, 1, 1], **VALUES).fit(X, np.digitize(z, [0.0]))
        stars = np.clip(np.round(2.0 * z) / 2.0 + 2.5, 0.5, 5.0)
        with pytest.raises(
            InvalidInputError, match=r"continuous.*not whole, such as 0.5, 1, 1.5.*text, and all of them in order"
        ):
            PBDNOrdinalClassifier(**VALUES).fit(X, stars)
        in_order = np.unique(stars).astype(str)
        as_text = PBDNOrdinalClassifier(categories=in_order, **VALUES).fit(X, stars.astype(str))
        assert as_text.classes_.tolist() == in_order.tolist()
        with pytest.warns(UserWarning, match="only one class"):
            one = PBDNOrdinalClassifier(**VALUES).fit(X, np.ones(N, int))
        np.testing.assert_array_equal(one.predict_proba(X[:3]), np.ones((3, 1)))

    def test_the_order_of_an_enum_is_that_of_the_grades(self, rows):
        pl = pytest.importorskip("polars")
        X, z = rows
        grades = np.array(["lo", "mid", "hi"])[np.digitize(z, [-0.5, 0.7])]
        model = PBDNOrdinalClassifier(**VALUES).fit(X, pl.Series(grades, dtype=pl.Enum(["lo", "mid", "hi"])))
        assert model.classes_.tolist() == ["lo", "mid", "hi"]
        with pytest.warns(UserWarning, match="order of the alphabet: hi, lo, mid"):
            PBDNOrdinalClassifier(**VALUES).fit(X, grades)


class TestCounts:
    def test_it_learns_rates(self, counted):
        X, y, hours, rate, model = counted
        means = model.predict(X)
        assert np.corrcoef(np.log(means), np.log(rate * hours))[0, 1] > 0.95
        for some in (hours < 1.0, hours > 1.0):
            assert means[some].sum() == pytest.approx(y[some].sum(), rel=0.15)
        assert model.log_score(X, y) > -2.5

    def test_probabilities_sum_to_one_and_to_the_mean(self, counted):
        X, *_, model = counted
        counts = np.arange(20_000)
        p = model.predict_probability(X[:5], counts)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-3)
        np.testing.assert_allclose(p @ counts, model.predict(X[:5]), rtol=0.02)
        median = model.predict_quantiles(X[:5], 0.5).astype(int)
        below = p.cumsum(axis=1)
        assert all(below[i, m] >= 0.5 and (m == 0 or below[i, m - 1] < 0.5) for i, m in enumerate(median))

    def test_counts_that_cannot_be_are_told(self, rows):
        X, _ = rows
        y = np.random.default_rng(SEED).poisson(3.0, N)
        with pytest.raises(InvalidInputError, match="counts must be 0 or more"):
            PBDNCountRegressor(**VALUES).fit(X, y - 5)

    def test_counts_of_nothing(self, rows):
        X, _ = rows
        with pytest.warns(UserWarning, match="y is 0 in every row"):
            model = PBDNCountRegressor(**VALUES).fit(X, np.zeros(N, int))
        np.testing.assert_allclose(model.predict(X[:3]), 0.0, atol=1e-12)
        np.testing.assert_allclose(model.predict_probability(X[:3], [0, 1]), [[1.0, 0.0]] * 3, atol=1e-12)

    def test_fractions_are_no_counts(self, counted):
        X, *_, model = counted
        found = model.predict_probability(X[:5], [0, 0.5, 1])
        assert np.all(found[:, 1] == 0.0)
        assert np.all(found[:, [0, 2]] > 0.0)


@pytest.fixture(scope="module")
def paid(rows):
    """Log-normal amounts, zero where another feature is small."""
    X, z = rows
    y = np.where(X[:, 1] + 0.5 * np.random.default_rng(SEED).logistic(size=N) > 0.0, np.exp(z), 0.0)
    return X, y, PBDNAmountRegressor(**VALUES).fit(X, y)


class TestAmounts:
    def test_it_learns_zeros_and_sizes(self, paid):
        X, y, model = paid
        d = model.predict_distribution(X)
        assert np.corrcoef(d.cdf(0.0), X[:, 1])[0, 1] < -0.8
        assert np.corrcoef(np.log(model.predict(X)), X[:, 0] + X[:, 1])[0, 1] > 0.8
        assert model.predict(X).sum() == pytest.approx(y.sum(), rel=0.15)
        assert model.log_score(X, y) == pytest.approx(
            np.log(np.where(y > 0, d.pdf(np.maximum(y, 1e-9)), d.cdf(0.0))).mean()
        )

    def test_the_distribution_is_one(self, paid):
        X, y, model = paid
        d = model.predict_distribution(X)[:6]
        np.testing.assert_allclose(d.cdf(np.full((1, 6), 0.7)) + d.sf(np.full((1, 6), 0.7)), 1.0)
        levels = np.linspace(0.0005, 0.9995, 1000)[:, None]
        values = d.ppf(levels)
        np.testing.assert_allclose((values == 0.0).mean(axis=0), d.cdf(0.0), atol=0.001)
        above = values > 0.0
        np.testing.assert_allclose(d.cdf(values)[above], np.broadcast_to(levels, values.shape)[above], rtol=1e-9)
        np.testing.assert_allclose(d.mean(), values.mean(axis=0), rtol=0.02)
        np.testing.assert_allclose(d.std()[:4], values.std(axis=0)[:4], rtol=0.05)  # of those without a long tail
        for at in (0.0, 1.0):
            expected = np.abs(values - at).mean(axis=0) - 0.5 * np.abs(values[:, None] - values[None]).mean(axis=(0, 1))
            np.testing.assert_allclose(d.crps(at), expected, rtol=0.02, atol=1e-4)
        assert model.predict_interval(X).shape == (N, 2)
        assert model.predict_quantiles(X, 0.5).shape == (N,)
        with pytest.raises(InvalidInputError, match="between 0 and 1"):
            d.ppf(2.0)

    def test_a_file_keeps_both_networks(self, paid, tmp_path):
        X, _, model = paid
        model.save(tmp_path / "model.pbdn")
        again = PBDNAmountRegressor.load(tmp_path / "model.pbdn")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)

    @pytest.mark.filterwarnings("ignore:The chains of layer")
    def test_draws_give_intervals_of_the_mean(self, paid):
        X, y, model = paid
        with pytest.raises(InvalidInputError, match="keeps no posterior draws"):
            model.predict_mean_interval(X)
        chain = GibbsConfig(n_sweeps=40, n_draws=10, prediction="point")
        drawn = PBDNAmountRegressor(inference="gibbs", gibbs_config=chain, max_depth=1, random_state=0).fit(X, y)
        low, high = drawn.predict_mean_interval(X).T
        assert (low < high).all()
        assert np.mean((low <= 1.5 * drawn.predict(X)) & (drawn.predict(X) <= 1.5 * high)) > 0.9
        pytest.importorskip("xarray", reason="the package xarray is not installed")
        tree = drawn.to_datatree(X, y)
        assert tree["amount"]["posterior_predictive"]["mean"].shape == (1, 10, np.sum(y > 0.0))
        zeros = tree["zero or more"]["posterior_predictive"]["probability"].sel({"class": "0"}).mean(("chain", "draw"))
        shown = drawn.models_[0].posterior_predictive_proba(X)[:, :, 0].mean(axis=0)
        np.testing.assert_allclose(zeros, shown, atol=1e-12)

    def test_amounts_without_zeros_and_without_others(self, rows):
        X, z = rows
        short = VALUES | {"map_config": MapConfig(n_minibatches=20)}
        model = PBDNAmountRegressor(**short).fit(X, np.exp(z))
        np.testing.assert_array_equal(model.predict_distribution(X).cdf(0.0) < 1e-300, True)
        with pytest.warns(UserWarning, match="zero in every row"):
            model = PBDNAmountRegressor(**short).fit(X, np.zeros(N))
        np.testing.assert_array_equal(model.predict(X), 0.0)
        with pytest.raises(InvalidInputError, match="amounts must be 0 or more"):
            PBDNAmountRegressor(**short).fit(X, z)
