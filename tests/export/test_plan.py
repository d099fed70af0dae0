"""What all exports start from."""

import numpy as np
import pytest

from networks import labels_of, network_of, random_committee, random_network
from pbdn.errors import InvalidInputError
from pbdn.experimental.race import Race
from pbdn.export import to_c, to_python, to_sql
from pbdn.export.plan import plan, stretches


def test_layers_are_stacked_with_their_sources(rng):
    network = network_of("deep pair", rng)
    planned = plan(network, labels_of(network))
    assert [layer.sources for layer in planned.layers] == [(0,), (0, 1), (1, 2)]
    assert [layer.sides for layer in planned.layers] == [((0, 3), (3, 5)), ((0, 2), (2, 6)), ((0, 3), (3, 6))]
    assert planned.widths == (4, 5, 6, 6)
    assert planned.n_sides == 2
    assert planned.response == "two_classes"
    for ours, layer in zip(planned.layers, network.layers, strict=True):
        np.testing.assert_array_equal(ours.hyperplanes, np.vstack([side.hyperplanes for side in layer.sides]))
        np.testing.assert_array_equal(ours.expert_weights, np.hstack([side.expert_weights for side in layer.sides]))


def test_a_response_without_a_translation_is_refused(rng):
    network = random_network(rng, ((2, 1, 3),), response=Race(3))
    with pytest.raises(InvalidInputError, match="response 'race' cannot be exported; those that can are one_side, two"):
        plan(network, ["a", "b", "c"])


def test_squares_stand_after_the_features(rng):
    network = network_of("curved deep pair", rng)
    planned = plan(network, labels_of(network))
    assert planned.widths == (7, 5, 6, 6)
    columns, centers, scales = zip(*planned.squares, strict=True)
    assert list(columns) == network.curve.columns.tolist()
    assert list(centers) == network.curve.centers.tolist()
    assert list(scales) == network.curve.scales.tolist()
    assert plan(network_of("pair", rng), [0, 1]).squares == []


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ([], []),
        ([0.0, 0.0], []),
        ([1.0, 0.0, 0.0, 2.0], [(0, 4)]),
        ([0.0, 3.0], [(1, 2)]),
        ([0.0] * 9 + [1.0, 2.0] + [0.0] * 5 + [3.0] + [0.0] * 7, [(9, 11), (16, 17)]),
    ],
)
def test_long_gaps_of_zeros_are_left_out(row, parts):
    assert stretches(np.array(row)) == parts


@pytest.mark.parametrize("export", [to_c, to_python, to_sql])
@pytest.mark.parametrize("depth", [2, 3])
def test_the_zeros_of_a_committee_are_not_written(rng, export, depth):
    one, members = random_committee(rng, [((4, 4),) * depth] * 5)
    alone = sum(len(export(member, [0, 1])) for member in members)
    assert len(export(one, [0, 1])) < 1.2 * alone
