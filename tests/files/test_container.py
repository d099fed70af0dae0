import hashlib
import os
import struct

import numpy as np
import pytest

from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.files import MAX_HEADER, container_bytes, read_container, write_container

ARRAYS = {
    "f8": np.array([[1.5, np.nan], [np.inf, -0.0]]),
    "strided": np.arange(12.0).reshape(3, 4)[:, ::2],
    "fortran": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "big_endian": np.arange(3, dtype=">i4"),
    "empty": np.empty((0, 5)),
    "scalar": np.array(7, dtype=np.uint64),
    "flags": np.array([True, False]),
}


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
