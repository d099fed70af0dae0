"""Responses other than classes: what a side learns beside its experts, and how a sweep is told of it.

A response has extras, as the scale of real values or the overdispersion of counts. They are drawn before the sweep, given the
experts alone: all row variables (tables, times, ω, exposures, numbers of parts) are integrated out, or drawn right after. The
sweep draws row variables anew, so the whole is a Gibbs sampler of the joint posterior.

| response | rows | extra | law given the experts |
|---|---|---|---|
| `TimeScale` | real values and times: exact, censored, in an interval, beyond a limit | τ | u = τ y; slice sampling of τ, alone and with the experts in turn |
| `CutPoints` | grades | c_2 < c_3 < …, c_1 = 0 | slice sampling of each, and of all with the experts, in turn |
| `Overdispersion` | counts | φ | slice sampling of the negative binomial likelihood, then e_i ~ Gamma(φ + y_i, φ + λ_i) |
| `AmountRate` | amounts, some exactly zero | ς | n_i given y_i (`bessel_count`), then ς ~ Gamma(a + Σ n_i, b + Σ y_i) |

The first two are in `pbdn.gibbs.timed_responses`, the others in `pbdn.gibbs.counted_responses`, each with the function that makes
its rows. Times without a scale and Poisson counts have no extra: their response is None.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.gibbs.kernel_arguments import PriorValues
from pbdn.gibbs.log_likelihood import SideRates, log_likelihood
from pbdn.gibbs.rows import BLOCK_ROWS, COUNT, GIVEN_NOTHING, NOTHING, Rows, RowsElsewhere
from pbdn.gibbs.state import Extras, GlobalState
from pbdn.gibbs.sweep import Latent, SamplerName, SweepInfo, Workers, sweep
from pbdn.numerics.arrays import BoolArray, FloatArray, IntArray
from pbdn.numerics.compiled import kernel
from pbdn.variates.counts import poisson
from pbdn.variates.random_stream import (
    RESPONSE,
    ROW_RESPONSE,
    SweepStreams,
    gamma_variate,
    open_stream,
    stream_at,
    stream_buffer,
    uniform,
)

TINY_RATE = 1e-290  # under which a condition is as improbable as there


class GammaPrior(NamedTuple):
    """Gamma(shape, rate)."""

    shape: float
    rate: float


def log_prior_of_log(log_x: float, prior: GammaPrior) -> float:
    """ln of the density of ln x, x ~ Gamma(prior), without its constant: a ln x - b x."""
    return prior.shape * log_x - prior.rate * float(np.exp(log_x))


class RowResponse(Protocol):
    """What a chain asks of a response."""

    def initial(self, rows: Any) -> Extras:
        """The extras before the first sweep; rows here, or elsewhere if the response can."""

    def log_likelihood(self, rows: Any, planes: FloatArray, weights: FloatArray, extras: Extras) -> float:
        """ln p(data | experts, extras), all row variables integrated out."""

    def draw(
        self, rows: Any, state: GlobalState, extras: Extras, priors: PriorValues, streams: SweepStreams
    ) -> tuple[Any, GlobalState, Extras]:
        """New extras given the experts (which a change of scale takes along), and the rows for the sweep that follows."""


class SideRows(NamedTuple):
    """The rows of one side and its response; None where there is nothing to learn beside the experts."""

    rows: Rows
    response: RowResponse | None


def response_sweep(
    sampler: SamplerName,
    rows: Rows | RowsElsewhere,
    response: RowResponse | None,
    state: GlobalState,
    extras: Extras,
    latent: Latent,
    active: BoolArray,
    priors: PriorValues,
    key: np.uint64,
    index: int,
    workers: Workers,
) -> tuple[GlobalState, Extras, Latent, SweepInfo]:
    """The extras of a response, then `pbdn.gibbs.sweep.sweep`; without a response the sweep alone."""
    score = None
    if response is not None:
        if latent is not None:
            raise InvalidInputError(
                "sampler='counts' takes binary rows only; use sampler='first_events' for this response."
            )
        score = side_log_likelihood(rows, response, state, active, extras)
        streams = SweepStreams(stream_buffer(), key, index)
        rows, state, extras = response.draw(rows, state, extras, priors, streams)
    state, latent, info = sweep(sampler, rows, state, latent, active, priors, key, index, workers)
    return state, extras, latent, info if score is None else info._replace(log_likelihood=score)


def side_log_likelihood(
    rows: Rows | RowsElsewhere, response: RowResponse | None, state: GlobalState, active: BoolArray, extras: Extras
) -> float:
    """Log-likelihood of the active experts and the extras."""
    weights = np.exp(state.log_weights) * active
    if response is None:
        return log_likelihood(rows, state.hyperplanes, weights)
    return response.log_likelihood(rows, state.hyperplanes, weights, extras)


# random numbers of the extras


@kernel
def next_uniform(stream: np.uint64) -> float:
    """U ~ Uniform(0, 1)."""
    drawn: float = uniform(stream)
    return drawn


@kernel
def next_gamma(stream: np.uint64, shape: float) -> float:
    """G ~ Gamma(shape, 1)."""
    drawn: float = gamma_variate(stream, shape)
    return drawn


class ExtraStream:
    """The random stream of the extras of one sweep."""

    def __init__(self, streams: SweepStreams) -> None:
        self._buffer = stream_buffer()  # kept alive with the stream
        self._stream = np.uint64(open_stream(self._buffer, streams.key, streams.sweep, 0, RESPONSE))

    def uniform(self) -> float:
        """U ~ Uniform(0, 1)."""
        return float(next_uniform(self._stream))

    def gamma(self, shape: float) -> float:
        """G ~ Gamma(shape, 1)."""
        return float(next_gamma(self._stream, shape))


# rows that are only there because something is given


def draw_conditions(rows: Rows, rates: SideRates, stretch: float, streams: SweepStreams) -> Rows:
    """The rows of a sweep, those of conditions drawn as rows of other kinds; ``rates`` are those of the hyperplanes β / ``stretch``.

    A condition divides by its probability to the power of the row's weight w, and both inverses are sums of what rows say:

    - 1 / P(nothing before o)^w = e^{w H(o)} = Σ_n (w H(o))^n / n!, so n ~ Pois(w H(o)) points lie before o, watched by nobody: a
      COUNT without exposure;
    - 1 / P(something before o)^w = Σ_n Γ(n + w) / (Γ(w) n!) e^{-n H(o)}, so n ~ NB(w, e^{-H(o)}) others had NOTHING before o: an
      exposure of n.
    """
    arrays = rows.arrays
    which = np.flatnonzero(arrays.kind > COUNT)
    if not which.size:
        return rows
    drawn, rate = np.empty(which.size), rates.at(arrays.offset[which], which, stretch)
    fill_conditions(arrays.kind[which], arrays.copies[which], rate, streams, drawn)
    points = arrays.kind[which] == GIVEN_NOTHING
    kind, copies, exposure = arrays.kind.copy(), arrays.copies.copy(), arrays.exposure.copy()
    kind[which] = np.where(points, COUNT, NOTHING)
    copies[which], exposure[which] = np.where(points, drawn, 0.0), np.where(points, 0.0, drawn)
    return replace(rows, arrays=arrays._replace(kind=kind, copies=copies, exposure=exposure))


@kernel
def fill_conditions(
    kind: IntArray, weight: FloatArray, rate: FloatArray, streams: SweepStreams, out: FloatArray
) -> None:
    """n of every condition: Pois(w H), or NB(w, e^{-H}) as a Poisson number of mean Gamma(w) / (e^H - 1)."""
    for low in range(0, out.shape[0], BLOCK_ROWS):
        stream = stream_at(streams, low // BLOCK_ROWS, ROW_RESPONSE)
        for i in range(low, min(low + BLOCK_ROWS, out.shape[0])):
            if kind[i] == GIVEN_NOTHING:
                out[i] = poisson(stream, weight[i] * rate[i])
            else:
                out[i] = poisson(stream, gamma_variate(stream, weight[i]) / np.expm1(max(rate[i], TINY_RATE)))


def slice_sample(
    log_density: Callable[[float], float],
    x: float,
    width: float,
    uniform: Callable[[], float],
    low: float = -np.inf,
    high: float = np.inf,
    most_widths: int = 64,
) -> float:
    """A step from x that leaves the density on (low, high) as it is: stepping out, then shrinking (Neal 2003).

    The interval grows to ``most_widths`` widths; with one it does not grow, and takes two evaluations less.
    """
    level = log_density(x) + np.log(uniform())
    left = x - width * uniform()
    right = left + width
    to_left = int(most_widths * uniform())
    to_right = most_widths - 1 - to_left
    while to_left > 0 and left > low and log_density(left) > level:
        left, to_left = left - width, to_left - 1
    while to_right > 0 and right < high and log_density(right) > level:
        right, to_right = right + width, to_right - 1
    left, right = max(left, low), min(right, high)
    while right - left > 1e-14 * max(1.0, abs(x)):
        new = left + uniform() * (right - left)
        if log_density(new) > level:
            return new
        if new < x:
            left = new
        else:
            right = new
    return x
