import math

import numpy as np
import pytest

from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.files import from_json, pack_strings, to_json, unpack_strings

LABELS = [
    np.array(["no", "yes"]),
    np.array(["a", "b"], dtype="<U9"),
    np.array(["é\ud800\x00<script>", '"$array"\\']),
    np.array(["x", 3, 2.5, True, None], dtype=object),
    np.array([0, 1]),
    np.array([-5, 7], dtype=np.int8),
    np.array([2**64 - 1, 0], dtype=np.uint64),
    np.array([False, True]),
    np.array([0.1, math.inf, -math.inf, -0.0]),
    np.array([0.1, 2.0], dtype=np.float32),
    np.array([["2024-02-29", "NaT"]], dtype="M8[D]"),
    np.array([], dtype="<U1"),
    np.array([1, 2], dtype=">i4"),
    np.array(3.5),
]


@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: labels.dtype.str)
def test_labels_come_back_with_their_type(labels):
    loaded = from_json(to_json({"classes": labels}))["classes"]
    assert loaded.dtype == labels.dtype.newbyteorder("<")
    assert loaded.shape == labels.shape
    np.testing.assert_array_equal(loaded, labels)
    if labels.dtype == object:
        assert [type(x) for x in loaded] == [type(x) for x in labels]


def test_plain_values():
    value = {
        "none": None,
        "flag": True,
        "big": 2**200,
        "text": "\ud800\u2028</script>",
        "list": [1, 1.0, "1", [], {}],
        "tuple": (1, (2.5, None)),
        "small": 5e-324,
        "inf": [math.inf, -math.inf],
    }
    loaded = from_json(to_json(value))
    assert loaded == value
    assert [type(x) for x in loaded["list"]] == [int, float, str, list, dict]
    assert math.isnan(from_json(to_json([math.nan]))[0])


def test_numpy_scalars_become_python_scalars():
    loaded = from_json(to_json([np.float32(0.1), np.int16(3), np.bool_(True), np.str_("a"), np.float64("nan")]))
    assert [type(x) for x in loaded] == [float, int, bool, str, float]
    assert loaded[0] == float(np.float32(0.1))


def test_equal_values_give_equal_bytes():
    assert to_json({"a": 1, "b": (2,)}) == to_json({"b": (2,), "a": np.int8(1)})
    assert to_json({"a": 1}) != to_json({"a": 1.0})


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        {1: 2},
        {"$float": "nan"},
        {"a": object()},
        {"a": {1, 2}},
        {"a": b"bytes"},
        {"a": np.longdouble(1)},
        {"a": np.array([1 + 2j])},
        {"a": np.array([object()])},
        {"a": 10**5000},
        {"a": nested(100_000)},
        {"a": np.array(["x" * 10_000, *([""] * 10_000)])},
    ],
    ids=lambda value: str(type(next(iter(value.values()))).__name__),
)
def test_what_cannot_be_stored_is_refused(value):
    with pytest.raises(InvalidInputError, match="cannot be stored"):
        to_json(value)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"{",
        b"NaN",
        b'{"a":1,"a":2}',
        b'{"$float":"1.0"}',
        b'{"$float":["nan"]}',
        b'{"$float":"nan","b":1}',
        b'{"$code":"import os"}',
        b'{"$tuple":1}',
        b'{"$array":["<i8",[2],[1]]}',
        b'{"$array":["<i8",[1],[true]]}',
        b'{"$array":["<i8",[1],[9223372036854775808]]}',
        b'{"$array":["|i1",[1],[300]]}',
        b'{"$array":["<U1",[1],["ab"]]}',
        b'{"$array":["<f8",[1],["1.0"]]}',
        b'{"$array":["<U9999999",[2],["a","b"]]}',
        b'{"$array":["O,O",[1],[1]]}',
        b'{"$array":["|O",[1],[{"a":1}]]}',
        b'{"$array":["<i8",[-1,-1],[1]]}',
        b'{"$array":["<i8",[0,99999999999999999999],[]]}',
        b"[" * 200_000,
        b"9" * 10_000,
    ],
    ids=lambda text: text[:40].decode("latin-1"),
)
def test_foreign_text_is_refused(text):
    with pytest.raises(FileFormatError):
        from_json(text)


def test_strings_in_an_array():
    names = ["", "a\x00b", "\ud800", "é😀", "x" * 100_000]
    assert unpack_strings(pack_strings(names)) == names
    for wrong in (np.zeros(2), np.zeros((1, 1), np.uint8), np.frombuffer(b"[1]", np.uint8)):
        with pytest.raises(FileFormatError):
            unpack_strings(wrong)
