"""Benchmarks: the paper's tables and figures, the rivals, and speed. Not part of the installed package."""

import os
from pathlib import Path

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"

if not os.environ.get("PBDN_DATA") and _BESIDE.is_dir():
    os.environ["PBDN_DATA"] = str(_BESIDE)  # local copies beside the repository, where there are any
