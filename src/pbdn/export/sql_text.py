"""Pieces of SQL: names, constants, sums, and the elementary functions of a network."""

from collections.abc import Sequence

from pbdn.errors import InvalidInputError
from pbdn.export.plan import Label, number

GROUP = 100  # terms per parenthesis: engines limit the depth of an expression (SQLite, DuckDB: 1000)


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
