"""The network as nodes and edges."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn.inspection.access import dense_rows, input_names, network_of, side_names
from pbdn.inspection.subtypes import as_frame
from pbdn.model.network import Layer, Network
from pbdn.model.wiring import sources_of
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import LOWERS, PREDICTED, RAISES, Marks, axes, check_estimator, ink_and_paper, shown

MAX_INPUTS = 20  # features drawn; a remark says how many are left out
MAX_UNITS = 60  # experts drawn per layer, strongest first; a remark says how many are left out
MAX_EDGES = 500  # connections drawn; where there are more, each unit keeps its strongest ones
FAINT = 0.15  # edges below this share of the strongest one of their unit are not drawn


@dataclass(frozen=True)
class Node:
    """A feature (layer 0), an expert, or a class (last layer), at height ``place`` in [0, 1]."""

    key: str
    layer: int
    place: float
    label: str
    side: int = -1
    weight: float = 0.0


@dataclass(frozen=True)
class Edge:
    """A connection; ``strength`` in [-1, 1] is relative to the strongest one of the unit it enters."""

    source: str
    target: str
    strength: float


@dataclass
class NetworkDiagramDisplay:
    """Features, experts of every layer and side, classes (or low and high values), and the strongest connections.

    The strength of a connection is β times the spread of its input over the rows given (without rows: β).
    ``n_hidden`` inputs (features, and squares in a curved network) and ``n_hidden_units`` experts of little weight are left out.
    ``predicted`` heads the last column.
    """

    nodes: list[Node] = field(repr=False)
    edges: list[Edge] = field(repr=False)
    depth: int
    n_hidden: int = 0
    n_hidden_units: int = 0
    predicted: str = "classes"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, ax: Any = None, draw: bool = True
    ) -> "NetworkDiagramDisplay":
        """Lay out the network and, unless ``draw`` is False, draw it."""
        check_estimator(estimator, cls)
        network, names, sides = network_of(estimator), input_names(estimator), side_names(estimator)
        spreads = _spreads(network, None if X is None else dense_rows(estimator, X))
        first = np.abs(np.concatenate([side.hyperplanes[:, 1:] for side in network.layers[0].sides]))
        order = np.argsort(-(first * spreads[0]).max(axis=0), kind="stable")
        chosen = sorted(int(j) for j in order[:MAX_INPUTS])
        nodes = [Node(f"f{j}", 0, (i + 0.5) / len(chosen), names[j]) for i, j in enumerate(chosen)]
        edges: list[Edge] = []
        for t, (layer, wires, spread) in enumerate(zip(network.layers, _wires(network), spreads, strict=True), 1):
            units = _strongest(layer)
            for i, (s, k) in enumerate(units):
                side, key = layer.sides[s], f"u{t}.{s}.{k}"
                weight = float(side.expert_weights[k])
                nodes.append(Node(key, t, (i + 0.5) / len(units), f"{sides[s]}: {k + 1}", s, weight))
                edges += _edges(side.hyperplanes[k, 1:] * spread, wires, key)
        top = network.top.sides
        for s, side in enumerate(top):
            nodes.append(Node(f"c{s}", network.depth + 1, (s + 0.5) / len(top), str(sides[s]), s))
            largest = float(side.expert_weights.max(initial=1e-300))
            for k, weight in enumerate(side.expert_weights.tolist()):
                edges.append(Edge(f"u{network.depth}.{s}.{k}", f"c{s}", weight / largest))
        drawn = {node.key for node in nodes}
        edges = _few([edge for edge in edges if edge.source in drawn])
        hidden_units = sum(network.n_units) - sum(0 < node.layer <= network.depth for node in nodes)
        predicted = PREDICTED[estimator._predicts]
        display = cls(nodes, edges, network.depth, len(names) - len(chosen), hidden_units, predicted)
        return display.plot(ax) if draw else display

    @property
    def figure_size(self) -> tuple[float, float]:
        """Width and height in inches that the layers and the fullest of them need."""
        tallest = max(sum(node.layer == t for node in self.nodes) for t in range(self.depth + 2))
        return 2.0 + 1.7 * (self.depth + 1), max(3.6, 0.26 * tallest)

    @property
    def remark(self) -> str:
        """What is left out, in words; empty where nothing is."""
        hidden = ((self.n_hidden, "inputs"), (self.n_hidden_units, "experts"))
        return " and ".join(f"{n} weaker {what}" for n, what in hidden if n)

    def plot(self, ax: Any = None) -> "NetworkDiagramDisplay":
        """Columns from the features to what is predicted; red edges raise a unit, blue ones lower it."""
        self.figure_, self.ax_ = axes(ax, figsize=self.figure_size)
        self.marks_ = Marks()
        place = {node.key: (node.layer, 1.0 - node.place) for node in self.nodes}
        for edge in self.edges:
            (x0, y0), (x1, y1) = place[edge.source], place[edge.target]
            colour, size = RAISES if edge.strength > 0 else LOWERS, abs(edge.strength)
            look = {"linewidth": 0.3 + 1.3 * size, "alpha": 0.2 + 0.6 * size, "zorder": 1}
            (line,) = self.ax_.plot([x0, x1], [y0, y1], color=colour, **look)
            self.marks_.put(line, css="edge", **{"from": edge.source, "to": edge.target})
        for node in self.nodes:
            self._draw_node(node, *place[node.key])
        heads = ["features", *(f"layer {t}" for t in range(1, self.depth + 1)), self.predicted]
        for t, head in enumerate(heads):
            above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center", "va": "bottom"}
            self.ax_.annotate(head, (t, 1.0), fontsize=8, fontweight="bold", **above)
        left_out = f"; {self.remark} left out" if self.remark else ""
        for colour, text in ((RAISES, "raises the unit"), (LOWERS, "lowers it" + left_out)):
            self.ax_.plot([], [], color=colour, label=text)
        self.ax_.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False, fontsize=8)
        self.ax_.set(xlim=(-0.9, self.depth + 1.7), ylim=(0.0, 1.0))
        self.ax_.set_axis_off()
        return self

    def _draw_node(self, node: Node, x: float, y: float) -> None:
        """A dot with its name, both under the key of the node."""
        ink, paper = ink_and_paper()
        face = paper if node.side < 0 else f"C{node.side % 10}"
        dot = self.ax_.scatter([x], [y], s=60, color=face, edgecolor=ink, zorder=3)
        name = self.ax_.annotate(
            shown(node.label, 24), (x, y), xytext=(-7 if node.layer == 0 else 7, 0), textcoords="offset points",
            ha="right" if node.layer == 0 else "left", va="center", fontsize=7, zorder=2,
            bbox={"facecolor": paper, "alpha": 0.7, "edgecolor": "none", "pad": 0.8},
        )  # fmt: skip
        weight = f", weight {node.weight:.3g}" if node.weight else ""
        for part in (dot, name):
            self.marks_.put(part, node.label + weight, "node", key=node.key)

    def table(self) -> Any:
        """One line per connection drawn."""
        names = {node.key: (node.layer, node.label) for node in self.nodes}
        return as_frame(
            {
                "from layer": [names[edge.source][0] for edge in self.edges],
                "from": [names[edge.source][1] for edge in self.edges],
                "to layer": [names[edge.target][0] for edge in self.edges],
                "to": [names[edge.target][1] for edge in self.edges],
                "strength": [edge.strength for edge in self.edges],
            }
        )


def _spreads(network: Network, rows: FloatArray | None) -> list[FloatArray]:
    """Standard deviation of every input of every layer; ones without rows."""
    if rows is None:
        return [np.ones(d - 1) for d in network.n_inputs]
    return [np.asarray(inputs).std(axis=0) for inputs in network.layer_inputs(rows)]


def _wires(network: Network) -> list[list[str]]:
    """Keys of the inputs of every layer, in the order in which it sees them."""
    seen = [[f"f{j}" for j in range(network.n_expanded)]]
    for t, layer in enumerate(network.layers, 1):
        seen.append([f"u{t}.{s}.{k}" for s, n in enumerate(layer.n_experts) for k in range(n)])
    return [[key for source in sources_of(t) for key in seen[source]] for t in range(1, network.depth + 1)]


def _strongest(layer: Layer) -> list[tuple[int, int]]:
    """The units (side, expert) that are drawn, in the order of the layer."""
    units = [(s, k) for s, n in enumerate(layer.n_experts) for k in range(n)]
    units.sort(key=lambda unit: -layer.sides[unit[0]].expert_weights[unit[1]])
    return sorted(units[:MAX_UNITS])


def _edges(strengths: Any, wires: list[str], key: str) -> list[Edge]:
    largest = float(np.abs(strengths).max(initial=0.0))
    if largest == 0.0:
        return []
    relative = np.asarray(strengths) / largest
    return [Edge(wires[j], key, float(value)) for j, value in enumerate(relative) if abs(value) >= FAINT]


def _few(edges: list[Edge]) -> list[Edge]:
    """At most about MAX_EDGES: the strongest of each unit, equally many for all."""
    if len(edges) <= MAX_EDGES:
        return edges
    entering: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        entering[edge.target].append(edge)
    each = max(1, MAX_EDGES // len(entering))
    return [edge for group in entering.values() for edge in sorted(group, key=lambda one: -abs(one.strength))[:each]]
