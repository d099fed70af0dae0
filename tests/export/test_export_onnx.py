import json
import sys

import numpy as np
import pytest

from networks import HOSTILE, SHAPES, labels_of, network_of, rows_with_extremes
from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.export import to_onnx
from pbdn.export.onnx import OPSET
from pbdn.export.onnx_graph import Graph
from pbdn.model.likelihood import probability
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import OneSide, SeveralClasses
from pbdn.model.scaling import Scaling

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

TOLERANCE = {np.float64: 1e-6, np.float32: 1e-5}


def run(data, rows):
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return dict(zip(("label", "probabilities", "activations"), session.run(None, {"features": rows}), strict=True))


def activations(network, rows):
    inputs = list(network.layer_inputs(rows))
    pairs = zip(network.layers, inputs, strict=True)
    columns = [probability(side.units(x) * side.expert_weights) for layer, x in pairs for side in layer.sides]
    return np.concatenate(columns, axis=1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_same_outputs(rng, shape, dtype):
    network = network_of(shape, rng)
    rows = rows_with_extremes(rng, 10_000).astype(dtype)
    got = run(to_onnx(network, labels_of(network), dtype=dtype), rows)
    ours = network.predict(rows.astype(float))
    assert got["probabilities"].dtype == got["activations"].dtype == dtype
    assert np.abs(got["probabilities"] - ours).max() <= TOLERANCE[dtype]
    if got["activations"].size:
        assert np.abs(got["activations"] - activations(network, rows.astype(float))).max() <= TOLERANCE[dtype]
    assert got["activations"].shape == (10_000, sum(network.n_units))
    ordered = np.sort(ours, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 2 * TOLERANCE[dtype]
    np.testing.assert_array_equal(got["label"][clear], labels_of(network)[ours.argmax(axis=1)][clear])


def test_double_precision_is_nearly_exact(rng):
    """Beyond the promised 1e-6, and in relative terms for probabilities that are nearly zero."""
    planes = np.array([[-20.0, 1.0, 2.0], [-30.0, 3.0, -1.0]])
    network = Network((Layer((Side(planes, np.array([0.5, 2.0])),)),), 2, OneSide())
    rows = rng.normal(size=(2000, 2)) * 10
    ours = network.predict(rows)
    theirs = run(to_onnx(network, [0, 1], dtype=np.float64), rows)["probabilities"]
    assert ours[:, 1].min() < 1e-12
    np.testing.assert_allclose(theirs[:, 1], ours[:, 1], rtol=1e-10, atol=0)


def test_single_precision_input_with_an_offset(rng):
    """Features like years: folded scaling cancels, and double precision inside keeps the promise."""
    network = network_of("pair", rng)
    center, scale = np.full(4, 2000.0), np.full(4, 10.0)
    folded = Scaling(center, scale).fold(network)
    rows = (center + scale * rng.normal(size=(1000, 4))).astype(np.float32)
    ours = folded.predict(rows.astype(float))
    assert np.abs(run(to_onnx(folded, [0, 1]), rows)["probabilities"] - ours).max() <= 1e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_single_precision_arithmetic(rng, shape):
    network = network_of(shape, rng)
    rows = rng.normal(size=(10_000, 4)).astype(np.float32)
    data = to_onnx(network, labels_of(network), arithmetic=np.float32)
    kinds = {tensor.data_type for tensor in onnx.load_from_string(data).graph.initializer}
    assert onnx.TensorProto.DOUBLE not in kinds
    theirs = run(data, rows)["probabilities"]
    assert np.abs(theirs - network.predict(rows.astype(float))).max() <= 1e-4


@pytest.mark.parametrize("n_rows", [0, 1, 7])
def test_any_number_of_rows(rng, n_rows):
    network = network_of("three classes", rng)
    got = run(to_onnx(network, [1, 2, 3], dtype=np.float64), rng.normal(size=(n_rows, 4)))
    assert got["probabilities"].shape == (n_rows, 3)
    assert got["label"].shape == (n_rows,)


@pytest.mark.parametrize(
    ("classes", "kind"),
    [([3, -7], np.int64), ([False, True], np.bool_), ([0.5, 2.0], np.float64), (["b", "a"], object)],
)
def test_types_of_labels(rng, classes, kind):
    network = network_of("pair", rng)
    rows = rng.normal(size=(50, 4)).astype(np.float32)
    got = run(to_onnx(network, np.array(classes)), rows)
    assert got["label"].dtype == kind
    np.testing.assert_array_equal(got["label"], np.array(classes)[got["probabilities"].argmax(axis=1)])


def test_one_standard_self_contained_model(rng):
    network = network_of("seven classes", rng, len(HOSTILE))
    data = to_onnx(network, HOSTILE[:7], HOSTILE)
    assert data == to_onnx(network, HOSTILE[:7], HOSTILE)
    model = onnx.load_from_string(data)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", OPSET)]
    assert {node.domain for node in model.graph.node} == {""}
    assert not model.functions
    assert all(t.data_location == onnx.TensorProto.DEFAULT for t in model.graph.initializer)
    metadata = {item.key: json.loads(item.value) for item in model.metadata_props}
    assert metadata["feature_names"] == HOSTILE
    assert metadata["classes"] == HOSTILE[:7]
    assert len(metadata["activations"]) == sum(network.n_units)
    assert metadata["activations"][-1] == f"layer 2, for not {HOSTILE[6]}, expert 1"
    rows = rng.normal(size=(20, len(HOSTILE))).astype(np.float32)
    assert set(run(data, rows)["label"]) <= set(HOSTILE)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_constant_is_left_over(rng, shape):
    """A runtime warns its user of each."""
    network = network_of(shape, rng)
    graph = onnx.load_from_string(to_onnx(network, labels_of(network))).graph
    used = {name for node in graph.node for name in node.input}
    assert {constant.name for constant in graph.initializer} <= used


def test_a_hundred_classes(rng):
    side = network_of("one side", rng).layers[0].sides[0]
    sides = tuple(Side(side.hyperplanes * s, side.expert_weights / 50) for s in rng.normal(size=200))
    network = Network((Layer(sides),), 4, SeveralClasses(100))
    rows = rng.normal(size=(30, 4))
    theirs = run(to_onnx(network, range(100), dtype=np.float64), rows)["probabilities"]
    np.testing.assert_allclose(theirs, network.predict(rows), rtol=0, atol=1e-12)


def test_wrong_arguments(rng, monkeypatch):
    network = network_of("pair", rng)
    with pytest.raises(InvalidInputError, match="float32, float64"):
        to_onnx(network, [0, 1], dtype=np.int8)
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnx.checker", None)
    with pytest.raises(MissingExtraError, match="the extra 'onnx'"):
        to_onnx(network, [0, 1])


def test_names_of_inputs_are_none_of_the_outputs_and_never_empty():
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    graph = Graph(onnx, np.dtype(np.float64), ["label"])
    assert [graph.input(name, None, 1) for name in ("label", "", "a", "")] == ["label_2", "column", "a", "column_2"]
