"""Write the golden file of the current schema: ``python tests/files/golden/write_golden.py``.

Run once per schema, commit the file, never write it again: it must load for ever.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from networks import random_committee, random_curve, random_network
from pbdn.experimental.race import Race
from pbdn.files import SCHEMA_VERSION, network_to_arrays, write_container

HERE = Path(__file__).parent


def put(name, network, header, arrays) -> None:
    """A network, and what it predicts."""
    header["networks"][name], parts = network_to_arrays(network)
    arrays |= {f"{name}.{key}": value for key, value in parts.items()}
    arrays[f"golden.{name}.prediction"] = network.predict(arrays["golden.rows"])
    if network.top.draws:
        arrays[f"golden.{name}.draws"] = network.predict_draws(arrays["golden.rows"])


def main() -> None:
    rng = np.random.default_rng(SCHEMA_VERSION)
    rows = rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-2, 3, size=(20, 1))
    arrays = {"golden.rows": rows}
    header = {"kind": "model", "networks": {}, "classes": np.array(["no", "yes"]), "criterion": [1.5, np.inf]}
    for name, experts, response in (
        ("one_side", ((3,),), None),
        ("two_classes", ((2, 3), (2, 1), (1, 2)), None),
        ("several_classes", ((1, 2, 1, 1, 1, 2), (2, 0, 1, 1, 1, 1)), None),
        ("race", ((1, 2, 1), (2, 0, 1)), Race(3)),
    ):
        network = random_network(rng, experts, n_features=3, response=response, n_draws=2)
        put(name, network, header, arrays)
    curve = random_curve(rng, 3, 2)
    put("curved", random_network(rng, ((2, 3), (2, 1)), 3, curve=curve, n_draws=2), header, arrays)
    put("committee", random_committee(rng, [((2, 1), (2, 1), (1, 2))] * 5, 3, curve=curve)[0], header, arrays)
    path = HERE / f"schema{SCHEMA_VERSION}.pbdn"
    if path.exists():
        raise SystemExit(f"{path.name} exists and is never written again; raise SCHEMA_VERSION first.")
    write_container(path, header, arrays)


if __name__ == "__main__":
    main()
