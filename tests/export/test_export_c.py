import shutil
import subprocess

import numpy as np
import pytest

from networks import HOSTILE, SHAPES, labels_of, network_of, rows_with_extremes, tolerance_of
from pbdn.errors import InvalidInputError
from pbdn.export import to_c

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler found (cc, gcc or clang)")

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


@pytest.mark.parametrize("shape", SHAPES)
def test_same_probabilities(rng, tmp_path, shape):
    network = network_of(shape, rng)
    rows = rows_with_extremes(rng, 2000)
    table = score(build(tmp_path, to_c(network, labels_of(network), name="net"), SCORE), rows)
    ours = network.predict(rows)
    np.testing.assert_allclose(table[:, :-1], ours, rtol=0, atol=tolerance_of(network))
    ordered = np.sort(ours, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 1e-9
    np.testing.assert_array_equal(table[clear, -1], ours[clear].argmax(axis=1))


def test_hostile_names_stay_strings(rng, tmp_path):
    network = network_of("pair", rng, len(HOSTILE))
    header = to_c(network, HOSTILE[2:4], HOSTILE, name="net")
    program = build(tmp_path, header, NAMES)
    names = subprocess.run([program], capture_output=True, check=True).stdout.decode().split("\1")
    assert names == [*HOSTILE, *HOSTILE[2:4], ""]


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


def test_wrong_name(rng):
    with pytest.raises(InvalidInputError, match="name a function"):
        to_c(network_of("pair", rng), [0, 1], name="a; int x")
