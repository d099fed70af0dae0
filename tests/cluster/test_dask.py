"""Classifiers on a Dask cluster: the bits of a fit in memory for any workers and partitions, the same after a loss, clear errors."""

import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs Dask (extra `dask`)")

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from distributed import Client, LocalCluster

from on_workers import GIBBS, MAP, MARKS, assert_same, in_chunks, numbers_of, processes, scale
from pbdn import (
    GibbsConfig,
    MapConfig,
    PBDNClassifier,
)
from pbdn.dask import (
    DaskPBDNAmountRegressor,
    DaskPBDNClassifier,
    cluster,
    engines,
)
from pbdn.errors import ClusterError, InvalidInputError
from pbdn.gibbs.rows import BLOCK_ROWS, group_blocks

pytestmark = MARKS


def make_data(n=1500, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n) > 0, "yes", "no")


@pytest.fixture(scope="module")
def plain():
    """Rows, and what they give in memory."""
    X, y = make_data()
    return X, y, PBDNClassifier(**GIBBS).fit(X, y)


# ------------------------------------------------------------------------------ the same answer


@pytest.mark.parametrize(("n_workers", "chunk"), [(1, 1500), (2, 400), pytest.param(4, 611, marks=pytest.mark.long)])
def test_gibbs_gives_the_bits_of_rows_in_memory(local_cluster, client, plain, n_workers, chunk):
    X, y, expected = plain
    scale(local_cluster, client, n_workers)
    model = DaskPBDNClassifier(**GIBBS).fit(*in_chunks(X, y, chunk))
    assert_same(model, expected)
    local = model.to_local()
    assert type(local) is PBDNClassifier
    np.testing.assert_array_equal(local.predict_proba(X), expected.predict_proba(X))


def test_paths_and_frames_with_empty_partitions(two_workers):
    X, y = make_data(700)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    options = GIBBS | {"max_depth": 1, "gibbs_config": GibbsConfig(n_sweeps=4, n_paths=2, n_draws=2)}
    expected = PBDNClassifier(**options).fit(frame, y)
    table = dd.from_pandas(frame.assign(label=y), npartitions=3)
    table = dd.concat([table[table.a > 1e9], table, table[table.a > 1e9]])  # nothing, all, nothing
    model = DaskPBDNClassifier(**options).fit(table, "label")
    assert_same(model, expected)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(
        model.predict_proba(table.drop(columns="label")).compute(), expected.predict_proba(frame)
    )
    np.testing.assert_array_equal(model.predict(table.drop(columns="label")).compute(), expected.predict(frame))
    assert model.score(table, "label") == expected.score(frame, y)


@pytest.mark.parametrize(
    "case",
    [
        "fractional",
        pytest.param("whole", marks=pytest.mark.long),
        "balanced",
        pytest.param("dict", marks=pytest.mark.long),
        "repeated_rows",
        "three_classes",
        "one_column",
    ],
)
def test_weights_classes_and_repeated_rows(two_workers, case):
    X, y = make_data(900)
    weight, class_weight, rng = None, None, np.random.default_rng(1)
    if case == "fractional":
        weight = rng.uniform(0, 3, len(y)) * (rng.random(len(y)) > 0.2)
    elif case == "whole":
        weight = rng.integers(0, 4, len(y)).astype(float)
    elif case == "balanced":
        class_weight = "balanced"
    elif case == "dict":
        class_weight = {"yes": 2.0, "no": 1.0}
    elif case == "repeated_rows":
        X = np.round(X)  # few distinct rows, merged where they say nothing
    elif case == "three_classes":
        y = np.where(X[:, 2] > 0.5, "other", y)
    elif case == "one_column":
        X = X[:, :1]
    options = GIBBS | {"class_weight": class_weight}
    if case == "three_classes":
        options |= {"max_depth": 1}
    expected = PBDNClassifier(**options).fit(X, y, weight)
    in_dask = None if weight is None else da.from_array(weight, chunks=250)
    assert_same(DaskPBDNClassifier(**options).fit(*in_chunks(X, y, 250), in_dask), expected)


def test_few_rows_of_many_columns_and_another_sampler(two_workers):
    X, y = make_data(30, 40)
    expected = PBDNClassifier(**GIBBS).fit(X, y)
    assert_same(DaskPBDNClassifier(**GIBBS).fit(*in_chunks(X, y, 7)), expected)
    X, y = make_data(600)
    options = GIBBS | {
        "max_depth": 1,
        "gibbs_config": GibbsConfig(n_sweeps=4, sampler="event_times", prediction="point"),
    }
    expected = PBDNClassifier(**options).fit(np.round(X), y)
    assert_same(DaskPBDNClassifier(**options).fit(*in_chunks(np.round(X), y, 100)), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_map_takes_the_steps_of_rows_in_memory(two_workers, weighted, monkeypatch):
    X, y = make_data()
    each = engines.ClusterSource.each

    def by_name(self, function):
        pickle.dumps(function)  # one that is sent with its kernels has them compiled anew by every worker
        return each(self, function)

    monkeypatch.setattr(engines.ClusterSource, "each", by_name)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(y)) if weighted else None
    expected = PBDNClassifier(**MAP).fit(X, y, weight)
    model = DaskPBDNClassifier(**MAP).fit(
        *in_chunks(X, y, 400), None if weight is None else da.from_array(weight, chunks=400)
    )
    assert model.n_experts_ == expected.n_experts_
    for one, two in zip(numbers_of(model), numbers_of(expected), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-10)
    for one, two in zip(model.trace_, expected.trace_, strict=True):
        np.testing.assert_allclose(one["loss"], two["loss"], rtol=1e-10)


def test_a_checkpoint_goes_on_with_other_workers_and_partitions(local_cluster, client, plain, tmp_path, monkeypatch):
    X, y, expected = plain
    scale(local_cluster, client, 2)
    path, draw, seen = tmp_path / "fit.pbdn", cluster.SharedSweep.draw_events, []

    def interrupted(self, experts):
        seen.append(1)
        if len(seen) == 9:
            raise KeyboardInterrupt
        return draw(self, experts)

    monkeypatch.setattr(cluster.SharedSweep, "draw_events", interrupted)
    with pytest.raises(KeyboardInterrupt):
        DaskPBDNClassifier(**GIBBS, checkpoint=path).fit(*in_chunks(X, y, 400))
    assert [one.name for one in tmp_path.iterdir()] == ["fit.pbdn"]
    scale(local_cluster, client, 1)
    assert_same(DaskPBDNClassifier(**GIBBS, checkpoint=path).fit(*in_chunks(X, y, 700)), expected)


def test_messages_are_as_long_as_the_cost_model_says(two_workers, monkeypatch):
    X, y = make_data(3000, 12)
    counted, close = [], cluster.Group.close
    monkeypatch.setattr(cluster.Group, "close", lambda self: (close(self), counted.append(self.n_bytes))[0])
    options = GIBBS | {"max_depth": 1, "gibbs_config": GibbsConfig(n_sweeps=20, prediction="point", pruning="none")}
    DaskPBDNClassifier(**options).fit(*in_chunks(X, y, 1000))
    D, K, n_workers = 13, 4, 2
    n_groups = -(-3000 // (group_blocks(3000) * BLOCK_ROWS))
    statistics = 8 * K * (D * (D + 1) // 2 + D)
    down = n_workers * 8 * K * (D + 2) + (n_workers - 1) * statistics
    up = n_groups * 8 * (2 * K + 1) + n_workers * statistics
    for sent, received in counted:
        assert 0 < sent - 20 * down < 20 * 800 * n_workers
        assert 0 < received - 20 * up < 20 * 800 * n_workers


# --------------------------------------------------------------------------------------- faults


def test_a_worker_killed_at_any_moment_changes_nothing(local_cluster, client, plain):
    X, y, expected = plain
    scale(local_cluster, client, 2)
    data = in_chunks(X, y, 400)
    rng, began = np.random.default_rng(8), time.monotonic()
    DaskPBDNClassifier(**GIBBS).fit(*data)
    seconds = time.monotonic() - began
    for moment in (0.05, 0.4, 0.8):
        victim = rng.choice(processes(client))
        killer = threading.Timer(moment * seconds, os.kill, (int(victim), signal.SIGKILL))
        killer.start()
        try:
            assert_same(DaskPBDNClassifier(**GIBBS).fit(*data), expected)
        finally:
            killer.join()


@pytest.mark.long
def test_map_goes_on_after_a_loss(two_workers, monkeypatch):
    X, y = make_data()
    expected = DaskPBDNClassifier(**MAP).fit(*in_chunks(X, y, 400))
    victim, gradient, seen = processes(two_workers)[0], engines.ClusterTrainer.gradient, []

    def killing(self, index):
        seen.append(1)
        if len(seen) == 7:
            os.kill(victim, signal.SIGKILL)
        return gradient(self, index)

    monkeypatch.setattr(engines.ClusterTrainer, "gradient", killing)
    model = DaskPBDNClassifier(**MAP).fit(*in_chunks(X, y, 400))
    for one, two in zip(numbers_of(model), numbers_of(expected), strict=True):
        np.testing.assert_array_equal(one, two)


def test_nobody_is_left_behind(two_workers):
    """Threads that answer a driver end with its fit."""

    def answering():
        return sum(thread.name.startswith("pbdn") for thread in threading.enumerate())

    processes(two_workers)
    deadline = time.monotonic() + 30
    while sum(two_workers.run(answering).values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sum(two_workers.run(answering).values()) == 0


def test_lost_rows_workers_and_schedulers_are_named(two_workers, monkeypatch):
    X, y = make_data(600)
    holed = X.copy()
    holed[301, 2] = np.nan
    with pytest.raises(InvalidInputError, match="Partition 1 of X has a missing or infinite value in column 2"):
        DaskPBDNClassifier(**GIBBS).fit(*in_chunks(holed, y, 300))

    def unreadable(block, block_info=None):
        raise OSError("the disk is gone")

    rows, labels = in_chunks(X, y, 300)
    broken = rows.map_blocks(unreadable, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ClusterError, match="Partition 0 of X could not be computed: OSError: the disk is gone"):
        DaskPBDNClassifier(**GIBBS).fit(broken, labels)
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    monkeypatch.setattr(cluster, "POLL_SECONDS", 0.2)
    with LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty:
        alone = Client(empty)
        with pytest.raises(ClusterError, match=r"no worker for 0 seconds.*checkpoint='kept'"):
            DaskPBDNClassifier(**GIBBS, client=alone, checkpoint="kept").fit(rows, labels)
        alone.close()
        with pytest.raises(ClusterError, match="connection to the Dask scheduler is lost"):
            DaskPBDNClassifier(**GIBBS, client=alone).fit(rows, labels)


def test_a_task_that_ends_every_worker_is_named(two_workers, monkeypatch):
    X, y = make_data(600)
    rows, labels = in_chunks(X, y, 600)

    def deadly(block):
        os._exit(1)

    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        monkeypatch.setattr(two_workers.cluster.scheduler, "allowed_failures", 0)
        with pytest.raises(ClusterError, match="ended every Dask worker that tried it"):
            DaskPBDNClassifier(**GIBBS).fit(rows.map_blocks(deadly, dtype=float, meta=np.empty((0, 0))), labels)
    processes(two_workers)


# --------------------------------------------------------------------------------- what is refused


def test_what_a_cluster_does_not_do_is_said(two_workers):
    X, y = make_data(100)
    rows, labels = in_chunks(X, y, 50)
    table = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "b": y}), npartitions=2)
    cases = [
        ({"criterion": "folds"}, (rows, labels), "criterion='folds' needs rows in memory"),
        ({"inference": "map+gibbs"}, (rows, labels), "does not do inference='map\\+gibbs'"),
        ({"inference": "gibbs", "gibbs_config": GibbsConfig(sampler="counts")}, (rows, labels), "sampler='counts'"),
        ({"map_config": MapConfig(device="cpu")}, (rows, labels), "leave device of map_config out"),
        ({}, (X, labels), "X is a ndarray; give a dask array or dataframe"),
        ({}, (rows, da.from_array(y[:90], chunks=50)), "X has 100 rows, but y has 90"),
        ({"class_weight": "other"}, (rows, labels), "class_weight='other'"),
        ({}, (rows, labels, da.zeros(100, chunks=50)), "sample_weight is zero for every row"),
        ({}, (rows, labels, da.full(100, -1.0, chunks=50)), "values that are not negative"),
        (
            {},
            (dd.from_pandas(pd.DataFrame({"a": y}), npartitions=2), labels),
            "Partition 0 of X holds something that is no",
        ),
        ({}, (table, "zz"), r"y='zz' names 'zz', but X has the columns \['a', 'b'\]"),
        ({}, (table, "b", "w"), "sample_weight='w' names 'w', but X has the columns"),
        ({}, (rows, "b"), "y='b' names 'b', but X is a Array without names of columns"),
    ]
    for options, arguments, words in cases:
        with pytest.raises(InvalidInputError, match=words):
            DaskPBDNClassifier(**options).fit(*arguments)
    with pytest.raises(InvalidInputError, match="y='zz' names 'zz'"):
        DaskPBDNAmountRegressor().fit(table, "zz")


def test_one_class_and_saving(two_workers, tmp_path):
    X, y = make_data(100)
    with pytest.warns(UserWarning, match="only one class"):
        model = DaskPBDNClassifier(**GIBBS).fit(*in_chunks(X, np.full(100, "yes"), 50))
    assert model.predict(X[:3]).tolist() == ["yes"] * 3
    model.save(tmp_path / "model.pbdn")
    assert PBDNClassifier.load(tmp_path / "model.pbdn").predict(X[:3]).tolist() == ["yes"] * 3
