"""Methods of a fitted estimator that take it elsewhere: other engines, ArviZ, a report."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pbdn.model.network import Network


class ExportMixin:
    """Exports of `PBDNClassifier` and `ISHMClassifier`.

    The engines (ONNX, SQL, C, Python) compute with the recorded point of the network: the draw of highest
    likelihood, or the optimum. That equals ``predict_proba`` with ``prediction="point"``; the default after
    Gibbs sampling averages posterior draws and differs a little.
    """

    if TYPE_CHECKING:
        classes_: Any

        def _network(self) -> "Network": ...
        def _names(self) -> list[str]: ...

    def _exported(self) -> tuple["Network", list[Any], list[str]]:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        return self._network(), self.classes_.tolist(), self._names()

    def to_onnx(self, **options: Any) -> bytes:
        """Bytes of a self-contained ONNX model of the recorded point; options of `pbdn.export.to_onnx`."""
        from pbdn.export import to_onnx

        return to_onnx(*self._exported(), **options)

    def to_sql(self, dialect: Any = "generic", **options: Any) -> str:
        """One SELECT that scores rows by the recorded point; options of `pbdn.export.to_sql`."""
        from pbdn.export import to_sql

        return to_sql(*self._exported(), dialect=dialect, **options)

    def to_c(self, **options: Any) -> str:
        """A C header, all it needs inside, of the recorded point; options of `pbdn.export.to_c`."""
        from pbdn.export import to_c

        return to_c(*self._exported(), **options)

    def to_python(self, **options: Any) -> str:
        """A Python module without dependencies that scores rows by the recorded point.

        Options of `pbdn.export.to_python`.
        """
        from pbdn.export import to_python

        return to_python(*self._exported(), **options)

    def to_datatree(self, X: Any = None, y: Any = None) -> Any:
        """Posterior draws as an xarray DataTree in the ArviZ schema; see `pbdn.inspection.datatree.to_datatree`."""
        from pbdn.inspection.datatree import to_datatree

        return to_datatree(self, X, y)

    def report(self, X: Any, y: Any = None, path: str | os.PathLike[str] | None = None, **options: Any) -> str:
        """One offline HTML page about the model on these rows, written to ``path`` if given.

        Parameters
        ----------
        X, y
            Rows to describe, best ones that were not fitted on; labels are optional.
        path : path, optional
        options
            Of `pbdn.report.collect`: source, target, notes, ….

        Returns
        -------
        str
            The HTML text.
        """
        from pbdn.files import atomic_write
        from pbdn.report import collect, render_html

        page = render_html(collect(self, X, y, **options))
        if path is not None:
            atomic_write(path, page.encode())
        return page

    def _html_repr(self) -> str:
        """Notebook view: scikit-learn's diagram and, once fitted, what was learned."""
        from sklearn.utils import estimator_html_repr

        from pbdn.report.summary import html_summary

        return str(estimator_html_repr(self)) + html_summary(self)
