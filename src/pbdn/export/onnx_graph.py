"""The nodes of an ONNX graph; made of them, the elementary functions of a network and what is predicted on a line."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.export.plan import FARTHEST, MEDIAN, N_HALVINGS, WIDEST, Plan, bounds_of_quantile
from pbdn.model.distribution import NEGLIGIBLE, NODE_WEIGHTS, NODES, SPOTS, TAIL
from pbdn.numerics.first_point import LOG_IS_LINEAR, ROUNDING, just_below

ML_OPSET = 2  # of the operators for tables, where columns are prepared
NODES_AT_ONCE = 12  # of the integral that is a mean, so that not all need memory together


class Graph:
    """Inputs, nodes and constants under fresh names; ``dtype`` is the precision of the computation.

    ``outputs`` are names that no input may have.
    """

    def __init__(self, onnx: Any, dtype: np.dtype[Any], outputs: Sequence[str]) -> None:
        self.onnx = onnx
        self.dtype = dtype
        self.inputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.more_opsets: list[Any] = []
        self._names = set(outputs)

    def input(self, name: str, dtype: np.dtype[Any] | None, width: int) -> str:
        """Add an input of shape (n, width), strings without a ``dtype``; its name, which may have a number behind it."""
        helper = self.onnx.helper
        kind = self.onnx.TensorProto.STRING if dtype is None else helper.np_dtype_to_tensor_dtype(dtype)
        name = self._fresh(name or "column")  # ONNX has no empty names
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["n", width]))
        return name

    def codes(self, tensor: str, keys: Sequence[str] | Sequence[int], values: Sequence[int], default: int) -> str:
        """Whole numbers for strings, or for other whole numbers."""
        if not self.more_opsets:
            self.more_opsets.append(self.onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET))
        kind = "keys_strings" if isinstance(keys[0], str) else "keys_int64s"
        table = {kind: list(keys), "values_int64s": list(values), "default_int64": default}
        return self._add("LabelEncoder", [tensor], None, {**table, "domain": "ai.onnx.ml"})

    def op(self, kind: str, *inputs: str, to: str | None = None, **attributes: Any) -> str:
        """Add a node; the name of its output."""
        return self._add(kind, list(inputs), to, attributes)

    def constant(self, array: NDArray[Any]) -> str:
        """Add an array; its name."""
        name = self._fresh(f"c{len(self.constants)}")
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def number(self, value: Any) -> str:
        """A real constant in the precision of the computation."""
        return self.constant(np.array(value, dtype=self.dtype))

    def cast(self, tensor: str, dtype: np.dtype[Any], to: str | None = None) -> str:
        """A tensor in another precision."""
        return self._add("Cast", [tensor], to, {"to": self.onnx.helper.np_dtype_to_tensor_dtype(dtype)})

    def repeated(self, times: int, step: Callable[..., Sequence[str]], *states: str) -> list[str]:
        """Real tensors once a step has been taken many times; ``step`` makes the nodes of one, from names to names."""
        helper, types = self.onnx.helper, self.onnx.TensorProto
        real = helper.np_dtype_to_tensor_dtype(self.dtype)

        def told(names: Sequence[str]) -> list[Any]:
            kinds: list[Any] = [(types.BOOL, []), *[(real, None)] * len(states)]
            return [helper.make_tensor_value_info(name, *kind) for name, kind in zip(names, kinds, strict=True)]

        around, self.nodes = self.nodes, []
        count, *before = (self._fresh(name) for name in ("count", "go_on", *["before"] * len(states)))
        after = [self.op("Identity", before[0]), *step(*before[1:])]
        counted = helper.make_tensor_value_info(count, types.INT64, [])
        body = helper.make_graph(self.nodes, "step", [counted, *told(before)], told(after))
        self.nodes = around
        begin = [self.constant(np.array(value)) for value in (np.int64(times), True)]
        outputs = [self._fresh("after") for _ in states]
        self.nodes.append(helper.make_node("Loop", [*begin, *states], outputs, name=f"node_{len(around)}", body=body))
        return outputs

    def _add(self, kind: str, inputs: list[str], to: str | None, attributes: dict[str, Any]) -> str:
        number = len(self.nodes)
        output = to or self._fresh(f"{kind.lower()}_{number}")
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], name=f"node_{number}", **attributes))
        return output

    def _fresh(self, name: str) -> str:
        fresh, count = name, 2
        while fresh in self._names:
            fresh, count = f"{name}_{count}", count + 1
        self._names.add(fresh)
        return fresh

    def softplus(self, distance: str) -> str:
        """max(ψ, 0) + log1p(e^{-|ψ|}); log1p(u) = u ln(w) / (w - 1) for w = 1 + u in floating point."""
        zero, one = self.number(0.0), self.number(1.0)
        u = self.op("Exp", self.op("Neg", self.op("Abs", distance)))
        w = self.op("Add", one, u)
        gap = self.op("Sub", w, one)
        lost = self.op("Equal", gap, zero)
        ratio = self.op("Div", self.op("Log", w), self.op("Where", lost, one, gap))
        log1p = self.op("Mul", u, self.op("Where", lost, one, ratio))
        return self.op("Add", self.op("Max", distance, zero), log1p)

    def probability(self, rate: str) -> str:
        """1 - e^{-λ} = 2 t / (1 + t) with t = tanh(λ/2), accurate for small λ."""
        t = self.op("Tanh", self.op("Mul", rate, self.number(0.5)))
        return self.op("Div", self.op("Add", t, t), self.op("Add", self.number(1.0), t))


class _Below:
    """P(U ≤ u) on the line at points (n, m), from the signed distances (n, n_units) of the top layer."""

    def __init__(self, graph: Graph, distances: str, planned: Plan) -> None:
        top, self.graph = planned.layers[-1], graph
        self.between, self.behind = (graph.constant(np.array([axis], dtype=np.int64)) for axis in (1, 2))
        self.distances = graph.op("Unsqueeze", distances, self.between)
        self.coefs = graph.number(planned.time_coefs)
        weights = np.zeros((top.n_units, 2))
        for s, (first, last) in enumerate(top.sides):
            weights[first:last, s] = top.expert_weights[first:last]
        self.weights, self.mixing = graph.number(weights), graph.number([-0.5, 0.5])
        self.top = top
        self.zero, self.half, self.one = (graph.number(value) for value in (0.0, 0.5, 1.0))

    def at(self, points: str) -> str:
        """The probabilities."""
        op = self.graph.op
        moved = self._moved(points)
        small = op("Log", op("Add", self.one, op("Exp", op("Neg", op("Abs", moved)))))
        rates = op("MatMul", op("Add", op("Max", moved, self.zero), small), self.weights)
        return op("Add", op("MatMul", op("Exp", op("Neg", rates)), self.mixing), self.half)

    def lead(self, points: str) -> str:
        """Above 0 before the median, and below 0 after it.

        Both sides have the same rate there, though P may be ½ far around it; logarithms tell tiny rates apart.
        """
        op = self.graph.op
        moved, (log_weights, linear) = self._moved(points), self._of_logs
        tiny = op("Less", moved, linear)
        logs = op("Where", tiny, moved, op("Log", self.graph.softplus(op("Where", tiny, self.zero, moved))))
        parts = op("Add", logs, log_weights)
        first, second = (op("ReduceLogSumExp", side, axes=[2], keepdims=0) for side in self._of_sides(parts))
        return op("Sub", second, first)

    def _moved(self, points: str) -> str:
        """Signed distances at the points, (n, m, n_units)."""
        op = self.graph.op
        return op("Add", self.distances, op("Mul", op("Unsqueeze", points, self.behind), self.coefs))

    @cached_property
    def _of_logs(self) -> tuple[str, str]:
        """Logarithms of the weights, and where the logarithm of a softplus is linear."""
        return self.graph.number(np.log(self.top.expert_weights)), self.graph.number(LOG_IS_LINEAR)

    @cached_property
    def _places(self) -> list[list[str]]:
        """Where the units of each side begin and end."""
        return [[self.graph.constant(np.array([end], dtype=np.int64)) for end in side] for side in self.top.sides]

    def _of_sides(self, units: str) -> list[str]:
        """Units of each side."""
        return [self.graph.op("Slice", units, *place, self.behind) for place in self._places]

    def more(self, points: str) -> str:
        """P(U > u)."""
        return self.graph.op("Sub", self.one, self.at(points))

    def density(self, points: str) -> str:
        """The density."""
        op = self.graph.op
        moved = self._moved(points)
        rates = op("MatMul", self.graph.softplus(moved), self.weights)
        slopes = op("MatMul", op("Mul", op("Sigmoid", moved), op("Abs", self.coefs)), self.weights)
        both = op("Mul", slopes, op("Exp", op("Neg", rates)))
        return op("Mul", self.half, op("ReduceSum", both, self.behind, keepdims=0))

    def ends(self, planned: Plan, levels: Sequence[float]) -> tuple[str, str]:
        """Between which u with these probabilities lies, each of shape (n, n_levels)."""
        graph, op = self.graph, self.graph.op
        bounds = np.stack([bounds_of_quantile(planned, level) for level in levels])  # (levels, low or high, units)
        ends = []
        for values in (bounds[:, 0], bounds[:, 1]):
            found = op("Div", op("Sub", graph.number(values), self.distances), self.coefs)
            for name, side in zip(("ReduceMin", "ReduceMax"), self._of_sides(found), strict=True):
                ends.append(op(name, side, axes=[2], keepdims=0))
        return op("Min", ends[0], ends[3]), op("Max", ends[1], ends[2])


def _search(graph: Graph, lead: Callable[[str], str], low: str, high: str) -> str:
    """Where ``lead`` falls below 0, by halving intervals."""
    op, half, zero = graph.op, graph.number(0.5), graph.number(0.0)

    def step(width: str, u: str) -> tuple[str, str]:
        width = op("Mul", width, half)
        return width, op("Add", u, op("Where", op("Greater", lead(u), zero), width, op("Neg", width)))

    width = op("Mul", op("Sub", high, low), half)
    return graph.repeated(N_HALVINGS, step, width, op("Add", low, width))[1]


def grades(graph: Graph, distances: str, planned: Plan) -> str:
    """Probabilities of the grades, shape (n, n_grades)."""
    assert planned.line is not None
    below = _Below(graph, distances, planned)
    first = graph.op("Slice", distances, *(graph.constant(np.array([v], dtype=np.int64)) for v in (0, 1, 1)))
    nothing = graph.op("Mul", first, below.zero)  # one zero per row
    ends = [nothing, graph.op("Add", nothing, below.one)]
    if planned.line.cuts:
        ends.insert(1, below.at(graph.op("Add", nothing, graph.number([planned.line.cuts]))))
    n, all_of = len(planned.line.cuts) + 1, graph.op("Concat", *ends, axis=1)
    return graph.op("MatMul", all_of, graph.number(np.eye(n + 1, n, -1) - np.eye(n + 1, n)))


def numbers(
    graph: Graph,
    parts: Sequence[tuple[str, Plan]],
    dtype: "np.dtype[Any]",
    levels: Sequence[float],
    points: Sequence[float],
    share: str | None = None,
) -> dict[str, list[Any]]:
    """Mean, quantiles and probabilities of more than some points of the line; their shapes.

    Of several parts, which are signed distances (n, n_units) and their plan, those of the first value of all, and of each how
    probable it is up to the points. With ``share`` (n, 1) the number has a part only with this probability, and is 0 else.
    """
    planned, op = parts[0][1], graph.op
    line, reach = planned.line, min([FARTHEST, *(one.line.reach for _, one in parts if one.line is not None)])
    assert line is not None
    each = [_Below(graph, distances, one) for distances, one in parts]
    below, n = each[0], len(levels)

    def more(u: str) -> str:
        found = each[0].more(u)
        for one in each[1:]:
            found = op("Mul", found, one.more(u))
        return found

    def value(u: str) -> str:
        y = op("Add", op("Mul", u, graph.number(line.scale)), graph.number(line.center))
        return op("Exp", y) if line.log else y

    def columns(values: str, first: int, last: int) -> str:
        ends = [graph.constant(np.array([end], dtype=np.int64)) for end in (first, last)]
        return op("Slice", values, *ends, below.between)

    all_levels = [*levels, TAIL, 1.0 - TAIL]
    several = len(parts) > 1
    wanted = graph.number([[1.0 - (just_below(q) if several else q) for q in all_levels]])
    if share is not None:
        tails = graph.number([[0.0] * n + [1.0] * 2])  # the mean is that of the part
        of = op("Add", op("Mul", share, graph.number([[1.0] * n + [0.0] * 2])), tails)
        wanted = op("Min", op("Div", wanted, of), below.one)
        next_to = op("Mul", op("Sub", below.one, wanted), graph.number(ROUNDING))
        wanted = op("Mul", wanted, op("Add", below.one, next_to))
    alone = not several and share is None
    if alone:
        low, high = below.ends(planned, all_levels)
    else:
        ends = [
            (one.ends(own, [WIDEST])[0], one.ends(own, [1.0 - WIDEST])[1])
            for one, (_, own) in zip(each, parts, strict=True)
        ]
        low, high = (op("Min", *side) if len(each) > 1 else side[0] for side in zip(*ends, strict=True))
        wanted = op("Add", wanted, op("Mul", low, below.zero))
    found = _search(graph, lambda u: op("Sub", more(u), wanted), low, high)
    if alone and MEDIAN in levels:
        is_median = np.array([[level == MEDIAN for level in all_levels]])
        j = int(is_median.argmax())
        middle = _search(graph, below.lead, columns(low, j, j + 1), columns(high, j, j + 1))
        found = op("Where", graph.constant(is_median), middle, found)
    low, high = (columns(found, n + j, n + j + 1) for j in (0, 1))
    tail = low
    none = op("Mul", low, below.zero)  # one zero per row
    if planned.counts:
        whole = planned.counted_points
        low = op("Add", none, graph.number(whole[-1]))
        high = op("Max", low, op("Min", high, graph.number(reach)))
        chances = more(op("Add", none, graph.number([whole[:-1]])))
        mean = op("ReduceSum", chances, below.between, keepdims=1)
    else:
        if line.log:
            low, high = (op("Min", end, graph.number(reach)) for end in (low, high))
            low = op("Max", low, op("Sub", high, graph.number(NEGLIGIBLE / line.scale)))
        mean = value(low)
    half = op("Mul", op("Sub", high, low), below.half)
    for first in range(0, len(NODES), NODES_AT_ONCE):
        some = slice(first, first + NODES_AT_ONCE)
        u = op("Add", low, op("Mul", half, graph.number([1.0 + NODES[some]])))
        part = op("Mul", more(u), value(u)) if line.log else more(u)
        part = op("MatMul", part, graph.number(line.scale * NODE_WEIGHTS[some, None]))
        mean = op("Add", mean, op("Mul", half, part))
    if share is not None:
        mean = op("Mul", share, mean)
    graph.cast(op("Squeeze", mean, below.between), dtype, to="mean")
    shapes: dict[str, list[Any]] = {"mean": ["n"]}
    if n:
        values = value(columns(found, 0, n))
        if planned.counts:
            values = op("Max", op("Sub", op("Ceil", values), below.one), below.zero)
        if share is not None:
            there = op("Greater", share, graph.number([[1.0 - level for level in levels]]))
            values = op("Where", there, values, below.zero)
        graph.cast(values, dtype, to="quantiles")
        shapes["quantiles"] = ["n", n]
    if len(points):
        later = more(op("Add", none, graph.number([points])))
        graph.cast(later if share is None else op("Mul", share, later), dtype, to="probability_above")
        shapes["probability_above"] = ["n", len(points)]
    if len(points) and several:
        by_time = [_incidence(graph, each, more, tail, op("Add", none, graph.number([[u]]))) for u in points]
        graph.cast(op("Concat", *by_time, axis=2), dtype, to="incidence")
        shapes["incidence"] = ["n", len(parts), len(points)]
    return shapes


def _incidence(graph: Graph, each: Sequence[_Below], more: Callable[[str], str], low: str, end: str) -> str:
    """P(U ≤ u, by cause c) at one point u, (n, n_causes, 1), as in `pbdn.model.distribution.DistributionOfFirst.incidence`."""
    op, one = graph.op, each[0]
    low = op("Min", low, end)
    half = op("Mul", op("Sub", end, low), one.half)
    u = op("Add", low, op("Mul", half, graph.number([1.0 + SPOTS[0]])))
    later = [cause.more(u) for cause in each]
    chances = []
    for c, cause in enumerate(each):
        density = cause.density(u)
        for d, others in enumerate(later):
            density = density if d == c else op("Mul", density, others)
        area = op("Mul", half, op("MatMul", density, graph.number(SPOTS[1][:, None])))
        chances.append(op("Add", cause.at(low), area))
    found = op("Concat", *chances, axis=1)
    whole = op("Max", op("ReduceSum", found, one.between, keepdims=1), graph.number(1e-30))
    return op("Unsqueeze", op("Mul", op("Div", found, whole), op("Sub", one.one, more(end))), one.behind)
