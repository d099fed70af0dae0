"""Rows that streams of several kinds are made of."""

import numpy as np
import pytest


@pytest.fixture
def rows(rng):
    """Two features of very different scale; "yes" where their signs differ."""
    X = rng.normal(size=(1200, 2))
    y = np.array(["no", "yes"])[(X[:, 0] * X[:, 1] < 0).astype(int)]
    return X * [0.01, 300.0] + [5.0, -1000.0], y, rng.integers(1, 3, 1200).astype(float)
