"""Frames as they come: fitted, predicted, stored, exported and explained without a preparation by hand."""

import contextlib
import datetime
import pickle
import sqlite3
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pbdn import MapConfig, PBDNClassifier
from pbdn.errors import InvalidInputError, TableWarning
from pbdn.inspection.access import feature_names
from pbdn.inspection.curves import effect_curves

pd = pytest.importorskip("pandas")
STEPS = MapConfig(n_minibatches=40)
N = 120


def small(**more):
    return PBDNClassifier(
        **{"inference": "map", "criterion": "aic", "max_depth": 1, "map_config": STEPS, "random_state": 0, **more}
    )


def mixed(library="pandas"):
    """Numbers, gaps, booleans, text, categories and dates, and labels."""
    rng = np.random.default_rng(8)
    number = rng.normal(size=N)
    columns = {
        "number": [None if i % 13 == 0 else float(x) for i, x in enumerate(number)],
        "flag": (rng.random(N) < 0.5).tolist(),
        "word": [None if i % 11 == 0 else str(x) for i, x in enumerate(rng.choice(["red", "green", "blue"], size=N))],
        "level": rng.choice(["low", "high"], size=N).tolist(),
        "day": [
            None if i % 19 == 0 else datetime.datetime(2020, 1, 1) + datetime.timedelta(days=int(day))
            for i, day in enumerate(rng.integers(900, size=N))
        ],
        "same": ["x"] * N,
    }
    y = np.where(np.nan_to_num(number) + 2.0 * (np.array(columns["level"]) == "high") > 1.0, "yes", "no")
    if library == "polars":
        pl = pytest.importorskip("polars")
        return pl.DataFrame(columns).with_columns(pl.col("level").cast(pl.Categorical)), y
    if library == "pyarrow":
        return pytest.importorskip("pyarrow").table(columns), y
    return pd.DataFrame(columns).astype({"level": "category", "number": float}), y


@pytest.fixture(scope="module")
def fitted():
    X, y = mixed()
    return small(max_depth=2).fit(X, y), X, y


def test_a_frame_is_fitted_and_predicted_as_it_comes(fitted):
    model, X, y = fitted
    assert model.score(X, y) > 0.8
    assert model.n_features_in_ == 6
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    assert feature_names(model)[:3] == ["number", "number is missing", "flag = true"]
    assert model.network_.n_features == len(feature_names(model))
    assert model.predict_proba(X.iloc[:1]).shape == (1, 2)
    assert model.feature_importances_.shape == (6,)
    assert model.feature_importances_[-1] == 0.0
    assert model.feature_importances_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_every_library_gives_the_same_network(library, fitted):
    model, X, _ = fitted
    other, y = mixed(library)
    same = small(max_depth=2).fit(other, y)
    np.testing.assert_allclose(same.predict_proba(other), model.predict_proba(X), rtol=1e-12)


def test_files_copies_and_clones(fitted, tmp_path):
    model, X, y = fitted
    model.save(tmp_path / "m.pbdn")
    loaded = PBDNClassifier.load(tmp_path / "m.pbdn")
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(loaded.predict_proba(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), expected)
    assert loaded.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    assert feature_names(loaded) == feature_names(model)
    assert not hasattr(clone(model), "preparation_")
    np.testing.assert_array_equal(clone(model).fit(X, y).predict_proba(X), expected)


def test_cross_validation_pipelines_and_selection(fitted):
    model, X, y = fitted
    assert cross_val_score(small(), X, y, cv=3, error_score="raise").min() > 0.6
    chain = make_pipeline(FunctionTransformer(), small()).fit(X, y)
    assert chain.predict_proba(X).shape == (N, 2)
    kept = SelectFromModel(model, prefit=True).get_support()
    assert kept.shape == (6,)
    assert not kept[-1]


def test_explanations_speak_of_columns(fitted):
    model, X, _ = fitted
    used = ["number", "flag", "word", "level", "day"]
    assert sorted(model.effects(X)["feature"]) == sorted(used)
    assert [curve.group.name for curve in effect_curves(model, X)] == used
    told = model.shap_values(X.iloc[:2], X.iloc[:10])
    assert told.values.shape == (2, X.shape[1], 2)
    assert told.feature_names == list(X.columns)
    assert not told.values[:, -1].any()  # left out
    np.testing.assert_allclose(told.values.sum(axis=1) + told.base_values, model.predict_proba(X.iloc[:2]), atol=1e-9)
    drawn = model.shap_values(X.iloc[:2], X.iloc[:10], method="orders", n_orders=10)
    assert drawn.standard_error.shape == drawn.values.shape
    assert "number is missing" in model.subtypes(X).columns
    assert len(model.explain(X)) >= N
    assert model.transform(X).shape[0] == N


def test_a_report_of_a_raw_frame(fitted):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    model, X, y = fitted
    page = model.report(X, y)
    assert "level" in page
    assert "left out: always" in page


def module_of(source):
    space = {"__name__": "model"}
    exec(compile(source, "model.py", "exec"), space)
    return space


def test_python_and_sql_take_raw_rows(fitted):
    model, X, _ = fitted
    rows = X.astype(object).where(X.notna(), None).to_dict("records")
    exported = module_of(model.to_python())
    expected = model.predict_proba(X)
    np.testing.assert_allclose([exported["predict_proba"](row) for row in rows], expected, atol=1e-9)
    base = sqlite3.connect(":memory:")
    text = X.assign(day=X["day"].astype(str), key=range(N))
    text.astype(object).where(text.notna(), None).to_sql("data", base, index=False)
    scored = base.execute(model.to_sql("sqlite", keep=["key"]) + " ORDER BY key").fetchall()
    np.testing.assert_allclose([row[1:3] for row in scored], expected, atol=1e-9)
    with pytest.raises(InvalidInputError, match="dialect='sqlite'"):
        model.to_sql()


def test_arrays_with_gaps(tmp_path, rng):
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    X[::7, 1] = np.nan
    model = small().fit(X, y)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
    assert feature_names(model) == ["x0", "x1", "x1 is missing", "x2"]
    model.save(tmp_path / "m.pbdn")
    loaded = PBDNClassifier.load(tmp_path / "m.pbdn")
    assert not hasattr(loaded, "feature_names_in_")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    new = X[:5].copy()
    new[2, 0] = np.nan
    with pytest.warns(TableWarning, match="x0: 1 missing"):
        assert np.isfinite(model.predict_proba(new)).all()
    X[3, 2] = np.inf
    for call in (lambda: model.predict(X), lambda: small().fit(X, y)):
        with pytest.raises(InvalidInputError, match="contains infinity in column 'x2', row 4"):
            call()
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])


def test_plain_numbers_are_not_prepared(rng):
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = small().fit(frame, y)
    assert not hasattr(model, "preparation_")
    np.testing.assert_array_equal(model.predict_proba(frame), small().fit(X, y).predict_proba(X))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, lambda X: pd.DataFrame(X, columns=["x0", "x1"])])
def test_where_infinite_numbers_are(rng, make):
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = small().fit(make(X), y)
    X[7, 1] = -np.inf
    for call in (lambda: model.predict(make(X)), lambda: small().fit(make(X), y)):
        with pytest.raises(InvalidInputError, match="contains infinity in column 'x1', row 8; give finite numbers"):
            call()


def test_gaps_that_training_did_not_have(rng, tmp_path):
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b"])
    small().fit(frame, y).save(tmp_path / "m.pbdn")
    model = PBDNClassifier.load(tmp_path / "m.pbdn")
    filled = frame.copy()
    filled.loc[3, "b"] = np.median(X[:, 1])
    frame.loc[3, "b"] = np.nan
    with pytest.warns(TableWarning, match="b: 1 missing, none in training; the median stands in"):
        np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(filled))
    with pytest.raises(InvalidInputError, match="fitted on numbers only.*'high'"):
        model.predict(frame.assign(b="high"))
    pl = pytest.importorskip("polars")
    with pytest.raises(InvalidInputError, match="fitted on numbers only.*'high'"):
        model.predict(pl.DataFrame({"a": [1.0], "b": ["high"]}))
    with pytest.raises(InvalidInputError, match="contains infinity in column 'b', row 1; give finite numbers"):
        model.predict(frame.assign(b=np.inf))


def test_gaps_in_new_rows_of_streams_and_of_sparse_fits(rng):
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    filled, gappy = X[:5].copy(), X[:5].copy()
    filled[3, 1], gappy[3, 1] = np.median(X[:, 1]), np.nan
    model = small().fit([(X[:30], y[:30]), (X[30:], y[30:])])
    with pytest.warns(TableWarning, match="x1: 1 missing, none in training; the median stands in"):
        np.testing.assert_array_equal(model.predict_proba(gappy), model.predict_proba(filled))
    with pytest.raises(InvalidInputError, match=r"X has 1 missing values.*they are sparse.*SimpleImputer"):
        model.predict(sp.csr_array(gappy))
    with pytest.raises(InvalidInputError, match=r"X has 1 missing values.*fitted on sparse rows.*SimpleImputer"):
        small().fit(sp.csr_array(X), y).predict(gappy)


def test_a_new_fit_forgets_the_columns_of_the_old(rng):
    X, y = mixed()
    model = small().fit(X, y)
    plain = rng.normal(size=(N, 2))
    model.fit(plain, y)
    assert not hasattr(model, "preparation_")
    assert not hasattr(model, "column_groups_")
    assert not hasattr(model, "feature_names_in_")
    assert feature_names(model) == ["x0", "x1"]
    assert model.feature_importances_.shape == (2,)


def test_surprises_at_prediction(fitted):
    model, X, _ = fitted
    with pytest.warns(TableWarning, match="word: 1 value.* not seen in training, e.g. 'pink'"):
        unseen = model.predict_proba(X.iloc[:1].assign(word="pink"))
    assert np.isfinite(unseen).all()
    with pytest.warns(TableWarning, match="flag: 1 missing"):
        model.predict_proba(X.iloc[:1].assign(flag=None))
    with pytest.raises(InvalidInputError, match="'day' held dates written like"):
        model.predict_proba(X.iloc[:1].assign(day="soon"))
    with pytest.raises(ValueError, match=r"(?s)seen at fit time, yet now missing.*word"):
        model.predict_proba(X.drop(columns="word"))
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*more"):
        model.predict_proba(X.assign(more=1))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        unnamed = model.predict_proba(X.to_numpy(dtype=object))
    np.testing.assert_allclose(unnamed, model.predict_proba(X), rtol=1e-12)


def test_batches_of_frames():
    X, y = mixed()
    model = small(criterion="auto").partial_fit(X[:60], y[:60], classes=["no", "yes"])
    model.partial_fit(X[60:], y[60:])
    assert model.predict_proba(X).shape == (N, 2)


def test_streams_of_raw_rows(fitted, tmp_path):
    pytest.importorskip("pyarrow")
    model, X, _ = fitted
    expected = model.predict_proba(X)
    X.assign(more=1).to_parquet(tmp_path / "x.parquet")
    np.testing.assert_array_equal(model.predict_proba(tmp_path / "x.parquet"), expected)
    # a BLAS may round pieces otherwise
    np.testing.assert_allclose(model.predict_proba([X[:50], X[50:]]), expected, rtol=1e-12)


def test_one_class_only():
    X, _ = mixed()
    with pytest.warns(UserWarning, match="only one class"):
        model = small().fit(X, ["yes"] * N)
    assert model.predict(X).tolist() == ["yes"] * N
    assert model.posterior_predictive_proba(X).shape == (1, N, 1)


def test_a_model_of_the_command_line_scores_a_raw_frame(tmp_path):
    click = pytest.importorskip("click.testing")
    from pbdn.cli.app import app

    X, y = mixed()
    X.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    place = str(tmp_path / "m.pbdn")
    arguments = ["fit", str(tmp_path / "t.csv"), "-t", "y", "-o", place, "--inference", "map", "--max-depth", "1"]
    assert click.CliRunner().invoke(app, arguments).exit_code == 0
    out = str(tmp_path / "p.csv")
    assert click.CliRunner().invoke(app, ["predict", place, str(tmp_path / "t.csv"), "-o", out]).exit_code == 0
    model = PBDNClassifier.load(place)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.predict_proba(pd.read_csv(tmp_path / "t.csv").drop(columns="y"))
        typed = model.predict_proba(X)
    np.testing.assert_allclose(found, pd.read_csv(out)[["probability no", "probability yes"]], atol=1e-12)
    np.testing.assert_allclose(typed, found, atol=1e-12)


@pytest.mark.filterwarnings("ignore::pbdn.errors.TableWarning")
def test_lengths_of_time_are_seconds_whatever_their_unit(rng):
    pd = pytest.importorskip("pandas")
    seconds = (1e4 * rng.normal(size=60)).astype(int)
    y = (seconds > 0).astype(int)
    frame = pd.DataFrame({"wait": pd.to_timedelta(seconds, unit="s").astype("timedelta64[ns]")})
    model = PBDNClassifier(random_state=0, max_depth=1).fit(frame, y)
    proba = model.predict_proba(frame)
    coarse = frame.assign(wait=frame.wait.astype("timedelta64[s]"))
    np.testing.assert_array_equal(model.predict_proba(coarse), proba)
    frame.loc[0, "wait"] = pd.NaT
    assert 0.05 < model.predict_proba(frame)[0, 1] < 0.95
    mixed = coarse.assign(x=rng.normal(size=60))
    assert PBDNClassifier(random_state=0, max_depth=1).fit(mixed, y).score(mixed, y) > 0.9
    array = coarse.to_numpy()
    np.testing.assert_allclose(PBDNClassifier(random_state=0, max_depth=1).fit(array, y).predict_proba(array), proba)


def test_whole_numbers_of_a_column_with_fractions_are_the_same_categories_in_databases(rng):
    pd = pytest.importorskip("pandas")
    kinds = rng.choice([0.5, 1.0, 2.0, 100.0], size=120)
    frame = pd.DataFrame({"x": rng.normal(size=120), "kind": pd.Categorical(kinds)})
    y = (frame.x + 2.0 * (kinds == 2.0) > 0.5).astype(int)
    model = PBDNClassifier(random_state=0, max_depth=1).fit(frame, y)
    wanted = model.predict_proba(frame)[:, 1]
    plain = frame.assign(kind=kinds, row=range(120))
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        plain.to_sql("data", database, index=False)
        found = pd.read_sql(model.to_sql("sqlite", keep=["row"]), database).sort_values("row")
    np.testing.assert_allclose(found["probability_1"], wanted, atol=1e-9)
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as database:
        database.register("data", plain)
        found = database.execute(model.to_sql("duckdb", keep=["row"])).df().sort_values("row")
    np.testing.assert_allclose(found["probability_1"], wanted, atol=1e-9)


@pytest.mark.filterwarnings("ignore::pbdn.errors.TableWarning")
def test_spaces_around_categories_mean_nothing_to_exports_either(rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": rng.normal(size=80), "city": rng.choice(["Oslo", "Rome", "Bergen"], size=80)})
    model = PBDNClassifier(random_state=0, max_depth=1).fit(frame, (frame.x + (frame.city == "Oslo") > 0.5).astype(int))
    scope = {}
    exec(model.to_python(), scope)
    for city in ("Oslo", " Oslo", "Oslo\t", "other"):
        wanted = model.predict_proba(pd.DataFrame({"x": [0.1], "city": [city]}))[0]
        np.testing.assert_allclose(scope["predict_proba"]({"x": 0.1, "city": city}), wanted, atol=1e-12)
