"""Fits that are stopped: Ctrl-C, time limits, max_depth; and what a fit says while it runs.

Run as a script with FOLDER INFERENCE N_JOBS, this is the fit that presses Ctrl-C on itself.
"""

import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from estimators.test_properties import same_network
from fitted import assert_probabilities, blobs, fitted, small
from pbdn import GibbsConfig, MapConfig, PBDNClassifier
from pbdn.errors import ConvergenceWarning, DepthLimitWarning
from pbdn.files import read_container
from pbdn.growth.run import StopSignal

SCRIPT = pathlib.Path(__file__).resolve()
TESTS = SCRIPT.parents[1]


def press_ctrl_c():
    threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()


def reaches_the_caller(work):
    press_ctrl_c()
    try:
        work()
    except KeyboardInterrupt:
        return True
    return False


def interrupted(folder, inference, n_jobs):
    """Fits without end that press Ctrl-C on themselves, and what came of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore SIGINT
    X, y = blobs(np.random.default_rng(5), n=300)
    fast = {"gibbs_config": GibbsConfig(n_sweeps=4, n_paths=1), "map_config": MapConfig(n_minibatches=5, n_members=1)}
    warnings.simplefilter("ignore")
    PBDNClassifier(inference=inference, max_depth=1, max_experts=4, **fast).fit(X, y)  # loads the compiled code

    endless = {"gibbs_config": GibbsConfig(n_sweeps=1_000_000, n_burn_in=10)}
    endless["map_config"] = MapConfig(n_minibatches=1_000_000)
    model = PBDNClassifier(inference=inference, n_jobs=n_jobs, random_state=0, **endless)
    print("fit:", reaches_the_caller(lambda: model.fit(X, y)), hasattr(model, "network_"))
    print("scores:", reaches_the_caller(lambda: cross_val_score(model, X, y, cv=2)))
    print("handler restored:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    model.set_params(checkpoint=folder / "c.pbdn")
    print("with checkpoint:", reaches_the_caller(lambda: model.fit(X, y)))
    if inference != "map":
        _, arrays = read_container(folder / "c.pbdn", kind="checkpoint")
        print("sweeps kept:", all(int(arrays[f"1.{side}.0.0/done"]) > 1 for side in range(n_jobs)))


@pytest.mark.parametrize(
    ("inference", "n_jobs"), [pytest.param("gibbs", 1, marks=pytest.mark.long), ("gibbs", 2), ("map", 1)]
)
def test_ctrl_c_reaches_the_caller(inference, n_jobs, tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), inference, str(n_jobs)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said = ["fit: True False", "scores: True", "handler restored: True", "with checkpoint: True"]
    assert done.stdout.splitlines() == said + (["sweeps kept: True"] if inference == "gibbs" else [])


class Interrupting:
    """A callback that presses Ctrl-C when a layer ends."""

    def __init__(self, at):
        self.at, self.seen = at, 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "layer":
            self.seen += 1
            if self.seen == self.at:
                raise KeyboardInterrupt


def always_deeper(layers, log_likelihood, n_rows):
    return -float(len(layers))


@pytest.mark.skipif(not hasattr(PBDNClassifier, "set_callbacks"), reason="this scikit-learn has no callbacks")
@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_an_interrupt_of_a_callback_reaches_the_caller(inference, rng):
    X, y = blobs(rng)
    model = fitted(small(inference, criterion=always_deeper, max_depth=4), X, y)
    model.set_callbacks(Interrupting(at=2))
    with pytest.raises(KeyboardInterrupt):
        fitted(model, X, 1 - y)
    with pytest.raises(NotFittedError):  # neither the old network nor half of the new one
        model.predict(X)


def test_the_first_ctrl_c_is_raised_at_the_end_and_the_second_at_once():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore SIGINT
    try:
        reached = []

        def press(n_times):
            stop = StopSignal()
            with stop.on_interrupt():
                for _ in range(n_times):
                    signal.raise_signal(signal.SIGINT)
                    reached.append(stop())

        with pytest.raises(KeyboardInterrupt):
            press(1)
        assert reached == [True]
        with pytest.raises(KeyboardInterrupt):
            press(2)
        assert reached == [True, True]  # the second was raised before anything else was done
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_programs_own_handler_is_left_alone():
    calls = []
    before = signal.signal(signal.SIGINT, lambda *args: calls.append(args))
    try:
        stop = StopSignal()
        with stop.on_interrupt():
            signal.raise_signal(signal.SIGINT)
        assert len(calls) == 1
        assert not stop()
    finally:
        signal.signal(signal.SIGINT, before)


# ----------------------------------------------------------------------------------------- time limits


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_time_limit_stops_in_the_first_layer(inference, rng):
    X, y = blobs(rng)
    fitted(small(inference), X, y)  # loads the compiled code
    endless = {"n_sweeps": 10**6, "map_config": MapConfig(n_minibatches=10**8)}
    model = small(inference, time_limit=0.3, **endless)
    with pytest.warns(UserWarning, match=r"time_limit=0.3 s reached: the network is one unfinished layer"):
        fitted(model, X, y)
    assert_probabilities(model.predict_proba(X), len(y), 2)
    assert model.depth_ == 1


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_time_limit_drops_the_layer_in_training(inference, rng, monkeypatch):
    """The clock strikes after the first layer: that one is kept, the unfinished second one is not."""
    X, y = blobs(rng)
    clock = {"ahead": 0.0}
    real = time.monotonic
    monkeypatch.setattr("pbdn.growth.run.time.monotonic", lambda: real() + clock["ahead"])

    def strike(layers, log_likelihood, n_rows):
        clock["ahead"] = 10**6
        return -float(len(layers))

    model = small(inference, criterion=strike, max_depth=4, time_limit=10**5)
    with pytest.warns(
        UserWarning,
        match=r"reached: the network keeps 1 layer\(s\)( and 0 of 2 paths)?\. Raise .* lower (n_sweeps|n_minibatches) of",
    ):
        fitted(model, X, y)
    clock["ahead"] = 0.0
    reference = fitted(small(inference, max_depth=1), X, y)
    assert same_network(model.network_, reference.network_)


def test_time_limit_is_silent_when_it_is_not_reached(rng):
    X, y = blobs(rng)
    fitted(small(time_limit=1000.0), X, y)  # warnings are errors


def test_stopped_paths_are_counted(rng, monkeypatch):
    X, y = blobs(rng)
    clock = {"ahead": 0.0}
    real = time.monotonic
    monkeypatch.setattr("pbdn.growth.run.time.monotonic", lambda: real() + clock["ahead"])
    monkeypatch.setattr("pbdn.growth.fit_network.grow_paths", _strike_first(clock))
    model = small(prediction="paths", n_paths=3, time_limit=10**5)
    with pytest.warns(UserWarning, match=r"keeps \d layer\(s\) and 0 of 3 paths"):
        fitted(model, X, y)
    assert_probabilities(model.predict_proba(X), len(y), 2)  # falls back on the network itself


def _strike_first(clock):
    from pbdn.growth.fit_network import grow_paths

    def struck(*args):
        clock["ahead"] = 10**6
        return grow_paths(*args)

    return struck


# ---------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_max_depth_warns_when_it_cuts_growth_short(inference, rng):
    X, y = blobs(rng)
    with pytest.warns(DepthLimitWarning, match="still falling at max_depth=3; raise max_depth"):
        _quiet(small(inference, criterion=always_deeper, max_depth=3), X, y)


def _quiet(model, X, y):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def test_warnings_point_at_the_call_of_fit(rng):
    X, y = blobs(rng)
    with pytest.warns(UserWarning) as seen:
        small(criterion=always_deeper).fit(X, y)
        with pytest.raises(ValueError, match="missing"):
            small().fit(X, [None] * len(y))
    assert {one.filename for one in seen} == {__file__}


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_quiet_by_default(inference, rng, capfd):
    X, y = blobs(rng)
    fitted(small(inference), X, y)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_verbose_tells_standard_error_how_far_it_is(inference, rng, capsys, monkeypatch):
    monkeypatch.setattr("pbdn.growth.progress.can_redraw", lambda stream: True)
    X, y = blobs(rng)
    quiet = fitted(small(inference, criterion=always_deeper), X, y)
    loud = fitted(small(inference, criterion=always_deeper, verbose=1), X, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert "layer 1" in err
    assert "layer 2" in err
    assert "100 %" in err
    assert "0 s left" not in err
    assert "experts" in err
    assert ("ln L" if inference == "gibbs" else "loss") in err
    assert err.endswith("\n")
    assert max(len(line) for line in err.replace("\n", "\r").split("\r")) < 80
    assert same_network(quiet.network_, loud.network_)


def test_layers_are_logged(rng, caplog):
    X, y = blobs(rng)
    with caplog.at_level(logging.INFO, logger="pbdn"):
        model = fitted(small(), X, y)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(model.criterion_path_)
    assert lines[0].startswith(f"layer 1: experts {model.criterion_path_[0]['n_experts']}")


def test_short_chains_are_told_so(rng):
    X, y = blobs(rng)
    with pytest.warns(
        ConvergenceWarning, match=r"not converged .* raise n_sweeps \(now 60\) and n_chains \(now 2\) of gibbs_config"
    ):
        model = small(max_depth=1, n_chains=2, n_draws=40).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"raise n_draws \(now 5 of each chain, which says little\)"):
        small(max_depth=1, n_chains=2, n_draws=10).fit(X, y)
    names = {one["quantity"] for one in model.convergence_}
    assert {"log_likelihood of side 0", "n_active of side 1", "total_weight of side 0"} <= names
    assert sum("anchor" in name for name in names) == 16
    assert all(np.isfinite(one["r_hat"]) for one in model.convergence_)


if __name__ == "__main__":
    interrupted(pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
