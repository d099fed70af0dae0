"""A user's script is type-checked against the package: what it calls has types better than Any."""

import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("mypy", reason="needs mypy (extra `lint`)")

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = """
from pathlib import Path

from pbdn import GibbsConfig, ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.datasets import make_xor
from pbdn.model.priors import Hyperpriors

data = make_xor(40, seed=0)
model = PBDNClassifier(
    max_depth=2, gibbs_config=GibbsConfig(n_sweeps=20), map_config=MapConfig(batch_size=10), priors=Hyperpriors()
)
reveal_type(model.fit(data.X, data.y))
reveal_type(model.fit(data.X, data.y).predict_proba(data.X))
reveal_type(model.predict_proba_interval(data.X))
reveal_type(model.predict(data.X))
reveal_type(model.score(data.X, data.y))
reveal_type(model.depth_)
reveal_type(model.n_experts_)
reveal_type(model.network_)
reveal_type(model.to_sql("sqlite"))
reveal_type(model.to_c())
reveal_type(model.to_python())
reveal_type(model.to_onnx())
reveal_type(PBDNClassifier.load(Path("model.pbdn")))
reveal_type(ISHMClassifier().fit(data.X, data.y))
reveal_type(PBDNClassifier(inference="map").partial_fit(data.X, data.y, classes=[0, 1]))
reveal_type(model.config_.inference)
reveal_type(model.transform(data.X))
"""
EXPECTED = [
    "PBDNClassifier",
    "ndarray[",
    "ndarray[",
    "ndarray[",
    "float",
    "int",
    "list[",
    "Network",
    "str",
    "str",
    "str",
    "bytes",
    "PBDNClassifier",
    "ISHMClassifier",
    "PBDNClassifier",
    "str",
    "ndarray[",
]


def test_a_users_script_has_types(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(SCRIPT, encoding="utf-8")
    outcome = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            f"--config-file={ROOT / 'pyproject.toml'}",
            f"--cache-dir={tmp_path}",
            script,
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in outcome.stdout.splitlines() if line.startswith("user.py")]  # `make lint` checks the package
    assert not [line for line in own if "error:" in line], outcome.stdout
    revealed = [line.split("Revealed type is ")[1] for line in own if "Revealed" in line]
    wrong = [(found, wanted) for found, wanted in zip(revealed, EXPECTED, strict=True) if wanted not in found]
    assert not wrong


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "src" / "pbdn" / "py.typed").exists()
