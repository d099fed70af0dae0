"""Awkward inputs: valid probabilities, or a ValueError that names the argument, the value and the remedy."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from fitted import GIBBS, assert_probabilities, blobs, fitted, small
from pbdn import ISHMClassifier, PBDNClassifier, PBDNRegressor
from pbdn.errors import InvalidInputError, TableWarning

INFERENCES = ["gibbs", "map", "map+gibbs"]


def scaled(factor):
    def change(rng, X, y):
        X[:, 0] *= factor
        return X, y

    return change


def all_scaled(factor):
    return lambda rng, X, y: (X * factor, y)


def constant_column(rng, X, y):
    X[:, 1] = 7.0
    return X, y


def large_constant_column(rng, X, y):
    X[:, 1] = 1e300 / 3
    return X, y


def all_constant(rng, X, y):
    return np.full_like(X, 3.0), y


def two_rows(rng, X, y):
    keep = [0, 1]
    return X[keep], y[keep]


def one_positive(rng, X, y):
    return X, np.where(np.arange(len(y)) == 5, y.max(), np.minimum(y, y.max() - 1))


def more_columns_than_rows(rng, X, y):
    return rng.normal(size=(12, 30)), y[:12]


def very_wide(rng, X, y):
    return rng.normal(size=(20, 500)), y[:20]


def contradicting_duplicates(rng, X, y):
    return np.concatenate([X, X]), np.concatenate([y, (y + 1) % (y.max() + 1)])


def outlier(rng, X, y):
    X[3, 1] = 1e6
    return X, y


def far_outlier(rng, X, y):
    X[3, 1] = -1e300
    return X, y


def separable(rng, X, y):
    X[:, 0] = 100.0 * y + 0.01 * X[:, 0]
    return X, y


def string_labels(rng, X, y):
    return X, np.array(["negative", "positive", "<b>third</b>"])[y]


def boolean_or_float_labels(rng, X, y):
    return X, y == 1 if y.max() == 1 else 2.0 * y - 1.0


def object_labels(rng, X, y):
    return X, np.array(["a", "bc", "d"], dtype=object)[y]


def sparse_with_empty_rows(rng, X, y):
    X[np.abs(X) < 1.0] = 0.0
    X[:5] = 0.0
    return sp.coo_array(X), y


def huge_mean(rng, X, y):
    return X + 1e9, y


FITS = {
    "column x 1e12": scaled(1e12),
    "column x 1e-12": scaled(1e-12),
    "column x 1e300": scaled(1e300),
    "column x 1e-300": scaled(1e-300),
    "all x 1e300": all_scaled(1e300),
    "all x 1e-300": all_scaled(1e-300),
    "near the largest double": all_scaled(2e307),
    "subnormal": all_scaled(1e-315),
    "constant column": constant_column,
    "large constant column": large_constant_column,
    "all constant": all_constant,
    "two rows": two_rows,
    "one positive": one_positive,
    "n < p": more_columns_than_rows,
    "20 x 500": very_wide,
    "contradicting duplicates": contradicting_duplicates,
    "outlier 1e6": outlier,
    "outlier 1e300": far_outlier,
    "separable": separable,
    "string labels": string_labels,
    "bool or float labels": boolean_or_float_labels,
    "object labels": object_labels,
    "sparse with empty rows": sparse_with_empty_rows,
    "mean 1e9": huge_mean,
}


BY_TURNS = [(case, inference, 2 + (i + j) % 2) for i, case in enumerate(FITS) for j, inference in enumerate(INFERENCES)]


@pytest.mark.parametrize(("case", "inference", "n_classes"), BY_TURNS)
def test_probabilities_stay_valid(case, inference, n_classes, rng):
    """Every case with every inference, and with two and three classes by turns."""
    X, y = FITS[case](rng, *blobs(rng, n_classes=n_classes))
    labels = np.unique(y)
    model = fitted(small(inference, n_sweeps=30, n_burn_in=15, n_draws=10), X, y)
    p = model.predict_proba(X)
    assert_probabilities(p, X.shape[0], labels.size)
    np.testing.assert_array_equal(model.classes_, labels)
    np.testing.assert_array_equal(model.predict(X), labels[p.argmax(axis=1)])
    assert np.isfinite(model.transform(X)).all()
    far = sp.csr_array((2, X.shape[1])) if sp.issparse(X) else np.full((2, X.shape[1]), [[1e6], [-1e300]])
    assert_probabilities(model.predict_proba(far), 2, labels.size)
    if inference == "gibbs":
        assert_probabilities(model.posterior_predictive_proba(X)[0], X.shape[0], labels.size)


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("case", ["separable", "column x 1e300", "column x 1e-300", "mean 1e9"])
def test_awkward_scales_are_still_learnt(case, inference, rng):
    X, y = FITS[case](rng, *blobs(rng, spread=0.4))
    assert fitted(small(inference), X, y).score(X, y) > 0.9


@pytest.mark.parametrize("inference", INFERENCES)
def test_one_class_fits_warns_and_predicts_it(inference, rng):
    X = rng.normal(size=(10, 2))
    with pytest.warns(UserWarning, match=r"only one class \('only'\)"):
        model = small(inference).fit(X, ["only"] * 10)
    np.testing.assert_array_equal(model.predict(X), ["only"] * 10)
    assert_probabilities(model.predict_proba(X), 10, 1)
    assert model.transform(X).shape == (10, 0)
    assert model.depth_ == 0
    with pytest.raises(ValueError, match="one class only"):
        model.explain(X)


@pytest.mark.parametrize("inference", INFERENCES)
def test_single_row_of_each_of_two_classes(inference):
    model = fitted(small(inference), [[0.0], [1.0]], ["a", "b"])
    assert_probabilities(model.predict_proba([[0.0], [1.0], [0.5]]), 3, 2)


@pytest.mark.parametrize("inference", INFERENCES)
def test_class_of_one_row(inference, rng):
    X, y = blobs(rng, n_classes=3)
    X, y = np.vstack([X, [[9.0, 9.0, 9.0]]]), np.append(y, 7)
    model = fitted(small(inference), X, y)
    assert list(model.classes_) == [0, 1, 2, 7]
    assert_probabilities(model.predict_proba(X), len(y), 4)


def test_two_hundred_classes_of_five_rows(rng):
    centres = rng.normal(scale=8.0, size=(200, 6))
    y = np.repeat(np.arange(200), 5)
    X = centres[y] + 0.1 * rng.normal(size=(1000, 6))
    model = fitted(small("map", max_depth=1), X, y)
    assert_probabilities(model.predict_proba(X), 1000, 200)
    assert model.score(X, y) > 3 / 200  # better than guessing after a few hundred steps


@pytest.mark.parametrize("inference", INFERENCES)
def test_class_present_only_at_weight_zero(inference, rng):
    X, y = blobs(rng, n_classes=3)
    model = fitted(small(inference), X, y, sample_weight=(y != 2).astype(float))
    assert_probabilities(model.predict_proba(X), len(y), 3)
    assert not np.any(model.predict(X) == 2)


REFUSED = {
    "nothing but NaN": (lambda X, y: (np.full_like(X, np.nan), y), "No column is left .*always missing"),
    "inf": (lambda X, y: (np.where(X > 1, np.inf, X), y), "infinity"),
    "-inf": (lambda X, y: (np.where(X > 1, -np.inf, X), y), "infinity"),
    "None label": (lambda X, y: (X, [None, *y[1:].tolist()]), r"y has 1 missing label.*position 0; drop"),
    "NaN label": (lambda X, y: (X, [*y[:-1].tolist(), float("nan")]), r"y has 1 missing label.*position 89"),
    "None among strings": (
        lambda X, y: (X, ["a", None, *["b"] * (len(y) - 2)]),
        r"missing label.*position 1",
    ),
    "empty": (lambda X, y: (X[:0], y[:0]), r"0 sample"),
    "no columns": (lambda X, y: (X[:, :0], y), r"0 feature"),
    "lengths": (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
    "text": (lambda X, y: (np.array([["a", "b"]] * len(y)), y), "No column is left .*always 'a'"),
    "continuous y": (
        lambda X, y: (X, X[:, 0]),
        r"Unknown label type: continuous.*not whole, such as -.*give them as text",
    ),
}


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(case, inference, rng):
    change, message = REFUSED[case]
    X, y = change(*blobs(rng, n_classes=3 if inference == "map" else 2))
    with pytest.raises(ValueError, match=message):
        small(inference).fit(X, y)


def test_plain_arrays_are_checked_like_all_others(rng):
    """Arrays of doubles skip scikit-learn's checks only where these would find nothing."""
    X, y = blobs(rng)
    model = fitted(small("map"), X, y)
    expected = model.predict_proba(X.tolist())
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.predict_proba(np.asfortranarray(X)), expected)
    far = X.copy()
    far[0, 0] = 1e305
    np.testing.assert_array_equal(model.predict_proba(far), model.predict_proba(far.tolist()))
    far[0, 0] = np.nan
    with pytest.warns(TableWarning, match="1 missing"):
        model.predict_proba(far)
    for wrong, message in (
        (np.where(np.isnan(far), np.inf, far), "infinity"),
        (X[:, 1:], "features"),
        (X[:0], "minimum of 1 is required"),
        (X[0], "1D array"),
        (X.astype(complex), "[Cc]omplex"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict_proba(wrong)
    with pytest.raises(NotFittedError):
        small("map").predict_proba(X)


def test_pandas_missing_label_is_named(rng):
    pd = pytest.importorskip("pandas")
    X, y = blobs(rng)
    labels = pd.Series(y, dtype="Int64")
    labels.iloc[4] = pd.NA
    with pytest.raises(ValueError, match="missing label.*position 4"):
        small().fit(X, labels)


@pytest.mark.parametrize("inference", INFERENCES)
def test_columns_at_predict_must_be_those_of_fit(inference, rng):
    X, y = blobs(rng)
    model = fitted(small(inference), X, y)
    with pytest.raises(ValueError, match="X has 2 features, but PBDNClassifier is expecting 3"):
        model.predict(X[:, :2])
    with pytest.warns(TableWarning, match="x0: 1 missing, none in training"):
        assert np.isfinite(model.predict_proba(np.full((1, 3), np.nan))).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"inference": "vi"}, r"inference='vi' is not known; use one of 'auto', 'map.gibbs', 'gibbs', 'map'"),
        ({"max_experts": 2.5}, r"max_experts=2.5 must be a whole number"),
        ({"criterion": "dic"}, r"criterion='dic' is not known; use one of 'auto'"),
        ({"time_limit": -1}, r"time_limit=-1 must be a positive number"),
        ({"time_limit": float("nan")}, r"time_limit=nan must be a positive number"),
        ({"priors": {"mass_shape": 1}}, r"priors=.* must be None or a pbdn.model.priors.Hyperpriors"),
        ({"map_config": 3}, r"map_config=3 must be None or a pbdn.config.options.MapConfig"),
        (
            {"gibbs_config": {"n_sweeps": 9}},
            r"gibbs_config={'n_sweeps': 9} must be None or a pbdn.config.options.GibbsConfig",
        ),
        ({"max_depth": 0}, r"max_depth=0 must be"),
        ({"class_weight": "even"}, "class_weight"),
    ],
)
def test_parameters_are_refused_by_name(parameters, message, rng):
    X, y = blobs(rng)
    with pytest.raises(ValueError, match=message):
        PBDNClassifier(**{**GIBBS, **parameters}).fit(X, y)


def test_map_has_no_posterior(rng):
    X, y = blobs(rng)
    with pytest.raises(ValueError, match=r"prediction='posterior' needs posterior draws"):
        small("map", prediction="posterior").fit(X, y)
    model = fitted(small("map"), X, y)
    with pytest.raises(
        ValueError, match=r"inference='map' keeps no posterior draws; fit with inference='gibbs' or 'map\+gibbs'"
    ):
        model.predict_proba_interval(X)


def test_single_side_is_for_two_classes(rng):
    X, y = blobs(rng, n_classes=3)
    with pytest.raises(ValueError, match=r"y has 3 classes. Use PBDNClassifier"):
        small(cls=ISHMClassifier).fit(X, y)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_impossible_weights_are_refused(weight, rng):
    X, y = blobs(rng)
    weights = np.ones(len(y))
    weights[3] = weight
    with pytest.raises(ValueError, match=r"(?i)sample_weight"):
        small().fit(X, y, sample_weight=weights)


def test_negative_weights_of_classes_are_refused(rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    with pytest.raises(InvalidInputError, match="class_weight=.* must not be negative"):
        PBDNClassifier(class_weight={0: -5.0, 1: 1.0}).fit(X, y)


@pytest.mark.parametrize("kind", ["onnx", "c", "python", "sql"])
def test_what_is_not_fitted_cannot_be_exported(kind):
    with pytest.raises(NotFittedError):
        getattr(PBDNClassifier(), f"to_{kind}")()


def test_all_weights_zero_are_refused(rng):
    X, y = blobs(rng)
    with pytest.raises(ValueError, match=r"(?i)sample.weight.* zero|non-zero"):
        small().fit(X, y, sample_weight=np.zeros(len(y)))


def test_enormous_weights_do_not_fill_the_memory(rng):
    X, y = blobs(rng)
    weights = np.full(len(y), 1e9)
    with pytest.raises(ValueError, match="divide the weights by a common factor"):
        small().fit(X, y, sample_weight=weights)
    assert_probabilities(fitted(small("map"), X, y, sample_weight=weights).predict_proba(X), len(y), 2)


def test_no_warning_but_ours(rng):
    """Extreme columns run without overflow warnings from NumPy (which the suite would raise as errors)."""
    X, y = blobs(rng)
    X[:, 0] *= 1e300
    X[:, 1] *= 1e-300
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        small().fit(X, y).predict_proba(X)
    assert {type(one.message).__name__ for one in seen} <= {"ConvergenceWarning", "DepthLimitWarning"}


@pytest.mark.parametrize("cls", [PBDNClassifier, PBDNRegressor])
def test_weights_that_add_up_to_one_are_shares_of_the_rows(cls, rng):
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    y = (y > 0).astype(int) if cls is PBDNClassifier else y
    weights = rng.integers(1, 3, size=60).astype(float)
    shares, meant = weights / weights.sum(), weights / weights.mean()
    found, wanted = (
        fitted(cls(random_state=0, max_depth=1), X, y, sample_weight=one).predict(X) for one in (shares, meant)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
