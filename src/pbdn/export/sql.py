"""A network as one SELECT statement."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.export.plan import LEVELS, N_HALVINGS, Label, Plan, asked, bounds_of_quantile, number, plan
from pbdn.export.sql_text import (
    chosen,
    exponential,
    identifier,
    linear,
    lines,
    literal,
    probability,
    pulled_in,
    softplus,
    square,
    total,
)  # fmt: skip
from pbdn.model.distribution import NODE_WEIGHTS, NODES, TAIL
from pbdn.model.network import Network
from pbdn.model.pooling import NEWTON_STEPS, SMALLEST_CHANCE
from pbdn.model.response import OneSide, TwoClasses

Dialect = Literal["sqlite", "postgresql", "duckdb", "generic"]

_REAL = {
    "sqlite": "REAL",
    "postgresql": "DOUBLE PRECISION",
    "duckdb": "DOUBLE",
    "generic": "DOUBLE PRECISION",
}


def to_sql(
    network: Network,
    classes: Sequence[Any],
    feature_names: Sequence[str] | None = None,
    dialect: Dialect = "sqlite",
    table: str | None = None,
    *,
    keep: Sequence[str] = (),
    stand_ins: Sequence[float] | None = None,
    quantiles: Sequence[float] = LEVELS,
    above: Sequence[float] = (),
    counts: bool = False,
) -> str:
    """One SELECT that gives ``probability_<class>`` for every class and ``label`` for every row of a table.

    Numbers, which have no ``classes``, give ``mean``, ``quantile_<q>`` and ``probability_above_<y>``. Quantiles are found by a
    recursive expression (WITH RECURSIVE), so a row takes much longer than with classes.

    Each layer is a common table expression, so the statement grows with the number of weights only. Engines
    that copy expressions into each other would undo that, so the expressions are MATERIALIZED, or in the
    generic dialect hold a window function. A row with a NULL among the features in use gives NULL, unless there are
    ``stand_ins``. In SQLite a text that is no number counts as NULL.

    Parameters
    ----------
    network : Network
    classes : sequence
        One label per class or grade. Empty: numbers.
    feature_names : sequence of str, optional
        Columns of the table; default x0, x1, ….
    dialect : {"sqlite", "postgresql", "duckdb", "generic"}
        SQLite needs its mathematical functions ``exp`` and ``ln`` (3.35 or later, compiled in as usual;
        otherwise register them, in Python with ``connection.create_function``). PostgreSQL: 12 or later.
    table : str, optional
        Table or view that holds the rows; default ``data``.
    keep : sequence of str
        Columns to pass through (a key).
    stand_ins : sequence of float, optional
        One number per feature, in the place of NULL.
    quantiles, above : sequences of float
        Of numbers: which quantiles are given, and for which values y the probability of more than y.
    counts : bool
        Whether the numbers stand for counts.
    """
    if dialect not in get_args(Dialect):
        raise InvalidInputError(f"dialect={dialect!r} is not one of {', '.join(get_args(Dialect))}.")
    planned = plan(network, classes, feature_names, stand_ins, counts)
    fence = "AS" if dialect == "generic" else "AS MATERIALIZED"
    source = identifier("data" if table is None else table)
    first = [f"src.{identifier(name)} AS k{j}" for j, name in enumerate(keep)]
    numbers = [_number(f"src.{identifier(name)}", dialect) for name in planned.feature_names]
    if planned.stand_ins is not None:
        numbers = [f"COALESCE({x}, {number(fill)})" for x, fill in zip(numbers, planned.stand_ins, strict=True)]
    first += [f"{x} AS x{j}" for j, x in enumerate(numbers)]
    steps = [(first, f"{source} AS src")]
    keys = [f"k{j}" for j in range(len(keep))]
    levels, points = asked(planned, quantiles, above)
    for columns in _columns(planned, points):
        stop = [f"COUNT(*) OVER () AS f{len(steps)}"] if dialect == "generic" else []
        steps.append(([*keys, *columns, *stop] or ["0 AS no_column"], f"pbdn_{len(steps)}"))
    expressions = [
        f"pbdn_{i} {fence} (\n  SELECT {lines(columns)}\n  FROM {origin})"
        for i, (columns, origin) in enumerate(steps, 1)
    ]
    outputs = [f"k{j} AS {identifier(name)}" for j, name in enumerate(keep)]
    if planned.gives_numbers:
        outputs += ['m.mean AS "mean"', *(f'f.q{j} AS "quantile_{level:g}"' for j, level in enumerate(levels))]
        outputs += [f'd.a{j} AS "probability_above_{y:g}"' for j, y in enumerate(above)]
        search = _search(planned, levels, f"pbdn_{len(steps)}", fence, dialect)
        scored = f"pbdn_{len(steps)} AS d LEFT JOIN pbdn_mean AS m ON m.i = d.i LEFT JOIN pbdn_found AS f ON f.i = d.i"
        return (
            "WITH RECURSIVE "
            + ",\n".join([*expressions, *search])
            + f"\nSELECT {lines(outputs)}\nFROM {scored}\nORDER BY d.i\n"
        )
    outputs += [f"c{c} AS {identifier(f'probability_{label}')}" for c, label in enumerate(planned.labels)]
    outputs.append(f'{_label(planned.labels)} AS "label"')
    return "WITH " + ",\n".join(expressions) + f"\nSELECT {lines(outputs)}\nFROM pbdn_{len(steps)}\n"


def _number(cell: str, dialect: Dialect) -> str:
    """The number in a cell; SQLite would make some number of any text, where other engines refuse."""
    real = f"CAST({cell} AS {_REAL[dialect]})"
    return f"CASE WHEN {real} = {cell} THEN {real} END" if dialect == "sqlite" else real


def _columns(planned: Plan, points: Sequence[float]) -> Iterator[list[str]]:
    """Columns of each step: tails, squares, distances and units of every layer with what later layers need, then pooling.

    Of numbers, the last step has the number i of the row, its signed distances and probabilities of more: a0, a1, …
    """
    if planned.long_tails:
        tamed = {
            j: pulled_in(f"((x{j} - {number(c)}) / {number(s)})", *powers) for j, c, s, *powers in planned.long_tails
        }
        yield [f"{tamed[j]} AS x{j}" if j in tamed else f"x{j}" for j in range(planned.n_features)]
    if planned.squares:
        features = [f"x{j}" for j in range(planned.n_features)]
        yield [*features, *(f"{square(f'x{j}', c, s)} AS q{j}" for j, c, s in planned.squares)]
    for t, layer in enumerate(planned.layers, 1):
        names = [name for source in layer.sources for name in _names(planned, source)]
        later = {source for above in planned.layers[t:] for source in above.sources if source < t}
        kept = [name for source in sorted(later) for name in _names(planned, source)]
        rows = enumerate(layer.hyperplanes.tolist())
        yield [*kept, *(f"{linear(row[1:], names, row[0])} AS z{t}_{k}" for k, row in rows)]
        if planned.line is not None and t == len(planned.layers):
            break
        yield [*kept, *(f"{softplus(f'z{t}_{k}')} AS h{t}_{k}" for k in range(layer.n_units))]
    if planned.line is None:
        yield from _pooling(planned)
    elif planned.labels:
        yield from _rates_at(planned, planned.line.cuts, [])
        below = [f"{exponential(f'-s{j}')} + {probability(f'r{j}')}" for j in range(len(planned.line.cuts))]
        yield [f"5e-1 * ({text}) AS b{j}" for j, text in enumerate(below)]
        ends = ["0e0", *(f"b{j}" for j in range(len(below))), "1e0"]
        yield [f"{b} - {a} AS c{j}" for j, (a, b) in enumerate(pairwise(ends))]
    else:
        distances = _distances(planned)
        yield [*distances, "ROW_NUMBER() OVER () AS i"]
        yield from _rates_at(planned, points, [*distances, "i"])
        more = [f"{exponential(f'-r{j}')} + {probability(f's{j}')}" for j in range(len(points))]
        yield [*distances, "i", *(f"5e-1 * ({text}) AS a{j}" for j, text in enumerate(more))]


def _rates_at(planned: Plan, points: Sequence[float], kept: list[str]) -> Iterator[list[str]]:
    """Rates r0, r1, … and s0, s1, … of the two sides at some points of the line."""
    names, weights, coefs = _distances(planned), planned.layers[-1].expert_weights.tolist(), planned.time_coefs.tolist()
    out = []
    for j, u in enumerate(points):
        moved = [f"({z} + {number(tau * u)})" for z, tau in zip(names, coefs, strict=True)]
        for name, (a, b) in zip("rs", planned.layers[-1].sides, strict=True):
            units = [f"({softplus(z)})" for z in moved[a:b]]
            out.append(f"{linear(weights[a:b], units, 0.0)} AS {name}{j}")
    yield [*kept, *out]


def _distances(planned: Plan) -> list[str]:
    """Columns of the signed distances of the top layer."""
    return [f"z{len(planned.layers)}_{k}" for k in range(planned.layers[-1].n_units)]


def _search(planned: Plan, levels: Sequence[float], scored: str, fence: str, dialect: Dialect) -> list[str]:
    """Expressions with the quantiles q0, q1, … and the mean of every row, from the signed distances in ``scored``."""
    line = planned.line
    assert line is not None
    least, most = ("MIN", "MAX") if dialect == "sqlite" else ("LEAST", "GREATEST")

    def value(u: str) -> str:
        y = f"{number(line.center)} + {number(line.scale)} * {u}"
        return f"exp({least}({most}({y}, -2e2), 7e2))" if line.log else f"({y})"  # PostgreSQL refuses to underflow

    all_levels = [*levels, TAIL, 1.0 - TAIL]
    starts = [_start(planned, j, level, scored, least, most) for j, level in enumerate(all_levels)]
    step = f"CASE WHEN {_above(planned, 's.u', least, most)} > s.p THEN s.w ELSE -s.w END"
    found = [f"MAX(CASE WHEN j = {j} THEN u END)" for j in range(len(all_levels))]
    values, (low, high), start = [value(u) for u in found[:-2]], found[-2:], value("f.lo")
    nodes = [f"({number(x)}, {number(w)})" for x, w in zip(1.0 + NODES, NODE_WEIGHTS, strict=True)]
    tables = [f"pbdn_nodes(x, w) AS (VALUES {', '.join(nodes)})"]
    u = "(f.lo + 5e-1 * (f.hi - f.lo) * o.x)"
    slope = f"{number(line.scale)} * {value(u)}" if line.log else number(line.scale)
    points = f"SELECT f.i AS i, {u} AS u, 5e-1 * (f.hi - f.lo) * o.w * {slope} AS w FROM pbdn_found AS f CROSS JOIN pbdn_nodes AS o"
    if planned.counts:
        values, start = [f"{most}(ceil({y}) - 1e0, 0e0)" for y in values], "0e0"
        low, high = number(planned.counted_points[-1]), f"{most}({high}, {number(planned.counted_points[-1])})"
        tables.append(f"pbdn_counts(u) AS (VALUES {', '.join(f'({number(c)})' for c in planned.counted_points[:-1])})")
        points += " UNION ALL\n  SELECT f.i, c.u, 1e0 FROM pbdn_found AS f CROSS JOIN pbdn_counts AS c"
    elif line.reach < np.inf:
        low, high = (f"{least}({end}, {number(line.reach)})" for end in (low, high))
    columns = [*(f"{y} AS q{j}" for j, y in enumerate(values)), f"{low} AS lo", f"{high} AS hi"]
    area = f"SUM(p.w * {_above(planned, 'p.u', least, most)})"
    return [
        f"pbdn_start {fence} (\n  " + " UNION ALL\n  ".join(starts) + ")",
        "pbdn_search AS (\n  SELECT i, j, p, 5e-1 * (lo + hi) AS u, 25e-2 * (hi - lo) AS w, 0 AS n FROM pbdn_start UNION ALL\n"
        f"  SELECT s.i, s.j, s.p, s.u + {step}, 5e-1 * s.w, s.n + 1\n"
        f"  FROM pbdn_search AS s JOIN {scored} AS d ON d.i = s.i WHERE s.n < {N_HALVINGS})",
        f"pbdn_found {fence} (\n  SELECT i, {lines(columns)}\n  FROM pbdn_search WHERE n = {N_HALVINGS} GROUP BY i)",
        *tables,
        f"pbdn_points {fence} (\n  {points})",
        f"pbdn_area {fence} (\n  SELECT p.i AS i, {area} AS area FROM pbdn_points AS p JOIN {scored} AS d ON d.i = p.i GROUP BY p.i)",
        f"pbdn_mean {fence} (\n  SELECT f.i AS i, {start} + a.area AS mean FROM pbdn_found AS f JOIN pbdn_area AS a ON a.i = f.i)",
    ]


def _start(planned: Plan, j: int, level: float, scored: str, least: str, most: str) -> str:
    """An interval from lo to hi that holds a quantile, for rows without NULL."""
    names, coefs = _distances(planned), planned.time_coefs.tolist()
    ends = []
    for bounds in bounds_of_quantile(planned, level):
        found = zip(bounds.tolist(), coefs, names, strict=True)
        texts = [f"{number(bound / tau)} - {number(1.0 / tau)} * {z}" for bound, tau, z in found]
        for choose, (a, b) in zip((least, most), planned.layers[-1].sides, strict=True):
            ends.append(chosen(choose, texts[a:b]))
    low, high = chosen(least, [ends[0], ends[3]]), chosen(most, [ends[1], ends[2]])
    more = number(1.0 - level)
    return f"SELECT i, {j} AS j, {more} AS p, {low} AS lo, {high} AS hi FROM {scored} WHERE {total(names)} IS NOT NULL"


def _above(planned: Plan, u: str, least: str, most: str) -> str:
    """P(U > u) on the line; signed distances are columns of d."""
    names, weights, coefs = _distances(planned), planned.layers[-1].expert_weights.tolist(), planned.time_coefs.tolist()
    moved = [f"(d.{z} + {number(tau)} * {u})" for z, tau in zip(names, coefs, strict=True)]
    units = [f"({most}({z}, 0e0) + ln(1e0 + exp(-{least}(abs({z}), 2e2))))" for z in moved]
    rates = [linear(weights[a:b], units[a:b], 0.0) for a, b in planned.layers[-1].sides]
    first, second = (f"exp(-{least}({rate}, 2e2))" for rate in rates)
    return f"5e-1 * (1e0 - {second} + {first})"


def _names(planned: Plan, source: int) -> list[str]:
    if source:
        return [f"h{source}_{k}" for k in range(planned.widths[source])]
    return [*(f"x{j}" for j in range(planned.n_features)), *(f"q{j}" for j, _, _ in planned.squares)]


def _pooling(planned: Plan) -> Iterator[list[str]]:
    """Rates and probabilities of the sides, then c0, c1, …: the probabilities of the classes."""
    top, t, sides = planned.layers[-1], len(planned.layers), range(planned.n_sides)
    weights, units = top.expert_weights.tolist(), _names(planned, t)
    rates = [f"r{s}" for s in sides]
    yield [f"{linear(weights[a:b], units[a:b], 0.0)} AS r{s}" for s, (a, b) in enumerate(top.sides)]
    yield [*rates, *(f"{probability(f'r{s}')} AS p{s}" for s in sides)]
    if planned.response == OneSide.kind:
        yield ["1e0 - p0 AS c0", "p0 AS c1"]
    elif planned.response == TwoClasses.kind:
        yield ["5e-1 * (p0 + (1e0 - p1)) AS c0", "5e-1 * (p1 + (1e0 - p0)) AS c1"]
    else:
        yield from _pool_pairs(len(sides) // 2)


def _pool_pairs(n: int) -> Iterator[list[str]]:
    """As `pbdn.model.pooling.pool_pairs`: odds o0, o1, … of n classes, that of the best, Newton's steps, c0, c1, …"""
    classes, others = range(n), [f"a{s}" for s in range(n)]
    chances = [(f"y{s}", f"p{s} + {exponential(f'-r{s + n}')}") for s in classes]
    chances += [(f"n{s}", f"{exponential(f'-r{s}')} + p{s + n}") for s in classes]
    yield [f"{text} AS {name}" for name, text in chances]
    yield [f"{_at_least(f'y{s}')} / {_at_least(f'n{s}')} AS o{s}" for s in classes]
    odds = [f"o{s}" for s in classes]
    yield [*odds, f"CASE {_first_largest(odds, [str(s) for s in classes])} END AS best"]
    yield [*odds, "best", f"CASE {_first_largest(odds, odds)} END AS o"]
    yield ["best", *(f"CASE WHEN best = {s} THEN 0e0 ELSE o{s} / o END AS a{s}" for s in classes)]
    yield ["best", *others, f"{total(others)} AS t"]
    yield ["best", *others, "2e0 / (t + sqrt(t * (t + 4e0))) AS w"]
    value = total([f"{a} / (1e0 + w * {a})" for a in others])
    slope = total([f"{a} * (1e0 + w * (2e0 + w * {a})) / ((1e0 + w * {a}) * (1e0 + w * {a}))" for a in others])
    for _ in range(NEWTON_STEPS):
        yield ["best", *others, f"w - (w * (1e0 + w) * {value} - 1e0) / {slope} AS w"]
    yield [f"CASE WHEN best = {s} THEN w ELSE w * a{s} END AS o{s}" for s in classes]
    yield [f"o{s} / (1e0 + o{s}) AS u{s}" for s in classes]
    yield [f"u{s} / {total([f'u{j}' for j in classes])} AS c{s}" for s in classes]


def _at_least(chance: str) -> str:
    least = number(SMALLEST_CHANCE)
    return f"(CASE WHEN {chance} < {least} THEN {least} ELSE {chance} END)"


def _label(labels: Sequence[Label]) -> str:
    names = [f"c{c}" for c in range(len(labels))]
    nothing = " OR ".join(f"{name} IS NULL" for name in names)
    return f"CASE WHEN {nothing} THEN NULL {_first_largest(names, [literal(label) for label in labels])} END"


def _first_largest(names: Sequence[str], results: Sequence[str]) -> str:
    """Branches of a CASE: the result of the largest, of the first among equals (a later one has lost before its turn)."""
    branches = [
        f"WHEN {' AND '.join(f'{name} >= {other}' for other in names[c + 1 :])} THEN {results[c]}"
        for c, name in enumerate(names[:-1])
    ]
    return f"{' '.join(branches)} ELSE {results[-1]}"
