"""Ctrl-C and full disks, in processes of their own: the old model stays, nothing half is called whole."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

from pbdn import PBDNClassifier
from pbdn.cli.app import app

LONG = ["--inference", "gibbs", "--sweeps", "20000", "--max-depth", "1"]  # the first line comes after 2 % of them
SHORT = [
    "--inference",
    "gibbs",
    "--sweeps",
    "1000",
    "--max-depth",
    "1",
    "--members",
    "1",
    "--holdout",
    "0.3",
    "--refit",
]


def can_be_interrupted():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background job may ignore SIGINT, and its children with it


def start(folder, *arguments, **more):
    command = [sys.executable, "-m", "pbdn", *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": can_be_interrupted, **more}
    return subprocess.Popen(command, cwd=folder, text=True, **options)


def interrupt_when(process, ready):
    """Press Ctrl-C when something has happened; returns the exit code and what was said."""
    while not ready() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    return process.returncode, out, err.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, and a model of it."""
    folder = tmp_path_factory.mktemp("made")
    X = np.random.default_rng(4).normal(size=(120, 3))
    rows = [f"{a:.4f},{b:.4f},{c:.4f},{int(a * b > 0)}" for a, b, c in X]
    (folder / "t.csv").write_text("\n".join(["a,b,c,y", *rows]))
    options = ["--inference", "map", "--criterion", "aic_inputs", "--max-depth", "1", "--holdout", "0"]
    arguments = ["fit", str(folder / "t.csv"), "-t", "y", "-o", str(folder / "m.pbdn"), *options]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def fit(folder, monkeypatch, *options):
    """A fit that nobody interrupts, in this process."""
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["fit", "t.csv", "-t", "y", "-o", "m.pbdn", *options])
    assert done.exit_code == 0, done.output


def test_ctrl_c_leaves_the_old_model(folder):
    before = (folder / "m.pbdn").read_bytes()
    process = start(folder, "fit", "t.csv", "-t", "y", "-o", "m.pbdn", "--refit", *LONG)
    line = process.stderr.readline()  # a line of progress: it is fitting
    while "layer 1" not in line:
        line = process.stderr.readline()
    code, out, sentence = interrupt_when(process, lambda: True)
    assert code == 130
    assert out == ""
    assert sentence.startswith("pbdn: Interrupted; m.pbdn is as it was. With --checkpoint FILE")
    assert (folder / "m.pbdn").read_bytes() == before
    assert sorted(os.listdir(folder)) == ["m.pbdn", "t.csv"]


@pytest.mark.long
def test_the_same_command_goes_on_from_a_checkpoint(folder, monkeypatch):
    (folder / "m.pbdn").unlink()
    command = ["fit", "t.csv", "-t", "y", "-o", "m.pbdn", "--checkpoint", "c.pbdn", *SHORT]
    process = start(folder, *command)
    code, _, sentence = interrupt_when(process, lambda: (folder / "c.pbdn").exists())
    assert code == 130
    assert "no model was written. What was trained is in c.pbdn: give the same command to go on." in sentence
    process = start(folder, *command)
    code, _, sentence = interrupt_when(process, lambda: (folder / "c.pbdn.refit").exists())
    assert code == 130
    assert sorted(os.listdir(folder)) == ["c.pbdn", "c.pbdn.refit", "t.csv"]
    fit(folder, monkeypatch, "--checkpoint", "c.pbdn", *SHORT)
    assert sorted(os.listdir(folder)) == ["m.pbdn", "t.csv"]
    resumed = PBDNClassifier.load(folder / "m.pbdn")
    fit(folder, monkeypatch, *SHORT)
    straight = PBDNClassifier.load(folder / "m.pbdn")
    assert resumed.get_params() == straight.get_params()
    for one, other in zip(resumed.network_.layers, straight.network_.layers, strict=True):
        for side, same in zip(one.sides, other.sides, strict=True):
            np.testing.assert_array_equal(side.hyperplanes, same.hyperplanes)


def at_most(n_bytes):
    """Files of this process end at so many bytes, as on a disk that is full."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.long)])
def test_a_cut_off_output_is_an_error(folder, unbuffered):
    rows = (folder / "t.csv").read_text().splitlines()
    (folder / "more.csv").write_text("\n".join([rows[0], *rows[1:] * 30]))
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    whole = CliRunner().invoke(app, ["predict", str(folder / "m.pbdn"), str(folder / "more.csv")])
    assert whole.exit_code == 0
    assert len(whole.stdout) > 100_000
    with open(folder / "out.csv", "w") as target:
        cut = start(folder, "predict", "m.pbdn", "more.csv", env=environment, stdout=target, preexec_fn=at_most(65_536))
        said = cut.communicate(timeout=120)[1].strip()
    assert cut.returncode == 2
    assert said.startswith("pbdn: Cannot write to standard output: File too large. What is there is not complete.")
    assert "\n" not in said


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(
    ("unbuffered", "command"),
    [
        ("", ["inspect", "m.pbdn"]),
        pytest.param("", ["inspect", "m.pbdn", "--json"], marks=pytest.mark.long),
        pytest.param("1", ["inspect", "none", "--json"], marks=pytest.mark.long),
    ],
)
def test_a_full_disk_behind_standard_output(folder, unbuffered, command):
    with open("/dev/full", "w") as target:
        done = start(folder, *command, stdout=target, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
        said = done.communicate(timeout=120)[1].strip()
    assert done.returncode == 2
    assert said.startswith("pbdn: Cannot ")
    assert "\n" not in said
