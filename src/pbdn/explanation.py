"""What a fitted estimator says about rows: hidden units, subtypes, votes, Theorem 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pbdn.errors import InvalidInputError
from pbdn.inspection import subtypes as interpret
from pbdn.model.network import Network

FloatArray = NDArray[np.float64]


class ExplanationMixin(TransformerMixin):  # type: ignore[misc]
    """Methods of an estimator with ``network_``, ``classes_``, ``n_features_in_`` and ``_validate``."""

    classes_: NDArray[Any]
    n_features_in_: int
    network_: Network | None

    def _validate(self, X: Any) -> Any:
        raise NotImplementedError

    def transform(self, X: Any) -> FloatArray:
        """Hidden units s(x'β_k) of the top layer, all sides side by side."""
        X = self._validate(X)
        if self.network_ is None:
            return np.zeros((X.shape[0], 0))
        return np.asarray(self.network_.top.units(self.network_.top_inputs(X)))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of `transform`."""
        check_is_fitted(self)
        if self.network_ is None:
            return np.zeros(0, dtype=object)
        depth = self.network_.depth
        sides = enumerate(self.network_.top.sides)
        names = [f"layer{depth}_side{s}_expert{k}" for s, side in sides for k in range(side.n_experts)]
        return np.asarray(names, dtype=object)

    def subtypes(self, X: Any) -> Any:
        """Data subtypes of the paper's eq. (2), per layer, side and expert, in the space of the features.

        Returns
        -------
        pandas.DataFrame (or dict of arrays without pandas)
            Columns layer, side, expert, weight, share, and one mean per feature.
        """
        X = self._validate(X)
        return _frame(interpret.subtype_table(self._network(), X, self.classes_, self._names()))

    def explain(self, X: Any) -> Any:
        """Which expert of which side of the top layer voted for each row.

        Returns
        -------
        pandas.DataFrame (or dict of arrays without pandas)
            Columns row, side, expert, vote (p_ik), distance from the hyperplane in the layer's inputs, and strongest.
        """
        X = self._validate(X)
        return _frame(interpret.vote_table(self._network(), X, self.classes_))

    def polytope_violations(self, X: Any, p0: float = 0.5) -> NDArray[np.int64]:
        """How many inequalities of Theorem 1 each row violates, per side of the top layer: shape (n, n_sides).

        A row with P(side says yes) ≤ p0 violates none.
        """
        if not 0.0 < p0 < 1.0:
            raise InvalidInputError(f"p0={p0!r} must lie strictly between 0 and 1, e.g. 0.5.")
        X = self._validate(X)
        network = self._network()
        inputs = network.top_inputs(X)
        return np.column_stack([interpret.violations(side, inputs, p0) for side in network.top.sides])

    def _names(self) -> list[str]:
        known = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if known is None else [str(name) for name in known]

    def _network(self) -> Network:
        if self.network_ is None:
            raise InvalidInputError("The model was fitted on one class only; there is no network to explain.")
        return self.network_


def _frame(table: dict[str, Any]) -> Any:
    """A pandas frame where pandas is installed."""
    try:
        import pandas as pd
    except ImportError:
        return table
    return pd.DataFrame(table)
