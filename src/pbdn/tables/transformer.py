"""The preparation of columns as a scikit-learn transformer: the decisions of the command line, in Python."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from pbdn.errors import InvalidInputError, TableWarning, warn
from pbdn.numerics.arrays import NamedArray
from pbdn.tables.decide_columns import ColumnOptions
from pbdn.tables.plan_columns import fit_preparation
from pbdn.tables.preparation import Preparation
from pbdn.tables.table import Table, collected, table_from

_OPTION = re.compile(r"--(categorical|numeric|date|id|drop|format) ('[^']*'|[^\s):]*[^\s):.,])")


class TablePreparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns of a data frame to numbers, with missing values, categories, dates and messy cells.

    The decisions are those of ``pbdn fit`` (docs/columns.md). What is odd is told in one `TableWarning`.

    Parameters
    ----------
    categorical_features : "from_dtype" or sequence of str, default="from_dtype"
        Columns that hold categories. "from_dtype": those whose type is category; what other columns hold is found out.
    numeric_features, date_features : sequence of str, default=()
        Columns that hold numbers or dates, whatever they look like.
    id_features, drop_features : sequence of str, default=()
        Columns to leave out.
    formats : mapping or None, default=None
        Column to the style of its numbers (``",."``) or of its dates (``"%d/%m/%Y"``).

    Attributes
    ----------
    preparation_ : Preparation
        What becomes of each column; ``preparation_.columns`` has the decisions in words.
    notes_ : list of str
        What a user should know about the columns.
    n_features_in_ : int
    feature_names_in_ : array
        Only if X had column names.

    Examples
    --------
    >>> import pandas as pd
    >>> from pbdn.tables import TablePreparation
    >>> frame = pd.DataFrame({"age": [31.0, None, 58.0, 44.0], "city": ["Oslo", "Rome", "Oslo", "Rome"]})
    >>> preparation = TablePreparation().fit(frame)
    >>> preparation.get_feature_names_out().tolist()
    ['age', 'age is missing', 'city = Rome']
    >>> preparation.transform(frame)[1].tolist()
    [44.0, 1.0, 1.0]
    """

    def __init__(
        self,
        *,
        categorical_features: str | Sequence[str] = "from_dtype",
        numeric_features: Sequence[str] = (),
        date_features: Sequence[str] = (),
        id_features: Sequence[str] = (),
        drop_features: Sequence[str] = (),
        formats: Mapping[str, str] | None = None,
    ) -> None:
        self.categorical_features = categorical_features
        self.numeric_features = numeric_features
        self.date_features = date_features
        self.id_features = id_features
        self.drop_features = drop_features
        self.formats = formats

    def fit(self, X: Any, y: Any = None) -> "TablePreparation":
        """Decide what becomes of each column; with labels ``y``, leaks are noted, and what many categories tell of them is learned."""
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """Decide, and make the features of the training rows.

        Where a column of many categories tells of the labels, no row counts in what it is told. So it is not
        ``fit(X, y).transform(X)``, which is for new rows.
        """
        return self._learn_and_transform(X, y)

    def _learn_and_transform(self, X: Any, y: Any, numbers: Any = None, sample_weight: Any = None) -> NamedArray:
        """Decide, and make the features of the training rows, which say labels or numbers."""
        table, said = self._learn(X, y, numbers, sample_weight)
        return NamedArray(self.preparation_.training_features(table, **said), self.preparation_.feature_names)

    def _learn(
        self, X: Any, y: Any, numbers: Any = None, sample_weight: Any = None
    ) -> tuple[Table, dict[str, NDArray[Any] | None]]:
        """Decide; the rows, and what they say."""
        table, categories = self._table(X, reset=True)
        if table.n_rows < 2:
            raise InvalidInputError(
                "X has 1 sample, from which nothing about columns can be told; at least 2 are needed."
            )
        rows = table.columns[table.names[0]]
        said: dict[str, Any] = {"labels": None if y is None else column_or_1d(y), "numbers": numbers, "weights": None}
        if sample_weight is not None:
            said["weights"] = _check_sample_weight(sample_weight, rows, dtype=np.float64)
        check_consistent_length(rows, *(one for one in said.values() if one is not None))
        self.preparation_ = fit_preparation(table, None, self._options(categories), **said)
        self.notes_ = [in_python(note) for note in self.preparation_.notes]
        if self.notes_:
            warn(" ".join(self.notes_), TableWarning)
        return table, said

    @classmethod
    def from_preparation(cls, preparation: Preparation) -> "TablePreparation":
        """A fitted transformer from a stored preparation, such as that of a model of ``pbdn fit``."""
        made = cls()
        made.preparation_ = preparation
        made.notes_ = [in_python(note) for note in preparation.notes]
        made.feature_names_in_ = np.array([plan.name for plan in preparation.columns], dtype=object)
        made.n_features_in_ = len(preparation.columns)
        return made

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Features of the rows of X, in the order of `get_feature_names_out`; surprises are told in a `TableWarning`."""
        check_is_fitted(self)
        table, _ = self._table(X, reset=False)
        values, notes = self.preparation_.apply(table)
        if notes:
            warn(" ".join(notes), TableWarning)
        return NamedArray(values, self.preparation_.feature_names)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features."""
        check_is_fitted(self)
        return np.asarray(self.preparation_.feature_names, dtype=object)

    def _table(self, X: Any, reset: bool) -> tuple[Table, tuple[str, ...]]:
        X = collected(X)
        table, categories = table_from(X)
        if not table.names or not table.n_rows:
            lacks = "feature(s)" if table.n_rows else "sample(s)"
            raise InvalidInputError(
                f"Found array with 0 {lacks} (shape=({table.n_rows}, {len(table.names)})) while a minimum of 1 is required."
            )
        validate_data(self, X, skip_check_array=True, reset=reset)
        return table, categories

    def _options(self, categories: tuple[str, ...]) -> ColumnOptions:
        given = self.categorical_features
        if isinstance(given, str) and given != "from_dtype":
            raise InvalidInputError(
                f"categorical_features={given!r} must be 'from_dtype' or a list of column names, such as [{given!r}]."
            )
        said = (
            *self.numeric_features,
            *self.date_features,
            *self.id_features,
            *self.drop_features,
            *(self.formats or {}),
        )
        chosen = [name for name in categories if name not in said] if isinstance(given, str) else given
        return ColumnOptions(
            categorical=tuple(chosen),
            numeric=tuple(self.numeric_features),
            date=tuple(self.date_features),
            id=tuple(self.id_features),
            drop=tuple(self.drop_features),
            formats=self.formats or {},
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def in_python(note: str) -> str:
    """A note with parameters of `TablePreparation` in place of options of the command line.

    Estimators tell such notes too, so the name of the class is given.
    """

    def parameter(found: re.Match[str]) -> str:
        kind, text = found[1], found[2].strip("'")
        if kind == "format":
            name, _, style = text.rpartition("=")
            return f"TablePreparation(formats={{{name!r}: {style!r}}})"
        return f"TablePreparation({kind}_features=[{text!r}])"

    return _OPTION.sub(parameter, note)
