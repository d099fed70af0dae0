"""The network as nodes and edges."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn.plots.base import axes, dense_rows, frame, shown, side_labels

MAX_INPUTS = 20  # features drawn; a remark says how many are left out
FAINT = 0.15  # edges below this share of the strongest one of their unit are not drawn
RAISES, LOWERS = "#b2182b", "#2166ac"


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
    """Features, experts of every layer and side, classes, and the strongest connections.

    The strength of a connection is β times the spread of its input over the rows given (without rows: β).
    """

    nodes: list[Node] = field(repr=False)
    edges: list[Edge] = field(repr=False)
    depth: int
    n_hidden: int = 0

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, ax: Any = None, draw: bool = True
    ) -> "NetworkDiagramDisplay":
        """Lay out the network and, unless ``draw`` is False, draw it."""
        network, names, sides = estimator._network(), estimator._names(), side_labels(estimator)
        inputs = None if X is None else list(network.layer_inputs(dense_rows(estimator, X)))
        first = np.abs(np.concatenate([side.hyperplanes[:, 1:] for side in network.layers[0].sides]))
        spread = np.ones(len(names)) if inputs is None else np.asarray(inputs[0]).std(axis=0)
        order = np.argsort(-(first * spread).max(axis=0), kind="stable")
        chosen = sorted(int(j) for j in order[:MAX_INPUTS])
        nodes = [Node(f"f{j}", 0, (i + 0.5) / len(chosen), names[j]) for i, j in enumerate(chosen)]
        edges: list[Edge] = []
        wires = [f"f{j}" for j in range(len(names))]
        previous = wires
        for t, layer in enumerate(network.layers, 1):
            n_units, i, newest = sum(layer.n_experts), 0, []
            scale = np.ones(len(wires)) if inputs is None else np.asarray(inputs[t - 1]).std(axis=0)
            for s, side in enumerate(layer.sides):
                for k in range(side.n_experts):
                    key = f"u{t}.{s}.{k}"
                    weight = float(side.expert_weights[k])
                    nodes.append(Node(key, t, (i + 0.5) / n_units, f"{sides[s]}: {k + 1}", s, weight))
                    edges += _edges(side.hyperplanes[k, 1:] * scale, wires, key)
                    newest.append(key)
                    i += 1
            kept = {"last_two": previous, "none": [], "all": wires}[network.skip]
            if t < network.depth:
                wires, previous = kept + newest, newest
        top = network.top.sides
        for s, side in enumerate(top):
            nodes.append(Node(f"c{s}", network.depth + 1, (s + 0.5) / len(top), str(sides[s]), s))
            largest = float(side.expert_weights.max(initial=1e-300))
            for k, weight in enumerate(side.expert_weights.tolist()):
                edges.append(Edge(f"u{network.depth}.{s}.{k}", f"c{s}", weight / largest))
        drawn = {node.key for node in nodes}
        edges = [edge for edge in edges if edge.source in drawn]
        display = cls(nodes, edges, network.depth, len(names) - len(chosen))
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "NetworkDiagramDisplay":
        """Columns from the features to the classes; red edges raise a unit, blue ones lower it."""
        tallest = max(sum(node.layer == t for node in self.nodes) for t in range(self.depth + 2))
        self.figure_, self.ax_ = axes(ax, figsize=(2.0 + 1.7 * (self.depth + 1), max(3.6, 0.26 * tallest)))
        place = {node.key: (node.layer, 1.0 - node.place) for node in self.nodes}
        for edge in self.edges:
            (x0, y0), (x1, y1) = place[edge.source], place[edge.target]
            colour = RAISES if edge.strength > 0 else LOWERS
            size = abs(edge.strength)
            self.ax_.plot([x0, x1], [y0, y1], color=colour, linewidth=1.5 * size, alpha=0.2 + 0.6 * size, zorder=1)
        paper = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.8}
        for node in self.nodes:
            x, y = place[node.key]
            face = "white" if node.side < 0 else f"C{(node.side + 1) % 10}"
            self.ax_.scatter([x], [y], s=60, color=face, edgecolor="black", zorder=3)
            self.ax_.annotate(
                shown(node.label, 24), (x, y), xytext=(-7 if node.layer == 0 else 7, 0), textcoords="offset points",
                ha="right" if node.layer == 0 else "left", va="center", fontsize=7, bbox=paper, zorder=2,
            )  # fmt: skip
        heads = ["features", *(f"layer {t}" for t in range(1, self.depth + 1)), "classes"]
        for t, head in enumerate(heads):
            self.ax_.text(t, 1.04, head, ha="center", va="bottom", fontsize=8, fontweight="bold")
        left_out = f"; {self.n_hidden} weaker features left out" if self.n_hidden else ""
        for colour, text in ((RAISES, "raises the unit"), (LOWERS, "lowers it" + left_out)):
            self.ax_.plot([], [], color=colour, label=text)
        self.ax_.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, frameon=False, fontsize=8)
        self.ax_.set(xlim=(-0.9, self.depth + 1.7), ylim=(-0.02, 1.1))
        self.ax_.set_axis_off()
        return self

    def table(self) -> Any:
        """One line per connection drawn."""
        names = {node.key: (node.layer, node.label) for node in self.nodes}
        return frame(
            {
                "from layer": [names[edge.source][0] for edge in self.edges],
                "from": [names[edge.source][1] for edge in self.edges],
                "to layer": [names[edge.target][0] for edge in self.edges],
                "to": [names[edge.target][1] for edge in self.edges],
                "strength": [edge.strength for edge in self.edges],
            }
        )


def _edges(strengths: Any, wires: list[str], key: str) -> list[Edge]:
    largest = float(np.abs(strengths).max(initial=0.0))
    if largest == 0.0:
        return []
    relative = np.asarray(strengths) / largest
    return [Edge(wires[j], key, float(value)) for j, value in enumerate(relative) if abs(value) >= FAINT]
