"""Records of measurements: one append-only file of JSON lines per experiment, the one place that writes and reads them.

A line says what was measured and where it comes from: commit, whether the sources differed from it, time, versions, machine.
Two processes may append at the same time. A measurement that is repeated is appended; readers take the newest line of
every key.
"""

import base64
import fcntl
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
KEY = ("method", "data", "split", "seed", "case")
"""Fields that identify a measurement within its experiment, where a record has them."""
UNKNOWN = "unknown"
"""Commit of lines that were made before commits were recorded."""
PACKAGES = (
    *("pbdn", "numpy", "scipy", "scikit-learn", "numba", "torch", "lightgbm", "catboost", "tabpfn"),
    *("ngboost", "bartz", "statsmodels", "scikit-survival", "mord"),
)

Record = dict[str, Any]
Key = tuple[Any, ...]
N_BINS = 10
SMALLEST = 1e-12
"""Probability of the true class below which the log-loss does not see."""


def path_of(experiment: str, root: Path = RESULTS) -> Path:
    """Where the lines of an experiment are, such as ``"paper/gibbs"``."""
    return root / f"{experiment}.jsonl"


def key_of(record: Mapping[str, Any]) -> Key:
    """What identifies a measurement: method, data, split, seed and case."""
    return tuple(record.get(name) for name in KEY)


def append(experiment: str, record: Mapping[str, Any], root: Path = RESULTS) -> None:
    """Add one line, whole or not at all.

    Parameters
    ----------
    experiment : str
        Name of the file below ``root``; folders are made.
    record : mapping
        Must hold ``seed`` and ``config``. Arrays and NumPy scalars are allowed, NaN is not. `about` is added.
    root : Path
        Folder of the experiments.
    """
    missing = {"seed", "config"} - set(record)
    if missing:
        raise ValueError(f"record lacks {', '.join(sorted(missing))}; every record states its seed and config.")
    line = json.dumps({**record, **about()}, default=_plain, allow_nan=False, separators=(",", ":")) + "\n"
    path = path_of(experiment, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(_end_of_whole_lines(file))
        file.write(line.encode())
        file.flush()


def _end_of_whole_lines(file: Any) -> int:
    """Bytes up to the last line end: a writer that was killed may have left part of a line."""
    end = file.seek(0, os.SEEK_END)
    while end:
        file.seek(end - 1)
        if file.read(1) == b"\n":
            return int(end)
        end -= 1
    return 0


def read(experiment: str, root: Path = RESULTS, method: str | None = None) -> list[Record]:
    """The newest record of every key, of one method or all, sorted by the key; none where there is no file."""
    path = path_of(experiment, root)
    if not path.exists():
        return []
    newest: dict[Key, Record] = {}
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            record = json.loads(line)
            newest[key_of(record)] = record
    wanted = [line for line in newest.values() if method in (None, line.get("method"))]
    return sorted(wanted, key=lambda one: [(type(value).__name__, value or 0) for value in key_of(one)])


def experiments(folder: str, root: Path = RESULTS) -> list[str]:
    """Names of the experiments in a folder."""
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in (root / folder).glob("*.jsonl"))


def about() -> Record:
    """Where a measurement comes from."""
    return {"when": datetime.now(UTC).isoformat(timespec="seconds"), **_source(), "versions": _versions()} | {
        "machine": dict(_machine())
    }


@cache
def _source() -> Record:
    """Commit of this working tree when the process first asked, and whether library or benchmarks differed from it."""
    home = Path(__file__).parent.parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(home), *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(changed)}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": UNKNOWN, "dirty": None}


@cache
def _versions() -> Record:
    """Versions of the packages that matter, where installed."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


@cache
def _machine() -> Record:
    """Processor, number of cores, architecture and Python; no names."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return value.as_posix()
    raise TypeError(f"{type(value).__name__} cannot be written to a record")


def pack(array: Any, dtype: str = "<f4") -> dict[str, Any]:
    """A JSON value that holds an array."""
    array = np.ascontiguousarray(array, dtype=dtype)
    return {"dtype": dtype, "shape": list(array.shape), "base64": base64.b64encode(array.tobytes()).decode("ascii")}


def unpack(value: dict[str, Any]) -> np.ndarray:
    """Inverse of `pack`."""
    return np.frombuffer(base64.b64decode(value["base64"]), dtype=value["dtype"]).reshape(value["shape"])


def pack_picture(pixels: Any) -> dict[str, Any]:
    """Values in [0, 1] as bytes."""
    return pack(np.rint(255 * np.clip(pixels, 0.0, 1.0)), "|u1")


def metrics(y: Any, probability: Any) -> dict[str, float]:
    """Error in percent, log-loss, Brier score, calibration error (ten bins of equal width), and what chance makes of the last.

    Labels that follow the stated probabilities do not meet them in every bin. The mean of what is left is "ece_by_chance".

    ``y`` are class codes, ``probability`` has a column per class. Of two classes the calibration is that of the second
    class and the Brier score is the mean square of one column; of more, the calibration is that of the most probable class
    and the Brier score sums over the classes.
    """
    y = np.asarray(y).astype(np.int64)
    n_classes = probability.shape[1]
    best = probability.argmax(axis=1)
    square = ((probability - (np.arange(n_classes) == y[:, None])) ** 2).sum(axis=1)
    stated, happened, bins = _stated(y, probability)
    spread = np.bincount(bins, stated * (1.0 - stated))  # variance of the number of hits in each bin
    return {
        "error": float(100 * np.mean(best != y)),
        "log_loss": float(-np.log(np.maximum(probability[np.arange(len(y)), y], SMALLEST)).mean()),
        "brier": float(square.mean() / (2 if n_classes == 2 else 1)),
        "ece": calibration_error(reliability(y, probability)),
        "ece_by_chance": float(np.sqrt(2 / np.pi * spread).sum() / len(y)),
    }


def reliability(y: Any, probability: Any) -> dict[str, Any]:
    """Of each of ten bins of stated probabilities: the sum of those of its rows, and how often what they speak of happened."""
    stated, happened, bins = _stated(np.asarray(y).astype(np.int64), probability)
    sums = {"stated": stated, "happened": happened.astype(float)}
    return {name: np.bincount(bins, values, N_BINS).tolist() for name, values in sums.items()} | {"rows": len(bins)}


def calibration_error(found: Any) -> float:
    """By how much what is stated misses what happens, on average over rows."""
    return float(np.abs(np.subtract(found["stated"], found["happened"])).sum() / np.sum(found["rows"]))


def _stated(y: np.ndarray, probability: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, whether what they speak of happened, and their bins."""
    if probability.shape[1] == 2:
        stated, happened = probability[:, 1], y == 1
    else:
        stated, happened = probability.max(axis=1), probability.argmax(axis=1) == y
    return stated, happened, np.minimum((stated * N_BINS).astype(int), N_BINS - 1)


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Seconds of what happens inside, elapsed and of the processor; filled at the end."""
    spent: dict[str, float] = {}
    elapsed, processor = time.perf_counter(), time.process_time()
    yield spent
    spent |= {"seconds": time.perf_counter() - elapsed, "cpu_seconds": time.process_time() - processor}
