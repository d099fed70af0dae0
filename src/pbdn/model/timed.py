"""Responses on a line: real numbers, grades, counts and survival times.

Every row's value u is the first point of a Poisson process with cumulative rate H(u) = Σ_k r_k s(x'β_k + τ_k u), so that
P(U > u) = e^{-H(u)}. The second side of a layer models -u. What is predicted is the average of the two distributions. At u = 0
a side is the classifier of "the value is at most 0", so that votes, subtypes and polytopes mean what they mean for labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pbdn.errors import InvalidInputError
from pbdn.model.labelling import Labelling, flipped, for_each_class
from pbdn.model.likelihood import log_probability, signed_distances
from pbdn.model.network import Layer, Side
from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.numerics.first_point import fill_quantiles, fill_rates, just_below

SMALLEST_LOG_DENSITY = -25.0  # of a row kept back, so that one row cannot decide everything
HALVINGS = 60  # of a bracket around the quantile of a first time
N_STRATA = 10  # groups of similar values that folds share evenly


class SideArrays(NamedTuple):
    """What the distribution of every row needs to know of one side; of several draws, their experts side by side."""

    distances: FloatArray  # (n_rows, n_experts)
    weights: FloatArray
    time_coefs: FloatArray
    starts: IntArray  # where the experts of each draw begin, and the end: (n_draws + 1,)

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.starts) - 1

    def take(self, rows: Any) -> "SideArrays":
        """Some of the rows."""
        return self._replace(distances=np.ascontiguousarray(self.distances[rows]))

    def draw(self, g: int) -> "SideArrays":
        """One of the draws."""
        own = slice(self.starts[g], self.starts[g + 1])
        distances = np.ascontiguousarray(self.distances[:, own])
        return SideArrays(distances, self.weights[own], self.time_coefs[own], self.starts[g : g + 2] - self.starts[g])


def side_arrays(layer: Layer, inputs: Inputs) -> tuple[SideArrays, ...]:
    """The sides of a layer on its inputs."""
    return tuple(_draws_of_side([side], inputs) for side in layer.sides)


def drawn_arrays(draws: Sequence[Sequence[Side]], inputs: Inputs) -> tuple[SideArrays, ...]:
    """The sides of all draws of a layer, ``draws[g][s]``, on its inputs."""
    return tuple(_draws_of_side(of_side, inputs) for of_side in zip(*draws, strict=True))


def joined_arrays(parts: Sequence[tuple[SideArrays, ...]]) -> tuple[SideArrays, ...]:
    """The draws of several networks as those of one, on the same rows."""

    def joined(same: Sequence[SideArrays]) -> SideArrays:
        sizes = np.concatenate([np.diff(one.starts) for one in same])
        return SideArrays(
            np.ascontiguousarray(np.concatenate([one.distances for one in same], axis=1)),
            np.concatenate([one.weights for one in same]),
            np.concatenate([one.time_coefs for one in same]),
            _starts(sizes),
        )

    return parts[0] if len(parts) == 1 else tuple(joined(same) for same in zip(*parts, strict=True))


def _draws_of_side(draws: Sequence[Side], inputs: Inputs) -> SideArrays:
    times = [side.time_coefs for side in draws if side.time_coefs is not None]
    assert len(times) == len(draws)
    planes = np.concatenate([side.hyperplanes for side in draws])
    distances = np.ascontiguousarray(signed_distances(planes, inputs))
    weights = np.concatenate([side.expert_weights for side in draws])
    return SideArrays(distances, weights, np.concatenate(times), _starts([side.n_experts for side in draws]))


def _starts(sizes: Any) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def rates(side: SideArrays, u: FloatArray, g: int = 0) -> tuple[FloatArray, FloatArray]:
    """H and H' of one draw of a side at u, shape (n_rows, n_points)."""
    u = np.ascontiguousarray(u, dtype=np.float64)
    rate, hazard = np.empty_like(u), np.empty_like(u)
    fill_rates(side.distances, side.weights, side.time_coefs, side.starts[g], side.starts[g + 1], u, rate, hazard)
    return rate, hazard


def side_log_likelihood(side: SideArrays, bounds: FloatArray, g: int = 0) -> FloatArray:
    """ln P(what each row says) under one draw of a side; a density where the bounds are equal.

    ln H'(u) - H(u) at u = low = high, else ln(e^{-H(low)} - e^{-H(high)}). A limit below takes -H(limit) away, and one above
    ln(1 - e^{-H(limit)}).
    """
    rate, hazard = rates(side, bounds, g)
    exact = bounds[:, 0] == bounds[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = -rate[:, 0] + log_probability(rate[:, 1] - rate[:, 0])
        said = np.where(exact, np.log(hazard[:, 0]) - rate[:, 0], inside)
        if bounds.shape[1] > 2:
            said -= np.where(bounds[:, 2] < bounds[:, 1], -rate[:, 2], log_probability(rate[:, 2]))
        return np.asarray(said)


def timed_log_likelihoods(layer: Layer, inputs: Inputs, bounds: FloatArray, weights: FloatArray | None) -> list[float]:
    """Log-likelihood of every side over all rows; sides stand for low and for high values in turn."""
    row_weights = np.ones(len(bounds)) if weights is None else weights
    seen = (bounds, flipped(bounds))
    return [
        float(row_weights @ side_log_likelihood(side, seen[place % 2]))
        for place, side in enumerate(side_arrays(layer, inputs))
    ]


class StandardDistribution:
    """The distribution of u for some rows, by a pair of sides, or by several draws of a pair.

    Every method takes values of shape (n_rows, n_points) and returns the same shape.
    """

    def __init__(self, sides: Sequence[SideArrays]) -> None:
        self.first, self.second = sides

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.first.distances.shape[0])

    def _mean(self, of_draw: Callable[[int], FloatArray]) -> FloatArray:
        """The average over draws."""
        total = of_draw(0)
        for g in range(1, self.first.n_draws):
            total = total + of_draw(g)
        return np.asarray(total / self.first.n_draws)

    def cdf(self, u: FloatArray) -> FloatArray:
        """P(U ≤ u)."""
        return self._mean(
            lambda g: 0.5 * (-np.expm1(-rates(self.first, u, g)[0]) + np.exp(-rates(self.second, -u, g)[0]))
        )

    def sf(self, u: FloatArray) -> FloatArray:
        """P(U > u), accurate where it is small."""
        return self._mean(
            lambda g: 0.5 * (np.exp(-rates(self.first, u, g)[0]) - np.expm1(-rates(self.second, -u, g)[0]))
        )

    def pdf(self, u: FloatArray) -> FloatArray:
        """Density."""

        def of_draw(g: int) -> FloatArray:
            (rate, hazard), (other, own) = rates(self.first, u, g), rates(self.second, -u, g)
            return np.asarray(0.5 * (hazard * np.exp(-rate) + own * np.exp(-other)))

        return self._mean(of_draw)

    def ppf(self, probability: FloatArray) -> FloatArray:
        """Quantiles; -inf and inf at 0 and 1."""
        probability = np.ascontiguousarray(probability, dtype=np.float64)
        out = np.empty_like(probability)
        inside = np.clip(probability, 1e-15, 1.0 - 1e-15)
        fill_quantiles(tuple(self.first), tuple(self.second), inside, out)
        return np.asarray(np.where(probability <= 0.0, -np.inf, np.where(probability >= 1.0, np.inf, out)))

    def log_likelihood(self, bounds: FloatArray) -> FloatArray:
        """ln P(what each row says, given its limit), by the mean of both sides' likelihoods over all draws."""
        bounds, limits = bounds[:, :2], bounds[:, 2:]
        turned, n_draws = flipped(bounds), self.first.n_draws
        both = np.stack(
            [side_log_likelihood(self.first, bounds, g) for g in range(n_draws)]
            + [side_log_likelihood(self.second, turned, g) for g in range(n_draws)]
        )
        return np.asarray(np.logaddexp.reduce(both, axis=0) - np.log(2.0 * n_draws) - log_beyond_limit(self, limits))


class FirstOfSeveral:
    """The distribution of ln T of the first of several times; methods as in `StandardDistribution`."""

    def __init__(self, parts: Sequence[tuple[Any, "OnALine"]]) -> None:
        self.parts, self.n_rows = parts, parts[0][0].n_rows

    def survivals(self, u: FloatArray) -> FloatArray:
        """P(ln T_c > u), shape (n_causes, n_rows, n_points)."""
        return np.stack([one.sf((u - line.center) / line.scale) for one, line in self.parts])

    def first_densities(self, u: FloatArray) -> FloatArray:
        """Density of ln T_c where all other causes are later, shape (n_rows, n_causes, n_points)."""
        later = self.survivals(u)
        own = [one.pdf((u - line.center) / line.scale) / line.scale for one, line in self.parts]
        return np.stack([f * np.delete(later, c, axis=0).prod(axis=0) for c, f in enumerate(own)], axis=1)

    def sf(self, u: FloatArray) -> FloatArray:
        """P(ln T > u)."""
        return np.asarray(self.survivals(u).prod(axis=0))

    def cdf(self, u: FloatArray) -> FloatArray:
        """P(ln T ≤ u)."""
        return np.asarray(1.0 - self.sf(u))

    def pdf(self, u: FloatArray) -> FloatArray:
        """Density."""
        return np.asarray(self.first_densities(u).sum(axis=1))

    def ppf(self, probability: FloatArray) -> FloatArray:
        """By halving an interval: all causes have a survival of (1 - q)^(1/n) at its lower end, one has 1 - q at its upper end."""
        q = np.clip(np.asarray(probability, dtype=np.float64), 1e-15, 1.0 - 1e-15)
        levels = (-np.expm1(np.log1p(-q) / len(self.parts)), q)
        ends = [[line.center + line.scale * one.ppf(p) for one, line in self.parts] for p in levels]
        low, high = np.min(ends, axis=1)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            later = self.sf(middle) > 1.0 - just_below(q)
            low, high = np.where(later, middle, low), np.where(later, high, middle)
        return np.where(probability <= 0.0, -np.inf, np.where(probability >= 1.0, np.inf, 0.5 * (low + high)))

    def log_likelihood(self, bounds: FloatArray) -> FloatArray:
        """ln P(what each row says)."""
        exact = bounds[:, 0] == bounds[:, 1]
        density = self.pdf(np.where(exact, bounds[:, 0], 0.0)[:, None])
        with np.errstate(divide="ignore"):
            said = np.log(np.where(exact, density[:, 0], -np.diff(self.sf(bounds[:, :2]), axis=1)[:, 0]))
        return np.asarray(said - log_beyond_limit(self, bounds[:, 2:]))


def log_beyond_limit(of_rows: Any, limits: FloatArray) -> Any:
    """ln P(U > limit) of every row, from a column of limits; 0 where there is none."""
    with np.errstate(divide="ignore"):
        return np.log(of_rows.sf(limits)).sum(axis=1) if limits.shape[1] else 0.0


def known_values(bounds: FloatArray) -> FloatArray:
    """A finite value for every row: the middle of its bounds, or the one bound that it has."""
    ends = bounds[:, :2]
    return np.asarray(np.where(np.isfinite(ends), ends, ends[:, ::-1]).mean(axis=1))


@dataclass(frozen=True)
class OnALine:
    """The response of real numbers: y, or ln y, less ``center`` and divided by ``scale`` is the value u of a row.

    Attributes
    ----------
    center, scale : float
    log : bool
        Whether logarithms are modelled; y > 0 then.
    reach : float
        Largest value u that moments count, which the logarithm of an unusual row could make endless; values beyond count as
        if they were there.
    cuts : tuple of float
        Of grades: the ends of all but the last grade, as values u. Empty: numbers.
    """

    kind: ClassVar[str] = "line"
    n_outputs: ClassVar[int] = 1
    timed: ClassVar[bool] = True

    center: float = 0.0
    scale: float = 1.0
    log: bool = False
    cuts: tuple[float, ...] = ()
    reach: float = np.inf

    def __post_init__(self) -> None:
        """Refuse what maps no line to a line."""
        numbers = np.array([self.center, self.scale, *self.cuts], dtype=float)
        if (
            not np.isfinite(numbers).all()
            or np.isnan(self.reach)
            or self.scale <= 0.0
            or np.any(np.diff(self.cuts) <= 0.0)
        ):
            raise InvalidInputError("The response needs finite numbers, a positive scale and cuts in rising order.")

    def settings(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {"center": self.center, "scale": self.scale, "log": self.log, "cuts": list(self.cuts)} | (
            {"reach": self.reach} if np.isfinite(self.reach) else {}
        )

    @classmethod
    def from_settings(cls, settings: Any) -> "OnALine":
        """Inverse of `settings`; refuses anything else."""
        try:
            center, scale, cuts = settings["center"], settings["scale"], settings["cuts"]
            reach = float(settings.get("reach", np.inf))
            return cls(float(center), float(scale), settings["log"] is True, tuple(float(cut) for cut in cuts), reach)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(f"The response on a line is not described: {error}.") from error

    @property
    def labelling(self) -> Labelling:
        """What the sides are at u = 0: for "at most the centre", and for "above it"."""
        return for_each_class(2)

    @property
    def labels(self) -> list[str]:
        """What the sides speak for, in words."""
        if self.cuts:
            return ["lower", "higher"]
        middle = float(np.asarray(self.from_line(np.zeros(1)))[0])
        return [f"at most {middle:.4g}", f"above {middle:.4g}"]

    def to_line(self, y: ArrayLike) -> FloatArray:
        """u of y."""
        with np.errstate(divide="ignore"):
            values = np.log(np.maximum(y, 0.0)) if self.log else np.asarray(y, dtype=float)
        return np.asarray((values - self.center) / self.scale)

    def from_line(self, u: FloatArray) -> FloatArray:
        """y of u."""
        values = self.center + self.scale * np.asarray(u)
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(values) if self.log else values)

    def slope(self, u: FloatArray) -> FloatArray:
        """dy/du."""
        return np.asarray(self.scale * self.from_line(u) if self.log else np.full(np.shape(u), self.scale))

    def log_slopes(self, targets: FloatArray) -> FloatArray:
        """ln dy/du of exact values, by which densities of y and u differ; 0 for other statements."""
        exact = targets[:, 0] == targets[:, 1]
        return np.asarray(np.where(exact, np.log(self.slope(np.where(exact, targets[:, 0], 0.0))), 0.0))

    def prediction(self, layer: Any, inputs: Inputs) -> FloatArray:
        """Medians, shape (n, 1)."""
        middle = StandardDistribution(side_arrays(layer, inputs)).ppf(np.full((inputs.shape[0], 1), 0.5))
        return self.from_line(middle)

    def losses(self, layer: Any, inputs: Inputs, targets: FloatArray) -> FloatArray:
        """-2 ln P(what the row says) or, of exact values, -2 ln of the density of u."""
        found = StandardDistribution(side_arrays(layer, inputs)).log_likelihood(targets)
        return np.asarray(-2.0 * np.maximum(found, SMALLEST_LOG_DENSITY))

    @staticmethod
    def strata(targets: FloatArray) -> IntArray:
        """Groups of rows with similar values, which folds share evenly."""
        known = known_values(targets)
        n_strata = max(1, min(N_STRATA, len(known) // (2 * N_STRATA)))
        rank = np.argsort(np.argsort(known, kind="stable"), kind="stable")
        return np.asarray(rank * n_strata // max(len(known), 1), np.int64)
