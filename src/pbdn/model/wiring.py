"""Which units each layer sees: the paper's skip wiring, written once.

Layer t + 1 sees [x̃^(t-1), x̃^(t)]: the units of the last two layers below it, where x̃^(0) are the features.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

Inputs = Any  # dense float array or SciPy CSR matrix of shape (n, d), without the constant column

FEATURES = 0  # as a source of a layer's inputs


def sources_of(layer: int) -> tuple[int, ...]:
    """What layer t = 1, 2, … sees, side by side: `FEATURES`, or s for the units of layer s = 1, 2, …"""
    return (FEATURES,) if layer == 1 else (layer - 2, layer - 1)


def sees_features(layer: int) -> bool:
    """Whether the features are among the inputs of layer t = 1, 2, …; they come first."""
    return FEATURES in sources_of(layer)


def width_of_inputs(layer: int, widths: Sequence[int]) -> int:
    """How many inputs layer t has, without the constant; ``widths`` are those of the sources 0, 1, …"""
    return sum(widths[source] for source in sources_of(layer))


def inputs_of(layer: int, seen: Sequence[Inputs]) -> Inputs:
    """Inputs of layer t from ``seen``, the features and the units of layer 1, 2, …; sparse if the features are and it sees them."""
    parts = [seen[source] for source in sources_of(layer)]
    if len(parts) == 1:
        return parts[0]
    if sp.issparse(parts[0]):
        return sp.hstack([parts[0], *(sp.csr_array(part) for part in parts[1:])], format="csr")
    return np.concatenate(parts, axis=1)
