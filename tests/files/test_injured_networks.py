"""Networks in files whose numbers and shapes do not fit are refused, each in words that say what is wrong."""

import copy

import numpy as np
import pytest

import pbdn.experimental  # noqa: F401  so that files of a race can be read
from networks import random_committee, random_curve, random_network
from pbdn.errors import FileFormatError
from pbdn.files import (
    SCHEMA_VERSION,
    network_from_arrays,
    network_to_arrays,
)


def injured(edit, sparse=False):
    rng = np.random.default_rng(0)
    curve = random_curve(rng, 4, 3)
    network = random_committee(rng, [((2, 3), (1, 2), (2, 1))] * 4, curve=curve)[0] if sparse else None
    part, arrays = copy.deepcopy(network_to_arrays(network or random_network(rng, n_draws=2)))
    edit(part, arrays)
    return part, arrays


def put(name, at, value):
    def edit(_, arrays):
        arrays[name][at] = value

    return edit


def widen(arrays, *names):
    """One input more than the wiring gives."""
    for name in (f"{name}.hyperplanes" for name in names):
        arrays[name] = np.pad(arrays[name], ((0, 0), (0, 1)))


INJURIES = [
    ("schema version is missing", lambda part, _: part.pop("schema")),
    ("schema version", lambda part, _: part.update(schema="1")),
    ("newer version of pbdn .*upgrade pbdn", lambda part, _: part.update(schema=SCHEMA_VERSION + 1)),
    ("n_features is not a count", lambda part, _: part.update(n_features=4.0)),
    ("n_features, the curve and the first", lambda part, _: part.update(n_features=5)),
    ("response 'some' is not one of one_side, two_classes", lambda part, _: part.update(response="some")),
    ("response .* is not one of", lambda part, _: part.update(response=["two_classes"])),
    ("response None is not one of", lambda part, _: part.pop("response")),
    ("n_outputs is not a count", lambda part, _: part.update(n_outputs=0)),
    ("n_outputs is not a count.", lambda part, _: part.update(n_outputs="2")),
    ("more outputs than its sides", lambda part, _: part.update(n_outputs=2**31 - 1, response="several_classes")),
    ("TwoClasses cannot tell 3 classes apart", lambda part, _: part.update(n_outputs=3)),
    ("OneSide cannot tell 1 classes apart", lambda part, _: part.update(n_outputs=1, response="one_side")),
    ("do not have 1 sides each", lambda part, _: part.update(response="one_side")),
    ("do not have 4 sides each", lambda part, _: part.update(response="several_classes")),
    ("do not fit together", lambda _, arrays: widen(arrays, "network.1", "network.1.draws")),
    ("no layers", lambda part, _: part.update(layers=[])),
    ("no layers.", lambda part, _: part.update(layers=3)),
    ("layer 0 is not described", lambda part, _: part.update(layers=[1])),
    ("layer 0 has no sides", lambda part, _: part["layers"][0].update(experts=[])),
    ("layer 1 has wrong counts", lambda part, _: part["layers"][1].update(experts=[7, -1])),
    ("layer 1 has no number of draws", lambda part, _: part["layers"][1].update(draws=True)),
    ("another number of experts", lambda part, _: part["layers"][1].update(experts=[2, 5])),
    ("do not have 2 sides each", lambda part, _: part["layers"][0].update(experts=[5])),
    ("draws of layer 1 have wrong counts", lambda part, _: part["layers"][1].update(draws=3)),
    ("draws of layer 1 have wrong", put("network.1.draws.experts", (0, 0), -1)),
    ("network.1.draws has another number", put("network.1.draws.experts", (0, 0), 2**31 - 1)),
    ("missing or of the wrong kind", lambda _, arrays: arrays.pop("network.0.hyperplanes")),
    ("of the wrong kind", lambda _, a: a.update({"network.0.hyperplanes": np.zeros((5, 5), np.float32)})),
    ("wrong kind", lambda _, a: a.update({"network.0.expert_weights": np.zeros((5, 1))})),
    ("has no bias", lambda _, a: a.update({"network.0.hyperplanes": np.zeros((5, 0))})),
    ("negative weight", put("network.0.expert_weights", 0, -1e-300)),
    ("expert_weights has numbers that are not finite", put("network.0.expert_weights", 0, np.inf)),
    ("draws.hyperplanes has numbers that are not finite", put("network.1.draws.hyperplanes", 0, np.nan)),
    (
        "draws of layer 1 have other inputs",
        lambda _, a: a.update({"network.1.draws.hyperplanes": np.zeros((len(a["network.1.draws.hyperplanes"]), 3))}),
    ),
]


@pytest.mark.parametrize(("message", "edit"), INJURIES, ids=[message for message, _ in INJURIES])
def test_well_formed_but_wrong_is_refused(message, edit):
    part, arrays = injured(edit)
    with pytest.raises(FileFormatError, match=message):
        network_from_arrays(part, arrays)


def more(name, array):
    return lambda _, arrays: arrays.update({name: array})


COLUMNS, CENTERS, SCALES = "network.curve.columns", "network.curve.centers", "network.curve.scales"
PLANES, PLACES = "network.2.hyperplanes", "network.2.hyperplanes.places"
BENT_INJURIES = [
    ("columns of its curve are missing", lambda _, a: a.pop(COLUMNS)),
    ("columns of its curve are .* of the wrong kind", more(COLUMNS, np.array([0, 1, 2]))),
    ("columns of its curve are .* of the wrong kind.", more(COLUMNS, np.zeros((3, 1), np.int32))),
    ("columns of its curve are .* wrong kind", more(COLUMNS, np.array([], np.int32))),
    ("not features in rising order", more(COLUMNS, np.array([0, 0, 1], np.int32))),
    ("not features in rising order.", more(COLUMNS, np.array([2, 1, 3], np.int32))),
    ("not features in rising order. Write", more(COLUMNS, np.array([-1, 1, 3], np.int32))),
    ("features in rising order. Write it", more(COLUMNS, np.array([0, 1, 4], np.int32))),
    ("curve.centers is missing or of the wrong kind", lambda _, a: a.pop(CENTERS)),
    ("curve.centers is missing or of the wrong kind.", more(CENTERS, np.zeros(3, np.float32))),
    ("curve.centers has numbers that are not finite", put(CENTERS, 1, np.nan)),
    ("other numbers of centers, scales and columns", more(CENTERS, np.zeros(2))),
    ("other numbers of centers, scales and columns.", more(SCALES, np.ones(4))),
    ("curve.scales is missing or of the wrong kind", lambda _, a: a.pop(SCALES)),
    ("curve.scales has numbers that are not finite", put(SCALES, 0, np.inf)),
    ("scale that is not positive", put(SCALES, 2, 0.0)),
    ("n_features, the curve and the first layer differ", lambda _, a: [a.pop(n) for n in (COLUMNS, CENTERS, SCALES)]),
    (
        "n_features, the curve and the first layer",
        lambda _, a: a.update({COLUMNS: np.array([0, 1], np.int32), CENTERS: np.zeros(2), SCALES: np.ones(2)}),
    ),
    ("members are not one number per expert", more("network.members", np.zeros(11, np.int32))),
    ("members are not one number per expert of", more("network.members", np.zeros(12))),
    ("more than 1000 members", put("network.members", 11, 1000)),
    ("members are mixed up", put("network.members", 0, 1)),
    ("more than 1000 members.", put("network.members", 0, -1)),
    ("number of rows for every class", more("network.class_rows", np.ones(3))),
    ("number of rows for every class.", more("network.class_rows", np.array([1.0, -1.0]))),
    ("class_rows has numbers that are not finite", more("network.class_rows", np.array([1.0, np.nan]))),
    ("places is of the wrong kind", more(PLACES, np.zeros((1, 33), np.uint8))),
    ("places is of the wrong kind.", more(PLACES, np.zeros((2, 33), np.int8))),
    ("places is of the wrong kind. Write", more(PLACES, np.zeros(66, np.uint8))),
    ("has too many zeros", more(PLACES, np.zeros((2, 1 << 12), np.uint8))),
    ("has other places than numbers", put(PLACES, (0, 5), 255)),
    ("2.hyperplanes has numbers that are not finite", put(PLANES, 3, np.inf)),
    ("2.hyperplanes is missing or of the wrong kind", lambda _, a: a.pop(PLACES)),
    ("2.hyperplanes is missing or of the wrong kind.", more(PLANES, np.zeros((2, 2)))),
    ("network.2 has another number of experts", lambda part, _: part["layers"][2].update(experts=[8, 5])),
]


@pytest.mark.parametrize(("message", "edit"), BENT_INJURIES, ids=[message for message, _ in BENT_INJURIES])
def test_wrong_curves_and_places_are_refused(message, edit):
    part, arrays = injured(edit, sparse=True)
    with pytest.raises(FileFormatError, match=message):
        network_from_arrays(part, arrays)


def test_the_uninjured_network_is_accepted():
    network_from_arrays(*injured(lambda *_: None))
    network_from_arrays(*injured(lambda *_: None, sparse=True))
    with pytest.raises(FileFormatError):
        network_from_arrays(None, {})
