"""Fetching against a server on this machine: verified, whole or not at all, clear where it cannot be done."""

import functools
import gzip
import hashlib
import http.server
import io
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from pbdn.datasets import DataUnavailableError, data_available, load_ida, loaders, sources
from pbdn.datasets.fetch import Source, fetch
from pbdn.errors import FileFormatError, MissingExtraError

pytest.importorskip("pooch", reason="pooch is not installed: pip install 'pbdn[datasets]'")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


class BreaksOff(QuietHandler):
    """Promises more bytes than it sends."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"half")


@contextmanager
def serve(folder, handler=QuietHandler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def source_of(url, *contents, **more):
    """A source of plain bytes, converted to one array per file."""
    joined = b"".join(contents)
    return Source(
        tuple(f"{url}/{i}" for i in range(len(contents))),
        hashlib.sha256(joined).hexdigest(),
        lambda parts: {f"part{i}": np.frombuffer(part, np.uint8) for i, part in enumerate(parts)},
        **more,
    )


def sends(content):
    """A downloader in pooch's convention that needs no server."""
    return lambda url, stream, _: stream.write(content)


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    for i, content in enumerate((b"first file", b"second")):
        (folder / str(i)).write_bytes(content)
    return folder


def test_verified_files_arrive_converted(home, tmp_path):
    target = tmp_path / "cache" / "set.npz"
    with serve(home) as url:
        fetch("set", source_of(url, b"first file", b"second"), target)
    with np.load(target, allow_pickle=False) as file:
        assert file["part0"].tobytes() == b"first file"
        assert file["part1"].tobytes() == b"second"
    assert [path.name for path in target.parent.iterdir()] == ["set.npz"]


def test_a_wrong_checksum_is_refused(home, tmp_path):
    target = tmp_path / "cache" / "set.npz"
    with (
        serve(home) as url,
        pytest.raises(FileFormatError, match=r"SHA-256 .* expected .* nothing was stored"),
    ):
        fetch("set", source_of(url, b"first file", b"tampered"), target)
    assert not target.parent.exists()


def test_a_broken_download_leaves_nothing(home, tmp_path):
    target = tmp_path / "cache" / "set.npz"
    with serve(home, BreaksOff) as url, pytest.raises(DataUnavailableError, match=r"set\.npz into .*cache"):
        fetch("set", source_of(url, b"half"), target)
    assert not target.parent.exists()


def test_a_missing_file_is_named(home, tmp_path):
    (home / "1").unlink()
    with serve(home) as url, pytest.raises(DataUnavailableError, match=r"/1 failed .*404"):
        fetch("set", source_of(url, b"first file", b"second"), tmp_path / "set.npz")


def test_a_failing_converter_leaves_nothing(home, tmp_path):
    def convert(parts):
        return {"bad": np.array([object()])}

    target = tmp_path / "cache" / "set.npz"
    source = Source(("memory:",), hashlib.sha256(b"x").hexdigest(), convert)
    with pytest.raises(ValueError, match="allow_pickle"):
        fetch("set", source, target, sends(b"x"))
    assert not target.parent.exists()


def test_packed_files_are_verified_unpacked(tmp_path):
    source = source_of("memory:", b"plain", gzipped=True)
    fetch("set", source, tmp_path / "set.npz", sends(gzip.compress(b"plain")))
    assert (tmp_path / "set.npz").is_file()
    with pytest.raises(FileFormatError, match="not a whole gzip file"):
        fetch("set", source, tmp_path / "no.npz", sends(gzip.compress(b"plain")[:-3]))


def test_an_oversized_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("pbdn.datasets.fetch.MAX_BYTES", 4)
    with pytest.raises(FileFormatError, match="larger than 4 bytes"):
        fetch("set", source_of("memory:", b"12345"), tmp_path / "set.npz", sends(b"12345"))
    packed = gzip.compress(b"")
    monkeypatch.setattr("pbdn.datasets.fetch.MAX_BYTES", len(gzip.compress(bytes(10_000))))
    with pytest.raises(FileFormatError, match="unpacks to over"):
        fetch(
            "set",
            source_of("m:", packed, gzipped=True),
            tmp_path / "set.npz",
            sends(gzip.compress(bytes(10_000))),
        )


def test_offline_says_which_file_to_put_where(empty_cache):
    def offline(url, stream, _):
        raise ConnectionError("no route")

    assert not data_available("banana")
    with pytest.raises(DataUnavailableError, match=r"Put the file ida_banana\.npz into .*cache.*PBDN_DATA"):
        loaders.read_arrays("banana", ("X",), offline)
    assert not empty_cache.exists()


def test_without_pooch_the_extra_is_named(empty_cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*pooch.*ida_banana\.npz"):
        load_ida("banana")


def test_a_set_without_a_verified_home_is_not_fetched(empty_cache):
    def never(url, stream, _):
        raise AssertionError(url)

    with pytest.raises(DataUnavailableError, match=r"no public home.*extra_spambase\.npz"):
        loaders.read_arrays("spambase", ("X",), never)


def test_a_set_is_fetched_once_and_then_cached(empty_cache, monkeypatch, tmp_path):
    """The converter for the IDA sets, on a small set in the forms of the public home, through the loader."""
    from scipy.io import savemat

    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((12, 2)), 3)
    X[5] = X[2]  # a duplicate row
    y = np.where(np.arange(12) % 2 == 0, 1.0, -1.0)
    y[5] = y[2]
    memory = io.BytesIO()
    savemat(memory, {"data": X, "target": y[:, None]})
    contents = [memory.getvalue()]
    orders = [rng.permutation(12) for _ in range(10)]
    for order in orders:
        for rows in (order[:5], order[5:]):
            for table in (X[rows], y[rows, None]):
                text = io.BytesIO()
                np.savetxt(text, table, fmt="%16.7e")
                contents.append(text.getvalue())
    asked = []

    def downloader(url, stream, _):
        asked.append(url)
        stream.write(contents[int(url)])

    digest = hashlib.sha256(b"".join(contents)).hexdigest()
    source = Source(tuple(str(i) for i in range(41)), digest, sources.ida_with_splits)
    monkeypatch.setitem(sources.SOURCES, "banana", source)
    loaders.read_arrays("banana", ("X",), downloader)
    data = load_ida("banana")
    assert len(asked) == 41
    np.testing.assert_array_equal(data.X, X)
    for k, order in enumerate(orders):
        X_train, y_train, X_test, y_test = data.split(k)
        np.testing.assert_array_equal(X_train, X[order[:5]])
        np.testing.assert_array_equal(X_test, X[order[5:]])
        np.testing.assert_array_equal(np.r_[y_train, y_test], y[order] > 0)
        assert len(set(data.train[k]) | set(data.test[k])) == 12


def test_a_foreign_row_in_a_split_is_refused():
    rows = sources._RowNumbers(np.eye(2), np.array([1, 0]))
    with pytest.raises(FileFormatError, match="does not hold"):
        rows.take(np.eye(2), np.array([1.0, 1.0]))


def test_every_source_has_distinct_https_addresses():
    for source in sources.SOURCES.values():
        assert len(set(source.urls)) == len(source.urls)
        assert all(url.startswith("https://") for url in source.urls)
        assert len(bytes.fromhex(source.sha256)) == 32
