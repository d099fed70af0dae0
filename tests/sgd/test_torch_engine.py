import numpy as np
import pytest
import scipy.sparse as sp

from pbdn.data.source import ArraySource
from pbdn.errors import InvalidInputError
from pbdn.sgd.config import MapConfig
from pbdn.sgd.train import fit_map

torch = pytest.importorskip("torch", reason="the torch engine needs the optional extra pbdn[torch]")


def rows(rng, n_sides, n_rows=300):
    inputs = rng.normal(size=(n_rows, 5)) * (rng.random((n_rows, 5)) < 0.8)
    return inputs, rng.integers(0, max(n_sides, 2), n_rows)


@pytest.mark.parametrize("n_sides", [1, 2, 70])
@pytest.mark.parametrize("prior_on", ["log_weight", "weight"])
def test_steps_equal_the_compiled_kernel(rng, seed, n_sides, prior_on):
    inputs, codes = rows(rng, n_sides)
    source = ArraySource(inputs, codes, classes=np.arange(max(n_sides, 2)), weights=rng.gamma(2.0, size=300))
    settings = {
        "n_minibatches": 30,
        "max_experts": 4,
        "coef_rate": 1.0,
        "prior_on": prior_on,
        "pruning": "none",
    }
    cpu, device = (
        fit_map(source, n_sides, depth=1, config=MapConfig(device=device, **settings), seed=seed)
        for device in (None, "cpu")
    )
    np.testing.assert_allclose(device.trace["loss"], cpu.trace["loss"], rtol=1e-10)
    for ours, theirs in zip(cpu.sides, device.sides, strict=True):
        np.testing.assert_allclose(theirs.hyperplanes, ours.hyperplanes, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(theirs.expert_weights, ours.expert_weights, rtol=1e-9, atol=1e-10)


def test_pruning_averaging_and_csr_rows_work_on_a_device(rng, seed):
    inputs, codes = rows(rng, 2)
    config = MapConfig(
        n_minibatches=120,
        prune_every=40,
        max_experts=6,
        coef_rate=1.0,
        shrinkage="student_t",
        average_last=0.3,
    )
    cpu = fit_map(ArraySource(inputs, codes), 2, depth=1, config=config, seed=seed)
    on_torch = MapConfig(**{**config.__dict__, "device": "cpu"})
    for x in (inputs, sp.csr_array(inputs)):
        device = fit_map(ArraySource(x, codes), 2, depth=1, config=on_torch, seed=seed)
        np.testing.assert_array_equal(device.trace["n_experts"], cpu.trace["n_experts"])
        np.testing.assert_allclose(device.log_likelihood, cpu.log_likelihood, rtol=1e-6)


def test_divergence_is_undone_on_a_device_too(rng, seed):
    inputs, codes = rows(rng, 2)
    config = MapConfig(n_minibatches=200, prune_every=100, max_experts=4, learning_rate=2000.0, device="cpu")
    result = fit_map(ArraySource(inputs, codes), 2, depth=1, config=config, seed=seed)
    assert result.trace["step_halvings"][0] >= 1
    assert all(np.isfinite(side.hyperplanes).all() for side in result.sides)


def test_an_unknown_device_is_named(rng, seed):
    inputs, codes = rows(rng, 2)
    with pytest.raises(InvalidInputError, match="device='abacus'"):
        fit_map(ArraySource(inputs, codes), 2, depth=1, config=MapConfig(device="abacus"), seed=seed)
