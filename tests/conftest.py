"""Seeds from test names, thresholds from one false-alarm rate, stale compiled code removed."""

import hashlib
import os
import pathlib
import zlib

import numpy as np
import pytest
from scipy import stats

ROOT = pathlib.Path(__file__).resolve().parent.parent

SUITE_FALSE_ALARM = 1e-3  # probability that any statistical check of a correct suite fails, over all of them
N_CHECKS = 5000  # more than the suite makes; each check has SUITE_FALSE_ALARM / N_CHECKS
ALPHA = SUITE_FALSE_ALARM / N_CHECKS
Z_MAX = float(stats.norm.isf(ALPHA / 2))


def _forget_stale_kernels() -> None:
    """Numba's cache looks at a kernel's own file only: when any file with kernels changed, compile all again."""
    sources = [path.read_bytes() for path in sorted((ROOT / "src").rglob("*.py"))]
    digest = hashlib.sha256(
        b"".join(text for text in sources if b"njit" in text or b"numerics.compiled" in text)
    ).hexdigest()
    stamp = ROOT / "src" / "pbdn" / "__pycache__" / "kernels.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    for path in (ROOT / "src").rglob("*.nb?"):
        path.unlink(missing_ok=True)
    stamp.parent.mkdir(exist_ok=True)
    stamp.write_text(digest)


if "PYTEST_XDIST_WORKER" not in os.environ:
    _forget_stale_kernels()


@pytest.fixture
def seed(request):
    """A seed that follows from the test's name; PBDN_TEST_SEED shifts all of them."""
    return zlib.crc32(request.node.nodeid.encode()) + int(os.environ.get("PBDN_TEST_SEED", "0"))


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)
