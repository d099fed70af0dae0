"""Containers: what goes in comes out, and nothing else gets in."""

import hashlib
import math
import os
import struct

import numpy as np
import pytest

from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.files import (
    MAX_HEADER,
    container_bytes,
    from_json,
    pack_strings,
    read_container,
    to_json,
    unpack_strings,
    write_container,
)

ARRAYS = {
    "f8": np.array([[1.5, np.nan], [np.inf, -0.0]]),
    "strided": np.arange(12.0).reshape(3, 4)[:, ::2],
    "fortran": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "big_endian": np.arange(3, dtype=">i4"),
    "empty": np.empty((0, 5)),
    "scalar": np.array(7, dtype=np.uint64),
    "flags": np.array([True, False]),
}
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


def sealed(prefix_and_body):
    return prefix_and_body + hashlib.sha256(prefix_and_body).digest()


def assembled(header=b"{}", payload=b"\x02\0\0\0\0\0\0\0{}", version=1):
    return sealed(struct.pack("<8sIIQ", b"\x89PBDN\r\n\n", version, len(header), len(payload)) + header + payload)


def test_round_trip(tmp_path):
    path = tmp_path / "model.pbdn"
    header = {"kind": "model", "classes": np.array(["b", "a"]), "nan": float("nan"), "t": (1,)}
    write_container(path, header, ARRAYS)
    loaded, arrays = read_container(path, kind="model")
    assert loaded["t"] == (1,)
    assert loaded["classes"].tolist() == ["b", "a"]
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype.newbyteorder("<")
        assert arrays[name].shape == array.shape
        np.testing.assert_array_equal(arrays[name], array)
    assert np.signbit(arrays["f8"][1, 1])
    assert os.listdir(tmp_path) == ["model.pbdn"]


def test_equal_contents_give_equal_bytes():
    backwards = dict(reversed(ARRAYS.items()))
    assert container_bytes({"a": 1, "b": 2}, ARRAYS) == container_bytes({"b": 2, "a": 1}, backwards)
    assert container_bytes({}, ARRAYS) == container_bytes({}, {k: v.copy(order="F") for k, v in ARRAYS.items()})


def test_without_arrays(tmp_path):
    write_container(tmp_path / "a", {}, {})
    assert read_container(tmp_path / "a") == ({}, {})


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "is empty"),
        (b"\x89PBD", "cut short"),
        (b"\x89PBDN\r\n\n\x01", "damaged: it is cut short"),
        (b"x,y\n1,2\n" * 100, "not a pbdn file"),
        (b"\x89PBDN\n\n" + assembled()[8:], "not a pbdn file"),
        (assembled()[:-1], "other than it declares"),
        (assembled() + b"\0", "other than it declares"),
        (assembled()[:-1] + b"\0", "checksum"),
        (assembled(version=2), "newer version of pbdn.*upgrade pbdn"),
        (assembled(version=0), "no format version 0"),
        (assembled(header=b"[]"), "not an object"),
        (assembled(header=b'{"a":1,}'), "malformed header"),
        (assembled(header=b" " * (MAX_HEADER + 1)), "header is longer"),
        (assembled(payload=b""), "malformed arrays"),
        (assembled(payload=b"\xff" * 8), "list of arrays is too long"),
        (assembled(payload=b"\x04\0\0\0\0\0\0\0{}"), "malformed arrays"),
        (assembled(header=b'{"kind":"checkpoint"}'), "holds a 'checkpoint', not a 'model'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_say_why(tmp_path, contents, message):
    path = tmp_path / "model.pbdn"
    path.write_bytes(contents)
    with pytest.raises(FileFormatError, match=message) as caught:
        read_container(path, kind="model")
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith(".")


def test_huge_declared_sizes_allocate_nothing(tmp_path):
    path = tmp_path / "model.pbdn"
    path.write_bytes(struct.pack("<8sIIQ", b"\x89PBDN\r\n\n", 1, 2**32 - 1, 2**64 - 1) + bytes(100))
    with pytest.raises(FileFormatError, match="declares"):
        read_container(path)
    tensors = b'{"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,9223372036854775808]}}'
    path.write_bytes(assembled(payload=struct.pack("<Q", len(tensors)) + tensors))
    with pytest.raises(FileFormatError, match="malformed arrays"):
        read_container(path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Cannot read .*nothing"):
        read_container(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError, match="folder"):
        read_container(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission(tmp_path):
    path = tmp_path / "model.pbdn"
    write_container(path, {}, {})
    path.chmod(0)
    with pytest.raises(PermissionError, match="Cannot read"):
        read_container(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileFormatError, match="regular file"):
        read_container(tmp_path / "pipe")


def test_header_limit_and_bad_arrays():
    with pytest.raises(InvalidInputError, match="pack_strings"):
        container_bytes({"names": ["x" * 100] * 20_000}, {})
    for name, array in (("a", np.array(["text"])), ("", np.zeros(1)), ("a", np.zeros(1, complex))):
        with pytest.raises(InvalidInputError, match="cannot be stored"):
            container_bytes({}, {name: array})


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
