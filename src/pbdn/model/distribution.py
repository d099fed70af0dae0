"""What is predicted of rows with values on a line: a whole distribution for each of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pbdn.errors import InvalidInputError
from pbdn.model.timed import FirstOfSeveral, OnALine, SideArrays, StandardDistribution
from pbdn.numerics.arrays import FloatArray
from pbdn.numerics.first_point import just_below
from pbdn.validation import check_share

NEGLIGIBLE = 50.0  # logarithms below the highest from which on values are nothing beside it
TAIL = 1e-4  # probability at each end that moments move to where it begins: a mean is then finite whatever the tail
COUNTED = 16  # counts up to which a mean is a sum; an integral from there on
BETWEEN = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(48)
FEW_TIMES = 8  # more times lie near each other, so that from one to the next few nodes are enough
BETWEEN_TIMES = np.polynomial.legendre.leggauss(8)
_SIX = np.polynomial.legendre.leggauss(6)
SPOTS = (
    (np.arange(-15, 16, 2)[:, None] + _SIX[0]).ravel() / 16.0,
    np.tile(_SIX[1] / 16.0, 16),
)  # six in each of 16 parts


class Distribution:
    """The predicted distributions of some rows, one each.

    Values and probabilities are broadcast against the rows as in `scipy.stats`: a number is asked of all rows, an array of
    shape (n_rows,) gives each row its own, and an array of shape (m, 1) asks every row m times: the result is (m, n_rows).

    Parameters
    ----------
    sides : pair of SideArrays
        Of the top layer on these rows. Of several posterior draws the average is the distribution.
    response : OnALine
        How y becomes a value on the line.
    """

    _zero: FloatArray = np.zeros(1)  # probability of a zero, of all rows or of each
    _more: FloatArray = np.ones(1)

    def __init__(self, sides: tuple[SideArrays, ...], response: OnALine) -> None:
        self._standard, self._response = StandardDistribution(sides), response

    def __len__(self) -> int:
        return self._standard.n_rows

    def __repr__(self) -> str:
        return f"<Distribution of {len(self)} rows>"

    def __getitem__(self, rows: Any) -> "Distribution":
        """The distributions of some of the rows, by a slice, a mask or their numbers."""
        rows = [rows] if isinstance(rows, int | np.integer) else rows
        return Distribution((self._standard.first.take(rows), self._standard.second.take(rows)), self._response)

    def draws(self) -> Iterator["Distribution"]:
        """The distributions by every posterior draw; these are their average."""
        first, second = self._standard.first, self._standard.second
        for g in range(first.n_draws):
            yield Distribution((first.draw(g), second.draw(g)), self._response)

    def _each(self, function: Callable[[FloatArray], FloatArray], values: ArrayLike) -> FloatArray:
        """A function of (n_rows, n_points) numbers, on whatever broadcasts against the rows."""
        array = np.asarray(values, dtype=np.float64)
        try:
            shape = np.broadcast_shapes(array.shape, (len(self),))
        except ValueError:
            raise InvalidInputError(
                f"Values of shape {array.shape} cannot be asked of {len(self)} rows; give a number, one value per row, or an "
                "array of shape (m, 1) to ask every row m times."
            ) from None
        if shape[-1] != len(self):
            raise InvalidInputError(f"Values of shape {array.shape} cannot be asked of {len(self)} row(s).")
        points = np.broadcast_to(array, shape).reshape(-1, len(self)).T
        return np.asarray(function(np.ascontiguousarray(points)).T.reshape(shape))

    def cdf(self, y: ArrayLike) -> FloatArray:
        """P(Y ≤ y)."""
        return self._each(lambda points: self._standard.cdf(self._response.to_line(points)), y)

    def sf(self, y: ArrayLike) -> FloatArray:
        """P(Y > y)."""
        return self._each(lambda points: self._standard.sf(self._response.to_line(points)), y)

    def pdf(self, y: ArrayLike) -> FloatArray:
        """Density."""

        def density(points: FloatArray) -> FloatArray:
            u = self._response.to_line(points)
            inside = np.isfinite(u)
            u = np.where(inside, u, 0.0)
            return np.where(inside, self._standard.pdf(u) / self._response.slope(u), 0.0)

        return self._each(density, y)

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """ln of the density."""

        return self._each(
            lambda points: np.stack([self.log_likelihood(np.column_stack([one, one])) for one in points.T], axis=1), y
        )

    def log_likelihood(self, bounds: FloatArray) -> FloatArray:
        """ln P(what each row says), shape (n_rows,): log-density where the bounds are equal.

        Bounds have two columns, or three: the last has limits, and what rows say is given that values lie above them.
        """
        on_line = self._response.to_line(bounds)
        impossible = (on_line[:, 0] == on_line[:, 1]) & np.isinf(on_line[:, 0])
        on_line[impossible, :2] = 0.0
        found = self._standard.log_likelihood(on_line) - self._response.log_slopes(on_line)
        return np.where(impossible, -np.inf, found)

    def ppf(self, q: ArrayLike) -> FloatArray:
        """Quantiles."""
        _check_levels(q)
        return self._each(lambda points: self._response.from_line(self._standard.ppf(points)), q)

    def median(self) -> FloatArray:
        """Medians."""
        return self.ppf(0.5)

    def interval(self, coverage: float = 0.9) -> FloatArray:
        """Ends of the central intervals that hold the value with this probability, shape (n_rows, 2)."""
        check_share("coverage", coverage)
        return np.ascontiguousarray(self.ppf(np.array([[0.5 - 0.5 * coverage], [0.5 + 0.5 * coverage]])).T)

    def mean(self) -> FloatArray:
        """Means; the last 1/10 000 of probability at each end counts as if it lay where it begins.

        With logarithms, so does what is more than a standard deviation above all values of training.
        """
        return self._expected(lambda y: y, lambda y: np.ones_like(y))

    def std(self) -> FloatArray:
        """Standard deviations, with ends as in `mean`."""
        mean = self.mean()[:, None]
        return np.sqrt(self._expected(lambda y: (y - mean) ** 2, lambda y: 2.0 * (y - mean)))

    def _expected(
        self, function: Callable[[FloatArray], FloatArray], derivative: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """E g(Y) = g(a) + ∫_a^b g'(y) (1 - F(y)) dy between far quantiles a and b, by Gauss-Legendre on the line.

        Over draws it is an average, each draw with its own ends.
        """
        if self._n_draws > 1:
            return np.asarray(np.mean([draw._expected(function, derivative) for draw in self.draws()], axis=0))
        ends = self._ends()
        u, weights = _nodes(ends[:, :1], ends[:, 1:])
        slopes = derivative(self._response.from_line(u)) * self._response.slope(u)
        first = function(self._response.from_line(ends[:, :1]))[:, 0]
        return np.asarray(first + (slopes * self._standard.sf(u) * weights).sum(axis=1))

    def mean_above(self, y: ArrayLike) -> FloatArray:
        """E max(Y - y, 0), one value y per row, with the upper end as in `mean`."""
        if self._n_draws > 1:
            return np.asarray(np.mean([draw.mean_above(y) for draw in self.draws()], axis=0))
        values, ends = np.broadcast_to(np.asarray(y, dtype=np.float64), (len(self),)), self._ends()
        at = self._response.to_line(values)
        below = np.isneginf(at)  # no value lies there
        low = np.where(below, ends[:, 0], at)[:, None]
        u, weights = _nodes(low, np.maximum(low, ends[:, 1:]))
        above = (self._response.slope(u) * self._standard.sf(u) * weights).sum(axis=1)
        return np.asarray(above + np.where(below, self._response.from_line(ends[:, 0]) - values, 0.0))

    def _ends(self) -> FloatArray:
        """Far quantiles on the line, within reach, between which moments and scores are counted, shape (n_rows, 2).

        Draws may be of very different widths, so that theirs has quantiles between. Logarithms far below the highest add nothing.
        """
        levels = [TAIL, *(BETWEEN if self._n_draws > 1 else ()), 1.0 - TAIL]
        ends = np.minimum(self._standard.ppf(np.tile(levels, (len(self), 1))), self._response.reach)
        return np.maximum(ends, ends[:, -1:] - NEGLIGIBLE / self._response.scale) if self._response.log else ends

    @property
    def _n_draws(self) -> int:
        return self._standard.first.n_draws

    def crps(self, y: ArrayLike) -> FloatArray:
        """Continuous ranked probability scores ∫ (F(z) - δ(z ≥ y))² dz, one value y per row; less is better. Ends as in `mean`."""
        values, ends = np.broadcast_to(np.asarray(y, dtype=np.float64), (len(self),)), self._ends()
        at, slope = np.maximum(self._response.to_line(values), ends[:, 0])[:, None], self._response.slope
        below, below_weights = _nodes(np.minimum(ends[:, :-1], at), at)
        above, above_weights = _nodes(at, np.maximum(ends[:, 1:], at))
        zero, more = self._zero[:, None], self._more[:, None]
        begin = self._response.from_line(ends[:, 0])
        first = np.minimum(values, begin)  # from there to where the amounts begin, F is the probability of a zero
        flat = first * self._zero**2 + (begin - first) * self._more**2
        low = (slope(below) * (zero + more * self._standard.cdf(below)) ** 2 * below_weights).sum(axis=1)
        high = (slope(above) * (more * self._standard.sf(above)) ** 2 * above_weights).sum(axis=1)
        return np.asarray(flat + low + high)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Random values, shape (n_samples, n_rows)."""
        rng = np.random.default_rng(random_state)
        return self.ppf(rng.uniform(size=(n_samples, len(self))))


class DistributionWithZero(Distribution):
    """Distributions of amounts: zero with a probability of its own, and else as ``others`` say, which are positive."""

    def __init__(self, others: Distribution, zero: FloatArray) -> None:
        self._standard, self._response = others._standard, others._response
        self._others, self._zero, self._more = others, zero, 1.0 - zero

    def __getitem__(self, rows: Any) -> "DistributionWithZero":
        """The distributions of some of the rows, by a slice, a mask or their numbers."""
        rows = [rows] if isinstance(rows, int | np.integer) else rows
        return DistributionWithZero(self._others[rows], self._zero[rows])

    def cdf(self, y: ArrayLike) -> FloatArray:
        """P(Y ≤ y); at zero, the probability of a zero."""
        return np.where(np.asarray(y) < 0.0, 0.0, self._zero + self._more * self._others.cdf(y))

    def sf(self, y: ArrayLike) -> FloatArray:
        """P(Y > y)."""
        return np.where(np.asarray(y) < 0.0, 1.0, self._more * self._others.sf(y))

    def pdf(self, y: ArrayLike) -> FloatArray:
        """Density of the amounts that are not zero; it integrates to their probability."""
        return self._more * self._others.pdf(y)

    def log_likelihood(self, bounds: FloatArray) -> FloatArray:
        """ln of the density of exact values or, of a zero, of its probability."""
        zero = bounds[:, 1] <= 0.0
        others = self._others.log_likelihood(np.where(zero[:, None], 1.0, bounds))
        with np.errstate(divide="ignore"):
            return np.where(zero, np.log(self._zero), np.log(self._more) + others)

    def ppf(self, q: ArrayLike) -> FloatArray:
        """Quantiles; zero up to its probability."""
        _check_levels(q)
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = (np.asarray(q, dtype=np.float64) - self._zero) / self._more
        above = rest > 0.0
        return np.where(above, self._others.ppf(just_below(np.clip(np.where(above, rest, 0.5), 0.0, 1.0))), 0.0)

    def mean(self) -> FloatArray:
        """Means, with ends as in `Distribution.mean`."""
        return self._more * self._others.mean()

    def std(self) -> FloatArray:
        """Standard deviations, with ends as in `mean`."""
        mean = self._others.mean()
        return np.sqrt(self._more * (self._others.std() ** 2 + self._zero * mean**2))

    def mean_above(self, y: ArrayLike) -> FloatArray:
        """E max(Y - y, 0), one value y of 0 or more per row."""
        return self._more * self._others.mean_above(y)

    def draws(self) -> Iterator[Distribution]:
        """The distributions by posterior draws of the amounts that are not zero, the probability of a zero as it is."""
        for one in self._others.draws():
            yield DistributionWithZero(one, self._zero)


class DistributionOfFirst(Distribution):
    """Distributions of the first of several independent times, one of each cause: P(T > t) = Π_c P(T_c > t)."""

    def __init__(self, causes: Sequence[Distribution]) -> None:
        self.causes = tuple(causes)
        reach = min(one._response.center + one._response.scale * one._response.reach for one in causes)
        self._standard: Any = FirstOfSeveral([(one._standard, one._response) for one in causes])
        self._response = OnALine(log=True, reach=reach)

    def __getitem__(self, rows: Any) -> "DistributionOfFirst":
        """Those of some of the rows."""
        return DistributionOfFirst([one[rows] for one in self.causes])

    def draws(self) -> Iterator[Distribution]:
        """The distributions by posterior draws; those of the causes are independent, and are taken in turn."""
        yield from map(DistributionOfFirst, zip(*(one.draws() for one in self.causes), strict=False))

    _n_draws = 1  # the average over draws of all causes is the product of their averages

    def incidence(self, times: FloatArray) -> FloatArray:
        """P(T ≤ t, by cause c), shape (n_rows, n_causes, n_times); all causes together have P(T ≤ t).

        F_c(a) + ∫_a^t f_c(s) Π_{d≠c} P(T_d > s) ds, where a lies so low that F_c(a) is next to nothing.
        """
        order = np.argsort(times, kind="stable")
        ends = np.broadcast_to(np.log(np.asarray(times, dtype=np.float64)[order]), (len(self), len(order)))
        low = self._standard.ppf(np.full((len(self), 1), TAIL))
        out, total, left = np.empty((len(self), len(self.causes), len(order))), 0.0, np.ones(len(self))
        for j in range(len(order)):  # the integrals say how causes share what survival loses
            end, alone = ends[:, j : j + 1], j == 0 or len(order) <= FEW_TIMES
            begin = np.minimum(low, end) if alone else ends[:, j - 1 : j]
            u, weights = _nodes(begin, end, SPOTS if alone else BETWEEN_TIMES)
            parts = (self._standard.first_densities(u) * weights[:, None]).sum(axis=2)
            parts += 1.0 - self._standard.survivals(begin)[..., 0].T if alone else 0.0
            share, after = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1e-300), self._standard.sf(end)[:, 0]
            total = share * (1.0 - after)[:, None] if alone else total + share * (left - after)[:, None]
            out[:, :, order[j]], left = total, after
        return out


def counts_of(values: FloatArray) -> FloatArray:
    """The counts that predicted numbers stand for: y is a number above y and at most y + 1, and 0 any that is at most 1."""
    return np.maximum(np.ceil(values) - 1.0, 0.0)


def _check_levels(q: ArrayLike) -> None:
    if not np.all((np.asarray(q) >= 0.0) & (np.asarray(q) <= 1.0)):  # NaN too
        raise InvalidInputError(f"q={q!r} must lie between 0 and 1.")


def _nodes(low: FloatArray, high: FloatArray, rule: Any = (NODES, NODE_WEIGHTS)) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights between the ends, shape (n_rows, n_nodes).

    Where ``low`` or ``high`` has several columns, in rising order, they cut the way into parts with nodes of their own.
    """
    ends = np.concatenate([low, high], axis=1)
    half, first = 0.5 * np.diff(ends, axis=1)[:, :, None], ends[:, :-1, None]
    nodes, weights = first + half * (1.0 + rule[0]), half * rule[1]
    return nodes.reshape(len(ends), -1), weights.reshape(len(ends), -1)
