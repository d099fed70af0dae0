"""How deep is deep enough: forward selection criteria, all with one signature.

    criterion(layers, log_likelihood, n_rows) -> float,

where ``layers`` are those kept so far plus the newest, and ``log_likelihood`` is Σ_s L_s of the newest layer's sides at
their recorded points. Growth stops when the value does not fall.
"""

from collections.abc import Callable, Sequence

import numpy as np

from pbdn.model.network import Layer

Criterion = Callable[[Sequence[Layer], float, int], float]

EPSILON = 0.01  # coefficients below this share of the largest one of their side do not count in `aic_eps`


def count_paper(layers: Sequence[Layer]) -> int:
    """Σ_t (K_t + 1) K_{t+1} + K_{T+1}: the paper's count, which leaves the skip weights of deeper layers out."""
    total = 0
    width = int(layers[0].sides[0].hyperplanes.shape[1]) - 1
    for layer in layers:
        units = sum(layer.n_experts)
        total += (width + 1) * units
        width = units
    return total + width


def count_inputs(layers: Sequence[Layer]) -> int:
    """Σ_t d_t K_{t+1} + K_{T+1}: every coefficient counts."""
    total = sum(side.hyperplanes.size for layer in layers for side in layer.sides)
    return total + sum(layers[-1].n_experts)


def count_eps(layers: Sequence[Layer], epsilon: float = EPSILON) -> int:
    """Coefficients whose size exceeds ε times the largest of their side (bias included), plus K_{T+1}."""
    total = 0
    for layer in layers:
        for side in layer.sides:
            size = np.abs(side.hyperplanes)
            total += int(np.count_nonzero(size > epsilon * size.max(initial=0.0)))
    return total + sum(layers[-1].n_experts)


def aic(layers: Sequence[Layer], log_likelihood: float, n_rows: int) -> float:
    """AIC(T) of the paper, eq. (6): 2 Σ_t (K_t+1) K_{t+1} + 2 K_{T+1} - 2 Σ_s L_s."""
    return 2.0 * count_paper(layers) - 2.0 * log_likelihood


def aic_inputs(layers: Sequence[Layer], log_likelihood: float, n_rows: int) -> float:
    """AIC that charges the skip weights too: 2 Σ_t d_t K_{t+1} + 2 K_{T+1} - 2 Σ_s L_s."""
    return 2.0 * count_inputs(layers) - 2.0 * log_likelihood


def aic_eps(layers: Sequence[Layer], log_likelihood: float, n_rows: int) -> float:
    """AIC_ε(T) of the paper, eq. (7): only coefficients above ε = 0.01 of the largest are charged."""
    return 2.0 * count_eps(layers) - 2.0 * log_likelihood


def bic(layers: Sequence[Layer], log_likelihood: float, n_rows: int) -> float:
    """AIC with every coefficient counted and ln n in place of 2."""
    return float(np.log(max(n_rows, 1))) * count_inputs(layers) - 2.0 * log_likelihood


CRITERIA: dict[str, Criterion] = {"aic": aic, "aic_eps": aic_eps, "aic_inputs": aic_inputs, "bic": bic}
