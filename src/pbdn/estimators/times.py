"""Survival times as users give them: events, causes, bounds, entries into the study, and times of zero."""

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from pbdn.data.labelled_rows import numeric_bounds
from pbdn.errors import InvalidInputError, warn
from pbdn.gibbs.timed_responses import bounds_of_cause
from pbdn.model.labelling import without_zeros
from pbdn.numerics.arrays import FloatArray

MOST_CAUSES = 10  # of a data frame; more different numbers are rather times


def time_bounds(y: Any, in_pieces: bool = False) -> FloatArray:
    """Survival times as bounds and, where some row entered after 0, the times of entry in a third column.

    An event at 0 has the bounds (0, 0) (`pbdn.model.labelling.without_zeros`). Where y comes ``in_pieces`` that each may have
    entries or not, the third column is there whenever y has one.

    Raises
    ------
    InvalidInputError
        Times are negative or not finite, an entry is not before its time, or the fields are not an event and a time.
    """
    (low, high), entry = _given(y)
    wrong = np.flatnonzero((high < 0.0) | ((low < 0.0) & np.isfinite(low)))
    if wrong.size:
        raise InvalidInputError(
            f"y has the time {min(low[wrong[0]], high[wrong[0]]):g} in row {wrong[0]}; times must not be negative. Shift them, "
            "or drop the row."
        )
    low = np.where(high == 0.0, 0.0, np.where(low > 0.0, low, -np.inf))
    if entry is None:
        return np.column_stack([low, high])
    _check_entries(entry, np.where(np.isinf(high), low, high))
    if not in_pieces and not np.any(entry > 0.0):
        return np.column_stack([low, high])
    limit = np.where(entry > 0.0, entry, -np.inf)
    return np.column_stack([np.maximum(low, limit), high, limit])


def named_events(y: Any) -> NDArray[Any]:
    """An array; a data frame whose first column says whether the event was seen, or its cause, keeps its columns as fields."""
    frame = nw.from_native(y, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or len(frame.columns) not in (2, 3) or not _are_causes(frame[:, 0]):
        return np.asarray(y)
    columns = [frame[:, j].to_numpy() for j in range(len(frame.columns))]
    names = ("event", "time", "entry")
    out = np.zeros(len(frame), dtype=[(name, int if name == "event" else float) for name in names[: len(columns)]])
    for name, values in zip(names, columns, strict=False):
        out[name] = values
    return out


def _are_causes(column: Any) -> bool:
    """Whether a column holds booleans, or whole numbers from 0 on of which few are different."""
    if column.dtype == nw.Boolean:
        return True
    if not column.dtype.is_integer() or not len(column):
        return False
    return bool(column.min() >= 0 and column.max() < MOST_CAUSES and (column.min() == 0 or column.max() == 1))


def _refuse_events_as_bounds(low: FloatArray) -> None:
    """Lower bounds that are all 0 or 1 rather say whether events were seen."""
    if set(np.unique(low)) == {0.0, 1.0}:
        raise InvalidInputError(
            "The first column of y holds nothing but 0 and 1. If it says whether the event was seen, give y as a data frame with "
            "a column of booleans or integers and one of times, or as a structured array. If it holds lower bounds, write -inf "
            "in place of 0."
        )


def _given(y: Any) -> tuple[tuple[FloatArray, FloatArray], FloatArray | None]:
    """Lower and upper bounds as they came, and entries if there are any."""
    values = named_events(y)
    names = values.dtype.names
    if names is None:
        if values.ndim == 2 and values.shape[1] > 3:
            raise InvalidInputError(
                "y must be a structured array of events (bool) and times, or an array of bounds of shape (n_samples, 2), "
                "or (n_samples, 3) with the times of entry."
            )
        late = values.ndim == 2 and values.shape[1] == 3
        low, high = numeric_bounds(values[:, :2] if late else y).T
        if values.ndim == 2:
            _refuse_events_as_bounds(low)
        return (low, high), np.asarray(values[:, 2], dtype=float) if late else None
    if len(names) not in (2, 3) or values[names[0]].dtype.kind not in "biu":
        raise InvalidInputError(
            f"y has the fields {names}; two are needed: whether the event was seen (bool) or its cause (1, 2, …, 0 for none), "
            "and the time. A third may be the time of entry."
        )
    time = np.asarray(values[names[1]], dtype=float)
    wrong = np.flatnonzero(~np.isfinite(time))
    if wrong.size:
        raise InvalidInputError(f"y has the time {time[wrong[0]]} in row {wrong[0]}; give finite times.")
    entry = np.asarray(values[names[2]], dtype=float) if len(names) == 3 else None
    return (time, np.where(causes_of(values) > 0, time, np.inf)), entry


def _check_entries(entry: FloatArray, last: FloatArray) -> None:
    """Refuse times of entry that are not from 0 to before the ``last`` time that is known of each row; -inf is none."""
    for wrong, why in (
        (np.isnan(entry), "which is no time; give 0 where a row was watched from the start."),
        ((entry < 0.0) & np.isfinite(entry), "which is negative; give 0 where a row was watched from the start."),
        ((entry > 0.0) & ~(entry < last), "which is not before its time {last:g}; mend or drop it."),
    ):
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidInputError(f"y has the entry {entry[i]:g} in row {i}, {why.format(last=max(last[i], 0.0))}")


def fitted_bounds(y: Any) -> FloatArray:
    """`time_bounds` for a fit, which says once what became of times of zero."""
    bounds, words = settled_bounds(y)
    if words:
        warn(words)
    return bounds


def settled_bounds(y: Any) -> tuple[FloatArray, str]:
    """`time_bounds` for a fit, and what became of times of zero, in words."""
    settled, (low, high) = without_zeros(time_bounds(y)), _given(y)[0]
    early, n_silent, said = high == 0.0, int(((low == 0.0) & np.isposinf(high)).sum()), []
    if early.any():
        n, first = int(early.sum()), settled[early, 1][0]
        said.append(f"{n} event{'s'[: n > 1]} at time 0, taken as before {first:g}, the smallest time above 0")
    if n_silent:
        said.append(f"{n_silent} row{'s'[: n_silent > 1]} censored at time 0, from which nothing can be learnt")
    return settled, f"y has {', and '.join(said)}." if said else ""


def batch_bounds(y: Any) -> FloatArray:
    """`fitted_bounds` of a batch, of one cause."""
    _check_one_cause(y)
    return fitted_bounds(y)


def piece_bounds(y: Any) -> FloatArray:
    """`time_bounds` of a piece of a stream, of one cause."""
    _check_one_cause(y)
    bounds = time_bounds(y, in_pieces=True)
    if np.any(bounds[:, 1] == 0.0):
        raise InvalidInputError(
            "y has an event at time 0, which data in pieces cannot have: no piece knows the smallest time of all. Give the "
            "earliest time that could be seen instead."
        )
    return bounds


def _check_one_cause(y: Any) -> None:
    cause = causes_of(y)
    if cause.max(initial=0) > 1:
        raise InvalidInputError(
            f"y has the cause {cause.max()}; data in pieces have one cause. Fit a model for each cause, for which the events "
            "of others are censored times."
        )


def event_times(bounds: FloatArray) -> FloatArray:
    """Times of events, sorted."""
    return np.unique(bounds[np.isfinite(bounds[:, 1]), 1])


def causes_of(y: Any) -> NDArray[np.int64]:
    """The cause of each row's event, 0 where none was seen; 1 of all events where y does not tell causes."""
    values = named_events(y)
    if values.dtype.names is None:
        return np.asarray(np.isfinite(_given(y)[0][1]), np.int64)
    cause = np.asarray(values[values.dtype.names[0]]).astype(np.int64)
    wrong = np.flatnonzero(cause < 0)
    if wrong.size:
        raise InvalidInputError(
            f"y has the cause {cause[wrong[0]]} in row {wrong[0]}; causes are 1, 2, …, and 0 where no event was seen."
        )
    return cause


def bounds_of(bounds: FloatArray, cause: NDArray[np.int64], own: float) -> FloatArray:
    """What rows say of one of several causes."""
    return np.column_stack([*bounds_of_cause(bounds[:, 0], cause, own, bounds[:, 1]), bounds[:, 2:]])
