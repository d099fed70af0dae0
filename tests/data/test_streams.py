"""Estimators on data that are read in pieces: Parquet, Arrow, memory maps, batches."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.datasets import make_friedman1

from pbdn import (
    GibbsConfig,
    ISHMClassifier,
    MapConfig,
    PBDNAmountRegressor,
    PBDNClassifier,
    PBDNCountRegressor,
    PBDNOrdinalClassifier,
    PBDNRegressor,
    PBDNSurvival,
)
from pbdn.data import open_stream as opening
from pbdn.data.arrow_parquet import ArrowSource
from pbdn.data.prefetch import read_ahead, work_ahead
from pbdn.data.streams import BatchSource, MemmapSource
from pbdn.errors import InvalidInputError
from pbdn.model.scaling import standard_scaling
from pbdn.sgd.joint_gradient import run_joint_steps

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
def rows(rng):
    """Two features of very different scale; "yes" where their signs differ."""
    X = rng.normal(size=(N, 2))
    y = LABELS[(X[:, 0] * X[:, 1] < 0).astype(int)]
    return X * [0.01, 300.0] + [5.0, -1000.0], y, rng.integers(1, 3, N).astype(float)


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


# Values on a line in the same streams.


@pytest.fixture(scope="module")
def numbers():
    """Friedman's first function of five columns of ten, noise a fifth of all spread; training and other rows."""
    X, y = make_friedman1(1800, noise=1.0, random_state=0)
    return X[:1000], y[:1000], X[1000:], y[1000:]


@pytest.fixture(scope="module")
def streamed(numbers):
    """A regressor that has read batches."""
    X, y = numbers[:2]
    return line(PBDNRegressor, log=False, map_config=MapConfig(n_minibatches=800), max_depth=2).fit(parts_of(X, y))


def parts_of(*arrays, size=170):
    return [tuple(array[a : a + size] for array in arrays) for a in range(0, len(arrays[0]), size)]


def line(cls, **changes):
    settings = {"inference": "map", "random_state": 0, "max_depth": 1, "max_experts": 6}
    return cls(**settings | {"map_config": MapConfig(n_minibatches=150)} | changes)


def test_a_stream_of_numbers_teaches_what_the_array_teaches(numbers, streamed):
    """One network that has read batches errs hardly more than the average of networks of folds, shaped by rows kept back."""
    X, y, other, wanted = numbers
    whole = line(PBDNRegressor, log=False, map_config=MapConfig(n_minibatches=400), max_depth=1).fit(X, y)
    errors = [np.sqrt(np.mean((one.predict(other) - wanted) ** 2)) for one in (streamed, whole)]
    assert streamed.depth_ > 1
    assert errors[0] < 1.15 * errors[1]
    assert errors[0] < 0.3 * wanted.std()
    assert streamed.log_score(other, wanted) > whole.log_score(other, wanted) - 0.2
    low, high = streamed.predict_interval(other, 0.9).T
    assert 0.8 < np.mean((low < wanted) & (wanted < high)) < 0.97


def test_what_has_read_a_stream_is_an_ordinary_model(numbers, streamed, tmp_path):
    X, y, other, wanted = numbers
    assert streamed.trials_ == []
    assert [step["kept"] for step in streamed.criterion_path_][: streamed.depth_] == [True] * streamed.depth_
    assert set(np.argsort(streamed.feature_importances_)[-5:]) == set(range(5))
    streamed.save(tmp_path / "numbers.pbdn")
    loaded = PBDNRegressor.load(tmp_path / "numbers.pbdn")
    np.testing.assert_array_equal(loaded.predict_quantiles(other[:50]), streamed.predict_quantiles(other[:50]))
    np.testing.assert_array_equal(streamed.predict([other[:30], other[30:50]]), streamed.predict(other[:50]))
    module = {}
    exec(compile(streamed.to_python(), "exported", "exec"), module)
    exported = [module["quantile"](row, 0.5) for row in other[:3].tolist()]
    np.testing.assert_allclose(exported, streamed.predict_quantiles(other[:3], 0.5), rtol=1e-6)
    loaded.partial_fit(X[:200], y[:200])
    assert np.sqrt(np.mean((loaded.predict(other) - wanted) ** 2)) < 0.35 * wanted.std()


@pytest.mark.parametrize("kind", ["batches", "function", "source", "folder", "dataset", "table", "memmap", "sparse"])
def test_numbers_from_every_kind_of_stream(kind, rows, tmp_path, monkeypatch):
    """The layout is that of the array to rounding, and the same lesson is learnt."""
    X, _, weight = rows
    y = 50.0 + 1000.0 * X[:, 0] + np.sin(X[:, 1])
    X = X - [5.0, -1000.0] if kind == "sparse" else X  # sparse columns are not centred
    table = pa.table({"small": X[:, 0], "large": X[:, 1], "y": y, "weight": weight})
    pq.write_table(table, tmp_path / "numbers.parquet", row_group_size=150)
    batches = parts_of(X, y, weight)
    if kind == "memmap":
        monkeypatch.setattr(opening, "LOAD_BELOW", 1)
        np.asarray(X).tofile(tmp_path / "x.bin")
        given = np.memmap(tmp_path / "x.bin", np.float64, mode="r", shape=X.shape), y, weight
    elif kind in ("folder", "dataset", "table"):
        data = tmp_path / "numbers.parquet"
        data = ds.dataset(data) if kind == "dataset" else table if kind == "table" else data
        given = data, "y", "weight"
    elif kind == "sparse":
        given = ([(sp.csr_array(batch[0]), *batch[1:]) for batch in batches],)
    else:
        given = (
            batches if kind == "batches" else (lambda: iter(batches)) if kind == "function" else BatchSource(batches),
        )
    learner = line(PBDNRegressor, log=False).fit(*given)
    rows_of_kernels = [signature[0] for signature in run_joint_steps.signatures]
    assert all(part.mutable for kinds in rows_of_kernels for part in kinds.types), "compiled once more for such rows"
    layout = learner.network_.response
    assert layout.center == pytest.approx(np.average(y, weights=weight))
    assert layout.scale == pytest.approx(np.sqrt(np.cov(y, aweights=weight, ddof=0)))
    named = kind in ("folder", "dataset", "table")
    assert hasattr(learner, "feature_names_in_") == named
    asked = table.select(["small", "large"]) if kind == "table" else given[0] if named else X
    assert np.corrcoef(learner.predict(asked), y)[0, 1] > 0.9


def test_grades_counts_and_times_from_streams(rng, tmp_path):
    X = rng.normal(size=(600, 2))
    hidden = X[:, 0] + 0.3 * rng.normal(size=600)
    names = np.array(["poor", "fair", "good"])
    grades = names[np.digitize(hidden, [-0.5, 0.5])]
    learner = line(PBDNOrdinalClassifier, categories=names.tolist()).fit(parts_of(X, grades))
    assert learner.classes_.tolist() == names.tolist()
    shares = [np.mean(grades == "poor"), np.mean(grades != "good")]
    np.testing.assert_allclose(learner.network_.response.cuts, norm.ppf(shares))
    assert learner.score(X, grades) > 0.6
    counts = line(PBDNCountRegressor).fit(parts_of(X, rng.poisson(np.exp(1.0 + X[:, 0]))))
    assert np.corrcoef(counts.predict(X), np.exp(X[:, 0]))[0, 1] > 0.7
    time, seen = np.exp(np.minimum(hidden, 1.0)), hidden < 1.0
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "seen": seen, "time": time, "most": np.where(seen, time, np.inf)})
    pq.write_table(table.drop_columns(["most"]), tmp_path / "times.parquet")
    times = line(PBDNSurvival).fit(tmp_path / "times.parquet", ("seen", "time"))
    y = np.array(list(zip(seen, time, strict=True)), "?,f8")
    named = table.select(["a", "b"])
    assert times.score(named, y) > 0.75
    np.testing.assert_array_equal(times.unique_times_, np.unique(time[seen]))
    late = table.drop_columns(["most"]).append_column("entry", pa.array(0.5 * time))
    sooner = line(PBDNSurvival).fit(late, ("seen", "time", "entry"))
    assert sooner.feature_names_in_.tolist() == ["a", "b"]
    assert sooner.predict_median(named).mean() < times.predict_median(named).mean()
    bounded = line(PBDNRegressor, log=True).fit(table.drop_columns(["seen"]), ["time", "most"])
    assert np.corrcoef(bounded.predict(named), hidden)[0, 1] > 0.7


def test_logarithms_of_a_stream_are_asked_of_a_sample(rng):
    X = rng.normal(size=(400, 1))
    y = np.exp(3.0 * X[:, 0] + 0.3 * rng.normal(size=400))
    assert line(PBDNRegressor).fit(parts_of(X, y)).log_
    y[-1] = -1.0  # found, wherever it is
    assert not line(PBDNRegressor).fit(parts_of(X, y)).log_


def test_a_sample_is_spread_over_the_stream_and_has_its_ends(rng):
    X, y = np.arange(10_000.0)[:, None], np.zeros(10_000)
    y[[77, 9_801]] = 5.0, -3.0
    source = BatchSource(parts_of(X, y)).read_by(lambda part: np.column_stack([part, part]))
    sample = opening.spread_sample(source, 100)
    assert sample.n_rows == 102
    assert {5.0, -3.0} < set(sample.targets.ravel().tolist())
    np.testing.assert_array_equal(sample.inputs[:100, 0], np.arange(0, 10_000, 100))
    few = opening.spread_sample(source, 10**6)
    np.testing.assert_array_equal(few.inputs, X)


def test_a_checkpoint_of_a_stream_of_numbers_resumes(numbers, tmp_path, monkeypatch):
    """Layers that were trained together come back as they were."""
    X, y = numbers[0][:400], numbers[1][:400]
    settings = {"log": False, "max_depth": 2, "map_config": MapConfig(n_minibatches=300)}
    kept = line(PBDNRegressor, **settings, checkpoint=tmp_path / "d").fit(parts_of(X, y))
    assert kept.depth_ > 1
    monkeypatch.setattr("pbdn.sgd.timed_trainer.run_joint_steps", None)  # nothing is trained again
    again = line(PBDNRegressor, **settings, checkpoint=tmp_path / "d").fit(parts_of(X, y))
    np.testing.assert_array_equal(again.predict(X), kept.predict(X))


def test_streams_of_values_that_cannot_be_are_told(rng):
    X, y = rng.normal(size=(100, 2)), rng.normal(size=100)
    batches = parts_of(X, y)
    with pytest.raises(InvalidInputError, match="inference='gibbs' cannot"):
        PBDNRegressor(inference="gibbs").fit(batches)
    with pytest.raises(InvalidInputError, match="partial_fit"):
        PBDNAmountRegressor().fit(batches)
    with pytest.raises(InvalidInputError, match="one cause"):
        PBDNSurvival().fit(parts_of(X, np.array([(1, 1.0), (2, 2.0)] * 50, "i8,f8")))
    with pytest.raises(InvalidInputError, match="only values above 0"):
        PBDNRegressor(log=True).fit(batches)
    with pytest.raises(InvalidInputError, match="a classifier has one target column"):
        PBDNClassifier().fit(pa.table({"x": X[:, 0], "a": y, "b": y}), ("a", "b"))
    with pytest.raises(InvalidInputError, match="upper bound"):
        PBDNRegressor().fit(parts_of(X, np.column_stack([y, np.full(100, np.inf)])))
    with pytest.warns(UserWarning, match="only one value"):
        model = PBDNRegressor().fit(parts_of(X, np.full(100, 3.0)))
    np.testing.assert_allclose(model.predict(X), 3.0, rtol=1e-6)
