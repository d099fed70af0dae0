"""Files become tables, and strays among their cells are named."""

import gzip
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messy_tables import csv_bytes
from pbdn.errors import InvalidInputError
from pbdn.tables import column, decide_columns, fit_preparation, parse_table, read_table
from pbdn.tables.table import seconds, table_from

STRAYS = ["unknown", "inf", "-inf", "<0.1", "0000-00-00", "#REF!", "1,5", "1.234,5", "12,983", "007", "14:05", "50%", "$5",
          "a;b;c", "it's", 'say "hi"', "x|y", "tab\there", "two\nlines", "1e999", "١٢", "2020-02-30"]  # fmt: skip

WRITTEN = {
    "plain": lambda x: f"{x:.2f}",
    "whole": lambda x: f"{x // 10:.0f}",
    "comma": lambda x: f"{x:.2f}".replace(".", ","),
    "thousands": lambda x: f"{1000 * x:,.2f}",
    "points": lambda x: f"{1000 * x:,.2f}".translate(str.maketrans(",.", ".,")),
    "money": lambda x: f"${1000 * x:,.2f}",
    "percent": lambda x: f"{x:.1f}%",
    "time": lambda x: f"{int(x) % 24:02d}:{int(7 * x) % 60:02d}",
    "iso": lambda x: str(np.datetime64("2020-01-01") + int(x)),
    "german": lambda x: f"{int(x) % 28 + 1:02d}.{int(3 * x) % 12 + 1:02d}.20{int(x) % 20 + 10}",
}


# Reading tables: what is guessed, and what is refused in words.


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separator_and_quotes_are_found(separator):
    text = f'name{separator}text\n1{separator}"a{separator}b"\n2{separator}"say ""hi"""\n'
    table = parse_table(text.encode(), "x")
    assert table.names == ["name", "text"]
    assert table.columns["text"].tolist() == [f"a{separator}b", 'say "hi"']


def test_apostrophes_as_quotes():
    table = parse_table(b"a,b\n1,'x,y'\n2,'z,w'\n", "x")
    assert table.columns["b"].tolist() == ["x,y", "z,w"]


def test_quoted_line_breaks_stay_in_their_cell():
    table = parse_table(b'a,b\n1,"x\ny"\n2,z\n', "x")
    assert table.columns["b"].tolist() == ["x\ny", "z"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(encoding):
    table = parse_table("größe,b\n1,é\n2,ü\n".encode(encoding), "x")
    assert table.names[0] == "größe"
    assert table.columns["b"].tolist() == ["é", "ü"]


def test_numbers_in_the_first_line_are_data():
    table = parse_table(b"1,2\n3,4\n", "x")
    assert table.names == ["column_1", "column_2"]
    assert table.n_rows == 2
    assert any("column_1" in note for note in table.notes)


def test_names_become_unique():
    assert parse_table(b"a,a,,a\n1,2,3,4\n", "x").names == ["a", "a.2", "column_3", "a.3"]


def test_gzip(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_table(path).n_rows == 1


def test_pieces_of_a_large_file_are_the_whole(tmp_path, monkeypatch):
    path, n = tmp_path / "rows.csv", 20_000
    x = np.arange(n) / 8.0
    lines = [
        f"{a},{'short' if i < 300 else 'rather a long word'},{'1' if i < 15_000 else 'one'}\n" for i, a in enumerate(x)
    ]
    path.write_text("x,word,late\n" + "".join(lines))
    small = read_table(path, keep_text=["word"])
    monkeypatch.setattr("pbdn.tables.read_csv.LARGE", 1)
    monkeypatch.setattr("pbdn.tables.read_csv.PIECE_CELLS", 1000)
    table = read_table(path, keep_text=["word"])
    np.testing.assert_array_equal(table.columns["x"], x)
    for name in ("word", "late"):
        assert table.columns[name].tolist() == small.columns[name].tolist()


def test_ragged_line_is_named():
    with pytest.raises(InvalidInputError, match=r"Line 3 .* 3 cells .* 2"):
        parse_table(b"a,b\n1,2\n1,2,3\n", "x")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"a,b\n", "no rows"),
        (b"\x7fELF\x00\x01" * 50, "binary"),
        (b"PAR1 nonsense", "damaged"),
        (b"ARROW1\0\0nonsense", "damaged"),
        (b"\x1f\x8bnonsense", "damaged gzip"),
    ],
)
def test_what_is_no_table_is_said(data, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        parse_table(data, "'file'")
    assert "\n" not in str(caught.value)


def test_missing_file_folder_and_near_name(tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInputError, match=r"table\.csv"):
        read_table(tmp_path / "tabel.csv")
    with pytest.raises(InvalidInputError, match="folder"):
        read_table(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    path.chmod(0)
    with pytest.raises(InvalidInputError, match="permission"):
        read_table(path)


def test_unknown_column_gives_the_nearest():
    table = parse_table(b"age,weight\n1,2\n", "x")
    with pytest.raises(InvalidInputError, match="did you mean 'weight'"):
        column(table, "wieght")
    with pytest.raises(InvalidInputError, match="did you mean 'age'"):
        column(table, "AGE")


@pytest.mark.parametrize("kind", ["parquet", "feather", "stream"])
def test_arrow_files_keep_types(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    dates = np.array(["2020-01-01", "2021-06-01", "NaT"], dtype="datetime64[ms]")
    table = pa.table(
        {
            "n": pa.array([1, None, 3]),
            "f": pa.array([0.5, None, 2.0**60], pa.float32()),
            "m": pa.array(["0.50", None, "2.25"]).cast(pa.decimal128(9, 2)),
            "d": pa.array(dates),
            "s": pa.array(["x", None, "y"]).dictionary_encode(),
            "b": pa.array([True, False, None]),
        }
    )
    path = tmp_path / "t.bin"  # the bytes tell, not the name
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    elif kind == "feather":
        pytest.importorskip("pyarrow.feather").write_feather(table, path)
    else:
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    read = read_table(path)
    np.testing.assert_array_equal(read.columns["n"], [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(read.columns["f"], [0.5, np.nan, 2.0**60])
    np.testing.assert_array_equal(read.columns["m"], [0.5, np.nan, 2.25])
    assert read.columns["d"].astype(str).tolist() == ["2020-01-01T00:00:00", "2021-06-01T00:00:00", "NaT"]
    assert read.columns["s"].tolist() == ["x", None, "y"]
    assert read.columns["b"].tolist() == ["true", "false", None]


def test_parquet_is_read_as_the_same_frame_is(tmp_path):
    """Clocks of time zones and lengths of time mean the same in a file, in a frame and in a text table."""
    pd, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    when = pd.to_datetime(["2024-03-17 13:20", "2024-01-05 23:59", None]).tz_localize("America/New_York")
    stay = pd.to_timedelta(["0 days 04:24:02", "3 days 01:00:00", None])
    frame = pd.DataFrame({"when": when, "stay": stay})
    for unit in ("ms", "ns"):
        kinds = pa.schema([("when", pa.timestamp(unit, "America/New_York")), ("stay", pa.duration(unit))])
        parquet.write_table(pa.Table.from_pandas(frame, kinds), tmp_path / "t.parquet")
        read, given = read_table(tmp_path / "t.parquet"), table_from(frame)[0]
        np.testing.assert_array_equal(seconds(read.columns["when"])[0], seconds(given.columns["when"])[0])
        np.testing.assert_array_equal(read.columns["stay"], [15842.0, 262800.0, np.nan])
        np.testing.assert_array_equal(read.columns["stay"], given.columns["stay"])
    text = [moment.isoformat() for moment in when[:2]]
    np.testing.assert_array_equal(seconds(np.array(text, object))[0], seconds(read.columns["when"])[0][:2])


def test_lines_above_the_names():
    table = parse_table(b"sep=|\na|b\n1|2\n", "x")
    assert (table.names, table.n_rows) == (["a", "b"], 1)
    for title in (b"Sales of May\n", b"Sales of May,,\n"):
        with pytest.raises(InvalidInputError, match="Line 1 of x holds 'Sales of May' alone"):
            parse_table(title + b"a,b,c\n1,2,3\n", "x")


# Properties: one stray cell deletes no column of numbers or dates and changes nothing about other columns.


@st.composite
def tables(draw):
    """A table with a column of every way to write numbers and dates, and a column of words."""
    rows = draw(st.integers(12, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = {name: [write(x) for x in 500 * rng.random(rows)] for name, write in WRITTEN.items()}
    columns["words"] = rng.choice(["red", "green", "blue"], size=rows).tolist()
    return columns


@settings(max_examples=75, deadline=None)
@given(
    columns=tables(),
    where=st.sampled_from(sorted(WRITTEN)),
    row=st.integers(0, 10**6),
    stray=st.sampled_from(STRAYS) | st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12),
)
def test_one_stray_cell(columns, where, row, stray):
    clean = parse_table(csv_bytes(columns), "clean")
    row %= clean.n_rows
    changed = {name: list(cells) for name, cells in columns.items()}
    changed[where][row] = stray
    dirty = parse_table(csv_bytes(changed), "dirty")
    before, after = decide_columns(clean), decide_columns(dirty)
    assert dirty.names == clean.names
    assert {name: one for name, one in after.items() if name != where} == {
        name: one for name, one in before.items() if name != where
    }
    assert after[where].kind == before[where].kind
    assert before[where].kind == ("date" if where in ("iso", "german") else "number")
    X, _ = fit_preparation(dirty).apply(dirty)
    assert np.isfinite(X).all()
    one = clean.rows(np.arange(clean.n_rows) != row)
    names = fit_preparation(clean, decisions={where: before[where]}).feature_names[:1]
    expected, _ = fit_preparation(one, decisions={where: before[where]}).apply(one)
    got, _ = fit_preparation(dirty, decisions={where: after[where]}).apply(dirty)
    np.testing.assert_array_equal(np.delete(got[:, 0], row), expected[:, 0], err_msg=names[0])
