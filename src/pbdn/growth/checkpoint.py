"""Checkpoints of a fit: every chain's state in one file, written atomically, refused if it is of another fit."""

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pbdn._version import __version__
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.files import read_container, write_container
from pbdn.gibbs.chain import ChainState
from pbdn.model.network import Layer, Side
from pbdn.sgd.train_layer import MapResult

LEAST_SECONDS = 1.0  # between two writes
COST_SHARE = 0.01  # of the running time that writing may take

Arrays = dict[str, NDArray[Any]]
Task = tuple[int, int, int, int]  # depth, side, chain, path


def fingerprint(arrays: list[Any], settings: Mapping[str, Any]) -> dict[str, str]:
    """Marks that a checkpoint must match: a digest of the data, every setting, the version of the library."""
    data = hashlib.sha256()
    for array in arrays:
        if array is None:
            data.update(b"none")
            continue
        parts = (array.data, array.indices, array.indptr) if sp.issparse(array) else (np.asarray(array),)
        for part in (np.array(array.shape), *parts):
            data.update(str((part.shape, part.dtype)).encode())
            data.update(np.ascontiguousarray(part).tobytes())
    named = {name: getattr(value, "__qualname__", None) or repr(value) for name, value in settings.items()}
    return {"data": data.hexdigest(), "version": __version__, **named}


class Checkpoint:
    """Keeps the chains (or the finished MAP layers) of one fit in a file.

    Parameters
    ----------
    path : path
    marks : dict
        The fingerprint of data and settings.
    seed : int
        Seed of the fit; replaced by the saved one on resuming, so that a fit without fixed seed resumes too.
    n_sweeps : int
        Length of every chain.
    """

    def __init__(self, path: str | os.PathLike[str], marks: dict[str, str], seed: int, n_sweeps: int) -> None:
        self.path, self.marks, self.seed, self.n_sweeps = Path(path), marks, seed, n_sweeps
        self.saved: dict[str, Arrays] = {}
        self._taken: dict[str, float] = {}  # when each entry was last brought up to date
        self._lock = Lock()
        self._written, self._cost, self._changed = time.monotonic(), 0.0, False
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        header, arrays = read_container(self.path, kind="checkpoint")
        try:
            self._compare(header["marks"])
            self.seed = int(header["seed"])
            for full_name, array in arrays.items():
                task, field = full_name.split("/", 1)
                self.saved.setdefault(task, {})[field] = array
        except (KeyError, TypeError, AttributeError) as error:
            raise FileFormatError(f"{str(self.path)!r} is not a complete checkpoint: {error}.") from error

    def _compare(self, marks: Mapping[str, str]) -> None:
        """Refuse a checkpoint of another fit, saying in what it differs."""
        other = sorted(name for name in self.marks if marks.get(name) != self.marks[name])
        if not other:
            return
        if "data" in other:
            what = "other data (X, y, sample_weight or class_weight)"
        else:
            what = ", ".join(f"{name}={marks.get(name)} (now {self.marks[name]})" for name in other)
        raise InvalidInputError(
            f"checkpoint={str(self.path)!r} belongs to a fit with {what}; delete the file to start anew, "
            "or give another path."
        )

    def finished(self, task: Task) -> ChainState | None:
        """The state a task had reached, if the file knows it."""
        arrays = self.saved.get(_name(task))
        return None if arrays is None else ChainState.from_arrays(arrays, self.n_sweeps)

    def saw(self, task: Task, chain: ChainState) -> None:
        """Take the state in from time to time, and whenever a chain ends."""
        name, now = _name(task), time.monotonic()
        with self._lock:
            if chain.done < self.n_sweeps and now - self._taken.setdefault(name, now) < self._interval():
                return
            self._taken[name] = now
        self.store(name, chain.to_arrays())

    def stopped(self, task: Task, chain: ChainState) -> None:
        """Take in the state in which a chain was cut short."""
        self.store(_name(task), chain.to_arrays())

    def store(self, name: str, arrays: Arrays) -> None:
        """Replace one entry, and write the file unless that was done a moment ago."""
        with self._lock:
            self.saved[name] = arrays
            self._changed = True
            due = time.monotonic() - self._written > self._interval()
        if due:
            self.write()

    def write(self) -> None:
        """Write the file if anything changed."""
        with self._lock:
            if not self._changed:
                return
            began = time.monotonic()
            flat = {f"{task}/{field}": array for task, part in self.saved.items() for field, array in part.items()}
            write_container(self.path, {"kind": "checkpoint", "marks": self.marks, "seed": self.seed}, flat)
            self._written, self._changed = time.monotonic(), False
            self._cost = self._written - began

    def _interval(self) -> float:
        """Seconds between two writes, and between two looks at the same chain."""
        return max(LEAST_SECONDS, self._cost / COST_SHARE)


def arrays_of_sides(sides: Sequence[Side]) -> Arrays:
    """The sides of a layer as entries of a checkpoint."""
    arrays: Arrays = {}
    for s, side in enumerate(sides):
        arrays[f"hyperplanes.{s}"], arrays[f"expert_weights.{s}"] = side.hyperplanes, side.expert_weights
        if side.time_coefs is not None:
            arrays[f"time_coefs.{s}"] = side.time_coefs
    return arrays


def sides_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> tuple[Side, ...]:
    """Inverse of `arrays_of_sides`; other entries are ignored."""
    n_sides = sum(name.startswith("hyperplanes.") for name in arrays)
    return tuple(
        Side(arrays[f"hyperplanes.{s}"], arrays[f"expert_weights.{s}"], arrays.get(f"time_coefs.{s}"))
        for s in range(n_sides)
    )


def arrays_of_layers(layers: Sequence[Layer]) -> Arrays:
    """Layers as entries of a checkpoint."""
    return {
        f"{t}.{name}": array for t, layer in enumerate(layers) for name, array in arrays_of_sides(layer.sides).items()
    }


def layers_from_arrays(arrays: Arrays) -> tuple[Layer, ...]:
    """Inverse of `arrays_of_layers`."""
    parts: dict[int, Arrays] = {}
    for full_name, array in arrays.items():
        t, name = full_name.split(".", 1)
        parts.setdefault(int(t), {})[name] = array
    return tuple(Layer(sides_from_arrays(parts[t])) for t in sorted(parts))


def arrays_of_map_result(result: MapResult) -> Arrays:
    """A layer trained by MAP as entries of a checkpoint."""
    arrays = {f"trace.{name}": np.asarray(values) for name, values in result.trace.items()}
    arrays["log_likelihood"] = np.asarray(result.log_likelihood)
    return arrays | arrays_of_sides(result.sides)


def map_result_from_arrays(arrays: Arrays) -> MapResult:
    """Inverse of `arrays_of_map_result`."""
    trace = {name.removeprefix("trace."): values for name, values in arrays.items() if name.startswith("trace.")}
    return MapResult(sides_from_arrays(arrays), trace, arrays["log_likelihood"])


def _name(task: Task) -> str:
    return ".".join(str(part) for part in task)
