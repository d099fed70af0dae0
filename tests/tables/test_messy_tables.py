"""Messy tables are read rightly, and what is odd about them is said."""

import io
import json

import numpy as np
import pytest

from messy_tables import N, csv_bytes, messy_tables
from pbdn.errors import InvalidInputError
from pbdn.tables import ColumnOptions, Preparation, fit_preparation, is_quantity, labels_of, numbers_of, parse_table
from pbdn.tables.plan_columns import MOST_ROWS, error_alone, error_alone_of_numbers
from pbdn.tables.read_csv import TextFile
from pbdn.tables.table import Table

MESSY = {messy.name: messy for messy in messy_tables()}


def prepared(table, **options):
    labels, _, _ = labels_of(table.columns["y"], "y")
    return fit_preparation(table, "y", ColumnOptions(**options), labels=labels)


def plan_of(preparation, name):
    return next(plan for plan in preparation.columns if plan.name == name)


def parquet(columns):
    pa = pytest.importorskip("pyarrow")
    stream = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), stream)
    return parse_table(stream.getvalue(), "x.parquet")


@pytest.mark.parametrize("name", MESSY)
def test_columns_are_what_they_are_and_what_is_odd_is_said(name):
    messy = MESSY[name]
    preparation = prepared(messy.table)
    for column, kind in messy.kinds.items():
        assert plan_of(preparation, column).kind == kind, plan_of(preparation, column)
    for column, said in messy.said.items():
        assert said in " ".join(plan_of(preparation, column).notes)
    for column in messy.silent:
        assert plan_of(preparation, column).notes == ()


@pytest.mark.parametrize(
    ("far", "said"),
    [
        (
            {3: 9999.0},
            "age: 1 of 80 cells lies far from all others: 9999; leave it empty if it stands for a missing number.",
        ),
        (
            {3: -1e12, 5: 9999.0, 6: 9999.0},
            "age: 3 of 80 cells lie far from all others: 9999, -1e+12; leave them empty",
        ),
        ({place: place * 1e6 for place in (3, 5, 6, 7)}, "3000000, 5000000, 6000000, …;"),
        ({}, ""),
        ({3: 300.0}, ""),
        (dict.fromkeys(range(40), 9999.0), ""),
    ],
)
def test_numbers_far_from_all_others_are_told(rng, far, said):
    """They stay what they are."""
    age = rng.integers(18, 90, 80).astype(float)
    age[list(far)] = list(far.values())
    table = parse_table(("age,y\n" + "\n".join(f"{x:g},{i % 2}" for i, x in enumerate(age))).encode(), "x.csv")
    plan = plan_of(prepared(table), "age")
    assert plan.kind == "number"
    assert said in " ".join(plan.notes)
    assert bool(plan.notes) == bool(said)


@pytest.mark.parametrize("name", [name for name, messy in MESSY.items() if messy.values])
def test_numbers_are_what_was_written(name):
    messy = MESSY[name]
    preparation = prepared(messy.table)
    X, notes = preparation.apply(messy.table)
    assert notes == []  # the notes of the fit have said everything
    names = preparation.feature_names
    for column, truth in messy.values.items():
        plan = plan_of(preparation, column)
        feature = X[:, names.index(f"{column} (days)" if plan.kind == "date" else column)]
        expected = np.where(np.isnan(truth), plan.fill, truth)
        np.testing.assert_allclose(feature, expected, rtol=1e-12, atol=1e-12)
        if plan.indicator:
            missing = X[:, names.index(f"{column} is missing")]
            np.testing.assert_array_equal(missing, np.isnan(truth))


@pytest.mark.parametrize("name", ["stray unknown", "stray date", "dollars", "percent", "times, am and pm"])
def test_formats_are_stored_with_the_preparation(name):
    messy = MESSY[name]
    preparation = prepared(messy.table)
    again = Preparation.from_json(json.loads(json.dumps(preparation.to_json())))
    assert again == preparation
    np.testing.assert_array_equal(again.apply(messy.table)[0], preparation.apply(messy.table)[0])


def test_files_of_before_are_still_read():
    stored = {"name": "x", "kind": "number", "fill": 1.0, "indicator": False, "levels": [], "others": False, "style": ",",
              "parts": [], "words": "number, decimal comma"}  # fmt: skip
    X, _ = Preparation.from_json([stored]).apply(parse_table(b"x;y\n1,5;0\n2,5;1\n", "x"))
    np.testing.assert_array_equal(X[:, 0], [1.5, 2.5])


@pytest.mark.parametrize("name", ["row number", "in no order", "key account"])
def test_a_key_that_is_left_out_is_called_out_where_it_predicts(name):
    messy = MESSY[name]
    column = next(iter(messy.columns))
    said = " ".join(plan_of(prepared(messy.table), column).notes)
    assert ("alone it predicts the target well" in said) == (name == "row number")


def test_a_long_number_that_predicts_is_kept():
    rng = np.random.default_rng(3)
    turnover = rng.choice(8 * 10**8, size=N, replace=False) + 10**8
    y = np.where(turnover > np.median(turnover), "a", "b")
    table = parse_table(csv_bytes({"turnover": turnover.tolist(), "y": y.tolist()}), "x")
    assert plan_of(prepared(table), "turnover").kind == "number"
    harmless = parse_table(csv_bytes({"turnover": turnover.tolist(), "z": (turnover % 7).tolist(),
                                      "y": rng.permutation(y).tolist()}), "x")  # fmt: skip
    assert plan_of(prepared(harmless), "turnover").kind == "dropped"


def test_strings_of_digits_are_categories_and_other_strings_what_they_say():
    rng = np.random.default_rng(4)
    table = parquet(
        {
            "zip": [str(value) for value in rng.choice([10001, 94110, 60601], size=N)],
            "code": rng.choice([1, 2, 3], size=N),
            "price": [f"{value:.2f}" for value in rng.gamma(2.0, 9.0, size=N)],
            "when": [str(np.datetime64("2020-01-01") + int(value)) for value in rng.integers(500, size=N)],
            "y": rng.choice(["a", "b"], size=N),
        }
    )
    kinds = {plan.name: plan.kind for plan in prepared(table).columns}
    assert kinds == {"zip": "category", "code": "number", "price": "number", "when": "date"}


def test_typed_columns_take_options_too_and_name_infinite_numbers():
    rng = np.random.default_rng(8)
    x = rng.normal(size=N)
    x[3] = np.inf
    table = parquet(
        {"x": x, "d": [20200101 + int(day) for day in rng.integers(28, size=N)], "y": ["a", "b"] * (N // 2)}
    )
    plan = plan_of(prepared(table), "x")
    assert plan.kind == "number"
    assert "1 of 300 cells is no number" in plan.notes[0]
    assert "'inf'" in plan.notes[0]
    assert plan_of(prepared(table, date=("d",)), "d").kind == "date"
    assert plan_of(prepared(table, formats={"d": "%Y%m%d"}), "d").style == "%Y%m%d"
    assert plan_of(prepared(table, categorical=("d",)), "d").levels[0] == "20200101"


def test_names_met_twice_in_parquet_are_all_kept():
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_arrays([pa.array([1.5, 2.5]), pa.array([3.5, 5.0])], names=["a", "a"])
    stream = io.BytesIO()
    with pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table)
    read = parse_table(stream.getvalue(), "x")
    assert read.names == ["a", "a.2"]
    assert "a.2" in read.notes[0]
    stream = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(table, stream)
    assert parse_table(stream.getvalue(), "x").names == ["a", "a.2"]


def test_options_go_before_everything():
    table = MESSY["row number"].table
    assert plan_of(prepared(table, numeric=("number",)), "number").kind == "number"
    assert plan_of(prepared(table, categorical=("number",)), "number").kind == "category"
    assert plan_of(prepared(table, id=("x",), numeric=("number",)), "x").kind == "dropped"
    table = MESSY["zip codes"].table
    plan = plan_of(prepared(table, numeric=("zip",)), "zip")
    assert (plan.kind, plan.notes) == ("number", ())
    days = parse_table(csv_bytes({"d": ["20200131", "20200229", "20210101"] * 9, "y": ["a", "b", "c"] * 9}), "x")
    X, _ = prepared(days, date=("d",)).apply(days)
    np.testing.assert_array_equal(X[:3, 0], [18292, 18321, 18628])
    table = MESSY["thousands"].table
    X, _ = prepared(table, formats={"x": ","}).apply(table)
    np.testing.assert_allclose(X[:, 0], MESSY["thousands"].values["x"] / 1000)
    plan = plan_of(prepared(MESSY["day or month first"].table, formats={"x": "%d/%m/%Y"}), "x")
    assert (plan.kind, plan.style, plan.notes) == ("date", "%d/%m/%Y", ())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"numeric": ("x",), "categorical": ("x",)}, "cannot be both --categorical and --numeric"),
        ({"numeric": ("y",)}, "is the target"),
        ({"date": ("wen",)}, "no column 'wen'"),
        ({"date": ("x",)}, "hardly a cell is a date"),
        ({"formats": {"x": "%d/%m/%Y"}}, "reads no cell"),
        ({"formats": {"x": ","}, "drop": ("x",)}, "does not go with --drop"),
    ],
)
def test_options_that_cannot_be_are_refused(options, words):
    with pytest.raises(InvalidInputError, match=words):
        prepared(MESSY["stray unknown"].table, **options)


def test_other_formats_at_prediction_are_named():
    preparation = prepared(MESSY["dollars"].table)
    with pytest.raises(InvalidInputError, match=r"\$1,234.5.*row 1 has '1.234,50'"):
        preparation.apply(parse_table(b'x,y\n"1.234,50",a\n"4.100,00",b\n', "new"))
    X, notes = preparation.apply(parse_table(b'x,y\n"$1,234.50",a\nmany,b\n', "new"))
    assert X[:, 0].tolist() == [1234.5, preparation.columns[0].fill]
    assert "1 cell is no number written like" in notes[0]
    assert "row 2 has 'many'" in notes[0]


def test_cells_that_were_odd_in_training_are_known_at_prediction():
    preparation = prepared(MESSY["stray unknown"].table)
    X, notes = preparation.apply(parse_table(b"x,z,y\nunknown,1,a\n2,2,b\n", "new"))
    assert X[0, 0] == plan_of(preparation, "x").fill
    assert notes == []


def test_a_line_break_in_a_category_stays_out_of_the_names():
    table = parse_table(csv_bytes({"c": ["a\nb", "c", "d"] * 5, "y": ["0", "1", "0"] * 5}), "x")
    preparation = prepared(table)
    assert preparation.feature_names == ["c = a b", "c = c", "c = d"]
    assert preparation.apply(table)[0].sum() == 15


def test_classes_that_look_alike_are_noted():
    labels, _, notes = labels_of(np.array(["YES", "no", "yes"] * 5, dtype=object), "y")
    assert set(labels) == {"YES", "yes", "no"}
    assert "'YES' and 'yes'" in notes[0]
    assert labels_of(np.array(["a", "b"] * 5, dtype=object), "y")[2] == []


def test_labels_with_zeros_before_them_stay_text():
    assert labels_of(np.array(["01", "02"] * 5, dtype=object), "y")[0].tolist() == ["01", "02"] * 5


def test_units_and_codes():
    weight = [f"{50 + i / 7:.1f} kg" for i in range(60)]
    code = [f"0{i % 7}E{i % 3}" for i in range(60)]
    below = [f"\u2212{i % 9}.5" if i % 2 else f"{i % 7}.25" for i in range(60)]
    columns = {"weight": weight, "code": code, "below": below, "y": ["a", "b"] * 30}
    plans = {plan.name: plan for plan in fit_preparation(parse_table(csv_bytes(columns), "x"), "y").columns}
    assert "numbers with a unit, such as '50.0 kg'" in plans["weight"].words
    assert plans["code"].kind == "category"
    assert (plans["below"].kind, plans["below"].odd) == ("number", ())


@pytest.mark.parametrize("words", [["Yes", "No"], ["TRUE", "FALSE"], ["true", "True", "false"], ["y", "n"]])
def test_booleans_however_they_are_written(words):
    """A table of booleans gives the features of the words that stand for them."""
    cells = [words[i % len(words)] for i in range(60)]
    truth = np.array([word.lower() in ("yes", "true", "y") for word in cells])
    preparation = fit_preparation(parse_table(csv_bytes({"b": cells, "y": ["a", "b"] * 30}), "x"), "y")
    values, notes = preparation.apply(Table({"b": np.array(["true" if one else "false" for one in truth], object)}, 60))
    np.testing.assert_array_equal(values[:, 0], truth)
    assert not notes


def test_error_alone(rng):
    y = rng.integers(0, 3, size=600)
    assert error_alone(y + 0.1 * rng.random(600), y) < 0.01
    assert 0.85 < error_alone(rng.normal(size=600), y) < 1.15
    assert error_alone(np.sort(rng.normal(size=600)), np.sort(y)) < 0.03
    assert error_alone([["x", "y", None][label] for label in y], y) < 0.01
    assert np.isnan(error_alone(np.arange(10.0), np.arange(10) % 2))
    rare = (np.arange(600) < 30).astype(int)  # the classes count equally
    assert error_alone(rng.normal(size=600), rare) > 0.6


def test_error_alone_of_numbers(rng):
    y = rng.normal(size=600)
    assert error_alone_of_numbers(y**3, y) < 0.03
    assert 0.9 < error_alone_of_numbers(rng.normal(size=600), y) < 1.2
    assert 0.3 < error_alone_of_numbers(y + rng.normal(size=600), y) < 0.95
    assert np.isnan(error_alone_of_numbers(np.arange(10.0), np.arange(10.0)))


def test_error_alone_looks_at_some_rows_only(rng):
    class Texts(list):
        looked = 0

        def __getitem__(self, place):
            self.looked += 1
            return super().__getitem__(place)

        def __iter__(self):
            raise AssertionError("all rows are read")

    y = rng.integers(0, 2, size=3 * MOST_ROWS)
    texts = Texts(["x", "y"][label] for label in y)
    assert error_alone(texts, y) < 0.01
    assert texts.looked == MOST_ROWS


@pytest.fixture
def in_pieces(monkeypatch):
    """Every text file is large, and read a few rows at a time."""
    monkeypatch.setattr("pbdn.tables.read_csv.LARGE", 0)
    monkeypatch.setattr("pbdn.tables.read_csv.PIECE_CELLS", 100)


@pytest.mark.parametrize("name", MESSY)
def test_a_large_file_is_decided_like_a_small_one(name, in_pieces):
    messy = MESSY[name]
    small = prepared(messy.table)
    large = text_file(messy.data).whole(["y"])
    assert prepared(large) == small
    np.testing.assert_array_equal(small.apply(large)[0], small.apply(messy.table)[0])


def text_file(data):
    return TextFile(lambda: io.BytesIO(data), "x")


def test_plain_numbers_of_a_large_file_are_not_text(in_pieces):
    n = 300
    columns = {
        "plain": [f"{i / 7:.4g}" for i in range(n)],
        "gaps": ["NA" if i % 9 == 0 else str(i) for i in range(n)],
        "late": [str(i) for i in range(n - 1)] + ["many"],
        "zeros": [f"{i:03d}" for i in range(n)],
        "huge": ["1e999"] + ["1"] * (n - 1),
        "lines": ["1\n2"] * n,
        "kept": [str(i) for i in range(n)],
    }
    table = text_file(csv_bytes(columns)).whole(["kept"])
    assert [name for name in table.names if table.columns[name].dtype.kind == "f"] == ["plain", "gaps"]
    assert table.columns["late"][[0, -1]].tolist() == ["0", "many"]
    assert np.isnan(table.columns["gaps"][[0, 9]]).all()
    assert table.columns["gaps"][1] == 1.0


@pytest.mark.parametrize(("cell", "is_text"), [("1.234", True), ("1.25", False)])
def test_between_semicolons_a_point_may_stand_between_thousands(cell, is_text, in_pieces):
    table = text_file(csv_bytes({"x": [cell] * 60, "y": ["a", "b"] * 30}, ";")).whole([])
    assert (table.columns["x"].dtype.kind == "O") == is_text


def test_surprises_are_counted_over_pieces(in_pieces):
    rng = np.random.default_rng(3)
    x = rng.normal(size=N).round(3)
    y = np.where(x > 0, "a", "b").tolist()
    training = {"x": x.tolist(), "c": rng.choice(["u", "v"], N).tolist(), "y": y}
    preparation = prepared(parse_table(csv_bytes(training), "x"))
    new = {"x": [*map(str, x)], "c": ["u"] * N}
    new["x"][70], new["x"][200], new["x"][201], new["c"][9], new["c"][250] = "odd", "odder", "", "z", "w"
    data = csv_bytes(new)
    whole, notes = preparation.apply(parse_table(data, "new"))
    seen = preparation.nothing_seen()
    pieces = [preparation.features(piece, seen) for piece in text_file(data).pieces(["c"])]
    assert len(pieces) > 3
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    assert preparation.surprises(seen) == notes
    assert any("row 71 has 'odd'" in note for note in notes)
    assert any("2 value(s) not seen in training, e.g. 'w'" in note for note in notes)


def test_a_target_of_money_with_a_stray_cell_is_numbers():
    cells = [f"${1000 + 37 * i:,}" for i in range(60)]
    cells[7], cells[9] = "on request", ""
    values = np.array(cells, dtype=object)
    assert is_quantity(values)
    found, known, notes = numbers_of(values, "price")
    assert np.flatnonzero(~known).tolist() == [7, 9]
    assert found[:3].tolist() == [1000.0, 1037.0, 1074.0]
    assert len(found) == 58
    assert "1 row whose 'price' is no number left out: 'on request'." in notes
    for wrong in (["inf", *cells[10:]], ["a", "b", *cells[10:14]]):
        with pytest.raises(InvalidInputError, match="price"):
            numbers_of(np.array(wrong, dtype=object), "price")
