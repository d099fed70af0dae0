"""Exports of numbers, times and grades agree with the estimators, in every language, on raw rows too."""

import subprocess
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from test_export_code import build, run
from test_export_sql import ENGINES

from networks import COMPILER, needs_compiler, random_committee, random_curve, random_network, random_tails
from pbdn import PBDNCountRegressor
from pbdn.errors import InvalidInputError
from pbdn.export import to_c, to_onnx, to_python, to_sql
from pbdn.export.plan import LEVELS, Several
from pbdn.model.distribution import Distribution, DistributionOfFirst, DistributionWithZero
from pbdn.model.network import Layer, Network, Side
from pbdn.model.timed import OnALine, side_arrays

CLOSE = 1e-8  # of the spread of the values
ABOVE = (-3.0, 12.5, 20.0)
NUMBERS = {
    "one layer": OnALine(10.0, 3.0),
    "deep": OnALine(-5.0, 0.01),
    "logarithms": OnALine(1.0, 0.5, log=True, reach=2.0),
    "curved committee": OnALine(1.0, 2.0),
    "counts": OnALine(1.5, 0.8, log=True, reach=4.0),
    "sides that disagree": OnALine(10.0, 3.0),
}
TOGETHER = ["amounts", "amounts of two kinds", "causes", "causes of which one disagrees"]
GRADES = OnALine(cuts=(-0.5, 0.1, 1.2))
NAMES = ["key", "x0", "x1", "x2", "x3"]


def line_network(rng, shape, response):
    """A random network whose experts have time coefficients."""
    experts = {"one layer": ((3, 2),), "deep": ((3, 2), (2, 3), (2, 2))}.get(shape, ((2, 3), (2, 2)))

    def timed(network):
        def side(one):
            return replace(one, time_coefs=rng.gamma(3.0, 0.5, size=one.n_experts))

        layers = tuple(Layer(tuple(side(one) for one in layer.sides)) for layer in network.layers)
        return replace(network, layers=layers, response=response)

    if shape == "sides that disagree":
        return two_groups(100.0 + 10.0 * rng.normal(size=(2, 4)), NUMBERS[shape])
    if shape == "curved committee":
        network, _ = random_committee(rng, [experts] * 3, curve=random_curve(rng, 4, 3), total_spread=1.0)
        return replace(timed(network), tails=random_tails(rng, 4, 2))
    return timed(random_network(rng, experts, total_spread=2.0))


def two_groups(planes, response):
    """Half of the values are where one side says, and half where the other does; nothing lies between."""
    steep = np.array([300.0]), np.array([500.0])
    sides = (Side(np.append(300.0, w)[None], np.ones(1), tau) for w, tau in zip(planes, steep, strict=True))
    return Network((Layer(tuple(sides)),), planes.shape[1], response)


def distribution(network, rows):
    return Distribution(side_arrays(network.top, network.top_inputs(rows)), network.response)


def expected(network, rows):
    """Mean, quantiles and probabilities of more, side by side."""
    d = distribution(network, rows)
    if network.response is NUMBERS["counts"]:
        model = PBDNCountRegressor()
        model.network_, model.n_features_in_, model.config_ = network, 4, SimpleNamespace(prediction="point")
        more = 1.0 - model.predict_probability(rows, range(21)).cumsum(axis=1)
        return np.column_stack(
            [model.predict(rows), model.predict_quantiles(rows), np.ones(len(rows)), more[:, [12, 20]]]
        )
    return np.column_stack([d.mean(), d.ppf(np.array(LEVELS)[:, None]).T, d.sf(np.array(ABOVE)[:, None]).T])


def compare(theirs, network, rows, close=CLOSE):
    """The same numbers, in the spread of their column."""
    ours, theirs, n = expected(network, rows), np.asarray(theirs, dtype=float), 1 + len(LEVELS)
    assert np.isfinite(ours).all()
    wrong = np.abs(theirs - ours)
    wrong[:, :n] /= np.maximum(np.abs(ours[:, :n]).max(axis=0), 1e-300)
    assert wrong.max() <= close


def grades_of(network, rows):
    below = distribution(network, rows).cdf(np.array(network.response.cuts)[:, None]).T
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


@pytest.mark.parametrize("shape", NUMBERS)
def test_python(rng, shape):
    network = line_network(rng, shape, NUMBERS[shape])
    rows = rng.normal(size=(20, 4))
    module = run(to_python(network, [], counts=shape == "counts"))
    found = [
        [module["predict"](row), *(module["quantile"](row, q) for q in LEVELS)]
        + [module["probability_above"](row, y) for y in ABOVE]
        for row in rows
    ]
    compare(found, network, rows)
    assert module["quantile"](rows[0], 1.0) == np.inf
    assert module["quantile"](rows[0], 0.0) == (0.0 if network.response.log else -np.inf)


SCORE = """
#include <stdio.h>
#include "model.h"
int main(void)
{
    double x[NET_N_FEATURES];
    const double levels[] = {0.05, 0.5, 0.95}, above[] = {-3.0, 12.5, 20.0};
    for (;;) {
        for (int i = 0; i < NET_N_FEATURES; ++i)
            if (scanf("%lf", &x[i]) != 1) return 0;
        printf("%.17g ", net_predict(x));
        for (int j = 0; j < 3; ++j) printf("%.17g ", net_quantile(x, levels[j]));
        for (int j = 0; j < 3; ++j) printf("%.17g ", net_probability_above(x, above[j]));
        printf("\\n");
    }
}
"""


def scored(program, rows):
    text = "\n".join(" ".join(map(repr, row)) for row in rows.tolist())
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return np.array([line.split() for line in done.stdout.splitlines()], dtype=float)


@needs_compiler
@pytest.mark.parametrize("shape", NUMBERS)
def test_c(rng, tmp_path, shape):
    network = line_network(rng, shape, NUMBERS[shape])
    rows = rng.normal(size=(100, 4))
    compare(
        scored(build(tmp_path, to_c(network, [], name="net", counts=shape == "counts"), SCORE), rows), network, rows
    )


def in_onnx(data, rows):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, {"features": rows}), strict=True))


@pytest.mark.parametrize(("arithmetic", "close"), [(np.float64, CLOSE), (np.float32, 1e-3)])
@pytest.mark.parametrize("shape", NUMBERS)
def test_onnx(rng, shape, arithmetic, close):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    network = line_network(rng, shape, NUMBERS[shape])
    rows = rng.normal(size=(100, 4))
    found = in_onnx(
        to_onnx(network, [], dtype=np.float64, arithmetic=arithmetic, above=ABOVE, counts=shape == "counts"), rows
    )
    assert found["activations"].shape == (100, sum(network.n_units))
    compare(np.column_stack([found["mean"], found["quantiles"], found["probability_above"]]), network, rows, close)


@pytest.mark.parametrize(("engine", "dialect"), [("sqlite", "sqlite"), ("duckdb", "duckdb"), ("duckdb", "generic")])
@pytest.mark.parametrize("shape", NUMBERS)
def test_sql(rng, shape, engine, dialect):
    network = line_network(rng, shape, NUMBERS[shape])
    rows = rng.normal(size=(20, 4))
    statement = to_sql(network, [], NAMES[1:], dialect, keep=["key"], above=ABOVE, counts=shape == "counts")
    table = [(i, *row) for i, row in enumerate(rows.tolist())]
    names, answer = ENGINES[engine](statement, NAMES, [*table, (20, None, 0.0, 0.0, 0.0)])
    assert names[:3] == ["key", "mean", "quantile_0.05"]
    assert names[-1] == "probability_above_20"
    assert [row[0] for row in answer] == list(range(21))
    assert all(value is None for value in answer[-1][1:])
    compare([row[1:] for row in answer[:-1]], network, rows)


@pytest.mark.parametrize("shape", NUMBERS)
def test_unusual_rows(rng, shape, tmp_path):
    """There the two sides say very different things, and no value between them is probable. Means stay within reach."""
    network, rows = line_network(rng, shape, NUMBERS[shape]), 1e3 * rng.normal(size=(20, 4))
    counts = {"counts": shape == "counts"}

    def of_both(found):
        """Means and medians."""
        return np.clip(np.asarray(found, dtype=float)[:, [0, 2]], -1e200, 1e200)

    ours = of_both(expected(network, rows))
    if network.response.log:
        assert np.all(ours[:, 0] <= max(network.response.from_line(network.response.reach), 100.0))
    module = run(to_python(network, [], **counts))
    theirs = {"python": [[module["predict"](row), 0.0, module["quantile"](row)] for row in rows]}
    statement = to_sql(network, [], NAMES[1:], "sqlite", keep=["key"], **counts)
    table = [(i, *row) for i, row in enumerate(rows.tolist())]
    theirs["sqlite"] = [row[1:] for row in ENGINES["sqlite"](statement, NAMES, table)[1]]
    if find_spec("onnx") and find_spec("onnxruntime"):
        found = in_onnx(to_onnx(network, [], dtype=np.float64, **counts), rows)
        theirs["onnx"] = np.column_stack([found["mean"], found["quantiles"]])
    if COMPILER:
        theirs["c"] = scored(build(tmp_path, to_c(network, [], name="net", **counts), SCORE), rows)
    for found in theirs.values():
        np.testing.assert_allclose(of_both(found), ours, rtol=1e-6, atol=1e-9 * max(1.0, np.median(np.abs(ours))))


def test_postgresql(rng, postgres):
    network = line_network(rng, "logarithms", NUMBERS["logarithms"])
    rows = rng.normal(size=(5, 4))
    values = ", ".join(str((i, *row)) for i, row in enumerate(rows.tolist()))
    create = "CREATE TEMP TABLE data (key int, x0 float8, x1 float8, x2 float8, x3 float8);"
    statement = to_sql(network, [], NAMES[1:], "postgresql", keep=["key"], above=ABOVE)
    answer = postgres(f"{create} INSERT INTO data VALUES {values};\n{statement};")
    compare([row[1:] for row in sorted(answer)], network, rows)


TIMES = np.array([0.5, 3.0])


def several(rng, kind):
    """Networks that predict together, rows, and what they say of them."""
    rows = rng.normal(size=(20, 4))
    first = line_network(rng, "deep", OnALine(1.0, 0.5, log=True, reach=2.0))
    levels = np.array(LEVELS)[:, None]
    if kind.startswith("amounts"):
        either = random_network(rng, ((3, 2),))
        if kind == "amounts of two kinds":  # and never zero: the median lies in the gap between them
            planes = np.ones((2, 1, 5))
            planes[:, 0, 0] = -60.0, 60.0
            either = Network((Layer(tuple(Side(of_side, np.ones(1)) for of_side in planes)),), 4, either.response)
            first = two_groups(10.0 * rng.normal(size=(2, 4)), OnALine(0.0, 0.5, log=True, reach=2.0))
        whole = DistributionWithZero(distribution(first, rows), either.predict(rows)[:, 0])
        together, more = Several((either, first)), []
    else:
        second = line_network(rng, "curved committee", OnALine(0.5, 0.7, log=True, reach=3.0))
        if kind == "causes of which one disagrees":  # long before anything else: survival is ½ over a gap
            first = two_groups(10.0 * rng.normal(size=(2, 4)), OnALine(0.0, 0.5, log=True, reach=2.0))
            second = replace(second, response=OnALine(50.0, 0.7, log=True, reach=3.0))
        whole = DistributionOfFirst([distribution(first, rows), distribution(second, rows)])
        together = Several.of_causes((first, second), ("1", "2"))
        more = [whole.incidence(TIMES).reshape(20, -1)]
    return together, rows, np.column_stack([whole.mean(), whole.ppf(levels).T, whole.sf(TIMES[:, None]).T, *more])


def close_together(theirs, ours):
    theirs = np.asarray(theirs, dtype=float)
    assert np.abs((theirs - ours) / np.maximum(np.abs(ours).max(axis=0), 1e-6)).max() <= CLOSE


@pytest.mark.parametrize("kind", TOGETHER)
def test_several_in_python(rng, kind):
    together, rows, ours = several(rng, kind)
    module = run(to_python(together, []))
    found = [
        [module["predict"](row), *(module["quantile"](row, q) for q in LEVELS)]
        + [module["probability_above"](row, t) for t in TIMES]
        + (
            np.array([module["cumulative_incidence"](row, t) for t in TIMES]).T.ravel().tolist()
            if kind.startswith("causes")
            else []
        )
        for row in rows[:6]
    ]
    close_together(found, ours[:6])
    assert module["probability_above"](rows[0], -1.0) == 1.0
    assert module["quantile"](rows[0], 0.0) == 0.0
    assert module["quantile"](rows[0], 1.0) == np.inf


SCORE_SEVERAL = """
#include <stdio.h>
#include "model.h"
int main(void)
{
    double x[NET_N_FEATURES], p[2][2] = {{0.0, 0.0}, {0.0, 0.0}};
    const double levels[] = {0.05, 0.5, 0.95}, above[] = {0.5, 3.0};
    for (;;) {
        for (int i = 0; i < NET_N_FEATURES; ++i)
            if (scanf("%lf", &x[i]) != 1) return p[0][0] > 2.0;
        printf("%.17g ", net_predict(x));
        for (int j = 0; j < 3; ++j) printf("%.17g ", net_quantile(x, levels[j]));
        for (int j = 0; j < 2; ++j) printf("%.17g ", net_probability_above(x, above[j]));
#ifdef NET_N_CAUSES
        for (int j = 0; j < 2; ++j) net_cumulative_incidence(x, above[j], p[j]);
        printf("%.17g %.17g %.17g %.17g", p[0][0], p[1][0], p[0][1], p[1][1]);
#endif
        printf("\\n");
    }
}
"""


@needs_compiler
@pytest.mark.parametrize("kind", TOGETHER)
def test_several_in_c(rng, tmp_path, kind):
    together, rows, ours = several(rng, kind)
    close_together(scored(build(tmp_path, to_c(together, [], name="net"), SCORE_SEVERAL), rows), ours)


def test_an_onnx_file_of_numbers_stays_small(rng):
    """A search is one step that is repeated, not so many copies of it."""
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    data = to_onnx(line_network(rng, "deep", NUMBERS["deep"]), [], above=ABOVE)
    assert len(data) < 40_000
    kinds = [node.op_type for node in onnx.load_model_from_string(data).graph.node]
    assert kinds.count("Loop") == 2  # quantiles, and the median


@pytest.mark.parametrize("kind", TOGETHER)
def test_several_in_onnx(rng, kind):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    together, rows, ours = several(rng, kind)
    found = in_onnx(to_onnx(together, [], dtype=np.float64, above=TIMES), rows)
    parts = [found["mean"], found["quantiles"], found["probability_above"]]
    if kind.startswith("causes"):
        parts.append(found["incidence"].reshape(20, -1))
    close_together(np.column_stack(parts), ours)
    assert found["activations"].shape == (20, sum(sum(one.n_units) for one in together.networks))


@pytest.mark.parametrize(("engine", "dialect"), [("sqlite", "sqlite"), ("duckdb", "duckdb"), ("duckdb", "generic")])
@pytest.mark.parametrize("kind", TOGETHER)
def test_several_in_sql(rng, kind, engine, dialect):
    together, rows, ours = several(rng, kind)
    statement = to_sql(together, [], NAMES[1:], dialect, keep=["key"], above=TIMES)
    table = [(i, *row) for i, row in enumerate(rows.tolist())]
    names, answer = ENGINES[engine](statement, NAMES, [*table, (20, None, 0.0, 0.0, 0.0)])
    assert names[:2] == ["key", "mean"]
    assert names[-1] == ("probability_above_3" if kind.startswith("amounts") else "incidence_2_3")
    assert [row[0] for row in answer] == list(range(21))
    assert all(value is None for value in answer[-1][1:])
    close_together([row[1:] for row in answer[:-1]], ours)


@pytest.mark.parametrize("kind", TOGETHER)
def test_several_in_postgresql(rng, postgres, kind):
    together, rows, ours = several(rng, kind)
    values = ", ".join(str((i, *row)) for i, row in enumerate(rows[:5].tolist()))
    create = "CREATE TEMP TABLE data (key int, x0 float8, x1 float8, x2 float8, x3 float8);"
    statement = to_sql(together, [], NAMES[1:], "postgresql", keep=["key"], above=TIMES)
    answer = postgres(f"{create} INSERT INTO data VALUES {values};\n{statement};")
    close_together([row[1:] for row in sorted(answer)], ours[:5])


def test_grades(rng, tmp_path):
    """Probabilities of grades, by the same functions as those of classes."""
    network = line_network(rng, "deep", GRADES)
    labels, rows = ["poor", "fair", "good", "best"], rng.normal(size=(50, 4))
    ours = grades_of(network, rows)
    module = run(to_python(network, labels))
    np.testing.assert_allclose([module["predict_proba"](row) for row in rows], ours, atol=1e-12)
    statement = to_sql(network, labels, NAMES[1:], "sqlite", keep=["key"])
    names, answer = ENGINES["sqlite"](statement, NAMES, [(i, *row) for i, row in enumerate(rows.tolist())])
    assert names[1:] == [*(f"probability_{label}" for label in labels), "label"]
    np.testing.assert_allclose([row[1:-1] for row in answer], ours, atol=1e-12)
    assert [row[-1] for row in answer] == [labels[best] for best in ours.argmax(axis=1)]
    if COMPILER is not None:
        program = """
#include <stdio.h>
#include "model.h"
int main(void)
{
    double x[4], p[NET_N_CLASSES];
    while (scanf("%lf %lf %lf %lf", x, x + 1, x + 2, x + 3) == 4) {
        net_predict_proba(x, p);
        printf("%.17g %.17g %.17g %.17g\\n", p[0], p[1], p[2], p[3]);
    }
    return net_predict(x) > 3;
}
"""
        header = to_c(network, labels, name="net")
        np.testing.assert_allclose(scored(build(tmp_path, header, program), rows), ours, atol=1e-12)
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    found = in_onnx(to_onnx(network, labels, dtype=np.float64), rows)
    np.testing.assert_allclose(found["probabilities"], ours, atol=1e-12)
    assert found["label"].tolist() == [labels[best] for best in ours.argmax(axis=1)]


def test_wrong_arguments(rng):
    network = line_network(rng, "one layer", GRADES)
    with pytest.raises(InvalidInputError, match=r"4 grade\(s\)"):
        to_python(network, ["a", "b"])
    with pytest.raises(InvalidInputError, match="strictly between 0 and 1"):
        to_sql(line_network(rng, "one layer", NUMBERS["one layer"]), [], quantiles=(0.0,))


def test_values_that_are_too_large_to_write_are_infinite(rng):
    """A line of logarithms, far out: exp of a thousand."""
    network = line_network(rng, "one layer", OnALine(1000.0, 0.5, log=True, reach=2000.0))
    for one in (network, Several.of_causes((network, network), ("1", "2"))):
        space = {}
        exec(to_python(one, [], NAMES[1:]), space)
        assert space["quantile"]([0.0] * 4, 0.5) == np.inf
