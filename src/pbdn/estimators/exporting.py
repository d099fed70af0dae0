"""A fitted network for other engines. SQL and Python take raw rows; C and ONNX say how their inputs are made from them."""

from typing import Any

from pbdn.inspection.access import feature_names, network_of
from pbdn.model.network import Network


class Exports:
    """The exports of a fitted classifier: all of them use the recorded point of the network."""

    classes_: Any

    def to_onnx(self, **options: Any) -> bytes:
        """Bytes of a self-contained ONNX model; options of `pbdn.export.to_onnx`.

        Where columns were prepared, the inputs are the prepared features, and the metadata tell how each is made.
        """
        from pbdn.export import to_onnx

        return to_onnx(*self._exported(), **{"remarks": self._remarks(), **options})

    def to_sql(self, dialect: Any = "generic", **options: Any) -> str:
        """One SELECT that scores raw rows; options of `pbdn.export.to_sql`."""
        from pbdn.export import to_sql
        from pbdn.tables.preparation_in_sql import to_sql_with_preparation

        network, classes, names = self._exported()
        if hasattr(self, "preparation_"):
            return to_sql_with_preparation(self.preparation_.preparation_, network, classes, dialect, **options)
        return to_sql(network, classes, names, dialect=dialect, **options)

    def to_c(self, **options: Any) -> str:
        """A C header, all it needs inside; options of `pbdn.export.to_c`.

        Where columns were prepared, the inputs are the prepared features, and the first comment tells how each is made.
        """
        from pbdn.export import to_c

        return to_c(*self._exported(), **{"remarks": self._remarks(), **options})

    def to_python(self, **options: Any) -> str:
        """A Python module without dependencies that scores raw rows; options of `pbdn.export.to_python`.

        Where columns were prepared, a row is a dict of raw columns, and there are no options.
        """
        from pbdn.export import to_python
        from pbdn.tables.preparation_in_python import to_python_with_preparation

        network, classes, names = self._exported()
        if hasattr(self, "preparation_"):
            return to_python_with_preparation(self.preparation_.preparation_, network, classes, **options)
        return to_python(network, classes, names, **options)

    def _exported(self) -> tuple[Network, list[Any], list[str]]:
        """What every export takes: the network (its recorded point), the labels and the names of its features."""
        return network_of(self), self.classes_.tolist(), feature_names(self)

    def _remarks(self) -> list[str]:
        """How each feature is made from raw columns; nothing where the features are the columns."""
        if not hasattr(self, "preparation_") or self.preparation_.preparation_.is_plain:
            return []
        return [f"x[{j}]: {text}" for j, text in enumerate(self.preparation_.preparation_.recipes)]
