"""Which units a layer sees: the features, then the last two layers below it."""

import numpy as np
import pytest
import scipy.sparse as sp

from pbdn.model.wiring import FEATURES, inputs_of, sees_features, sources_of, width_of_inputs

WIDTHS = (5, 3, 2, 4, 1)  # of the features and of the units of layers 1 to 4
SOURCES = {1: (0,), 2: (0, 1), 3: (1, 2), 4: (2, 3), 5: (3, 4)}


@pytest.fixture
def seen(rng):
    """Features with zeros in them, and the units of four layers."""
    features, *units = (rng.normal(size=(6, width)) for width in WIDTHS)
    return [features * (rng.random(features.shape) < 0.5), *units]


@pytest.mark.parametrize("layer", SOURCES)
def test_sources(layer):
    assert sources_of(layer) == SOURCES[layer]
    assert sees_features(layer) == (layer <= 2)
    assert sees_features(layer) == (FEATURES in SOURCES[layer])
    assert width_of_inputs(layer, WIDTHS) == sum(WIDTHS[source] for source in SOURCES[layer])


@pytest.mark.parametrize("layer", SOURCES)
def test_inputs_are_the_sources_side_by_side(seen, layer):
    inputs = inputs_of(layer, seen)
    np.testing.assert_array_equal(inputs, np.hstack([seen[source] for source in SOURCES[layer]]))
    assert inputs.shape[1] == width_of_inputs(layer, WIDTHS)


@pytest.mark.parametrize("layer", SOURCES)
def test_inputs_stay_sparse_while_they_hold_sparse_features(seen, layer):
    inputs = inputs_of(layer, [sp.csr_array(seen[0]), *seen[1:]])
    assert sp.issparse(inputs) == (layer <= 2)
    if sp.issparse(inputs):
        assert inputs.format == "csr"
        inputs = inputs.toarray()
    np.testing.assert_array_equal(inputs, inputs_of(layer, seen))


def test_later_units_change_nothing(seen):
    """The inputs of a layer are known as soon as the layers below it are."""
    for layer in SOURCES:
        np.testing.assert_array_equal(inputs_of(layer, seen[:layer]), inputs_of(layer, seen))
        assert width_of_inputs(layer, WIDTHS[:layer]) == width_of_inputs(layer, WIDTHS)
