"""A network as one SELECT statement."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from pbdn.errors import InvalidInputError
from pbdn.export.plan import Label, Plan, number, plan
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
_GROUP = 100  # terms per parenthesis: engines limit the depth of an expression (SQLite, DuckDB: 1000)


def to_sql(
    network: Network,
    classes: Sequence[Any],
    feature_names: Sequence[str] | None = None,
    dialect: Dialect = "sqlite",
    table: str | None = None,
    *,
    keep: Sequence[str] = (),
    stand_ins: Sequence[float] | None = None,
) -> str:
    """One SELECT that gives ``probability_<class>`` for every class and ``label`` for every row of a table.

    Each layer is a common table expression, so the statement grows with the number of weights only. Engines
    that copy expressions into each other would undo that, so the expressions are MATERIALIZED, or in the
    generic dialect hold a window function. A row with a NULL among the features in use gives NULL, unless there are
    ``stand_ins``. In SQLite a text that is no number counts as NULL.

    Parameters
    ----------
    network : Network
    classes : sequence
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
    """
    if dialect not in get_args(Dialect):
        raise InvalidInputError(f"dialect={dialect!r} is not one of {', '.join(get_args(Dialect))}.")
    planned = plan(network, classes, feature_names, stand_ins)
    fence = "AS" if dialect == "generic" else "AS MATERIALIZED"
    source = identifier("data" if table is None else table)
    first = [f"src.{identifier(name)} AS k{j}" for j, name in enumerate(keep)]
    numbers = [_number(f"src.{identifier(name)}", dialect) for name in planned.feature_names]
    if planned.stand_ins is not None:
        numbers = [f"COALESCE({x}, {number(fill)})" for x, fill in zip(numbers, planned.stand_ins, strict=True)]
    first += [f"{x} AS x{j}" for j, x in enumerate(numbers)]
    steps = [(first, f"{source} AS src")]
    keys = [f"k{j}" for j in range(len(keep))]
    for columns in _columns(planned):
        stop = [f"COUNT(*) OVER () AS f{len(steps)}"] if dialect == "generic" else []
        steps.append(([*keys, *columns, *stop] or ["0 AS no_column"], f"pbdn_{len(steps)}"))
    expressions = ",\n".join(
        f"pbdn_{i} {fence} (\n  SELECT {_lines(columns)}\n  FROM {origin})"
        for i, (columns, origin) in enumerate(steps, 1)
    )
    outputs = [f"k{j} AS {identifier(name)}" for j, name in enumerate(keep)]
    outputs += [f"c{c} AS {identifier(f'probability_{label}')}" for c, label in enumerate(planned.labels)]
    outputs.append(f'{_label(planned.labels)} AS "label"')
    return f"WITH {expressions}\nSELECT {_lines(outputs)}\nFROM pbdn_{len(steps)}\n"


def _number(cell: str, dialect: Dialect) -> str:
    """The number in a cell; SQLite would make some number of any text, where other engines refuse."""
    real = f"CAST({cell} AS {_REAL[dialect]})"
    return f"CASE WHEN {real} = {cell} THEN {real} END" if dialect == "sqlite" else real


def _columns(planned: Plan) -> Iterator[list[str]]:
    """Columns of each step: tails, squares, distances and units of every layer with what later layers need, then pooling."""
    if planned.long_tails:
        tamed = {
            j: _pulled_in(f"((x{j} - {number(c)}) / {number(s)})", *powers) for j, c, s, *powers in planned.long_tails
        }
        yield [f"{tamed[j]} AS x{j}" if j in tamed else f"x{j}" for j in range(planned.n_features)]
    if planned.squares:
        features = [f"x{j}" for j in range(planned.n_features)]
        yield [*features, *(f"{_square(f'x{j}', c, s)} AS q{j}" for j, c, s in planned.squares)]
    for t, layer in enumerate(planned.layers, 1):
        names = [name for source in layer.sources for name in _names(planned, source)]
        later = {source for above in planned.layers[t:] for source in above.sources if source < t}
        kept = [name for source in sorted(later) for name in _names(planned, source)]
        rows = enumerate(layer.hyperplanes.tolist())
        yield [*kept, *(f"{_linear(row[1:], names, row[0])} AS z{t}_{k}" for k, row in rows)]
        yield [*kept, *(f"{_softplus(f'z{t}_{k}')} AS h{t}_{k}" for k in range(layer.n_units))]
    yield from _pooling(planned)


def _names(planned: Plan, source: int) -> list[str]:
    if source:
        return [f"h{source}_{k}" for k in range(planned.widths[source])]
    return [*(f"x{j}" for j in range(planned.n_features)), *(f"q{j}" for j, _, _ in planned.squares)]


def _pooling(planned: Plan) -> Iterator[list[str]]:
    """Rates and probabilities of the sides, then c0, c1, …: the probabilities of the classes."""
    top, t, sides = planned.layers[-1], len(planned.layers), range(planned.n_sides)
    weights, units = top.expert_weights.tolist(), _names(planned, t)
    rates = [f"r{s}" for s in sides]
    yield [f"{_linear(weights[a:b], units[a:b], 0.0)} AS r{s}" for s, (a, b) in enumerate(top.sides)]
    yield [*rates, *(f"{_probability(f'r{s}')} AS p{s}" for s in sides)]
    if planned.response == OneSide.kind:
        yield ["1e0 - p0 AS c0", "p0 AS c1"]
    elif planned.response == TwoClasses.kind:
        yield ["5e-1 * (p0 + (1e0 - p1)) AS c0", "5e-1 * (p1 + (1e0 - p0)) AS c1"]
    else:
        yield from _pool_pairs(len(sides) // 2)


def _pool_pairs(n: int) -> Iterator[list[str]]:
    """As `pbdn.model.pooling.pool_pairs`: odds o0, o1, … of n classes, that of the best, Newton's steps, c0, c1, …"""
    classes, others = range(n), [f"a{s}" for s in range(n)]
    chances = [(f"y{s}", f"p{s} + {_exp(f'-r{s + n}')}") for s in classes]
    chances += [(f"n{s}", f"{_exp(f'-r{s}')} + p{s + n}") for s in classes]
    yield [f"{text} AS {name}" for name, text in chances]
    yield [f"{_at_least(f'y{s}')} / {_at_least(f'n{s}')} AS o{s}" for s in classes]
    odds = [f"o{s}" for s in classes]
    yield [*odds, f"CASE {_first_largest(odds, [str(s) for s in classes])} END AS best"]
    yield [*odds, "best", f"CASE {_first_largest(odds, odds)} END AS o"]
    yield ["best", *(f"CASE WHEN best = {s} THEN 0e0 ELSE o{s} / o END AS a{s}" for s in classes)]
    yield ["best", *others, f"{_sum(others)} AS t"]
    yield ["best", *others, "2e0 / (t + sqrt(t * (t + 4e0))) AS w"]
    value = _sum([f"{a} / (1e0 + w * {a})" for a in others])
    slope = _sum([f"{a} * (1e0 + w * (2e0 + w * {a})) / ((1e0 + w * {a}) * (1e0 + w * {a}))" for a in others])
    for _ in range(NEWTON_STEPS):
        yield ["best", *others, f"w - (w * (1e0 + w) * {value} - 1e0) / {slope} AS w"]
    yield [f"CASE WHEN best = {s} THEN w ELSE w * a{s} END AS o{s}" for s in classes]
    yield [f"o{s} / (1e0 + o{s}) AS u{s}" for s in classes]
    yield [f"u{s} / {_sum([f'u{j}' for j in classes])} AS c{s}" for s in classes]


def _at_least(chance: str) -> str:
    least = number(SMALLEST_CHANCE)
    return f"(CASE WHEN {chance} < {least} THEN {least} ELSE {chance} END)"


def _linear(coefficients: Sequence[float], names: Sequence[str], constant: float) -> str:
    pairs = zip(coefficients, names, strict=True)
    return _sum([number(constant), *(f"{number(w)} * {name}" for w, name in pairs if w != 0.0)])


def _square(x: str, center: float, scale: float) -> str:
    distance = f"(({x} - {number(center)}) / {number(scale)})"  # PostgreSQL refuses the squares of tiny ones
    return f"CASE WHEN {distance} BETWEEN -1e-150 AND 1e-150 THEN 0e0 ELSE {distance} * {distance} END"


def _pulled_in(z: str, below: float, above: float) -> str:
    def tail(sign: str, size: str, power: float) -> str:
        grown = _exp(f"{number(power)} * ln(1e0 + {size})")
        return f"{sign}(({grown}) - 1e0) / {number(power)}"

    return f"CASE WHEN {z} < 0e0 THEN {tail('-', f'-{z}', below)} ELSE {tail('', z, above)} END"


def _softplus(z: str) -> str:
    # Above 37 the terms of z + ln(1 + e^-z) differ by more than double precision; below -12 the series has the digits that
    # 1 + e^z loses (odds need them). PostgreSQL refuses to underflow, and e^-200 is nothing beside any probability.
    return (
        f"CASE WHEN {z} > 37e0 THEN {z} WHEN {z} > 0e0 THEN {z} + ln(1e0 + exp(-{z})) "
        f"WHEN {z} > -12e0 THEN ln(1e0 + exp({z})) "
        f"WHEN {z} > -200e0 THEN exp({z}) * (1e0 - exp({z}) * (5e-1 - exp({z}) / 3e0)) "
        f"WHEN {z} IS NULL THEN NULL ELSE 0e0 END"
    )


def _probability(rate: str) -> str:
    return (
        f"CASE WHEN {rate} > 200e0 THEN 1e0 WHEN {rate} > 1e-5 THEN 1e0 - exp(-{rate}) "
        f"ELSE {rate} * (1e0 - 5e-1 * {rate}) END"
    )


def _exp(exponent: str) -> str:
    return f"CASE WHEN {exponent} < -200e0 THEN 0e0 ELSE exp({exponent}) END"


def _sum(terms: list[str]) -> str:
    while len(terms) > _GROUP:
        terms = ["(" + " + ".join(terms[i : i + _GROUP]) + ")" for i in range(0, len(terms), _GROUP)]
    return "(" + " + ".join(terms) + ")"


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


def identifier(name: str) -> str:
    """A quoted identifier; whatever the name contains, it ends where it should."""
    if not name or "\0" in name:
        raise InvalidInputError(f"{name!r} cannot name a column or table in SQL: rename it.")
    return '"' + name.replace('"', '""') + '"'


def literal(label: Label) -> str:
    """A label as an SQL constant."""
    if isinstance(label, bool):
        return "TRUE" if label else "FALSE"
    if isinstance(label, int):
        return str(label)
    if isinstance(label, float):
        return number(label)
    if "\0" in label:
        raise InvalidInputError(f"class {label!r} contains a NUL, which SQL strings cannot hold: rename it.")
    return "'" + label.replace("'", "''") + "'"


def _lines(items: list[str]) -> str:
    return ",\n    ".join(items)
