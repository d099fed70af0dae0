"""Model files: networks and estimators come back as they were saved, files of every schema load, and those of others are refused."""

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import pbdn.experimental  # noqa: F401  so that files of a race can be read
from networks import random_committee, random_curve, random_network, random_ramps
from pbdn import GibbsConfig, ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.errors import FileFormatError
from pbdn.experimental import RaceClassifier
from pbdn.experimental.race import Race
from pbdn.files import (
    OLDEST_SCHEMA,
    SCHEMA_VERSION,
    container_bytes,
    network_from_arrays,
    network_to_arrays,
    read_container,
    write_container,
)
from pbdn.files.network import AVERAGED_RATES
from pbdn.model.network import Layer, Network
from pbdn.model.priors import Hyperpriors
from pbdn.model.wiring import Curve

SHAPES = {
    "binary": {"experts": ((3, 2), (2, 4))},
    "three layers": {"experts": ((2, 1), (1, 2), (3, 1))},
    "one side": {"experts": ((5,),)},
    "three classes": {"experts": ((2, 1, 3, 1, 2, 1), (1, 2, 2, 1, 1, 1), (2, 2, 1, 1, 1, 2))},
    "race": {"experts": ((2, 1, 3), (1, 2, 2)), "response": Race(3)},
    "empty side": {"experts": ((3, 0), (0, 2))},
    "one feature": {"experts": ((1, 1),), "n_features": 1},
}
GOLDEN = Path(__file__).parent / "golden"


def round_trip(network, path):
    part, arrays = network_to_arrays(network)
    write_container(path, {"kind": "model", "network": part}, arrays)
    header, loaded = read_container(path, kind="model")
    return network_from_arrays(header["network"], loaded)


BENT = {
    "experts": ((3, 2), (2, 4)),
    "curve": Curve(np.array([0, 2, 3]), np.array([0.1, -2.0, 1e-300]), np.array([1.0, 0.3, 2.0])),
}


@pytest.mark.parametrize("shape", [*SHAPES.values(), BENT], ids=[*SHAPES, "curved"])
def test_loaded_network_predicts_the_same_bits(rng, tmp_path, shape):
    network = random_network(rng, **shape, n_draws=4)
    loaded = round_trip(network, tmp_path / "model.pbdn")
    rows = rng.normal(size=(50, network.n_features)) * 10.0 ** rng.integers(-3, 4, size=(50, 1))
    for n_rows in (1, 50):
        np.testing.assert_array_equal(loaded.predict(rows[:n_rows]), network.predict(rows[:n_rows]))
        np.testing.assert_array_equal(loaded.predict_draws(rows[:n_rows]), network.predict_draws(rows[:n_rows]))
    assert loaded.response == network.response
    assert loaded.n_features == network.n_features
    assert [layer.n_experts for layer in loaded.layers] == [layer.n_experts for layer in network.layers]
    assert [[s.n_experts for s in d] for d in loaded.top.draws] == [[s.n_experts for s in d] for d in network.top.draws]


def test_hidden_draws_and_read_only_memory(rng, tmp_path):
    network = random_network(rng, n_draws=2)
    bottom = Layer(network.layers[0].sides, (network.layers[0].sides,) * 3)
    loaded = round_trip(Network((bottom, network.top), network.n_features, network.response), tmp_path / "m")
    assert len(loaded.layers[0].draws) == 3
    assert loaded.layers[0].sides[0].hyperplanes.flags.owndata


def test_size_of_a_typical_network(rng):
    """Two layers of 20 experts on 18 features."""
    network = random_network(rng, experts=((10, 10), (10, 10)), n_features=18)
    part, arrays = network_to_arrays(network)
    header = {"kind": "model", "network": part, "feature_names": [f"feature {j}" for j in range(18)]}
    assert len(container_bytes(header, arrays)) < 100_000


@pytest.mark.parametrize("bent", [None, random_curve, random_ramps])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_committee_comes_back_to_the_last_bit_without_its_zeros(rng, tmp_path, depth, bent):
    """Five members of 20 experts per layer on 20 features: about as much as the five alone."""
    curve = None if bent is None else bent(rng, 20, 6)
    network, members = random_committee(rng, [((10, 10),) * depth] * 5, 20, curve=curve)
    planes = network.top.sides[0].hyperplanes
    planes[0, :4] = [0.0, -0.0, 5e-324, 1e100]
    loaded = round_trip(network, tmp_path / "model.pbdn")
    for ours, theirs in zip(loaded.layers, network.layers, strict=True):
        for a, b in zip(ours.sides, theirs.sides, strict=True):
            assert a.hyperplanes.tobytes() == b.hyperplanes.tobytes()
            assert a.expert_weights.tobytes() == b.expert_weights.tobytes()
    assert loaded.n_members == 5
    beside = round_trip(replace(members[0], folds=network, class_rows=np.array([0.1, 7])), tmp_path / "beside.pbdn")
    assert (beside.n_members, beside.folds.n_members) == (1, 5)
    assert beside.class_rows.tolist() == [0.1, 7.0]
    rows = rng.normal(size=(10, 20))
    np.testing.assert_array_equal(loaded.predict_members(rows), network.predict_members(rows))
    np.testing.assert_array_equal(beside.predict_folds(rows), network.predict_members(rows))
    if curve is not None:
        assert loaded.curve.ramps == curve.ramps
        assert loaded.curve.columns.dtype == curve.columns.dtype
        assert loaded.curve.columns.tobytes() == curve.columns.tobytes()
        assert loaded.curve.centers.tobytes() == curve.centers.tobytes()
        assert loaded.curve.scales.tobytes() == curve.scales.tobytes()
    alone = 0
    for member in members:
        alone += sum(array.nbytes for array in network_to_arrays(member)[1].values())
    assert sum(array.nbytes for array in network_to_arrays(network)[1].values()) <= 1.1 * alone


@pytest.mark.parametrize(("share", "is_shorter"), [(0.0, False), (0.01, False), (0.05, True), (0.5, True)])
def test_zeros_are_left_out_where_that_is_shorter(rng, tmp_path, share, is_shorter):
    """A bit for every coefficient costs as much as one coefficient in 64."""
    network = random_network(rng, ((40,),), 99)
    planes = network.top.sides[0].hyperplanes
    planes.flat[: round(share * planes.size)] = 0.0
    _, arrays = network_to_arrays(network)
    assert ("network.0.hyperplanes.places" in arrays) == is_shorter
    assert sum(array.nbytes for name, array in arrays.items() if "hyperplanes" in name) <= planes.nbytes
    assert round_trip(network, tmp_path / "m").top.sides[0].hyperplanes.tobytes() == planes.tobytes()


def test_what_zeros_take_in_memory_is_bounded(rng, tmp_path):
    """Nearly all zeros are stored as they are."""
    network = random_network(rng, ((40,),), 100)
    network.top.sides[0].hyperplanes[:, 2:] = 0.0
    _, arrays = network_to_arrays(network)
    assert arrays["network.0.hyperplanes"].shape == (40, 101)
    np.testing.assert_array_equal(
        round_trip(network, tmp_path / "m").top.sides[0].hyperplanes, network.top.sides[0].hyperplanes
    )


AUDIT = """
import sys
from dataclasses import replace
from pbdn.files import network_from_arrays, read_container
events = []
sys.addaudithook(lambda event, arguments: events.append((event, arguments)))
header, arrays = read_container(sys.argv[1], kind="model")
network = network_from_arrays(header["network"], arrays)
seen = list(events)
assert network.depth == 2 and header["classes"].tolist() == ["no", "yes"]
for event, arguments in seen:
    print(event, arguments[0] if event == "open" else "", sep="|")
"""


def test_loading_only_opens_the_file(rng, tmp_path):
    """Under an audit hook: no import, exec, compile, subprocess, socket, or other file."""
    path = tmp_path / "model.pbdn"
    part, arrays = network_to_arrays(random_network(rng, n_draws=3))
    write_container(path, {"kind": "model", "network": part, "classes": np.array(["no", "yes"])}, arrays)
    done = subprocess.run([sys.executable, "-c", AUDIT, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"open|{path}"]


# A file of every schema that is read loads and predicts what it did when it was written.


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
        assert (network.folds or network).n_members == (5 if name == "committee" else 1)
        assert network.n_members == (5 if name == "committee" and part["schema"] > AVERAGED_RATES else 1)
        assert (network.curve is not None) == (name in ("curved", "committee"))
        # a race finds its times to nine digits; the last ones depend on the processor
        close = 1e-9 if name == "race" else 1e-13
        np.testing.assert_allclose(network.predict(rows), arrays[f"golden.{name}.prediction"], rtol=0, atol=close)
        if name != "committee":
            np.testing.assert_allclose(network.predict_draws(rows), arrays[f"golden.{name}.draws"], rtol=0, atol=close)


@pytest.mark.parametrize("schema", range(1, OLDEST_SCHEMA))
def test_older_files_are_refused_in_a_clear_sentence(rng, schema):
    part, arrays = network_to_arrays(random_network(rng))
    message = rf"before its first release \(schema {schema}; this one reads {OLDEST_SCHEMA} and later\): fit .* again"
    with pytest.raises(FileFormatError, match=message):
        network_from_arrays(part | {"schema": schema}, arrays)


QUICK_CHAIN = GibbsConfig(n_sweeps=8, n_draws=4, n_paths=2)
MODELS = {
    "map": PBDNClassifier(
        inference="map",
        map_config=MapConfig(n_minibatches=40, batch_size=50),
        priors=Hyperpriors(coef_shape=0.7),
        random_state=0,
    ),
    "curved": PBDNClassifier(
        inference="map", map_config=MapConfig(n_minibatches=40, batch_size=50, curved=True), max_depth=2, random_state=0
    ),
    "gibbs": PBDNClassifier(inference="gibbs", gibbs_config=QUICK_CHAIN, max_depth=1, max_experts=4, random_state=0),
    "one side": ISHMClassifier(inference="map", map_config=MapConfig(n_minibatches=40), random_state=0),
    "race": RaceClassifier(gibbs_config=QUICK_CHAIN, max_depth=1, max_experts=3, random_state=0),
}


def fitted(model, rng, n_classes=2):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % n_classes
    X[:, 0] += y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y), X


@pytest.mark.parametrize(
    ("name", "n_classes"), [(name, n) for name in MODELS for n in (1, 2, 3) if name != "one side" or n <= 2]
)
def test_a_loaded_estimator_is_the_saved_one(rng, tmp_path, name, n_classes):
    model, X = fitted(clone(MODELS[name]), rng, n_classes)
    model.save(tmp_path / "model.pbdn")
    loaded = type(model).load(tmp_path / "model.pbdn")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    if name == "curved" and n_classes == 2:
        assert model.network_.curve is not None
    assert loaded.config_ == model.config_
    assert loaded.get_params() == model.get_params()
    assert loaded.criterion_path_ == model.criterion_path_
    assert loaded.trials_ == model.trials_
    again, first = tmp_path / "again.pbdn", tmp_path / "model.pbdn"
    loaded.save(again)
    assert again.read_bytes() == first.read_bytes()


def by_hand(layers, log_likelihood, n_rows):
    return -log_likelihood


def test_a_function_as_criterion_leaves_its_name(rng, tmp_path):
    model, _ = fitted(clone(MODELS["map"]).set_params(criterion=by_hand), rng)
    assert model.config_.criterion is by_hand
    model.save(tmp_path / "model.pbdn")
    loaded = PBDNClassifier.load(tmp_path / "model.pbdn")
    assert loaded.config_.criterion == loaded.criterion == "by_hand"


@pytest.mark.parametrize(
    ("schema", "message"),
    [(OLDEST_SCHEMA - 1, "before its first release"), (SCHEMA_VERSION + 1, "newer version of pbdn .*upgrade pbdn")],
)
def test_other_schemas_are_refused_before_anything_else(rng, tmp_path, schema, message):
    """Also where the parameters of that time are unknown now."""
    path = tmp_path / "model.pbdn"
    fitted(clone(MODELS["map"]), rng)[0].save(path)
    header, arrays = read_container(path)
    write_container(path, header | {"schema": schema, "parameters": {"skip": "none"}}, arrays)
    with pytest.raises(FileFormatError, match=message):
        PBDNClassifier.load(path)


def test_columns_and_medians_must_fit_the_network(rng, tmp_path):
    path = tmp_path / "m.pbdn"
    model, X = fitted(clone(MODELS["map"]), rng)
    model.save(path)
    header, arrays = read_container(path, kind="model")
    write_container(path, header, {**arrays, "stand_ins": np.zeros(5)})
    with pytest.raises(FileFormatError, match="its medians do not fit"):
        PBDNClassifier.load(path)
    X[::5, 0] = np.nan
    model.fit(X, np.arange(60) % 2).save(path)
    header, arrays = read_container(path, kind="model")
    for stored, message in ((header["preparation"][:1], "do not fit its network"), ([{"name": 3}], "not usable")):
        write_container(path, {**header, "preparation": stored}, arrays)
        with pytest.raises(FileFormatError, match=message):
            PBDNClassifier.load(path)


# The golden file of a schema is written once and committed; it must load for ever.


def add_network(name, network, header, arrays) -> None:
    """A network, and what it predicts."""
    header["networks"][name], parts = network_to_arrays(network)
    arrays |= {f"{name}.{key}": value for key, value in parts.items()}
    arrays[f"golden.{name}.prediction"] = network.predict(arrays["golden.rows"])
    if network.top.draws:
        arrays[f"golden.{name}.draws"] = network.predict_draws(arrays["golden.rows"])


def write_golden() -> None:
    """Write the file of the current schema: ``PYTHONPATH=tests python tests/files/test_model_file.py``."""
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
        add_network(name, network, header, arrays)
    curve = random_curve(rng, 3, 2)
    add_network("curved", random_network(rng, ((2, 3), (2, 1)), 3, curve=curve, n_draws=2), header, arrays)
    add_network("committee", random_committee(rng, [((2, 1), (2, 1), (1, 2))] * 5, 3, curve=curve)[0], header, arrays)
    path = GOLDEN / f"schema{SCHEMA_VERSION}.pbdn"
    if path.exists():
        raise SystemExit(f"{path.name} exists and is never written again; raise SCHEMA_VERSION first.")
    write_container(path, header, arrays)


if __name__ == "__main__":
    write_golden()
