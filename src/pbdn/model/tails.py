"""Long tails, pulled in before any layer sees them.

A few values far out, as sums of money have them, would lie beyond every hyperplane that tells the others apart. So a feature
with a long tail is replaced by its Yeo-Johnson transformation: with z = (x - c)/s and a power λ,

    t(z) = ((1 + z)^λ - 1)/λ above the centre, and t(z) = -((1 - z)^(2 - λ) - 1)/(2 - λ) below.

A power below one pulls in the upper tail, one above one the lower. Near the centre t is as good as the identity, it rises
everywhere, and zero stays zero. The scale s is the standard deviation or, where a few far cells make that large, the spread of most
cells. Powers are odd multiples of 1/8: none is 0 or 2, where logarithms would take their place.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import types

from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FAR_TIMES, FloatArray, IntArray, spread_of_most, spread_rows
from pbdn.numerics.compiled import instructions
from pbdn.numerics.elementary import Lanes

POWERS = np.arange(-0.875, 3.0, 0.25)  # that are tried
SEEN_ROWS = 2000  # by which they are chosen, at most, and all rows with a cell that is
FAR = 1000.0  # units of the features away
LEAST_GAIN = 3.0  # of log-likelihood as a bell curve, for which a feature is changed
MOST_PUSHED = 5.0  # times as far out as a cell was, on the side that is not pulled in


@dataclass(frozen=True)
class Tails:
    """Which features have a long tail, and how it is pulled in.

    Attributes
    ----------
    columns : array of int
        In rising order.
    centers, scales : array (n_columns,)
        Centres are zero where the network was fitted on sparse features, so that zeros stay zero.
    powers : array (n_columns,)
        λ, neither 0 nor 2.
    """

    columns: IntArray
    centers: FloatArray
    scales: FloatArray
    powers: FloatArray

    def apply(self, features: Inputs) -> Inputs:
        """The features, with other values in some columns."""
        if not sp.issparse(features):
            changed = np.array(features, dtype=np.float64)
            changed[:, self.columns] = self.pull_in(changed[:, self.columns])
            return changed
        if self.centers.any():  # rows given sparse to a network that was fitted on dense ones
            return sp.csr_array(self.apply(features.toarray()))
        place = np.full(features.shape[1], -1)
        place[self.columns] = np.arange(self.columns.size)
        out = sp.csr_array(features, dtype=np.float64, copy=True)
        of = place[out.indices]
        out.data[of >= 0] = self.pull_in(out.data[of >= 0], of[of >= 0])
        return out

    def pull_in(self, values: FloatArray, which: IntArray | slice = slice(None)) -> FloatArray:
        """t of values, of which the last axis runs over these of the columns."""
        return pulled_in((values - self.centers[which]) / self.scales[which], self.powers[which])

    def inverse(self, values: FloatArray, which: IntArray | slice = slice(None)) -> FloatArray:
        """What `pull_in` turns into these values; infinite beyond the range of t."""
        values = np.asarray(values, dtype=np.float64)
        power = np.where(values < 0.0, 2.0 - self.powers[which], self.powers[which])
        with np.errstate(divide="ignore", over="ignore"):
            size = np.maximum(1.0 + power * np.abs(values), 0.0) ** (1.0 / power) - 1.0
        return np.asarray(self.centers[which] + self.scales[which] * np.copysign(size, values))

    def rescaled(self, center: FloatArray, scale: FloatArray) -> "Tails":
        """The same on features x that were (x - center) / scale before."""
        center, scale = center[self.columns], scale[self.columns]
        return Tails(self.columns, center + scale * self.centers, scale * self.scales, self.powers)


def pulled_in(z: FloatArray, powers: FloatArray | float) -> FloatArray:
    """t(z) for powers λ."""
    power = np.where(z < 0.0, 2.0 - powers, powers)
    return np.asarray(np.copysign(np.expm1(power * np.log1p(np.abs(z))) / power, z))


@instructions
def pull_in_lanes(typing_context: Any, address: Any, center: Any, scale: Any, power: Any) -> Any:
    """t of the LANES values at an address, with one power λ, in compiled loops; they change."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers, address = Lanes(builder), arguments[0]
        center, scale, power = (numbers.spread(argument) for argument in arguments[1:])
        zero, two = numbers.constant(0.0), numbers.constant(2.0)
        z = builder.fdiv(builder.fsub(numbers.load(address), center), scale)
        below = builder.fcmp_ordered("<", z, zero)
        own = builder.select(below, builder.fsub(two, power), power)
        size = builder.select(below, builder.fsub(numbers.constant(-0.0), z), z)
        pulled = numbers.exp_minus_one(builder.fmul(own, numbers.log_one_plus(size)))
        numbers.store(builder.fdiv(pulled, builder.select(below, builder.fsub(power, two), power)), address)
        return context.get_dummy_value()

    number = types.float64
    return types.void(types.uintp, number, number, number), generate


def tails_of(features: FloatArray, weights: FloatArray | None = None) -> Tails | None:
    """The features with a long tail, each with the power that makes it most like a bell curve; None where there is none.

    Of a few powers, the one with the largest likelihood of a normal distribution of t(z) is taken (scikit-learn's
    `PowerTransformer` has no weights). A few cells far from all others must come near them, and none may be pushed far out on the
    other side; where no power does that, as with some on either side, the feature is left alone. Features of two values are, too.
    ``features`` are dense, and centred unless they were sparse.
    """
    some = np.union1d(spread_rows(features.shape[0], SEEN_ROWS), np.flatnonzero((np.abs(features) > FAR).any(axis=1)))
    rows = features[some]
    weights = np.ones(some.size) if weights is None else weights[some]
    low, high = rows.min(axis=0), rows.max(axis=0)
    columns = np.flatnonzero(((rows != low) & (rows != high)).any(axis=0)).astype(np.int64)
    rows, share = rows[:, columns], weights / weights.sum()
    scales, (_, of_most) = np.sqrt(share @ (rows - share @ rows) ** 2), spread_of_most(rows)
    far = (scales > FAR_TIMES * of_most) & (of_most > 0.0)
    scales = np.where(far, of_most, scales)
    z, ends = rows / scales, np.stack([features.min(axis=0), features.max(axis=0)])[:, columns] / scales
    slope = share @ np.copysign(np.log1p(np.abs(z)), z)  # of the logarithm of the derivative of t, in λ
    powers, best = np.ones(columns.size), np.where(far, -np.inf, 0.0)
    for power in POWERS.tolist():
        values = pulled_in(z, power)
        variance = share @ (values - share @ values) ** 2
        reached = (power - 1.0) * slope - 0.5 * np.log(np.maximum(variance, np.finfo(float).tiny))
        if far.any():
            stays = np.sqrt(variance[far]) > FAR_TIMES * spread_of_most(values[:, far])[1]
            reached[far] = np.where(stays, -np.inf, reached[far])
        pushed = (np.abs(pulled_in(ends, power)) > MOST_PUSHED * np.abs(ends)).any(axis=0)
        reached[pushed] = -np.inf
        powers, best = np.where(reached > best, power, powers), np.maximum(reached, best)
    chosen = np.where(far, best > -np.inf, weights.sum() * best >= LEAST_GAIN)
    if not chosen.any():
        return None
    return Tails(columns[chosen], np.zeros(int(chosen.sum())), scales[chosen], powers[chosen])
