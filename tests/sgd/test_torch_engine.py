from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from networks import labelling_of
from pbdn import MapConfig, PBDNClassifier, PBDNRegressor
from pbdn.data.row_source import ArraySource
from pbdn.errors import InvalidInputError
from pbdn.model.labelling import Labelling, for_and_against_each_class, for_each_class
from pbdn.model.network import Layer, Side
from pbdn.model.wiring import sources_of
from pbdn.sgd.joint_gradient import objective_gradient
from pbdn.sgd.joint_training import KernelSteps, Noise, Packed, network_loss_and_gradient, train_together
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


# all layers together

SAID = {
    "two classes": (TWO, lambda rng, u: rng.integers(0, 2, u.size)),
    "three classes, for and against": (for_and_against_each_class(3), lambda rng, u: rng.integers(0, 3, u.size)),
    "values": (TWO, lambda rng, u: np.column_stack([u, u])),
    "values and bounds": (
        TWO,
        lambda rng, u: np.column_stack(
            [np.where(rng.random(u.size) < 0.3, -np.inf, u), np.where(rng.random(u.size) < 0.3, np.inf, u + 0.2)]
        ),
    ),
    "values, bounds and limits": (
        TWO,
        lambda rng, u: np.column_stack(
            [u, np.where(rng.random(u.size) < 0.3, np.inf, u), np.where(rng.random(u.size) < 0.3, -np.inf, u - 0.5)]
        ),
    ),
    "values, three starts": (
        Labelling((0, 1) * 3),
        lambda rng, u: np.column_stack([u, u + (rng.random(u.size) < 0.5)]),
    ),
}


def stacked(rng, labelling, n_features, depth, timed, device=None, **more):
    """A packed network of random layers on features and two squares."""
    layers, widths = [], [n_features + 2]
    for t in range(1, depth + 1):
        n_inputs, sides = sum(widths[source] for source in sources_of(t)), []
        for k in rng.integers(1, 4, labelling.n_sides):
            planes = 0.5 * rng.normal(size=(k, n_inputs + 1))
            sides.append(Side(planes, rng.gamma(2.0, size=k), rng.gamma(2.0, size=k) if timed else None))
        layers.append(Layer(tuple(sides)))
        widths.append(sum(side.n_experts for side in sides))
    config = MapSettings(coef_rate=1.0, coef_shape=0.7, shrinkage="student_t", device=device, **more)
    return Packed.of(layers, n_features + 2, labelling, config)


def joint_case(rng, said, depth, n_rows=300, ramps=False, **more):
    """Steps of the kernel and of torch from the same network on the same noisy rows, some of them without weight."""
    from pbdn.sgd.torch_engine import TorchSteps

    labelling, targets_of = SAID[said]
    inputs, targets = rng.normal(size=(n_rows, 5)), targets_of(rng, rng.normal(size=n_rows))
    weights = rng.gamma(2.0, size=n_rows) * (rng.random(n_rows) < 0.9)
    noise = Noise(rng.uniform(0.0, 0.5, 3), rng.normal(size=(n_rows, 2)), np.array([0, 2]))
    if ramps:
        noise = noise._replace(slopes=None, ramps=rng.uniform(0.5, 2.0, size=(4, 2)))
    timed, seed = targets.ndim == 2, int(rng.integers(2**31))
    made = []
    for maker, device in ((KernelSteps, None), (TorchSteps, "cpu")):
        own = np.random.default_rng(seed)
        network = stacked(own, labelling, 3, depth, timed, device, **more)
        made.append(maker(network, inputs, targets, weights, noise, own))
    return made, (inputs, targets, weights)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("said", SAID)
def test_gradient_of_a_whole_network_is_that_of_the_kernel(rng, said, depth):
    (_, device), (inputs, targets, weights) = joint_case(rng, said, depth)
    network, still = device.network, Noise(np.zeros(5))
    rows = still.on(inputs, targets, weights, np.zeros(5), np.zeros(len(targets), np.int64))
    expected = np.empty_like(network.parameters)
    loss = objective_gradient(rows, network.parameters, network.stack, network.slopes, network.prior, expected)
    parameters = torch.as_tensor(network.parameters).requires_grad_()
    reported, whole = device.whole.objective(*device.rows, parameters)
    (gradient,) = torch.autograd.grad(whole, parameters)
    assert float(reported.detach()) == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("said", ["two classes", "values and bounds"])
@pytest.mark.parametrize(("signs", "ramps"), [((), False), ((), True), ((1, 0, -1), False)])
def test_steps_of_a_whole_network_are_those_of_the_kernel(rng, said, signs, ramps):
    (kernel, device), _ = joint_case(rng, said, 2, ramps=ramps, monotonic_cst=signs or None)
    order, offsets = kernel.draw(27 * 40)
    rates = np.linspace(0.02, 0.001, 27)
    here = kernel.run(order, offsets, 40, rates, 3)
    there = device.run(torch.as_tensor(order), torch.as_tensor(offsets), 40, rates, 3)
    assert there == pytest.approx(here, rel=1e-9)
    np.testing.assert_allclose(device.network.parameters, kernel.network.parameters, rtol=1e-7, atol=1e-9)


def test_rates_that_vanish_have_finite_gradients_on_a_device(rng):
    """Where nothing speaks for what was seen, as in the kernel."""
    layer = Layer(tuple(Side(np.array([[-2000.0, 0.0]]), np.ones(1), np.ones(1)) for _ in range(2)))
    for targets in (np.array([0, 1]), np.array([[-1.0, -1.0], [-1.0, 0.5]])):
        from pbdn.sgd.torch_engine import TorchSteps

        network = Packed.of([layer], 1, TWO, MapSettings(device="cpu"))
        network = network if targets.ndim == 2 else network._replace(parameters=network.parameters[:-2])
        steps = TorchSteps(network, np.ones((2, 1)), targets, None, Noise(np.zeros(1)), rng)
        parameters = torch.as_tensor(network.parameters).requires_grad_()
        (gradient,) = torch.autograd.grad(steps.whole.objective(*steps.rows, parameters)[1], parameters)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("timed", [False, True])
def test_training_together_on_a_device_is_as_good_as_here(rng, seed, precision, timed):
    inputs = rng.normal(size=(300, 5))
    value = np.abs(inputs[:, 0]) - 0.8 + 0.1 * rng.normal(size=300)
    targets = np.column_stack([value, value]) if timed else (value > 0).astype(np.int64)
    losses = []
    for device in (None, "cpu"):
        network = stacked(np.random.default_rng(seed), TWO, 3, 2, timed, device, precision=precision)
        before = network_loss_and_gradient(inputs, targets, np.ones(300), network.layers(), TWO, MapSettings())[0]
        layers = train_together(
            network.with_gaussian_penalty(0.3), inputs, targets, None, noise=Noise(np.full(5, 0.05)),
            rates=np.linspace(0.05, 0.001, 300), batch_size=50, rng=np.random.default_rng(seed),
        )  # fmt: skip
        losses.append(network_loss_and_gradient(inputs, targets, np.ones(300), layers, TWO, MapSettings())[0])
    assert losses[0] < 0.5 * before
    assert losses[1] - losses[0] < 0.1 * (before - losses[0])


def test_networks_of_folds_are_trained_on_a_device(rng, monkeypatch):
    """Several starts, then all layers together; "auto" has one network for the many rows that a device is for."""
    from pbdn.sgd import torch_engine

    steps, run = [], torch_engine.TorchSteps.run
    monkeypatch.setattr(torch_engine.TorchSteps, "run", lambda *given: (steps.append(1), run(*given))[1])
    X = rng.normal(size=(120, 2))
    config = MapConfig(n_minibatches=8, n_members=1, curved=True, device="cpu")
    for kind, y in ((partial(PBDNClassifier, criterion="folds"), np.hypot(*X.T) < 1.0), (PBDNRegressor, X[:, 0])):
        steps.clear()
        model = kind(max_depth=1, random_state=0, map_config=config).fit(X, y)
        assert model.config_.criterion == "folds"
        assert np.isfinite(model.score(X, y))
        assert steps


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
