"""A network as header and arrays, exact to the last bit, and back with every number checked."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import Response, response_of_kind
from pbdn.model.tails import Tails
from pbdn.model.timed import OnALine
from pbdn.model.wiring import Curve, width_of_inputs
from pbdn.numerics.arrays import FloatArray, IntArray

SCHEMA_VERSION = 5
OLDEST_SCHEMA = 4  # files of versions before the first release are not read
AVERAGED_RATES = 4  # schema up to which networks of classes were averaged by their rates, not by their answers
MOST_MEMBERS = 1000  # networks averaged into one: each predicts where intervals are asked for
MOST_ZEROS = 16  # numbers that one stored number may stand for: a small file stays small in memory


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
    (n_draws, n_sides), which cuts ``network.t.draws.hyperplanes`` and ``….expert_weights`` into sides. Values on a line add
    ``network.t.time_coefs``, and to the header ``line``, the settings of `pbdn.model.timed.OnALine`.

    A network that averages several has the array ``network.members``: which of them each expert of the top layer belongs to, in
    rising order on each side.
    Where an average of networks of folds stands beside it, ``folds`` is the header part of that one, and its arrays are
    ``folds.network.…``.
    ``network.class_rows`` are the rows of each class that networks of folds shared.
    A curved network has the arrays ``network.curve.columns``, ``….centers`` and ``….scales``, and one with ramps has the same of
    ``network.ramps``; one that pulls in long tails has
    ``network.tails.columns``, ``….centers``, ``….scales`` and ``….powers``. Where that is shorter, ``….hyperplanes``
    holds the coefficients that are not zero in a row and ``….hyperplanes.places`` a bit per coefficient, those of eight
    experts in a byte.
    """
    arrays: dict[str, NDArray[Any]] = {}
    bent = "ramps" if network.curve is not None and network.curve.ramps else "curve"
    for part, of in ((bent, network.curve), ("tails", network.tails)):
        if of is not None:
            arrays[f"network.{part}.columns"] = np.asarray(of.columns, "<i4")
            arrays[f"network.{part}.centers"] = np.asarray(of.centers, "<f8")
            arrays[f"network.{part}.scales"] = np.asarray(of.scales, "<f8")
    if network.tails is not None:
        arrays["network.tails.powers"] = np.asarray(network.tails.powers, "<f8")
    for t, layer in enumerate(network.layers):
        arrays |= _stack(f"network.{t}", layer.sides)
        if layer.draws:
            arrays |= _stack(f"network.{t}.draws", [side for draw in layer.draws for side in draw])
            counts = [[side.n_experts for side in draw] for draw in layer.draws]
            arrays[f"network.{t}.draws.experts"] = np.array(counts, dtype=np.int32)
    if network.members:
        arrays["network.members"] = np.concatenate([np.asarray(side, "<i4") for side in network.members])
    if network.class_rows is not None:
        arrays["network.class_rows"] = np.asarray(network.class_rows, "<f8")
    header: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "n_features": int(network.n_features),
        "response": network.response.kind,
        "n_outputs": network.response.n_outputs,
        "layers": [{"experts": list(layer.n_experts), "draws": len(layer.draws)} for layer in network.layers],
    }
    if isinstance(network.response, OnALine):
        header["line"] = network.response.settings()
    if network.folds is not None:
        header["folds"], of_folds = network_to_arrays(network.folds)
        arrays |= {f"folds.{name}": array for name, array in of_folds.items()}
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
        if header.get("response") == OnALine.kind:
            response: Response = OnALine.from_settings(header.get("line"))
        else:
            response = response_of_kind(header.get("response"), n_outputs)
    except InvalidInputError as error:
        raise FileFormatError(f"The file does not hold a usable network: {error} Write it again.") from error
    n_sides = response.labelling.n_sides
    timed = [side.time_coefs is not None for layer in layers for side in layer.sides]
    _require(all(timed) if response.timed else not any(timed), "its sides and its response do not fit together")
    _require(all(len(layer.sides) == n_sides for layer in layers), f"its layers do not have {n_sides} sides each")
    curve, tails = _curve(arrays, n_features), _tails(arrays, n_features)
    network = Network(
        layers,
        n_features,
        response,
        curve,
        _members(arrays, layers[-1]),
        tails=tails,
        class_rows=_class_rows(arrays, response),
    )
    _check_wiring(network)
    if "folds" in header:
        network = replace(network, folds=_folds(header, arrays, network))
    return network if header["schema"] > AVERAGED_RATES else _by_rates(network)


def _by_rates(network: Network) -> Network:
    """Of an old file, an average of rates as the one network that it is, with its members beside it for intervals."""
    folds = network.folds or (network if network.n_members > 1 else None)
    if network.response.timed or folds is None:
        return network
    own = tuple(Layer(tuple(side.scaled(folds.n_members) for side in layer.sides)) for layer in folds.layers)
    return replace(network, members=(), folds=replace(folds, layers=own))


def _folds(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], network: Network) -> Network:
    """The average of networks of folds that stands beside a network."""
    part = header["folds"]
    _require(isinstance(part, Mapping) and "folds" not in part, "its networks of folds are not described")
    check_schema(part.get("schema"))
    prefix = "folds."
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    folds = network_from_arrays({**part, "schema": SCHEMA_VERSION}, own)  # of folds only the members are asked for
    _require(
        folds.n_features == network.n_features and folds.response == network.response and folds.n_members > 1,
        "its networks of folds have other features or outputs than the network, or are not several",
    )
    return folds


def _stack(name: str, sides: Any) -> dict[str, NDArray[Any]]:
    planes = np.concatenate([np.asarray(side.hyperplanes, dtype="<f8") for side in sides])
    weights = np.concatenate([np.asarray(side.expert_weights, "<f8") for side in sides])
    arrays = {**_without_zeros(f"{name}.hyperplanes", planes), f"{name}.expert_weights": weights}
    times = [np.asarray(side.time_coefs, "<f8") for side in sides if side.time_coefs is not None]
    return arrays | ({f"{name}.time_coefs": np.concatenate(times)} if times else {})


def _without_zeros(name: str, planes: FloatArray) -> dict[str, NDArray[Any]]:
    stored = planes.view("<i8") != 0  # all but +0.0
    n_stored, places = np.count_nonzero(stored), np.packbits(stored, axis=0)
    is_shorter = n_stored * planes.itemsize + places.nbytes < planes.nbytes
    if not is_shorter or MOST_ZEROS * n_stored < planes.size:
        return {name: planes}
    return {name: planes[stored], f"{name}.places": places}


def _with_zeros(name: str, arrays: Mapping[str, NDArray[Any]], n_experts: int) -> FloatArray:
    """Inverse of `_without_zeros`."""
    places = arrays.get(f"{name}.places")
    if places is None:
        return _floats(name, arrays, 2)
    values = _floats(name, arrays, 1)
    _require(
        places.dtype == np.uint8 and places.ndim == 2 and places.shape[0] == -(-n_experts // 8),
        f"array {name}.places is of the wrong kind",
    )
    size = n_experts * places.shape[1]
    _require(size <= MOST_ZEROS * values.size, f"array {name} has too many zeros")
    stored = np.unpackbits(places, axis=0, count=n_experts).view(bool)
    _require(np.count_nonzero(stored) == values.size, f"array {name} has other places than numbers")
    planes = np.zeros(stored.shape)
    planes[stored] = values
    return planes


def _curve(arrays: Mapping[str, NDArray[Any]], n_features: int) -> Curve | None:
    squares, ramps = (_measured_columns(part, arrays, n_features) for part in ("curve", "ramps"))
    _require(squares is None or ramps is None, "it has squares and ramps")
    return Curve(*squares) if squares is not None else None if ramps is None else Curve(*ramps, ramps=True)


def _tails(arrays: Mapping[str, NDArray[Any]], n_features: int) -> Tails | None:
    parts = _measured_columns("tails", arrays, n_features)
    if parts is None:
        return None
    powers = _floats("network.tails.powers", arrays, 1)
    _require(powers.shape == parts[0].shape, "its tails do not have one power for every column")
    _require(not np.isin(powers, (0.0, 2.0)).any(), "its tails have a power of zero or two")
    return Tails(*parts, powers.copy())


def _measured_columns(
    part: str, arrays: Mapping[str, NDArray[Any]], n_features: int
) -> tuple[IntArray, FloatArray, FloatArray] | None:
    """Columns, centres and scales of the curve, the ramps or the tails; None where there are none."""
    columns = arrays.get(f"network.{part}.columns")
    if not any(name.startswith(f"network.{part}.") for name in arrays):
        return None
    _require(
        isinstance(columns, np.ndarray) and columns.dtype == np.int32 and columns.ndim == 1 and columns.size > 0,
        f"the columns of its {part} are missing or of the wrong kind",
    )
    assert columns is not None
    least_step = 0 if part == "ramps" else 1  # several ramps of a feature
    _require(
        bool(columns[0] >= 0 and columns[-1] < n_features and np.all(np.diff(columns) >= least_step)),
        f"the columns of its {part} are not features in rising order",
    )
    centers, scales = (_floats(f"network.{part}.{name}", arrays, 1) for name in ("centers", "scales"))
    _require(
        centers.shape == scales.shape == columns.shape, f"its {part} has other numbers of centers, scales and columns"
    )
    _require(bool(np.all(scales > 0)), f"its {part} has a scale that is not positive")
    return columns.astype(np.int64), centers.copy(), scales.copy()


def _members(arrays: Mapping[str, NDArray[Any]], top: Layer) -> tuple[IntArray, ...]:
    members = arrays.get("network.members")
    if members is None:
        return ()
    _require(
        members.dtype == np.int32 and members.shape == (sum(top.n_experts),),
        "its members are not one number per expert of the top layer",
    )
    _require(bool(np.all((members >= 0) & (members < MOST_MEMBERS))), f"it has more than {MOST_MEMBERS} members")
    sides = tuple(side.astype(np.int64) for side in np.split(members, np.cumsum(top.n_experts)[:-1]))
    _require(all(np.all(np.diff(side) >= 0) for side in sides), "the experts of its members are mixed up")
    return sides


def _class_rows(arrays: Mapping[str, NDArray[Any]], response: Response) -> FloatArray | None:
    if "network.class_rows" not in arrays:
        return None
    class_rows = _floats("network.class_rows", arrays, 1)
    _require(
        class_rows.shape == (response.n_outputs,) and bool((class_rows >= 0.0).all()),
        "it does not have a number of rows for every class",
    )
    return class_rows.copy()


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
    weights = _floats(f"{name}.expert_weights", arrays, 1)
    planes = _with_zeros(f"{name}.hyperplanes", arrays, len(weights))
    _require(len(planes) == len(weights) == sum(experts), f"{name} has another number of experts than declared")
    _require(planes.shape[1] > 0, f"{name} has no bias")
    _require(bool(np.all(weights >= 0)), f"{name} has a negative weight")
    cuts = list(pairwise(np.cumsum([0, *experts]).tolist()))
    if f"{name}.time_coefs" not in arrays:
        return tuple(Side(planes[a:b].copy(), weights[a:b].copy()) for a, b in cuts)
    times = _floats(f"{name}.time_coefs", arrays, 1)
    _require(times.shape == weights.shape and bool(np.all(times > 0)), f"{name} has wrong time coefficients")
    return tuple(Side(planes[a:b].copy(), weights[a:b].copy(), times[a:b].copy()) for a, b in cuts)


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
    _require(network.n_inputs[0] == network.n_expanded + 1, "n_features, the curve and the first layer differ")
    widths = (network.n_expanded, *network.n_units)
    for t, width in enumerate(network.n_inputs, 1):
        _require(width == width_of_inputs(t, widths) + 1, "its layers do not fit together")


def _is_count(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 1 << 31


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise FileFormatError(f"The file does not hold a usable network: {what}. Write it again.")
