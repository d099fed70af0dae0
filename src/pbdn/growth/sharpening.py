"""How sure a network is: as sure as rows kept back say.

A factor f on the hyperplanes of the top layer makes a network surer. Of values on a line it makes the distributions narrower, and a
shift δ of each side leaves its medians where they are on the whole: H(u) = Σ_k r_k s(f (x'β_k + τ_k (u + δ))). Of classes it takes
probabilities farther from a half, and a shift of each side leaves it saying yes as often: λ = Σ_k r_k s(f x'β_k + δ). What comes out
is a network like any other.

Rows kept back say which factor suits the networks that have not seen them: by their likelihood or, where all of them have a known
value on a line, by the scores of intervals. Of classes it has a prior distribution about one, since few rows say little. On a line
a second factor follows: the average of M networks errs less than each of them. Its squared error is
smaller by (1 - 1/M) b, where b is the variance of a prediction from one network to another. Rows that both of two networks have seen
make b look too small, so it is half of the mean squared difference between the network that has not seen a row and those that have.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth.holdout import RowLosses, losses_on
from pbdn.growth.run import Run
from pbdn.growth.views import Layers
from pbdn.model.likelihood import probability, signed_distances
from pbdn.model.network import Layer, Side, inputs_above
from pbdn.model.response import Response
from pbdn.model.timed import SideArrays, StandardDistribution, rates, side_arrays
from pbdn.model.wiring import Inputs
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.numerics.elementary import LANES
from pbdn.numerics.softplus import shifted_rates

FACTORS = (0.5, 3.0)  # the least and the largest that rows kept back may ask for
CLOSE = 0.01  # to the logarithm of the best factor
USUAL = 0.2  # standard deviation of the logarithm of a factor of classes, before rows are seen
FARTHEST = 100.0  # of the search for the median of a side
FAR_SHIFTS, SHIFT_CLOSE = (1.0, 100.0), 1e-9  # of the search for the shift of a side
MOST_STEPS, MEDIAN_CLOSE, TINY_HAZARD = 60, 1e-9, 1e-300  # of the search for a median
ONE_SIGMA = (0.16, 0.84)  # quantiles that lie a standard deviation from the centre
ENDS = np.array([0.025, 0.05, 0.1, 0.25, 0.75, 0.9, 0.95, 0.975])  # of the intervals that are scored
LEAST_SHARE = 0.25  # of its variance that the distribution of an average keeps


def sharpened(layers: Layers, factor: float, rows: LabelledRows) -> Layers:
    """The network, surer by a factor; on these rows its medians, or how often its sides say yes, stay where they are."""
    top, inputs = layers[-1], inputs_above(layers[:-1], rows.inputs)
    if any(side.time_coefs is None for side in top.sides):
        sides = [_steeper(side, factor, inputs, rows.weights) for side in top.sides]
    else:
        sides = [_narrower(side, factor, own) for side, own in zip(top.sides, side_arrays(top, inputs), strict=True)]
    return (*layers[:-1], Layer(tuple(sides)))


def best_factor(networks: Sequence[Layers], rows: LabelledRows, folds: IntArray, response: Response, run: Run) -> float:
    """The factor with which the rows kept back lose least; network f has not seen the rows of fold f.

    Intervals are scored where all values are known and no row has a limit, which would change what its quantiles are.
    """
    known = [(layers, rows.take(folds == f)) for f, layers in enumerate(networks) if (folds == f).any()]
    tops, kept = [layers[-1:] for layers, _ in known], [_on_top(layers, own) for layers, own in known]
    numbers = range(len(known))
    exact = response.timed and rows.targets.shape[1] == 2 and bool((rows.targets[:, 0] == rows.targets[:, 1]).all())
    judges = [interval_scores(own) if exact else losses_on(own, response) for own in kept]

    def loss(log_factor: float) -> float:
        factor = float(np.exp(log_factor))
        of_rows = sum(run.on_threads(lambda f: float(judges[f](sharpened(tops[f], factor, kept[f])).sum()), numbers))
        return of_rows if response.timed else of_rows + (log_factor / USUAL) ** 2

    found = minimize_scalar(loss, bounds=np.log(FACTORS), method="bounded", options={"xatol": CLOSE})
    return float(np.exp(found.x)) if found.fun < loss(0.0) else 1.0


def _on_top(layers: Layers, rows: LabelledRows) -> LabelledRows:
    """The rows as the top layer sees them."""
    return rows.with_inputs(inputs_above(layers[:-1], rows.inputs))


def interval_scores(rows: LabelledRows) -> RowLosses:
    """Weighted scores of the ends of central intervals of each of these rows, by a stack of layers; less is better.

    An end that is the quantile q scores (u - end)(q - [u < end]) / √(q(1 - q)).
    """
    weights = 1.0 if rows.weights is None else rows.weights

    def scores(layers: Sequence[Layer]) -> FloatArray:
        above = rows.targets[:, :1] - _quantiles(tuple(layers), rows, ENDS)
        return np.asarray(weights * (above * (ENDS - (above < 0.0)) / np.sqrt(ENDS * (1.0 - ENDS))).sum(axis=1))

    return scores


def factor_of_average(networks: Sequence[Layers], rows: LabelledRows, folds: IntArray) -> float:
    """By how much the average of networks may be narrower than each of them; network f has not seen the rows of fold f."""
    judged = (folds >= 0) & (folds < len(networks))
    if len(networks) == 1 or not judged.any():
        return 1.0
    known, unseen = rows.take(judged), folds[judged]
    points = np.array([ONE_SIGMA[0], 0.5, ONE_SIGMA[1]])
    low, middle, high = np.stack([_quantiles(layers, known, points) for layers in networks], axis=1).T
    of_unseen = middle[unseen, np.arange(len(unseen))]
    variance = ((middle - of_unseen) ** 2).sum(axis=0).mean() / (2 * (len(networks) - 1))
    width = float(np.mean(((high - low) / 2) ** 2))
    gain = (1 - 1 / len(networks)) * float(variance) / width
    return float(1 / np.sqrt(max(1 - gain, LEAST_SHARE)))


def _narrower(side: Side, factor: float, own: SideArrays) -> Side:
    assert side.time_coefs is not None
    planes, times = factor * side.hyperplanes, factor * side.time_coefs
    new = own._replace(distances=factor * own.distances, time_coefs=times)
    shift = float(np.median(_medians(new) - _medians(own)))
    planes[:, 0] += shift * times
    return replace(side, hyperplanes=planes, time_coefs=times)


def _steeper(side: Side, factor: float, inputs: Inputs, weights: FloatArray | None) -> Side:
    planes, n_rows = factor * side.hyperplanes, inputs.shape[0]
    distances = np.zeros((side.n_experts, -(-n_rows // LANES) * LANES))
    distances[:, :n_rows] = signed_distances(planes, inputs).T
    rates = np.empty(distances.shape[1])

    def excess(shift: float) -> float:
        shifted_rates(distances, side.expert_weights, shift, rates)
        return float(np.average(probability(rates[:n_rows]), weights=weights)) - often

    often = float(np.average(probability(side.rate(inputs)), weights=weights))
    for far in FAR_SHIFTS:
        if excess(-far) < 0.0 < excess(far):
            planes[:, 0] += brentq(excess, -far, far, xtol=SHIFT_CLOSE)
            break
    return replace(side, hyperplanes=planes)


def _medians(side: SideArrays) -> FloatArray:
    """u with H(u) = ln 2 of every row. H is convex, so Newton's steps from far above fall to it."""
    u = np.full((len(side.distances), 1), FARTHEST)
    for _ in range(MOST_STEPS):
        rate, hazard = rates(side, u)
        new = np.clip(u - (rate - np.log(2.0)) / np.maximum(hazard, TINY_HAZARD), -FARTHEST, FARTHEST)
        moved, u = np.abs(new - u).max(initial=0.0), new
        if moved < MEDIAN_CLOSE:
            break
    return u


def _quantiles(layers: Layers, rows: LabelledRows, points: FloatArray) -> FloatArray:
    """Shape (n_rows, n_points)."""
    arrays = side_arrays(layers[-1], inputs_above(layers[:-1], rows.inputs))
    return StandardDistribution(arrays).ppf(np.tile(points, (rows.n_rows, 1)))
