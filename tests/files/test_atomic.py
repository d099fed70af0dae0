import errno
import os
import stat
import subprocess
import sys

import pytest

from pbdn.files import atomic_write, write_container


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
