"""One small JSON file per fit: what was run, with which seed and versions, on which machine, the result."""

import json
import os
import platform
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("pbdn", "numpy", "scipy", "scikit-learn", "numba", "torch", "lightgbm", "catboost", "tabpfn")


def save_result(path: str | Path, payload: Mapping[str, Any]) -> Path:
    """Write ``payload`` with versions and machine as JSON, whole or not at all.

    Parameters
    ----------
    path : str or Path
        Target file; folders are made.
    payload : mapping
        Must hold ``seed`` and ``config``; arrays and NumPy scalars are allowed, NaN is not.
    """
    missing = {"seed", "config"} - set(payload)
    if missing:
        raise ValueError(f"payload lacks {', '.join(sorted(missing))}; every result states its seed and config.")
    path = Path(path)
    record = {**payload, "versions": package_versions(), "machine": machine()}
    text = json.dumps(record, indent=1, sort_keys=True, default=_plain, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def load_result(path: str | Path) -> dict[str, Any]:
    """One result."""
    record: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return record


def load_results(folder: str | Path) -> list[dict[str, Any]]:
    """All results under a folder, in the order of their paths; each gains ``path`` relative to the folder."""
    folder = Path(folder)
    results = []
    for path in sorted(folder.rglob("*.json")):
        if not path.name.startswith("."):
            results.append({**load_result(path), "path": path.relative_to(folder).as_posix()})
    return results


@cache
def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter, where installed."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


@cache
def machine() -> dict[str, Any]:
    """Processor model, number of cores and system; no host name."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
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
    raise TypeError(f"{type(value).__name__} cannot be written to a result file")
