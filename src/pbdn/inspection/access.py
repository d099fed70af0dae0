"""What other rooms ask of a fitted estimator: its network, its names, its rows checked, fewer of its draws."""

import copy
import re
import warnings
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from pbdn.errors import InvalidInputError, TableWarning, warn
from pbdn.model.network import Network
from pbdn.model.scaling import clip_features
from pbdn.model.timed import OnALine
from pbdn.numerics.arrays import FloatArray, NamedArray, as_table
from pbdn.validation import check_labels_present

N_DRAWS = 12


def network_of(estimator: Any) -> Network:
    """The network of a fitted estimator; refuses a model of one class only."""
    check_is_fitted(estimator)
    if getattr(estimator, "models_", ()):
        raise InvalidInputError("The model has several networks; ask one of them: model.models_[0].")
    if estimator.network_ is None:
        raise InvalidInputError("The model was fitted on one class only; there is no network to explain.")
    network: Network = estimator.network_
    return network


def parts_of(estimator: Any) -> list[tuple[str, Any]]:
    """The networks of an estimator, as fitted estimators, each with its name: itself, or its ``models_`` that have learned."""
    check_is_fitted(estimator)
    models = getattr(estimator, "models_", ())
    if not models:
        return [("", estimator)]
    named = zip(estimator._names_of_models, models, strict=True)
    return [(name, model) for name, model in named if model.network_ is not None]


def titled(model: str, side: Any) -> Any:
    """What a side stands for, with the name of its network where there are several."""
    return f"{model}: {side}" if model else side


def feature_names(estimator: Any) -> list[str]:
    """Names of the network's features: those of the table it was fitted on, or x0, x1, …; prepared ones if it prepares."""
    check_is_fitted(estimator)
    preparation = getattr(estimator, "preparation_", None)
    if preparation is not None:
        return [str(name) for name in preparation.get_feature_names_out()]
    known = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(estimator.n_features_in_)] if known is None else [str(name) for name in known]


def input_names(estimator: Any) -> list[str]:
    """Names of what the first layer sees: the features and, in a curved network, their squares or ramps."""
    names, network = feature_names(estimator), network_of(estimator)
    curve = network.curve
    if curve is None:
        return names
    if not curve.ramps:
        return names + [f"{names[j]}²" for j in curve.columns.tolist()]
    ends = np.stack([curve.centers, curve.centers + curve.scales], axis=1)
    places = zip(curve.columns.tolist(), ends, strict=True)
    return names + ["{} from {} to {}".format(names[j], *_told_apart(untamed(network, j, pair))) for j, pair in places]


def _told_apart(ends: FloatArray) -> list[str]:
    """Two ends, to three digits of the distance between them: what lies below comes from scaling there and back."""
    size = int(np.floor(np.log10(max(float(ends[1] - ends[0]), 1e-300))))
    texts = []
    for end in ends.tolist():
        near = round(end, 2 - size) + 0.0
        digits = 3 + max(0, int(np.floor(np.log10(abs(near)))) - size) if near else 1
        texts.append(f"{near:.{digits}g}")
    return texts


def untamed(network: Network, column: int, values: FloatArray) -> FloatArray:
    """Values of a feature, of which a long tail may have been pulled in, as they were."""
    tails = network.tails
    if tails is None or column not in tails.columns:
        return values
    return tails.inverse(values, np.flatnonzero(tails.columns == column))


def side_labels(estimator: Any) -> list[Any]:
    """What sides are named after: the classes or, of values on a line, "at most" and "above" the centre."""
    response = network_of(estimator).response
    return response.labels if isinstance(response, OnALine) else estimator.classes_.tolist()


def side_names(estimator: Any) -> list[Any]:
    """What each side of a layer stands for: a class, or "not" a class."""
    return network_of(estimator).response.labelling.names(side_labels(estimator))


def name_sides(estimator: Any, text: str) -> str:
    """A text with what each side stands for instead of its number: "side 0" becomes "side yes"."""
    if estimator.network_ is None:
        return text
    names = side_names(estimator)
    return re.sub(r"\bside (\d+)", lambda found: f"side {names[int(found[1])]}", text)


def is_plain(estimator: Any, X: Any) -> bool:
    """Whether a fitted estimator can take X as it is, if its numbers are: an array of doubles of the right width.

    All else goes through the checks of scikit-learn, which take several times as long as the prediction of a row.
    """
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[0] > 0
        and X.flags.c_contiguous
        and getattr(estimator, "network_", None) is not None
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
        and not hasattr(estimator, "preparation_")
    )


def checked_rows(estimator: Any, X: Any) -> Any:
    """Arrays for prediction, with the same columns as in fit, cut off where double precision ends.

    An estimator with a ``preparation_`` takes raw rows, or rows of features under their names (`with_names`).
    """
    if is_plain(estimator, X):
        limit = estimator.network_.feature_limits.min()
        if -limit <= X.min() and X.max() <= limit:  # and so all are finite
            return X
    check_is_fitted(estimator)
    rows = _prepared(estimator, X) if hasattr(estimator, "preparation_") else _validated(estimator, X)
    return rows if estimator.network_ is None else clip_features(rows, estimator.network_.feature_limits)


def _prepared(estimator: Any, X: Any) -> Any:
    if not isinstance(X, NamedArray) or X.columns != feature_names(estimator):
        X = estimator.preparation_.transform(X)
    return check_array(np.asarray(X), dtype=np.float64, order="C")


def refuse_infinite(name: str, row: int) -> NoReturn:
    """Say where an infinite number is."""
    raise InvalidInputError(
        f"Input X contains infinity in column {name!r}, row {row + 1}; give finite numbers, or NaN where a value is missing."
    ) from None


def refuse_infinite_cell(X: Any) -> NoReturn:
    """Say where the first infinite number of rows is that have one."""
    columns, values = getattr(X, "columns", None), sp.coo_array(X if sp.issparse(X) else np.asarray(X, np.float64))
    row, column = (int(place[np.isinf(values.data)][0]) for place in values.coords)
    refuse_infinite(f"x{column}" if columns is None else str(list(columns)[column]), row)


def _validated(estimator: Any, X: Any) -> Any:
    try:
        rows = _numbers(estimator, as_table(X))
    except ValueError as error:
        if "contains infinity" in str(error):
            refuse_infinite_cell(X)
        if "could not convert" not in str(error):
            raise
        raise InvalidInputError(f"The model was fitted on numbers only, but X has something else: {error}.") from None
    return _filled(estimator, rows)


def _numbers(estimator: Any, X: Any) -> Any:
    with warnings.catch_warnings():
        if isinstance(X, NamedArray):
            known = getattr(estimator, "feature_names_in_", None)
            if known is not None and list(known) != X.columns:
                raise ValueError(
                    "The feature names should match those that were passed during fit. "
                    f"Got {X.columns[:5]}, fitted with {list(known)[:5]}."
                )
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            X = np.asarray(X)
        return validate_data(
            estimator, X, reset=False, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite="allow-nan"
        )


def _filled(estimator: Any, X: Any) -> Any:
    """Rows with the medians of training where values are missing, which is told; refused where no medians are known."""
    is_sparse, stand_ins = hasattr(X, "tocsr"), estimator._stand_ins
    gone = np.isnan(X.data if is_sparse else X)
    if not gone.any():
        return X
    if is_sparse or stand_ins is None:
        why = "they are sparse" if is_sparse else "the model was fitted on sparse rows, on one class only or with Dask"
        raise InvalidInputError(
            f"X has {int(gone.sum())} missing values (NaN), for which no medians of training can stand in: {why}. Fill them "
            "first, for example with sklearn.impute.SimpleImputer."
        )
    counts = gone.sum(axis=0)
    names = feature_names(estimator)
    told = [f"{names[j]}: {counts[j]} missing, none in training; the median stands in." for j in np.flatnonzero(counts)]
    more = f" So it is in {len(told) - 5} more columns." if len(told) > 5 else ""
    warn(" ".join(told[:5]) + more, TableWarning)
    return np.where(gone, stand_ins, X)


def dense_rows(estimator: Any, X: Any) -> FloatArray:
    """`checked_rows`, dense."""
    rows = checked_rows(estimator, X)
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def with_names(estimator: Any, rows: FloatArray) -> FloatArray:
    """Rows of features under their names, so that the estimator's checks are silent and it prepares nothing."""
    if not hasattr(estimator, "feature_names_in_") and not hasattr(estimator, "preparation_"):
        return rows
    return NamedArray(rows, feature_names(estimator))


def known_labels(y: Any, classes: Any = None) -> NDArray[Any]:
    """Labels in one line, none of them missing and all among ``classes``, if these are given."""
    check_labels_present(y)
    labels = np.asarray(column_or_1d(y, warn=True))
    known = [] if classes is None else np.asarray(classes).tolist()
    unknown = set() if classes is None else set(labels.tolist()) - set(known)
    if unknown:
        first = next(label for label in labels.tolist() if label in unknown)
        raise InvalidInputError(
            f"y has the label {first!r}, which the model was not fitted on; its classes are "
            f"{', '.join(map(repr, known[:10]))}{', …' if len(known) > 10 else ''}. Mend such labels, or leave their rows out."
        )
    return labels


def predictions(estimator: Any, rows: FloatArray) -> FloatArray:
    """What is predicted of rows of features, (n, n_outputs): probabilities, or one number, of times the median."""
    named = with_names(estimator, rows)
    if estimator._has_classes:
        return np.asarray(estimator.predict_proba(named))
    return np.asarray(estimator.predict_median(named) if estimator._predicts == "time" else estimator.predict(named))[
        :, None
    ]


def intervals(estimator: Any, rows: FloatArray, coverage: float = 0.9) -> FloatArray:
    """Central intervals of the numbers that are predicted of rows of features, shape (n, 2)."""
    named, levels = with_names(estimator, rows), [0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage]
    if estimator._predicts == "time":
        return np.asarray(estimator.predict_distribution(named).ppf(np.array(levels)[:, None]).T)
    return np.asarray(estimator.predict_quantiles(named, levels))


def lighter(estimator: Any, n_draws: int = N_DRAWS) -> Any:
    """The estimator with about ``n_draws`` of its draws, evenly chosen; itself where it has no more."""
    if estimator.models_:
        out = copy.copy(estimator)
        out.models_ = tuple(one if one.network_ is None else lighter(one, n_draws) for one in estimator.models_)
        return out
    network = network_of(estimator)
    total = len(network.top.draws) + sum(len(path.top.draws) for path in estimator.paths_)
    if total <= n_draws:
        return estimator
    out = copy.copy(estimator)
    out.network_ = _thinned(network, n_draws)
    each = max(1, n_draws // max(len(estimator.paths_), 1))
    out.paths_ = tuple(_thinned(path, each) for path in estimator.paths_)
    return out


def _thinned(network: Network, n_draws: int) -> Network:
    draws = network.top.draws
    if len(draws) <= n_draws:
        return network
    chosen = np.unique(np.linspace(0, len(draws) - 1, n_draws).round().astype(int))
    top = replace(network.top, draws=tuple(draws[j] for j in chosen))
    return replace(network, layers=(*network.layers[:-1], top))


def no_draws(estimator: Any) -> InvalidInputError:
    """The error where posterior draws are needed and there are none."""
    if "gibbs" in estimator.inference_:
        return InvalidInputError(
            "The fit was stopped before a posterior draw was kept; fit again with more time (time_limit)."
        )
    ways = "'gibbs' or 'map+gibbs'" if hasattr(estimator, "posterior_predictive_proba") else "'gibbs'"
    return InvalidInputError(f"inference={estimator.inference_!r} keeps no posterior draws; fit with inference={ways}.")


def has_draws(estimator: Any) -> bool:
    """Whether any of its networks has posterior draws."""
    return any(part.network_ is not None and part.network_.top.draws for _, part in parts_of(estimator))


def lone_networks(estimator: Any, n_draws: int) -> list[Any]:
    """Copies of the estimator, each with a single network of those that say how sure it is.

    They are about ``n_draws`` posterior draws, where there are any, else networks of which each was trained without one fold
    of the rows. An estimator that is one network without draws has none.
    """
    models = getattr(estimator, "models_", ())
    if models:
        of_models = [lone_networks(one, n_draws) or [one] for one in models]
        n = max(map(len, of_models))
        changes = [{"models_": tuple(own[i % len(own)] for own in of_models)} for i in range(n if n > 1 else 0)]
    else:
        network = estimator.network_
        if network is None:
            return []
        if network.top.draws:
            sources = lighter(estimator, n_draws)._averaged()
            lone = [one.with_top(sides) for one in sources for sides in one.top.draws]
        else:
            folds = network.folds or network
            lone = [folds.member(m) for m in range(folds.n_members)] if network.has_folds else []
        changes = [{"network_": one, "paths_": ()} for one in lone]
    out = [copy.copy(estimator) for _ in changes]
    for one, change in zip(out, changes, strict=True):
        one.__dict__.update(change)
    return out


def has_intervals(estimator: Any) -> bool:
    """Whether class probabilities come with intervals; those of grades need posterior draws."""
    network = estimator.network_
    if network is None or not estimator._has_classes:
        return False
    return bool(network.has_intervals if estimator._predicts == "class" else network.top.draws)
