"""Pieces of SQL: names, constants, sums, the elementary functions of a network, and the search for quantiles and means."""

from collections.abc import Iterable, Sequence

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.export.plan import FARTHEST, MEDIAN, N_HALVINGS, WIDEST, Label, Plan, bounds_of_quantile, number
from pbdn.model.distribution import NEGLIGIBLE, NODE_WEIGHTS, NODES, SPOTS, TAIL
from pbdn.numerics.first_point import ROUNDING, just_below

Parts = Sequence[tuple[Plan, list[str]]]  # networks on one line, with the columns of their signed distances

CASE_BLIND = ("sqlite", "duckdb")  # names that differ in case only are one, quoted or not
GROUP = 100  # terms per parenthesis: engines limit the depth of an expression (SQLite, DuckDB: 1000)


def identifier(name: str) -> str:
    """A quoted identifier; whatever the name contains, it ends where it should."""
    if not name or "\0" in name:
        raise InvalidInputError(f"{name!r} cannot name a column or table in SQL: rename it.")
    return '"' + name.replace('"', '""') + '"'


def check_told_apart(names: Iterable[str], dialect: str) -> None:
    """Refuse columns that the database takes for one."""
    seen: dict[str, str] = {}
    for name in names if dialect in CASE_BLIND else ():
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidInputError(
                f"The columns {other!r} and {name!r} differ in case only, and {dialect} cannot tell them apart: rename one of "
                "them before fit."
            )


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


def lines(items: list[str]) -> str:
    """Items of a list, one a line."""
    return ",\n    ".join(items)


def total(terms: list[str]) -> str:
    """A sum."""
    while len(terms) > GROUP:
        terms = ["(" + " + ".join(terms[i : i + GROUP]) + ")" for i in range(0, len(terms), GROUP)]
    return "(" + " + ".join(terms) + ")"


def linear(coefficients: Sequence[float], names: Sequence[str], constant: float) -> str:
    """A sum of products and a constant."""
    pairs = zip(coefficients, names, strict=True)
    return total([number(constant), *(f"{number(w)} * {name}" for w, name in pairs if w != 0.0)])


def chosen(function: str, texts: list[str]) -> str:
    """The least or the largest of some numbers; engines limit how many arguments a function may have."""
    if len(texts) > GROUP:
        texts = [chosen(function, texts[i : i + GROUP]) for i in range(0, len(texts), GROUP)]
    return texts[0] if len(texts) == 1 else f"{function}({', '.join(texts)})"


def softplus(z: str) -> str:
    """ln(1 + e^z)."""
    # Above 37 the terms of z + ln(1 + e^-z) differ by more than double precision; below -12 the series has the digits that
    # 1 + e^z loses (odds need them). PostgreSQL refuses to underflow, and e^-200 is nothing beside any probability.
    return (
        f"CASE WHEN {z} > 37e0 THEN {z} WHEN {z} > 0e0 THEN {z} + ln(1e0 + exp(-{z})) "
        f"WHEN {z} > -12e0 THEN ln(1e0 + exp({z})) "
        f"WHEN {z} > -200e0 THEN exp({z}) * (1e0 - exp({z}) * (5e-1 - exp({z}) / 3e0)) "
        f"WHEN {z} IS NULL THEN NULL ELSE 0e0 END"
    )


def square(x: str, center: float, scale: float) -> str:
    """((x - c) / s)²."""
    distance = f"(({x} - {number(center)}) / {number(scale)})"  # PostgreSQL refuses the squares of tiny ones
    return f"CASE WHEN {distance} BETWEEN -1e-150 AND 1e-150 THEN 0e0 ELSE {distance} * {distance} END"


def ramp(x: str, center: float, scale: float) -> str:
    """0 up to c, 1 from c + s on."""
    distance = f"(({x} - {number(center)}) / {number(scale)})"
    return f"CASE WHEN {distance} < 0e0 THEN 0e0 WHEN {distance} > 1e0 THEN 1e0 ELSE {distance} END"


def pulled_in(z: str, below: float, above: float) -> str:
    """z with its tails pulled in (`pbdn.model.tails`), by powers below zero and above."""

    def tail(sign: str, size: str, power: float) -> str:
        grown = exponential(f"{number(power)} * ln(1e0 + {size})")
        return f"{sign}(({grown}) - 1e0) / {number(power)}"

    return f"CASE WHEN {z} < 0e0 THEN {tail('-', f'-{z}', below)} ELSE {tail('', z, above)} END"


def probability(rate: str) -> str:
    """1 - e^{-λ}."""
    return (
        f"CASE WHEN {rate} > 200e0 THEN 1e0 WHEN {rate} > 1e-5 THEN 1e0 - exp(-{rate}) "
        f"ELSE {rate} * (1e0 - 5e-1 * {rate}) END"
    )


def exponential(exponent: str) -> str:
    """e^x, 0 where it is nothing beside any probability."""
    return f"CASE WHEN {exponent} < -200e0 THEN 0e0 ELSE exp({exponent}) END"


def distances_of(planned: Plan) -> list[str]:
    """Columns of the signed distances of the top layer."""
    return [f"z{len(planned.layers)}_{k}" for k in range(planned.layers[-1].n_units)]


def _least_and_most(dialect: str) -> tuple[str, str]:
    return ("MIN", "MAX") if dialect == "sqlite" else ("LEAST", "GREATEST")


def search(
    parts: Parts, levels: Sequence[float], scored: str, fence: str, dialect: str, share: str | None = None
) -> list[str]:
    """Expressions with the quantiles q0, q1, … and the mean of every row, from the signed distances in ``scored``.

    Of several parts those of the first value of all. With ``share``, a column of ``scored`` (d), the number has a part only with
    this probability, and is 0 else: quantiles are those of all, the mean is that of the part.
    """
    planned = parts[0][0]
    line, reach = planned.line, min([FARTHEST, *(one.line.reach for one, _ in parts if one.line is not None)])
    assert line is not None
    least, most = _least_and_most(dialect)

    def value(u: str) -> str:
        y = f"{number(line.center)} + {number(line.scale)} * {u}"
        return f"exp({least}({most}({y}, -2e2), 7e2))" if line.log else f"({y})"  # PostgreSQL refuses to underflow

    all_levels = [*levels, TAIL, 1.0 - TAIL]
    starts = [
        _start(parts, j, level, scored, least, most, share if j < len(levels) else None)
        for j, level in enumerate(all_levels)
    ]
    more = f"{above(parts, 's.u', dialect)} > s.p"
    if len(parts) == 1 and share is None and MEDIAN in levels:
        more = f"CASE WHEN s.p = {number(MEDIAN)} THEN {_before_median(*parts[0], 's.u', dialect)} ELSE {more} END"
    step = f"CASE WHEN {more} THEN s.w ELSE -s.w END"
    found = [f"MAX(CASE WHEN j = {j} THEN u END)" for j in range(len(all_levels))]
    values, (low, high), start = [value(u) for u in found[:-2]], found[-2:], value("f.lo")
    nodes = [f"({number(x)}, {number(w)})" for x, w in zip(1.0 + NODES, NODE_WEIGHTS, strict=True)]
    tables = [f"pbdn_nodes(x, w) AS (VALUES {', '.join(nodes)})"]
    u = "(f.lo + 5e-1 * (f.hi - f.lo) * o.x)"
    slope = f"{number(line.scale)} * {value(u)}" if line.log else number(line.scale)
    points = f"SELECT f.i AS i, {u} AS u, 5e-1 * (f.hi - f.lo) * o.w * {slope} AS w FROM pbdn_found AS f CROSS JOIN pbdn_nodes AS o"
    if planned.counts:
        values, start = [f"{most}(ceil({y}) - 1e0, 0e0)" for y in values], "0e0"
        low, high = number(planned.counted_points[-1]), f"{least}({high}, {number(reach)})"
        high = f"{most}({high}, {low})"
        tables.append(f"pbdn_counts(u) AS (VALUES {', '.join(f'({number(c)})' for c in planned.counted_points[:-1])})")
        points += " UNION ALL\n  SELECT f.i, c.u, 1e0 FROM pbdn_found AS f CROSS JOIN pbdn_counts AS c"
    elif line.log:
        low, high = (f"{least}({end}, {number(reach)})" for end in (low, high))
        low = f"{most}({low}, {high} - {number(NEGLIGIBLE / line.scale)})"
    columns = [*(f"{y} AS q{j}" for j, y in enumerate(values)), f"{low} AS lo", f"{high} AS hi", f"{found[-2]} AS tail"]
    area = f"SUM(p.w * {above(parts, 'p.u', dialect)})"
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


def _start(parts: Parts, j: int, level: float, scored: str, least: str, most: str, share: str | None) -> str:
    """An interval from lo to hi that holds a quantile, for rows without NULL."""
    narrow = len(parts) == 1 and share is None
    ends = [
        [_ends(*part, level if narrow else wide, least, most)[at] for part in parts]
        for at, wide in enumerate((WIDEST, 1.0 - WIDEST))
    ]
    low, high = chosen(least, ends[0]), chosen(least, ends[1])
    more = number(1.0 - (level if len(parts) == 1 else just_below(level)))
    if share is not None:
        next_to = f"{more} / {share} * (1e0 + {number(ROUNDING)} * (1e0 - {more} / {share}))"
        more = f"CASE WHEN {share} > {more} THEN {next_to} ELSE 1e0 END"
    whole = total([f"d.{z}" for _, names in parts for z in names])
    return f"SELECT i, {j} AS j, {more} AS p, {low} AS lo, {high} AS hi FROM {scored} AS d WHERE {whole} IS NOT NULL"


def _ends(planned: Plan, names: list[str], level: float, least: str, most: str) -> tuple[str, str]:
    """Between which the quantile of one part lies."""
    ends = []
    for bounds in bounds_of_quantile(planned, level):
        found = zip(bounds.tolist(), planned.time_coefs.tolist(), names, strict=True)
        texts = [f"{number(bound / tau)} - {number(1.0 / tau)} * d.{z}" for bound, tau, z in found]
        for choose, (a, b) in zip((least, most), planned.layers[-1].sides, strict=True):
            ends.append(chosen(choose, texts[a:b]))
    return chosen(least, [ends[0], ends[3]]), chosen(most, [ends[1], ends[2]])


def above(parts: Parts, u: str, dialect: str) -> str:
    """P(U > u) on the line, of all parts together; signed distances are columns of d."""
    return " * ".join(f"({_of_part(*part, u, dialect, False)})" for part in parts)


def _before_median(planned: Plan, names: list[str], u: str, dialect: str) -> str:
    """Whether u lies below the median of one part.

    Both sides have the same rate there, though P may be ½ far around it. Where both rates are next to nothing, the largest of
    their parts say more.
    """
    (least, most), top = _least_and_most(dialect), planned.layers[-1]
    moved, weights = _moved(planned, names, u), top.expert_weights
    units = []
    for z in moved:
        tiny = f"exp({most}({z}, -6e2))"
        more = f"{most}({z}, 0e0) + ln(1e0 + exp(-{least}(abs({z}), 2e2)))"
        units.append(f"(CASE WHEN {z} < -12e0 THEN {tiny} * (1e0 - 5e-1 * {tiny}) ELSE {more} END)")
    first, second = (linear(weights[a:b].tolist(), units[a:b], 0.0) for a, b in top.sides)
    parts = [f"{z} + {number(log_weight)}" for z, log_weight in zip(moved, np.log(weights).tolist(), strict=True)]
    largest = [chosen(most, parts[a:b]) for a, b in top.sides]
    return f"CASE WHEN {first} + {second} > 1e-250 THEN {first} < {second} ELSE {largest[0]} < {largest[1]} END"


def _moved(planned: Plan, names: list[str], u: str) -> list[str]:
    """Signed distances of the top layer at u."""
    return [f"(d.{z} + {number(tau)} * {u})" for z, tau in zip(names, planned.time_coefs.tolist(), strict=True)]


def _of_part(planned: Plan, names: list[str], u: str, dialect: str, density: bool) -> str:
    """P(U > u) of one part, or its density."""
    least, most = _least_and_most(dialect)
    weights, moved = planned.layers[-1].expert_weights, _moved(planned, names, u)
    units = [f"({most}({z}, 0e0) + ln(1e0 + exp(-{least}(abs({z}), 2e2))))" for z in moved]
    sides = planned.layers[-1].sides
    first, second = (f"exp(-{least}({linear(weights[a:b].tolist(), units[a:b], 0.0)}, 2e2))" for a, b in sides)
    if not density:
        return f"5e-1 * (1e0 - {second} + {first})"
    speeds = [f"(1e0 / (1e0 + exp(-{most}({least}({z}, 2e2), -2e2))))" for z in moved]
    slopes = [linear((weights * np.abs(planned.time_coefs))[a:b].tolist(), speeds[a:b], 0.0) for a, b in sides]
    return f"5e-1 * ({first} * {slopes[0]} + {second} * {slopes[1]})"


def incidence(parts: Parts, points: Sequence[float], scored: str, fence: str, dialect: str) -> list[str]:
    """Expressions, after those of `search`, with s0, s1, … and n0_0, n0_1, …: P(T > t), and P(T ≤ t, by cause c) as n<c>_<t>.

    The integrals are those of `pbdn.model.distribution.DistributionOfFirst.incidence`.
    """
    least, _ = _least_and_most(dialect)
    n, asked = len(parts), ", ".join(f"({j}, {number(u)})" for j, u in enumerate(points))
    columns = [f"{_of_part(*part, 's.u', dialect, False)} AS a{c}" for c, part in enumerate(parts)]
    columns += [f"{_of_part(*part, 's.u', dialect, True)} AS f{c}" for c, part in enumerate(parts)]
    areas = [
        f"SUM(w * f{c}{''.join(f' * a{d}' for d in range(n) if d != c)}) AS p{c}" for c in range(n)
    ]  # at the two ends the density does not count
    lows = [f"SUM(CASE WHEN k = 1 THEN 1e0 - a{c} ELSE 0e0 END) AS l{c}" for c in range(n)]
    last = f"SUM(CASE WHEN k = 2 THEN {' * '.join(f'a{c}' for c in range(n))} ELSE 0e0 END) AS later"
    whole = " + ".join(f"l{c} + p{c}" for c in range(n))
    shares = [
        f"MAX(CASE WHEN j = {j} THEN CASE WHEN {whole} > 0e0 THEN (l{c} + p{c}) / ({whole}) * (1e0 - later) ELSE 0e0 END END) "
        f"AS n{c}_{j}"
        for c in range(n)
        for j in range(len(points))
    ]
    survived = [f"MAX(CASE WHEN j = {j} THEN later END) AS s{j}" for j in range(len(points))]
    span = f"SELECT f.i AS i, t.j AS j, t.v AS v, {least}(f.tail, t.v) AS lo FROM pbdn_found AS f CROSS JOIN pbdn_times AS t"
    spots = [
        "SELECT b.i AS i, b.j AS j, b.lo + 5e-1 * (b.v - b.lo) * o.x AS u, 5e-1 * (b.v - b.lo) * o.w AS w, 0 AS k "
        "FROM pbdn_spans AS b CROSS JOIN pbdn_rule AS o",
        "SELECT i, j, lo, 0e0, 1 FROM pbdn_spans",
        "SELECT i, j, v, 0e0, 2 FROM pbdn_spans",
    ]
    rule = [f"({number(x)}, {number(w)})" for x, w in zip(1.0 + SPOTS[0], SPOTS[1], strict=True)]
    return [
        f"pbdn_times(j, v) AS (VALUES {asked})",
        f"pbdn_rule(x, w) AS (VALUES {', '.join(rule)})",
        f"pbdn_spans {fence} (\n  {span})",
        f"pbdn_spots {fence} (\n  " + " UNION ALL\n  ".join(spots) + ")",
        f"pbdn_there {fence} (\n  SELECT s.i AS i, s.j AS j, s.w AS w, s.k AS k, {lines(columns)}\n"
        f"  FROM pbdn_spots AS s JOIN {scored} AS d ON d.i = s.i)",
        f"pbdn_shares {fence} (\n  SELECT i, j, {lines([*areas, *lows, last])}\n  FROM pbdn_there GROUP BY i, j)",
        f"pbdn_incidence {fence} (\n  SELECT i, {lines([*survived, *shares])}\n  FROM pbdn_shares GROUP BY i)",
    ]
