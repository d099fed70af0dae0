"""Numbers that are codes, which tell of the target one by one, in predictions, pictures and exports."""

import json
import subprocess

import numpy as np
import pytest

from databases import scored
from networks import COMPILER, needs_compiler
from pbdn import MapConfig, PBDNClassifier
from pbdn.errors import InvalidInputError, TableWarning
from pbdn.inspection.curves import MOST_VALUES, effect_curves
from pbdn.tables import Preparation, TablePreparation, fit_preparation
from pbdn.tables.table import Table

pd = pytest.importorskip("pandas")


def schools(rng, n=800):
    """Pupils of schools, of which each has a sector; a fifth of the schools have none known. Ages say a little."""
    school = rng.permutation(n) // 8
    sector = rng.integers(2, size=school.max() + 1)
    y = sector[school] ^ (rng.random(n) < 0.1)
    code = (1000 + 7 * school).astype(float)
    code[rng.random(n) < 0.05] = np.nan
    age = np.round(rng.normal(12 + 0.5 * y, 2), 1)
    return pd.DataFrame({"school": code, "age": age, "sex": rng.choice(["f", "m"], n)}), y


@pytest.fixture(scope="module")
def taught():
    frame, y = schools(np.random.default_rng(6))
    with pytest.warns(
        TableWarning, match="school: 100 different numbers tell more of the target one by one than by their size"
    ):
        model = PBDNClassifier(random_state=0).fit(frame[:600], y[:600])
    new = frame[600:].reset_index(drop=True)
    new.loc[:3, "school"] = [np.nan, 999_999.0, 1003.0, 1007.5]  # missing, beyond all, between two, no whole number
    return frame, y, model, new


def test_numbers_that_are_codes_tell_one_by_one(taught):
    frame, y, model, new = taught
    preparation = model.preparation_.preparation_
    assert preparation.feature_names == ["school", "school: share of 1", "school is missing", "age", "sex = m"]
    assert model.score(frame[600:], y[600:]) > 0.8
    X = np.asarray(model.preparation_.transform(new))
    plan = preparation.columns[0]
    np.testing.assert_array_equal(X[:4, 1], plan.told[-1][0])
    np.testing.assert_array_equal(X[:4, 0], [plan.fill, 999_999.0, 1003.0, 1007.5])
    known = dict(zip(map(float, plan.telling), plan.told, strict=False))
    there = new["school"].isin(known)
    np.testing.assert_array_equal(X[there, 1], [known[code][0] for code in new["school"][there]])
    assert Preparation.from_json(json.loads(json.dumps(preparation.to_json()))) == preparation


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_databases_know_what_codes_say(taught, dialect):
    _, _, model, new = taught
    cells = new.astype(object).where(new.notna(), None).itertuples(index=False)
    columns = "row INTEGER, school DOUBLE PRECISION, age DOUBLE PRECISION, sex TEXT"
    rows = [(i, *row) for i, row in enumerate(cells)]
    found = scored(dialect, columns, rows, model.to_sql(dialect, keep=["row"]))
    np.testing.assert_allclose([row[1:3] for row in found], model.predict_proba(new), atol=1e-9)


def test_python_knows_what_codes_say(taught):
    _, _, model, new = taught
    module = {}
    exec(model.to_python(), module)
    found = [module["predict_proba"](row) for row in new.to_dict("records")]
    np.testing.assert_allclose(found, model.predict_proba(new), atol=1e-12)


@needs_compiler
def test_c_knows_what_codes_say(taught, tmp_path):
    _, _, model, new = taught
    (tmp_path / "m.h").write_text(model.to_c(), encoding="utf-8")
    rows = "".join(
        f'    {{{"NAN" if np.isnan(row.school) else repr(row.school)}, {row.age!r}, "{row.sex}"}},\n'
        for row in new.head(20).itertuples()
    )
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "m.h"\nint main(void)\n{\n    const pbdn_row rows[] = {\n' + rows + "    };\n"
        "    double p[2];\n    for (int i = 0; i < 20; ++i) {\n        pbdn_predict_proba(&rows[i], p);\n"
        '        printf("%.17g\\n", p[1]);\n    }\n    return 0;\n}\n'
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run([COMPILER, *flags, "main.c", "-o", "main", "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(np.array(done.stdout.split(), float), model.predict_proba(new)[:20, 1], atol=1e-12)


def test_onnx_knows_what_codes_say(taught):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    _, _, model, new = taught
    session = runtime.InferenceSession(model.to_onnx(dtype=np.float64), providers=["CPUExecutionProvider"])
    inputs = {name: new[[name]].to_numpy() for name in ("school", "age")} | {"sex": new[["sex"]].to_numpy(object)}
    np.testing.assert_allclose(session.run(None, inputs)[1], model.predict_proba(new), atol=1e-9)


def test_a_curve_shows_codes_one_by_one(taught):
    frame, _, model, _ = taught
    school, age = effect_curves(model, frame, ["school", "age"])
    assert (school.discrete, age.discrete) == (True, False)
    assert len(school.labels) <= MOST_VALUES
    assert {"1000", "1007"} & set(school.labels)
    assert school.probability[:, 1].min() < 0.3 < 0.7 < school.probability[:, 1].max()


def test_a_code_has_no_direction(taught):
    frame, y, _, _ = taught
    config = MapConfig(monotonic_cst={"school": 1})
    with pytest.warns(TableWarning), pytest.raises(InvalidInputError, match="'school', which looks like a code"):
        PBDNClassifier(map_config=config).fit(frame, y)


def test_who_asks_for_a_number_gets_its_size(taught):
    frame, y, _, _ = taught
    X = TablePreparation(numeric_features=["school"]).fit_transform(frame, y)
    assert X.shape[1] == 4


@pytest.mark.parametrize("what", ["threshold", "band", "line", "wave", "nothing"])
def test_quantities_are_no_codes(rng, what):
    """Neighbours tell as much as a number itself, also where something ends, and where a curve is followed without noise."""
    size = rng.integers(200, size=2000)
    said = {
        "threshold": size > 83,
        "band": (size > 83) & (size <= 91),
        "line": 3.0 * size,
        "wave": np.sin(size / 10.0),
        "nothing": rng.integers(2, size=2000),
    }[what]
    columns = {"size": size.astype(float), "noise": rng.normal(size=2000)}
    told = {"numbers": said} if said.dtype.kind == "f" else {"labels": said}
    preparation = fit_preparation(Table(columns, 2000), **told)
    assert preparation.feature_names == ["size", "noise"]
