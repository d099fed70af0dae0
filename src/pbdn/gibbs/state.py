"""State of one side's chain: what the next sweep needs, and nothing else."""

from typing import NamedTuple

import numpy as np

from pbdn.gibbs.kernel_arguments import PriorValues
from pbdn.model.network import Side
from pbdn.model.priors import GIBBS_PRIORS, Hyperpriors
from pbdn.numerics.arrays import BoolArray, FloatArray

Extras = dict[str, FloatArray]
"""What a side learns beside its experts, by name: the scale τ of times, cut points, … (`pbdn.gibbs.responses`)."""


class GlobalState(NamedTuple):
    """Global parameters of one side.

    Attributes
    ----------
    hyperplanes : (K, D)
        β_k, bias first.
    log_weights : (K,)
        ln r_k.
    mass, inv_scale : float
        γ₀ and c₀.
    coef_precision : (K, D)
        α_vk.
    coef_rate : (K,)
        b_k.
    """

    hyperplanes: FloatArray
    log_weights: FloatArray
    mass: float
    inv_scale: float
    coef_precision: FloatArray
    coef_rate: FloatArray

    @property
    def n_experts(self) -> int:
        """K, the experts still in the sampler."""
        return int(self.log_weights.shape[0])

    def select(self, keep: BoolArray) -> "GlobalState":
        """The state of the experts marked by ``keep``."""
        return self._replace(
            hyperplanes=np.ascontiguousarray(self.hyperplanes[keep]),
            log_weights=self.log_weights[keep],
            coef_precision=np.ascontiguousarray(self.coef_precision[keep]),
            coef_rate=self.coef_rate[keep],
        )

    def stretched(self, factor: float) -> "GlobalState":
        """Hyperplanes c β with the precisions α / c² and their rates c² b, which keep all of b α and α β²."""
        return self._replace(
            hyperplanes=factor * self.hyperplanes,
            coef_precision=self.coef_precision / factor**2,
            coef_rate=factor**2 * self.coef_rate,
        )

    def to_side(self, active: BoolArray) -> Side:
        """The experts marked by ``active`` as a side; if none is, the one with the largest weight."""
        if not active.any():
            active = np.arange(self.n_experts) == int(np.argmax(self.log_weights))
        return Side(self.hyperplanes[active].copy(), np.exp(self.log_weights[active]))


def prior_values(priors: Hyperpriors) -> PriorValues:
    """The numbers of ``priors``, in field order; the defaults of Gibbs sampling where they are not set."""
    filled = priors.over(GIBBS_PRIORS)
    return PriorValues(*(float(getattr(filled, name)) for name in PriorValues._fields))


def initial_state(n_experts: int, n_inputs: int) -> GlobalState:
    """The paper's start: β = 0, r = 1/K, γ₀ = c₀ = 1 (and α = 10, b = 1e-6 as in its code)."""
    return GlobalState(
        hyperplanes=np.zeros((n_experts, n_inputs)),
        log_weights=np.full(n_experts, -np.log(n_experts)),
        mass=1.0,
        inv_scale=1.0,
        coef_precision=np.full((n_experts, n_inputs), 10.0),
        coef_rate=np.full(n_experts, 1e-6),
    )


def state_from_side(side: Side, n_experts: int) -> GlobalState:
    """Start from given experts (a MAP fit, say), with up to ``n_experts - side.n_experts`` small spare ones."""
    state = initial_state(max(n_experts, side.n_experts), side.hyperplanes.shape[1])
    k = side.n_experts
    state.hyperplanes[:k] = side.hyperplanes
    state.log_weights[:k] = np.log(np.maximum(side.expert_weights, 1e-300))
    state.log_weights[k:] = np.log(1e-3)
    state.coef_precision[:k] = 1.0 / (1e-2 + side.hyperplanes**2)
    state.coef_rate[:] = 1.0
    return state
