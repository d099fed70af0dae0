"""Reading tables: what is guessed, and what is refused in words."""

import gzip
import os

import numpy as np
import pytest

from pbdn.errors import InvalidInputError
from pbdn.tables import column, parse_table, read_table


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
