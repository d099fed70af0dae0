"""Long tails are pulled in as the formula says, for dense and sparse rows, and scaling and files keep that."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import yeojohnson, yeojohnson_llf

from networks import network_of, random_tails
from pbdn.errors import FileFormatError
from pbdn.files.network import network_from_arrays, network_to_arrays
from pbdn.inspection.effects import ChangedColumns
from pbdn.model.scaling import Scaling
from pbdn.model.tails import POWERS, Tails, pulled_in, tails_of

N = 4
TAILED = ["tailed pair", "curved tailed deep pair", "curved tailed committee"]


@pytest.mark.parametrize("power", POWERS)
def test_the_transformation_of_yeo_and_johnson(rng, power):
    z = np.r_[0.0, 10.0 ** rng.uniform(-8, 3, size=50)] * rng.choice([-1.0, 1.0], size=51)
    np.testing.assert_allclose(pulled_in(z, power), yeojohnson(z, power), rtol=1e-10, atol=1e-14)


def test_columns_values_and_back(rng):
    tails, x = random_tails(rng, N, 2), rng.normal(size=(20, N))
    changed = tails.apply(x)
    others = np.delete(np.arange(N), tails.columns)
    np.testing.assert_array_equal(changed[:, others], x[:, others])
    assert (np.diff(changed[np.argsort(x[:, tails.columns[0]]), tails.columns[0]]) >= 0).all()
    np.testing.assert_allclose(tails.inverse(changed[:, tails.columns]), x[:, tails.columns], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("centred", [False, True])
def test_sparse_rows(rng, centred):
    x = rng.normal(size=(20, N)) * (rng.random((20, N)) < 0.4)
    tails = random_tails(rng, N, 2)
    tails = tails if centred else replace(tails, centers=np.zeros(2))
    found = tails.apply(sp.csr_array(x))
    np.testing.assert_allclose(found.toarray(), tails.apply(x), rtol=1e-14)
    assert centred or found.nnz == np.count_nonzero(x)


def test_powers_are_the_likeliest_and_only_long_tails_are_found(rng):
    n = 500
    x = np.column_stack([rng.lognormal(size=n), rng.normal(size=n), -rng.lognormal(size=n), rng.random(n) < 0.5])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    found = tails_of(x)
    assert found.columns.tolist() == [0, 2]
    for j, column in enumerate(found.columns):
        z = x[:, column] / found.scales[j]
        assert found.powers[j] == max(POWERS, key=lambda power: yeojohnson_llf(power, z))
    assert found.powers[0] < 1.0 < found.powers[1]
    assert tails_of(x[:, [1, 3]]) is None


def test_weights_count_rows(rng):
    x = rng.lognormal(size=(60, 2))
    weights = rng.integers(0, 4, size=60)
    repeated, weighted = tails_of(np.repeat(x, weights, axis=0)), tails_of(x[weights > 0], weights[weights > 0] * 1.0)
    np.testing.assert_array_equal(repeated.powers, weighted.powers)
    np.testing.assert_allclose(repeated.scales, weighted.scales)


@pytest.mark.parametrize("shape", TAILED)
def test_scaling_is_taken_up(rng, shape):
    net = network_of(shape, rng)
    scaling = Scaling(rng.normal(size=N), rng.gamma(2.0, size=N), quantum=0.0)
    x = scaling.center + scaling.scale * rng.normal(size=(20, N))
    folded = scaling.fold(net)
    np.testing.assert_allclose(folded.predict(x), net.predict(scaling.apply(x)), rtol=1e-9)
    np.testing.assert_allclose(scaling.unfold(folded).predict(scaling.apply(x)), folded.predict(x), rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1e160, 1e300])
def test_any_unit_of_measurement(rng, unit):
    net, x = network_of("curved tailed deep pair", rng), rng.normal(size=(20, N))
    scaling = Scaling(np.zeros(N), np.full(N, unit), quantum=0.0)
    with np.errstate(over="raise", invalid="raise"):
        folded = scaling.fold(net)
        np.testing.assert_allclose(folded.predict(unit * x), net.predict(x), rtol=1e-9)
        limits = np.minimum(folded.feature_limits, 1e307)
        assert (limits > 1e6 * unit).all()
        assert np.isfinite(folded.predict(np.vstack([limits, -limits]))).all()


@pytest.mark.parametrize("shape", TAILED)
def test_many_rows_and_changed_columns(rng, shape):
    net, x = network_of(shape, rng), rng.normal(size=(1200, N))
    np.testing.assert_allclose(net.predict(x)[:9], net.predict(x[:9]), rtol=1e-9)
    some, values = x[:30], rng.normal(size=(30, 2))
    for pair in ((0, 1), (2, 0), (3, 1)):
        other = some.copy()
        other[:, pair] = values
        np.testing.assert_allclose(ChangedColumns(net, some).predict(pair, values), net.predict(other), rtol=1e-8)


def test_files(rng):
    net = network_of("curved tailed committee", rng)
    header, arrays = network_to_arrays(net)
    back = network_from_arrays(header, arrays)
    np.testing.assert_array_equal(back.predict(rows := rng.normal(size=(5, N))), net.predict(rows))
    for name, wrong, words in (
        ("powers", np.zeros(2), "zero or two"),
        ("powers", np.ones(3), "one power for every column"),
        ("scales", np.zeros(2), "not positive"),
    ):
        with pytest.raises(FileFormatError, match=words):
            network_from_arrays(header, arrays | {f"network.tails.{name}": wrong})


def test_beyond_the_range_the_inverse_is_infinite():
    tails = Tails(np.array([0]), np.zeros(1), np.ones(1), np.array([-0.875]))
    assert np.isinf(tails.inverse(np.array([[2.0]]))).all()
