"""What all exports start from, and the exports to plain Python and to C."""

import ast
import shutil
import subprocess

import numpy as np
import pytest

from networks import (
    COMPILER,
    HOSTILE,
    SHAPES,
    labels_of,
    needs_compiler,
    network_of,
    random_committee,
    random_network,
    rows_with_extremes,
    tolerance_of,
)
from pbdn.errors import InvalidInputError
from pbdn.experimental.race import Race
from pbdn.export import to_c, to_python, to_sql
from pbdn.export.plan import plan, stretches


def run(source):
    namespace = {}
    exec(compile(source, "exported", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("shape", SHAPES)
def test_same_probabilities_in_python(rng, shape):
    network = network_of(shape, rng)
    rows = rows_with_extremes(rng, 1000)
    module = run(to_python(network, labels_of(network)))
    ours = network.predict(rows)
    theirs = np.array([module["predict_proba"](row) for row in rows])
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=tolerance_of(network))
    assert module["CLASSES"] == tuple(labels_of(network))


def test_only_math_is_imported(rng):
    tree = ast.parse(to_python(network_of("seven classes", rng), range(7)))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.module for node in imports] == ["math"]


def test_hostile_names_stay_strings_in_python(rng):
    network = network_of("pair", rng, len(HOSTILE))
    for classes in (HOSTILE[:2], HOSTILE[2:4], HOSTILE[4:6]):
        module = run(to_python(network, classes, HOSTILE))
        assert module["FEATURES"] == tuple(HOSTILE)
        assert module["CLASSES"] == tuple(classes)
        row = dict(zip(HOSTILE, rng.normal(size=len(HOSTILE)), strict=True))
        ours = network.predict(np.array([list(row.values())]))[0]
        np.testing.assert_allclose(module["predict_proba"](row), ours, rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [[0, 1], [False, True], [0.5, 2.0], ["a", "b"]])
def test_types_of_labels(rng, classes):
    stored = run(to_python(network_of("pair", rng), np.array(classes)))["CLASSES"]
    assert stored == tuple(classes)
    assert [type(label) for label in stored] == [type(label) for label in classes]


def test_wrong_arguments(rng):
    network = network_of("pair", rng)
    with pytest.raises(InvalidInputError, match=r"classes has 3 labels.*2 classes"):
        to_python(network, [1, 2, 3])
    with pytest.raises(InvalidInputError, match=r"3 names.*4 features"):
        to_python(network, [0, 1], ["a", "b", "c"])
    with pytest.raises(InvalidInputError, match="each once"):
        to_python(network, [0, 1], ["a", "a", "b", "c"])
    for name in ("", "1a", "a b", "import", "f()\nimport os\n"):
        with pytest.raises(InvalidInputError, match="name a function"):
            to_python(network, [0, 1], name=name)
    module = run(to_python(network, [0, 1], name="score"))
    with pytest.raises(ValueError, match="row has 3 values, 4 are needed"):
        module["score"]([1, 2, 3])


def test_layers_are_stacked_with_their_sources(rng):
    network = network_of("deep pair", rng)
    planned = plan(network, labels_of(network))
    assert [layer.sources for layer in planned.layers] == [(0,), (0, 1), (1, 2)]
    assert [layer.sides for layer in planned.layers] == [((0, 3), (3, 5)), ((0, 2), (2, 6)), ((0, 3), (3, 6))]
    assert planned.widths == (4, 5, 6, 6)
    assert planned.n_sides == 2
    assert planned.response == "two_classes"
    for ours, layer in zip(planned.layers, network.layers, strict=True):
        np.testing.assert_array_equal(ours.hyperplanes, np.vstack([side.hyperplanes for side in layer.sides]))
        np.testing.assert_array_equal(ours.expert_weights, np.hstack([side.expert_weights for side in layer.sides]))


def test_a_response_without_a_translation_is_refused(rng):
    network = random_network(rng, ((2, 1, 3),), response=Race(3))
    with pytest.raises(InvalidInputError, match="response 'race' cannot be exported; those that can are one_side, two"):
        plan(network, ["a", "b", "c"])


def test_squares_stand_after_the_features(rng):
    network = network_of("curved deep pair", rng)
    planned = plan(network, labels_of(network))
    assert planned.widths == (7, 5, 6, 6)
    columns, centers, scales = zip(*planned.bent, strict=True)
    assert list(columns) == network.curve.columns.tolist()
    assert list(centers) == network.curve.centers.tolist()
    assert list(scales) == network.curve.scales.tolist()
    assert not planned.has_ramps
    assert plan(network_of("ramped deep pair", rng), [0, 1]).has_ramps
    assert plan(network_of("pair", rng), [0, 1]).bent == []


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ([], []),
        ([0.0, 0.0], []),
        ([1.0, 0.0, 0.0, 2.0], [(0, 4)]),
        ([0.0, 3.0], [(1, 2)]),
        ([0.0] * 9 + [1.0, 2.0] + [0.0] * 5 + [3.0] + [0.0] * 7, [(9, 11), (16, 17)]),
    ],
)
def test_long_gaps_of_zeros_are_left_out(row, parts):
    assert stretches(np.array(row)) == parts


@pytest.mark.parametrize("export", [to_c, to_python, to_sql])
@pytest.mark.parametrize("depth", [2, 3])
def test_the_zeros_of_a_committee_are_not_written(rng, export, depth):
    one, members = random_committee(rng, [((4, 4),) * depth] * 5)
    alone = sum(len(export(member, [0, 1])) for member in members)
    assert len(export(one, [0, 1])) < 1.2 * alone


# The export to C: a header that a strict compiler takes.

SCORE = """
#include <stdio.h>
#include "model.h"
int main(void)
{
    double x[NET_N_FEATURES], p[NET_N_CLASSES];
    for (;;) {
        for (int i = 0; i < NET_N_FEATURES; ++i)
            if (scanf("%lf", &x[i]) != 1) return 0;
        net_predict_proba(x, p);
        for (int c = 0; c < NET_N_CLASSES; ++c) printf("%.17g ", p[c]);
        printf("%d\\n", net_predict(x));
    }
}
"""
NAMES = """
#include <stdio.h>
#include "model.h"
int main(void)
{
    for (int i = 0; i < NET_N_FEATURES; ++i) { fputs(net_features[i], stdout); putchar(1); }
    for (int c = 0; c < NET_N_CLASSES; ++c) { fputs(net_classes[c], stdout); putchar(1); }
    return 0;
}
"""


def build(folder, header, program, language="c"):
    (folder / "model.h").write_text(header, encoding="ascii")
    (folder / f"main.{language}").write_text(program)
    standard = "-std=c99" if language == "c" else "-std=c++11"
    strict = [
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-Wno-unused-function",
        "-Wno-unused-variable",
        "-Wno-overlength-strings",
    ]
    subprocess.run(
        [COMPILER, standard, "-O2", *strict, f"main.{language}", "-o", "main", "-lm"], cwd=folder, check=True
    )
    return folder / "main"


def score(program, rows):
    text = "\n".join(" ".join(map(repr, row)) for row in rows.tolist())
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return np.array([line.split() for line in done.stdout.splitlines()], dtype=float)


@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_same_probabilities_in_c(rng, tmp_path, shape):
    network = network_of(shape, rng)
    rows = rows_with_extremes(rng, 2000)
    table = score(build(tmp_path, to_c(network, labels_of(network), name="net"), SCORE), rows)
    ours = network.predict(rows)
    np.testing.assert_allclose(table[:, :-1], ours, rtol=0, atol=tolerance_of(network))
    ordered = np.sort(ours, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 1e-9
    np.testing.assert_array_equal(table[clear, -1], ours[clear].argmax(axis=1))


@needs_compiler
def test_hostile_names_stay_strings_in_c(rng, tmp_path):
    network = network_of("pair", rng, len(HOSTILE))
    header = to_c(network, HOSTILE[2:4], HOSTILE, name="net")
    program = build(tmp_path, header, NAMES)
    names = subprocess.run([program], capture_output=True, check=True).stdout.decode().split("\1")
    assert names == [*HOSTILE, *HOSTILE[2:4], ""]


@needs_compiler
def test_the_header_is_also_cpp(rng, tmp_path):
    network = network_of("three classes", rng)
    try:
        program = build(tmp_path, to_c(network, labels_of(network), name="net"), SCORE, "cpp")
    except subprocess.CalledProcessError:
        if shutil.which("g++") or shutil.which("clang++"):
            raise
        pytest.skip("no C++ compiler found")
    rows = rows_with_extremes(rng, 50)
    np.testing.assert_allclose(score(program, rows)[:, :-1], network.predict(rows), rtol=0, atol=1e-12)


def test_wrong_name_in_c(rng):
    with pytest.raises(InvalidInputError, match="name a function"):
        to_c(network_of("pair", rng), [0, 1], name="a; int x")
