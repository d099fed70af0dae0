"""Hyperplanes on patches: joint-distribution tests of the sweep, their power, the objective, and the estimator."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import joint
from checks import ALPHA
from pbdn import GibbsConfig, MapConfig, PBDNClassifier
from pbdn.errors import FileFormatError
from pbdn.experimental import PatchPBDNClassifier
from pbdn.experimental import patches as module
from pbdn.experimental.patches import AnyPatch, distinct_patches
from pbdn.gibbs.responses import response_sweep
from pbdn.gibbs.rows import COUNT, EXACT, NOTHING, Rows
from pbdn.gibbs.sweep import sweep
from pbdn.sgd.map_settings import MapSettings

STARTS = np.array([0, 3, 4, 6, 8])  # four pictures
SIZES = np.diff(STARTS)


class Pictures(joint.Binary):
    """A label per picture, repeated on its patches: an event on any of them."""

    def simulate(self, rng, hyperplanes, weights, inputs, offset, exposure):
        rate = joint.cumulative_rate(hyperplanes, weights, inputs, offset, exposure)
        rate = np.add.reduceat(rate, STARTS[:-1], axis=-1)
        return np.repeat(rng.random(rate.shape) < -np.expm1(-rate), SIZES, axis=-1)

    def rows(self, rows, y):
        self.target = y[STARTS[:-1]]
        return Rows(
            rows.arrays._replace(kind=np.full(rows.n_rows, NOTHING), copies=np.zeros(rows.n_rows)), rows.n_inputs
        )


def design(rng):
    """Patches of the pictures; some stand for two or three positions."""
    inputs = rng.standard_normal((STARTS[-1], joint.N_INPUTS - 1))
    return inputs, np.zeros(STARTS[-1]), np.array([1.0, 2.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0])


@pytest.fixture
def z_of(rng, seed, monkeypatch):
    """z-scores of the joint test of a sweep over pictures."""
    monkeypatch.setattr(joint, "design", design)

    def first_points(response):
        def step(sampler, rows, state, latent, active, priors, key, index, workers):
            any_patch = AnyPatch(STARTS, response.target)
            new, _, latent, info = response_sweep(
                sampler, rows, any_patch, state, {}, latent, active, priors, key, index, workers
            )
            return new, latent, info

        return step

    def run(n_sweeps, step=first_points, sampler="first_events", beyond=np.inf):
        response = Pictures()
        return joint.joint_z(rng, seed, sampler, response, n_sweeps, sweep_function=step(response), beyond=beyond)

    return run


def test_joint_law(z_of):
    z, effective = z_of(6_000)
    limit = joint.z_limit(ALPHA, len(z))
    print(f"largest |z| {np.abs(z).max():.1f}, limit {limit:.1f}, least {effective.min():.0f} effective draws")
    assert np.isfinite(z).all()
    assert np.abs(z).max() < limit
    assert effective.min() > 75


def positive_poisson(rng, mean):
    """A Poisson variable given that it is positive."""
    while True:
        n = rng.poisson(mean) if mean > 1.0 else 1 + rng.poisson(mean)
        if n > 0 and (mean > 1.0 or rng.random() < 1.0 / n):
            return n


def test_joint_law_of_all_tables(rng, z_of):
    """The derivation's other form: n ~ Pois₊(λ_i) tables, each at a patch and an expert ∝ e_ip r_k s(ψ_ipk)."""

    def all_tables(response):
        def step(sampler, rows, state, latent, active, priors, key, index, workers):
            arrays = rows.arrays
            mass = arrays.exposure * (np.logaddexp(0.0, arrays.dense @ state.hyperplanes.T) @ np.exp(state.log_weights))
            copies = np.zeros(rows.n_rows)
            for i in np.flatnonzero(response.target):
                own = mass[STARTS[i] : STARTS[i + 1]]
                n = positive_poisson(rng, own.sum())
                copies[STARTS[i] : STARTS[i + 1]] = rng.multinomial(n, own / own.sum())
            kind = np.where(copies > 0, COUNT, NOTHING)
            rows = Rows(arrays._replace(kind=kind, copies=copies), rows.n_inputs)
            return sweep(sampler, rows, state, latent, active, priors, key, index, workers)

        return step

    z, _ = z_of(6_000, all_tables, "event_times")
    assert np.abs(z).max() < joint.z_limit(ALPHA, len(z))


def others_watched_to_the_end(patch):
    """Patches without the first point count up to 0, not up to the first point."""
    right = AnyPatch.draw

    def wrong(self, *arguments):
        rows, *rest = right(self, *arguments)
        offset = np.where(rows.arrays.kind == EXACT, rows.arrays.offset, 0.0)
        return Rows(rows.arrays._replace(offset=offset), rows.n_inputs), *rest

    patch(AnyPatch, "draw", wrong)


def at_any_patch(patch):
    """The point lies on the first patch of the picture, whichever it was."""
    right = module.draw_first_points

    def wrong(distance, log_weights, exposure, starts, target, streams, found, log_time):
        right(distance, log_weights, exposure, starts, target, streams, found, log_time)
        found[:] = starts[:-1]

    patch(module, "draw_first_points", wrong)


def equal_patches_count_once(patch):
    """The choice of the patch forgets how many positions show it."""
    right = module.draw_first_points

    def wrong(distance, log_weights, exposure, *rest):
        right(distance, log_weights, np.ones_like(exposure), *rest)

    patch(module, "draw_first_points", wrong)


def event_at_the_end(patch):
    """The point is taken to lie at 0, not where it was drawn."""
    right = AnyPatch.draw

    def wrong(self, *arguments):
        rows, *rest = right(self, *arguments)
        return Rows(rows.arrays._replace(offset=np.zeros(rows.n_rows)), rows.n_inputs), *rest

    patch(AnyPatch, "draw", wrong)


@pytest.mark.parametrize(
    "plant",
    [
        others_watched_to_the_end,
        at_any_patch,
        pytest.param(equal_patches_count_once, marks=pytest.mark.long),
        event_at_the_end,
    ],
)
def test_seeded_bug_is_caught(z_of, monkeypatch, plant):
    """On pictures whose patches differ clearly. What shows so clearly in a quarter of the sweeps needs no more of them."""
    plant(monkeypatch.setattr)
    monkeypatch.setattr(joint, "design", lambda rng: design(np.random.default_rng(4)))
    limit = joint.z_limit(ALPHA, 29)
    with np.errstate(all="ignore"):
        z, _ = z_of(8_000, beyond=1.5 * limit)
    found = np.nan_to_num(np.abs(z), nan=np.inf).max()
    assert len(z) == 29
    print(f"{plant.__name__}: largest |z| {found:.1f}, limit {limit:.1f}")
    assert found > limit, f"{plant.__name__} was missed: largest |z| {found:.1f}"


def test_equal_patches_of_a_picture_are_joined(rng):
    all_patches = rng.normal(size=(3, 4, 2))
    all_patches[1, 2] = all_patches[1, 0]
    all_patches[2, 0] = all_patches[0, 0]  # another picture: stays apart
    found = distinct_patches(all_patches)
    np.testing.assert_array_equal(found.starts, [0, 4, 7, 11])
    np.testing.assert_array_equal(found.exposure, [1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1])
    planes = rng.normal(size=(5, 3))
    distance = all_patches @ planes[:, 1:].T + planes[:, 0]
    expected = np.logaddexp(0.0, distance).sum(axis=1)
    np.testing.assert_allclose(found.softplus_sums(planes), expected)
    np.testing.assert_allclose(found.take(np.array([2, 1])).softplus_sums(planes), expected[[2, 1]])


def test_gradient_is_that_of_the_objective(rng):
    patches = distinct_patches(rng.normal(size=(6, 3, 2)))
    targets, side = rng.random((6, 2)) < 0.5, np.array([0, 0, 1])
    parameters, settings = rng.normal(size=(3, 4)), MapSettings(mass=1.3, shrinkage="student_t", coef_rate=0.7)
    found = module._gradient(patches, targets, parameters, side)
    found += module._prior_gradient(parameters, side, settings) / 6
    for place in np.ndindex(parameters.shape):
        step = np.zeros_like(parameters)
        step[place] = 1e-6
        ends = [module.objective(patches, targets, parameters + sign * step, side, settings) for sign in (1, -1)]
        assert abs((ends[0] - ends[1]) / 2e-6 - found[place]) < 1e-6


@pytest.fixture(scope="module")
def planted():
    """Noise pictures; those of class "cross" hold a cross somewhere."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(0.0, 0.3, size=(160, 9, 9)), np.array(["none", "cross"])[np.arange(160) % 2]
    cross = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]])
    for image in X[1::2]:
        top, left = rng.integers(7, size=2)
        image[top : top + 3, left : left + 3] += 2.0 * cross
    return X, y, cross


QUICK = {"patch": 3, "stride": 1, "position": False, "max_experts": 3, "random_state": 0}


@pytest.fixture(scope="module")
def model(planted):
    X, y, _ = planted
    config = MapConfig(n_minibatches=600, batch_size=40)
    return PatchPBDNClassifier(max_depth=2, map_config=config, **QUICK).fit(X[:100], y[:100])


def test_the_planted_patch_is_found_and_can_be_looked_at(model, planted):
    pytest.importorskip("matplotlib").use("Agg")
    X, y, cross = planted
    assert model.score(X[100:], y[100:]) > 0.9
    display = model.expert_patches(X[:40], n_nearest=4)
    assert display.sides[0] == "cross"
    assert model.n_experts_[0] == 1
    assert np.corrcoef(model.layer_.sides[0].hyperplanes[0, 1:], cross.ravel())[0, 1] > 0.6
    assert display.means.shape == (sum(model.n_experts_), 3, 3, 1)
    assert display.nearest.shape == (sum(model.n_experts_), 4)
    near = display.images[display.nearest[0]].mean(axis=0)
    assert np.corrcoef(near.ravel(), cross.ravel())[0, 1] > 0.8
    display.figure_.canvas.draw()


def test_layers_on_the_maps_are_kept_if_aic_falls(model, planted):
    X, y, _ = planted
    assert len(model.criterion_) == 2
    assert (model.classifier_ is not None) == (model.criterion_[1] < model.criterion_[0])
    maps = model.maps(X[:6])
    assert maps.shape == (6, 9 * sum(model.n_experts_))
    images = (X[:6, ..., None] - model._center) / model._scale
    first = model.layer_.sides[0].units(images[:, :3, :3].reshape(6, 9))
    assert (maps[:, : first.shape[1]] >= first - 1e-12).all()  # the part in the upper left corner holds that patch
    np.testing.assert_allclose(model.predict_proba(X[:9]).sum(axis=1), 1.0)


def test_three_classes_are_sampled_from_a_start_by_map(planted):
    X, y, _ = planted
    y = np.where(np.arange(len(y)) % 4 == 0, "other", y)
    chains, config = GibbsConfig(n_sweeps=12, n_draws=3), MapConfig(n_minibatches=60)
    options = QUICK | {"inference": "map+gibbs", "gibbs_config": chains, "map_config": config, "max_depth": 1}
    model = PatchPBDNClassifier(**options).fit(X[:60], y[:60])
    assert len(model.layer_.sides) == 6
    assert len(model.layer_.draws) == 3
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(model.predict(X[60:])[y[60:] == "cross"] == "cross") > 0.8
    again = clone(model).fit(X[:60], y[:60])
    np.testing.assert_array_equal(again.predict_proba(X), p)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_saved_model_predicts_the_same(depth, model, planted, tmp_path):
    X, y, _ = planted
    if depth == 1:
        chains = GibbsConfig(n_sweeps=6, n_draws=2)
        options = QUICK | {"inference": "gibbs", "gibbs_config": chains, "max_depth": 1, "position": True}
        saved = PatchPBDNClassifier(**options).fit(X[:30], y[:30])
    else:
        saved = copy.copy(model)
        config = MapConfig(n_minibatches=20)
        saved.classifier_ = PBDNClassifier(inference="map", max_depth=1, map_config=config).fit(model.maps(X), y)
    saved.save(tmp_path / "cross.pbdn")
    loaded = PatchPBDNClassifier.load(tmp_path / "cross.pbdn")
    assert (loaded.classifier_ is None) == (depth == 1)
    np.testing.assert_array_equal(loaded.predict_proba(X), saved.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), saved.predict(X))
    assert loaded.get_params() == saved.get_params()
    assert (loaded.n_experts_, loaded.criterion_) == (saved.n_experts_, saved.criterion_)


@pytest.mark.parametrize("change", ["image_shape_", "_scale", "classes_", "patch"])
def test_a_file_whose_parts_do_not_fit_is_refused(change, model, tmp_path):
    broken = copy.copy(model)
    value = {"image_shape_": (8, 8, 3), "_scale": np.zeros(1), "classes_": np.arange(5), "patch": 4}[change]
    setattr(broken, change, value)
    broken.save(tmp_path / "broken.pbdn")
    with pytest.raises(FileFormatError, match="do not fit together"):
        PatchPBDNClassifier.load(tmp_path / "broken.pbdn")
    with pytest.raises(NotFittedError):
        PatchPBDNClassifier().save(tmp_path / "none.pbdn")
    with pytest.raises(FileFormatError):
        PBDNClassifier.load(tmp_path / "broken.pbdn")


def test_awkward_pictures_and_parameters_are_named(planted):
    X, y, _ = planted
    with pytest.raises(NotFittedError):
        PatchPBDNClassifier().predict(X)
    for change, message in {
        "patch": "patch=0",
        "n_parts": "n_parts=0",
        "inference": "inference=0",
        "position": "position=0",
        "priors": "priors=0",
    }.items():
        with pytest.raises(ValueError, match=message):
            PatchPBDNClassifier(**{change: 0}).fit(X, y)
    with pytest.raises(ValueError, match="larger than the pictures"):
        PatchPBDNClassifier(patch=10).fit(X, y)
    with pytest.raises(ValueError, match="only one class"):
        PatchPBDNClassifier(patch=3).fit(X, ["a"] * len(X))
    with pytest.raises(ValueError, match="Reshape rows of pixels"):
        PatchPBDNClassifier(patch=3).fit(X.reshape(len(X), -1), y)
