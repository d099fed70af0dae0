"""Displays: data first, drawing on demand, a table under each."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.pipeline import make_pipeline

from checks import ALPHA
from fitted import QUICK_MAP, lone_side, numbers, optimised, quickly, sampled, three_classes, with_network
from networks import random_curve, random_network
from pbdn import PBDNClassifier, PBDNRegressor
from pbdn.errors import InvalidInputError
from pbdn.inspection.access import with_names
from pbdn.inspection.curves import curve_words
from pbdn.inspection.quality import kaplan_meier
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import OneSide
from pbdn.model.wiring import Curve
from pbdn.plots import (
    CalibrationDisplay,
    ConfidenceDisplay,
    CoverageDisplay,
    CriterionPathDisplay,
    CumulativeIncidenceDisplay,
    DecisionMapDisplay,
    EffectCurveDisplay,
    ExpertImagesDisplay,
    ExpertWeightsDisplay,
    ImportanceDisplay,
    NetworkDiagramDisplay,
    PITDisplay,
    PolytopeViolationDisplay,
    PredictedObservedDisplay,
    SubtypesDisplay,
    SurvivalCalibrationDisplay,
    SurvivalCurvesDisplay,
    TraceDisplay,
)
from pbdn.plots.base import shown

plt = pytest.importorskip("matplotlib.pyplot")


DISPLAYS = {
    "map": lambda m, X, y, **k: DecisionMapDisplay.from_estimator(m, X, y, grid=20, **k),
    "violations": lambda m, X, y, **k: PolytopeViolationDisplay.from_estimator(m, X, grid=20, **k),
    "weights": lambda m, X, y, **k: ExpertWeightsDisplay.from_estimator(m, **k),
    "subtypes": lambda m, X, y, **k: SubtypesDisplay.from_estimator(m, X, **k),
    "path": lambda m, X, y, **k: CriterionPathDisplay.from_estimator(m, **k),
    "trace": lambda m, X, y, **k: TraceDisplay.from_estimator(m, **k),
    "calibration": lambda m, X, y, **k: CalibrationDisplay.from_estimator(m, X, y, **k),
    "confidence": lambda m, X, y, **k: ConfidenceDisplay.from_estimator(m, X, y, **k),
    "importance": lambda m, X, y, **k: ImportanceDisplay.from_estimator(m, X, **k),
    "curve": lambda m, X, y, **k: EffectCurveDisplay.from_estimator(m, X, 1, **k),
    "log-odds": lambda m, X, y, **k: EffectCurveDisplay.from_estimator(m, X, 0, scale="log_odds", **k),
    "diagram": lambda m, X, y, **k: NetworkDiagramDisplay.from_estimator(m, X, **k),
}
CURVED_DISPLAYS = {
    "map": lambda m, X: DecisionMapDisplay.from_estimator(m, X, X[:, 0] > 0, grid=20),
    "violations": lambda m, X: PolytopeViolationDisplay.from_estimator(m, X, grid=20),
    "weights": lambda m, X: ExpertWeightsDisplay.from_estimator(m),
    "subtypes": lambda m, X: SubtypesDisplay.from_estimator(m, X),
    "diagram": lambda m, X: NetworkDiagramDisplay.from_estimator(m, X),
}


# Figures are drawn without a screen and closed after every test.


@pytest.fixture(autouse=True)
def _close():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    yield
    plt.close("all")


# Displays: their data is right, they draw on the axes given, and each has a table.


@pytest.mark.parametrize("name", DISPLAYS)
@pytest.mark.parametrize("build", [sampled, optimised, lone_side, three_classes])
def test_draws_where_told_and_has_a_table(name, build):
    model, X, y = build()
    _, ax = plt.subplots()
    if name == "trace" and not any(model.trace_):
        with pytest.raises(InvalidInputError, match="not trained on its own"):
            DISPLAYS[name](model, X, y, ax=ax)
        return
    display = DISPLAYS[name](model, X, y, ax=ax)
    assert display.ax_ is ax
    assert ax.has_data() or name == "diagram"
    display.figure_.canvas.draw()
    table = display.table()
    assert len(table) > 0
    assert len(table.columns) >= 2
    plain = DISPLAYS[name](model, X, y, draw=False)
    assert not hasattr(plain, "ax_")


def test_map_holds_predicted_probabilities():
    model, X, _ = sampled()
    display = DecisionMapDisplay.from_estimator(model, X, features=(1, 0), grid=7, draw=False)
    table = display.table()
    rows = table[["x0", "x1"]].to_numpy()
    np.testing.assert_allclose(table["probability"], model.predict_proba(rows)[:, 1])


def test_lines_lie_on_the_hyperplanes():
    model, X, _ = lone_side()
    assert model.network_.curve is None
    display = DecisionMapDisplay.from_estimator(model, X, grid=5, draw=False)
    planes = np.concatenate([side.hyperplanes for side in model.network_.layers[0].sides])
    assert display.segments
    for _, _, ends in display.segments:
        inside = np.column_stack([np.ones(2), np.array(ends)]) @ planes.T
        scale = np.abs(planes).sum(axis=1)
        assert np.any(np.all(np.abs(inside) < 1e-8 * scale, axis=0))


def test_violations_agree_with_the_estimator():
    model, X, _ = lone_side()
    display = PolytopeViolationDisplay.from_estimator(model, X, grid=9, draw=False)
    table = display.table()
    expected = model.polytope_violations(table[["x0", "x1"]].to_numpy())[:, 0]
    np.testing.assert_array_equal(table["violations"], expected)


def test_subtypes_agree_with_the_estimator_and_become_images():
    model, X, _ = sampled()
    table = SubtypesDisplay.from_estimator(model, X, layer=1, draw=False).table()
    expected = model.subtypes(X)
    expected = expected[expected["layer"] == 1]
    np.testing.assert_allclose(table[["x0", "x1"]], expected[["x0", "x1"]])
    display = SubtypesDisplay.from_estimator(model, X, shape=(1, 2))
    drawn = np.ma.filled(display.ax_.images[0].get_array(), np.nan)
    np.testing.assert_allclose(np.sort(drawn[np.isfinite(drawn)]), np.sort(display.means.ravel()))
    with pytest.raises(InvalidInputError, match="pixels"):
        SubtypesDisplay.from_estimator(model, X, shape=(3, 3), draw=False)
    with pytest.raises(InvalidInputError, match="layer=9"):
        SubtypesDisplay.from_estimator(model, X, layer=9, draw=False)


def test_weights_keep_the_numbers_of_the_experts():
    model, X, _ = sampled()
    table = ExpertWeightsDisplay.from_estimator(model, draw=False).table()
    known = model.subtypes(X).set_index(["layer", "side", "expert"])["weight"]
    for line in table.itertuples():
        assert known[line.layer, line.side, line.expert] == line.weight


def test_maps_take_the_features_that_matter():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    model = quickly(PBDNClassifier(inference="map", map_config=QUICK_MAP, random_state=0), X, X[:, 1] * X[:, 3] > 0)
    assert DecisionMapDisplay.from_estimator(model, X, grid=4, draw=False).plane.features == (1, 3)


def test_displays_are_short_in_a_console():
    model, X, y = sampled()
    for name, build in DISPLAYS.items():
        assert len(repr(build(model, X, y, draw=False))) < 200, name


def test_calibration_bins_hold_all_rows(rng):
    p = rng.random(1000)
    y = (rng.random(1000) < p).astype(int)
    display = CalibrationDisplay.from_predictions(y, np.column_stack([1 - p, p]), [0, 1], n_bins=8, draw=False)
    assert display.count.sum() == 1000
    assert np.all(np.diff(display.predicted) > 0)
    assert np.all((display.low <= display.observed) & (display.observed <= display.high))
    assert display.observed @ display.count == pytest.approx(y.sum())


def test_curved_networks_are_drawn(rng):
    from copy import copy
    from dataclasses import replace

    from pbdn.model.network import Layer, Network, Side
    from pbdn.model.wiring import Curve

    model, X, _ = optimised()
    planes = np.array([[1.0, 0.0, 0.0, -1.0, -1.0]])  # votes inside the unit circle
    layer = Layer(tuple(Side(planes, np.ones(1)) for _ in range(2)))
    curve = Curve(np.array([0, 1]), np.zeros(2), np.ones(2))
    model = copy(model)
    model.network_ = replace(Network((layer,), 2, model.network_.response), curve=curve)
    rows = rng.uniform(-2, 2, (50, 2))
    display = DecisionMapDisplay.from_estimator(model, rows, features=(0, 1), grid=80)
    for _, _, line in display.segments:
        np.testing.assert_allclose(np.hypot(*np.array(line).T), 1.0, atol=0.01)
    assert len(display.segments) == 2
    diagram = NetworkDiagramDisplay.from_estimator(model, rows)
    assert {"x0²", "x1²"} <= {node.label for node in diagram.nodes}


def test_confidence_bars_hold_all_rows(rng):
    p = rng.random(1000)
    y = (rng.random(1000) < p).astype(int)
    display = ConfidenceDisplay.from_predictions(y, np.column_stack([1 - p, p]), [0, 1], draw=False)
    assert display.rows.sum() == 1000
    assert display.wrong.sum() == np.sum((p > 0.5) != y)
    assert ConfidenceDisplay.from_predictions(None, np.column_stack([1 - p, p]), [0, 1]).wrong is None


def test_curves_of_unknown_scales_are_refused():
    model, X, _ = sampled()
    with pytest.raises(InvalidInputError, match="scale='odds'"):
        EffectCurveDisplay.from_estimator(model, X, 0, scale="odds")


def test_traces_of_loaded_models_are_refused(tmp_path):
    model, _, _ = sampled()
    model.save(tmp_path / "m.pbdn")
    with pytest.raises(InvalidInputError, match="loaded"):
        TraceDisplay.from_estimator(type(model).load(tmp_path / "m.pbdn"), draw=False)
    with pytest.raises(InvalidInputError, match="not traced"):
        TraceDisplay.from_estimator(model, quantity="nonsense", draw=False)


def test_diagram_has_every_expert_and_only_known_ends():
    model, X, _ = sampled()
    display = NetworkDiagramDisplay.from_estimator(model, X, draw=False)
    keys = {node.key for node in display.nodes}
    assert len(keys) == model.network_.n_expanded + sum(map(sum, model.n_experts_)) + 2
    assert {edge.source for edge in display.edges} | {edge.target for edge in display.edges} <= keys
    assert max(abs(edge.strength) for edge in display.edges) == pytest.approx(1.0)


def test_feature_names_choose_axes_and_unknown_ones_are_named():
    model, X, _ = three_classes()
    display = DecisionMapDisplay.from_estimator(model, X, features=("x = 'y'", 1), grid=4, label="c", draw=False)
    assert display.plane.features == (2, 1)
    with pytest.raises(InvalidInputError, match="'zz' is not in X; .* 0 "):
        DecisionMapDisplay.from_estimator(model, X, features=("zz", 1), draw=False)


# Displays of curved networks, and traces of the optimiser.


def test_traces_of_the_optimiser(rng):
    X = rng.normal(size=(80, 2))
    model = PBDNClassifier(inference="map", criterion="aic", map_config=QUICK_MAP, max_depth=1, random_state=0)
    display = TraceDisplay.from_estimator(quickly(model, X, X[:, 0] > 0))
    assert display.quantity == "loss"
    assert len(display.table()) > 1


def bent(rng, n_features=3, **options):
    """A curved network made by hand, and rows."""
    network = random_network(rng, ((4, 3), (2, 2)), n_features, curve=random_curve(rng, n_features, 2), **options)
    return with_network(network), rng.normal(size=(60, n_features))


def test_curves_lie_where_experts_change_their_minds(rng):
    model, X = bent(rng)
    display = DecisionMapDisplay.from_estimator(model, X, X[:, 0] > 0, features=(0, 2), grid=100, draw=False)
    planes = np.concatenate([side.hyperplanes for side in model.network_.layers[0].sides])
    assert display.segments
    for _, _, points in display.segments:
        rows = np.repeat(np.median(X, axis=0)[None], len(points), axis=0)
        rows[:, [0, 2]] = points
        distance = model.network_.expand(rows) @ planes[:, 1:].T + planes[:, 0]
        assert np.abs(distance).max(axis=0).min() < 1e-2
    texts = [text.get_text() for text in display.plot().ax_.get_legend().get_texts()]
    assert "curve for 1" in texts
    assert not any("hyperplane" in text for text in texts)


def test_a_ball_is_drawn_as_a_circle(rng):
    side = Side(np.array([[1.0, 0.0, 0.0, -1.0, -1.0]]), np.ones(1))
    network = Network((Layer((side,)),), 2, OneSide(), Curve(np.array([0, 1]), np.array([0.5, -0.5]), np.ones(2)))
    X = rng.uniform(-2.0, 2.0, size=(50, 2))
    display = DecisionMapDisplay.from_estimator(with_network(network), X, grid=100, draw=False)
    ((_, _, points),) = display.segments
    np.testing.assert_allclose(np.linalg.norm(np.array(points) - [0.5, -0.5], axis=1), 1.0, atol=1e-3)
    assert points[0] == points[-1]


@pytest.mark.parametrize("name", CURVED_DISPLAYS)
def test_displays_of_a_curved_network(rng, name):
    model, X = bent(rng)
    assert len(CURVED_DISPLAYS[name](model, X).table()) > 0


def test_squares_stand_beside_the_features_in_a_diagram(rng):
    model, X = bent(rng)
    display = NetworkDiagramDisplay.from_estimator(model, X, draw=False)
    labels = [node.label for node in display.nodes if node.layer == 0]
    assert labels == ["x0", "x1", "x2", *(f"x{j}²" for j in model.network_.curve.columns)]
    assert {edge.source for edge in display.edges if edge.source.startswith("f")} <= {f"f{j}" for j in range(5)}
    assert any(edge.source in ("f3", "f4") for edge in display.edges)


@pytest.mark.parametrize("display", [PredictedObservedDisplay, PITDisplay, CoverageDisplay])
@pytest.mark.parametrize("kind", ["number", "count", "amount"])
def test_displays_of_numbers(display, kind):
    model, X, y = numbers(kind)
    made = display.from_estimator(model, X, y, draw=False)
    _, ax = plt.subplots()
    assert made.plot(ax).ax_ is ax
    plt.close("all")
    assert len(made.table())


def test_values_of_the_model_are_evenly_spread_and_covered(rng):
    """Values drawn from the predicted distributions themselves."""
    model, X, _ = numbers()
    rows = np.asarray(X)[rng.integers(len(X), size=1000)]
    y = model.predict_distribution(with_names(model, rows)).sample(1, random_state=int(rng.integers(2**31)))[0]
    values = PITDisplay.from_estimator(model, with_names(model, rows), y, draw=False).values
    assert stats.kstest(values, "uniform").pvalue > ALPHA
    covered = CoverageDisplay.from_estimator(model, with_names(model, rows), y, draw=False).table()
    assert np.all(np.abs(covered["covered"] - covered["probability"]) < 0.1)


def test_zeros_are_covered_in_part(rng):
    """Amounts drawn from the predicted distributions: a zero has a probability of its own, which an interval may cut."""
    model, X, _ = numbers("amount")
    rows = with_names(model, np.asarray(X)[rng.integers(len(X), size=1000)])
    y = model.predict_distribution(rows).sample(1, random_state=int(rng.integers(2**31)))[0]
    assert np.mean(y == 0.0) > 0.2
    assert stats.kstest(PITDisplay.from_estimator(model, rows, y, draw=False).values, "uniform").pvalue > ALPHA
    covered = CoverageDisplay.from_estimator(model, rows, y, draw=False).table()
    assert np.all(np.abs(covered["covered"] - covered["probability"]) < 0.06)


def test_causes_over_time_are_beside_what_was_observed():
    model, X, y = numbers("causes")
    display = CumulativeIncidenceDisplay.from_estimator(model, X, y)
    assert np.all(np.diff(display.predicted, axis=1) >= 0.0)
    assert np.abs(display.predicted - display.observed).max() < 0.2
    curves = SurvivalCurvesDisplay.from_estimator(model, X, y)
    plt.close("all")
    whole = SurvivalCurvesDisplay.from_estimator(model, X, draw=False)
    assert whole.observed is None
    mean = model.predict_survival_function(X, return_array=True).mean(axis=0)
    np.testing.assert_allclose(curves.predicted.mean(axis=0), mean)  # thirds of equal size
    alone, _ = kaplan_meier(y["time"], y["cause"] > 0, display.times)
    np.testing.assert_allclose(display.observed.sum(axis=0), 1.0 - alone, atol=1e-12)
    assert set(display.table()["cause"]) == {"cause 1", "cause 2"}


@pytest.mark.parametrize("kind", ["time", "causes"])
def test_survival_is_compared_at_some_times(kind):
    model, X, y = numbers(kind)
    display = SurvivalCalibrationDisplay.from_estimator(model, X, y)
    plt.close("all")
    assert display.predicted.shape == (len(display.times), 5)
    assert np.all((display.low <= display.observed) & (display.observed <= display.high))
    assert np.all(np.diff(display.predicted, axis=1) >= 0.0)
    own = SurvivalCalibrationDisplay.from_estimator(model, X, y, times=[2.0], draw=False)
    assert len(own.table()) == 5
    assert np.mean(own.predicted) == pytest.approx(model.predict_distribution(X).sf(2.0).mean())


def test_greenwoods_interval_without_censoring_is_that_of_a_share():
    share, half = kaplan_meier(np.arange(1.0, 101.0), np.ones(100, bool), np.array([0.5, 30.0, 100.0]))
    np.testing.assert_allclose(share, [1.0, 0.7, 0.0], atol=1e-12)
    assert half[1] == pytest.approx(1.96 * np.sqrt(0.7 * 0.3 / 100))


def test_survival_curves_are_beside_what_was_observed():
    model, X, y = numbers("time")
    display = SurvivalCurvesDisplay.from_estimator(model, X, y)
    plt.close("all")
    assert display.predicted.shape == display.observed.shape == (3, len(model.unique_times_))
    assert np.all(np.diff(display.predicted, axis=1) <= 0.0)
    assert np.all(np.diff(display.observed, axis=1) <= 0.0)
    assert np.all(np.diff(display.predicted[:, -1]) < 0.0)  # the higher the risk, the fewer are left
    assert np.abs(display.predicted - display.observed).max() < 0.3
    assert SurvivalCurvesDisplay.from_estimator(model, X, draw=False).observed is None


def test_a_curve_of_numbers_is_the_mean_prediction():
    model, X, _ = numbers()
    display = EffectCurveDisplay.from_estimator(model, X, "size")
    plt.close("all")
    assert display.curve.classes == []
    assert np.all(np.diff(display.curve.probability[:, 0]) > 0.0)
    assert "rises from" in curve_words(display.curve, spread=10.0)
    assert set(display.table()["class"]) == {"prediction"}


def test_a_picture_of_many_values_holds_those_that_its_words_name(rng):
    from pbdn.inspection.columns import ColumnGroup
    from pbdn.inspection.curves import EffectCurve

    p = np.column_stack([1.0 - (second := rng.permutation(40) / 40), second])
    counts = np.where((second > 0.0) & (second < second.max()), 5.0, 1.0)  # the ends are the rarest
    group = ColumnGroup("city", "category", tuple(range(40)), tuple(f"c{k}" for k in range(40)))
    labels, at, none = [f"c{k}" for k in range(40)], np.arange(40.0), np.empty(0)
    display = EffectCurveDisplay(EffectCurve(group, ["no", "yes"], at, labels, True, p, p, p, p, none, counts)).plot()
    plt.close("all")
    written = [tick.get_text() for tick in display.ax_.get_xticklabels()]
    words = curve_words(display.curve, "yes")
    assert len(written) == 12
    assert {labels[second.argmin()], labels[second.argmax()]} <= set(written)
    assert f"lowest at {labels[second.argmin()]} " in words
    assert display.ax_.get_xlabel().startswith("city\n12 of 40 values")


# What displays are given: estimators of the right kind, fitted, and targets that belong to the rows.

OF_NUMBERS = [PredictedObservedDisplay, PITDisplay, CoverageDisplay]
OF_LABELS = [CalibrationDisplay, ConfidenceDisplay, DecisionMapDisplay]
OF_TIMES = [SurvivalCurvesDisplay, SurvivalCalibrationDisplay, CumulativeIncidenceDisplay]
OF_ROWS = [ImportanceDisplay, NetworkDiagramDisplay, SubtypesDisplay, PolytopeViolationDisplay]
OF_NO_ROWS = [CriterionPathDisplay, TraceDisplay, ExpertWeightsDisplay]


@pytest.mark.parametrize("display", OF_NUMBERS)
@pytest.mark.parametrize("kind", ["number", "count", "amount"])
def test_numbers_in_a_column_are_numbers(display, kind):
    model, X, y = numbers(kind)
    plain = display.from_estimator(model, X, y, draw=False).table()
    for column in (np.asarray(y)[:, None], pd.DataFrame({"y": np.asarray(y)})):
        with pytest.warns(DataConversionWarning):
            found = display.from_estimator(model, X, column, draw=False).table()
        pd.testing.assert_frame_equal(found, plain)


@pytest.mark.parametrize("display", OF_NUMBERS)
def test_numbers_that_do_not_belong_to_the_rows_are_refused(display):
    model, X, y = numbers()
    for wrong in (y[:1], np.concatenate([y, y])):
        with pytest.raises(InvalidInputError, match=f"y has the length {len(wrong)}, but X has 150 rows"):
            display.from_estimator(model, X, wrong)
    with pytest.raises(ValueError, match="NaN"):
        display.from_estimator(model, X, np.where(y > np.median(y), np.nan, y))
    with pytest.raises(InvalidInputError, match="compares with values"):
        display.from_estimator(model, X, np.column_stack([y - 1.0, y]))


@pytest.mark.parametrize("display", OF_LABELS)
def test_labels_are_one_known_class_for_each_row(display):
    model, X, y = sampled()
    plain = display.from_estimator(model, X, y, draw=False)
    with pytest.warns(DataConversionWarning):
        column = display.from_estimator(model, X, pd.DataFrame({"y": y}), draw=False)
    pd.testing.assert_frame_equal(column.table(), plain.table())
    for wrong, words in (
        (y[:1], "y has the length 1, but X has 160 rows"),
        (np.concatenate([y, y]), "y has the length 320"),
        (y.astype(str), "y has the label '[01]', which the model was not fitted on; its classes are 0, 1"),
        (np.where(y == 1, 2, y), "y has the label 2"),
        (np.where(y == 1, np.nan, y), "missing label"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            display.from_estimator(model, X, wrong)


def test_labels_beside_predictions_belong_to_the_rows():
    p = np.full((20, 2), 0.5)
    for display in (CalibrationDisplay, ConfidenceDisplay):
        for wrong, words in ((np.zeros(1), "length 1"), (np.full(20, np.nan), "missing")):
            with pytest.raises(InvalidInputError, match=words):
                display.from_predictions(wrong, p, [0, 1])


@pytest.mark.parametrize("display", OF_TIMES)
def test_times_are_seen_or_censored_from_the_right(display):
    model, X, y = numbers("time")
    before = np.column_stack([np.where(y["time"] > 2.0, 0.0, y["time"]), y["time"]])
    with pytest.raises(InvalidInputError, match="seen or censored from the right"):
        display.from_estimator(model, X, before)
    with pytest.raises(InvalidInputError, match="y has the length 9"):
        display.from_estimator(model, X, y[:9])


def test_without_an_event_times_to_compare_at_are_needed():
    model, X, y = numbers("time")
    none = y.copy()
    none["event"] = False
    with pytest.raises(InvalidInputError, match="No event was seen in y.*give times"):
        SurvivalCalibrationDisplay.from_estimator(model, X, none)
    display = SurvivalCalibrationDisplay.from_estimator(model, X, none, times=[2.0], draw=False)
    assert np.all(display.observed == 1.0)


@pytest.mark.parametrize("display", OF_TIMES)
def test_times_may_be_a_frame(display):
    model, X, y = numbers("causes")
    frame = pd.DataFrame({name: y[name] for name in y.dtype.names})
    plain = display.from_estimator(model, X, y, draw=False).table()
    pd.testing.assert_frame_equal(display.from_estimator(model, X, frame, draw=False).table(), plain)


def test_displays_say_which_estimators_they_are_for():
    (model, X, y), (regressor, rows, values) = sampled(), numbers()
    for display in OF_NUMBERS:
        with pytest.raises(InvalidInputError, match=f"{display.__name__} is for .*counts, amounts or times; PBDNClass"):
            display.from_estimator(model, X, y)
    for display in OF_LABELS:
        with pytest.raises(InvalidInputError, match=f"{display.__name__} is for .*classes or grades; PBDNRegressor"):
            display.from_estimator(regressor, rows, values)
    for display in OF_TIMES:
        for one in (model, regressor):
            with pytest.raises(
                InvalidInputError, match=f"{display.__name__} is for .*predict times; {type(one).__name__}"
            ):
                display.from_estimator(one, X, y)
    pipeline = make_pipeline(model)
    for display in (*OF_ROWS, *OF_NO_ROWS):
        with pytest.raises(InvalidInputError, match="is for estimators of pbdn; Pipeline is none. If it holds one"):
            display.from_estimator(pipeline, *[X] * (display in OF_ROWS))
    with pytest.raises(
        InvalidInputError, match="ExpertImagesDisplay is for ConvPBDNClassifier of pbdn.torch; PBDNClass"
    ):
        ExpertImagesDisplay.from_estimator(model, X)
    assert CalibrationDisplay.from_estimator(pipeline, X, y, draw=False).count.sum() == len(y)


@pytest.mark.parametrize("display", [*OF_LABELS, *OF_NUMBERS, *OF_TIMES, *OF_ROWS, *OF_NO_ROWS])
def test_estimators_that_are_not_fitted_say_so(display):
    kinds = [(OF_NUMBERS, "number"), (OF_TIMES, "time")]
    kind = next((kind for displays, kind in kinds if display in displays), None)
    unfitted = PBDNClassifier() if kind is None else type(numbers(kind)[0])()
    given = () if display in OF_NO_ROWS else (np.eye(4),) if display in OF_ROWS else (np.eye(4), [0, 1, 0, 1])
    with pytest.raises(NotFittedError):
        display.from_estimator(unfitted, *given)


def test_maps_of_unknown_classes_are_refused():
    model, X, _ = sampled()
    with pytest.raises(InvalidInputError, match="label='1' is not known; use one of 0, 1"):
        DecisionMapDisplay.from_estimator(model, X, label="1")


@pytest.mark.parametrize("display", [CriterionPathDisplay, TraceDisplay])
def test_training_is_shown_of_one_network_only(display):
    for kind in ("causes", "amount"):
        with pytest.raises(InvalidInputError, match=r"several networks; ask one of them: model.models_\[0\]"):
            display.from_estimator(numbers(kind)[0])
    assert CriterionPathDisplay.from_estimator(numbers("causes")[0].models_[0], draw=False).steps
    constant = quickly(PBDNRegressor(), np.eye(4), np.ones(4))
    with pytest.raises(InvalidInputError, match="There is no .* rows of different values"):
        display.from_estimator(constant)


# Columns go by their places in X, and pictures say what they show.


@lru_cache
def with_columns_left_out():
    rng = np.random.default_rng(0)
    columns = {"key": [f"k{j}" for j in range(200)], "same": 1.0, "size": rng.normal(size=200)}
    frame = pd.DataFrame({**columns, "kind": rng.choice(["a", "b", "c"], 200), "age": rng.normal(size=200)})
    y = (frame["size"] + frame["age"] > 0).astype(int)
    model = PBDNClassifier(inference="map", map_config=QUICK_MAP, max_depth=1, random_state=0)
    return quickly(model, frame, y), frame


def test_columns_go_by_their_places_in_x():
    model, frame = with_columns_left_out()
    for column, name in ((2, "size"), (np.int64(4), "age"), ("kind", "kind")):
        display = EffectCurveDisplay.from_estimator(model, frame, column)
        assert display.curve.group.name == display.ax_.get_xlabel() == name
    there = "use the place or the name of one of these: 2 'size', 3 'kind', 4 'age'."
    for column in (0, 1, "same"):
        with pytest.raises(InvalidInputError, match=f"{column!r} was left out of the model; {there}"):
            EffectCurveDisplay.from_estimator(model, frame, column)
    for column in (5, -1, 1.5, "zzz"):
        with pytest.raises(InvalidInputError, match=f"{column!r} is not in X; {there}"):
            EffectCurveDisplay.from_estimator(model, frame, column)


def test_maps_take_columns_by_their_places_and_categories_by_their_values():
    model, frame = with_columns_left_out()
    for features in ((2, 4), ("size", "age")):
        display = DecisionMapDisplay.from_estimator(model, frame, features=features, grid=4, draw=False)
        assert display.plane.names == ("size", "age")
    display = DecisionMapDisplay.from_estimator(model, frame, features=("kind = b", 4), grid=4, draw=False)
    assert display.plane.names == ("kind = b", "age")
    for features, words in (
        ((3, 4), "'kind' has a feature for each of its values; use one of 'kind = a', 'kind = b', 'kind = c'"),
        ((0, 4), "0 was left out"),
        ((2,), "two features"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            DecisionMapDisplay.from_estimator(model, frame, features=features)


def test_curves_of_times_are_of_the_median():
    model, X, _ = numbers("time")
    display = EffectCurveDisplay.from_estimator(model, X, "size")
    assert display.ax_.get_ylabel() == "median time"
    assert set(display.table()["class"]) == {"median time"}
    assert curve_words(display.curve).startswith("The median time rises from ")


@pytest.mark.parametrize(("kind", "head"), [("number", "numbers"), ("time", "times"), ("grade", "grades")])
def test_diagrams_say_what_is_predicted(kind, head):
    model, X, _ = numbers(kind)
    texts = [text.get_text() for text in NetworkDiagramDisplay.from_estimator(model, X).ax_.texts]
    assert head in texts
    assert "classes" not in texts


def test_long_names_that_begin_alike_stay_different():
    names = [f"feature_with_a_long_name_{j}" for j in range(30)]
    for length in (12, 16, 22, 24, 40):
        cut = [shown(name, length) for name in names]
        assert len(set(cut)) == len(names)
        assert max(map(len, cut)) <= length
    assert shown("feature_with_a_long_name_17", 16) == "feature_with…_17"
