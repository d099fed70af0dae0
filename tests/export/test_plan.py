"""What all exports start from."""

import numpy as np
import pytest
from exported_networks import labels_of, network_of

from networks import random_network
from pbdn.errors import InvalidInputError
from pbdn.experimental.race import Race
from pbdn.export.plan import plan


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
