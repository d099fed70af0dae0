"""Estimators on data that are read in pieces: Parquet, Arrow, memory maps, batches."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from pbdn import (
    GibbsConfig,
    ISHMClassifier,
    MapConfig,
    PBDNClassifier,
)
from pbdn.data import open_stream as opening
from pbdn.data.arrow_parquet import ArrowSource
from pbdn.data.prefetch import read_ahead, work_ahead
from pbdn.data.streams import BatchSource, MemmapSource
from pbdn.errors import InvalidInputError
from pbdn.model.scaling import standard_scaling

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

N = 1200
LABELS = np.array(["no", "yes"])
QUICK = MapConfig(n_minibatches=400, prune_every=200)

pytestmark = pytest.mark.filterwarnings("ignore:The criterion was still falling")


def model(seed, **changes):
    settings = {"inference": "map", "random_state": seed % 2**31, "max_depth": 2, "max_experts": 6, "map_config": QUICK}
    return PBDNClassifier(**settings | changes)


@pytest.fixture
def folder(tmp_path, rows):
    X, y, weight = rows
    table = pa.table({"small": X[:, 0], "large": X[:, 1], "label": y, "weight": weight})
    (tmp_path / "data").mkdir()
    for k in range(3):
        pq.write_table(table.slice(k * 400, 400), tmp_path / "data" / f"part-{k}.parquet", row_group_size=150)
    return tmp_path / "data"


@pytest.fixture
def memmap(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(opening, "LOAD_BELOW", 1)
    stored = np.memmap(tmp_path / "x.bin", dtype=np.float64, mode="w+", shape=(N, 2))
    stored[:] = rows[0]
    stored.flush()
    return np.memmap(tmp_path / "x.bin", dtype=np.float64, mode="r", shape=(N, 2))


def batches_of(rows, size=170):
    X, y, _ = rows
    return [(X[a : a + size], y[a : a + size]) for a in range(0, len(y), size)]


def stream_of(kind, rows, folder, memmap):
    """X and y as `fit` takes them."""
    parts = batches_of(rows)
    return {
        "folder": lambda: (folder, "label"),
        "text path": lambda: (str(folder), "label"),
        "dataset": lambda: (ds.dataset(folder), "label"),
        "table": lambda: (ds.dataset(folder).to_table(), "label"),
        "memmap": lambda: (memmap, rows[1]),
        "list": lambda: (parts, None),
        "function": lambda: (lambda: iter(parts), None),
        "source": lambda: (BatchSource(parts, buffer_rows=300), None),
    }[kind]()


@pytest.mark.parametrize("kind", ["folder", "text path", "dataset", "table", "memmap", "list", "function", "source"])
def test_a_stream_teaches_what_the_array_teaches(kind, rows, folder, memmap, seed):
    X, y = stream_of(kind, rows, folder, memmap)
    if kind in ("folder", "text path", "dataset", "table"):
        features = pq.read_table(folder).select(["small", "large", "label"])
        for part in folder.iterdir():
            pq.write_table(pq.read_table(part).drop_columns(["weight"]), part, row_group_size=150)
        X = {"folder": folder, "text path": str(folder), "dataset": ds.dataset(folder), "table": features}[kind]
    fitted = model(seed).fit(X, y)
    assert list(fitted.classes_) == ["no", "yes"]
    assert fitted.n_features_in_ == 2
    assert hasattr(fitted, "feature_names_in_") == (kind in ("folder", "text path", "dataset", "table"))
    plain = np.asarray(rows[0])
    if hasattr(fitted, "feature_names_in_"):
        pd = pytest.importorskip("pandas")
        assert list(fitted.feature_names_in_) == ["small", "large"]
        plain = pd.DataFrame(plain, columns=["small", "large"])
    assert fitted.score(plain, rows[1]) > 0.85  # no hyperplane does better than about 1/2 here
    assert fitted.depth_ == len(fitted.criterion_path_) - 1 or fitted.depth_ == 2
    if kind in ("folder", "list"):
        again = model(seed).fit(X, y)
        np.testing.assert_array_equal(fitted.predict_proba(plain), again.predict_proba(plain))


def test_streamed_predictions_are_the_arrays(rows, folder, memmap, seed, monkeypatch):
    X, y, _ = rows
    monkeypatch.setattr(opening, "PREDICT_ROWS", 100)
    fitted = model(seed, map_config=MapConfig(n_minibatches=60)).fit(X, y)
    expected = fitted.predict_proba(np.asarray(X))
    np.testing.assert_allclose(fitted.predict_proba(memmap), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(fitted.predict(memmap), fitted.predict(np.asarray(X)))
    parts = batches_of(rows)
    np.testing.assert_allclose(fitted.predict_proba(iter(parts)), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(fitted.predict_proba([part[0] for part in parts]), expected, rtol=1e-12, atol=1e-15)
    assert fitted.score(parts) == pytest.approx(fitted.score(np.asarray(X), y))


def test_parquet_is_predicted_by_column_name(folder, rows, seed):
    """Columns are found by name whatever else the file holds and in whatever order."""
    fitted = model(seed).fit(ArrowSource(folder, "label", features=["large", "small"]))
    assert list(fitted.feature_names_in_) == ["large", "small"]
    expected = fitted.predict_proba(pq.read_table(folder).select(["large", "small"]))
    np.testing.assert_allclose(fitted.predict_proba(folder), expected, rtol=1e-12, atol=1e-15)
    assert fitted.score(folder, "label", "weight") == pytest.approx(
        np.average(LABELS[expected.argmax(axis=1)] == rows[1], weights=rows[2])
    )
    pq.write_table(pa.table({"small": [1.0]}), folder.parent / "other.parquet")
    with pytest.raises(InvalidInputError, match="'large'"):
        fitted.predict(folder.parent / "other.parquet")


def test_gibbs_predicts_streams_and_refuses_to_fit_them(folder, memmap, rows, seed):
    short = {"gibbs_config": GibbsConfig(n_sweeps=20), "max_depth": 1, "inference": "gibbs"}
    with pytest.raises(InvalidInputError, match="inference='map'"):
        model(seed, **short).fit(folder, "label")
    with pytest.raises(InvalidInputError, match="inference='map'"):
        model(seed, **short).fit(batches_of(rows))
    with pytest.warns(Warning, match="not converged"):
        fitted = model(seed, **short).fit(memmap, rows[1])  # loaded
    np.testing.assert_allclose(
        fitted.predict_proba(memmap), fitted.predict_proba(np.asarray(memmap)), rtol=1e-12, atol=1e-15
    )


def test_weights_of_rows_and_classes(folder, rows, seed, memmap):
    """A column of whole weights has the objective of repeated rows, class_weight that of weighted rows."""
    X, y, weight = rows
    config = MapConfig(n_minibatches=30, prune_every=30, batch_size=10**6)
    source = ArrowSource(folder, "label", features=["small", "large"], weight="weight", buffer_rows=N)
    short = {"map_config": config, "max_experts": 3, "max_depth": 1, "criterion": "aic_inputs"}
    streamed = model(seed, **short).fit(source)
    in_memory = model(seed, **short).fit(X, y, sample_weight=weight)
    steps = [m.trace_[0]["loss"] for m in (streamed, in_memory)]
    np.testing.assert_allclose(*steps, rtol=1e-8)  # full batches: the order of rows does not matter
    factors = {"no": 1.0, "yes": 3.0}
    for class_weight in (factors, "balanced"):
        kept = {**short, "class_weight": class_weight}
        streamed = model(seed, **kept).fit(memmap, y)
        in_memory = model(seed, **kept).fit(np.asarray(X), y)
        np.testing.assert_allclose(streamed.trace_[0]["loss"], in_memory.trace_[0]["loss"], rtol=1e-8)


def test_standardisation_of_a_stream_is_that_of_the_array(rows, rng):
    X, y, weight = rows
    X = np.column_stack([X, np.full(N, 7.25), 1e8 + rng.normal(size=N)])
    source = MemmapSource(X, y, weights=weight, slab_rows=97)
    streamed, whole = opening.scaling_of(source), standard_scaling(X, weight)
    np.testing.assert_allclose(streamed.center, whole.center, rtol=1e-12)
    np.testing.assert_allclose(streamed.scale, whole.scale, rtol=1e-6)
    assert streamed.scale[2] == 1.0
    sparse = BatchSource([(sp.csr_array(X[a : a + 300]), y[a : a + 300]) for a in range(0, N, 300)])
    expected = standard_scaling(sp.csr_array(X))
    np.testing.assert_array_equal(opening.scaling_of(sparse).scale, expected.scale)


def test_declared_classes(rows, seed):
    parts = batches_of(rows)
    declared = model(seed, max_depth=1).fit(parts, classes=["yes", "perhaps", "no"])
    assert list(declared.classes_) == ["no", "perhaps", "yes"]
    assert declared.predict_proba(rows[0]).shape == (N, 3)
    with pytest.raises(InvalidInputError, match="'yes', which is not among"):
        model(seed).fit(parts, classes=["no", "perhaps"])
    with pytest.raises(InvalidInputError, match="leave it out"):
        model(seed).fit(rows[0], rows[1], classes=["no", "perhaps", "yes"])


def test_errors_say_what_to_do(folder, rows, seed, tmp_path, memmap):
    with pytest.raises(InvalidInputError, match="names the target column"):
        model(seed).fit(folder, rows[1])
    with pytest.raises(InvalidInputError, match="target='lable'"):
        model(seed).fit(folder, "lable")
    with pytest.raises(InvalidInputError, match="nothing is there"):
        model(seed).fit(tmp_path / "absent.parquet", "label")
    (tmp_path / "d.csv").write_text("x,y\n1,0\n2,1\n")
    with pytest.raises(InvalidInputError, match=r"d.csv' cannot be read as a Parquet file.*pandas.read_csv.*pbdn fit"):
        model(seed).fit(tmp_path / "d.csv", "y")
    with pytest.raises(InvalidInputError, match="one-shot generator"):
        model(seed).fit(part for part in batches_of(rows))
    with pytest.raises(InvalidInputError, match="one label per row"):
        model(seed).fit(memmap, None)
    with pytest.raises(InvalidInputError, match=r"Unknown label type.*give them as text"):
        model(seed).fit(ArrowSource(folder, "small", features=["large"]))
    table = pa.table({"a": [1.0, 2.0], "town": ["Bern", "Biel"], "y": [0, 1]})
    pq.write_table(table, tmp_path / "words.parquet")
    with pytest.raises(InvalidInputError, match="Column 'town' has type string"):
        model(seed).fit(tmp_path / "words.parquet", "y")
    three = [(np.ones((3, 1)), [0, 1, 2])]
    with pytest.raises(InvalidInputError, match="Only binary"):
        ISHMClassifier(inference="map").fit(three)
    with pytest.warns(UserWarning, match="only one class"):
        assert model(seed).fit([(np.ones((3, 1)), ["a"] * 3)]).predict([[0.0]]) == ["a"]


def test_small_memory_maps_are_arrays(rows, tmp_path, seed):
    """joblib hands memory maps to its workers: the result must not depend on that."""
    stored = np.memmap(tmp_path / "x.bin", dtype=np.float64, mode="w+", shape=(N, 2))
    stored[:] = rows[0]
    few = MapConfig(n_minibatches=60)
    mapped, plain = (model(seed, max_depth=1, map_config=few).fit(X, rows[1]) for X in (stored, rows[0]))
    np.testing.assert_array_equal(mapped.predict_proba(rows[0]), plain.predict_proba(rows[0]))


def test_progress_is_told(folder, seed, capsys, monkeypatch):
    monkeypatch.setattr("pbdn.growth.progress.FIRST_LINE_AFTER", 0.0)
    model(seed, verbose=1, max_depth=1).fit(ArrowSource(folder, "label", features=["small", "large"]))
    assert "layer 1" in capsys.readouterr().err


def test_a_checkpoint_of_a_stream_resumes_and_refuses_other_data(rows, seed, tmp_path):
    parts = batches_of(rows)
    path = tmp_path / "fit.pbdn"
    first = model(seed, checkpoint=path).fit(parts)
    again = model(seed, checkpoint=path).fit(parts)
    np.testing.assert_array_equal(first.predict_proba(rows[0]), again.predict_proba(rows[0]))
    with pytest.raises(InvalidInputError, match="checkpoint"):
        model(seed, checkpoint=path).fit(parts[:-1])


def test_reading_ahead_keeps_order_errors_and_no_thread():
    def numbers(n, fails):
        yield from range(n)
        if fails:
            raise OSError("disk")

    assert list(read_ahead(numbers(50, False))) == list(range(50))
    seen = []
    with pytest.raises(OSError, match="disk"):
        seen.extend(read_ahead(numbers(5, True)))
    before = threading.active_count()
    reader = read_ahead(numbers(10**9, False))
    assert next(reader) == 0
    reader.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_working_ahead_keeps_order_errors_and_no_thread(n_threads):
    done = []

    def inverse(n):
        done.append(n)
        return 1 / n

    assert list(work_ahead(inverse, range(1, 50), n_threads)) == [1 / n for n in range(1, 50)]
    seen = []
    with pytest.raises(ZeroDivisionError):
        seen.extend(work_ahead(inverse, [4, 2, 1, 0, 5], n_threads))
    before = threading.active_count()
    done.clear()
    worker = work_ahead(inverse, range(1, 10**9), n_threads)
    assert next(worker) == 1
    worker.close()
    assert threading.active_count() == before
    assert len(done) <= n_threads + 1  # never further ahead
