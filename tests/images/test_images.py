"""The classifier of images: learning, awkward input, files, ONNX, pictures."""

import copy
import pathlib
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

torch = pytest.importorskip("torch", reason="images need the optional extra pbdn[torch]")

from benchmarks import images, quality_tables, record  # noqa: E402

from fitted import quietly  # noqa: E402
from pbdn import GibbsConfig, MapConfig  # noqa: E402
from pbdn.errors import FileFormatError, InvalidInputError  # noqa: E402
from pbdn.plots import ExpertImagesDisplay  # noqa: E402
from pbdn.torch import ConvPBDNClassifier  # noqa: E402
from pbdn.torch import training as training_module  # noqa: E402
from pbdn.torch.training import settle  # noqa: E402

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "images.md"
QUICK = {"n_features": 12, "epochs": 4, "batch_size": 32, "max_experts": 4, "max_depth": 2, "device": "cpu"}


@pytest.fixture(scope="module", autouse=True)
def short():
    """The head settles in fewer steps, the trunk has fewer channels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_module, "BLOCKS", ((16,), (24,), (24,)))
        patch.setattr(training_module, "SETTLE_STEPS", 150)
        yield


@pytest.fixture(scope="module")
def digits():
    """Four of the ten digits."""
    X, y = load_digits(n_class=4, return_X_y=True)
    return X.reshape(-1, 8, 8), np.array(["zero", "one", "two", "three"])[y]


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits
    chains = GibbsConfig(n_sweeps=20, n_draws=5)
    options = QUICK | {"inference": "map+gibbs", "gibbs_config": chains, "map_config": MapConfig(n_minibatches=100)}
    return quietly(ConvPBDNClassifier(random_state=0, **options), X[::2], y[::2])


def test_it_learns_and_stays_small(model, digits):
    X, y = digits
    assert model.score(X[1::2], y[1::2]) > 0.95
    assert model.losses_[-1] < model.losses_[0]
    assert max(model.head_.n_experts) <= 4
    assert model.classifier_.n_experts_[0] == model.head_.n_experts  # the first layer is the head's
    assert model.classifier_.criterion_path_[0]["kept"]
    p = model.predict_proba(X[:5])
    np.testing.assert_allclose(p.sum(1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X[:5])), p)
    assert set(model.predict(X[:9])) <= set(model.classes_)


def test_the_first_layer_of_the_network_is_the_head(model, digits):
    X, _ = digits
    if model.classifier_.depth_ == 1:
        images = torch.as_tensor(X[:7, None], dtype=torch.float32)
        with torch.no_grad():
            own = model.head_(model.trunk_(images)).exp().numpy()
        np.testing.assert_allclose(model.predict_proba(X[:7]), own, atol=2e-6)
    assert model.features(X[:7]).shape == (7, 12)


def test_draws_give_intervals_and_experts_explain(model, digits):
    X, _ = digits
    ends = model.predict_proba_interval(X[:6], level=0.9)
    assert ends.shape == (6, 4, 2)
    assert (ends[..., 0] <= ends[..., 1]).all()
    assert {"row", "side", "expert", "vote"} <= set(model.explain(X[:3]).columns)


def test_the_same_seed_gives_the_same_model_and_leaves_torchs_streams_alone(digits):
    X, y = digits
    options = QUICK | {"epochs": 1, "max_depth": 1, "random_state": 3}
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = quietly(ConvPBDNClassifier(**options), X[:60], y[:60])
    assert torch.equal(before, torch.random.get_rng_state())
    second = quietly(clone(first), X[:60], y[:60])
    np.testing.assert_array_equal(first.predict_proba(X[:9]), second.predict_proba(X[:9]))


def test_channels_first_and_last_are_told_apart(digits):
    X, y = digits
    X, y = X[:40], y[:40] == "zero"  # two classes
    options = QUICK | {"epochs": 1, "max_depth": 1, "random_state": 0, "augment": lambda images: images.flip(3)}
    last = np.repeat(X[..., None], 3, axis=3)
    first = last.transpose(0, 3, 1, 2)
    answers = [quietly(ConvPBDNClassifier(**options), Z, y).predict_proba(Z) for Z in (last, first)]
    np.testing.assert_allclose(*answers, atol=1e-6)


def test_weights_of_zero_are_absent_rows(digits):
    X, y = digits
    options = QUICK | {"epochs": 1, "max_depth": 1, "random_state": 0, "standardize": False}
    weight = np.ones(60)
    weight[40:] = 0.0
    model = ConvPBDNClassifier(**options)
    weighted = model.fit(X[:60], y[:60], sample_weight=weight).predict_proba(X[:9])
    np.testing.assert_allclose(weighted, clone(model).fit(X[:40], y[:40]).predict_proba(X[:9]), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_features": 200}, "n_features=200"),
        ({"epochs": 0}, "epochs=0"),
        ({"device": "abacus"}, "device='abacus'"),
        ({"trunk": 3}, "trunk=3"),
        ({"augment": 3}, "augment=3"),
        ({"inference": "auto"}, "inference='auto'"),
        ({"criterion": "luck"}, "criterion='luck'"),
        ({"trunk": torch.nn.Conv2d(1, 2, 3)}, "global pooling"),
    ],
)
def test_parameters_out_of_range_are_named(change, message, digits):
    X, y = digits
    with pytest.raises(InvalidInputError, match=message):
        ConvPBDNClassifier(**QUICK | change).fit(X[:20], y[:20])


def test_awkward_images_are_named(model, digits):
    X, y = digits
    fresh = ConvPBDNClassifier(**QUICK)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    with pytest.raises(InvalidInputError, match="Reshape rows of pixels"):
        fresh.fit(X.reshape(len(X), -1), y)
    with pytest.raises(InvalidInputError, match="NaN"):
        fresh.fit(np.where(X > 15, np.nan, X), y)
    with pytest.raises(InvalidInputError, match="cannot be read as images"):
        fresh.fit(np.full((4, 8, 8), "ink"), y[:4])
    with pytest.raises(InvalidInputError, match="only one class"):
        fresh.fit(X[:5], ["a"] * 5)
    with pytest.raises(ValueError, match="inconsistent"):
        fresh.fit(X[:5], y[:4])
    with pytest.raises(InvalidInputError, match="missing label"):
        fresh.fit(X[:3], np.array(["a", None, "b"], object))
    with pytest.raises(InvalidInputError, match=r"fitted on \(8, 8\)"):
        model.predict(X[:, :7])
    assert model.predict(X[:1].astype(np.uint8)).shape == (1,)


def test_a_saved_model_predicts_the_same(model, digits, tmp_path):
    X, _ = digits
    model.save(tmp_path / "digits.pbdn")
    loaded = ConvPBDNClassifier.load(tmp_path / "digits.pbdn", device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(X[:20]), model.predict_proba(X[:20]))
    np.testing.assert_array_equal(loaded.predict_proba_interval(X[:3]), model.predict_proba_interval(X[:3]))
    assert loaded.gibbs_config == model.gibbs_config
    assert loaded.head_.n_experts == model.head_.n_experts
    with pytest.raises(InvalidInputError, match="needs no trunk"):
        ConvPBDNClassifier.load(tmp_path / "digits.pbdn", trunk=torch.nn.Flatten())
    cut = (tmp_path / "digits.pbdn").read_bytes()[:-40]
    (tmp_path / "cut.pbdn").write_bytes(cut)
    with pytest.raises(FileFormatError, match="damaged"):
        ConvPBDNClassifier.load(tmp_path / "cut.pbdn")


def test_a_trunk_of_your_own_comes_to_load_again(digits, tmp_path):
    X, y = digits
    trunk = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 6), torch.nn.ReLU())
    kept = copy.deepcopy(trunk.state_dict())
    model = quietly(ConvPBDNClassifier(**QUICK | {"trunk": trunk, "epochs": 2, "max_depth": 1}), X[:80], y[:80])
    assert all(torch.equal(kept[name], value) for name, value in trunk.state_dict().items())  # it was copied
    model.save(tmp_path / "own.pbdn")
    with pytest.raises(InvalidInputError, match="trunk="):
        ConvPBDNClassifier.load(tmp_path / "own.pbdn")
    loaded = ConvPBDNClassifier.load(tmp_path / "own.pbdn", trunk=trunk, device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(X[:5]), model.predict_proba(X[:5]))
    with pytest.raises(FileFormatError, match="does not fit its trunk"):
        ConvPBDNClassifier.load(tmp_path / "own.pbdn", trunk=torch.nn.Flatten())


def test_batches_come_one_by_one(digits, tmp_path):
    X, y = digits
    model = ConvPBDNClassifier(**QUICK | {"random_state": 0})
    with pytest.raises(InvalidInputError, match="classes must be passed"):
        model.partial_fit(X[:30], y[:30])
    for start in list(range(0, 360, 60)) * 3:
        model.partial_fit(X[start : start + 60], y[start : start + 60], classes=np.unique(y))
    assert model.score(X[360:], y[360:]) > 0.9
    assert model.head_.n_rows == 18 * 60
    model.save(tmp_path / "half.pbdn")
    loaded = ConvPBDNClassifier.load(tmp_path / "half.pbdn", device="cpu").partial_fit(X[:40], y[:40])
    assert loaded.classifier_.depth_ == 1
    with pytest.raises(InvalidInputError, match="not among the classes"):
        model.partial_fit(X[:2], ["zero", "nine"])


def test_images_in_probabilities_out_in_one_onnx_file(model, digits):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript", reason="torch's exporter needs onnxscript")
    X, _ = digits
    session = runtime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"images": X[:9, None].astype(np.float32)})
    np.testing.assert_allclose(found, model.predict_proba(X[:9]), atol=1e-5)


def test_salient_pixels_add_up_to_the_distance(model, digits):
    X, _ = digits
    side = model.classifier_.network_.layers[0].sides[1]
    mean = np.broadcast_to(model.trunk_[0].center.numpy()[0], (1, 8, 8))
    ends = [np.asarray(model.features(rows)) @ side.hyperplanes[0, 1:] for rows in (X[:6], mean)]
    found = model.saliency(X[:6], side=1, n_steps=64)
    assert found.shape == (6, 8, 8)
    np.testing.assert_allclose(found.sum(axis=(1, 2)), ends[0] - ends[1], rtol=0.05, atol=0.2)
    with pytest.raises(InvalidInputError, match="side=99"):
        model.saliency(X[:1], side=99)


def test_experts_as_pictures(model, digits):
    pytest.importorskip("matplotlib").use("Agg")
    X, _ = digits
    display = ExpertImagesDisplay.from_estimator(model, X, n_nearest=3, saliency=True)
    n = sum(model.head_.n_experts[:4])
    assert display.means.shape == (n, 8, 8)
    assert display.nearest.shape == (n, 3)
    assert display.salient.shape == (n, 3, 8, 8)
    assert display.strips()[0].shape == (8, 7 * 9 - 1)  # mean, three images, their pixels
    assert list(display.table().columns) == ["side", "expert", "share", "nearest"]
    display.figure_.canvas.draw()
    coloured = np.repeat(display.images[..., None], 3, axis=3)
    means, shares = np.repeat(display.means[..., None], 3, axis=3), display.shares
    of_colours = ExpertImagesDisplay(1, display.sides, display.experts, shares, means, display.nearest, coloured)
    of_colours.salient = display.salient
    assert of_colours.plot().strips()[0].shape == (8, 7 * 9 - 1, 3)
    with pytest.raises(InvalidInputError, match="layer=9"):
        ExpertImagesDisplay.from_estimator(model, X, layer=9)


def test_the_report_shows_the_experts(model, digits, tmp_path):
    for package in ("jinja2", "PIL", "matplotlib"):
        pytest.importorskip(package)
    X, y = digits
    page = model.report(X[1:80:2], y[1:80:2], tmp_path / "digits.html")
    assert page.count('class="subtype"') == sum(model.head_.n_experts[:4])
    assert "which of their pixels speak for it" in page
    assert (tmp_path / "digits.html").read_text(encoding="utf-8") == page


@pytest.fixture(scope="module")
def page(digits):
    """The Python blocks of docs/images.md by what they begin with, and the names after its plain loop."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    X, y = digits
    names = {"X_train": X[:300] / 16.0, "y_train": np.unique(y, return_inverse=True)[1][:300]}
    torch.manual_seed(0)
    exec(next(block for block in blocks if block.startswith("import torch")), names)
    return blocks, names


def test_the_plain_loop_of_the_page_learns(page):
    _, names = page
    codes = names["labels"]
    assert (names["probability"].argmax(1) == codes).float().mean() > 0.95
    before, head = sum(names["head"].n_experts), copy.deepcopy(names["head"])
    features = names["trunk"](names["images"]).detach()
    np.testing.assert_allclose(
        names["network"].predict(features.numpy()), names["probability"].detach().numpy(), atol=1e-5
    )
    settle(head, features, codes, batch_size=64)
    assert sum(head.n_experts) < before


def test_the_skorch_example_of_the_page_learns(page):
    pytest.importorskip("skorch")
    blocks, names = page
    exec(next(block for block in blocks if block.startswith("import skorch")), names)
    net = names["net"].set_params(max_epochs=3, verbose=0, train_split=None)
    net.fit(names["images"], names["labels"])
    assert net.history[-1]["train_loss"] < net.history[0]["train_loss"] + 1.0
    assert np.mean(net.predict(names["images"]) == names["labels"].numpy()) > 0.9


@pytest.mark.filterwarnings("ignore")
def test_the_lightning_example_of_the_page_runs(page, tmp_path):
    lightning = pytest.importorskip("lightning")
    blocks, names = page
    exec(next(block for block in blocks if block.startswith("import lightning")), names)
    data = torch.utils.data.TensorDataset(names["images"], names["labels"])
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_epochs=2, default_root_dir=tmp_path, **quiet)
    module = names["Digits"](copy.deepcopy(names["trunk"]), copy.deepcopy(names["head"]))
    trainer.fit(module, torch.utils.data.DataLoader(data, 64))
    assert trainer.current_epoch == 2


def test_the_benchmark_runs_all_its_methods(tmp_path):
    settings = images.Settings(1, 50, 8, 2, 4, 2, 2)
    data = images.load("digits", torch.device("cpu"), n_rows=100)
    with ThreadPoolExecutor(1) as pool:
        found = dict(images.cells(data, settings, 0, pool))
    assert set(found) == set(quality_tables.IMAGE_METHODS)
    for method, scores in found.items():
        assert all(np.isfinite(scores[measure]) for measure in images.MEASURES)
        line = {"method": method, "data": "digits", "seed": 0, "config": settings._asdict()}
        record.append(images.EXPERIMENT, line | scores, tmp_path)
    shown = quality_tables.images_table(tmp_path)
    assert all(f"| digits | {words} | 1 |" in shown for words in quality_tables.IMAGE_METHODS.values())
