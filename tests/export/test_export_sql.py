import sqlite3

import numpy as np
import pytest

from networks import HOSTILE, SHAPES, labels_of, network_of, random_network, rows_with_extremes
from pbdn.errors import InvalidInputError
from pbdn.export import to_sql
from pbdn.export.sql_text import identifier, literal
from pbdn.model.wiring import Curve


def has_mathematics(connection):
    try:
        return connection.execute("SELECT exp(0.0) + ln(1.0)").fetchone() == (1.0,)
    except sqlite3.OperationalError:
        return False


def in_sqlite(statement, names, rows, table="data"):
    connection = sqlite3.connect(":memory:")
    if not has_mathematics(connection):  # an SQLite compiled without them
        connection.create_function("exp", 1, np.exp, deterministic=True)
        connection.create_function("ln", 1, np.log, deterministic=True)
    columns = ", ".join(f"{identifier(name)} REAL" for name in names)
    connection.execute(f"CREATE TABLE {identifier(table)} ({columns})")
    marks = ", ".join("?" * len(names))
    connection.executemany(f"INSERT INTO {identifier(table)} VALUES ({marks})", rows)
    cursor = connection.execute(statement)
    result = [column[0] for column in cursor.description], cursor.fetchall()
    connection.close()
    return result


def in_duckdb(statement, names, rows, table="data"):
    duckdb = pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    with duckdb.connect(":memory:") as connection:
        columns = ", ".join(f"{identifier(name)} DOUBLE" for name in names)
        connection.execute(f"CREATE TABLE {identifier(table)} ({columns})")
        if rows:  # whole columns at once: rows one by one take a hundred times as long
            marks = ", ".join(["unnest(?::DOUBLE[])"] * len(names))
            whole = [list(column) for column in zip(*rows, strict=True)]
            connection.execute(f"INSERT INTO {identifier(table)} SELECT {marks}", whole)
        cursor = connection.execute(statement)
        return [column[0] for column in cursor.description], cursor.fetchall()


ENGINES = {"sqlite": in_sqlite, "duckdb": in_duckdb}
NAMES = ["key", "x0", "x1", "x2", "x3"]


def compare(network, answer, rows, tolerance=1e-9):
    names, table = answer
    labels = labels_of(network)
    assert names == ["key", *(f"probability_{label}" for label in labels), "label"]
    table = sorted(table)
    assert [row[0] for row in table] == list(range(len(rows)))
    ours = network.predict(rows)
    theirs = np.array([row[1:-1] for row in table], dtype=float)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=tolerance)
    ordered = np.sort(ours, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 10 * tolerance
    said = np.array([row[-1] for row in table])
    np.testing.assert_array_equal(said[clear], labels[ours.argmax(axis=1)][clear])


def keyed(rows):
    return [(i, *row) for i, row in enumerate(rows.tolist())]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dialect", ["own", "generic"])
@pytest.mark.parametrize("shape", SHAPES)
def test_same_probabilities(rng, shape, engine, dialect):
    network = network_of(shape, rng)
    rows = rows_with_extremes(rng, 100)
    dialect = engine if dialect == "own" else dialect
    statement = to_sql(network, labels_of(network), NAMES[1:], dialect, keep=["key"])
    compare(network, ENGINES[engine](statement, NAMES, keyed(rows)), rows)


@pytest.mark.parametrize("engine", ENGINES)
def test_hostile_names(rng, engine):
    names = HOSTILE
    network = network_of("three classes", rng, len(names))
    rows = rng.normal(size=(5, len(names)))
    statement = to_sql(network, HOSTILE[:3], names, engine, table=HOSTILE[1])
    columns, table = ENGINES[engine](statement, names, rows.tolist(), table=HOSTILE[1])
    assert columns == [*(f"probability_{name}" for name in HOSTILE[:3]), "label"]
    theirs = np.array([row[:-1] for row in table], dtype=float)
    np.testing.assert_allclose(theirs, network.predict(rows), rtol=0, atol=1e-9)
    assert [row[-1] for row in table] == [HOSTILE[c] for c in network.predict(rows).argmax(axis=1)]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_features(rng, engine):
    """1100 features: deeper than the expressions that the engines allow, were the sum not grouped."""
    network = network_of("pair", rng, 1100)
    names = [f"feature {j}" for j in range(1100)]
    rows = rng.normal(size=(2, 1100))
    _, table = ENGINES[engine](to_sql(network, ["no", "yes"], names, engine), names, rows.tolist())
    theirs = np.array([row[:2] for row in table], dtype=float)
    np.testing.assert_allclose(theirs, network.predict(rows), rtol=0, atol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", ["empty layer", "two empty layers", "nobody", "nobody in three classes"])
def test_nothing_to_carry(rng, engine, shape):
    network = network_of(shape, rng)
    statement = to_sql(network, labels_of(network), dialect=engine)
    _, table = ENGINES[engine](statement, NAMES[1:], [(1.0, 2.0, 3.0, 4.0)])
    ours = network.predict(np.array([[1.0, 2.0, 3.0, 4.0]]))
    np.testing.assert_allclose([table[0][:-1]], ours, rtol=0, atol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_null_gives_null(rng, engine):
    for shape in ("pair", "three classes", "curved pair"):
        network = network_of(shape, rng)
        statement = to_sql(network, labels_of(network), dialect=engine)
        for row in np.eye(4):
            _, table = ENGINES[engine](statement, NAMES[1:], [tuple(None if one else 2.0 for one in row)])
            assert set(table[0]) == {None}


def test_a_missing_column_is_an_error_not_a_string(rng):
    """SQLite takes an unknown quoted name for a string unless the table is named with it."""
    statement = to_sql(network_of("pair", rng), [0, 1], ["x0", "x1", "x2", "other"])
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        in_sqlite(statement, NAMES, [])


def test_statement_grows_with_the_weights_only(rng):
    shallow, deep = (to_sql(network_of(shape, rng), ["a", "b"]).count("*") for shape in ("pair", "deep pair"))
    weights = network_of("deep pair", rng).n_weights
    assert shallow < deep < 3 * weights


def test_literals_and_refusals(rng):
    assert [literal(x) for x in (True, -3, 0.5, "it's")] == ["TRUE", "-3", "0.5e0", "'it''s'"]
    network = network_of("pair", rng)
    with pytest.raises(InvalidInputError, match="'mysql' is not one of sqlite"):
        to_sql(network, [0, 1], dialect="mysql")
    for names in (["", "a", "b", "c"], ["a\0", "b", "c", "d"]):
        with pytest.raises(InvalidInputError, match="rename it"):
            to_sql(network, [0, 1], names)
    with pytest.raises(InvalidInputError, match="NUL"):
        literal("a\0")
    names = ["p95", "P95", "c", "d"]
    for dialect in ("sqlite", "duckdb"):
        with pytest.raises(InvalidInputError, match=f"'p95' and 'P95' differ in case only, and {dialect} cannot"):
            to_sql(network, [0, 1], names, dialect)
    with pytest.raises(InvalidInputError, match="'c' and 'C' differ"):
        to_sql(network, [0, 1], ["a", "b", "c", "d"], "sqlite", keep=["C"])
    assert '"p95"' in to_sql(network, [0, 1], names, "postgresql")


@pytest.mark.parametrize("shape", SHAPES)
def test_same_probabilities_in_postgresql(rng, postgres, shape):
    network = network_of(shape, rng)
    rows = rows_with_extremes(rng, 100)
    names = [HOSTILE[0], HOSTILE[1], HOSTILE[5], HOSTILE[7]]
    columns = ", ".join(f"{identifier(name)} double precision" for name in names)
    values = ",".join("(" + ",".join(map(repr, row)) + ")" for row in keyed(rows))
    statement = to_sql(network, labels_of(network), names, "postgresql", table=HOSTILE[2], keep=["key"])
    table = identifier(HOSTILE[2])
    script = f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (key int, {columns});"
    answer = postgres(f"{script} INSERT INTO {table} VALUES {values};\n{statement};")
    parsed = [(int(row[0]), *map(float, row[1:-1]), row[-1]) for row in answer]
    header = ["key", *(f"probability_{label}" for label in labels_of(network)), "label"]
    compare(network, (header, parsed), rows)


def test_tiny_distances_in_postgresql(rng, postgres):
    """It refuses to underflow, also in a square."""
    network = random_network(rng, ((3, 2),), 1, curve=Curve(np.array([0]), np.zeros(1), np.ones(1)))
    statement = to_sql(network, [0, 1], ["x"], "postgresql", "tiny", keep=["x"])
    answer = postgres(
        f"CREATE TABLE tiny (x double precision); INSERT INTO tiny VALUES (1e-200), (-3e-170);\n{statement};"
    )
    for row in answer:
        ours = network.predict(np.array([[float(row[0])]]))
        np.testing.assert_allclose([[float(p) for p in row[1:-1]]], ours, rtol=0, atol=1e-12)


def test_texts_that_are_no_numbers_give_nothing_in_sqlite(rng):
    network = network_of("deep pair", rng)
    names = [f"x{j}" for j in range(network.n_features)]
    rows = [["0.5"] * len(names), ["0,5"] * len(names), ["n/a"] * len(names), [0.5] * len(names)]
    statement = to_sql(network, labels_of(network), names, "sqlite")
    connection = sqlite3.connect(":memory:")
    if not has_mathematics(connection):
        connection.create_function("exp", 1, np.exp)
        connection.create_function("ln", 1, np.log)
    connection.execute(f"CREATE TABLE data ({', '.join(names)})")
    connection.executemany(f"INSERT INTO data VALUES ({', '.join('?' * len(names))})", rows)
    found = connection.execute(statement).fetchall()
    connection.close()
    assert found[0] == found[3]
    assert None not in found[0]
    assert set(found[1] + found[2]) == {None}
