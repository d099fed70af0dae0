"""Inside scikit-learn: its own checks of estimators, its meta-estimators, its callbacks, and tables of every kind."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fitted import SETTINGS, blobs, fitted, small, without_tuning
from pbdn import (
    GibbsConfig,
    ISHMClassifier,
    MapConfig,
    PBDNAmountRegressor,
    PBDNClassifier,
    PBDNCountRegressor,
    PBDNOrdinalClassifier,
    PBDNRegressor,
    PBDNSurvival,
)
from pbdn.errors import DepthLimitWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore:The chains of layer:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The criterion was still falling:pbdn.errors.DepthLimitWarning"),
]
LONGER = MapConfig(n_minibatches=60)
SHORT = MapConfig(n_minibatches=30, n_members=2)  # many times
ONE_NETWORK = MapConfig(n_minibatches=30, n_members=1, curved=False)
SWEEPS = GibbsConfig(n_sweeps=8, n_burn_in=4, n_draws=2, n_paths=1)
ONE = {"max_depth": 1, "criterion": "aic_inputs", "map_config": LONGER, "gibbs_config": SWEEPS}
CASES = [
    (PBDNClassifier, "map", {"max_depth": 1, "map_config": SHORT}),
    (PBDNClassifier, "map+gibbs", ONE),
    (ISHMClassifier, "map", {"map_config": LONGER}),
    (ISHMClassifier, "gibbs", {"gibbs_config": SWEEPS}),
]
ON_A_LINE, LONG_ON_A_LINE = (
    [
        cls(inference="map", max_depth=1, max_experts=4, map_config=ONE_NETWORK) for cls in some
    ]  # named: there is partial_fit
    for some in ((PBDNRegressor, PBDNSurvival), (PBDNOrdinalClassifier, PBDNCountRegressor, PBDNAmountRegressor))
)
ON_A_LINE += [PBDNRegressor(inference="gibbs", log=False, max_depth=1, max_experts=2, gibbs_config=SWEEPS)]


# Inside scikit-learn's meta-estimators, with its callbacks, and on tables of every kind.


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_pipeline_search_and_calibration(inference, rng):
    X, y = blobs(rng, spread=0.7)
    pipe = make_pipeline(StandardScaler(), small(inference))
    assert cross_val_score(pipe, X, y, cv=3).mean() > 0.7
    search = GridSearchCV(small(inference), {"max_depth": [1, 2]}, cv=2, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_["max_depth"] in (1, 2)
    assert search.best_estimator_.depth_ <= search.best_params_["max_depth"]
    calibrated = CalibratedClassifierCV(small(inference), cv=2).fit(X, y)
    assert calibrated.score(X, y) > 0.7


def test_clone_keeps_parameters_and_drops_the_fit(rng):
    X, y = blobs(rng)
    model = fitted(small(class_weight={0: 1, 1: 3}), X, y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "network_")


def test_units_feed_another_model(rng):
    X, y = blobs(rng, spread=0.7)
    stack = make_pipeline(small(), LogisticRegression()).fit(X, y)
    assert stack.score(X, y) > 0.7


def test_set_output_names_the_units(rng):
    pd = pytest.importorskip("pandas")
    X, y = blobs(rng)
    model = fitted(small().set_output(transform="pandas"), X, y)
    table = model.transform(X)
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == list(model.get_feature_names_out())
    assert table.columns[0] == f"layer{model.depth_}_for_{model.classes_[0]}_expert0"
    assert table.shape[1] == sum(model.n_experts_[-1])


def test_sample_weight_is_routed(rng):
    X, y = blobs(rng)
    weights = (np.arange(len(y)) % 3).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        model = small().set_fit_request(sample_weight=True)
        pipe = make_pipeline(model).fit(X, y, sample_weight=weights)
        copies = weights.astype(int)
        alone = fitted(small(), np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_array_equal(pipe.predict_proba(X), alone.predict_proba(X))


# ------------------------------------------------------------------------------------------- callbacks


class Recorder:
    """A callback that writes down what it is told, and may ask to stop."""

    def __init__(self, stop_after=None):
        self.events, self.scores, self.stop_after = [], [], stop_after

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name} {context.task_id}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.events.append(f"end {context.task_name} {context.task_id}")
        if fitted_estimator is not None:
            self.scores.append((fitted_estimator.depth_, fitted_estimator.score(X, y)))
        return self.stop_after is not None and len(self.scores) >= self.stop_after


needs_callbacks = pytest.mark.skipif(
    not hasattr(PBDNClassifier, "set_callbacks"), reason="this scikit-learn has no callbacks"
)


@needs_callbacks
@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_callbacks_see_every_layer(inference, rng):
    X, y = blobs(rng, spread=0.7)
    recorder = Recorder()
    model = fitted(small(inference, prediction="point").set_callbacks(recorder), X, y)  # paths come after the layers
    n_tried = len(model.criterion_path_)
    layers = [f"{when} layer {t}" for t in range(n_tried) for when in ("begin", "end")]
    assert recorder.events == ["setup", "begin fit 0", *layers, "end fit 0", "teardown"]
    assert [depth for depth, _ in recorder.scores] == list(range(1, n_tried + 1))
    kept = dict(recorder.scores)[model.depth_]
    assert kept == model.score(X, y)  # the estimator handed out is the one that a fit stopped there would give


@needs_callbacks
def test_a_callback_can_stop_growth(rng):
    X, y = blobs(rng)
    model = fitted(small(max_depth=4).set_callbacks(Recorder(stop_after=1)), X, y)
    assert model.depth_ == 1
    assert len(model.criterion_path_) == 1


@needs_callbacks
def test_scikit_learn_progress_bar(rng, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    X, y = blobs(rng)
    fitted(small().set_callbacks(ProgressBar()), X, y)
    assert "PBDNClassifier - fit" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------- tables


def as_pandas(X, names):
    return pytest.importorskip("pandas").DataFrame(X, columns=names)


def as_polars(X, names):
    return pytest.importorskip("polars").DataFrame(X, schema=names)


def as_lazy_polars(X, names):
    return pytest.importorskip("polars").DataFrame(X, schema=names).lazy()


def as_arrow(X, names):
    return pytest.importorskip("pyarrow").table(dict(zip(names, X.T, strict=True)))


TABLES = {"pandas": as_pandas, "polars": as_polars, "lazy polars": as_lazy_polars, "arrow": as_arrow}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_keep_their_names(kind, rng):
    X, y = blobs(rng)
    names = ["length", "width", "höhe"]
    table = TABLES[kind](X, names)
    model = fitted(small("map"), table, y)
    assert list(model.feature_names_in_) == names
    plain = fitted(small("map"), X, y)
    np.testing.assert_array_equal(model.predict_proba(table), plain.predict_proba(X))
    assert list(model.subtypes(table).columns[-3:]) == names
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(TABLES[kind](X, ["length", "width", "depth"]))
    with pytest.raises(ValueError, match="feature names should match|expecting 3 features"):
        model.predict(TABLES[kind](X[:, :2], names[:2]))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(TABLES[kind](X[:, ::-1], names[::-1]))


def test_names_are_shared_between_kinds_of_tables(rng):
    X, y = blobs(rng)
    names = ["a", "b", "c"]
    model = fitted(small("map"), as_polars(X, names), y)
    expected = model.predict_proba(as_pandas(X, names))
    np.testing.assert_array_equal(model.predict_proba(as_arrow(X, names)), expected)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_labels_and_weights_may_be_columns(rng):
    pl = pytest.importorskip("polars")
    X, y = blobs(rng)
    labels = pl.Series("label", np.array(["no", "yes"])[y])
    model = fitted(small(), X, labels, sample_weight=pl.Series(np.full(len(y), 2.0)))
    assert list(model.classes_) == ["no", "yes"]
    again = fitted(small(), np.repeat(X, 2, axis=0), np.repeat(labels.to_numpy(), 2))
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_sparse_containers_give_one_result(inference, rng):
    X, y = blobs(rng)
    X[np.abs(X) < 0.8] = 0.0
    reference = fitted(small(inference), sp.csr_array(X), y)
    expected = reference.predict_proba(sp.csr_array(X))
    np.testing.assert_allclose(reference.predict_proba(X), expected, rtol=1e-12)
    for container in (sp.csc_array, sp.coo_array, sp.csr_matrix):
        model = fitted(small(inference), container(X), y)
        np.testing.assert_array_equal(model.predict_proba(container(X)), expected)


@pytest.mark.parametrize("inference", ["gibbs", "map"])
def test_sparse_rows_learn_what_dense_rows_do(inference, rng):
    X, y = blobs(rng, n=200, spread=0.7)
    X[np.abs(X) < 0.5] = 0.0
    assert fitted(small(inference), sp.csr_array(X), y).score(X, y) > 0.7


def test_float32_equals_its_double(rng):
    X, y = blobs(rng)
    X = X.astype(np.float32)
    single, double = fitted(small(), X, y), fitted(small(), X.astype(float), y)
    np.testing.assert_array_equal(single.predict_proba(X), double.predict_proba(X.astype(float)))
    assert single.predict_proba(X).dtype == np.float64


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        [False, True],
        [-1, 1],
        [2.0, 5.0],
        [np.uint8(3), np.uint8(200)],
        np.array(["ä", "<b>"], dtype=object),
    ],
    ids=str,
)
def test_labels_of_any_kind(labels, rng):
    X, y = blobs(rng, spread=0.5)
    labels = np.asarray(labels)
    for cls in (PBDNClassifier, ISHMClassifier):
        model = fitted(small("map", cls), X, labels[y])
        np.testing.assert_array_equal(model.classes_, np.unique(labels))
        assert set(model.predict(X)) <= set(labels.tolist())
        assert model.score(X, labels[y]) > 0.6


def test_default_parameters_are_the_product(rng):
    """A default fit needs no option, and warns of nothing but a depth that the criterion would still raise."""
    X, y = blobs(rng, n=40, spread=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DepthLimitWarning)
        model = PBDNClassifier().fit(X, y)
    assert model.score(X, y) > 0.7


# scikit-learn's own estimator checks: none may fail. Those of transformers give times of zero.


@pytest.mark.filterwarnings("ignore:y has only one class:UserWarning")
@pytest.mark.filterwarnings("ignore:y has only one value:UserWarning")
@pytest.mark.filterwarnings("ignore:y has two values only:UserWarning")
@pytest.mark.filterwarnings("ignore:y has .* at time 0:UserWarning")
@parametrize_with_checks([cls(**SETTINGS[inference] | more) for cls, inference, more in CASES] + ON_A_LINE)
def test_estimator_check(estimator, check):
    with nullcontext() if isinstance(estimator, PBDNClassifier) else without_tuning():
        check(estimator)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:y has only one class:UserWarning")
@pytest.mark.filterwarnings("ignore:y has only one value:UserWarning")
@pytest.mark.filterwarnings("ignore:y has two values only:UserWarning")
@parametrize_with_checks(LONG_ON_A_LINE)
def test_estimator_check_of_more_estimators(estimator, check):
    with without_tuning():
        check(estimator)
