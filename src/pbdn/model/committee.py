"""Several networks as one: its answers are the averages of theirs, and how far they differ says how sure it is.

The experts of all members stand side by side in every layer; an expert sees the features and the units of its own member
only. Of classes the answers are averaged: side s says yes with the probability mean_m (1 - e^{-λ_ms}), and with two classes
`predict_proba` is the average of the members' own. Experts keep the weights that they have in their own network. Of values on a line
the rates are averaged: λ = mean_m λ_m, and weights are divided by the number of members.

Intervals are the jackknife over folds. Each of K networks has been trained without one fold of the rows. Their spread says how far
a prediction would move with other rows: se² = (K - 1)/K Σ_m (z_m - z̄)² (Tukey's jackknife over groups of rows). All folds
have the same share of each class, so that how far this share is off does not show in their spread. Of N_c rows of the class and N_o
others, its log-odds have variance 1/(N_c + 1/2) + 1/(N_o + 1/2), which moves all log-odds z alike and is added. The error is taken
of the log-odds and of the probabilities, and the wider of the two ends counts. Far from a half the log-odds of all networks are
pulled towards it in the same way, which their spread does not show: rows tell there that a probability is small, not how small. The
interval of the probability says just that.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import expit, logit
from scipy.stats import t as student_t

from pbdn.model.network import Layer, Network, Side
from pbdn.model.wiring import FEATURES, sources_of
from pbdn.numerics.arrays import FloatArray

SMALLEST = 1e-12  # probability whose log-odds are still told apart


def committee(members: Sequence[Network]) -> Network:
    """One network that averages its members.

    Parameters
    ----------
    members : sequence of Network
        Of the same depth, features, curve and response; some of one layer may stand beside others of two. Draws are left out.
    """
    if len(members) == 1:
        return members[0]
    depth = max(member.depth for member in members)
    members = [member if member.depth == depth else _raised(member) for member in members]
    layers = tuple(_layer(members, t) for t in range(1, members[0].depth + 1))
    n_sides = len(layers[-1].sides)
    owners = tuple(
        np.repeat(np.arange(len(members)), [one.top.n_experts[s] for one in members]) for s in range(n_sides)
    )
    return replace(members[0], layers=layers, members=owners)


def _raised(member: Network) -> Network:
    """A network of one layer as one of two: an empty layer below, and the same experts, which still see the features."""
    (top,) = member.layers
    empty = Side(np.empty((0, 1 + member.n_expanded)), np.empty(0))
    return replace(member, layers=(Layer((empty,) * len(top.sides)), top))


def _layer(members: Sequence[Network], t: int) -> Layer:
    """Layer t = 1, 2, … of all members side by side."""
    n_sides = len(members[0].layers[t - 1].sides)
    sides = []
    for s in range(n_sides):
        planes = np.concatenate([_widened(members, m, t, s) for m in range(len(members))])
        own = [member.layers[t - 1].sides[s] for member in members]
        weights = np.concatenate([side.expert_weights for side in own])
        times = [side.time_coefs for side in own if side.time_coefs is not None]
        sides.append(Side(planes, weights / len(members), np.concatenate(times)) if times else Side(planes, weights))
    return Layer(tuple(sides))


def _widened(members: Sequence[Network], m: int, t: int, s: int) -> np.ndarray:
    """Hyperplanes of side s of member m, with zeros for the units of the other members."""
    own = members[m].layers[t - 1].sides[s].hyperplanes
    parts, place = [own[:, :1]], 1
    for source in sources_of(t):
        width = members[m].n_expanded if source == FEATURES else members[m].n_units[source - 1]
        block = own[:, place : place + width]
        place += width
        parts.append(block if source == FEATURES else _spread(members, m, source, block))
    return np.concatenate(parts, axis=1)


def _spread(members: Sequence[Network], m: int, source: int, block: np.ndarray) -> np.ndarray:
    """Coefficients on the units of layer ``source`` of member m at their places among those of all members."""
    counts = np.array([member.layers[source - 1].n_experts for member in members])  # (n_members, n_sides)
    out = np.zeros((block.shape[0], int(counts.sum())))
    place = taken = 0
    for s in range(counts.shape[1]):
        begin = place + int(counts[:m, s].sum())
        out[:, begin : begin + counts[m, s]] = block[:, taken : taken + counts[m, s]]
        taken += counts[m, s]
        place += int(counts[:, s].sum())
    return out


def log_odds(probability: FloatArray) -> FloatArray:
    """ln p/(1 - p), finite."""
    return np.asarray(logit(np.clip(probability, SMALLEST, 1.0 - SMALLEST)))


def jackknife_interval(
    folds: FloatArray, center: FloatArray, level: float, class_rows: FloatArray | None = None
) -> FloatArray:
    """Intervals of probabilities, shape (n, n_outputs, 2).

    Parameters
    ----------
    folds : array (n_folds, n, n_outputs)
        Predictions of networks that were each trained without one fold of the rows.
    center : array (n, n_outputs)
        The prediction that the intervals are of.
    level : float
        Share of intervals that shall hold the truth.
    class_rows : array (n_outputs,) or None
        Rows of each class, which all folds share evenly; None: the folds were cut without a look at the classes.
    """
    t = student_t.ppf(0.5 + 0.5 * level, len(folds) - 1)
    of_shares = 0.0 if class_rows is None else share_error(class_rows)
    of_odds, of_probability = jackknife_error(log_odds(folds)), jackknife_error(folds)
    half, middle = t * np.hypot(of_odds, of_shares), log_odds(center)
    straight = t * np.hypot(of_probability, of_shares * center * (1.0 - center))
    low = np.minimum(expit(middle - half), np.maximum(center - straight, 0.0))
    high = np.maximum(expit(middle + half), np.minimum(center + straight, 1.0))
    return np.stack([low, high], axis=-1)


def share_error(class_rows: FloatArray) -> FloatArray:
    """Standard error of the log-odds of the share that each class has among all rows."""
    others = class_rows.sum() - class_rows
    return np.asarray(np.sqrt(1.0 / (class_rows + 0.5) + 1.0 / (others + 0.5)))


def jackknife_error(folds: FloatArray) -> FloatArray:
    """Standard error of what was computed without each of the folds, along the first axis."""
    return np.asarray(np.sqrt((len(folds) - 1) * np.var(folds, axis=0)))
