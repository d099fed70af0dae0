"""A table in memory: named columns of equal length, also from a data frame, and their cells as numbers, seconds or words."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.tables.read_cell import is_missing, to_date, to_number

Column = NDArray[Any]
EPOCH = datetime(1970, 1, 1)


class SomeRows(Mapping[str, Column]):
    """Columns at some rows. A column is taken when it is asked for, so that a part of a large table takes no memory."""

    def __init__(self, columns: Mapping[str, Column], which: NDArray[np.int64]) -> None:
        self._columns, self._which = columns, which

    def __getitem__(self, name: str) -> Column:
        """The column, a new array."""
        return self._columns[name][self._which]

    def __contains__(self, name: object) -> bool:
        """Whether there is such a column, without taking it."""
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        """Names in order."""
        return iter(self._columns)

    def __len__(self) -> int:
        """Number of columns."""
        return len(self._columns)


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Attributes
    ----------
    columns : mapping
        Name to array: float64 with NaN (numbers), datetime64[s] with NaT (dates), or object with None
        (text: also numbers and dates of a CSV file, whose type `pbdn.tables.decide_columns` decides).
    n_rows : int
    notes : list of str
        What was guessed while reading, in words.
    strings : frozenset of str
        Columns that were stored as text although the file could have stored numbers (Parquet, Arrow, data frames).
    separator : str, optional
        Mark between the cells of a CSV file.
    exact : mapping
        Columns to be copied as they are, where ``columns`` would round them: whole numbers of Parquet and Arrow.
    """

    columns: Mapping[str, Column]
    n_rows: int
    notes: list[str] = field(default_factory=list)
    strings: frozenset[str] = frozenset()
    separator: str | None = None
    exact: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return list(self.columns)

    def rows(self, which: NDArray[Any]) -> "Table":
        """Some rows, by number or mask; the table itself if a mask has them all."""
        if which.dtype == bool and which.all():
            return self
        which = np.arange(self.n_rows)[which]
        return replace(self, columns=SomeRows(self.columns, which), n_rows=len(which))


class GrowingColumn:
    """A column to which pieces are added. It has its memory from the beginning: pieces joined at the end would take it twice.

    Parameters
    ----------
    n_rows : int
        How many there will probably be; memory that is never written to costs nothing.
    """

    def __init__(self, n_rows: int) -> None:
        self._expected, self._n_rows = n_rows, 0
        self._values: Column = np.empty(0)

    def add(self, piece: Column) -> None:
        """Put a piece at the end; all have one type."""
        end = self._n_rows + len(piece)
        if self._n_rows == 0 or end > len(self._values):
            longer = np.empty(max(end, self._expected, 5 * len(self._values) // 4), dtype=piece.dtype)
            longer[: self._n_rows] = self._values[: self._n_rows]
            self._values = longer
        self._values[self._n_rows : end] = piece
        self._n_rows = end

    def whole(self) -> Column:
        """All pieces."""
        return self._values[: self._n_rows]


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
    near = difflib.get_close_matches(name, table.names, n=3, cutoff=0.7)
    lower = [known for known in table.names if known.lower() == name.lower()]
    near = list(dict.fromkeys(lower + near))
    shown = ", ".join(repr(known) for known in near or table.names[:10])
    more = "" if near or len(table.names) <= 10 else f", … ({len(table.names)} in all)"
    hint = f"did you mean {shown}?" if near else f"the table has {shown}{more}."
    raise InvalidInputError(f"There is no {what} {name!r} in the table; {hint}")


def table_from(X: Any) -> tuple[Table, tuple[str, ...]]:
    """A table, and the names of the columns whose type says category.

    pandas, polars, Arrow and other frames keep their names and types; the columns of arrays are called x0, x1, ….

    Raises
    ------
    InvalidInputError
        Two columns of one name, a sparse matrix, or not two dimensions.
    """
    if hasattr(X, "tocsr"):
        raise InvalidInputError(
            "X is a sparse matrix, whose columns are numbers already and need no preparation; give a data frame or an array "
            "where columns are prepared, and sparse matrices to a classifier that was fitted on one."
        )
    if _is_pandas(X):
        _refuse_names_met_twice([str(name) for name in X.columns])
    frame = nw.from_native(collected(X), pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return _from_frame(frame)
    values = np.asarray(X)
    if values.ndim != 2:
        raise InvalidInputError(
            f"X has {values.ndim} dimension(s); expected a 2D array or a data frame. Reshape your data: X.reshape(-1, 1) "
            "for a single feature, X.reshape(1, -1) for a single sample."
        )
    if values.dtype.kind == "c":
        raise InvalidInputError("Complex data not supported: X has complex numbers; give real ones.")
    columns = {f"x{j}": _from_objects(values[:, j]) for j in range(values.shape[1])}
    return Table(columns, len(values), strings=_strings(columns)), ()


def collected(X: Any) -> Any:
    """A frame that is not computed yet, computed; anything else as it is."""
    if _is_pandas(X) or isinstance(X, np.ndarray):
        return X
    frame = nw.from_native(X, pass_through=True)
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else X


def needs_preparation(X: Any) -> bool:
    """Whether a frame or array has anything but present numbers: text, categories, dates, missing values."""
    if hasattr(X, "tocsr"):
        return False
    if _is_pandas(X):
        _refuse_names_met_twice([str(name) for name in X.columns])
        if all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in X.dtypes):
            X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        return bool(np.isnan(X).any())
    table, categories = table_from(X)
    return (
        bool(categories)
        or _has_durations(X)
        or any(values.dtype.kind != "f" or np.isnan(values).any() for values in table.columns.values())
    )


def _has_durations(X: Any) -> bool:
    """Whether some column is lengths of time, which become seconds."""
    if isinstance(X, np.ndarray):
        return bool(X.dtype.kind == "m")
    frame = nw.from_native(X, pass_through=True)
    return isinstance(frame, nw.DataFrame) and any(kind == nw.Duration for kind in frame.schema.values())


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns")


def _refuse_names_met_twice(names: list[str]) -> None:
    twice = [name for j, name in enumerate(names) if name in names[:j]] if len(set(names)) < len(names) else []
    if twice:
        raise InvalidInputError(f"X has more than one column called {twice[0]!r}; give each column a name of its own.")


def _from_frame(frame: Any) -> tuple[Table, tuple[str, ...]]:
    names = [str(name) for name in frame.columns]
    _refuse_names_met_twice(names)
    columns: dict[str, Column] = {}
    categories = []
    for j, name in enumerate(names):
        series = frame[:, j]
        columns[name] = _from_series(series)
        if isinstance(series.dtype, nw.Categorical | nw.Enum):
            categories.append(name)
    return Table(columns, len(frame), strings=_strings(columns)), tuple(categories)


def _from_series(series: Any) -> Column:
    """A column as numbers, dates or text."""
    kind = series.dtype
    if kind == nw.Boolean:
        return _objects([None if is_missing(x) else str(x).lower() for x in series.to_list()])
    if kind.is_numeric():
        if series.null_count():
            return np.array([np.nan if is_missing(x) else float(x) for x in series.to_list()])
        return np.asarray(series.to_numpy(), dtype=np.float64)
    if kind == nw.Datetime or kind == nw.Date:
        stamps = [None if is_missing(x) else np.datetime64(x.isoformat()[:19], "s") for x in series.to_list()]
        return np.array(["NaT" if x is None else x for x in stamps], dtype="datetime64[s]")
    if kind == nw.Duration:
        return np.array([np.nan if is_missing(x) else x.total_seconds() for x in series.to_list()], dtype=np.float64)
    return _from_objects(_objects(series.to_list()))


def _from_objects(values: NDArray[Any]) -> Column:
    """Objects as numbers, where all are, or as text."""
    if values.dtype.kind in "fiu":
        return values.astype(np.float64)
    if values.dtype.kind == "M":
        return values.astype("datetime64[s]")
    if values.dtype.kind == "m":
        return np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "s"))
    cells = values.tolist()
    present = [x for x in cells if not is_missing(x)]
    if present and all(isinstance(x, int | float) and not isinstance(x, bool) for x in present):
        return np.array([np.nan if is_missing(x) else float(x) for x in cells])
    if values.dtype.kind == "b" or all(isinstance(x, bool) for x in present):
        return _objects([None if is_missing(x) else str(x).lower() for x in cells])
    return _objects([None if is_missing(x) else str(x).strip() for x in cells])


def _objects(values: list[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _strings(columns: dict[str, Column]) -> frozenset[str]:
    return frozenset(name for name, values in columns.items() if values.dtype.kind == "O")


def numbers(values: NDArray[Any], style: str = ".") -> tuple[NDArray[np.float64], list[int]]:
    """Float array with NaN for missing ones, and the positions of cells that are no finite numbers."""
    if values.dtype.kind in "fiub":
        out = values.astype(np.float64)
        return np.where(np.isfinite(out), out, np.nan), np.flatnonzero(np.isinf(out)).tolist()
    return _read(values, lambda text: to_number(text, style))


def seconds(values: NDArray[Any], style: str = "iso") -> tuple[NDArray[np.float64], list[int]]:
    """Seconds since 1970 with NaN for missing ones, and the positions of cells that are no dates."""
    if values.dtype.kind == "M":
        stamps = values.astype("datetime64[s]")
        return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64)).astype(np.float64), []
    if values.dtype.kind == "f":
        values = np.array([*words(values), None], dtype=object)[:-1]

    def stamp(text: str) -> float | None:
        date = to_date(text, style)
        return None if date is None else (date - EPOCH).total_seconds()

    return _read(values, stamp)


def words(values: NDArray[Any]) -> list[str | None]:
    """Text with None for missing ones; whole numbers without a decimal point."""
    if values.dtype.kind == "f":
        return [
            None if x != x else str(int(x)) if x == round(x, 0) and abs(x) < 2**63 else repr(float(x)) for x in values
        ]
    known: dict[Any, str | None] = {}
    out = []
    for value in values.tolist():
        kind = (type(value), value)
        if kind not in known:
            known[kind] = None if is_missing(value) else str(value)
        out.append(known[kind])
    return out


def _read(values: NDArray[Any], meaning: Callable[[str], float | None]) -> tuple[NDArray[np.float64], list[int]]:
    out, bad = np.full(len(values), np.nan), []
    known: dict[str, float | None] = {}
    for i, value in enumerate(values):
        if is_missing(value):
            continue
        text = str(value)
        if text not in known:
            known[text] = meaning(text)
        number = known[text]
        if number is None:
            bad.append(i)
        else:
            out[i] = number
    return out, bad
