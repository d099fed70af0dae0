"""The transformer: frames as they come, the decisions of the command line, scikit-learn's rules."""

import datetime
import io
import json
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from messy_tables import messy_tables
from pbdn import PBDNClassifier
from pbdn.errors import InvalidInputError
from pbdn.tables import Preparation, TablePreparation, TableWarning, fit_preparation, labels_of
from pbdn.tables.table import needs_preparation
from pbdn.tables.transformer import in_python

pd = pytest.importorskip("pandas")
MESSY = [messy for messy in messy_tables() if messy.separator == ","]


@parametrize_with_checks([TablePreparation()])
def test_scikit_learn_rules(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        check(estimator)


def mixed(library="pandas"):
    """A frame of every type, and labels."""
    rng = np.random.default_rng(5)
    n = 120
    number = rng.normal(size=n)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(900, size=n)]
    columns = {
        "number": [None if i % 13 == 0 else float(x) for i, x in enumerate(number)],
        "count": rng.integers(0, 9, size=n).tolist(),
        "flag": [None if i % 17 == 0 else bool(x) for i, x in enumerate(rng.random(n) < 0.5)],
        "word": [None if i % 11 == 0 else str(x) for i, x in enumerate(rng.choice(["red", "green", "blue"], size=n))],
        "level": rng.choice(["low", "high"], size=n).tolist(),
        "day": [None if i % 19 == 0 else day for i, day in enumerate(days)],
        "moment": [datetime.datetime(2021, 5, 6, int(hour)) for hour in rng.integers(24, size=n)],
        "price": [f"${x:,.2f}" for x in rng.gamma(1.0, 5000.0, size=n)],
    }
    y = np.where(number + (np.array(columns["level"]) == "high") > 0.5, "yes", "no")
    if library == "polars":
        pl = pytest.importorskip("polars")
        return pl.DataFrame(columns).with_columns(pl.col("level").cast(pl.Categorical)), y
    if library == "pyarrow":
        pa = pytest.importorskip("pyarrow")
        table = pa.table(columns)
        at = table.column_names.index("level")
        return table.set_column(at, "level", table.column("level").dictionary_encode()), y
    frame = pd.DataFrame(columns)
    frame["level"] = frame["level"].astype("category")
    return frame, y


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_type(library):
    X, y = mixed(library)
    preparation = TablePreparation().fit(X, y)
    kinds = {plan.name: plan.kind for plan in preparation.preparation_.columns}
    assert kinds == {
        "number": "number", "count": "number", "flag": "category", "word": "category", "level": "category",
        "day": "date", "moment": "date", "price": "number",
    }  # fmt: skip
    values = preparation.transform(X)
    assert np.isfinite(values).all()
    reference, y = mixed()
    expected = TablePreparation().fit(reference, y).transform(reference)
    np.testing.assert_allclose(values, expected)
    assert values.columns == preparation.get_feature_names_out().tolist()


@pytest.mark.parametrize("messy", MESSY, ids=[messy.name for messy in MESSY])
def test_the_decisions_are_those_of_the_command_line(messy):
    frame = pd.read_csv(io.BytesIO(messy.data), dtype=str if messy.name in ("zip codes", "shops") else None)
    y = frame.pop("y")
    table = messy.table
    labels, _, _ = labels_of(table.columns["y"], "y")
    there = fit_preparation(table, "y", labels=labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        here = TablePreparation().fit(frame, y)
        values = here.transform(frame)
    assert [plan.kind for plan in here.preparation_.columns] == [plan.kind for plan in there.columns]
    assert here.get_feature_names_out().tolist() == there.feature_names
    np.testing.assert_allclose(values, there.apply(table)[0], rtol=1e-12)
    if messy.said and messy.name != "stray inf":  # pandas reads that one
        assert any(issubclass(one.category, TableWarning) for one in caught)
    assert not any("--" in note for note in here.notes_)


def test_in_a_pipeline_cloned_and_pickled():
    X, y = mixed()
    model = make_pipeline(TablePreparation(), PBDNClassifier(inference="map", max_depth=1, random_state=0))
    model.fit(X[:90], y[:90])
    assert model.score(X[90:], y[90:]) > 0.7
    assert model[-1].feature_names_in_.tolist() == model[0].get_feature_names_out().tolist()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model[0]).get_params() == model[0].get_params()


def test_a_stored_preparation_takes_frames():
    X, y = mixed()
    fitted = TablePreparation().fit(X, y)
    stored = Preparation.from_json(json.loads(json.dumps(fitted.preparation_.to_json())))
    np.testing.assert_array_equal(TablePreparation.from_preparation(stored).transform(X), fitted.transform(X))


def test_data_frames_come_out_where_asked():
    X, _ = mixed()
    out = TablePreparation().set_output(transform="pandas").fit_transform(X)
    assert out.columns.tolist()[0] == "number"


def test_parameters_go_before_everything():
    X, y = mixed()
    preparation = TablePreparation(
        categorical_features=["count"], drop_features=["price"], id_features=["number"], formats={"price": ".,$"}
    )
    with pytest.raises(InvalidInputError, match="does not go with"):
        preparation.fit(X, y)
    preparation.set_params(formats=None).fit(X, y)
    kinds = {plan.name: plan.kind for plan in preparation.preparation_.columns}
    assert (kinds["count"], kinds["price"], kinds["number"], kinds["level"]) == (
        "category",
        "dropped",
        "dropped",
        "category",
    )
    with pytest.raises(InvalidInputError, match="from_dtype"):
        TablePreparation(categorical_features="level").fit(X, y)
    numeric = TablePreparation(numeric_features=["z"]).fit(pd.DataFrame({"z": pd.Categorical(["1", "2", "4"] * 9)}))
    assert numeric.preparation_.columns[0].kind == "number"


def test_new_rows_with_surprises():
    X, y = mixed()
    preparation = TablePreparation().fit(X, y)
    new = X.head(3).assign(price=["$5.00", "soon", "$7.00"], count=[1, None, 2], word=["red", "pink", None])
    with pytest.warns(TableWarning, match=r"'\$1,234.5'.*row 2 has 'soon'"):
        values = preparation.transform(new)
    assert np.isfinite(values).all()
    with pytest.raises(InvalidInputError, match=r"\$1,234\.5"):
        preparation.transform(X.head(2).assign(price=["1.234,50", "soon"]))
    with pytest.raises(ValueError, match="feature names should match"):
        preparation.transform(X.rename(columns={"word": "wort"}))


def test_names_met_twice_are_refused_in_our_words():
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], columns=["a", "a"])
    with pytest.raises(InvalidInputError, match="more than one column called 'a'"):
        TablePreparation().fit(frame)


def test_missing_values_of_nullable_types_and_frames_that_are_not_computed_yet():
    frame = pd.DataFrame({"a": pd.array([1, 2, None] * 9, "Int64"), "b": pd.array([True, None, False] * 9, "boolean")})
    preparation = TablePreparation().fit(frame)
    assert preparation.get_feature_names_out().tolist() == ["a", "a is missing", "b = true", "b is missing"]
    assert preparation.transform(frame)[:3].tolist() == [[1, 0, 1, 0], [2, 0, 0.5, 1], [1.5, 1, 0, 0]]
    pl = pytest.importorskip("polars")
    lazy = pl.LazyFrame({"a": [1, 2, None] * 9, "b": [True, None, False] * 9})
    np.testing.assert_array_equal(preparation.transform(lazy), preparation.transform(frame))


def test_what_needs_preparation():
    X, _ = mixed()
    assert needs_preparation(X)
    assert not needs_preparation(X[["count"]])
    assert needs_preparation(X[["level"]])
    assert needs_preparation(X[["number"]])
    assert not needs_preparation(np.ones((3, 2)))
    assert needs_preparation(np.array([[1.0, np.nan]]))
    assert needs_preparation(np.array([["a"], ["b"]], dtype=object))


def test_notes_name_parameters_of_python():
    assert in_python("x is a key (--numeric 'my id' uses it).") == (
        "x is a key (TablePreparation(numeric_features=['my id']) uses it)."
    )
    assert in_python("out: --drop x.") == "out: TablePreparation(drop_features=['x'])."
    assert in_python("m: --format when=%d/%m/%Y reads it so.") == (
        "m: TablePreparation(formats={'when': '%d/%m/%Y'}) reads it so."
    )
