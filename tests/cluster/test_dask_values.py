"""Numbers, counts, grades and times on a Dask cluster: the bits, or the steps, of a fit in memory; the same after a loss."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs Dask (extra `dask`)")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd

from on_workers import GIBBS, MARKS, SHORT, assert_same, in_chunks, numbers_of, processes, scale
from pbdn import (
    GibbsConfig,
    MapConfig,
    PBDNAmountRegressor,
    PBDNCountRegressor,
    PBDNOrdinalClassifier,
    PBDNRegressor,
    PBDNSurvival,
)
from pbdn.config import starts_for
from pbdn.dask import (
    DaskPBDNAmountRegressor,
    DaskPBDNCountRegressor,
    DaskPBDNOrdinalClassifier,
    DaskPBDNRegressor,
    DaskPBDNSurvival,
    cluster,
    engines,
)
from pbdn.data.labelled_rows import LabelledRows, numeric_bounds
from pbdn.errors import InvalidInputError
from pbdn.estimators.counts import count_bounds
from pbdn.estimators.grades import grade_bounds
from pbdn.estimators.times import settled_bounds
from pbdn.model.network import Network, inputs_above
from pbdn.model.scaling import standard_scaling
from pbdn.sgd.starts import fit_timed_from_starts

pytestmark = MARKS

LINE = {"inference": "gibbs", "log": False, "max_depth": 2, "max_experts": 4, "gibbs_config": SHORT, "random_state": 3}
LINE_STEPS = MapConfig(n_minibatches=60, batch_size=50)


def make_values(n=1100, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.exp(0.5 * np.abs(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.standard_normal(n))


def values_of(model):
    """All numbers of a network of values."""
    yield from numbers_of(model)
    yield from (side.time_coefs for layer in model.layers_ for side in layer.sides)


def assert_same_values(model, other):
    assert_same(model, other)
    for one, two in zip(values_of(model), values_of(other), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.fixture(scope="module")
def line():
    """Rows with values, and what they give in memory."""
    X, y = make_values()
    return X, y, PBDNRegressor(**LINE).fit(X, y)


@pytest.mark.parametrize(
    ("n_workers", "chunk"),
    [pytest.param(1, 1100, marks=pytest.mark.long), (2, 300), pytest.param(4, 211, marks=pytest.mark.long)],
)
def test_gibbs_of_values_gives_the_bits_of_rows_in_memory(local_cluster, client, line, n_workers, chunk):
    X, y, expected = line
    scale(local_cluster, client, n_workers)
    model = DaskPBDNRegressor(**LINE).fit(*in_chunks(X, y, chunk))
    assert_same_values(model, expected)
    local = model.to_local()
    assert type(local) is PBDNRegressor
    np.testing.assert_array_equal(local.predict_interval(X[:50]), expected.predict_interval(X[:50]))


@pytest.mark.parametrize(
    "case",
    [
        "bounds",
        "only_censored",
        "fractional",
        pytest.param("whole", marks=pytest.mark.long),
        "logarithms",
        "trial",
        "map_start",
    ],
)
def test_what_values_may_say(two_workers, case):
    X, y = make_values(500)
    options, weight, rng = LINE | {"max_depth": 1}, None, np.random.default_rng(1)
    if case == "bounds":
        y = np.column_stack(
            [np.where(rng.random(500) < 0.2, -np.inf, y), np.where(rng.random(500) < 0.2, np.inf, y + 0.1)]
        )
    elif case == "only_censored":  # identical rows of one bound are merged
        X, seen = np.round(X), rng.random(500) < 0.5
        y = np.column_stack([np.where(seen, -np.inf, 1.0), np.where(seen, 2.0, np.inf)])
    elif case == "fractional":
        weight = rng.uniform(0, 3, 500) * (rng.random(500) > 0.2)
    elif case == "whole":
        weight = rng.integers(0, 4, 500).astype(float)
    elif case == "logarithms":
        options |= {"log": True}
    elif case == "trial":
        options |= {"log": "auto", "map_config": MapConfig(n_minibatches=20)}
    elif case == "map_start":
        options |= {"gibbs_config": GibbsConfig(n_sweeps=4, start="map", prediction="point")}
    expected = PBDNRegressor(**options).fit(X, y, weight)
    rows, in_dask = da.from_array(X, chunks=(150, 3)), None if weight is None else da.from_array(weight, chunks=150)
    values = da.from_array(y, chunks=(150, 2)) if y.ndim == 2 else da.from_array(y, chunks=150)
    model = DaskPBDNRegressor(**options).fit(rows, values, in_dask)
    assert_same_values(model, expected)
    assert model.log_ == expected.log_


def assert_steps_in_memory(model, X, bounds, weights=None):
    """The layers of a MAP fit on a cluster are those of the same steps on rows in memory."""
    rows = LabelledRows(X, bounds, weights).in_content_order()
    response, scaling = model.network_.response, standard_scaling(rows.inputs, rows.weights)
    values, layers, seed = response.to_line(rows.targets), [], np.random.RandomState(3).randint(2**31 - 1)
    for depth in range(1, model.depth_ + 1):
        inputs = np.ascontiguousarray(inputs_above(tuple(layers), scaling.apply(rows.inputs)))
        n_starts, n_experts = starts_for(inputs.shape[1], 2, model.max_experts)
        layer, done = fit_timed_from_starts(
            inputs, values, rows.weights, penalty=(0.3, 2.0)[depth - 1], depth=depth,
            config=replace(model.config_.map, max_experts=n_experts), seed=seed, n_starts=n_starts,
        )  # fmt: skip
        assert done
        layers.append(layer)
    expected = scaling.fold(Network(tuple(layers), X.shape[1], response))
    for layer, other in zip(model.layers_, expected.layers, strict=True):
        for one, two in zip(layer.sides, other.sides, strict=True):
            np.testing.assert_allclose(one.hyperplanes, two.hyperplanes, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(one.time_coefs, two.time_coefs, rtol=1e-10)


@pytest.mark.parametrize(
    ("n_workers", "chunk"),
    [pytest.param(1, 1100, marks=pytest.mark.long), (2, 300), pytest.param(4, 211, marks=pytest.mark.long)],
)
def test_map_of_values_takes_the_steps_of_rows_in_memory(local_cluster, client, line, n_workers, chunk):
    X, y, _ = line
    scale(local_cluster, client, n_workers)
    model = DaskPBDNRegressor(max_depth=2, log=False, random_state=3, map_config=LINE_STEPS)
    model.fit(*in_chunks(X, y, chunk))
    assert len(model.criterion_path_) == 2
    assert_steps_in_memory(model, X, numeric_bounds(y))


@pytest.mark.parametrize(
    ("inference", "place"), [("gibbs", (cluster.SharedRates, "timed_parts")), ("map", (engines.LineRows, "gathered"))]
)
def test_values_survive_a_loss(two_workers, line, monkeypatch, inference, place):
    X, y, _ = line
    options = LINE | {"inference": inference, "max_depth": 1, "map_config": LINE_STEPS}
    if inference == "map":
        options.pop("gibbs_config")
    expected = DaskPBDNRegressor(**options).fit(*in_chunks(X, y, 300))
    victim, real, seen = processes(two_workers)[0], getattr(*place), []

    def killing(*arguments):
        seen.append(1)
        if len(seen) == (5 if inference == "gibbs" else 1):
            os.kill(victim, signal.SIGKILL)
        return real(*arguments)

    monkeypatch.setattr(*place, killing)
    assert_same_values(DaskPBDNRegressor(**options).fit(*in_chunks(X, y, 300)), expected)
    processes(two_workers)


def test_frames_scores_and_files_of_values(two_workers, tmp_path):
    X, y = make_values(400)
    table = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(target=y), npartitions=3)
    options = LINE | {"max_depth": 1, "gibbs_config": GibbsConfig(n_sweeps=4, prediction="point")}
    model = DaskPBDNRegressor(**options).fit(table, "target")
    local, frame = model.to_local(), table.drop(columns="target")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(frame).compute(), local.predict(frame.compute()))
    assert model.score(table, "target") == pytest.approx(local.score(frame.compute(), y))
    model.save(tmp_path / "model.pbdn")
    loaded = PBDNRegressor.load(tmp_path / "model.pbdn")
    np.testing.assert_array_equal(loaded.predict(frame.compute()), local.predict(frame.compute()))
    holed = y.copy()
    holed[301] = np.nan
    with pytest.raises(InvalidInputError, match="Partition 2: .*NaN"):
        DaskPBDNRegressor(**options).fit(*in_chunks(X, holed, 150))
    with pytest.raises(InvalidInputError, match="Partition 0: y has -1 in row 0"):
        DaskPBDNRegressor(log=True).fit(*in_chunks(X, -np.ones(400), 150))
    with pytest.raises(InvalidInputError, match="does not do monotonic_cst"):
        DaskPBDNRegressor(log=False, map_config=MapConfig(monotonic_cst=[1, 0, 0])).fit(*in_chunks(X, y, 150))
    with pytest.warns(UserWarning, match="only one value"):
        constant = DaskPBDNRegressor().fit(*in_chunks(X, np.full(400, 2.0), 150))
    np.testing.assert_allclose(constant.predict(X[:3]), 2.0)


# ------------------------------------------------------------------------- counts, grades, times

GRADES = ["low", "middle", "high"]


def said_by(kind, y, model):
    """Targets as bounds in memory."""
    if kind == "counts":
        return count_bounds(y)
    if kind == "grades":
        return grade_bounds(np.array([GRADES.index(one) for one in y]), model.network_.response.cuts)
    return settled_bounds(y)[0]


def networks_of(model):
    return model.models_ or (model,)


def make_response(kind, n=400):
    """Both estimators, their parameters, rows, targets, and what a fit takes beside them."""
    X, y = make_values(n)
    rng = np.random.default_rng(5)
    weight = rng.uniform(0, 2, n) * (rng.random(n) > 0.2)
    if kind == "counts":
        return DaskPBDNCountRegressor, PBDNCountRegressor, {}, X, rng.poisson(3 * y), {"sample_weight": weight}
    if kind == "amounts":
        return DaskPBDNAmountRegressor, PBDNAmountRegressor, {}, X, y * (y > 1.2), {"sample_weight": weight}
    if kind in ("times", "causes", "entries"):
        fields = [("event", int if kind == "causes" else bool), ("time", float), ("entry", float)]
        times, limit = np.empty(n, dtype=fields[: 3 if kind == "entries" else 2]), rng.exponential(6.0, n)
        times["event"] = (y < limit) * (rng.integers(1, 3, n) if kind == "causes" else 1)
        times["time"] = np.minimum(y, limit)
        if kind == "entries":
            times["entry"] = 0.3 * times["time"] * (rng.random(n) < 0.5)
        return DaskPBDNSurvival, PBDNSurvival, {}, X, times, {"sample_weight": weight}
    grades = np.array(GRADES)[np.digitize(y, [1.2, 2.0])]
    parameters = {"categories": [*GRADES[:2], "never", "high"]}
    return DaskPBDNOrdinalClassifier, PBDNOrdinalClassifier, parameters, X, grades, {"sample_weight": weight}


def split(size, *arrays, **named):
    """Dask arrays of so many rows in a partition."""
    found = [da.from_array(one, chunks=(size, *one.shape[1:])) for one in (*arrays, *named.values())]
    return found[: len(arrays)], dict(zip(named, found[len(arrays) :], strict=True))


@pytest.mark.parametrize(
    "kind",
    [
        "counts",
        pytest.param("amounts", marks=pytest.mark.long),
        "grades",
        "times",
        pytest.param("causes", marks=pytest.mark.long),
    ],
)
def test_gibbs_of_other_responses_gives_the_bits_of_rows_in_memory(two_workers, kind):
    on_cluster, in_memory, parameters, X, y, beside = make_response(kind)
    options = GIBBS | {"max_depth": 1} | parameters
    expected = in_memory(**options).fit(X, y, **beside)
    for size in (400, 150):
        (rows, said), more = split(size, X, y, **beside)
        model = on_cluster(**options).fit(rows, said, **more)
        for one, two in zip(networks_of(model), networks_of(expected), strict=True):
            (assert_same if kind == "amounts" else assert_same_values)(one, two)
            assert one.network_.response == two.network_.response
            for name in one._stored:
                np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert type(model.to_local()) is in_memory
    assert list(map(type, model.models_)) == list(map(type, expected.models_))
    more.pop("sample_weight")
    there = model.predict(rows, **more)
    assert dask.is_dask_collection(there)
    beside.pop("sample_weight")
    np.testing.assert_array_equal(there.compute(), expected.predict(X, **beside))
    np.testing.assert_array_equal(model.predict(X, **beside), expected.predict(X, **beside))
    assert model.score(rows, said) == pytest.approx(expected.score(X, y), rel=1e-12)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("counts", marks=pytest.mark.long),
        pytest.param("grades", marks=pytest.mark.long),
        "times",
        pytest.param("entries", marks=pytest.mark.long),
    ],
)
def test_map_of_other_responses_takes_the_steps_of_rows_in_memory(two_workers, kind):
    on_cluster, _, parameters, X, y, beside = make_response(kind)
    weight = beside["sample_weight"]
    models = []
    for size in (400, 150):
        (rows, said), more = split(size, X, y, **beside)
        model = on_cluster(max_depth=1, random_state=3, map_config=LINE_STEPS, **parameters).fit(rows, said, **more)
        models.append(model)
        assert_same_values(model, models[0])
    kept, bounds = weight > 0, said_by(kind, y, model)
    assert_steps_in_memory(model, X[kept], bounds[kept], weight[kept])


@pytest.mark.long
def test_frames_of_counts_amounts_and_grades(two_workers, tmp_path):
    *_, X, counts, beside = make_response("counts")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    options = {"max_depth": 1, "max_experts": 3, "map_config": MapConfig(n_minibatches=10), "random_state": 3}
    table = dd.from_pandas(frame.assign(n=counts), npartitions=2)
    table = dd.concat([table[table.a > 1e9], table])  # nothing, then all
    model = DaskPBDNCountRegressor(**options).fit(table, "n")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    rows = table[["a", "b", "c"]]
    np.testing.assert_array_equal(model.predict(rows).compute(), model.to_local().predict(frame))
    with pytest.raises(InvalidInputError, match="Partition 1: y has -1 in row 3; counts must be 0 or more"):
        DaskPBDNCountRegressor(**options).fit(*in_chunks(X, np.where(np.arange(400) == 203, -1, counts), 200))

    *_, amounts, _ = make_response("amounts")
    table = dd.from_pandas(frame.assign(amount=amounts, weight=beside["sample_weight"]), npartitions=2)
    table = dd.concat([table[table.a > 1e9], table])
    sampled = options | {"inference": "gibbs", "gibbs_config": GibbsConfig(n_sweeps=4, prediction="point")}
    model = DaskPBDNAmountRegressor(**sampled, client=two_workers).fit(table, "amount", "weight")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(rows).compute(), model.to_local().predict(frame))
    with pytest.raises(InvalidInputError, match="y has -1 in row 3; amounts must be 0 or more"):
        DaskPBDNAmountRegressor(**options).fit(*in_chunks(X, np.where(np.arange(400) == 203, -1, amounts), 200))
    with pytest.warns(UserWarning, match="y is zero in every row"):
        DaskPBDNAmountRegressor(**options).fit(*in_chunks(X, np.zeros(400), 200))

    *_, grades, _ = make_response("grades")
    kinds = pd.CategoricalDtype(GRADES, ordered=True)
    table = dd.from_pandas(frame.assign(grade=pd.Series(grades).astype(kinds)), npartitions=3)
    for column in (table, table.assign(grade=table.grade.cat.as_unknown())):
        model = DaskPBDNOrdinalClassifier(**options).fit(column, "grade")
        assert model.classes_.tolist() == GRADES
    model.save(tmp_path / "grades.pbdn")
    loaded = PBDNOrdinalClassifier.load(tmp_path / "grades.pbdn")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(rows).compute())
    with pytest.raises(InvalidInputError, match="holds 'high', which is not among"):
        DaskPBDNOrdinalClassifier(**options, categories=GRADES[:2]).fit(*in_chunks(X, grades, 200))
    with pytest.warns(UserWarning, match="only one class \\('low'\\)"):
        single = DaskPBDNOrdinalClassifier(**options).fit(*in_chunks(X, np.full(400, "low"), 200))
    assert single.predict(X[:2]).tolist() == ["low", "low"]
    with pytest.raises(InvalidInputError, match="use PBDNOrdinalClassifier"):
        DaskPBDNOrdinalClassifier(map_config=MapConfig(monotonic_cst=[1, 0, 0])).fit(*in_chunks(X, grades, 200))


def test_frames_of_times(two_workers, tmp_path):
    *_, X, times, _ = make_response("causes")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    options = {"max_depth": 1, "max_experts": 3, "map_config": MapConfig(n_minibatches=10), "random_state": 3}
    table = dd.from_pandas(frame.assign(cause=times["event"], time=times["time"]), npartitions=2)
    table = dd.concat([table[table.a > 1e9], table])  # nothing, then all
    model = DaskPBDNSurvival(**options).fit(table, ("cause", "time"))
    assert model.causes_.tolist() == [1.0, 2.0]
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    rows = table[["a", "b", "c"]]
    np.testing.assert_array_equal(model.predict_median(rows).compute(), model.to_local().predict_median(frame))
    assert model.score(table, ["cause", "time"]) == model.to_local().score(frame, times)
    model.save(tmp_path / "times.pbdn")
    loaded = PBDNSurvival.load(tmp_path / "times.pbdn")
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(rows).compute())
    bounds = np.column_stack([times["time"], np.where(times["event"] > 0, times["time"], np.inf)])
    in_frames = (dd.from_pandas(one, npartitions=2) for one in (frame, pd.DataFrame(bounds)))
    one = DaskPBDNSurvival(**options).fit(*in_frames)
    other = DaskPBDNSurvival(**options).fit(*split(150, X, bounds)[0])
    assert_same_values(one, other)
    some = np.where(np.arange(400) == 203, 0.0, times["time"])
    with pytest.warns(UserWarning, match="y has 1 event at time 0, taken as before"):
        zero = DaskPBDNSurvival(**options).fit(*in_chunks(X, some, 150))
    assert zero.unique_times_[0] == times["time"].min()
    *_, late, _ = make_response("entries")
    with pytest.raises(InvalidInputError, match="does not sample times with entries into a study; use inference='map'"):
        DaskPBDNSurvival(inference="gibbs").fit(*in_chunks(X, late, 150))
    wrong = np.where(np.arange(400) == 203, -1.0, times["time"])
    with pytest.raises(InvalidInputError, match="y has the time -1 in row 203"):
        DaskPBDNSurvival(**options).fit(*in_chunks(X, wrong, 150))
