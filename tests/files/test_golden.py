"""A file of every schema ever released loads and predicts what it did when it was written."""

from pathlib import Path

import numpy as np
import pytest

from pbdn.files import SCHEMA_VERSION, network_from_arrays, read_container

GOLDEN = Path(__file__).parent / "golden"


def test_every_schema_has_its_file():
    assert {path.name for path in GOLDEN.glob("*.pbdn")} == {
        f"schema{version}.pbdn" for version in range(1, SCHEMA_VERSION + 1)
    }


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.pbdn")), ids=lambda path: path.stem)
def test_golden_file_predicts_its_stored_probabilities(path):
    header, arrays = read_container(path, kind="model")
    assert header["classes"].tolist() == ["no", "yes"]
    assert header["criterion"] == [1.5, np.inf]
    since = {"schema1": set(), "schema2": {"pairs", "race"}}
    assert set(header["networks"]) == {"machine", "pair", "plain", "dense", "classes"} | since[path.stem]
    rows = arrays["golden.rows"]
    for name, part in header["networks"].items():
        own = {key.removeprefix(f"{name}."): a for key, a in arrays.items() if key.startswith(f"{name}.")}
        network = network_from_arrays(part, own)
        np.testing.assert_allclose(
            network.class_probability(rows), arrays[f"golden.{name}.probability"], rtol=0, atol=1e-13
        )
        np.testing.assert_allclose(
            network.class_probability_draws(rows), arrays[f"golden.{name}.draws"], rtol=0, atol=1e-13
        )
