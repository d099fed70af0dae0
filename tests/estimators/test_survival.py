"""Survival times: censored, entered late, and of several causes."""

import numpy as np
import pytest

from fitted import VALUES, hidden_numbers
from pbdn import (
    GibbsConfig,
    MapConfig,
    PBDNSurvival,
)
from pbdn.errors import InvalidInputError
from pbdn.estimators.times import causes_of, time_bounds
from pbdn.inspection.quality import concordance, kaplan_meier

N = 150
SEEN = [("event", bool), ("time", float)]


def events(event, time):
    return np.array(list(zip(event, time, strict=True)), dtype=SEEN)


def entries(event, time, entry):
    return np.array(list(zip(event, time, entry, strict=True)), dtype=[*SEEN, ("entry", float)])


@pytest.fixture(scope="module")
def rows():
    return hidden_numbers(N)


@pytest.fixture(scope="module")
def lived(rows):
    """Log-normal times, some of them censored at 2."""
    X, z = rows
    time = np.exp(z)
    y = events(time < 2.0, np.minimum(time, 2.0))
    return X, time, y, PBDNSurvival(**VALUES).fit(X, y)


class TestSurvival:
    def test_it_learns_and_reaches_beyond_the_censoring(self, lived):
        X, time, y, model = lived
        assert model.score(X, y) > 0.85
        late = X[:, 0] > 1.2
        assert np.median(model.predict_median(X[late])) > 2.0
        np.testing.assert_allclose(model.predict(X), -np.log(model.predict_median(X)), rtol=1e-12)
        assert model.log_score(X, y) > -1.0

    def test_curves(self, lived):
        X, _, y, model = lived
        times = model.unique_times_
        assert times.max() < 2.0
        survival = model.predict_survival_function(X, return_array=True)
        hazard = model.predict_cumulative_hazard_function(X, return_array=True)
        assert survival.shape == hazard.shape == (N, times.size)
        assert (np.diff(survival, axis=1) <= 0).all()
        np.testing.assert_allclose(hazard, -np.log(survival), rtol=1e-12)
        curve = model.predict_survival_function(X[:2])[1]
        np.testing.assert_allclose(curve(times), survival[1], rtol=1e-10)
        np.testing.assert_array_equal(curve.y, model.predict_survival_function(X[:2], return_array=True)[1])
        np.testing.assert_allclose(curve(5.0), model.predict_distribution(X[1:2]).sf(5.0)[0], rtol=1e-10)
        hazards = model.predict_cumulative_hazard_function(X[:2])[1]
        np.testing.assert_allclose(hazards(1.0), -np.log(curve(1.0)), rtol=1e-12)

    def test_a_file_keeps_the_times(self, lived, tmp_path):
        X, _, _, model = lived
        model.save(tmp_path / "model.pbdn")
        again = PBDNSurvival.load(tmp_path / "model.pbdn")
        np.testing.assert_array_equal(again.unique_times_, model.unique_times_)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))

    def test_left_and_interval_censoring(self, rows):
        """Only looked at three times: bounds are enough to learn from."""
        X, z = rows
        looks = np.array([0.0, 0.5, 1.0, 2.0, np.inf])
        place = np.digitize(np.exp(z), looks[1:-1])
        y = np.column_stack([looks[place], looks[place + 1]])
        model = PBDNSurvival(**VALUES).fit(X, y)
        assert np.corrcoef(np.log(model.predict_median(X)), X[:, 0])[0, 1] > 0.9
        with pytest.raises(InvalidInputError, match="use log_score"):
            model.score(X, y)

    def test_concordance_counts_pairs(self):
        bounds = np.array([[1.0, 1.0], [2.0, np.inf], [3.0, 3.0], [3.0, np.inf]])
        assert concordance(bounds, np.array([4.0, 3.0, 2.0, 1.0])).value == 1.0
        assert concordance(bounds, np.array([1.0, 2.0, 3.0, 4.0])).value == 0.0
        assert concordance(bounds, np.array([4.0, 0.0, 2.0, 2.0])).value == pytest.approx(3.5 / 4.0)

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (events([True, False], [-1.0, 1.0]), "times must not be negative"),
            (np.array([[-1.0, np.inf]]), "has the time -1 in row 0; times must not be negative"),
            (events([True, True], [np.nan, 1.0]), "give finite times"),
            (np.ones((2, 4)), "structured array"),
            (entries([True, True], [1.0, 1.0], [0.0, np.nan]), "the entry nan in row 1, which is no time; give 0"),
            (entries([True, True], [1.0, 1.0], [-0.5, 0.0]), "the entry -0.5 in row 0, which is negative; give 0"),
            (entries([True, False], [1.0, 1.0], [0.0, 1.0]), "the entry 1 in row 1, which is not before its time 1"),
            (entries([False], [0.0], [0.5]), "the entry 0.5 in row 0, which is not before its time 0"),
            (np.array([[1.0, 3.0, 3.0]]), "not before its time 3"),
            (np.array([(0.5, 2.0)], dtype=[("event", float), ("time", float)]), "two are needed"),
            (np.array([(-1, 2.0)], dtype=[("event", int), ("time", float)]), "causes are 1, 2"),
            (np.array([[2.0, 1.0]]), "the first must not be above the second"),
        ],
    )
    def test_times_that_cannot_be_are_told(self, y, message):
        with pytest.raises(InvalidInputError, match=message):
            time_bounds(y)

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_a_frame_of_events_and_times_is_no_frame_of_bounds(self, library):
        frames = pytest.importorskip(library)
        y = events([True, False], [2.0, 3.0])
        frame = frames.DataFrame({"seen": y["event"], "days": y["time"]})
        np.testing.assert_array_equal(time_bounds(frame), time_bounds(y))
        np.testing.assert_array_equal(causes_of(frame), causes_of(y))
        numbered = frames.DataFrame({"seen": [1, 0], "days": [2.0, 3.0]})
        np.testing.assert_array_equal(time_bounds(numbered), time_bounds(y))
        causes = frames.DataFrame({"cause": [2, 0, 1], "days": [2.0, 3.0, 1.0]})
        np.testing.assert_array_equal(causes_of(causes), [2, 0, 1])
        bounds = frames.DataFrame({"low": [20, 30], "high": [25, 35]})
        np.testing.assert_array_equal(time_bounds(bounds), [[20.0, 25.0], [30.0, 35.0]])

    def test_events_among_plain_numbers_are_not_taken_for_bounds(self):
        with pytest.raises(InvalidInputError, match="holds nothing but 0 and 1"):
            time_bounds(np.array([[1.0, 2.0], [0.0, 3.0]]))
        np.testing.assert_array_equal(time_bounds([[1.0, 2.0], [-np.inf, 3.0]]), [[1.0, 2.0], [-np.inf, 3.0]])

    def test_plain_numbers_are_times_of_events(self):
        np.testing.assert_array_equal(time_bounds([1.0, 2.0]), [[1.0, 1.0], [2.0, 2.0]])

    @pytest.mark.filterwarnings("ignore:The chains of layer:UserWarning")
    def test_events_at_zero_lie_before_the_smallest_time(self, rows):
        """The same bits as bounds that say so; a row censored at zero is left out; ranks still know that zero comes first."""
        X, z = rows
        time = np.exp(z)
        seen, time[:12] = time < 2.0, 0.0
        y, first = events(seen, np.minimum(time, 2.0)), np.sort(time)[12]
        y["event"][:12] = np.arange(12) < 10
        said = f"y has 10 events at time 0, taken as before {first:g}, .*, and 2 rows censored at time 0"
        with pytest.warns(UserWarning, match=said):
            model = PBDNSurvival(**VALUES).fit(X, y)
        bounds = time_bounds(y)
        bounds[:10] = -np.inf, first
        again = PBDNSurvival(**VALUES).fit(np.delete(X, [10, 11], 0), np.delete(bounds, [10, 11], 0))
        np.testing.assert_array_equal(model.predict(X), again.predict(X))
        assert model.unique_times_[0] == first
        assert model.log_score(X, y) == pytest.approx(again.log_score(X, bounds), rel=1e-12)
        assert np.isfinite(model.score(X, y))
        chain = GibbsConfig(n_sweeps=20, n_burn_in=10, n_chains=1, prediction="posterior")
        with pytest.warns(UserWarning, match=said):
            sampled = PBDNSurvival(inference="gibbs", random_state=0, max_depth=1, gibbs_config=chain).fit(X, y)
        assert np.isfinite(sampled.predict(X)).all()
        with pytest.raises(InvalidInputError, match="no time above 0"):
            PBDNSurvival(**VALUES).fit(X[:3], np.zeros(3))
        with pytest.raises(InvalidInputError, match="data in pieces cannot have"):
            PBDNSurvival(**VALUES).fit([(X, y)])

    def test_all_censored(self, rows):
        X, z = rows
        with pytest.raises(InvalidInputError, match="censored from above"):
            PBDNSurvival(**VALUES).fit(X, events(np.zeros(N, bool), np.exp(z)))


@pytest.fixture(scope="module")
def entered():
    """Log-logistic times, median e^{x/2}: most rows are only seen because nothing happened before they entered."""
    rng = np.random.default_rng(4)
    X, noise, uniform = rng.normal(size=(2000, 1)), rng.logistic(size=2000), rng.uniform(0.0, 2.5, 2000)
    time, entry = np.exp(0.5 * X[:, 0] + 0.5 * noise), uniform * (rng.random(2000) < 0.8)
    there = np.flatnonzero(time > entry)[:500]
    X, time, entry = X[there], time[there], entry[there]
    end = entry + rng.exponential(3.0, 500)
    y = entries(time <= end, np.minimum(time, end), entry)
    return X, y, PBDNSurvival(**VALUES).fit(X, y)


class TestEntries:
    @pytest.mark.filterwarnings("ignore:The chains of layer:UserWarning")
    def test_what_is_seen_late_is_not_taken_for_what_lasts_long(self, entered):
        """The medians are right, in both engines, and too late where the entry is not told."""
        X, y, model = entered
        grid = np.linspace(-1.5, 1.5, 7)[:, None]

        def bias(model):
            return np.mean(np.log(model.predict_median(grid)) - 0.5 * grid[:, 0])

        assert abs(bias(model)) < 0.15
        assert bias(PBDNSurvival(**VALUES).fit(X, y[["event", "time"]])) > 0.2
        chain = GibbsConfig(n_sweeps=150, n_burn_in=50, n_chains=1, prediction="posterior")
        options = {"inference": "gibbs", "random_state": 0, "max_depth": 1, "max_experts": 3, "gibbs_config": chain}
        assert abs(bias(PBDNSurvival(**options).fit(X, y))) < 0.15

    def test_the_likelihood_is_given_the_entry(self, entered):
        X, y, model = entered
        whole = model.predict_distribution(X)
        seen = np.where(y["event"], whole.logpdf(y["time"]), np.log(whole.sf(y["time"])))
        assert model.log_score(X, y) == pytest.approx(np.mean(seen - np.log(whole.sf(y["entry"]))), rel=1e-9)
        bounds = np.column_stack([np.zeros(500), y["time"], y["entry"]])  # left-censored: between entry and time
        inside = 1.0 - whole.sf(y["time"]) / whole.sf(y["entry"])
        assert model.log_score(X, bounds) == pytest.approx(np.log(inside).mean(), rel=1e-6)

    def test_entries_at_zero_change_no_bit(self, lived):
        X, _, y, model = lived
        zero = entries(y["event"], y["time"], np.zeros(N))
        np.testing.assert_array_equal(PBDNSurvival(**VALUES).fit(X, zero).predict(X), model.predict(X))
        assert model.log_score(X, zero) == model.log_score(X, y)
        streamed = [
            PBDNSurvival(**VALUES).fit([(X[:99], said[:99]), (X[99:], said[99:])]).predict(X) for said in (y, zero)
        ]
        np.testing.assert_array_equal(*streamed)

    def test_streams_and_batches_know_of_entries(self, entered):
        """Pieces some of which have no late entry, and batches: medians come sooner than without entries."""
        X, y, _ = entered
        order = np.argsort(y["entry"])
        X, y = X[order], y[order]
        pieces = [(X[:90], y[:90]), (X[90:], y[90:])]
        without = [(x, said[["event", "time"]]) for x, said in pieces]
        whole = [PBDNSurvival(**VALUES).fit(some).predict_median(X).mean() for some in (pieces, without)]
        assert whole[0] < 0.9 * whole[1]
        learners = [PBDNSurvival(inference="map", random_state=0, max_experts=4) for _ in range(2)]
        for _ in range(20):
            for learner, some in zip(learners, (pieces, without), strict=True):
                for one in some[::-1]:
                    learner.partial_fit(*one)
        first, second = (learner.predict_median(X).mean() for learner in learners)
        assert first < 0.9 * second

    def test_causes_share_the_entry(self, caused):
        X, y, _, model = caused
        late = np.array([(*row, 0.3 * row["time"]) for row in y], dtype=[*y.dtype.descr, ("entry", float)])
        late["entry"][::3] = 0.0
        given = model.predict_distribution(X).sf(late["entry"])
        assert model.log_score(X, late) == pytest.approx(model.log_score(X, y) - np.log(given).mean(), rel=1e-9)
        told = PBDNSurvival(**VALUES).fit(X, late)
        assert told.log_score(X, late) > model.log_score(X, late)

    def test_ranks_and_shares_count_rows_from_their_entry(self):
        bounds = np.array([[1.0, 1.0, -np.inf], [2.0, 2.0, 0.5], [3.0, 3.0, 1.5], [4.0, np.inf, 2.5]])
        risk = np.array([4.0, 1.0, 3.0, 2.0])
        assert concordance(bounds[:, :2], risk).value == pytest.approx(4.0 / 6.0)
        assert concordance(bounds, risk).value == pytest.approx(2.0 / 3.0)  # pairs (1, 2), (2, 3), (3, 4)
        share, _ = kaplan_meier(bounds[:, 0], np.isfinite(bounds[:, 1]), np.array([1.0, 2.0, 3.0]), bounds[:, 2])
        np.testing.assert_allclose(share, [0.5, 0.25, 0.125])  # of two rows each time


@pytest.fixture(scope="module")
def caused():
    """Two causes, one sooner and one later where the first feature is large; censored at 4. And how often each comes by 1."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(200, 2))

    def times(x):
        noise = 0.4 * rng.logistic(size=(2, *x.shape))
        return np.exp(np.stack([x, 0.5 - x]) + noise)

    of_cause = times(X[:, 0])
    first = of_cause.min(axis=0)
    cause = np.where(first < 4.0, 1 + of_cause.argmin(axis=0), 0)
    y = np.array(list(zip(cause, np.minimum(first, 4.0), strict=True)), dtype=[("cause", int), ("time", float)])
    many = times(np.tile(X[:20, 0], (20_000, 1)))
    by_one = (many.min(axis=0) <= 1.0) & (many.argmin(axis=0) == np.arange(2)[:, None, None])
    return X, y, by_one.mean(axis=1).T, PBDNSurvival(**VALUES).fit(X, y)


class TestCauses:
    def test_it_learns_how_often_each_cause_comes_first(self, caused):
        X, y, expected, model = caused
        assert model.causes_.tolist() == [1.0, 2.0]
        found = model.predict_cumulative_incidence(X[:20], [1.0])[:, :, 0]
        assert np.abs(found - expected).mean() < 0.06
        assert model.score(X, y) > 0.55
        assert model.feature_importances_.argmax() == 0

    def test_causes_and_survival_share_all_probability(self, caused):
        X, _, _, model = caused
        incidence = model.predict_cumulative_incidence(X[:5])
        survival = model.predict_survival_function(X[:5], return_array=True)
        assert incidence.shape == (5, 2, model.unique_times_.size)
        assert (np.diff(incidence, axis=2) >= 0.0).all()
        np.testing.assert_allclose(incidence.sum(axis=1) + survival, 1.0, rtol=1e-9)
        median = model.predict_median(X[:5])
        curves = model.predict_survival_function(X[:5])
        np.testing.assert_allclose([curve(t) for curve, t in zip(curves, median, strict=True)], 0.5, rtol=1e-9)
        np.testing.assert_allclose(model.predict(X[:5]), -np.log(median))

    def test_incidence_is_the_integral_of_a_cause_before_all_others(self, caused):
        """∫ f_1(t) P(T_2 > t) dt."""
        X, _, _, model = caused
        one, two = (part.predict_distribution(X[:4]) for part in model.models_)
        t = np.geomspace(1e-6, 1.5, 20_001)[:, None]
        exact = np.trapezoid(one.pdf(t) * two.sf(t), t[:, 0], axis=0)
        np.testing.assert_allclose(model.predict_cumulative_incidence(X[:4], [1.5])[:, 0, 0], exact, atol=1e-6)
        alone = [model.predict_cumulative_incidence(X[i : i + 1], [1.5])[0] for i in range(4)]
        np.testing.assert_allclose(model.predict_cumulative_incidence(X[:4], [0.4, 1.5])[:, :, 1:], alone, atol=1e-7)

    def test_the_likelihood_is_that_of_time_and_cause(self, caused):
        X, y, _, model = caused
        one, two = (part.predict_distribution(X) for part in model.models_)
        t, cause = y["time"], y["cause"]
        density = np.where(cause == 1, one.pdf(t) * two.sf(t), np.where(cause == 2, two.pdf(t) * one.sf(t), 0.0))
        likelihood = np.where(cause == 0, one.sf(t) * two.sf(t), density)
        assert model.log_score(X, y) == pytest.approx(np.log(likelihood).mean())

    def test_a_file_keeps_all_causes(self, caused, tmp_path):
        X, _, _, model = caused
        model.save(tmp_path / "model.pbdn")
        again = PBDNSurvival.load(tmp_path / "model.pbdn")
        np.testing.assert_array_equal(
            again.predict_cumulative_incidence(X[:5]), model.predict_cumulative_incidence(X[:5])
        )
        np.testing.assert_array_equal(again.predict(X), model.predict(X))

    def test_what_networks_tell_stands_below_each_other(self, caused):
        X, _, _, model = caused
        assert model.transform(X).shape == (len(X), model.get_feature_names_out().size)
        for table in (model.explain(X[:2]), model.subtypes(X)):
            assert table["model"].unique().tolist() == ["cause 1", "cause 2"]
        assert set(model.models_[1].explain(X[:2])["row"]) == set(model.explain(X[:2])["row"]) == {0, 1}
        assert model.effects(X)["feature"].tolist()[0] == "x0"
        with pytest.raises(InvalidInputError, match=r"models_\[0\]"):
            model.polytope_violations(X)
        with pytest.raises(InvalidInputError, match="above 0"):
            model.predict_cumulative_incidence(X, [0.0])

    def test_the_first_event_has_a_distribution(self, caused):
        X, _, _, model = caused
        first = model.predict_distribution(X[:6])
        levels = np.linspace(0.0005, 0.9995, 1000)[:, None]
        values = first.ppf(levels)
        np.testing.assert_allclose(first.cdf(values), np.broadcast_to(levels, values.shape), rtol=1e-9)
        np.testing.assert_allclose(first.mean(), values.mean(axis=0), rtol=0.02)
        t = np.linspace(0.5, 2.0, 2001)[:, None]
        gained = first.cdf(2.0) - first.cdf(0.5)
        np.testing.assert_allclose(np.trapezoid(first.pdf(t), t[:, 0], axis=0), gained, atol=1e-6)
        between = np.tile([0.5, 2.0], (6, 1))
        np.testing.assert_allclose(np.exp(first.log_likelihood(between)), gained, rtol=1e-9)
        np.testing.assert_allclose(first[2:4].median(), model.predict_median(X[2:4]))

    @pytest.mark.filterwarnings("ignore:The chains of layer")
    def test_draws_of_all_causes(self, caused):
        X, y, _, model = caused
        with pytest.raises(InvalidInputError, match="keeps no posterior draws"):
            model.predict_survival_interval(X[:2])
        chain = GibbsConfig(n_sweeps=30, n_draws=8, prediction="posterior")
        drawn = PBDNSurvival(inference="gibbs", gibbs_config=chain, max_depth=1, random_state=0).fit(X[:80], y[:80])
        low, high = np.moveaxis(drawn.predict_survival_interval(X[:4]), -1, 0)
        survival = drawn.predict_survival_function(X[:4], return_array=True)
        assert np.mean((low <= survival) & (survival <= high)) > 0.9
        pytest.importorskip("xarray", reason="the package xarray is not installed")
        tree = drawn.to_datatree(X[:80], y[:80])
        assert list(tree.children) == ["cause 1", "cause 2"]
        said = tree["cause 2"]["log_likelihood"]["y"].values
        assert said.shape == (1, 8, 80)
        first = next(iter(drawn.models_[1]._drawn(X[:80]).draws()))
        bounds = np.column_stack([y["time"], np.where(y["cause"] == 2, y["time"], np.inf)])[:80]
        np.testing.assert_allclose(said[0, 0], first.log_likelihood(bounds), rtol=1e-9)

    def test_one_cause_is_an_event(self, lived):
        X, _, y, model = lived
        numbered = np.array(list(zip(3 * y["event"], y["time"], strict=True)), dtype=[("cause", int), ("time", float)])
        short = VALUES | {"map_config": MapConfig(n_minibatches=20)}
        one, other = PBDNSurvival(**short).fit(X, y), PBDNSurvival(**short).fit(X, numbered)
        np.testing.assert_array_equal(one.predict(X), other.predict(X))
        assert other.causes_.tolist() == [3.0]
        np.testing.assert_allclose(
            one.predict_cumulative_incidence(X, [1.0])[:, 0, 0],
            one.predict_distribution(X).cdf(1.0),
            rtol=1e-9,
        )
