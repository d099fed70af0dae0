import ast

import numpy as np
import pytest

from networks import HOSTILE, SHAPES, labels_of, network_of, rows_with_extremes, tolerance_of
from pbdn.errors import InvalidInputError
from pbdn.export import to_python


def run(source):
    namespace = {}
    exec(compile(source, "exported", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("shape", SHAPES)
def test_same_probabilities(rng, shape):
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


def test_hostile_names_stay_strings(rng):
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
