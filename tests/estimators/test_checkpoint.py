"""Checkpoints: killed at any moment, resumed to the same bits; foreign or damaged ones are refused.

Run as a script with FOLDER INFERENCE, this is the fit that is killed.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from estimators.test_properties import same_network
from fitted import blobs, fitted, small
from pbdn import GibbsConfig, ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.growth import checkpoint
from pbdn.growth.checkpoint import Checkpoint

SCRIPT = pathlib.Path(__file__).resolve()
TESTS = SCRIPT.parents[1]


def make(inference, path, **more):
    """The estimator of this test: long enough to be killed several times."""
    settings = {
        "gibbs": {"gibbs_config": GibbsConfig(n_sweeps=200, n_draws=30, n_chains=2, n_paths=2)},
        "map": {"map_config": MapConfig(n_minibatches=300, n_members=2)},
    }[inference]
    return PBDNClassifier(
        inference=inference, random_state=1, checkpoint=path, **{"max_experts": 6, "max_depth": 2, **settings, **more}
    )


def data():
    return blobs(np.random.default_rng(5), n=300)


def with_checkpoint(folder, inference):
    """A fit that is killed, started again, and saves its model at the end."""
    checkpoint.LEAST_SECONDS = 0.02  # look often, so that a short test sees many states
    checkpoint.COST_SHARE = 1.0
    warnings.simplefilter("ignore")
    short = {"map_config": MapConfig(n_minibatches=10), "gibbs_config": GibbsConfig(n_sweeps=4, n_paths=1)}
    make(inference, None, max_depth=1, **short).fit(*data())  # loads the compiled code
    print("started", flush=True)
    make(inference, folder / "checkpoint.pbdn").fit(*data()).save(folder / "model.pbdn")
    print("finished", flush=True)


def launch(folder, inference):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), inference],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdout.readline() == "started\n"
    return process


def kill_until_done(folder, inference, rng, n_kills):
    """Kill the fit at random moments, then let it end; returns how often it was hit while running."""
    hits, longest = 0, 0.5
    for _ in range(n_kills):
        process = launch(folder, inference)
        try:
            process.wait(timeout=rng.uniform(0.1, 1.0) * longest)
        except subprocess.TimeoutExpired:
            hits += 1
            os.kill(process.pid, signal.SIGKILL)
        else:  # it ended first: start afresh, and strike sooner
            longest /= 2
            for path in folder.iterdir():
                path.unlink()
        process.communicate()
    process = launch(folder, inference)
    rest, _ = process.communicate(timeout=300)
    assert "finished" in rest
    return hits


def assert_same_fit(folder, inference):
    resumed = PBDNClassifier.load(folder / "model.pbdn")
    straight = fitted(make(inference, None), *data())
    assert same_network(resumed.network_, straight.network_)
    for mine, theirs in zip(resumed.criterion_path_, straight.criterion_path_, strict=True):
        assert mine["criterion"] == theirs["criterion"]
        assert mine["log_likelihood"] == theirs["log_likelihood"]
    assert resumed.convergence_ == straight.convergence_  # follows from the whole traces


@pytest.mark.parametrize(("inference", "n_kills"), [pytest.param("gibbs", 2, marks=pytest.mark.long), ("map", 1)])
def test_killed_fits_resume_to_the_same_bits(inference, n_kills, tmp_path, rng):
    assert kill_until_done(tmp_path, inference, rng, n_kills) > 0
    assert_same_fit(tmp_path, inference)


@pytest.mark.statistical
@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_killed_often(inference, tmp_path, rng):
    assert kill_until_done(tmp_path, inference, rng, 25) > 0
    assert_same_fit(tmp_path, inference)


class Killed(Exception):
    """Stands for the end of a process, at a chosen sweep."""


@pytest.mark.parametrize("sampler", ["first_events", "event_times", "counts"])
def test_resuming_from_every_stage_gives_the_same_bits(sampler, tmp_path, monkeypatch, rng):
    """Stop after sweeps spread over both sides, both chains and both layers; traces agree too."""
    X, y = blobs(rng)
    settings = {"n_sweeps": 24, "n_burn_in": 12, "prune_every": 6, "n_chains": 2, "sampler": sampler}
    straight = fitted(small(**settings), X, y)
    path = tmp_path / "c"
    monkeypatch.setattr(checkpoint, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "COST_SHARE", np.inf)
    saw, seen = Checkpoint.saw, []
    for stop_after in (1, 36, 78, 114):

        def counting(self, task, chain, stop_after=stop_after):
            saw(self, task, chain)
            seen.append(task)
            if len(seen) >= stop_after:
                raise Killed

        monkeypatch.setattr(Checkpoint, "saw", counting)
        with pytest.raises(Killed):
            fitted(small(checkpoint=path, **settings), X, y)
    monkeypatch.setattr(Checkpoint, "saw", saw)
    resumed = fitted(small(checkpoint=path, **settings), X, y)
    assert len(set(seen)) > 3
    assert same_network(resumed.network_, straight.network_)
    for mine, theirs in zip(resumed.trace_, straight.trace_, strict=True):
        for a, b in zip(sum(mine, []), sum(theirs, []), strict=True):
            np.testing.assert_array_equal(a["log_likelihood"], b["log_likelihood"])
            np.testing.assert_array_equal(a["n_active"], b["n_active"])


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_a_finished_checkpoint_is_only_read(inference, tmp_path, rng):
    X, y = blobs(rng)
    path = tmp_path / "c"
    first = fitted(small(inference, checkpoint=path, random_state=None), X, y)
    written = path.read_bytes()
    again = fitted(small(inference, checkpoint=path, random_state=None), X, y)  # takes the seed from the file
    assert same_network(first.network_, again.network_)
    assert path.read_bytes() == written


def test_paths_resume_too(tmp_path, rng):
    X, y = blobs(rng)
    settings = {"prediction": "paths", "n_paths": 2}
    path = tmp_path / "c"
    first = fitted(small(checkpoint=path, **settings), X, y)
    again = fitted(small(checkpoint=path, **settings), X, y)
    for a, b, c in zip(first.paths_, again.paths_, fitted(small(**settings), X, y).paths_, strict=True):
        assert same_network(a, b)
        assert same_network(a, c)


def test_other_settings_that_do_not_matter_may_change(tmp_path, rng):
    X, y = blobs(rng)
    first = fitted(small(checkpoint=tmp_path / "c", n_chains=2), X, y)
    again = fitted(small(checkpoint=tmp_path / "c", n_chains=2, n_jobs=2, time_limit=1000.0), X, y)
    assert same_network(first.network_, again.network_)


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_foreign_checkpoints_are_refused_by_name(inference, tmp_path, rng):
    X, y = blobs(rng)
    path = tmp_path / "c"
    fitted(small(inference, checkpoint=path), X, y)
    other = X.copy()
    other[0, 0] += 1e-9
    for bad_X, bad_y, weight in ((other, y, None), (X, 1 - y, None), (X, y, np.arange(len(y)) + 1.5)):
        with pytest.raises(InvalidInputError, match=r"checkpoint=.*other data \(X, y, sample_weight"):
            small(inference, checkpoint=path).fit(bad_X, bad_y, sample_weight=weight)
    with pytest.raises(InvalidInputError, match=r"belongs to a fit with max_experts=6 \(now 7\); delete"):
        small(inference, checkpoint=path, max_experts=7).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"gibbs_config=.*n_draws=20.*\(now GibbsConfig\(.*n_draws=21"):
        small(inference, checkpoint=path, n_draws=21).fit(X, y)
    with pytest.raises(InvalidInputError, match=r"random_state=0 \(now 9\)"):
        small(inference, checkpoint=path, random_state=9).fit(X, y)
    with pytest.raises(InvalidInputError, match="ISHMClassifier"):
        small(inference, cls=ISHMClassifier, checkpoint=path).fit(X, y)


def test_a_criterion_of_ones_own_is_recognised(tmp_path, rng):
    """Functions are compared by name: their address differs from process to process."""
    X, y = blobs(rng)

    def deeper(layers, log_likelihood, n_rows):
        return -float(len(layers))

    fitted(small("map", checkpoint=tmp_path / "c", criterion=deeper), X, y)

    def deeper_again(layers, log_likelihood, n_rows):
        return -float(len(layers))

    deeper_again.__qualname__ = deeper.__qualname__
    assert fitted(small("map", checkpoint=tmp_path / "c", criterion=deeper_again), X, y).depth_ == 2
    with pytest.raises(InvalidInputError, match="criterion="):
        fitted(small("map", checkpoint=tmp_path / "c", criterion="aic"), X, y)


def test_damaged_checkpoints_are_refused(tmp_path, rng):
    X, y = blobs(rng)
    path = tmp_path / "c"
    fitted(small(checkpoint=path), X, y)
    whole = path.read_bytes()
    for damage in (whole[:-1], whole[: len(whole) // 2], b"", whole[:200] + b"!" + whole[201:], whole + b"0"):
        path.write_bytes(damage)
        with pytest.raises(FileFormatError):
            small(checkpoint=path).fit(X, y)
    model = tmp_path / "model.pbdn"
    fitted(small("map"), X, y).save(model)
    with pytest.raises(FileFormatError):
        small(checkpoint=model).fit(X, y)


def test_a_checkpoint_that_cannot_be_written_is_an_error_with_its_path(tmp_path, rng):
    X, y = blobs(rng)
    with pytest.raises(OSError, match="nowhere"):
        fitted(small(checkpoint=tmp_path / "nowhere" / "c"), X, y)


def test_writing_is_rare(tmp_path, rng):
    """One look per second at most: a fit of a moment writes once, at its end."""
    X, y = blobs(rng)
    writes = []
    original = Checkpoint.write

    class Counting(Checkpoint):
        def write(self):
            writes.append(time.monotonic())
            original(self)

    keeper = Counting(tmp_path / "c", {"data": ""}, 0, 10)
    for k in range(100):
        keeper.store(str(k), {"x": np.zeros(3)})
    keeper.write()
    assert len(writes) == 1
    assert set(Checkpoint(tmp_path / "c", {"data": ""}, 0, 10).saved) == {str(k) for k in range(100)}


if __name__ == "__main__":
    with_checkpoint(pathlib.Path(sys.argv[1]), sys.argv[2])
