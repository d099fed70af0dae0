"""Write the golden file of the current schema: ``python tests/files/golden/write_golden.py``.

Run once per schema, commit the file, never write it again: it must load for ever.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from stored_networks import random_network

from pbdn.files import SCHEMA_VERSION, network_to_arrays, write_container

HERE = Path(__file__).parent


def main() -> None:
    rng = np.random.default_rng(SCHEMA_VERSION)
    rows = rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-2, 3, size=(20, 1))
    arrays = {"golden.rows": rows}
    header = {"kind": "model", "networks": {}, "classes": np.array(["no", "yes"]), "criterion": [1.5, np.inf]}
    for name, experts, skip, kind in (
        ("machine", ((3,),), "last_two", {}),
        ("pair", ((2, 3), (2, 1), (1, 2)), "last_two", {}),
        ("plain", ((2, 3), (2, 1), (1, 2)), "none", {}),
        ("dense", ((2, 3), (2, 1), (1, 2)), "all", {}),
        ("classes", ((1, 2, 1), (2, 0, 1)), "last_two", {}),
        ("pairs", ((1, 2, 1, 1, 1, 2), (2, 0, 1, 1, 1, 1)), "last_two", {"complements": True}),
        ("race", ((1, 2, 1), (2, 0, 1)), "last_two", {"head": "race"}),
    ):
        network = replace(random_network(rng, experts, n_features=3, skip=skip, n_draws=2), **kind)
        header["networks"][name], parts = network_to_arrays(network)
        arrays |= {f"{name}.{key}": value for key, value in parts.items()}
        arrays[f"golden.{name}.probability"] = network.class_probability(rows)
        arrays[f"golden.{name}.draws"] = network.class_probability_draws(rows)
    path = HERE / f"schema{SCHEMA_VERSION}.pbdn"
    if path.exists():
        raise SystemExit(f"{path.name} exists and is never written again; raise SCHEMA_VERSION first.")
    write_container(path, header, arrays)


if __name__ == "__main__":
    main()
