"""A network as one SELECT statement."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

from pbdn.errors import InvalidInputError
from pbdn.export.plan import LEVELS, Label, Plan, Several, asked, number, plan
from pbdn.export.sql_text import (
    check_told_apart,
    distances_of,
    exponential,
    identifier,
    incidence,
    linear,
    lines,
    literal,
    probability,
    pulled_in,
    ramp,
    search,
    softplus,
    square,
    total,
)  # fmt: skip
from pbdn.model.network import Network
from pbdn.model.pooling import NEWTON_STEPS, SMALLEST_CHANCE
from pbdn.model.response import OneSide, SeveralClasses, TwoClasses

Dialect = Literal["sqlite", "postgresql", "duckdb", "generic"]

_REAL = {
    "sqlite": "REAL",
    "postgresql": "DOUBLE PRECISION",
    "duckdb": "DOUBLE",
    "generic": "DOUBLE PRECISION",
}


class Request(NamedTuple):
    """What is asked of several networks, as in `to_sql`; ``fence`` keeps an expression from being copied into others."""

    names: list[str]
    dialect: Dialect
    table: str | None
    keep: Sequence[str]
    stand_ins: Sequence[float] | None
    quantiles: Sequence[float]
    above: Sequence[float]
    fence: str


def to_sql(
    network: Network | Several,
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
    share: str | None = None,
) -> str:
    """One SELECT that gives ``probability_<class>`` for every class and ``label`` for every row of a table.

    Numbers, which have no ``classes``, give ``mean``, ``quantile_<q>`` and ``probability_above_<y>``. Quantiles are found by a
    recursive expression (WITH RECURSIVE), so a row takes much longer than with classes. Times with causes also give
    ``incidence_<cause>_<y>``, the probability of an event of the cause up to each of ``above``.

    Each layer is a common table expression, so the statement grows with the number of weights only. Engines
    that copy expressions into each other would undo that, so the expressions are MATERIALIZED, or in the
    generic dialect hold a window function. A row with a NULL among the features in use gives NULL, unless there are
    ``stand_ins``. In SQLite a text that is no number counts as NULL.

    Parameters
    ----------
    network : Network or Several
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
    share : str, optional
        Column with the probability that the number is not 0 instead.
    """
    if dialect not in get_args(Dialect):
        raise InvalidInputError(f"dialect={dialect!r} is not one of {', '.join(get_args(Dialect))}.")
    check_told_apart([*(feature_names or ()), *keep], dialect)
    fence = "AS" if dialect == "generic" else "AS MATERIALIZED"
    if isinstance(network, Several):
        names = [f"x{j}" for j in range(network.networks[0].n_features)] if feature_names is None else feature_names
        write = _causes if network.causes else _amounts
        return write(network, Request(list(names), dialect, table, keep, stand_ins, quantiles, above, fence))
    planned = plan(network, classes, feature_names, stand_ins, counts)
    n_kept, keep = len(keep), [*keep, *([] if share is None else [share])]
    levels, points = asked(planned, quantiles, above)
    expressions, last = _expressions(planned, _columns(planned, points), dialect, table, keep, fence)
    outputs = [f"k{j} AS {identifier(name)}" for j, name in enumerate(keep[:n_kept])]
    if planned.gives_numbers:
        more = None if share is None else f"d.k{n_kept}"
        found = [f"f.q{j}" for j in range(len(levels))]
        by = "" if more is None else f" * {more}"
        if more is not None:
            found = [
                f"CASE WHEN {more} > {number(1.0 - q)} THEN {f} ELSE 0e0 * {more} END"
                for q, f in zip(levels, found, strict=True)
            ]
        outputs += [f'm.mean{by} AS "mean"', *(f'{f} AS "quantile_{q:g}"' for q, f in zip(levels, found, strict=True))]
        outputs += [f'd.a{j}{by} AS "probability_above_{y:g}"' for j, y in enumerate(above)]
        made = search([(planned, distances_of(planned))], levels, last, fence, dialect, more)
        scored = f"{last} AS d LEFT JOIN pbdn_mean AS m ON m.i = d.i LEFT JOIN pbdn_found AS f ON f.i = d.i"
        return (
            "WITH RECURSIVE "
            + ",\n".join([*expressions, *made])
            + f"\nSELECT {lines(outputs)}\nFROM {scored}\nORDER BY d.i\n"
        )
    outputs += [f"c{c} AS {identifier(f'probability_{label}')}" for c, label in enumerate(planned.labels)]
    outputs.append(f'{_label(planned.labels)} AS "label"')
    return "WITH " + ",\n".join(expressions) + f"\nSELECT {lines(outputs)}\nFROM {last}\n"


def _expressions(
    planned: Plan,
    columns_of_steps: Iterator[list[str]],
    dialect: Dialect,
    table: str | None,
    keep: Sequence[str],
    fence: str,
) -> tuple[list[str], str]:
    """Common table expressions, a step each, and the name of the last; columns to keep are k0, k1, …"""
    first = [f"src.{identifier(name)} AS k{j}" for j, name in enumerate(keep)]
    cells = [_number(f"src.{identifier(name)}", dialect) for name in planned.feature_names]
    if planned.stand_ins is not None:
        cells = [f"COALESCE({x}, {number(fill)})" for x, fill in zip(cells, planned.stand_ins, strict=True)]
    first += [f"{x} AS x{j}" for j, x in enumerate(cells)]
    steps = [(first, f"{identifier('data' if table is None else table)} AS src")]
    keys = [f"k{j}" for j in range(len(keep))]
    for columns in columns_of_steps:
        stop = [f"COUNT(*) OVER () AS f{len(steps)}"] if dialect == "generic" else []
        steps.append(([*keys, *columns, *stop] or ["0 AS no_column"], f"pbdn_{len(steps)}"))
    made = [
        f"pbdn_{i} {fence} (\n  SELECT {lines(columns)}\n  FROM {origin})"
        for i, (columns, origin) in enumerate(steps, 1)
    ]
    return made, f"pbdn_{len(steps)}"


def _amounts(network: Several, request: Request) -> str:
    """Whether there is an amount in an expression of its own, beside the features, from which the amounts are scored."""
    (either, amount), labels = network.networks, network.labels[0]
    names, dialect, table, keep, stand_ins, quantiles, above, fence = request
    passed = list(dict.fromkeys([*keep, *names]))
    first = to_sql(either, labels, names, dialect, table, keep=passed, stand_ins=stand_ins)
    second = to_sql(
        amount, [], names, dialect, "pbdn_zero", keep=keep, stand_ins=stand_ins, quantiles=quantiles, above=above,
        share=f"probability_{labels[1]}",
    )  # fmt: skip
    return f"WITH RECURSIVE pbdn_zero {fence} (\n{first}),\n" + second.removeprefix("WITH RECURSIVE ")


def _causes(network: Several, request: Request) -> str:
    """The signed distances of every cause in an expression of its own, beside those of the causes before; then all together."""
    names, dialect, table, keep, stand_ins, quantiles, above, fence = request
    parts: list[tuple[Plan, list[str]]] = []
    passed, made = list(dict.fromkeys([*keep, *names])), []
    for c, one in enumerate(network.networks):
        planned = plan(one, [], names, stand_ins)
        steps, last = _expressions(planned, _columns(planned, None), dialect, table, passed, fence)
        own = [f"pbdn_c{c}_{k}" for k in range(planned.layers[-1].n_units)]
        columns = [f"k{j} AS {identifier(name)}" for j, name in enumerate(passed)]
        columns += [f"{z} AS {name}" for z, name in zip(distances_of(planned), own, strict=True)]
        inner = "WITH " + ",\n".join(steps) + f"\nSELECT {lines(columns)}\nFROM {last}"
        made.append(f"pbdn_cause{c} {fence} (\n{inner})")
        parts, passed, table = [*parts, (planned, own)], [*passed, *own], f"pbdn_cause{c}"
    levels, points = asked(parts[0][0], quantiles, above)
    scored = [
        *(f"src.{identifier(name)} AS k{j}" for j, name in enumerate(keep)),
        *(z for _, own in parts for z in own),
    ]
    made.append(
        f"pbdn_scored {fence} (\n  SELECT {lines([*scored, 'ROW_NUMBER() OVER () AS i'])}\n  FROM {table} AS src)"
    )
    made += search(parts, levels, "pbdn_scored", fence, dialect)
    joined = "pbdn_scored AS d LEFT JOIN pbdn_mean AS m ON m.i = d.i LEFT JOIN pbdn_found AS f ON f.i = d.i"
    outputs = [*(f"d.k{j} AS {identifier(name)}" for j, name in enumerate(keep)), 'm.mean AS "mean"']
    outputs += [f'f.q{j} AS "quantile_{level:g}"' for j, level in enumerate(levels)]
    if points:
        made += incidence(parts, points, "pbdn_scored", fence, dialect)
        joined += " LEFT JOIN pbdn_incidence AS n ON n.i = d.i"
        outputs += [f'n.s{j} AS "probability_above_{y:g}"' for j, y in enumerate(above)]
        shown = [
            (c, j, f"incidence_{cause}_{y:g}") for c, cause in enumerate(network.causes) for j, y in enumerate(above)
        ]
        outputs += [f"n.n{c}_{j} AS {identifier(name)}" for c, j, name in shown]
    return "WITH RECURSIVE " + ",\n".join(made) + f"\nSELECT {lines(outputs)}\nFROM {joined}\nORDER BY d.i\n"


def _number(cell: str, dialect: Dialect) -> str:
    """The number in a cell; SQLite would make some number of any text, where other engines refuse."""
    real = f"CAST({cell} AS {_REAL[dialect]})"
    return f"CASE WHEN {real} = {cell} THEN {real} END" if dialect == "sqlite" else real


def _columns(planned: Plan, points: Sequence[float] | None) -> Iterator[list[str]]:
    """Columns of each step: tails, squares or ramps, distances and units of every layer with what later layers need, then pooling.

    Of numbers, the last step has the number i of the row, its signed distances and probabilities of more: a0, a1, …; without
    ``points``, the signed distances alone.
    """
    if planned.long_tails:
        tamed = {
            j: pulled_in(f"((x{j} - {number(c)}) / {number(s)})", *powers) for j, c, s, *powers in planned.long_tails
        }
        yield [f"{tamed[j]} AS x{j}" if j in tamed else f"x{j}" for j in range(planned.n_features)]
    if planned.bent:
        features, bend = [f"x{j}" for j in range(planned.n_features)], ramp if planned.has_ramps else square
        yield [*features, *(f"{bend(f'x{j}', c, s)} AS q{i}" for i, (j, c, s) in enumerate(planned.bent))]
    for t, layer in enumerate(planned.layers, 1):
        names = [name for source in layer.sources for name in _names(planned, source)]
        later = {source for above in planned.layers[t:] for source in above.sources if source < t}
        kept = [name for source in sorted(later) for name in _names(planned, source)]
        rows = enumerate(layer.hyperplanes.tolist())
        yield [*kept, *(f"{linear(row[1:], names, row[0])} AS z{t}_{k}" for k, row in rows)]
        if planned.line is not None and t == len(planned.layers):
            break
        yield [*kept, *(f"{softplus(f'z{t}_{k}')} AS h{t}_{k}" for k in range(layer.n_units))]
    if points is None:
        return
    if planned.line is None:
        yield from _pooling(planned)
    elif planned.labels:
        yield from _rates_at(planned, planned.line.cuts, [])
        below = [f"{exponential(f'-s{j}')} + {probability(f'r{j}')}" for j in range(len(planned.line.cuts))]
        yield [f"5e-1 * ({text}) AS b{j}" for j, text in enumerate(below)]
        ends = ["0e0", *(f"b{j}" for j in range(len(below))), "1e0"]
        yield [f"{b} - {a} AS c{j}" for j, (a, b) in enumerate(pairwise(ends))]
    else:
        distances = distances_of(planned)
        yield [*distances, "ROW_NUMBER() OVER () AS i"]
        yield from _rates_at(planned, points, [*distances, "i"])
        more = [f"{exponential(f'-r{j}')} + {probability(f's{j}')}" for j in range(len(points))]
        yield [*distances, "i", *(f"5e-1 * ({text}) AS a{j}" for j, text in enumerate(more))]


def _rates_at(planned: Plan, points: Sequence[float], kept: list[str]) -> Iterator[list[str]]:
    """Rates r0, r1, … and s0, s1, … of the two sides at some points of the line."""
    names, weights, coefs = (
        distances_of(planned),
        planned.layers[-1].expert_weights.tolist(),
        planned.time_coefs.tolist(),
    )
    out = []
    for j, u in enumerate(points):
        moved = [f"({z} + {number(tau * u)})" for z, tau in zip(names, coefs, strict=True)]
        for name, (a, b) in zip("rs", planned.layers[-1].sides, strict=True):
            units = [f"({softplus(z)})" for z in moved[a:b]]
            out.append(f"{linear(weights[a:b], units, 0.0)} AS {name}{j}")
    yield [*kept, *out]


def _names(planned: Plan, source: int) -> list[str]:
    if source:
        return [f"h{source}_{k}" for k in range(planned.widths[source])]
    return [*(f"x{j}" for j in range(planned.n_features)), *(f"q{i}" for i in range(len(planned.bent)))]


def _pooling(planned: Plan) -> Iterator[list[str]]:
    """Rates r0, r1, … of the answers, how likely each side says yes (p0, p1, …) and no (e0, e1, …), then c0, c1, …: the
    probabilities of the classes.
    """
    top, t, n = planned.layers[-1], len(planned.layers), planned.layers[-1].n_averaged
    weights, units = top.expert_weights.tolist(), _names(planned, t)
    yield [f"{linear(weights[a:b], units[a:b], 0.0)} AS r{k}" for k, (a, b) in enumerate(top.answers)]
    of_side = [[f"r{n * s + m}" for m in range(n)] for s in range(planned.n_sides)]
    yes = [f"{_average([probability(rate) for rate in rates])} AS p{s}" for s, rates in enumerate(of_side)]
    no = [f"{_average([exponential(f'-{rate}') for rate in rates])} AS e{s}" for s, rates in enumerate(of_side)]
    yield yes + (no if planned.response == SeveralClasses.kind else [])
    if planned.response == OneSide.kind:
        yield ["1e0 - p0 AS c0", "p0 AS c1"]
    elif planned.response == TwoClasses.kind:
        yield ["5e-1 * (p0 + (1e0 - p1)) AS c0", "5e-1 * (p1 + (1e0 - p0)) AS c1"]
    else:
        yield from _pool_pairs(planned.n_sides // 2)


def _average(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{total([f'({text})' for text in texts])} / {number(len(texts))}"


def _pool_pairs(n: int) -> Iterator[list[str]]:
    """As `pbdn.model.pooling.pool_pairs`: odds o0, o1, … of n classes, that of the best, Newton's steps, c0, c1, …"""
    classes, others = range(n), [f"a{s}" for s in range(n)]
    chances = [(f"y{s}", f"p{s} + e{s + n}") for s in classes]
    chances += [(f"n{s}", f"e{s} + p{s + n}") for s in classes]
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
