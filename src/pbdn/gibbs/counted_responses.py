"""Counts that vary more than a Poisson law allows, and amounts that may be exactly zero."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, ive

from pbdn.errors import InvalidInputError
from pbdn.gibbs.kernel_arguments import PriorValues
from pbdn.gibbs.log_likelihood import SideRates
from pbdn.gibbs.responses import ExtraStream, GammaPrior, RowResponse, SideRows, log_prior_of_log, slice_sample
from pbdn.gibbs.rows import BLOCK_ROWS, COUNT, Rows, make_rows
from pbdn.gibbs.state import Extras, GlobalState
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.compiled import kernel
from pbdn.variates.counts import bessel_count
from pbdn.variates.random_stream import ROW_RESPONSE, SweepStreams, gamma_variate, stream_at

DISPERSION_PRIOR = GammaPrior(1.0, 0.1)
AMOUNT_PRIOR = GammaPrior(1.0, 0.1)  # for amounts of mean one


def counted_rows(
    inputs: Any,
    count: ArrayLike,
    *,
    exposure: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    prior: GammaPrior | None = DISPERSION_PRIOR,
) -> SideRows:
    """Rows of counts.

    Parameters
    ----------
    inputs : array or CSR matrix of shape (n, d)
    count : array of shape (n,)
        Whole numbers.
    exposure : array, optional
        Above 0: the mean count is in proportion to it.
    weight : array, optional
        As in `make_rows`; with overdispersion whole numbers only.
    prior : GammaPrior or None
        Of the overdispersion φ; None: Poisson counts.
    """
    counts = np.asarray(count, dtype=float)
    if np.any(~(counts >= 0) | (counts != np.floor(counts)) | np.isinf(counts)):
        raise InvalidInputError("count must be whole numbers of at least 0; mend or drop the rows that are not.")
    exposures = np.ones(counts.size) if exposure is None else np.asarray(exposure, dtype=float)
    if np.any(~(exposures > 0) | np.isinf(exposures)):
        raise InvalidInputError("exposure must be finite and above 0; mend or drop the rows that are not.")
    if prior is None:
        rows = make_rows(
            inputs, counts, weight=weight, exposure=exposures, kind=np.full(counts.size, COUNT), merge=False
        )
        return SideRows(rows, None)
    return _rows_of_copies(inputs, counts, exposures, weight, Overdispersion(prior))


def amount_rows(
    inputs: Any, amount: ArrayLike, *, weight: ArrayLike | None = None, prior: GammaPrior = AMOUNT_PRIOR
) -> SideRows:
    """Rows of amounts y ≥ 0, some of them exactly zero (`AmountRate`); weights are whole numbers."""
    amounts = np.asarray(amount, dtype=float)
    if np.any(~(amounts >= 0) | np.isinf(amounts)):
        raise InvalidInputError("amount must be finite and at least 0; mend or drop the rows that are not.")
    return _rows_of_copies(inputs, amounts, np.ones(amounts.size), weight, AmountRate(prior))


def _rows_of_copies(
    inputs: Any, value: FloatArray, exposure: FloatArray, weight: ArrayLike | None, response: RowResponse
) -> SideRows:
    """Count rows, each copy apart: every copy has a row variable of its own."""
    if weight is not None:
        copies = np.asarray(weight, dtype=float)
        if np.any(~(copies >= 0) | (copies != np.floor(copies)) | np.isinf(copies)):
            raise InvalidInputError(
                "weight must be whole numbers for this response, because a row of weight w is drawn as w copies; "
                "round the weights, or leave them out."
            )
        place = np.repeat(np.arange(value.size), copies.astype(np.int64))
        inputs, value, exposure = inputs[place], value[place], exposure[place]
    rows = make_rows(inputs, value, exposure=exposure, kind=np.full(value.size, COUNT), merge=False)
    return SideRows(rows, response)


@dataclass(frozen=True)
class Overdispersion:
    """Counts y_i ~ Poisson(e_i λ_i) with e_i ~ Gamma(φ, φ): negative binomial of mean λ_i; φ ~ Gamma(prior).

    λ_i has the row's own exposure in it. The e_i are row variables: drawn for each sweep, not kept.
    """

    prior: GammaPrior

    def initial(self, rows: Rows) -> Extras:
        """φ = 1: a geometric law."""
        return {"dispersion": np.array(1.0)}

    def log_likelihood(self, rows: Rows, planes: FloatArray, weights: FloatArray, extras: Extras) -> float:
        """Σ ln P(y_i)."""
        arrays = rows.arrays
        rate = arrays.exposure * SideRates(rows, planes, weights).at(arrays.offset)
        constant = gammaln(arrays.copies + 1.0).sum() - (arrays.copies * np.log(np.maximum(rate, 1e-300))).sum()
        return log_count_likelihood(float(extras["dispersion"]), arrays.copies, rate) - float(constant)

    def draw(
        self, rows: Rows, state: GlobalState, extras: Extras, priors: PriorValues, streams: SweepStreams
    ) -> tuple[Rows, GlobalState, Extras]:
        """φ with e integrated out, by slice sampling of its logarithm; then e given φ."""
        arrays = rows.arrays
        rates = SideRates(rows, state.hyperplanes, np.exp(state.log_weights))
        rate = arrays.exposure * rates.at(arrays.offset)

        def log_density(log_dispersion: float) -> float:
            dispersion = float(np.exp(log_dispersion))
            likelihood = log_count_likelihood(dispersion, arrays.copies, rate)
            return likelihood + log_prior_of_log(log_dispersion, self.prior)

        at = float(np.log(extras["dispersion"]))
        dispersion = float(np.exp(slice_sample(log_density, at, 1.0, ExtraStream(streams).uniform)))
        exposures = np.empty(rows.n_rows)
        draw_exposures(arrays.copies, rate, dispersion, streams, exposures)
        ready = Rows(arrays._replace(exposure=exposures * arrays.exposure), rows.n_inputs)
        return ready, state, {"dispersion": np.array(dispersion)}


def log_count_likelihood(dispersion: float, counts: FloatArray, rate: FloatArray) -> float:
    """Σ ln [Γ(y + φ) / Γ(φ) · φ^φ / (φ + λ)^{y + φ}], the negative binomial law without λ^y / y!."""
    rising = gammaln(counts + dispersion) - gammaln(dispersion) - counts * np.log(dispersion + rate)
    return float(np.sum(rising - dispersion * np.log1p(rate / dispersion)))


@kernel
def draw_exposures(
    counts: FloatArray, rate: FloatArray, dispersion: float, streams: SweepStreams, out: FloatArray
) -> None:
    """e_i ~ Gamma(φ + y_i, φ + λ_i)."""
    for low in range(0, out.shape[0], BLOCK_ROWS):
        stream = stream_at(streams, low // BLOCK_ROWS, ROW_RESPONSE)
        for i in range(low, min(low + BLOCK_ROWS, out.shape[0])):
            drawn = gamma_variate(stream, dispersion + counts[i]) / (dispersion + rate[i])
            out[i] = max(drawn, 1e-300)


@dataclass(frozen=True)
class AmountRate:
    """Amounts y_i ≥ 0, the sum of n_i ~ Poisson(λ_i) parts of law Exponential(ς): zero where n_i = 0; ς ~ Gamma(prior).

    Where rows have the number of their events, here they have their amount.
    """

    prior: GammaPrior

    def initial(self, rows: Rows) -> Extras:
        """One part for each mean amount."""
        amount = rows.arrays.copies
        return {"amount_rate": np.array(1.0 / amount[amount > 0].mean() if np.any(amount > 0) else 1.0)}

    def log_likelihood(self, rows: Rows, planes: FloatArray, weights: FloatArray, extras: Extras) -> float:
        """Σ ln f(y_i), probabilities for those that are zero."""
        arrays = rows.arrays
        rate = arrays.exposure * SideRates(rows, planes, weights).at(arrays.offset)
        return log_amount_likelihood(float(extras["amount_rate"]), arrays.copies, rate)

    def draw(
        self, rows: Rows, state: GlobalState, extras: Extras, priors: PriorValues, streams: SweepStreams
    ) -> tuple[Rows, GlobalState, Extras]:
        """n given ς, then ς given n; the rows that follow count n events."""
        arrays = rows.arrays
        rates = SideRates(rows, state.hyperplanes, np.exp(state.log_weights))
        rate = arrays.exposure * rates.at(arrays.offset)
        parts = np.empty(rows.n_rows)
        draw_parts(arrays.copies, rate, float(extras["amount_rate"]), streams, parts)
        amount_rate = draw_amount_rate(ExtraStream(streams), parts, arrays.copies, self.prior)
        return Rows(arrays._replace(copies=parts), rows.n_inputs), state, {"amount_rate": np.array(amount_rate)}


def log_amount_likelihood(amount_rate: float, amounts: FloatArray, rate: FloatArray) -> float:
    """Σ of -λ where y = 0, else of ln[e^{-λ - ς y} √(λ ς / y) I₁(2 √(λ ς y))]."""
    y, own = amounts[amounts > 0], np.maximum(rate[amounts > 0], 1e-300)
    middle = 2.0 * np.sqrt(own * amount_rate * y)
    density = np.log(np.maximum(ive(1, middle), 1e-300)) + middle + 0.5 * np.log(own * amount_rate / y)
    return float(np.sum(density - amount_rate * y) - rate.sum())


@kernel
def draw_parts(
    amounts: FloatArray, rate: FloatArray, amount_rate: float, streams: SweepStreams, out: FloatArray
) -> None:
    """n_i with P(n) ∝ (ς y_i λ_i)ⁿ / (n! (n-1)!), n ≥ 1, where y_i > 0; else 0."""
    for low in range(0, out.shape[0], BLOCK_ROWS):
        stream = stream_at(streams, low // BLOCK_ROWS, ROW_RESPONSE)
        for i in range(low, min(low + BLOCK_ROWS, out.shape[0])):
            out[i] = bessel_count(stream, amount_rate * amounts[i] * rate[i]) if amounts[i] > 0.0 else 0.0


def draw_amount_rate(stream: ExtraStream, parts: FloatArray, amounts: FloatArray, prior: GammaPrior) -> float:
    """ς ~ Gamma(a + Σ n_i, b + Σ y_i)."""
    return stream.gamma(prior.shape + float(parts.sum())) / (prior.rate + float(amounts.sum()))
