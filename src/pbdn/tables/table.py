"""A table in memory: named columns of equal length."""

import difflib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError

Column = NDArray[Any]


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Attributes
    ----------
    columns : dict
        Name to array: float64 with NaN (numbers), datetime64[s] with NaT (dates), or object with None
        (text: also numbers and dates of a CSV file, whose type `pbdn.tables.decide_columns` decides).
    n_rows : int
    notes : list of str
        What was guessed while reading, in words.
    strings : frozenset of str
        Columns that were stored as text although the file could have stored numbers (Parquet, Arrow, data frames).
    separator : str, optional
        Mark between the cells of a CSV file.
    """

    columns: dict[str, Column]
    n_rows: int
    notes: list[str] = field(default_factory=list)
    strings: frozenset[str] = frozenset()
    separator: str | None = None

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return list(self.columns)

    def rows(self, which: NDArray[Any]) -> "Table":
        """Some rows, by number or mask; the table itself if a mask has them all."""
        if which.dtype == bool and which.all():
            return self
        columns = {name: values[which] for name, values in self.columns.items()}
        return replace(self, columns=columns, n_rows=len(np.arange(self.n_rows)[which]))


def joined_column(parts: list[Column]) -> Column:
    """One column from its pieces, which are let go."""
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    parts.clear()
    return whole


def unique_names(given: list[str], notes: list[str]) -> list[str]:
    """Column names, each once: a second ``a`` is called ``a.2``, and a note says so."""
    names: list[str] = []
    taken = set(given)
    for j, cell in enumerate(given, 1):
        base = cell or f"column_{j}"
        unique, number = base, 2
        while unique in names or (unique != cell and unique in taken):
            unique, number = f"{base}.{number}", number + 1
        if unique != cell:
            what = f"a second {cell!r}" if cell else "without a name"
            notes.append(f"Column {j} ({what}) is called {unique!r}.")
        names.append(unique)
    return names


def column(table: Table, name: str, what: str = "column") -> Column:
    """One column; an unknown name is answered with the nearest ones."""
    if name in table.columns:
        return table.columns[name]
    near = difflib.get_close_matches(name, table.names, n=3, cutoff=0.5)
    lower = [known for known in table.names if known.lower() == name.lower()]
    near = list(dict.fromkeys(lower + near))
    shown = ", ".join(repr(known) for known in near or table.names[:10])
    more = "" if near or len(table.names) <= 10 else f", … ({len(table.names)} in all)"
    hint = f"did you mean {shown}?" if near else f"the table has {shown}{more}."
    raise InvalidInputError(f"There is no {what} {name!r} in the table; {hint}")
