"""How sure networks are: a factor that rows kept back choose, of distributions and of probabilities."""

import numpy as np
import pytest

from folds import RESPONSE, on_a_line
from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth.run import Run
from pbdn.growth.sharpening import best_factor, factor_of_average, interval_scores, sharpened
from pbdn.model.network import Layer, Side
from pbdn.model.timed import OnALine, StandardDistribution, rates, side_arrays


def distribution(layers, X):
    return StandardDistribution(side_arrays(layers[-1], X))


def test_a_factor_makes_distributions_narrower_about_their_medians(rng):
    X, layers = on_a_line(rng, location=(0.3, -0.2))
    rows = LabelledRows(X, np.zeros((len(X), 2)))
    narrower = sharpened(layers, 1.7, rows)
    away = np.linspace(-0.8, 0.8, 9) * np.ones((len(X), 1))
    for old, new in zip(side_arrays(layers[0], X), side_arrays(narrower[0], X), strict=True):
        # of one expert H(u) = ln 2 where s(z) = ln 2, that is z = 0
        median = -old.distances / old.time_coefs
        np.testing.assert_allclose(rates(new, median + away / 1.7)[0], rates(old, median + away)[0], rtol=1e-8)


@pytest.mark.parametrize("known", ["values", "intervals"])
def test_rows_kept_back_say_how_wide_distributions_are(known, rng):
    X, layers = on_a_line(rng, n_rows=3000)
    u = distribution(layers, X).ppf(rng.uniform(size=(len(X), 1)))
    bounds = np.hstack([u, u]) if known == "values" else np.floor(4 * u) / 4 + [0.0, 0.25]
    rows = LabelledRows(X, bounds)
    folds = np.arange(len(X)) % 2
    for factor in (0.6, 1.0, 1.5):
        wrong = sharpened(layers, factor, rows)
        # the standard error of the logarithm of a scale is about 1/√(2n), here 0.013
        assert best_factor([wrong, wrong], rows, folds, OnALine(), Run(seed=0)) == pytest.approx(1 / factor, rel=0.08)


def test_scores_of_intervals_are_least_for_the_true_quantiles(rng):
    X, layers = on_a_line(rng, n_rows=3000)
    u = distribution(layers, X).ppf(rng.uniform(size=(len(X), 1)))
    rows = LabelledRows(X, np.hstack([u, u]))
    scores = {factor: interval_scores(rows)(sharpened(layers, factor, rows)).sum() for factor in (0.8, 1.0, 1.25)}
    assert min(scores, key=scores.get) == 1.0
    twice = interval_scores(LabelledRows(X, np.hstack([u, u]), np.full(len(X), 2.0)))(layers)
    assert twice.sum() == pytest.approx(2.0 * scores[1.0])


def test_an_average_of_networks_that_differ_is_narrower_by_what_it_gains(rng):
    shift = 0.2
    X, layers = on_a_line(rng)
    _, low = on_a_line(rng, location=(-shift, -shift))
    _, high = on_a_line(rng, location=(shift, shift))
    rows, folds = LabelledRows(X, np.zeros((len(X), 2))), np.arange(len(X)) % 2
    quantiles = distribution(layers, X).ppf(np.tile([0.16, 0.84], (len(X), 1)))
    width = np.diff(quantiles, axis=1)[0, 0] / 2
    # two predictions that differ by 2d have variance 2d², and their mean errs by d² less
    assert factor_of_average([low, high], rows, folds) == pytest.approx(1 / np.sqrt(1 - shift**2 / width**2))
    assert factor_of_average([layers, layers], rows, folds) == 1.0
    assert factor_of_average([layers], rows, folds) == 1.0


def logistic(rng, n_rows):
    """Rows, and a network of one expert a side: with r = 1, P(a side says yes) has the log-odds x'β."""
    X = rng.normal(size=(n_rows, 2))
    line = np.array([[0.4, 1.5, -1.0]])
    return X, (Layer((Side(-line, np.ones(1)), Side(line, np.ones(1)))),)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_factor_multiplies_log_odds_and_sides_say_yes_as_often(weighted, rng):
    X, layers = logistic(rng, 400)
    weights = rng.uniform(0.5, 2.0, size=400) if weighted else None
    surer = sharpened(layers, 1.7, LabelledRows(X, np.zeros(400, int), weights))
    for old, new in zip(layers[0].sides, surer[0].sides, strict=True):
        shift = new.hyperplanes - 1.7 * old.hyperplanes
        np.testing.assert_allclose(shift[:, 1:], 0.0, atol=1e-12)
        before, after = (np.average(-np.expm1(-side.rate(X)), weights=weights) for side in (old, new))
        assert after == pytest.approx(before, abs=1e-9)
    assert sharpened(layers, 1.0, LabelledRows(X, np.zeros(400, int)))[0].sides[0].hyperplanes == pytest.approx(
        layers[0].sides[0].hyperplanes, abs=1e-9
    )


def test_a_side_that_always_says_yes_is_not_shifted(rng):
    X = rng.normal(size=(30, 2))
    side = Side(np.array([[60.0, 0.0, 1.0]]), np.ones(1))
    surer = sharpened((Layer((side, side)),), 2.0, LabelledRows(X, np.zeros(30, int)))
    np.testing.assert_array_equal(surer[0].sides[0].hyperplanes, 2.0 * side.hyperplanes)


def test_rows_kept_back_say_how_sure_probabilities_are_and_few_say_little(rng):
    X, layers = logistic(rng, 6000)
    y = (rng.uniform(size=6000) < RESPONSE.prediction(layers[0], X)[:, 1]).astype(int)
    rows, folds = LabelledRows(X, y), np.arange(6000) % 2
    for factor in (0.6, 1.5):
        wrong = sharpened(layers, factor, rows)
        # the standard error of the logarithm of the scale of log-odds is about 0.03 here
        assert best_factor([wrong, wrong], rows, folds, RESPONSE, Run(seed=0)) == pytest.approx(1 / factor, rel=0.15)
    few = rows.take(np.arange(10))
    wrong = sharpened(layers, 0.2, rows)
    assert 1.0 < best_factor([wrong, wrong], few, folds[:10], RESPONSE, Run(seed=0)) < 2.0
