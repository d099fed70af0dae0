"""A network as one self-contained ONNX file of standard operators."""

import importlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pbdn._version import __version__
from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.export.onnx_graph import Graph, grades, numbers
from pbdn.export.plan import LEVELS, Label, Plan, PlannedLayer, Several, asked, plan
from pbdn.model.network import Network
from pbdn.model.pooling import NEWTON_STEPS, SMALLEST_CHANCE
from pbdn.model.response import OneSide, TwoClasses

OPSET = 13  # 2020; every operator used here has kept its meaning since
IR_VERSION = 7  # the file format that came with it
OUTPUTS = ("label", "probabilities", "activations")
NUMBERS = ("mean", "quantiles", "probability_above", "incidence", "activations")
SMALLEST_CHANCE_SINGLE = 1e-15  # in place of `SMALLEST_CHANCE` in single precision


def to_onnx(
    network: Network | Several,
    classes: Sequence[Any],
    feature_names: Sequence[str] | None = None,
    *,
    dtype: DTypeLike = np.float32,
    arithmetic: DTypeLike = np.float64,
    stand_ins: Sequence[float] | None = None,
    prepare: Callable[[Graph, "np.dtype[Any]"], str] | None = None,
    metadata: dict[str, Any] | None = None,
    quantiles: Sequence[float] = LEVELS,
    above: Sequence[float] = (),
    counts: bool = False,
) -> bytes:
    """Bytes of an ONNX model with the input ``features`` (n, n_features) and these outputs.

    - ``label`` (n,): most probable class, as strings, integers, numbers or booleans like ``classes``;
    - ``probabilities`` (n, n_classes);
    - ``activations`` (n, units of all layers): p_ik = 1 - exp(-r_k ln(1 + e^{ψ_ik})), the probability that
      expert k fires, from the bottom layer to the top, side by side. The names of the columns are in the metadata
      ``activations``.

    Numbers, which have no ``classes``, have ``mean`` (n,), ``quantiles`` (n, n_quantiles) and ``probability_above``
    (n, n_above) in the place of labels. Times with causes also have ``incidence`` (n, n_causes, n_above), the probability of an
    event of each cause up to each of ``above``.

    Parameters
    ----------
    network : Network or Several
    classes : sequence
        One label per class or grade. Empty: numbers.
    feature_names : sequence of str, optional
        Stored in the metadata ``feature_names``.
    dtype : float32 or float64
        Of the input, the probabilities and the activations.
    arithmetic : float64 or float32
        Of the computation. Hyperplanes on raw features cancel large numbers, so single precision is for
        devices without double precision; it is tested to 1e-4, and on standardised features only.
    stand_ins : sequence of float, optional
        One number per feature, in the place of NaN.
    prepare : callable, optional
        Adds inputs and nodes that make the features to a graph, with inputs of ``dtype``; gives the name of the features.
    metadata : dict, optional
        What else is stored, as JSON.
    quantiles, above : sequences of float
        Of numbers: which quantiles are given, and for which values y the probability of more than y.
    counts : bool
        Whether the numbers stand for counts.

    Raises
    ------
    MissingExtraError
        The package ``onnx`` is not installed.
    """
    onnx = _onnx()
    if isinstance(network, Several):
        named = zip(network.networks, network.labels, strict=True)
        plans = [plan(one, labels, feature_names, stand_ins) for one, labels in named]
    else:
        plans = [plan(network, classes, feature_names, stand_ins, counts)]
    planned = plans[-1]
    outer, inner = (_float_type(name, value) for name, value in (("dtype", dtype), ("arithmetic", arithmetic)))
    outputs = NUMBERS if planned.gives_numbers else OUTPUTS
    graph = Graph(onnx, inner, outputs)
    if prepare is None:
        features = graph.cast(graph.input("features", outer, planned.n_features), inner)
    else:
        features = prepare(graph, outer)
    scored = [_scored(graph, features, one) for one in plans]
    distances, weighted, _ = scored[-1]
    helper, kind = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype
    stored = _metadata(plans)
    if planned.gives_numbers:
        levels, points = asked(planned, quantiles, above)
        parts, share = [(one[0], own) for one, own in zip(scored, plans, strict=True)], None
        if plans[0].labels:  # of amounts: whether there is one
            chances = _pool(graph, _rates(graph, scored[0][1], plans[0].layers[-1]), plans[0])
            parts = parts[1:]
            share = graph.op("Slice", chances, *(graph.constant(np.array([v], dtype=np.int64)) for v in (1, 2, 1)))
        shapes = numbers(graph, parts, outer, levels, points, share)
        stored |= {"causes": network.causes} if isinstance(network, Several) and network.causes else {}
        stored |= {"quantiles": levels, "probability_above": [float(y) for y in above]}
        made = [helper.make_tensor_value_info(name, kind(outer), shape) for name, shape in shapes.items()]
    else:
        if planned.line is None:
            probabilities = _pool(graph, _rates(graph, weighted, planned.layers[-1]), planned)
        else:
            probabilities = grades(graph, distances, planned)
        labels = _label_array(planned.labels)
        best = graph.op("ArgMax", probabilities, axis=1, keepdims=0)
        graph.op("Gather", graph.constant(labels), best, axis=0, to="label")
        graph.cast(probabilities, outer, to="probabilities")
        label_kind = onnx.TensorProto.STRING if labels.dtype == object else kind(labels.dtype)
        made = [
            helper.make_tensor_value_info("label", label_kind, ["n"]),
            helper.make_tensor_value_info("probabilities", kind(outer), ["n", len(planned.labels)]),
        ]
    graph.cast(graph.op("Concat", *(a for one in scored for a in one[2]), axis=1), outer, to="activations")
    n_units = sum(layer.n_units for one in plans for layer in one.layers)
    made.append(helper.make_tensor_value_info("activations", kind(outer), ["n", n_units]))
    model = helper.make_model(
        helper.make_graph(graph.nodes, "pbdn", graph.inputs, made, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET), *graph.more_opsets],
        ir_version=IR_VERSION,
        producer_name="pbdn",
        producer_version=__version__,
    )
    stored |= metadata or {}
    helper.set_model_props(model, {name: json.dumps(value) for name, value in stored.items()})
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


def _scored(graph: Graph, features: str, planned: Plan) -> tuple[str, str, list[str]]:
    """Signed distances and weighted units of the top layer, and the activations of every layer."""
    activations = []
    sources = [_with_bent(graph, _with_tails(graph, _with_stand_ins(graph, features, planned), planned), planned)]
    distances = weighted = ""
    for layer in planned.layers:
        distances = _distances(graph, layer, [sources[s] for s in layer.sources])
        units = graph.softplus(distances)
        weighted = graph.op("Mul", units, graph.number(layer.expert_weights))
        activations.append(graph.probability(weighted))
        sources.append(units)
    return distances, weighted, activations


def _onnx() -> Any:
    try:
        importlib.import_module("onnx.checker")
        importlib.import_module("onnx.numpy_helper")
        return importlib.import_module("onnx")
    except ImportError as error:
        raise MissingExtraError("to_onnx needs the package onnx", "onnx") from error


def _float_type(name: str, value: DTypeLike) -> np.dtype[Any]:
    dtype = np.dtype(value)
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInputError(f"{name}={value!r} is not one of float32, float64.")
    return dtype


def _with_stand_ins(graph: Graph, features: str, planned: Plan) -> str:
    if planned.stand_ins is None:
        return features
    return graph.op("Where", graph.op("IsNaN", features), graph.number(planned.stand_ins), features)


def _with_tails(graph: Graph, features: str, planned: Plan) -> str:
    """Tails pulled in, by Pow; other features have the power one, which changes nothing."""
    tails, n = planned.tails, planned.n_features
    if tails is None:
        return features
    centers, scales, powers = np.zeros(n), np.ones(n), np.ones(n)
    centers[tails.columns], scales[tails.columns], powers[tails.columns] = tails.centers, tails.scales, tails.powers
    z = graph.op("Div", graph.op("Sub", features, graph.number(centers)), graph.number(scales))
    is_below, one = graph.op("Less", z, graph.number(0.0)), graph.number(1.0)
    power = graph.op("Where", is_below, graph.number(2.0 - powers), graph.number(powers))
    grown = graph.op("Pow", graph.op("Add", one, graph.op("Abs", z)), power)
    pulled = graph.op("Mul", graph.op("Sign", z), graph.op("Div", graph.op("Sub", grown, one), power))
    return graph.op("Where", graph.op("Equal", power, one), z, pulled)


def _with_bent(graph: Graph, features: str, planned: Plan) -> str:
    if planned.curve is None:
        return features
    some = graph.op("Gather", features, graph.constant(planned.curve.columns), axis=1)
    moved = graph.op("Sub", some, graph.number(planned.curve.centers))
    distance = graph.op("Div", moved, graph.number(planned.curve.scales))
    if planned.has_ramps:
        bent = graph.op("Min", graph.op("Relu", distance), graph.number([1.0]))
    else:
        bent = graph.op("Mul", distance, distance)
    return graph.op("Concat", features, bent, axis=1)


def _distances(graph: Graph, layer: PlannedLayer, sources: list[str]) -> str:
    inputs = sources[0] if len(sources) == 1 else graph.op("Concat", *sources, axis=1)
    planes = layer.hyperplanes
    moved = graph.op("MatMul", inputs, graph.number(planes[:, 1:].T))
    return graph.op("Add", moved, graph.number(planes[:, 0]))


def _rates(graph: Graph, weighted: str, top: PlannedLayer) -> str:
    """λ of every answer, shape (n, n_sides, number of networks that are averaged)."""
    axis = graph.constant(np.array([1], dtype=np.int64))
    sums = []
    for first, last in top.answers:
        ends = [graph.constant(np.array([end], dtype=np.int64)) for end in (first, last)]
        sums.append(graph.op("ReduceSum", graph.op("Slice", weighted, *ends, axis), axis, keepdims=1))
    rates = sums[0] if len(sums) == 1 else graph.op("Concat", *sums, axis=1)
    shape = graph.constant(np.array([-1, len(top.sides), top.n_averaged], dtype=np.int64))
    return graph.op("Reshape", rates, shape)


def _pool(graph: Graph, rates: str, planned: Plan) -> str:
    """Class probabilities as in `pbdn.model.pooling`, shape (n, n_classes)."""
    p = graph.op("ReduceMean", graph.probability(rates), axes=[2], keepdims=0)
    if planned.response == OneSide.kind:
        return graph.op("Concat", graph.op("Sub", graph.number(1.0), p), p, axis=1)
    if planned.response == TwoClasses.kind:  # (p_c + 1 - p_other) / 2 for both classes: p times a matrix plus a half
        mixing = graph.number([[0.5, -0.5], [-0.5, 0.5]])
        return graph.op("Add", graph.op("MatMul", p, mixing), graph.number(0.5))
    not_p = graph.op("ReduceMean", graph.op("Exp", graph.op("Neg", rates)), axes=[2], keepdims=0)
    return _pool_pairs(graph, p, not_p, planned.n_sides // 2)


def _pool_pairs(graph: Graph, p: str, not_p: str, n: int) -> str:
    """As `pbdn.model.pooling.pool_pairs`: the odds of n pairs times the factor with which all sum to one."""
    begin, middle, end, axis = (graph.constant(np.array([value], dtype=np.int64)) for value in (0, n, 2 * n, 1))
    one, two = graph.number(1.0), graph.number(2.0)
    least = graph.number(SMALLEST_CHANCE if graph.dtype == np.float64 else SMALLEST_CHANCE_SINGLE)

    def halves(values: str) -> tuple[str, str]:
        return graph.op("Slice", values, begin, middle, axis), graph.op("Slice", values, middle, end, axis)

    def total(values: str) -> str:
        return graph.op("ReduceSum", values, axis, keepdims=1)

    (own, against), (not_own, not_against) = halves(p), halves(not_p)
    yes = graph.op("Max", graph.op("Add", own, not_against), least)
    no = graph.op("Max", graph.op("Add", against, not_own), least)
    odds = graph.op("Div", yes, no)
    best = graph.op("ArgMax", odds, axis=1, keepdims=1)
    ratio = graph.op("Div", odds, graph.op("GatherElements", odds, best, axis=1))
    is_best = graph.op("Equal", best, graph.constant(np.arange(n, dtype=np.int64)[None, :]))
    others = graph.op("Where", is_best, graph.number(0.0), ratio)
    a = total(others)
    w = graph.op(
        "Div", two, graph.op("Add", a, graph.op("Sqrt", graph.op("Mul", a, graph.op("Add", a, graph.number(4.0)))))
    )
    for _ in range(NEWTON_STEPS):
        wa = graph.op("Mul", w, others)
        below = graph.op("Add", one, wa)
        part = graph.op("Div", others, below)
        value = graph.op("Mul", graph.op("Mul", w, graph.op("Add", one, w)), total(part))
        above = graph.op("Add", one, graph.op("Mul", w, graph.op("Add", two, wa)))
        slope = total(graph.op("Mul", part, graph.op("Div", above, below)))
        w = graph.op("Sub", w, graph.op("Div", graph.op("Sub", value, one), slope))
    odds = graph.op("Mul", w, ratio)
    pooled = graph.op("Div", odds, graph.op("Add", one, odds))
    return graph.op("Div", pooled, total(pooled))


def _label_array(labels: Sequence[Label]) -> NDArray[Any]:
    kinds = {type(label) for label in labels}
    if kinds == {bool}:
        return np.array(labels, dtype=bool)
    if kinds == {int} and all(-(2**63) <= label < 2**63 for label in labels if isinstance(label, int)):
        return np.array(labels, dtype=np.int64)
    if kinds == {float}:
        return np.array(labels, dtype=np.float64)
    return np.array([str(label) for label in labels], dtype=object)


def _metadata(plans: Sequence[Plan]) -> dict[str, Any]:
    names = [
        f"{f'network {j}, ' if len(plans) > 1 else ''}layer {t}, for {side}, expert {k}"
        for j, planned in enumerate(plans, 1)
        for t, layer in enumerate(planned.layers, 1)
        for side, (first, last) in zip(planned.side_names, layer.sides, strict=True)
        for k in range(1, last - first + 1)
    ]
    return {"classes": plans[-1].labels, "feature_names": plans[-1].feature_names, "activations": names}
