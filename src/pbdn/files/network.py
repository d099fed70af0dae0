"""A network as header and arrays, exact to the last bit, and back with every number checked."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import response_of_kind
from pbdn.model.wiring import width_of_inputs
from pbdn.numerics.arrays import FloatArray

SCHEMA_VERSION = 3
OLDEST_SCHEMA = 3  # files of versions before the first release are not read


def check_schema(schema: Any) -> None:
    """Refuse what this version does not read.

    Raises
    ------
    FileFormatError
        The schema is no number, newer than `SCHEMA_VERSION` or older than `OLDEST_SCHEMA`.
    """
    _require(_is_count(schema, 1), "its schema version is missing")
    if schema > SCHEMA_VERSION:
        raise FileFormatError(
            f"The file was written by a newer version of pbdn (schema {schema}; this one reads up to "
            f"{SCHEMA_VERSION}): upgrade pbdn."
        )
    if schema < OLDEST_SCHEMA:
        raise FileFormatError(
            f"The file was written by a version of pbdn before its first release (schema {schema}; this one reads "
            f"{OLDEST_SCHEMA} and later): fit the model again and save it."
        )


def network_to_arrays(network: Network) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Split a network into a header part and arrays.

    The header part holds ``schema``, ``n_features``, ``response`` (its kind), ``n_outputs`` and ``layers`` (experts of each
    side, number of draws). Layer t = 0, 1, … has the arrays ``network.t.hyperplanes`` (all experts of all sides below each
    other) and ``network.t.expert_weights``; kept draws add ``network.t.draws.experts`` of shape
    (n_draws, n_sides), which cuts ``network.t.draws.hyperplanes`` and ``….expert_weights`` into sides.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for t, layer in enumerate(network.layers):
        arrays |= _stack(f"network.{t}", layer.sides)
        if layer.draws:
            arrays |= _stack(f"network.{t}.draws", [side for draw in layer.draws for side in draw])
            counts = [[side.n_experts for side in draw] for draw in layer.draws]
            arrays[f"network.{t}.draws.experts"] = np.array(counts, dtype=np.int32)
    header: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "n_features": int(network.n_features),
        "response": network.response.kind,
        "n_outputs": network.response.n_outputs,
        "layers": [{"experts": list(layer.n_experts), "draws": len(layer.draws)} for layer in network.layers],
    }
    return header, arrays


def network_from_arrays(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Network:
    """Inverse of `network_to_arrays`; other arrays are ignored.

    Raises
    ------
    FileFormatError
        The parts do not describe a network, or come from a version of pbdn that this one cannot read.
    """
    if not isinstance(header, Mapping):
        raise FileFormatError("The file does not describe a network. Write it again.")
    check_schema(header.get("schema"))
    n_features: Any = header.get("n_features")
    n_outputs: Any = header.get("n_outputs")
    specs: Any = header.get("layers")
    _require(_is_count(n_features, 0), "n_features is not a count")
    _require(_is_count(n_outputs, 1), "n_outputs is not a count")
    _require(isinstance(specs, list) and len(specs) > 0, "it has no layers")
    layers = tuple(_layer(spec, arrays, t) for t, spec in enumerate(specs))
    _require(n_outputs <= len(layers[0].sides) + 1, "it has more outputs than its sides can tell apart")
    try:
        response = response_of_kind(header.get("response"), n_outputs)
    except InvalidInputError as error:
        raise FileFormatError(f"The file does not hold a usable network: {error} Write it again.") from error
    n_sides = response.labelling.n_sides
    _require(all(len(layer.sides) == n_sides for layer in layers), f"its layers do not have {n_sides} sides each")
    network = Network(layers, n_features, response)
    _check_wiring(network)
    return network


def _stack(name: str, sides: Any) -> dict[str, NDArray[Any]]:
    return {
        f"{name}.hyperplanes": np.concatenate([np.asarray(side.hyperplanes, dtype="<f8") for side in sides]),
        f"{name}.expert_weights": np.concatenate([np.asarray(side.expert_weights, "<f8") for side in sides]),
    }


def _layer(spec: Any, arrays: Mapping[str, NDArray[Any]], t: int) -> Layer:
    _require(isinstance(spec, Mapping), f"layer {t} is not described")
    experts, n_draws = spec.get("experts"), spec.get("draws")
    _require(isinstance(experts, list) and len(experts) > 0, f"layer {t} has no sides")
    _require(all(_is_count(count, 0) for count in experts), f"layer {t} has wrong counts of experts")
    _require(_is_count(n_draws, 0), f"layer {t} has no number of draws")
    sides = _sides(f"network.{t}", arrays, experts)
    if n_draws == 0:
        return Layer(sides)
    counts = arrays.get(f"network.{t}.draws.experts")
    _require(
        isinstance(counts, np.ndarray)
        and counts.dtype == np.int32
        and counts.shape == (n_draws, len(sides))
        and bool(np.all(counts >= 0)),
        f"the draws of layer {t} have wrong counts of experts",
    )
    assert counts is not None
    drawn = _sides(f"network.{t}.draws", arrays, counts.ravel().tolist())
    width = {side.hyperplanes.shape[1] for side in (sides[0], drawn[0])}
    _require(len(width) == 1, f"the draws of layer {t} have other inputs than the layer")
    step = len(sides)
    return Layer(sides, tuple(drawn[g * step : (g + 1) * step] for g in range(n_draws)))


def _sides(name: str, arrays: Mapping[str, NDArray[Any]], experts: list[int]) -> tuple[Side, ...]:
    """Cut stacked experts into sides of the given sizes; every side owns its memory."""
    planes = _floats(f"{name}.hyperplanes", arrays, 2)
    weights = _floats(f"{name}.expert_weights", arrays, 1)
    _require(len(planes) == len(weights) == sum(experts), f"{name} has another number of experts than declared")
    _require(planes.shape[1] > 0, f"{name} has no bias")
    _require(bool(np.all(weights >= 0)), f"{name} has a negative weight")
    cuts = pairwise(np.cumsum([0, *experts]).tolist())
    return tuple(Side(planes[a:b].copy(), weights[a:b].copy()) for a, b in cuts)


def _floats(name: str, arrays: Mapping[str, NDArray[Any]], ndim: int) -> FloatArray:
    array = arrays.get(name)
    _require(
        isinstance(array, np.ndarray) and array.dtype == np.float64 and array.ndim == ndim,
        f"array {name} is missing or of the wrong kind",
    )
    assert array is not None
    _require(bool(np.all(np.isfinite(array))), f"array {name} has numbers that are not finite")
    return array


def _check_wiring(network: Network) -> None:
    """Compare the inputs of every layer with what the wiring gives it."""
    _require(network.n_inputs[0] == network.n_features + 1, "n_features and the first layer differ")
    widths = (network.n_features, *network.n_units)
    for t, width in enumerate(network.n_inputs, 1):
        _require(width == width_of_inputs(t, widths) + 1, "its layers do not fit together")


def _is_count(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 1 << 31


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise FileFormatError(f"The file does not hold a usable network: {what}. Write it again.")
