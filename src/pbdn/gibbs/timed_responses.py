"""Real values, times and grades: a side whose rows say when the first event was, on a scale that is learnt.

`TimeScale` has u = τ y for real values and log-times y, `CutPoints` has grades between cut points on log-time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pbdn.errors import InvalidInputError
from pbdn.gibbs.chain import ChainResult
from pbdn.gibbs.kernel_arguments import PriorValues
from pbdn.gibbs.log_likelihood import SideRates, offset_sums, sum_log_likelihood
from pbdn.gibbs.responses import ExtraStream, GammaPrior, SideRows, draw_conditions, log_prior_of_log, slice_sample
from pbdn.gibbs.rows import (
    BEFORE,
    EXACT,
    GIVEN_BEFORE,
    GIVEN_NOTHING,
    INTERVAL,
    NOTHING,
    Rows,
    TimedRates,
    TimedRowsElsewhere,
    make_rows,
)
from pbdn.gibbs.state import Extras, GlobalState
from pbdn.model.network import Side
from pbdn.numerics.arrays import FloatArray
from pbdn.variates.random_stream import SweepStreams

SCALE_PRIOR = GammaPrior(1.0, 0.1)  # for values of standard deviation one
GAP_PRIOR = GammaPrior(1.0, 0.2)
LOGISTIC_SPREAD = 1.8  # standard deviation of logistic noise


def timed_rows(
    inputs: Any,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    limit: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    prior: GammaPrior | None = SCALE_PRIOR,
    single_events: bool = True,
    merge: bool = True,
) -> SideRows:
    """Rows whose value y, real or a log-time, is known to lie in (lower, upper].

    Parameters
    ----------
    inputs : array or CSR matrix of shape (n, d)
    lower, upper : arrays of shape (n,)
        Equal where y is known exactly; ``upper`` = ∞ where it is censored on the right, ``lower`` = -∞ on the left. A row
        that says nothing is left out.
    limit : array of shape (n,), optional
        Below ``lower`` or above ``upper``: the row is only there because its value lies on that side of it; infinite: none. It
        becomes a row of its own, and needs a prior.
    weight : array, optional
        As in `make_rows`.
    prior : GammaPrior or None
        Of the scale τ in u = τ y; None fixes it at one.
    single_events, merge : bool
        As in `make_rows`.
    """
    low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    wrong = ~(low <= high) | (np.isinf(low) & (low == high))
    if np.any(wrong):
        raise InvalidInputError(
            f"lower must be at most upper and neither NaN; row {int(np.argmax(wrong))} has "
            f"{low[wrong][0]:g} and {high[wrong][0]:g}. Mend or drop such rows."
        )
    open_below, open_above = np.isinf(low), np.isinf(high)
    kind = np.select([open_above, low == high, open_below], [NOTHING, EXACT, BEFORE], INTERVAL)
    weights = np.ones(low.size) if weight is None else np.asarray(weight, dtype=float)
    start, offset = np.where(kind == INTERVAL, low, -np.inf), np.where(open_above, low, high)
    said = {"kind": kind, "weight": np.where(open_below & open_above, 0.0, weights), "offset": offset, "start": start}
    limits = np.full(low.size, np.inf) if limit is None else np.asarray(limit, dtype=float)
    some = np.flatnonzero(np.isfinite(limits))
    if some.size:
        if prior is None:
            raise InvalidInputError("limit needs the prior of a scale, with which conditions are drawn; give one.")
        given = np.where(limits < high, GIVEN_NOTHING, GIVEN_BEFORE)
        more = {"kind": given, "weight": weights, "offset": limits, "start": np.full(low.size, -np.inf)}
        said = {name: np.concatenate([values, more[name][some]]) for name, values in said.items()}
        inputs = sp.vstack([inputs, inputs[some]], "csr") if sp.issparse(inputs) else np.vstack([inputs, inputs[some]])
    rows = make_rows(inputs, said["kind"] != NOTHING, single_events=single_events, merge=merge, **said)
    return SideRows(rows, None if prior is None else TimeScale(prior))


def common_scale(side: Side) -> tuple[Side, Extras]:
    """A side whose experts have scales τ_k of their own as one of a common scale τ, and τ itself, as a start.

    τ is the geometric mean by weights. Hyperplanes become (τ/τ_k) β_k, so that every expert speaks from the same value on.
    """
    assert side.time_coefs is not None
    scale = float(np.exp(np.average(np.log(side.time_coefs), weights=side.expert_weights)))
    planes = side.hyperplanes * (scale / side.time_coefs)[:, None]
    return Side(planes, side.expert_weights), {"scale": np.array(scale)}


def with_scale(result: ChainResult) -> ChainResult:
    """A finished chain whose sides, drawn and recorded, have their scale τ as the time coefficient of every expert."""

    def timed(side: Side, extras: Extras) -> Side:
        return replace(side, time_coefs=np.full(side.n_experts, float(extras["scale"])))

    draws = tuple(timed(side, extras) for side, extras in zip(result.draws, result.draw_extras, strict=True))
    return replace(result, side=timed(result.side, result.extras), draws=draws)


def bounds_of_cause(
    value: ArrayLike, cause: ArrayLike, own: Any, upper: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Bounds of `timed_rows` for one of several competing causes: exact where it was the cause, else censored on the right.

    With ``upper``, values are known up to there.

    The first event of all has density h_s(y) e^{-Σ_j H_j(y)} for cause s, so each cause has a side of its own.
    """
    low = np.asarray(value, dtype=float)
    return low, np.where(np.asarray(cause) == own, low if upper is None else upper, np.inf)


def graded_rows(
    inputs: Any,
    grade: ArrayLike,
    n_grades: int,
    *,
    weight: ArrayLike | None = None,
    prior: GammaPrior = GAP_PRIOR,
    single_events: bool = True,
) -> SideRows:
    """Rows of grades 0 … n_grades - 1 (`CutPoints`). Two grades are the binary side of "grade 0", without extras."""
    grades = np.asarray(grade)
    if n_grades < 2 or np.any((grades < 0) | (grades >= n_grades) | (grades != np.floor(grades))):
        raise InvalidInputError(
            f"grade must be whole numbers from 0 to {n_grades - 1}, and n_grades={n_grades} at least 2; number the "
            "grades in their order."
        )
    kind = np.select([grades == n_grades - 1, grades == 0], [NOTHING, BEFORE], INTERVAL)
    learnt = n_grades > 2
    rows = make_rows(
        inputs,
        kind != NOTHING,
        weight=weight,
        offset=np.minimum(grades + 1.0, n_grades - 1.0) if learnt else None,
        start=np.where(kind == INTERVAL, grades, -np.inf) if learnt else None,
        kind=kind,
        single_events=single_events,
    )
    return SideRows(rows, CutPoints(n_grades, prior) if learnt else None)


def stretches(streams: SweepStreams) -> bool:
    """Whether a sweep changes a scale together with the hyperplanes; every second one does.

    Where values are well explained a scale can hardly move alone.
    """
    return streams.sweep % 2 == 1


def log_stretch_prior(
    log_factor: float, sizes: FloatArray, prior: GammaPrior, state: GlobalState, priors: PriorValues
) -> float:
    """ln p(c s, c β, α/c², c² b) + ln |Jacobian of that map|, as a function of ln c, without constants.

    ``sizes`` s_j ~ Gamma(a, b) are J numbers. As α b and α β² stay as they are, only b_k ~ Gamma(e, f) and s count:
    (a J + 2 e K) ln c - c b Σ s_j - c² f Σ b_k. Drawing ln c from this density times a likelihood, and moving (s, β, α, b) along,
    leaves the posterior as it is: it is the draw of ln s_1 in the coordinates (ln s_1, s/s_1, β/s_1, α s_1², b/s_1²).
    """
    factor = np.exp(log_factor)
    value = (prior.shape * sizes.size + 2.0 * priors.coef_rate_shape * state.n_experts) * log_factor
    value -= prior.rate * sizes.sum() * factor + priors.coef_rate_rate * state.coef_rate.sum() * factor**2
    if priors.precision_floor > 0.0:  # β has the precision max(α, floor)
        square, alpha = (factor * state.hyperplanes) ** 2, state.coef_precision / factor**2
        floored = np.maximum(alpha, priors.precision_floor)
        value += 0.5 * float(np.sum(np.log(floored / alpha) - (floored - alpha) * square))
    return float(value)


def draw_factor(log_density: Callable[[float], float], n_rows: int, stream: ExtraStream) -> float:
    """A factor c by slice sampling of ln c, from c = 1; the width is some eight standard deviations given n rows."""
    return float(np.exp(slice_sample(log_density, 0.0, 8.0 / np.sqrt(n_rows + 4.0), stream.uniform, most_widths=1)))


@dataclass(frozen=True)
class TimeScale:
    """Real values or log-times y with u = τ y: P(Y > y) = exp(-Σ_k r_k s(x'β_k + τ y)), τ ~ Gamma(prior).

    Offsets and starts of the rows are those at τ = 1, that is y itself. The density of an exact y has the factor τ.
    """

    prior: GammaPrior

    def initial(self, rows: Rows | TimedRowsElsewhere) -> Extras:
        """τ for which y has the spread of logistic noise."""

        def mean(center: float, power: int) -> float:
            parts = offset_sums(rows, center, power) if isinstance(rows, Rows) else rows.offset_sums(center, power)
            return float(sum(parts.tolist()) / rows.n_rows)

        spread = float(np.sqrt(mean(mean(0.0, 1), 2)))
        return {"scale": np.array(LOGISTIC_SPREAD / spread if spread > 0 else 1.0)}

    def log_likelihood(
        self, rows: Rows | TimedRowsElsewhere, planes: FloatArray, weights: FloatArray, extras: Extras
    ) -> float:
        """Σ ln f(y_i), probabilities for those that are censored."""
        return timed_log_likelihood(rates_of(rows, planes, weights), float(extras["scale"]))

    def draw(
        self,
        rows: Rows | TimedRowsElsewhere,
        state: GlobalState,
        extras: Extras,
        priors: PriorValues,
        streams: SweepStreams,
    ) -> tuple[Rows | TimedRowsElsewhere, GlobalState, Extras]:
        """τ given the experts, or given β/τ, in turn; by slice sampling of ln τ."""
        scale, with_planes = float(extras["scale"]), stretches(streams)
        rates = rates_of(rows, state.hyperplanes, np.exp(state.log_weights))

        def log_density(log_factor: float) -> float:
            factor = float(np.exp(log_factor))
            if with_planes:
                prior = log_stretch_prior(log_factor, np.array([scale]), self.prior, state, priors)
                return timed_log_likelihood(rates, factor * scale, factor) + prior
            return timed_log_likelihood(rates, factor * scale) + log_prior_of_log(np.log(factor * scale), self.prior)

        factor = draw_factor(log_density, rows.n_rows, ExtraStream(streams))
        new = {"scale": np.array(factor * scale)}
        moved = rows_at_scale(rows, factor * scale)
        if isinstance(moved, Rows) and isinstance(rates, SideRates):
            moved = draw_conditions(moved, rates, factor if with_planes else 1.0, streams)
        return moved, state.stretched(factor) if with_planes else state, new


def rows_at_scale(rows: Rows | TimedRowsElsewhere, scale: float) -> Rows | TimedRowsElsewhere:
    """Rows whose offsets and starts are τ times those of ``rows``."""
    if not isinstance(rows, Rows):
        return rows.at_scale(scale)
    arrays = rows.arrays
    return replace(rows, arrays=arrays._replace(offset=scale * arrays.offset, start=scale * arrays.start))


def rates_of(rows: Rows | TimedRowsElsewhere, planes: FloatArray, weights: FloatArray) -> TimedRates:
    """The rates of the rows, wherever these are."""
    return SideRates(rows, planes, weights) if isinstance(rows, Rows) else rows.rates(planes, weights)


def timed_log_likelihood(rates: TimedRates, scale: float, stretch: float = 1.0) -> float:
    """Log-likelihood of values y at the scale τ under the hyperplanes c β, c = ``stretch``; each exact one adds ln τ."""
    return float(sum(rates.timed_parts(scale, stretch).tolist()))


@dataclass(frozen=True)
class CutPoints:
    """Grades 0 … G-1 with cut points c_1 = 0 < c_2 < … < c_{G-1} on log-time; gaps c_{j+1} - c_j ~ Gamma(prior).

    Grade g says that the first event lies in (c_g, c_{g+1}], c_0 = -∞ and c_G = ∞, so a row of high ψ has a low grade. Where
    the rows have offsets and starts, here they have the numbers j of their cut points. The bias plays the part of c_1.
    """

    n_grades: int
    prior: GammaPrior

    def initial(self, rows: Rows) -> Extras:
        """The cut points of a side without inputs: differences of ln odds of the grades up to each."""
        arrays = rows.arrays
        top = np.where(arrays.kind == NOTHING, self.n_grades - 1, arrays.offset - 1.0).astype(np.int64)
        size = np.bincount(top, arrays.exposure, self.n_grades) + 0.5
        below = np.cumsum(size)[:-1]
        odds = np.log(below / (size.sum() - below))
        return {"cut_points": odds - odds[0]}

    def log_likelihood(self, rows: Rows, planes: FloatArray, weights: FloatArray, extras: Extras) -> float:
        """Σ ln P(grade of row i)."""
        offset, start = log_times_of_grades(rows, extras["cut_points"])
        return SideRates(rows, planes, weights).log_likelihood(offset, start)

    def draw(
        self, rows: Rows, state: GlobalState, extras: Extras, priors: PriorValues, streams: SweepStreams
    ) -> tuple[Rows, GlobalState, Extras]:
        """Each cut point between its neighbours, or all together with the hyperplanes, in turn; by slice sampling."""
        stream, cuts = ExtraStream(streams), extras["cut_points"].copy()
        rates = SideRates(rows, state.hyperplanes, np.exp(state.log_weights))
        if stretches(streams):

            def log_density(log_factor: float) -> float:
                factor = float(np.exp(log_factor))
                offset, start = log_times_of_grades(rows, factor * cuts)
                prior = log_stretch_prior(log_factor, np.diff(cuts), self.prior, state, priors)
                return rates.log_likelihood(offset, start, factor) + prior

            factor = draw_factor(log_density, rows.n_rows, stream)
            cuts, state = factor * cuts, state.stretched(factor)
        else:
            for j in range(1, cuts.size):
                cuts[j] = draw_cut_point(j, cuts, rates, self.prior, stream)
        offset, start = log_times_of_grades(rows, cuts)
        return Rows(rows.arrays._replace(offset=offset, start=start), rows.n_inputs), state, {"cut_points": cuts}


def log_times_of_grades(rows: Rows, cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Offsets and starts of rows that have the numbers of their cut points there."""
    arrays = rows.arrays
    offset, start = cuts[arrays.offset.astype(np.int64) - 1], np.full(rows.n_rows, -np.inf)
    inside = arrays.kind == INTERVAL
    start[inside] = cuts[arrays.start[inside].astype(np.int64) - 1]
    return offset, start


def draw_cut_point(j: int, cuts: FloatArray, rates: SideRates, prior: GammaPrior, stream: ExtraStream) -> float:
    """cuts[j] given the others: Σ ln P(grade) of the rows on both sides of it, plus its gaps' prior; by slice sampling."""
    arrays = rates.rows.arrays
    number = j + 1.0
    ends, begins = arrays.offset == number, (arrays.kind == INTERVAL) & (arrays.start == number)
    near = np.flatnonzero(ends | begins)
    ends, begins, kind = ends[near], begins[near], arrays.kind[near]
    parts = kind, arrays.exposure[near], arrays.copies[near], arrays.unit[near]
    offset, start = log_times_of_grades(rates.rows, cuts)
    rate, start_rate, no_hazard = np.zeros((3, near.size))
    if near.size:
        rate[begins] = rates.at(offset[near][begins], near[begins])
        inside = ends & (kind == INTERVAL)
        start_rate[inside] = rates.at(start[near][inside], near[inside])
    low, high = cuts[j - 1], cuts[j + 1] if j + 1 < cuts.size else np.inf

    def log_density(cut: float) -> float:
        value = log_gap_prior(cut - low, prior) + (log_gap_prior(high - cut, prior) if high < np.inf else 0.0)
        if near.size:
            at_cut = rates.at(np.full(near.size, cut), near)
            rate[ends], start_rate[begins] = at_cut[ends], at_cut[begins]
            value += float(sum_log_likelihood(*parts, rate, start_rate, no_hazard))
        return value

    width = 16.0 / np.sqrt(near.size + 4.0)
    return slice_sample(log_density, float(cuts[j]), width, stream.uniform, low, high, most_widths=1)


def log_gap_prior(gap: float, prior: GammaPrior) -> float:
    """ln of the density of Gamma(prior) at the gap, without its constant; -∞ where there is no gap."""
    return float((prior.shape - 1.0) * np.log(gap) - prior.rate * gap) if gap > 0 else -np.inf
