"""Probabilities that only rise, or only fall, with a feature."""

import numpy as np
import pytest

from networks import random_network
from pbdn import ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.errors import InvalidInputError
from pbdn.model.network import Network
from pbdn.model.response import TwoClasses
from pbdn.model.wiring import Curve
from pbdn.sgd.joint_training import Packed
from pbdn.sgd.map_settings import MapSettings

QUICK = {"n_members": 2, "n_minibatches": 150}


def steps_along(predict, rows, j, n=40):
    """Changes of the second class's probability along feature j, for every row."""
    grid = np.linspace(-3.0, 3.0, n)
    many = np.repeat(rows, n, axis=0)
    many[:, j] = np.tile(grid, len(rows))
    return np.diff(predict(many)[:, 1].reshape(len(rows), n), axis=1)


@pytest.mark.parametrize("experts", [((4, 3),), ((4, 3), (3, 2)), ((3, 3), (2, 3), (3, 2))])
def test_signs_are_enough(rng, experts):
    """Any network becomes monotone by the projection, in all features with a sign and however deep; squares are free."""
    curve = Curve(np.array([2]), np.zeros(1), np.ones(1))
    network = random_network(rng, experts, 3, curve=curve, response=TwoClasses(), total_spread=2.0)
    packed = Packed.of(network.layers, 4, network.response.labelling, MapSettings(monotonic_cst=(1, -1, 0)))
    assert packed.signs.size == packed.parameters.size
    projected = Network(packed.projected().layers(), 3, network.response, curve)
    rows = rng.normal(size=(200, 3))
    assert not (steps_along(network.predict, rows, 0) > 0.0).all()
    assert (steps_along(projected.predict, rows, 0) >= -1e-12).all()
    assert (steps_along(projected.predict, rows, 1) <= 1e-12).all()
    assert steps_along(projected.predict, rows, 2).min() < 0.0 < steps_along(projected.predict, rows, 2).max()


@pytest.fixture(scope="module")
def bumpy():
    """The second class is likelier in the middle of x0, and where x1 is large."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-3.0, 3.0, size=(240, 2))
    y = (np.exp(-(X[:, 0] ** 2)) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=240) > 0.3).astype(int)
    return X, y


@pytest.mark.filterwarnings("ignore::pbdn.errors.DepthLimitWarning")
def test_fits_are_monotone(bumpy):
    X, y = bumpy
    for signs, curved, depth in ((None, None, 1), ([1, 0], True, 1), ([1, 0], False, 2)):
        config = MapConfig(curved=curved, monotonic_cst=signs, **QUICK)
        model = PBDNClassifier(map_config=config, max_depth=depth, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.7
        steps = steps_along(model.predict_proba, X, 0)
        if signs is None:
            assert steps.min() < -0.01
            continue
        assert steps.min() >= -1e-12
        assert model.network_.curve is None or model.network_.curve.columns.tolist() == [1]


def test_columns_by_name(bumpy, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = bumpy
    frame = pd.DataFrame({"kind": np.where(X[:, 1] > 0, "a", "b"), "height": X[:, 0], "width": X[:, 1]})
    frame.loc[::9, "height"] = np.nan
    config = MapConfig(monotonic_cst={"height": -1, "width": 1}, **QUICK)
    model = PBDNClassifier(map_config=config, max_depth=1, random_state=0).fit(frame, y)
    assert model.config_.map.monotonic_cst == (0, -1, 0, 1)
    grid = np.linspace(-3.0, 3.0, 30)
    for name, sign in (("height", -1), ("width", 1)):
        for row in range(1, 5):
            some = frame.iloc[[row] * 30].assign(**{name: grid})
            assert (sign * np.diff(model.predict_proba(some)[:, 1]) >= -1e-12).all()
    model.save(tmp_path / "m.pbdn")
    loaded = PBDNClassifier.load(tmp_path / "m.pbdn")
    assert loaded.map_config == config
    for given, said in (({"depth": 1}, "'depth'"), ({"kind": 1}, "no number"), ([1, 0], "2 values")):
        with pytest.raises(InvalidInputError, match=said):
            PBDNClassifier(map_config=MapConfig(monotonic_cst=given)).fit(frame, y)


def test_where_it_cannot_hold(bumpy):
    X, y = bumpy
    config = MapConfig(monotonic_cst=np.array([1, 0]))
    with pytest.raises(InvalidInputError, match="two classes"):
        PBDNClassifier(map_config=config).fit(X, y + (X[:, 0] > 1))
    with pytest.raises(InvalidInputError, match="two classes"):
        ISHMClassifier(map_config=config).fit(X, y)
    with pytest.raises(InvalidInputError, match="folds"):
        PBDNClassifier(map_config=config, criterion="aic").fit(X, y)
    for inference in ("gibbs", "map+gibbs"):
        with pytest.raises(InvalidInputError, match="not for draws"):
            PBDNClassifier(map_config=config, inference=inference).fit(X, y)
    with pytest.raises(InvalidInputError, match="-1 \\(falls\\)"):
        MapConfig(monotonic_cst=[2, 0])
