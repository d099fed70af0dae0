"""Properties: one stray cell deletes no column of numbers or dates and changes nothing about other columns."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from messy_tables import csv_bytes
from pbdn.tables import decide_columns, fit_preparation, parse_table

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


@st.composite
def tables(draw):
    """A table with a column of every way to write numbers and dates, and a column of words."""
    rows = draw(st.integers(12, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = {name: [write(x) for x in 500 * rng.random(rows)] for name, write in WRITTEN.items()}
    columns["words"] = rng.choice(["red", "green", "blue"], size=rows).tolist()
    return columns


@settings(max_examples=150, deadline=None)
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
