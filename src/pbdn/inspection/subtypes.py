"""What a network says about rows: subtypes, votes, distances and the convex polytope of Theorem 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import MissingExtraError
from pbdn.model.likelihood import expert_rates, probability, signed_distances
from pbdn.model.network import Network, Side
from pbdn.model.wiring import FEATURES, Inputs, sources_of
from pbdn.numerics.arrays import FloatArray


def votes(side: Side, inputs: Inputs) -> FloatArray:
    """p_ik = 1 - exp(-r_k s(x_i'β_k)): chance that expert k votes "yes" on row i, shape (n, n_experts)."""
    return probability(expert_rates(side.hyperplanes, side.expert_weights, inputs))


def subtype_means(side: Side, inputs: Inputs, features: Inputs) -> tuple[FloatArray, FloatArray]:
    """Data subtypes of eq. (2), Σ_i p_ik x_i / Σ_i p_ik, in the space of the features.

    Returns the means (n_experts, n_features) and the share of votes Σ_i p_ik / n of each expert.
    """
    p = votes(side, inputs)
    total = p.sum(axis=0)
    means = np.asarray(features.T @ p).T / np.maximum(total, 1e-300)[:, None]
    return means, total / max(p.shape[0], 1)


def polytope_limits(side: Side, p0: float) -> FloatArray:
    """Limits ln[(1 - p₀)^{-1/r_k} - 1] of Theorem 1: P(y=1|x) ≤ p₀ implies x'β_k ≤ limit_k for all k."""
    a = -np.log1p(-p0) / np.maximum(side.expert_weights, 1e-300)
    with np.errstate(over="ignore"):
        return np.asarray(np.where(a > 30.0, a + np.log1p(-np.exp(-a)), np.log(np.expm1(np.minimum(a, 31.0)))))


def violations(side: Side, inputs: Inputs, p0: float) -> NDArray[np.int64]:
    """How many inequalities of Theorem 1 each row violates."""
    distance = signed_distances(side.hyperplanes, inputs)
    return np.asarray((distance > polytope_limits(side, p0)).sum(axis=1))


def plane_distance(side: Side, inputs: Inputs) -> FloatArray:
    """Signed Euclidean distance of each row from each hyperplane, in the layer's own input space (squares included)."""
    norm = np.linalg.norm(side.hyperplanes[:, 1:], axis=1)
    return np.asarray(signed_distances(side.hyperplanes, inputs) / np.maximum(norm, 1e-300))


def subtype_table(network: Network, features: Inputs, classes: Any, names: list[str]) -> dict[str, Any]:
    """Subtypes of every layer and side: columns layer, side, expert, weight, share and one per feature."""
    columns: dict[str, list[Any]] = {key: [] for key in ("layer", "side", "expert", "weight", "share")}
    means: list[FloatArray] = []
    labels = network.response.labelling.names(classes)
    for t, (layer, inputs) in enumerate(zip(network.layers, network.layer_inputs(features), strict=True), 1):
        for s, side in enumerate(layer.sides):
            average, share = subtype_means(side, inputs, features)
            means.append(average)
            for k in range(side.n_experts):
                columns["layer"].append(t)
                columns["side"].append(labels[s])
                columns["expert"].append(k + 1)
                columns["weight"].append(float(side.expert_weights[k]))
                columns["share"].append(float(share[k]))
    table: dict[str, Any] = {key: np.array(values) for key, values in columns.items()}
    stacked = np.concatenate(means)
    taken = set(table)
    for j, name in enumerate(names):
        table[name if name not in taken else f"feature {name}"] = stacked[:, j]
    return table


def vote_table(network: Network, features: Inputs, classes: Any) -> dict[str, Any]:
    """One line per row, side and expert of the top layer: vote p_ik, signed distance, whether it is the strongest."""
    inputs = network.top_inputs(features)
    n = inputs.shape[0]
    columns: dict[str, list[Any]] = {key: [] for key in ("row", "side", "expert", "vote", "distance", "strongest")}
    labels = network.response.labelling.names(classes)
    for s, side in enumerate(network.top.sides):
        p, distance = votes(side, inputs), plane_distance(side, inputs)
        k = side.n_experts
        columns["row"].append(np.repeat(np.arange(n), k))
        columns["side"].append(np.repeat(np.array([labels[s]]), n * k))
        columns["expert"].append(np.tile(np.arange(1, k + 1), n))
        columns["vote"].append(p.ravel())
        columns["distance"].append(distance.ravel())
        columns["strongest"].append((p == p.max(axis=1, keepdims=True)).ravel())
    return {key: np.concatenate(values) for key, values in columns.items()}


def unit_names(network: Network, classes: NDArray[Any], layer: int | None = None) -> list[str]:
    """Names of the hidden units of layer 1, 2, … (default: the top), side by side; they say which class a side is for."""
    layer = network.depth if layer is None else layer
    sides = network.layers[layer - 1].sides
    named = zip(network.response.labelling.names(classes.tolist()), sides, strict=True)
    return [f"layer{layer}_for_{name}_expert{k}" for name, side in named for k in range(side.n_experts)]


def inputs_of_layer(network: Network, classes: NDArray[Any], layer: int, first: list[str]) -> list[str]:
    """Names of the inputs of layer 1, 2, …, where ``first`` are those of the first layer."""
    units = {source: unit_names(network, classes, source) for source in sources_of(layer) if source != FEATURES}
    return [name for source in sources_of(layer) for name in units.get(source, first)]


def as_frame(table: dict[str, Any]) -> Any:
    """The columns as a pandas frame: what people look at is one always, whatever else is installed."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("Tables of results are pandas frames, which need pandas", "frames") from None
    return pd.DataFrame(table)
