"""Numbers, grades, counts and times that are read in pieces."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.datasets import make_friedman1

from pbdn import (
    MapConfig,
    PBDNAmountRegressor,
    PBDNClassifier,
    PBDNCountRegressor,
    PBDNOrdinalClassifier,
    PBDNRegressor,
    PBDNSurvival,
)
from pbdn.data import open_stream as opening
from pbdn.data.streams import BatchSource
from pbdn.errors import InvalidInputError
from pbdn.sgd.joint_gradient import run_joint_steps

pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.filterwarnings("ignore:The criterion was still falling")


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
