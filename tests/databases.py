"""Databases in which exported statements are run."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest


def scored(dialect, columns, rows, statement):
    """What a statement finds in the table ``data`` with these columns and rows, sorted; without the library the test is skipped."""
    library = sqlite3 if dialect == "sqlite" else pytest.importorskip("duckdb", reason="duckdb is not installed")
    with closing(library.connect(":memory:")) as connection:
        if dialect == "sqlite":
            connection.create_function("exp", 1, np.exp)
            connection.create_function("ln", 1, np.log)
        connection.execute(f"CREATE TABLE data ({columns})")
        connection.executemany(f"INSERT INTO data VALUES ({', '.join('?' * len(rows[0]))})", rows)
        return sorted(connection.execute(statement).fetchall())
