import math
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from networks import labelling_of
from pbdn import MapConfig, PBDNClassifier
from pbdn.data.row_source import ArraySource
from pbdn.errors import InvalidInputError, NumericalError
from pbdn.model.labelling import for_and_against_each_class, for_each_class
from pbdn.model.network import Side
from pbdn.numerics import compiled
from pbdn.sgd.joint_gradient import run_joint_steps
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.polish import compile_the_rest
from pbdn.sgd.side_kernels import side_log_likelihood
from pbdn.sgd.train_layer import fit_map

TWO = for_each_class(2)
PAPER = MapSettings(prior_on="log_weight", shrinkage="student_t")  # the objective as the paper prints it
QUICK = replace(PAPER, n_minibatches=400, prune_every=100, max_experts=6, coef_rate=1.0)


def published(n_rows):
    """The choices of the published script."""
    return MapSettings(
        max_experts=round(10 * math.log10(n_rows)),
        initial="published",
        pruning="published_draw",
        keep_moments=False,
        prior_on="weight",
        shrinkage="published",
        replacement=True,
    )


def moons(rng, n_rows=400):
    angle = rng.random(n_rows) * np.pi
    code = rng.integers(0, 2, n_rows)
    x = np.where(code == 0, np.cos(angle), 1 - np.cos(angle))
    y = np.where(code == 0, np.sin(angle), 0.5 - np.sin(angle))
    return np.column_stack([x, y]) + 0.1 * rng.normal(size=(n_rows, 2)), code


def same(first, second):
    return all(
        np.array_equal(a.hyperplanes, b.hyperplanes) and np.array_equal(a.expert_weights, b.expert_weights)
        for a, b in zip(first.sides, second.sides, strict=True)
    )


def test_learns_what_a_hyperplane_cannot(rng, seed):
    inputs, codes = moons(rng)
    config = replace(QUICK, n_minibatches=3000, prune_every=500, max_experts=10)
    result = fit_map(ArraySource(inputs, codes, classes=[0, 1]), TWO, depth=1, config=config, seed=seed)
    rates = np.column_stack([side.rate(inputs) for side in result.sides])
    base = len(codes) * np.log(0.5)
    assert result.log_likelihood.max() > 0.5 * base
    assert np.mean(rates.argmax(axis=1) == codes) > 0.85
    assert (np.diff(result.trace["n_experts"], axis=0) <= 0).all()
    assert tuple(result.trace["n_experts"][-1]) == tuple(side.n_experts for side in result.sides)


def test_same_seed_same_bits_and_another_seed_another_fit(rng, seed):
    inputs, codes = moons(rng)
    source = ArraySource(inputs, codes, classes=[0, 1])
    first, second = (fit_map(source, TWO, depth=2, config=QUICK, seed=seed) for _ in range(2))
    assert same(first, second)
    np.testing.assert_array_equal(first.trace["loss"], second.trace["loss"])
    assert not same(first, fit_map(source, TWO, depth=2, config=QUICK, seed=seed + 1))
    assert not same(first, fit_map(source, TWO, depth=1, config=QUICK, seed=seed))


def test_result_does_not_depend_on_thread_limits(rng, seed):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    inputs, codes = moons(rng)
    results = []
    for limit in (1, 2):
        with threadpoolctl.threadpool_limits(limit):
            results.append(fit_map(ArraySource(inputs, codes), TWO, depth=1, config=QUICK, seed=seed))
    assert same(*results)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("rate", "halved"), [(None, False), (2000.0, True)])
def test_threads_that_share_the_sides_change_no_bit(rng, seed, make, rate, halved):
    """Twenty sides, dense and sparse rows; also where steps overflow in some side, which halves the steps of all."""
    X, codes, labelling = rng.normal(size=(300, 4)), np.arange(300) % 10, for_and_against_each_class(10)
    X[:, 0] += codes
    config, source = replace(QUICK, learning_rate=rate, average_last=0.3), ArraySource(make(X), codes)
    one, *others = (fit_map(source, labelling, depth=1, config=config, seed=seed, n_threads=n) for n in (1, 2, 4, 50))
    assert (one.trace["step_halvings"][0] > 0) == halved
    for other in others:
        assert same(one, other)
        for name in ("pruned_at", "n_experts", "step_halvings", "kept_strongest"):
            np.testing.assert_array_equal(one.trace[name], other.trace[name])
        np.testing.assert_allclose(one.trace["loss"], other.trace["loss"], rtol=1e-12)


def test_csr_training_is_dense_training(rng, seed):
    inputs, codes = moons(rng)
    inputs = inputs * (rng.random(inputs.shape) < 0.7)
    config = replace(QUICK, n_minibatches=50, prune_every=50)
    dense, sparse = (
        fit_map(ArraySource(x, codes), TWO, depth=1, config=config, seed=seed) for x in (inputs, sp.csr_array(inputs))
    )
    np.testing.assert_allclose(sparse.trace["loss"], dense.trace["loss"], rtol=1e-9)


def test_copies_and_weights_have_the_same_optimum(rng, seed):
    """Full-batch training on rows with weight 2 and on the doubled rows follows the same path."""
    inputs, codes = moons(rng, 60)
    config = replace(QUICK, n_minibatches=80, prune_every=80, batch_size=10**6)
    weighted = ArraySource(inputs, codes, weights=np.full(60, 2.0))
    doubled = ArraySource(np.repeat(inputs, 2, axis=0), np.repeat(codes, 2))
    first, second = (fit_map(s, TWO, depth=1, config=config, seed=seed) for s in (weighted, doubled))
    np.testing.assert_allclose(first.trace["loss"], second.trace["loss"], rtol=1e-7)
    np.testing.assert_allclose(first.log_likelihood, second.log_likelihood, rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"pruning": "draw"},
        {"pruning": "published_draw"},
        {"pruning": "none"},
        {"schedule": "cosine"},
        {"average_last": 0.3},
        {"keep_moments": False, "replacement": True},
        {"prior_on": "weight"},
        {"shrinkage": "published", "initial": "published"},
    ],
    ids=lambda change: ",".join(f"{k}={v}" for k, v in change.items()),
)
def test_options_run_and_change_the_fit(rng, seed, change):
    inputs, codes = moons(rng)
    source = ArraySource(inputs, codes)
    plain = fit_map(source, TWO, depth=1, config=QUICK, seed=seed)
    other = fit_map(source, TWO, depth=1, config=replace(QUICK, **change), seed=seed)
    assert np.isfinite(other.log_likelihood).all()
    widths = other.trace["n_experts"]
    assert (widths >= 1).all()
    if change.get("pruning") == "none":
        assert (widths == 6).all()
    elif "pruning" not in change:
        assert not same(plain, other)


def test_the_learning_rate_falls_with_the_layer_unless_it_is_set():
    assert MapSettings().rate_at(1) == pytest.approx(0.01)
    assert MapSettings().rate_at(3) == pytest.approx(0.05 / 7)
    assert [MapSettings(learning_rate=0.3).rate_at(depth) for depth in (1, 3)] == [0.3, 0.3]


def test_every_side_starts_with_max_experts(rng, seed):
    """And with the published start, for as many as the published script takes."""
    inputs, codes = moons(rng)
    config = replace(published(400), n_minibatches=5, pruning="none")
    result = fit_map(ArraySource(inputs, codes), TWO, depth=1, config=config, seed=seed)
    assert [side.n_experts for side in result.sides] == [26, 26]


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(
    "labelling",
    [labelling_of(1), labelling_of(2), labelling_of(3), for_and_against_each_class(3)],
    ids=["one side", "two sides", "three sides", "for and against three"],
)
@pytest.mark.parametrize(
    "config", [QUICK, replace(published(40), n_minibatches=300, prune_every=100)], ids=["new", "old"]
)
def test_one_class_only_is_still_valid(rng, seed, labelling, code, config):
    inputs = rng.normal(size=(40, 2))
    source = ArraySource(inputs, np.full(40, code), classes=np.arange(max(max(labelling.sides) + 1, 2)))
    result = fit_map(source, labelling, depth=1, config=config, seed=seed)
    assert len(result.sides) == labelling.n_sides
    for side in result.sides:
        assert side.n_experts >= 1
        assert np.isfinite(side.hyperplanes).all()
        assert np.isfinite(side.rate(inputs)).all()
    assert np.isfinite(result.log_likelihood).all()


def test_a_rare_class_keeps_an_expert(rng, seed):
    """Three positive rows and twenty equal experts: each is probably inactive, all cannot be."""
    inputs = rng.normal(size=(300, 3))
    codes = np.zeros(300, int)
    codes[:3] = 1
    config = MapSettings(n_minibatches=40, prune_every=20, learning_rate=1e-4)
    result = fit_map(ArraySource(inputs, codes), TWO, depth=1, config=config, seed=seed)
    assert result.sides[1].n_experts >= 1
    assert result.trace["kept_strongest"][1] >= 1
    with pytest.raises(NumericalError, match="Side 1 of layer 1 lost all its experts twice"):
        fit_map(
            ArraySource(inputs, codes), TWO, depth=1,
            config=replace(config, when_empty="reinitialise", n_minibatches=80), seed=seed,
        )  # fmt: skip


def test_a_diverging_step_is_undone_and_counted(rng, seed):
    """Steps of size 2000 in ln r lead to e^2000: overflow, which halving the step must cure."""
    inputs, codes = moons(rng)
    config = replace(QUICK, learning_rate=2000.0)
    result = fit_map(ArraySource(inputs, codes), TWO, depth=1, config=config, seed=seed)
    assert result.trace["step_halvings"][0] >= 1
    assert np.isnan(result.trace["loss"]).sum() == result.trace["step_halvings"][0]
    for side in result.sides:
        assert np.isfinite(side.hyperplanes).all()


def test_inputs_beyond_double_precision_are_a_clear_error(rng, seed):
    inputs, codes = moons(rng)
    with pytest.raises(NumericalError, match="Standardise them"):
        fit_map(ArraySource(inputs * 1e200, codes), TWO, depth=1, config=QUICK, seed=seed)


def test_warm_start_continues_from_the_given_sides(rng, seed):
    inputs, codes = moons(rng)
    source = ArraySource(inputs, codes)
    first = fit_map(source, TWO, depth=1, config=replace(QUICK, n_minibatches=2000), seed=seed)
    short = replace(QUICK, n_minibatches=20)
    warm = fit_map(source, TWO, depth=1, config=short, seed=seed, initial=first.sides)
    cold = fit_map(source, TWO, depth=1, config=short, seed=seed)
    assert warm.log_likelihood.sum() > cold.log_likelihood.sum()
    with pytest.raises(InvalidInputError, match="initial does not fit"):
        fit_map(source, TWO, depth=1, config=short, seed=seed, initial=(Side(np.ones((1, 3)), np.ones(1)),))


def test_progress_and_stopping(rng, seed):
    inputs, codes = moons(rng)
    seen = []
    result = fit_map(
        ArraySource(inputs, codes), TWO, depth=1, config=QUICK, seed=seed, on_progress=seen.append,
        should_stop=lambda: len(seen) == 2,
    )  # fmt: skip
    assert [report["step"] for report in seen] == [100, 200]
    assert len(result.trace["loss"]) == 200
    assert seen[-1]["n_steps"] == 400
    assert np.isfinite(result.log_likelihood).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pruning": "sometimes"}, "pruning='sometimes'"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"coef_rate": -1.0}, "coef_rate"),
        ({"average_last": 1.0}, "average_last"),
        ({"max_experts": 0}, "max_experts"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"prune_above": 1.0}, "prune_above"),
        ({"when_empty": "never"}, "when_empty='never'"),
        ({"precision": "half"}, "precision='half'"),
    ],
)
def test_bad_options_are_named(change, message):
    with pytest.raises(InvalidInputError, match=message):
        MapSettings(**change)


def test_the_second_process_compiles_what_a_fit_needs(rng):
    """Its tiny calls have the types of a real fit, which then compiles no other version of these kernels."""
    compile_the_rest()
    before = {kernel: len(kernel.signatures) for kernel in (run_joint_steps, side_log_likelihood)}
    X = rng.normal(size=(60, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PBDNClassifier(max_depth=1, random_state=0, map_config=MapConfig(n_minibatches=3)).fit(X, X[:, 0] > 0)
    assert {kernel: len(kernel.signatures) for kernel in before} == before


def fail():
    """What the second process of the tests does not find."""


def test_the_second_process_starts_when_something_is_compiled_and_is_gone_afterwards(monkeypatch):
    started = []

    def start(order):
        assert order == f"from {fail.__module__} import fail; fail()"
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return started[-1:]

    monkeypatch.setattr(compiled, "_start", start)
    with compiled.help_with_compiling(fail):
        assert not started
        njit(lambda x: x + 1)(1)
        njit(lambda x: x + 2)(1)
        with compiled.help_with_compiling(fail):
            njit(lambda x: x + 3)(1)
        assert len(started) == 1
        assert started[0].poll() is None
    assert started[0].poll() is not None
    compiled.wait_for_helper()
    with compiled.help_with_compiling(fail):
        pass
    assert len(started) == 1


def test_without_a_second_process_all_is_compiled_here(monkeypatch):
    for executable in ("", "no such program"):
        monkeypatch.setattr(sys, "executable", executable)
        assert compiled._start("pass") == []


def test_waiting_ends_with_the_second_process(monkeypatch):
    monkeypatch.setattr(compiled.os, "cpu_count", lambda: 2)
    (helper,) = compiled._start("sys.exit(3)")
    monkeypatch.setattr(compiled, "_helpers", [helper])
    compiled.wait_for_helper()
    assert helper.poll() == 3
