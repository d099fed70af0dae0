"""What a saved estimator keeps: its predictions, its parameters, and what its fit ran with."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from pbdn import GibbsConfig, ISHMClassifier, MapConfig, PBDNClassifier
from pbdn.errors import FileFormatError
from pbdn.experimental import RaceClassifier
from pbdn.files import OLDEST_SCHEMA, SCHEMA_VERSION, read_container, write_container
from pbdn.model.priors import Hyperpriors

QUICK_CHAIN = GibbsConfig(n_sweeps=8, n_draws=4, n_paths=2)
MODELS = {
    "map": PBDNClassifier(
        inference="map",
        map_config=MapConfig(n_minibatches=40, batch_size=50),
        priors=Hyperpriors(coef_shape=0.7),
        random_state=0,
    ),
    "curved": PBDNClassifier(
        inference="map", map_config=MapConfig(n_minibatches=40, batch_size=50, curved=True), max_depth=2, random_state=0
    ),
    "gibbs": PBDNClassifier(inference="gibbs", gibbs_config=QUICK_CHAIN, max_depth=1, max_experts=4, random_state=0),
    "one side": ISHMClassifier(inference="map", map_config=MapConfig(n_minibatches=40), random_state=0),
    "race": RaceClassifier(gibbs_config=QUICK_CHAIN, max_depth=1, max_experts=3, random_state=0),
}


def fitted(model, rng, n_classes=2):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % n_classes
    X[:, 0] += y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y), X


@pytest.mark.parametrize(
    ("name", "n_classes"), [(name, n) for name in MODELS for n in (1, 2, 3) if name != "one side" or n <= 2]
)
def test_a_loaded_estimator_is_the_saved_one(rng, tmp_path, name, n_classes):
    model, X = fitted(clone(MODELS[name]), rng, n_classes)
    model.save(tmp_path / "model.pbdn")
    loaded = type(model).load(tmp_path / "model.pbdn")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    if name == "curved" and n_classes == 2:
        assert model.network_.curve is not None
    assert loaded.config_ == model.config_
    assert loaded.get_params() == model.get_params()
    assert loaded.criterion_path_ == model.criterion_path_
    assert loaded.trials_ == model.trials_
    again, first = tmp_path / "again.pbdn", tmp_path / "model.pbdn"
    loaded.save(again)
    assert again.read_bytes() == first.read_bytes()


def by_hand(layers, log_likelihood, n_rows):
    return -log_likelihood


def test_a_function_as_criterion_leaves_its_name(rng, tmp_path):
    model, _ = fitted(clone(MODELS["map"]).set_params(criterion=by_hand), rng)
    assert model.config_.criterion is by_hand
    model.save(tmp_path / "model.pbdn")
    loaded = PBDNClassifier.load(tmp_path / "model.pbdn")
    assert loaded.config_.criterion == loaded.criterion == "by_hand"


@pytest.mark.parametrize(
    ("schema", "message"),
    [(OLDEST_SCHEMA - 1, "before its first release"), (SCHEMA_VERSION + 1, "newer version of pbdn .*upgrade pbdn")],
)
def test_other_schemas_are_refused_before_anything_else(rng, tmp_path, schema, message):
    """Also where the parameters of that time are unknown now."""
    path = tmp_path / "model.pbdn"
    fitted(clone(MODELS["map"]), rng)[0].save(path)
    header, arrays = read_container(path)
    write_container(path, header | {"schema": schema, "parameters": {"skip": "none"}}, arrays)
    with pytest.raises(FileFormatError, match=message):
        PBDNClassifier.load(path)


def test_columns_and_medians_must_fit_the_network(rng, tmp_path):
    path = tmp_path / "m.pbdn"
    model, X = fitted(clone(MODELS["map"]), rng)
    model.save(path)
    header, arrays = read_container(path, kind="model")
    write_container(path, header, {**arrays, "stand_ins": np.zeros(5)})
    with pytest.raises(FileFormatError, match="its medians do not fit"):
        PBDNClassifier.load(path)
    X[::5, 0] = np.nan
    model.fit(X, np.arange(60) % 2).save(path)
    header, arrays = read_container(path, kind="model")
    for stored, message in ((header["preparation"][:1], "do not fit its network"), ([{"name": 3}], "not usable")):
        write_container(path, {**header, "preparation": stored}, arrays)
        with pytest.raises(FileFormatError, match=message):
            PBDNClassifier.load(path)
