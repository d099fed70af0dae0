"""Files are written whole or not at all, and damaged or hostile ones are refused."""

import errno
import hashlib
import os
import stat
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from networks import random_committee, random_curve, random_network
from pbdn.errors import FileFormatError
from pbdn.files import (
    atomic_write,
    container_bytes,
    network_from_arrays,
    network_to_arrays,
    read_container,
    write_container,
)

SLACK = 1 << 21  # bytes that a refusal may take whatever the size of the file (parsed header, messages)


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "model.pbdn"
    path.write_bytes(b"old")
    return path


def only_old(target):
    return os.listdir(target.parent) == [target.name] and target.read_bytes() == b"old"


def test_replaces_the_file(target):
    atomic_write(target, b"new")
    assert target.read_bytes() == b"new"
    assert os.listdir(target.parent) == [target.name]


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_failure_leaves_the_old_file_alone(target, monkeypatch, function, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(type(error)) as caught:
        write_container(target, {"kind": "model"}, {})
    assert only_old(target)
    if isinstance(error, OSError):
        assert caught.value.errno == errno.ENOSPC
        assert "No space left" in str(caught.value)


def test_an_unwritable_header_touches_nothing(target):
    with pytest.raises(ValueError, match="cannot be stored"):
        write_container(target, {"kind": object()}, {})
    assert only_old(target)


def test_a_real_short_write(target):
    """The system refuses bytes beyond 4096: the write fails half-way."""
    pytest.importorskip("resource", reason="file size limits exist on POSIX only")
    script = (
        "import resource, signal, sys\n"
        "from pbdn.files import atomic_write\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n    atomic_write(sys.argv[1], bytes(100_000))\n"
        "except OSError as error:\n    print(error.errno)\n"
    )
    done = subprocess.run([sys.executable, "-B", "-c", script, str(target)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(errno.EFBIG)
    assert only_old(target)


def test_killed_while_writing(target):
    """SIGKILL just before the rename: the old file is whole."""
    script = (
        "import os, signal, sys\n"
        "from pbdn.files import atomic_write\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "atomic_write(sys.argv[1], bytes(100_000))\n"
    )
    done = subprocess.run([sys.executable, "-B", "-c", script, str(target)], check=False)
    assert done.returncode == -9
    assert target.read_bytes() == b"old"
    atomic_write(target, b"new")
    assert target.read_bytes() == b"new"


def test_missing_folder_and_folder_as_target(tmp_path):
    with pytest.raises(FileNotFoundError, match="Cannot write"):
        atomic_write(tmp_path / "no" / "model.pbdn", b"")
    with pytest.raises(IsADirectoryError, match="folder"):
        atomic_write(tmp_path, b"")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="POSIX modes, links and devices")
def test_modes_links_and_devices(tmp_path):
    before = os.umask(0o027)
    try:
        atomic_write(tmp_path / "real", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640
    (tmp_path / "real").chmod(0o600)
    (tmp_path / "link").symlink_to("real")
    atomic_write(tmp_path / "link", b"2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"2"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o600  # a private model stays private
    atomic_write("/dev/null", b"3")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


# Damaged and hostile files: one error type, bounded memory, no changed byte accepted.


def a_model(rng, bent=False):
    """A network with draws, or a curved committee whose zeros are not stored."""
    if bent:
        network, _ = random_committee(rng, [((2, 1), (2, 1), (1, 2))] * 5, curve=random_curve(rng, 4, 3))
    part, arrays = network_to_arrays(network if bent else random_network(rng, n_draws=3))
    header = {"kind": "model", "network": part, "classes": np.array(["no", "yes"]), "scale": float("nan")}
    return container_bytes(header, arrays)


def mutant(rng, data):
    """A copy of ``data`` with one to three random injuries."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, len(changed) + 1)) if rng.random() < 0.6 else int(rng.integers(0, 200))
        at = min(at, len(changed))
        length = int(rng.integers(1, 40))
        match rng.integers(0, 8):
            case 0:
                del changed[at:]
            case 1:
                if at < len(changed):
                    changed[at] ^= 1 << int(rng.integers(0, 8))
            case 2:
                changed[at : at + length] = rng.bytes(length)
            case 3:
                changed[at:at] = rng.bytes(length)
            case 4:
                del changed[at : at + length]
            case 5:  # huge or odd numbers where lengths are declared
                field = int(rng.choice([8, 12, 16, 20, 24]))
                changed[field : field + 4] = int(rng.choice([0, 1, 2**31, 2**32 - 1])).to_bytes(4, "little")
            case 6:
                changed[at:at] = changed[at : at + length]
            case 7:  # other digits: sizes, shapes and offsets in the two headers
                digits = [i for i in range(min(len(changed), 2000)) if 48 <= changed[i] < 58]
                if digits:
                    place = int(rng.choice(digits))
                    changed[place : place + 1] = rng.choice([b"0", b"9", b"-1", b"99999999999999999999", b"1e9"])
    return bytes(changed)


def peak_and_outcome(path):
    tracemalloc.start()
    try:
        header, arrays = read_container(path, kind="model")
        network_from_arrays(header.get("network"), arrays)
        outcome = "accepted"
    except FileFormatError as error:
        outcome = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, outcome


def check(rng, path, n_mutants):
    original = a_model(rng)
    path.write_bytes(original)
    assert peak_and_outcome(path)[1] == "accepted"
    tried = 0
    while tried < n_mutants:
        data = mutant(rng, original)
        if data == original:
            continue
        tried += 1
        path.write_bytes(data)
        peak, outcome = peak_and_outcome(path)
        assert outcome != "accepted"
        assert "damaged" in outcome or "not a pbdn file" in outcome or "empty" in outcome or "short" in outcome
        assert peak <= 4 * len(data) + SLACK


def test_mutants(rng, tmp_path):
    check(rng, tmp_path / "model.pbdn", 1000)


@pytest.mark.statistical
def test_many_mutants(rng, tmp_path):
    check(rng, tmp_path / "model.pbdn", 10_000)


def resealed(data):
    """Repair lengths and checksum, as an attacker would, so that the parsers behind them are reached."""
    body = bytearray(data[:-32])
    if len(body) >= 24:
        header_length = min(int.from_bytes(body[12:16], "little"), len(body) - 24)
        body[12:16] = header_length.to_bytes(4, "little")
        body[16:24] = (len(body) - 24 - header_length).to_bytes(8, "little")
    return bytes(body) + hashlib.sha256(body).digest()


@pytest.mark.parametrize("bent", [False, True])
def test_resealed_mutants_give_a_network_or_the_same_error(rng, tmp_path, bent):
    path = tmp_path / "model.pbdn"
    original = a_model(rng, bent)
    outcomes = []
    for _ in range(600 if bent else 900):
        data = resealed(mutant(rng, original))
        path.write_bytes(data)
        peak, outcome = peak_and_outcome(path)
        outcomes.append(outcome)
        assert peak <= 4 * len(data) + SLACK
    text = " ".join(outcomes)  # the mutants got through to each of the inner checks
    for part in ("malformed header", "malformed arrays", "does not hold a usable network", "accepted"):
        assert part in text
