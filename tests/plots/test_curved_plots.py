"""Displays of curved networks, and traces of the optimiser."""

import numpy as np
import pytest

from fitted import QUICK_MAP, quietly, with_network
from networks import random_curve, random_network
from pbdn import PBDNClassifier
from pbdn.model.curve import Curve
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import OneSide
from pbdn.plots import (
    DecisionMapDisplay,
    ExpertWeightsDisplay,
    NetworkDiagramDisplay,
    PolytopeViolationDisplay,
    SubtypesDisplay,
    TraceDisplay,
)

plt = pytest.importorskip("matplotlib.pyplot")


DISPLAYS = {
    "map": lambda m, X: DecisionMapDisplay.from_estimator(m, X, X[:, 0] > 0, grid=20),
    "violations": lambda m, X: PolytopeViolationDisplay.from_estimator(m, X, grid=20),
    "weights": lambda m, X: ExpertWeightsDisplay.from_estimator(m),
    "subtypes": lambda m, X: SubtypesDisplay.from_estimator(m, X),
    "diagram": lambda m, X: NetworkDiagramDisplay.from_estimator(m, X),
}


def test_traces_of_the_optimiser(rng):
    X = rng.normal(size=(80, 2))
    model = PBDNClassifier(inference="map", criterion="aic", map_config=QUICK_MAP, max_depth=1, random_state=0)
    display = TraceDisplay.from_estimator(quietly(model, X, X[:, 0] > 0))
    assert display.quantity == "loss"
    assert len(display.table()) > 1


def bent(rng, n_features=3, **options):
    """A curved network made by hand, and rows."""
    network = random_network(rng, ((4, 3), (2, 2)), n_features, curve=random_curve(rng, n_features, 2), **options)
    return with_network(network), rng.normal(size=(60, n_features))


def test_curves_lie_where_experts_change_their_minds(rng):
    model, X = bent(rng)
    display = DecisionMapDisplay.from_estimator(model, X, X[:, 0] > 0, features=(0, 2), grid=100, draw=False)
    planes = np.concatenate([side.hyperplanes for side in model.network_.layers[0].sides])
    assert display.segments
    for _, _, points in display.segments:
        rows = np.repeat(np.median(X, axis=0)[None], len(points), axis=0)
        rows[:, [0, 2]] = points
        distance = model.network_.expand(rows) @ planes[:, 1:].T + planes[:, 0]
        assert np.abs(distance).max(axis=0).min() < 1e-2
    texts = [text.get_text() for text in display.plot().ax_.get_legend().get_texts()]
    assert "curve for 1" in texts
    assert not any("hyperplane" in text for text in texts)


def test_a_ball_is_drawn_as_a_circle(rng):
    side = Side(np.array([[1.0, 0.0, 0.0, -1.0, -1.0]]), np.ones(1))
    network = Network((Layer((side,)),), 2, OneSide(), Curve(np.array([0, 1]), np.array([0.5, -0.5]), np.ones(2)))
    X = rng.uniform(-2.0, 2.0, size=(50, 2))
    display = DecisionMapDisplay.from_estimator(with_network(network), X, grid=100, draw=False)
    ((_, _, points),) = display.segments
    np.testing.assert_allclose(np.linalg.norm(np.array(points) - [0.5, -0.5], axis=1), 1.0, atol=1e-3)
    assert points[0] == points[-1]


@pytest.mark.parametrize("name", DISPLAYS)
def test_displays_of_a_curved_network(rng, name):
    model, X = bent(rng)
    assert len(DISPLAYS[name](model, X).table()) > 0


def test_squares_stand_beside_the_features_in_a_diagram(rng):
    model, X = bent(rng)
    display = NetworkDiagramDisplay.from_estimator(model, X, draw=False)
    labels = [node.label for node in display.nodes if node.layer == 0]
    assert labels == ["x0", "x1", "x2", *(f"x{j}²" for j in model.network_.curve.columns)]
    assert {edge.source for edge in display.edges if edge.source.startswith("f")} <= {f"f{j}" for j in range(5)}
    assert any(edge.source in ("f3", "f4") for edge in display.edges)
