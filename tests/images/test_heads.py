"""Heads for torch modules: the objective, the pruning law and the probabilities are those of the library."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="heads need the optional extra pbdn[torch]")

from pbdn.data.row_source import ArraySource  # noqa: E402
from pbdn.errors import InvalidInputError  # noqa: E402
from pbdn.model.priors import Hyperpriors  # noqa: E402
from pbdn.sgd.objective import loss_and_gradient, pack  # noqa: E402
from pbdn.sgd.pruning import log_inactivity  # noqa: E402
from pbdn.torch import ISHMHead, NetworkModule, PBDNHead, to_onnx  # noqa: E402
from pbdn.torch.training import SETTLE_STEPS, Training, settle  # noqa: E402

N_ROWS, N_FEATURES = 80, 4
HEADS = ["one side", "two classes", "four classes"]


def make_head(kind, n_rows=N_ROWS, **options):
    torch.manual_seed(0)
    if kind == "one side":
        return ISHMHead(N_FEATURES, n_rows, max_experts=3, **options).double()
    return PBDNHead(N_FEATURES, {"two classes": 2, "four classes": 4}[kind], n_rows, max_experts=3, **options).double()


def rows_for(head, rng, n_rows=N_ROWS):
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[0] *= 1e3  # far from some experts, where rates underflow
    return X, rng.integers(0, head.response.n_outputs, n_rows)


def tensors(X, y):
    return torch.as_tensor(X), torch.as_tensor(y)


@pytest.mark.parametrize("kind", HEADS)
def test_loss_and_gradient_are_those_of_the_compiled_objective(kind, rng):
    priors = Hyperpriors(mass_shape=3.0, coef_shape=0.7, coef_rate_shape=2.0)
    head = make_head(kind, standardize=False, priors=priors).eval()
    X, y = rows_for(head, rng)
    with torch.no_grad():
        head.alive[0, 1] = False
        head.log_weights.add_(torch.as_tensor(rng.normal(size=head.log_weights.shape)))
    head.loss(*tensors(X, y)).backward()
    own = head.loss(*tensors(X, y)).item()
    planes, log_weights = head.hyperplanes.detach().numpy(), head.log_weights.detach().numpy()
    alive = head.alive.numpy()
    parameters = np.column_stack([log_weights[alive], planes[alive]]).T
    starts = np.cumsum([0, *head.n_experts])
    labelling = head.response.labelling
    args = (np.ascontiguousarray(parameters), starts, head.settings, labelling)
    loss, gradient = loss_and_gradient(X, y, np.ones(len(y)), *args)
    assert own == pytest.approx(loss / N_ROWS, rel=1e-10)
    found = np.column_stack([head.log_weights.grad.numpy()[alive], head.hyperplanes.grad.numpy()[alive]]).T
    np.testing.assert_allclose(found, gradient / N_ROWS, rtol=1e-8, atol=1e-10)
    assert not head.log_weights.grad.numpy()[~alive].any()


def test_a_row_far_from_all_experts_of_its_side_still_pulls():
    head = make_head("one side", standardize=False).float()
    with torch.no_grad():
        head.hyperplanes.zero_()
        head.hyperplanes[..., 0] = -500.0
    loss = head.loss(torch.zeros(1, N_FEATURES), torch.tensor([1]))
    loss.backward()
    assert loss.item() == pytest.approx(500.0, rel=1e-2)
    assert head.hyperplanes.grad[..., 0].sum().item() == pytest.approx(-1.0, rel=1e-2)


@pytest.mark.parametrize("kind", HEADS)
def test_inactivity_is_that_of_the_compiled_kernel(kind, rng):
    head = make_head(kind).eval()
    X, y = rows_for(head, rng)
    with torch.no_grad():
        head.log_weights.add_(torch.as_tensor(rng.normal(-3, 2, size=head.log_weights.shape)))
    found = head.log_inactivity(*tensors(X, y)).numpy()
    parameters, starts = pack(head.to_network().layers[0].sides)
    classes = np.arange(head.response.n_outputs)
    wanted = log_inactivity(ArraySource(X, y, classes=classes), parameters, starts, head.response.labelling.positive)
    wanted = wanted.reshape(found.shape)
    order = np.argsort(-head.log_weights.detach().numpy(), axis=1, kind="stable")
    found = np.take_along_axis(found, order, 1)
    decided = -30.0  # below, an expert is needed for certain, and one of the two may have lost the digits
    np.testing.assert_allclose(np.maximum(found, decided), np.maximum(wanted, decided), rtol=1e-7, atol=1e-9)


def test_experts_die_once_all_rows_were_seen_and_optimisers_go_on(rng):
    head = make_head("two classes")
    X, y = tensors(*rows_for(head, rng))
    optimiser = torch.optim.Adam(head.parameters(), lr=0.01)
    with torch.no_grad():
        head.log_weights[0, 2] = head.log_weights[1] = -40.0
    for half in (slice(0, 40), slice(40, 80)):
        assert head.n_experts == (3, 3)
        optimiser.zero_grad()
        head.loss(X[half], y[half]).backward()
        optimiser.step()
    assert head.n_experts[0] == 2
    assert head.n_experts[1] >= 1  # a side never loses all
    assert not head.alive[0, 2]
    optimiser.step()
    head.eval()
    before = head(X)
    assert head.prune(X, y) >= 0
    assert torch.allclose(before, head(X), atol=1e-6)
    assert make_head("two classes", prune_above=1.0).prune(X, y) == 0


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("standardize", [False, True])
def test_probabilities_are_those_of_the_network(kind, standardize, rng):
    head = make_head(kind, standardize=standardize)
    X, y = rows_for(head, rng)
    head.loss(*tensors(3.0 * X + 1.0, y))  # moves the running mean and variance
    with torch.no_grad():
        head.alive[0, 0] = False
        head.eval()
        found = head(torch.as_tensor(X)).exp().numpy()
        single = head.float()(torch.as_tensor(X).float()).exp().numpy()
        network = head.double().to_network()
        np.testing.assert_allclose(found, network.predict(X), atol=1e-9)
        np.testing.assert_allclose(single[1:], network.predict(X)[1:], atol=2e-6)
        as_module = NetworkModule(network, torch.float64)(torch.as_tensor(X)).numpy()
    np.testing.assert_allclose(as_module, network.predict(X), atol=1e-9)
    np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-9)


def test_a_state_loads_into_a_head_of_other_width(rng, tmp_path):
    head = make_head("four classes")
    X, y = tensors(*rows_for(head, rng))
    head.loss(X, y)
    with torch.no_grad():
        head.alive[2, 1] = False
    torch.save(head.state_dict(), tmp_path / "head.pt")
    other = PBDNHead(N_FEATURES, 4, N_ROWS, max_experts=7).double()
    other.load_state_dict(torch.load(tmp_path / "head.pt", weights_only=True))
    assert other.n_experts == head.n_experts
    assert torch.equal(head.eval()(X), other.eval()(X))
    assert isinstance(other.train().loss(X, y).item(), float)
    with pytest.raises(RuntimeError, match="size mismatch"):
        make_head("two classes").load_state_dict(head.state_dict())


def test_autocast_batches_of_one_row_and_bad_features(rng):
    head = make_head("four classes").float()
    X, y = tensors(*rows_for(head, rng))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert head.loss(X[:1].bfloat16(), y[:1]).dtype == torch.float32
        assert head(X.bfloat16()).dtype == torch.float32
    assert torch.equal(head.eval().loss(X, y), head.loss(X, y.to(torch.uint8)))  # labels of bytes are no mask
    with pytest.raises(InvalidInputError, match=r"n_features"):
        head(torch.zeros(2, 3, 4))
    with pytest.raises(InvalidInputError, match="n_classes"):
        PBDNHead(3, 1, 10)
    with pytest.raises(InvalidInputError, match="n_rows"):
        PBDNHead(3, 2, 0)


def test_trunk_and_head_in_one_onnx_file(rng):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript", reason="torch's exporter needs onnxscript")
    head = make_head("four classes").float()
    trunk = torch.nn.Sequential(torch.nn.Conv2d(1, N_FEATURES, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    images = torch.as_tensor(rng.normal(size=(20, 1, 6, 6))).float()
    head.loss(trunk(images), torch.arange(20) % 4)
    data = to_onnx(trunk, head.to_network(), images[:1], classes=list("abcd"))
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"images": images.numpy()})
    with torch.no_grad():
        wanted = head.eval()(trunk(images)).exp().numpy()
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    assert session.get_modelmeta().custom_metadata_map["classes"] == '["a", "b", "c", "d"]'


def test_weights_of_experts_have_steps_of_their_own(rng):
    """The first step of Adam is as long as its rate."""
    head = PBDNHead(3, 2, 40, max_experts=2)
    before = [one.detach().clone() for one in (head.hyperplanes, head.log_weights)]
    features, codes = torch.as_tensor(rng.normal(size=(40, 3))).float(), torch.arange(40) % 2
    Training(torch.nn.Identity(), head, 0.0, 0.0, 0.01, 0.2).run(features, codes, epochs=1, batch_size=40)
    steps = [(one.detach() - old).abs() for one, old in zip((head.hyperplanes, head.log_weights), before, strict=True)]
    np.testing.assert_allclose(steps[0], 0.01, rtol=1e-3)
    np.testing.assert_allclose(steps[1], 0.2, rtol=1e-3)


@pytest.mark.parametrize(("n_steps", "stays"), [(SETTLE_STEPS, True), (SETTLE_STEPS - 1, False)])
def test_hyperplanes_learn_without_the_trunk_only_after_few_steps_with_it(n_steps, stays, rng):
    head = make_head("four classes")
    features, codes = tensors(*rows_for(head, rng))
    planes, weights = head.hyperplanes.clone(), head.log_weights.clone()
    settle(head, features, codes, batch_size=40, n_steps=n_steps)
    assert torch.equal(head.hyperplanes, planes) is stays
    assert not torch.equal(head.log_weights, weights)
