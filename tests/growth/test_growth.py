"""Growth: criteria by hand, the loop, the wiring of the layers, the path that is kept, and the line that follows a fit."""

import fcntl
import io
import os
import re
import struct
import termios
import warnings

import numpy as np
import pytest
from numba import njit

from fitted import blobs, fitted, small
from pbdn import GibbsConfig, MapConfig, PBDNClassifier
from pbdn.errors import DepthLimitWarning
from pbdn.growth import progress
from pbdn.growth.depth import LayerFit, grow
from pbdn.growth.progress import COMPILING, ProgressBar, can_redraw
from pbdn.model.criteria import aic, aic_eps, aic_inputs, bic
from pbdn.model.network import Layer, Side


def layer(n_inputs, *n_experts, value=1.0):
    return Layer(tuple(Side(np.full((k, n_inputs + 1), value), np.ones(k)) for k in n_experts))


# three features; 2 + 3 units; second layer sees 3 + 5 inputs, 1 + 2 units; third sees 5 + 3, 2 + 2 units
THREE = [layer(3, 2, 3), layer(8, 1, 2), layer(8, 2, 2)]


def test_criteria_by_hand():
    paper = (3 + 1) * 5 + (5 + 1) * 3 + (3 + 1) * 4 + 4
    corrected = (3 + 1) * 5 + (8 + 1) * 3 + (8 + 1) * 4 + 4
    assert aic(THREE, -100.0, 50) == 2 * paper + 200.0
    assert aic_inputs(THREE, -100.0, 50) == 2 * corrected + 200.0
    assert bic(THREE, -100.0, 50) == pytest.approx(np.log(50) * corrected + 200.0)
    assert aic(THREE[:1], -100.0, 50) == 2 * (4 * 5 + 5) + 200.0 == aic_inputs(THREE[:1], -100.0, 50)


def test_small_coefficients_are_free_in_aic_eps():
    first = Side(np.array([[10.0, 0.1, 0.11, -0.09], [0.0, -5.0, 1.0, 0.05]]), np.ones(2))  # ε max = 0.1
    second = Side(np.array([[0.001, 0.0, 0.001, 1e-6]]), np.ones(1))
    assert aic_eps([Layer((first, second))], -7.0, 10) == 2 * ((2 + 2) + 2 + 3) + 14.0


class Scripted:
    """An engine that hands out prepared layers."""

    def __init__(self, scores, complete=None):
        self.n_rows, self.advanced = 100, []
        self.scores = scores
        self.complete = complete or [True] * len(scores)

    def fit_layer(self, depth):
        return LayerFit(layer(3, 1, 1), (self.scores[depth - 1], 0.0), complete=self.complete[depth - 1], seconds=1.5)

    def has_room(self, layer):
        return True

    def advance(self, layer):
        self.advanced.append(layer)


def deviance(layers, log_likelihood, n_rows):
    return -2.0 * log_likelihood


@pytest.mark.parametrize(
    ("scores", "max_depth", "kept", "tried", "reason"),
    [
        ([-50, -40, -45, 0], 5, 2, 3, "criterion"),  # falls, then rises
        ([-50, -50, 0], 5, 1, 2, "criterion"),  # equal is not lower
        ([-50, -40, -30], 3, 3, 3, "max_depth"),
        ([-50, -40, -45], 3, 2, 3, "criterion"),  # rises exactly at the bound
        ([-50], 1, 1, 1, "max_depth"),
        ([np.nan, -40], 5, 0, 1, "criterion"),
    ],
)
def test_layers_are_stacked_while_the_criterion_falls(scores, max_depth, kept, tried, reason):
    engine = Scripted(scores)
    growth = grow(engine, deviance, max_depth)
    assert (len(growth.fits), len(growth.path), growth.reason) == (kept, tried, reason)
    assert [step.kept for step in growth.path] == [True] * kept + [False] * (tried - kept)
    assert len(engine.advanced) == tried - 1
    assert [step.depth for step in growth.path] == list(range(1, tried + 1))
    if kept:
        assert [step.criterion for step in growth.path] == [-2.0 * score for score in scores[:tried]]
    assert growth.path[0].seconds == 1.5
    assert growth.path[-1].n_parameters == 8 * tried + 2


def test_unfinished_layers_are_dropped_unless_they_are_the_first():
    growth = grow(Scripted([-50, -40], [True, False]), deviance, 5)
    assert (len(growth.fits), growth.reason) == (1, "interrupted")
    growth = grow(Scripted([-50], [False]), deviance, 5)
    assert (len(growth.fits), growth.reason) == (1, "interrupted")


def test_an_observer_is_told_of_every_layer_and_may_stop():
    class Observer:
        def __init__(self):
            self.events = []

        def layer_begins(self, depth):
            self.events.append(depth)

        def layer_ends(self, fits):
            self.events.append(len(fits))
            return len(fits) == 2

    observer = Observer()
    growth = grow(Scripted([-50, -40, -30, -20]), deviance, 4, observer)
    assert observer.events == [1, 1, 2, 2]
    assert (len(growth.fits), growth.reason) == (2, "observer")


def deeper(layers, log_likelihood, n_rows):
    return -float(len(layers))


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_a_layer_sees_the_last_two_below_it(inference, rng):
    X, y = blobs(rng, n_classes=3)
    model = fitted(small(inference, criterion=deeper, max_depth=3), X, y)
    units = [sum(one) for one in model.n_experts_]
    inputs = [3, 3 + units[0], units[0] + units[1]]
    assert [one.sides[0].hyperplanes.shape[1] - 1 for one in model.layers_] == inputs
    cost = sum((d + 1) * k for d, k in zip(inputs, units, strict=True))
    assert model.complexity_ == pytest.approx(cost / 4.0)
    assert model.n_weights_ == cost + units[-1]
    # units of the first layer, then the second's inputs, recomputed on raw features
    first = np.column_stack(
        [np.logaddexp(0.0, X @ beta[1:] + beta[0]) for side in model.layers_[0].sides for beta in side.hyperplanes]
    )
    seen = list(model.network_.layer_inputs(X))
    np.testing.assert_allclose(seen[1], np.column_stack([X, first]), rtol=1e-9, atol=1e-12)
    second = np.column_stack(
        [
            np.logaddexp(0.0, seen[1] @ beta[1:] + beta[0])
            for side in model.layers_[1].sides
            for beta in side.hyperplanes
        ]
    )
    np.testing.assert_allclose(seen[2], np.column_stack([first, second]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_the_path_tells_what_was_tried(inference, rng):
    X, y = blobs(rng)
    model = fitted(small(inference, max_depth=3, prediction="point"), X, y)
    path = model.criterion_path_
    assert [step["depth"] for step in path] == list(range(1, len(path) + 1))
    assert sum(step["kept"] for step in path) == model.depth_ == len(model.layers_) == len(model.trace_)
    assert [step["n_experts"] for step in path if step["kept"]] == model.n_experts_
    assert all(step["seconds"] >= 0.0 for step in path)
    top = path[model.depth_ - 1]
    p = model.network_.side_probability(X)
    log_likelihood = np.log(np.where(y[:, None] == [0, 1], p, 1.0 - p)).sum()
    np.testing.assert_allclose(top["log_likelihood"], log_likelihood, rtol=1e-6)
    assert top["criterion"] == pytest.approx(aic(model.layers_, top["log_likelihood"], len(y)))
    assert top["n_parameters"] == model.n_weights_


def test_criteria_are_chosen_by_name_or_given(rng):
    X, y = blobs(rng)
    for name, rule in {"aic": aic, "aic_eps": aic_eps, "aic_inputs": aic_inputs, "bic": bic}.items():
        # folding the scaling changes coefficients, so compare on rows that need none
        model = fitted(small(criterion=name, max_depth=1, standardize=False), X, y)
        value = model.criterion_path_[0]
        assert value["criterion"] == pytest.approx(rule(model.layers_, value["log_likelihood"], len(y)))
        by_hand = fitted(small(criterion=rule, max_depth=1, standardize=False), X, y)
        assert by_hand.criterion_path_[0]["criterion"] == value["criterion"]


def test_the_criterion_asks_for_depth_where_it_helps(rng):
    """A ring around a disc, both sides cut from straight pieces: one layer underfits, and AIC says so."""
    X = rng.normal(size=(300, 2))
    y = (np.abs(np.hypot(*X.T) - 1.2) < 0.45).astype(int)
    chain = GibbsConfig(n_sweeps=150, start="map", prediction="point")
    settings = {"inference": "gibbs", "gibbs_config": chain, "max_experts": 8, "max_depth": 3}
    model = fitted(PBDNClassifier(**settings, random_state=0), X, y)
    assert model.depth_ >= 2
    first, second = model.criterion_path_[:2]
    assert second["criterion"] < first["criterion"]
    assert second["log_likelihood"] > first["log_likelihood"]


def test_map_start_of_a_chain(rng):
    X, y = blobs(rng, spread=0.7)
    model = fitted(small("gibbs", start="map", prediction="posterior"), X, y)
    assert model.score(X, y) > 0.7
    assert model.posterior_predictive_proba(X).shape[0] == 20
    from_prior = fitted(small("gibbs", prediction="posterior"), X, y)
    assert not np.array_equal(from_prior.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", ["map", "folds"])
def test_draws_of_the_top_layer_leave_the_trained_network_alone(rng, kind):
    """With and without draws the same network predicts; the draws are of its top layer, given the layers below."""
    X, y = blobs(rng, spread=0.7)
    plain = fitted(small(kind), X, y)
    drawn = fitted(small(kind, inference="map+gibbs"), X, y)
    np.testing.assert_allclose(drawn.predict_proba(X), plain.predict_proba(X), atol=1e-9 if kind == "folds" else 0.2)
    assert len(drawn.network_.top.draws) == 20
    assert all(not layer.draws for layer in drawn.layers_[:-1])
    inputs = {side.hyperplanes.shape[1] for draw in drawn.network_.top.draws for side in draw}
    assert inputs == {drawn.network_.n_inputs[-1]}
    assert drawn.predict_proba_interval(X).shape == (len(y), 2, 2)


def test_depth_by_rows_kept_back(rng):
    """Three classes by MAP: the path holds losses of kept-back rows, the layers are those grown on all rows."""
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + 2 * (np.hypot(*X.T) > 1.5)
    y = np.minimum(y, 2)
    config = MapConfig(n_minibatches=300)
    settings = {"inference": "map", "criterion": "holdout", "map_config": config}
    model = PBDNClassifier(**settings, max_experts=4, max_depth=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DepthLimitWarning)
        model.fit(X, y)
    path = model.criterion_path_
    assert [step["n_experts"] for step in path if step["kept"]] == model.n_experts_
    assert all(len(layer) == 6 for layer in model.n_experts_)
    assert 0.0 < path[0]["criterion"] < 2.0 * 300 * np.log(3)  # all rows, better than guessing
    assert (len(path) > model.depth_) == (path[-1]["criterion"] >= path[0]["criterion"] and len(path) > 1)
    with pytest.raises(ValueError, match="criterion='holdout' needs at least 50 rows"):
        PBDNClassifier(inference="map", map_config=config, criterion="holdout").fit(X[:30], y[:30])


@pytest.mark.parametrize("inference", ["map", "gibbs"])
def test_many_classes_stop_before_a_layer_that_is_too_large(rng, inference, monkeypatch):
    """The links between two layers grow like the square of the number of classes; two classes are never stopped."""
    monkeypatch.setattr("pbdn.growth.engines.MOST_COEFFICIENTS", 150)
    monkeypatch.setattr("pbdn.growth.engines.MOST_ENTRIES", 150)
    X, y = blobs(rng, n_classes=4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert small(inference, criterion=deeper).fit(X, y).depth_ == 1
    said = [str(one.message) for one in caught if one.category is DepthLimitWarning]
    assert len(said) == 1
    assert re.match(r"Growth stopped at 1 layer.*8 sides.*Lower max_experts", said[0])
    assert fitted(small(inference, criterion=deeper), X, y > 1).depth_ == 2


def test_a_criterion_that_is_not_a_number_is_named(rng):
    X, y = blobs(rng)
    with pytest.raises(ValueError, match="criterion of the first layer is not a number"):
        small("map", criterion=lambda layers, log_likelihood, n_rows: float("nan")).fit(X, y)


# The line that follows a fit: in a terminal, in a log, while functions are compiled.


@pytest.fixture
def clock(monkeypatch):
    now = {"at": 100.0}
    monkeypatch.setattr(progress.time, "monotonic", lambda: now["at"])
    return now


@pytest.fixture
def terminal():
    """A terminal of 60 columns: what writes to it, and a function that reads what was written."""
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with open(follower, "w", encoding="utf-8") as stream:
        yield stream, lambda: read_all(leader)
    os.close(leader)


def read_all(leader):
    """Everything up to the end of a line."""
    text = b""
    while not text.endswith(b"\n"):
        text += os.read(leader, 1 << 20)
    return text.decode()


def work(bar, clock, seconds, phase="layer 1", n=20, begin=0):
    """A phase of ``n`` steps of which each takes some seconds."""
    for done in range(begin + 1, n + 1):
        clock["at"] += seconds
        bar.update(phase, n, "chain", done, f"experts {done}, ln L -1234567.8, and more words than fit beside the rest")


def test_a_line_is_no_wider_than_the_terminal(terminal, clock):
    stream, read = terminal
    assert can_redraw(stream)
    with ProgressBar(True, stream) as bar:
        work(bar, clock, 3.0)
    text = read()
    drawn = text.rstrip("\r\n").split("\r")[1:]
    assert len(drawn) == 20
    assert {len(line) for line in drawn} == {59}
    assert text.count("\n") == 1
    assert "█" in drawn[0]


def test_a_line_has_80_columns_where_nothing_is_known(terminal, clock, monkeypatch):
    stream, read = terminal
    monkeypatch.setattr(progress.os, "get_terminal_size", lambda descriptor: os.terminal_size((200, 24)))
    with ProgressBar(True, stream) as bar:
        work(bar, clock, 3.0)
    assert max(len(line) for line in read().rstrip("\r\n").split("\r")) == 79


def test_no_end_is_guessed_before_something_is_known(terminal, clock):
    stream, read = terminal
    with ProgressBar(True, stream) as bar:
        work(bar, clock, 0.3)
    drawn = read().rstrip("\r\n").split("\r")[1:]
    assert "left" not in drawn[0]
    assert not any(" 0 s" in line for line in drawn)
    assert any("4 s left" in line for line in drawn)
    assert "100 %, 6 s, experts 20" in drawn[-1]


def test_a_resumed_fit_is_timed_by_what_it_does_now(terminal, clock):
    stream, read = terminal
    with ProgressBar(True, stream) as bar:
        bar.update("layer 1", 100, "chain", 90, "")
        clock["at"] += 5.0
        bar.update("layer 1", 100, "chain", 91, "")
    assert "45 s left" in read().rstrip().split("\r")[-1]


def test_a_log_has_plain_lines_now_and_then(clock):
    log = io.StringIO()
    with ProgressBar(True, log) as bar:
        work(bar, clock, 0.05)  # too quick to be told
        work(bar, clock, 4.0, "layer 2", 100)
    lines = log.getvalue().splitlines()
    assert lines[0].startswith("layer 2   2 %, 7 min left, experts 2, ln L")
    assert 30 <= len(lines) <= 40
    assert all(len(line) <= 80 for line in lines)
    assert all("left" in line for line in lines)
    assert not set("\r█░") & set(log.getvalue())


def test_terminals_that_know_ascii_only(clock):
    leader, follower = os.openpty()
    with open(follower, "w", encoding="ascii") as stream:
        with ProgressBar(True, stream) as bar:
            work(bar, clock, 3.0)
        assert "layer 1 #" in read_all(leader)
    os.close(leader)


@pytest.mark.parametrize("as_log", [True, False])
def test_compilation_is_named(as_log, terminal):
    stream, read = (io.StringIO(), None) if as_log else terminal

    def make():
        @njit
        def kernel(x):
            return x.sum()

        return kernel

    kernels = [make(), make()]
    with ProgressBar(True, stream):
        for kernel in kernels:
            kernel(np.ones(3))
    text = stream.getvalue() if as_log else read()
    assert COMPILING in text
    if as_log:
        assert text == f"{COMPILING}\n"
        with ProgressBar(True, stream):
            kernels[0](np.ones(3))
        assert stream.getvalue() == text  # compiled already


def test_nothing_is_written_where_nothing_is_wanted(clock):
    log = io.StringIO()
    with ProgressBar(False, log) as bar:
        work(bar, clock, 30.0)
    assert log.getvalue() == ""
