"""Seeds from test names; compiled code that is out of date removed before workers share it."""

import json
import os
import zlib

import numpy as np
import pytest

from pbdn.numerics.kernel_sources import PACKAGE, digest


def _remove_stale_kernels() -> None:
    """Kernels are compiled again when their sources change; two workers that do so at once could mix old and new files."""
    stamps = PACKAGE / "__pycache__" / "kernels.json"
    before = json.loads(stamps.read_text()) if stamps.exists() else {}
    now = {str(path.relative_to(PACKAGE)): digest(path) for path in sorted(PACKAGE.rglob("*.py"))}
    for name, value in now.items():
        if before.get(name) != value:
            path = PACKAGE / name
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.nb?"):
                compiled.unlink(missing_ok=True)
    stamps.parent.mkdir(exist_ok=True)
    stamps.write_text(json.dumps(now))


if "PYTEST_XDIST_WORKER" not in os.environ:
    _remove_stale_kernels()


@pytest.fixture
def seed(request):
    """A seed that follows from the test's name; PBDN_TEST_SEED shifts all of them."""
    return zlib.crc32(request.node.nodeid.encode()) + int(os.environ.get("PBDN_TEST_SEED", "0"))


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)
