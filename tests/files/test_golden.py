"""A file of every schema that is read loads and predicts what it did when it was written."""

from pathlib import Path

import numpy as np
import pytest

import pbdn.experimental  # noqa: F401  so that files of a race can be read
from networks import random_network
from pbdn.errors import FileFormatError
from pbdn.files import OLDEST_SCHEMA, SCHEMA_VERSION, network_from_arrays, network_to_arrays, read_container

GOLDEN = Path(__file__).parent / "golden"


def test_every_schema_has_its_file():
    assert {path.name for path in GOLDEN.glob("*.pbdn")} == {
        f"schema{version}.pbdn" for version in range(OLDEST_SCHEMA, SCHEMA_VERSION + 1)
    }


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.pbdn")), ids=lambda path: path.stem)
def test_golden_file_predicts_its_stored_probabilities(path):
    header, arrays = read_container(path, kind="model")
    assert header["classes"].tolist() == ["no", "yes"]
    assert header["criterion"] == [1.5, np.inf]
    assert set(header["networks"]) == {"one_side", "two_classes", "several_classes", "race", "curved", "committee"}
    rows = arrays["golden.rows"]
    for name, part in header["networks"].items():
        own = {key.removeprefix(f"{name}."): a for key, a in arrays.items() if key.startswith(f"{name}.")}
        network = network_from_arrays(part, own)
        assert network.response.kind == {"curved": "two_classes", "committee": "two_classes"}.get(name, name)
        assert network.n_members == (5 if name == "committee" else 1)
        assert (network.curve is not None) == (name in ("curved", "committee"))
        np.testing.assert_allclose(network.predict(rows), arrays[f"golden.{name}.prediction"], rtol=0, atol=1e-13)
        if name != "committee":
            np.testing.assert_allclose(network.predict_draws(rows), arrays[f"golden.{name}.draws"], rtol=0, atol=1e-13)


@pytest.mark.parametrize("schema", range(1, OLDEST_SCHEMA))
def test_older_files_are_refused_in_a_clear_sentence(rng, schema):
    part, arrays = network_to_arrays(random_network(rng))
    message = rf"before its first release \(schema {schema}; this one reads {OLDEST_SCHEMA} and later\): fit .* again"
    with pytest.raises(FileFormatError, match=message):
        network_from_arrays(part | {"schema": schema}, arrays)
