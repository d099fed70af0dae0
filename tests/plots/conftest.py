"""Figures are drawn without a screen and closed after every test."""

import pytest


@pytest.fixture(autouse=True)
def _close():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    yield
    plt.close("all")
