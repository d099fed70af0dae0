"""Real data, where this machine has it: ``PBDN_DATA``, or ``shared/data`` beside the repository."""

import os
from pathlib import Path

import pytest

from pbdn.datasets import data_available

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def real_data(monkeypatch):
    """A function that skips the test unless the named dataset is on this machine."""
    if not os.environ.get("PBDN_DATA") and BESIDE.is_dir():
        monkeypatch.setenv("PBDN_DATA", str(BESIDE))

    def need(name: str) -> None:
        if not data_available(name):
            pytest.skip(f"dataset {name} is neither in PBDN_DATA nor in the cache")

    return need


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    """No local copies, and a cache folder that does not exist yet."""
    monkeypatch.delenv("PBDN_DATA", raising=False)
    monkeypatch.setenv("PBDN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
