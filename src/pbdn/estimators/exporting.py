"""A fitted network for other engines, each of which takes rows as they stand in the table."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pbdn.inspection.access import feature_names, network_of


class Exports:
    """The exports of a fitted estimator: all of them use the recorded point of the network.

    Missing values are treated as in `predict_proba`. Where columns were prepared, rows have the raw columns
    (docs/deployment.md). What predicts numbers, counts, amounts or times exports means, quantiles and probabilities of more than
    a value; times with several causes also how probable each is by then.
    """

    _has_classes: ClassVar[bool]
    _predicts: ClassVar[str]

    classes_: Any
    preparation_: Any
    _stand_ins: Any

    def to_onnx(self, **options: Any) -> bytes:
        """Bytes of a self-contained ONNX model; options of `pbdn.export.to_onnx`.

        The input is ``features``. If some columns are no plain numbers, there is an input for every column, and the metadata
        ``inputs`` tell what each takes.
        """
        from pbdn.export import to_onnx
        from pbdn.tables.preparation_in_onnx import to_onnx_with_preparation

        network, classes, names = self._exported()
        if self._takes_raw_rows:
            return to_onnx_with_preparation(self.preparation_.preparation_, network, classes, **self._kind, **options)
        return to_onnx(network, classes, names, **{"stand_ins": self._filled_with(), **self._kind, **options})

    def to_sql(self, dialect: Any = "generic", **options: Any) -> str:
        """One SELECT that scores raw rows; options of `pbdn.export.to_sql`."""
        from pbdn.export import to_sql
        from pbdn.tables.preparation_in_sql import to_sql_with_preparation

        network, classes, names = self._exported()
        if hasattr(self, "preparation_"):
            prepared = self.preparation_.preparation_
            return to_sql_with_preparation(prepared, network, classes, dialect, **self._kind, **options)
        filled = {"stand_ins": self._filled_with(), **self._kind}
        return to_sql(network, classes, names, dialect=dialect, **{**filled, **options})

    def to_c(self, **options: Any) -> str:
        """A C header, all it needs inside; options of `pbdn.export.to_c`.

        A row is an array of doubles. If some columns are no plain numbers, it is a struct with a member for every column, and
        the only option is ``name``.
        """
        from pbdn.export import to_c
        from pbdn.tables.preparation_in_c import to_c_with_preparation

        network, classes, names = self._exported()
        if self._takes_raw_rows:
            return to_c_with_preparation(self.preparation_.preparation_, network, classes, **self._kind, **options)
        return to_c(network, classes, names, **{"stand_ins": self._filled_with(), **self._kind, **options})

    def to_python(self, **options: Any) -> str:
        """A Python module without dependencies that scores raw rows; options of `pbdn.export.to_python`.

        Where columns were prepared, a row is a dict of raw columns, and there are no options.
        """
        from pbdn.export import to_python
        from pbdn.tables.preparation_in_python import to_python_with_preparation

        network, classes, names = self._exported()
        if hasattr(self, "preparation_"):
            return to_python_with_preparation(self.preparation_.preparation_, network, classes, **self._kind, **options)
        return to_python(network, classes, names, **{"stand_ins": self._filled_with(), **self._kind, **options})

    def _exported(self) -> tuple[Any, list[Any], list[str]]:
        """What every export takes: the network (its recorded point) or several, the labels and the names of its features."""
        check_is_fitted(self)
        classes = self.classes_.tolist() if self._has_classes else []
        names = feature_names(self)
        return self._network_to_export(), classes, names

    def _network_to_export(self) -> Any:
        """The network; an estimator of several has `pbdn.export.plan.Several`."""
        return network_of(self)

    @property
    def _kind(self) -> dict[str, Any]:
        """Whether the numbers of the network stand for counts."""
        return {"counts": True} if self._predicts == "count" else {}

    @property
    def _takes_raw_rows(self) -> bool:
        """Whether rows of C and ONNX are columns of several kinds, rather than an array of numbers."""
        return hasattr(self, "preparation_") and not self.preparation_.preparation_.is_plain

    def _filled_with(self) -> list[float] | None:
        """What stands in for missing numbers."""
        if hasattr(self, "preparation_"):
            return [plan.fill for plan in self.preparation_.preparation_.used]
        return None if self._stand_ins is None else np.asarray(self._stand_ins).tolist()
