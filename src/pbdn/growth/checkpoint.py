"""Checkpoints of a fit: every chain's state in one file, written atomically, refused if it is of another fit."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.files import read_container, write_container
from pbdn.gibbs.chain import ChainState
from pbdn.growth.gibbs_engine import Task

LEAST_SECONDS = 1.0  # between two writes
COST_SHARE = 0.01  # of the running time that writing may take


def fingerprint(arrays: list[Any], settings: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the data and of the settings that a checkpoint must match."""
    data = hashlib.sha256()
    for array in arrays:
        if array is None:
            data.update(b"none")
            continue
        parts = (array.data, array.indices, array.indptr) if sp.issparse(array) else (np.asarray(array),)
        for part in parts:
            data.update(str((part.shape, part.dtype)).encode())
            data.update(np.ascontiguousarray(part).tobytes())
    text = json.dumps({key: repr(value) for key, value in settings.items()}, sort_keys=True)
    return {"data": data.hexdigest(), "settings": hashlib.sha256(text.encode()).hexdigest()}


class Checkpoint:
    """Keeps the chains of one fit in a file.

    Parameters
    ----------
    path : path
    marks : dict
        The fingerprint of data and settings.
    seed : int
        Seed of the fit; replaced by the saved one on resuming, so that a fit without fixed seed resumes too.
    """

    def __init__(self, path: str | os.PathLike[str], marks: dict[str, str], seed: int, n_sweeps: int) -> None:
        self.path, self.marks, self.seed, self.n_sweeps = Path(path), marks, seed, n_sweeps
        self.saved: dict[str, dict[str, NDArray[Any]]] = {}
        self._lock = Lock()
        self._last, self._cost = time.monotonic(), 0.0
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        header, arrays = read_container(self.path, kind="checkpoint")
        for name, what in (("data", "other data (X, y or sample_weight)"), ("settings", "other parameters")):
            if header.get("marks", {}).get(name) != self.marks[name]:
                raise InvalidInputError(
                    f"checkpoint={str(self.path)!r} belongs to a fit with {what}; delete the file to start anew, "
                    "or give another path."
                )
        self.seed = int(header["seed"])
        for full_name, array in arrays.items():
            task, field = full_name.split("/", 1)
            self.saved.setdefault(task, {})[field] = array

    def finished(self, task: Task) -> ChainState | None:
        """The state a task had reached, if the file knows it."""
        arrays = self.saved.get(_name(task))
        return None if arrays is None else ChainState.from_arrays(arrays, self.n_sweeps)

    def saw(self, task: Task, chain: ChainState) -> None:
        """Take the state in from time to time, and whenever a chain ends."""
        now = time.monotonic()
        due = now - self._last > max(LEAST_SECONDS, self._cost / COST_SHARE)
        if due or chain.done == self.n_sweeps:
            self.store(_name(task), chain.to_arrays())

    def store(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Replace one entry and write the file."""
        with self._lock:
            began = time.monotonic()
            self.saved[name] = arrays
            flat = {f"{task}/{field}": array for task, part in self.saved.items() for field, array in part.items()}
            header = {"kind": "checkpoint", "marks": self.marks, "seed": self.seed}
            write_container(self.path, header, flat)
            self._last = time.monotonic()
            self._cost = self._last - began


def _name(task: Task) -> str:
    return ".".join(str(part) for part in task)
