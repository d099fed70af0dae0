import numpy as np
import pytest
import scipy.sparse as sp

from networks import labelling_of
from pbdn.data.row_source import ArraySource
from pbdn.errors import InvalidInputError
from pbdn.model.labelling import for_and_against_each_class, for_each_class
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.train_layer import fit_map

torch = pytest.importorskip("torch", reason="the torch engine needs the optional extra pbdn[torch]")

TWO = for_each_class(2)


def rows(rng, n_classes=2, n_rows=300):
    inputs = rng.normal(size=(n_rows, 5)) * (rng.random((n_rows, 5)) < 0.8)
    return inputs, rng.integers(0, n_classes, n_rows)


@pytest.mark.parametrize(
    "labelling",
    [labelling_of(1), labelling_of(2), labelling_of(70), for_and_against_each_class(3), for_and_against_each_class(40)],
    ids=["one side", "two sides", "70 sides", "for and against 3", "for and against 40"],
)
@pytest.mark.parametrize("prior_on", ["log_weight", "weight"])
def test_steps_equal_the_compiled_kernel(rng, seed, labelling, prior_on):
    n_classes = max(max(labelling.sides) + 1, 2)
    inputs, codes = rows(rng, n_classes)
    source = ArraySource(inputs, codes, classes=np.arange(n_classes), weights=rng.gamma(2.0, size=300))
    settings = {
        "n_minibatches": 30,
        "max_experts": 4,
        "coef_rate": 1.0,
        "prior_on": prior_on,
        "pruning": "none",
    }
    cpu, device = (
        fit_map(source, labelling, depth=1, config=MapSettings(device=device, **settings), seed=seed)
        for device in (None, "cpu")
    )
    np.testing.assert_allclose(device.trace["loss"], cpu.trace["loss"], rtol=1e-10)
    for ours, theirs in zip(cpu.sides, device.sides, strict=True):
        np.testing.assert_allclose(theirs.hyperplanes, ours.hyperplanes, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(theirs.expert_weights, ours.expert_weights, rtol=1e-9, atol=1e-10)


def test_pruning_averaging_and_csr_rows_work_on_a_device(rng, seed):
    inputs, codes = rows(rng)
    config = MapSettings(
        n_minibatches=120,
        prune_every=40,
        max_experts=6,
        coef_rate=1.0,
        shrinkage="student_t",
        average_last=0.3,
    )
    cpu = fit_map(ArraySource(inputs, codes), TWO, depth=1, config=config, seed=seed)
    on_torch = MapSettings(**{**config.__dict__, "device": "cpu"})
    for x in (inputs, sp.csr_array(inputs)):
        device = fit_map(ArraySource(x, codes), TWO, depth=1, config=on_torch, seed=seed)
        np.testing.assert_array_equal(device.trace["n_experts"], cpu.trace["n_experts"])
        np.testing.assert_allclose(device.log_likelihood, cpu.log_likelihood, rtol=1e-6)


def test_divergence_is_undone_on_a_device_too(rng, seed):
    inputs, codes = rows(rng)
    config = MapSettings(n_minibatches=200, prune_every=100, max_experts=4, learning_rate=2000.0, device="cpu")
    result = fit_map(ArraySource(inputs, codes), TWO, depth=1, config=config, seed=seed)
    assert result.trace["step_halvings"][0] >= 1
    assert all(np.isfinite(side.hyperplanes).all() for side in result.sides)


def test_an_unknown_device_is_named(rng, seed):
    inputs, codes = rows(rng)
    with pytest.raises(InvalidInputError, match="device='abacus'"):
        fit_map(ArraySource(inputs, codes), TWO, depth=1, config=MapSettings(device="abacus"), seed=seed)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("labelling", [labelling_of(1), TWO, for_and_against_each_class(3)])
def test_kernels_of_single_precision_follow_the_compiled_one(rng, seed, labelling):
    """Losses to the rounding of the gradient to 8 bits; pruning and likelihood on the device."""
    n_classes = max(max(labelling.sides) + 1, 2)
    inputs, codes = rows(rng, n_classes, 2000)
    source = ArraySource(inputs, codes, classes=np.arange(n_classes), weights=rng.gamma(2.0, size=2000))
    settings = {"n_minibatches": 60, "max_experts": 4, "coef_rate": 1.0, "batch_size": 300}
    cpu, device = (
        fit_map(source, labelling, depth=1, config=MapSettings(**more, **settings), seed=seed)
        for more in ({}, {"device": "cuda", "precision": "single"})
    )
    np.testing.assert_allclose(device.trace["loss"], cpu.trace["loss"], rtol=1e-2)
    np.testing.assert_allclose(device.log_likelihood, cpu.log_likelihood, rtol=1e-2)
