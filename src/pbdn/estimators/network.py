"""What every fitted network can do, whatever its response: show itself, explain itself, be saved."""

import os
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pbdn.config import FitConfig
from pbdn.estimators.frames import column_importances, column_shapley_values, restore_preparation
from pbdn.inspection import subtypes
from pbdn.inspection.access import checked_rows, feature_names, network_of, parts_of, side_labels
from pbdn.inspection.shapley import ShapleyValues
from pbdn.model.network import Layer, Network
from pbdn.numerics.arrays import FloatArray
from pbdn.validation import check_share


class NetworkEstimator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Methods and attributes of everything that is fitted to a network.

    `pbdn.estimators.growing.GrowsNetworks` fills ``config_``, ``network_`` (None: nothing to learn), ``paths_``,
    ``criterion_path_``, ``trials_``, ``trace_`` and ``convergence_``; everything else follows from them.
    """

    _has_classes: ClassVar[bool] = True  # whether ``classes_`` name what is predicted
    _predicts: ClassVar[str] = "class"  # or number, count, grade, time
    _stored: ClassVar[tuple[str, ...]] = ()  # further attributes, arrays of numbers, that a file keeps

    config_: FitConfig
    network_: Network | None
    paths_: tuple[Network, ...]
    models_: tuple[Any, ...] = ()  # of an estimator that is made of several; ``network_`` is None then
    criterion_path_: list[dict[str, Any]]
    trace_: list[Any]
    trials_: list[Any]
    convergence_: list[dict[str, Any]]
    n_features_in_: int
    _importances: FloatArray | None = None
    _unmeasured: FloatArray | None = None  # rows on which importances are to be measured when they are asked for
    _stand_ins: FloatArray | None = None  # for values that are missing in new rows, where nothing else is prepared

    @property
    def _names_of_models(self) -> list[str]:
        """What the networks of ``models_`` are called."""
        return []

    def _as_array(self, y: Any) -> NDArray[Any]:
        """Targets as an array of rows."""
        return np.asarray(y)

    # ------------------------------------------------------- what follows from the network

    @property
    def inference_(self) -> str:
        """The inference that was used."""
        return self.config_.inference

    @property
    def layers_(self) -> tuple[Layer, ...]:
        """Layers from bottom to top."""
        return () if self.network_ is None else self.network_.layers

    @property
    def depth_(self) -> int:
        """Number of layers; of several networks, of the deepest."""
        return int(max([len(self.layers_), *(model.depth_ for model in self.models_)]))

    @property
    def n_experts_(self) -> list[tuple[int, ...]]:
        """Experts per layer and side."""
        return [layer.n_experts for layer in self.layers_]

    @property
    def complexity_(self) -> float:
        """Cost of a prediction in units of one inner product, as the paper counts it."""
        own = 0.0 if self.network_ is None else self.network_.complexity
        return float(own + sum(model.complexity_ for model in self.models_))

    @property
    def n_weights_(self) -> int:
        """Numbers that the network holds."""
        own = 0 if self.network_ is None else self.network_.n_weights
        return int(own + sum(model.n_weights_ for model in self.models_))

    @property
    def feature_importances_(self) -> FloatArray:
        """How far predictions moved when each column was shuffled in training rows, as shares that sum to one.

        Measured at the end of the fit and kept with the model, so no rows are needed. The rows are a sample from all of a
        stream; `partial_fit` keeps a sample of all its batches. One value for each column of X; the features of one prepared
        column share it. It says what the network uses, not what causes what.
        """
        check_is_fitted(self)
        if self._unmeasured is not None:
            self._importances, self._unmeasured = column_importances(self, self._unmeasured), None
        if self._importances is None:
            raise AttributeError(
                "This model was saved without feature_importances_; fit it again, or use model.effects(X)."
            )
        return self._importances

    def _averaged(self) -> tuple[Network, ...]:
        """The networks whose draws are averaged."""
        assert self.network_ is not None
        return self.paths_ if self.config_.prediction == "paths" and self.paths_ else (self.network_,)

    # -------------------------------------------------------------------------- explanation

    def transform(self, X: Any) -> FloatArray:
        """Hidden units s(x'β_k) of the top layer, all sides side by side."""
        check_is_fitted(self)
        if self.models_:
            return np.concatenate([model.transform(X) for model in self.models_], axis=1)
        X = checked_rows(self, X)
        if self.network_ is None:
            return np.zeros((X.shape[0], 0))
        return np.asarray(self.network_.top.units(self.network_.top_inputs(X)))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of `transform`, with what each side is for."""
        check_is_fitted(self)
        if self.models_:
            parts = [model.get_feature_names_out() for model in self.models_]
            return np.asarray([f"model{j}_{name}" for j, part in enumerate(parts) for name in part], dtype=object)
        names = [] if self.network_ is None else subtypes.unit_names(self.network_, np.asarray(side_labels(self)))
        return np.asarray(names, dtype=object)

    def subtypes(self, X: Any) -> Any:
        """Data subtypes of the paper's eq. (2), per layer, side and expert, in the space of the features.

        Returns
        -------
        pandas.DataFrame
            Columns layer, side, expert (counted from one), weight, share, and one mean per feature. Where an estimator has
            several networks, a column model comes first.
        """
        return self._table(
            X, lambda one, rows: subtypes.subtype_table(network_of(one), rows, side_labels(one), feature_names(one))
        )

    def explain(self, X: Any) -> Any:
        """Which expert of which side of the top layer voted for each row.

        Returns
        -------
        pandas.DataFrame
            Columns row, side, expert (counted from one), vote (p_ik), distance from the hyperplane in the layer's inputs, and
            strongest. Where an estimator has several networks, a column model comes first.
        """
        return self._table(X, lambda one, rows: subtypes.vote_table(network_of(one), rows, side_labels(one)))

    def _table(self, X: Any, told: Callable[[Any, Any], dict[str, Any]]) -> Any:
        """What every network of the estimator tells of rows, one below the other."""
        tables = [(name, told(one, checked_rows(one, X))) for name, one in parts_of(self)]
        if not self.models_:
            return subtypes.as_frame(tables[0][1])
        names = [[name] * len(next(iter(table.values()))) for name, table in tables]
        columns = {"model": [name for part in names for name in part]}
        for key in tables[0][1]:
            columns[key] = [value for _, table in tables for value in list(table[key])]
        return subtypes.as_frame(columns)

    def polytope_violations(self, X: Any, p0: float = 0.5) -> NDArray[np.int64]:
        """How many inequalities of Theorem 1 each row violates, per side of the top layer: shape (n, n_sides).

        A row with P(side says yes) ≤ p0 violates none. Where networks are averaged, each has inequalities of its own.
        """
        check_share("p0", p0)
        X = checked_rows(self, X)
        network = network_of(self)
        inputs = network.top_inputs(X)
        return np.column_stack([subtypes.violations(side, inputs, p0) for side in network.top.sides])

    def shap_values(self, X: Any, background: Any, **options: Any) -> ShapleyValues:
        """What each column adds to each prediction, against background rows.

        Exact for up to ten columns, else sampled with a stated error; see `pbdn.inspection.shapley.shapley_values`. Columns are
        those of X, in their order; columns that were left out of the fit add zero.
        """
        return column_shapley_values(self, X, background, **options)

    def report(self, X: Any, y: Any = None, path: str | os.PathLike[str] | None = None, **options: Any) -> str:
        """One offline HTML page about the model on these rows, written to ``path`` if given.

        Parameters
        ----------
        X, y
            Rows to describe, best ones that were not fitted on; labels or values are optional.
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

        if hasattr(self, "preparation_"):
            plans = self.preparation_.preparation_.columns
            told = {
                "columns": [(plan.name, plan.words, plan.notes) for plan in plans],
                "notes": self.preparation_.notes_,
            }
            options = told | options
        page = render_html(collect(self, X, y, **options))
        if path is not None:
            atomic_write(path, page.encode())
        return page

    def _html_repr(self) -> str:
        """Notebook view: scikit-learn's diagram and, once fitted, what was learned."""
        from sklearn.utils import estimator_html_repr

        from pbdn.report.html import html_summary

        return str(estimator_html_repr(self)) + html_summary(self)

    # ------------------------------------------------------------------------------- saving

    def to_datatree(self, X: Any = None, y: Any = None) -> Any:
        """Posterior draws as an xarray DataTree in the ArviZ schema; see `pbdn.inspection.datatree.to_datatree`."""
        from pbdn.inspection.datatree import to_datatree

        return to_datatree(self, X, y)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a ``.pbdn`` file (data only; see `load`)."""
        from pbdn.files.estimator import save_estimator

        save_estimator(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model written by `save`; never executes anything."""
        from pbdn.files.estimator import load_estimator

        loaded: Self = load_estimator(cls, path)
        return loaded

    def _restore_preparation(self, stored: Any) -> None:
        """For `load`: what the file says about columns."""
        restore_preparation(self, stored)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit has come to its end."""
        return hasattr(self, "network_")

    def __sklearn_tags__(self) -> Any:
        """Sparse rows, missing values and text."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags
