"""A fitted estimator that averages fewer posterior draws, for explanations that predict many rows."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from pbdn.inspection.access import network_of
from pbdn.model.network import Network

N_DRAWS = 12


def lighter(estimator: Any, n_draws: int = N_DRAWS) -> Any:
    """The estimator with about ``n_draws`` of its draws, evenly chosen; itself where it has no more."""
    network = network_of(estimator)
    total = len(network.top.draws) + sum(len(path.top.draws) for path in estimator.paths_)
    if total <= n_draws:
        return estimator
    out = copy.copy(estimator)
    out.network_ = _thinned(network, n_draws)
    each = max(1, n_draws // max(len(estimator.paths_), 1))
    out.paths_ = tuple(_thinned(path, each) for path in estimator.paths_)
    return out


def _thinned(network: Network, n_draws: int) -> Network:
    draws = network.top.draws
    if len(draws) <= n_draws:
        return network
    chosen = np.unique(np.linspace(0, len(draws) - 1, n_draws).round().astype(int))
    top = replace(network.top, draws=tuple(draws[j] for j in chosen))
    return replace(network, layers=(*network.layers[:-1], top))
