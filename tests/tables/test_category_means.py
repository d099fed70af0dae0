"""What categories tell of the target, judged by rows that were not counted."""

import json

import numpy as np
import pytest
from scipy import stats

from checks import ALPHA
from databases import scored
from pbdn import PBDNClassifier, PBDNCountRegressor, PBDNRegressor
from pbdn.errors import FileFormatError, TableWarning
from pbdn.inspection.curves import MOST_VALUES, effect_curves
from pbdn.tables import Preparation, TablePreparation, fit_preparation, telling_columns
from pbdn.tables.category_means import (
    N_PARTS,
    STRENGTHS,
    Cells,
    Targets,
    category_codes,
    means,
    targets_of,
    tell_more,
)
from pbdn.tables.table import Table
from pbdn.tables.telling_columns import CLEARLY

pd = pytest.importorskip("pandas")

N_ROWS_OF_SHOP = 4  # too few for a feature of its own


def targets(labels, parts):
    return Targets(
        tuple("abc"[: labels.max() + 1]), np.eye(labels.max() + 1)[labels], np.ones(len(labels)), parts, True
    )


def in_parts(labels, rng):
    return targets(labels, rng.permutation(len(labels)) % N_PARTS)


def shops(rng, n=600):
    """Rows of shops that keep to one class nine times out of ten, with a number that says nothing."""
    shop = rng.permutation(n) // N_ROWS_OF_SHOP
    y = (shop % 2) ^ (rng.random(n) < 0.1)
    return pd.DataFrame({"shop": [f"shop {k}" for k in shop], "size": rng.normal(size=n)}), y


@pytest.fixture
def learned(rng):
    frame, y = shops(rng)
    with pytest.warns(TableWarning, match="shop: 150 names, which tell of the target where they repeat"):
        preparation = TablePreparation().fit(frame, y)
    return frame, y, preparation


def test_the_share_of_few_rows_is_drawn_towards_that_of_all():
    codes, labels = np.array([0, 0, 0, 1, -1]), np.array([1, 1, 0, 1, 0])
    of_all = np.array([2.5, 3.5]) / 6.0
    found = means(codes, targets(labels, np.zeros(5, int)), 3, 2.0)
    np.testing.assert_allclose(found[0], (np.array([1, 2]) + 2.0 * of_all) / 5.0)
    np.testing.assert_allclose(found[1], (np.array([0, 1]) + 2.0 * of_all) / 3.0)
    np.testing.assert_allclose(found[2:], [of_all, of_all])  # no row of this category; any other value
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_the_mean_of_few_numbers_is_drawn_towards_that_of_all():
    codes, weights = np.array([0, 0, 1]), np.array([1.0, 3.0, 2.0])
    numbers = np.array([[4.0], [8.0], [-5.0]])
    found = means(codes, Targets(("mean",), numbers, weights, np.zeros(3, int), False), 2, 2.0)
    np.testing.assert_allclose(found[:, 0], [(28.0 + 2.0 * 3.0) / 6.0, (-10.0 + 2.0 * 3.0) / 4.0, 3.0])


def test_no_row_counts_for_itself_and_all_others_of_its_category_do(rng):
    codes, labels = rng.integers(8, size=200), rng.integers(2, size=200)
    rows = in_parts(labels, rng)
    before = Cells.of(codes, rows, 8).others().means(1.0)[rows.parts, codes + 1]
    for i in range(0, 200, 17):
        flipped = rows.values.copy()
        flipped[i] = flipped[i, ::-1]
        after = Cells.of(codes, rows._replace(values=flipped), 8).others().means(1.0)[rows.parts, codes + 1]
        own_part, alike = rows.parts == rows.parts[i], codes == codes[i]
        np.testing.assert_array_equal(after[own_part], before[own_part])
        assert (after[~own_part & alike] != before[~own_part & alike]).all()


def test_parts_do_not_depend_on_the_order_of_rows(rng):
    frame, y = shops(rng, 300)
    columns = {"shop": frame["shop"].to_numpy(object), "size": np.round(frame["size"].to_numpy(), 1)}
    order = rng.permutation(300)
    first = targets_of(Table(columns, 300), y, None, None)
    moved = Table({name: values[order] for name, values in columns.items()}, 300)
    second = targets_of(moved, y[order], None, None)
    cells = zip(columns["shop"], columns["size"], y, first.parts, strict=True)
    again = zip(columns["shop"][order], columns["size"][order], y[order], second.parts, strict=True)
    assert sorted(cells) == sorted(again)
    assert np.bincount(first.parts).tolist() == [60] * N_PARTS


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("n", "n_categories"), [(150, 60), (400, 300), (1000, 50)])
def test_categories_that_say_nothing_are_not_believed(rng, n, n_categories, n_classes):
    n_tables = 100
    alarms = 0
    for _ in range(n_tables):
        codes, labels = rng.integers(n_categories, size=n), rng.integers(n_classes, size=n)
        alarms += tell_more(codes, n_categories, [np.zeros(n, np.int64)], in_parts(labels, rng), CLEARLY, 0.0)
    assert alarms <= stats.binom.isf(
        ALPHA, n_tables, 0.005
    )  # three standard errors say a false yes less than once in 200


def test_strength_follows_how_alike_the_rows_of_a_category_are(rng):
    codes = rng.integers(50, size=1000)
    alike, mixed = codes % 2, (rng.random(1000) < 0.4 + 0.2 * (codes % 2)).astype(int)
    strengths = [Cells.of(codes, in_parts(labels, rng), 50).best_strength() for labels in (alike, mixed)]
    assert strengths[0] == STRENGTHS[0] < strengths[1]


def test_names_that_tell_are_one_feature_and_new_ones_say_nothing(learned):
    frame, y, preparation = learned
    assert preparation.get_feature_names_out().tolist() == ["shop: share of 1", "size"]
    new = preparation.transform(frame)[:, 0]
    even = frame["shop"].str.removeprefix("shop ").astype(int) % 2 == 0
    assert new[even].mean() < 0.25 < 0.75 < new[~even].mean()
    assert len(set(new)) <= 5  # of four rows, none to all are of class 1
    with pytest.warns(TableWarning, match="1 value.s. not seen in training, e.g. 'shop 999'"):
        (unknown,) = preparation.transform(pd.DataFrame({"shop": ["shop 999"], "size": [0.0]}))[:, 0]
    assert unknown == pytest.approx(y.mean(), abs=0.01)


def test_training_rows_do_not_see_their_own_class(learned):
    frame, y, preparation = learned
    with pytest.warns(TableWarning):
        X = TablePreparation().fit_transform(frame, y)
    values, new = np.asarray(X)[:, 0], np.asarray(preparation.transform(frame))[:, 0]
    codes = category_codes(frame["shop"].tolist(), sorted(set(frame["shop"])))
    of_shop = [values[codes == k] for k in range(codes.max() + 1)]
    assert np.mean([np.ptp(one) > 0.0 for one in of_shop]) > 0.5  # a shop looks different to its own rows
    assert np.corrcoef(values - new, y)[0, 1] < 0.0 < np.corrcoef(values, y)[0, 1]


def test_rows_of_weight_zero_say_nothing(rng):
    frame, y = shops(rng)
    lies = pd.concat([frame, frame], ignore_index=True)
    labels, weights = np.r_[y, 1 - y], np.r_[np.ones(len(y)), np.zeros(len(y))]
    with pytest.warns(TableWarning):
        model = PBDNClassifier(random_state=0, max_depth=1).fit(lies, labels, sample_weight=weights)
    assert model.score(frame, y) > 0.85


def test_names_that_tell_nothing_are_left_out(rng):
    frame, _ = shops(rng)
    with pytest.warns(TableWarning):
        preparation = TablePreparation().fit(frame, rng.integers(2, size=len(frame)))
    assert preparation.get_feature_names_out().tolist() == ["size"]


def test_frequent_categories_keep_features_of_their_own(rng):
    """Half of the rows are in two towns, the others in a hundred villages that keep to one class."""
    village, in_town = rng.permutation(800) // 8, rng.random(800) < 0.5
    place = np.where(in_town, np.where(village % 4 < 2, "Oslo", "Rome"), [f"village {k}" for k in village])
    y = np.where(in_town, rng.integers(2, size=800), village % 2)
    preparation = fit_preparation(Table({"place": place.astype(object), "size": rng.normal(size=800)}, 800), labels=y)
    plan = preparation.columns[0]
    assert {"Oslo", "Rome"} < set(plan.levels) < set(plan.telling)
    assert (plan.others, plan.tells) == (True, ("share of 1",))
    assert preparation.notes == []  # an ordinary category, of which nothing is odd
    there = np.array(["Oslo", "village 1", "Lima", ""], object)
    X, notes = preparation.apply(Table({"place": there, "size": np.zeros(4)}, 4))
    names = preparation.feature_names
    at = [names.index(f"place{end}") for end in (" = Oslo", " = (other)", ": share of 1")]
    assert names.index("size") == at[2] + 1 == len(plan.levels) + 2
    known = dict(zip(plan.telling, plan.told, strict=False))
    (of_all,) = plan.told[-1]
    oslo, far = known["Oslo"][0], known["village 1"][0]
    own = float("village 1" not in plan.levels)
    np.testing.assert_array_equal(X[:, at], [[1, 0, oslo], [0, own, far], [0, 1, of_all], [0, 0, of_all]])
    assert abs(oslo - 0.5) < 0.2 < abs(far - 0.5)


def test_a_row_is_explained_by_its_category(learned):
    frame, y, preparation = learned
    (group, _) = preparation.preparation_.groups
    X = np.asarray(preparation.transform(frame))
    shown = [group.row_text(row) for row in X[:50]]
    assert all(name in text or "one of" in text for name, text in zip(frame["shop"], shown, strict=False))


def test_what_categories_say_is_stored_and_damage_is_refused(learned):
    frame, _, preparation = learned
    stored = json.loads(json.dumps(preparation.preparation_.to_json()))
    again = Preparation.from_json(stored)
    assert again == preparation.preparation_
    n = len(stored[0]["told"])
    for damage in ([[0.5]], [["half"]] * n, [[0.5, 0.5]] * n, [[float("nan")]] * n):
        with pytest.raises(FileFormatError, match="column preparation is not usable"):
            Preparation.from_json([stored[0] | {"told": damage}])


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(4)
    frame, y = shops(rng, 900)
    with pytest.warns(TableWarning):
        model = PBDNClassifier(random_state=0).fit(frame[:600], y[:600])
    old = frame["shop"][600:].isin(frame["shop"][:600]).to_numpy()
    return frame[600:][old].reset_index(drop=True), y[600:][old], model


def test_a_table_of_names_is_learned_and_kept(fitted, tmp_path):
    frame, y, model = fitted
    assert model.score(frame, y) > 0.8
    assert model.feature_importances_[0] > 0.8
    model.save(tmp_path / "shops.pbdn")
    again = PBDNClassifier.load(tmp_path / "shops.pbdn")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_databases_know_what_names_say(fitted, dialect):
    frame, _, model = fitted
    frame = frame.copy()
    frame.loc[:1, "shop"] = ["Ali's", None]
    with pytest.warns(TableWarning, match="not seen in training"):
        expected = model.predict_proba(frame)
    rows = [(i, shop, size) for i, (shop, size) in enumerate(zip(frame["shop"], frame["size"], strict=True))]
    columns = "row INTEGER, shop TEXT, size DOUBLE PRECISION"
    found = scored(dialect, columns, rows, model.to_sql(dialect, keep=["row"]))
    np.testing.assert_allclose([row[1:3] for row in found], expected, atol=1e-9)


@pytest.fixture(scope="module")
def priced():
    """Prices that follow the shop, with some noise; counts of the same rows."""
    rng = np.random.default_rng(5)
    frame, _ = shops(rng)
    level = frame["shop"].str.removeprefix("shop ").astype(int).to_numpy() % 7
    return frame, 10.0 * level + rng.normal(size=len(frame)), rng.poisson(1.0 + 3.0 * level)


def test_names_tell_of_numbers_too(priced):
    frame, price, counts = priced
    model = PBDNRegressor(random_state=0, max_depth=1)
    with pytest.warns(TableWarning, match="which tell of the target where they repeat, so the mean of the target"):
        model.fit(frame, price)
    preparation = model.preparation_.preparation_
    assert preparation.feature_names == ["shop: mean of the target", "size"]
    assert model.score(frame, price) > 0.95
    with pytest.warns(TableWarning):
        numbers = PBDNCountRegressor(random_state=0, max_depth=1).fit(frame, counts)
    assert numbers.score(frame, counts) > 0.3
    with pytest.warns(TableWarning):
        seen = np.asarray(TablePreparation().fit(frame, frame["shop"].str[-1]).transform(frame))
    assert seen.shape[1] == 1 + 10  # ten classes, of which a name tells the shares


def test_numbers_by_which_nothing_can_be_judged_teach_nothing(priced):
    frame, price, _ = priced
    bounds = np.column_stack([price, price])
    bounds[0, 1] = np.inf
    with pytest.warns(TableWarning):
        model = PBDNRegressor(random_state=0, max_depth=1).fit(frame, bounds)
    assert model.preparation_.preparation_.feature_names == ["size"]


def test_the_command_line_learns_what_names_tell_of_numbers(priced, tmp_path):
    pytest.importorskip("click", reason="the command line is not installed")
    from click.testing import CliRunner

    from pbdn.cli.app import app
    from pbdn.cli.table_model import load_model

    frame, price, _ = priced
    frame.assign(price=price).to_csv(tmp_path / "prices.csv", index=False)
    arguments = ["fit", tmp_path / "prices.csv", "-t", "price", "-o", tmp_path / "m.pbdn", "--max-depth", 1]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert "names: the mean of the ta" in result.stdout
    assert load_model(tmp_path / "m.pbdn").validation["r2"]["value"] > 0.8


def test_a_curve_shows_the_commonest_names(fitted):
    frame, _, model = fitted
    (curve,) = effect_curves(model, frame, ["shop"])
    assert len(curve.labels) == len(set(curve.labels)) <= MOST_VALUES
    assert curve.probability[:, 1].min() < 0.3 < 0.7 < curve.probability[:, 1].max()


def test_many_rows_are_judged_by_some(rng, monkeypatch):
    frame, y = shops(rng, 2000)
    columns = {name: frame[name].to_numpy(object if name == "shop" else float) for name in frame}
    monkeypatch.setattr(telling_columns, "MOST_JUDGED", 1000)
    preparation = fit_preparation(Table(columns, 2000), labels=y)
    plan = preparation.columns[0]
    assert len(plan.telling) == 500  # all names are kept, whichever rows were looked at
    X, _ = preparation.apply(Table(columns, 2000))
    assert np.mean((X[:, 0] > 0.5) == y) > 0.85
