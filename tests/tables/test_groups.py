"""Which features belong to one column: what explanations are told agrees with what the preparation makes."""

import numpy as np

from pbdn.tables import Table, fit_preparation

N = 60


def mixed_table():
    rng = np.random.default_rng(0)
    age = [None if i % 7 == 0 else str(20 + i) for i in range(N)]
    return Table(
        {
            "age": np.array(age, dtype=object),
            "plan": np.array([("basic", "plus", "family")[i % 3] for i in range(N)], dtype=object),
            "sex": np.array([("f", "m", None)[i % 3] for i in range(N)], dtype=object),
            "since": np.datetime64("2018-01-01") + rng.integers(0, 900, N),
            "country": np.array(["CH"] * N, dtype=object),
        },
        N,
    )


def test_groups_cover_every_feature_once():
    preparation = fit_preparation(mixed_table())
    groups = preparation.groups
    assert [group.name for group in groups] == ["age", "plan", "sex", "since"]
    assert [j for group in groups for j in group.features] == list(range(len(preparation.feature_names)))
    for group in groups:
        assert len(group.parts) == len(group.features)
        assert (group.parts[-1] == "missing") == (group.name in ("age", "sex"))


def test_named_values_are_what_the_preparation_makes_of_them():
    table = mixed_table()
    preparation = fit_preparation(table)
    rows, _ = preparation.apply(table)
    for group in preparation.groups:
        for i in range(N):
            cell = table.columns[group.name][i]
            said = group.row_text(rows[i])
            assert said == ("missing" if cell is None else str(cell))
