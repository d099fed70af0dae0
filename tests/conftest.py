"""One core for each worker; seeds from test names; small problems; data and servers of this machine; compiled code that is out of date removed before workers share it."""

import gc
import importlib
import json
import os
import shutil
import subprocess
import tempfile
import zlib
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

if "PYTEST_XDIST_WORKER" in os.environ:  # before OpenMP is loaded, whose threads wait for each other by spinning
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import scipy.sparse as sp

from pbdn.numerics.compiled import PACKAGE, digest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"  # real data, where this machine has it


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


def pytest_collection_modifyitems(items):
    """Two workers take a half each. Let them begin with rooms whose kernels differ, and find the others' on the disk later."""

    def of_room(name):
        return [item for item in items if item.path.parent.name == name]

    first, second = of_room("gibbs"), of_room("sgd")
    begun = {*first, *second}
    others = [item for item in items if item not in begun]
    middle = max(len(items) // 2 - len(first), 0)
    items[:] = [*first, *others[:middle], *second, *others[middle:]]


def pytest_collection_finish():
    """What the libraries made while they were imported stays to the end: no collection of garbage need look at it again."""
    gc.freeze()


@pytest.fixture
def seed(request):
    """A seed that follows from the test's name; PBDN_TEST_SEED shifts all of them."""
    return zlib.crc32(request.node.nodeid.encode()) + int(os.environ.get("PBDN_TEST_SEED", "0"))


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


@dataclass
class Problem:
    """Rows, and the packed parameters of sides on them, for the tests of the MAP engine."""

    inputs: Any
    codes: Any
    weights: Any
    parameters: Any
    starts: Any
    labelling: Any

    @property
    def csr(self) -> Any:
        """The rows as a sparse matrix."""
        return sp.csr_array(self.inputs)

    @property
    def rows(self) -> tuple[Any, Any, Any]:
        """What the objective takes first."""
        return self.inputs, self.codes, self.weights

    @property
    def sides(self) -> tuple[Any, Any, Any]:
        """What the passes over all rows take after the source."""
        return self.parameters, self.starts, self.labelling.positive


@pytest.fixture
def problem(rng):
    """Random rows with zeros in them, random weights, and sides of different widths."""

    from networks import labelling_of

    def make(n_rows=37, n_inputs=7, widths=(3, 5), spread=0.7, labelling=None):
        labelling = labelling_of(len(widths)) if labelling is None else labelling
        inputs = rng.normal(size=(n_rows, n_inputs)) * (rng.random((n_rows, n_inputs)) < 0.6)
        n_codes = max(max(labelling.sides) + 1, 2)
        codes = rng.integers(0, n_codes, n_rows)
        starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        parameters = spread * rng.normal(size=(n_inputs + 2, starts[-1]))
        return Problem(inputs, codes, rng.gamma(2.0, size=n_rows), parameters, starts, labelling)

    return make


@pytest.fixture(scope="module")
def postgres():
    """A throw-away PostgreSQL server on a socket of its own; gives a function that runs psql."""
    initdb = max(glob("/usr/lib/postgresql/*/bin/initdb"), default=None) or shutil.which("initdb")
    psql = shutil.which("psql")
    if initdb is None or psql is None:
        pytest.skip("no PostgreSQL server found (initdb, psql)")
    with tempfile.TemporaryDirectory(prefix="pbdn-") as folder:
        options = {"cwd": folder, "check": True}
        if os.geteuid() == 0:  # the server refuses to run as root
            pwd = importlib.import_module("pwd")
            if "postgres" not in {account.pw_name for account in pwd.getpwall()}:
                pytest.skip("running as root, and no account named postgres to run the server")
            shutil.chown(folder, "postgres")
            options["user"] = "postgres"
        quiet = {"stdout": subprocess.DEVNULL, **options}
        subprocess.run([initdb, "-D", f"{folder}/data", "-U", "test", "-A", "trust"], **quiet)
        server = [Path(initdb).with_name("pg_ctl"), "-D", f"{folder}/data", "-l", f"{folder}/log", "-w"]
        own = f"-k {folder} -c listen_addresses='' -c jit=off"  # a socket only; long queries are run once
        subprocess.run([*server, "-o", own, "start"], **quiet)

        def query(script):
            command = [psql, "-h", folder, "-U", "test", "-d", "postgres", "-v", "ON_ERROR_STOP=1"]
            command += ["-q", "-A", "-t", "-F", "\x1f"]
            done = subprocess.run(command, input=script, capture_output=True, text=True, **options)
            return [line.split("\x1f") for line in done.stdout.splitlines()]

        try:
            yield query
        finally:
            subprocess.run([*server, "-m", "immediate", "stop"], **quiet)


@pytest.fixture
def real_data(monkeypatch):
    """A function that skips the test unless the named dataset is on this machine."""
    from pbdn.datasets import data_available

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
