"""Standardisation that survives any scale, and how it is folded into the network afterwards."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from pbdn.model.network import Layer, Network, with_other_inputs
from pbdn.numerics.arrays import FAR_TIMES, FloatArray, spread_of_most

CONSTANT_BELOW = 1e-13  # spread, relative to the largest absolute value, under which a column is constant
SMALLEST_SCALE = 1e-302  # under it a column is constant too: coefficients divided by it would overflow
QUANTUM = 2.0**-32  # of standardised features


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x - center) / scale per column, rounded to multiples of ``quantum``; sparse columns are only scaled.

    Rounding removes what the unit of measurement leaves in the last bits, so that a chain runs the same whether a
    column is given in metres or in picometres.
    """

    center: FloatArray
    scale: FloatArray
    quantum: float = QUANTUM

    def apply(self, features: Any) -> Any:
        """Scaled features, dense or CSR."""
        if sp.issparse(features):
            scaled = sp.csr_array(features @ sp.diags_array(1.0 / self.scale))
            self._round(scaled.data)
            return scaled
        scaled = features - self.center
        scaled /= self.scale
        self._round(scaled)
        return scaled

    def _round(self, values: FloatArray) -> None:
        if self.quantum > 0.0:
            values /= self.quantum
            np.rint(values, out=values)
            values *= self.quantum

    def fold(self, network: Network) -> Network:
        """The same network acting on unscaled features: every layer that sees the features is rewritten."""
        folds = None if network.folds is None else self.fold(network.folds)
        curve, tails, center, scale = network.curve, network.tails, self.center, self.scale
        if tails is not None:  # which take up the scaling of their columns, so that layers see what they saw
            inside = np.isin(np.arange(center.size), tails.columns)
            tails, center, scale = (
                tails.rescaled(center, scale),
                np.where(inside, 0.0, center),
                np.where(inside, 1.0, scale),
            )
        if curve is not None:
            unit = scale[curve.columns]  # squares and ramps stay: (x - m) / s - c = (x - (m + s c)) / s
            curve = replace(curve, centers=center[curve.columns] + unit * curve.centers, scales=unit * curve.scales)
            center, scale = np.append(center, np.zeros(unit.size)), np.append(scale, np.ones(unit.size))
        return replace(network, layers=_fold_columns(network, center, scale), curve=curve, tails=tails, folds=folds)

    def fold_bent(self, network: Network) -> Network:
        """As `fold`, where the columns scaled are the squares or ramps of a curved network, not its features."""
        assert network.curve is not None
        center = np.concatenate([np.zeros(network.n_features), self.center])
        scale = np.concatenate([np.ones(network.n_features), self.scale])
        return replace(network, layers=_fold_columns(network, center, scale))

    def unfold(self, network: Network) -> Network:
        """The network on scaled features that `fold` turns into this one."""
        return self.inverse.fold(network)

    @property
    def inverse(self) -> "Scaling":
        """From scaled columns back to those that they were made of."""
        return Scaling(-self.center / self.scale, 1.0 / self.scale)


def _fold_columns(network: Network, center: FloatArray, scale: FloatArray) -> tuple[Layer, ...]:
    """Layers for expanded features x that act as the network's do on (x - center) / scale."""

    def fold(planes: FloatArray) -> FloatArray:
        biases, coefs = planes[:, 0], planes[:, 1:]
        return np.column_stack([biases - coefs @ (center / scale), coefs / scale])

    return with_other_inputs(network.layers, center.size, fold)


def identity_scaling(n_features: int) -> Scaling:
    """Leave the features as they are."""
    return Scaling(np.zeros(n_features), np.ones(n_features), quantum=0.0)


def standard_scaling(features: Any, weights: FloatArray | None = None) -> Scaling:
    """Mean and standard deviation per dense column (largest absolute value per sparse column), by row weights.

    Computed relative to the column's largest absolute value, so that scales from 1e-300 to 1e300 neither over- nor
    underflow. Constant columns are centred and left unscaled.
    """
    n = features.shape[1]
    if sp.issparse(features):
        largest = np.asarray(abs(features).max(axis=0).todense()).ravel() if features.shape[0] else np.zeros(n)
        return Scaling(np.zeros(n), np.where(largest > SMALLEST_SCALE, largest, 1.0))
    largest = np.abs(features).max(axis=0, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    relative = features / unit
    mean = np.average(relative, axis=0, weights=weights)
    spread = np.sqrt(np.average((relative - mean) ** 2, axis=0, weights=weights))
    return scaling_of_moments(unit, mean, spread)


def scaling_by_most(features: FloatArray, weights: FloatArray | None = None) -> Scaling:
    """As `standard_scaling` of dense columns, but a few cells far from all others do not make the others look alike.

    Where the standard deviation is many times as large as the spread of most cells, that spread and the median are taken.
    """
    usual = standard_scaling(features, weights)
    median, spread = spread_of_most(features if weights is None else features[weights > 0])
    far = (usual.scale > FAR_TIMES * spread) & (spread > SMALLEST_SCALE)
    return Scaling(np.where(far, median, usual.center), np.where(far, spread, usual.scale))


def scaling_of_moments(unit: FloatArray, mean: FloatArray, spread: FloatArray) -> Scaling:
    """Standardisation by the mean and the standard deviation of columns measured in ``unit``."""
    varies = (spread > CONSTANT_BELOW) & (spread * unit > SMALLEST_SCALE)
    return Scaling(mean * unit, np.where(varies, spread * unit, 1.0))


def clip_features(features: Any, limits: FloatArray) -> Any:
    """Features cut off at ± their limits: beyond, a row is equally far out on all hyperplanes it can tell apart."""
    if sp.issparse(features):
        limit = limits[features.indices]
        if np.any(np.abs(features.data) > limit):
            features = features.copy()
            features.data = np.clip(features.data, -limit, limit)
        return features
    return np.clip(features, -limits, limits) if np.any(np.abs(features) > limits) else features
