"""A direct channel between the driver of a sweep and a process that holds rows, and what that process answers.

Dask places data and starts work; a message through its scheduler takes milliseconds, and a sweep has several. A channel is a
plain socket. Messages are a line of JSON and raw arrays, nothing that could be executed. Both ends prove that they know the
fit's key before anything else is read; the key travels through Dask. What is sent is not encrypted. Every wait ends: a lost
peer is noticed by the socket, by TCP's own probes, or by the caller's ``check``.
"""

import hmac
import json
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import numpy as np
from distributed import get_worker
from numpy.typing import NDArray

from pbdn.data.row_source import Block
from pbdn.errors import InvalidInputError
from pbdn.gibbs.kernel_arguments import Experts
from pbdn.gibbs.log_likelihood import SideRates, binary_log_likelihood, offset_sums
from pbdn.gibbs.rows import RowArrays, Rows
from pbdn.gibbs.sweep import RowsHere, Workers, single_blas_thread
from pbdn.gibbs.timed_responses import rows_at_scale
from pbdn.numerics.arrays import FloatArray
from pbdn.sgd.adam import Prior, layer_gradient
from pbdn.sgd.kernel_arguments import SideColumns, workspace
from pbdn.sgd.objective import as_labelled_rows

Result = list[NDArray[Any]]

HELLO_SECONDS = 30.0  # in which a peer has to come and prove itself
CHECK_SECONDS = 5.0  # between two looks at whether the peer can still answer
SEND_SECONDS = 120.0  # in which the peer, which is waiting for it, has to take a message
KINDS = ("<f8", "<i8", "|b1")  # of numbers that are sent
MOST_BYTES = 1 << 36
_LENGTHS = struct.Struct("<QQ")  # of the line of JSON, and of the arrays
_PROOF = 32


class LostError(ConnectionError):
    """The other end of a channel is gone."""


class Message(NamedTuple):
    """What came: a word, arrays and plain values."""

    word: str
    arrays: list[NDArray[Any]]
    values: dict[str, Any]


class Channel:
    """One end of a connection.

    Parameters
    ----------
    connection : socket
    check : callable or None
        Called every few seconds while waiting; raises where waiting is in vain.

    Attributes
    ----------
    n_sent, n_received : int
        Bytes.
    """

    def __init__(self, connection: socket.socket, check: Callable[[], None] | None = None) -> None:
        self._socket, self._check = connection, check
        self.n_sent = self.n_received = 0
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", 20),
            ("TCP_KEEPINTVL", 10),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 60_000),
        ):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    @classmethod
    def to(cls, host: str, port: int, key: bytes, check: Callable[[], None] | None = None) -> "Channel":
        """Connect to `listen`."""
        try:
            channel = cls(socket.create_connection((host, port), HELLO_SECONDS), check)
        except OSError as error:
            raise LostError(f"nobody answers at {host}:{port}") from error
        channel._prove(key, b"driver", b"holder")
        channel._socket.settimeout(CHECK_SECONDS if check is not None else None)
        return channel

    @classmethod
    def accept(cls, server: socket.socket, key: bytes) -> "Channel":
        """Wait for the driver to connect, once."""
        try:
            server.settimeout(HELLO_SECONDS)
            connection, _ = server.accept()
        except OSError as error:
            raise LostError("nobody came") from error
        finally:
            server.close()
        connection.settimeout(HELLO_SECONDS)
        channel = cls(connection)
        channel._prove(key, b"holder", b"driver")
        channel._socket.settimeout(None)
        return channel

    def _prove(self, key: bytes, own: bytes, other: bytes) -> None:
        """Both ends answer a random question of the other with the key; each in its own role, so that none is an echo."""
        asked = secrets.token_bytes(_PROOF)
        try:
            self._socket.sendall(asked)
            question = self._read(_PROOF)
            self._socket.sendall(hmac.digest(key, own + bytes(question), "sha256"))
            answer = self._read(_PROOF)
        except OSError as error:
            self.close()
            raise LostError("the other end left") from error
        if not hmac.compare_digest(bytes(answer), hmac.digest(key, other + asked, "sha256")):
            self.close()
            raise LostError("the other end does not know the key of this fit")

    def send(self, word: str, arrays: Sequence[Any] = (), **values: Any) -> None:
        """Send a message; arrays of single bytes come last, so that all others are aligned."""
        contiguous = [np.ascontiguousarray(array) for array in arrays]
        shapes = [[array.dtype.str, array.shape] for array in contiguous]
        line = json.dumps({"word": word, "arrays": shapes, "values": values}).encode()
        size = sum(array.nbytes for array in contiguous)
        frame = b"".join([_LENGTHS.pack(len(line), size), line, *(array.tobytes() for array in contiguous)])
        patience = self._socket.gettimeout()
        try:
            self._socket.settimeout(SEND_SECONDS)
            self._socket.sendall(frame)
            self._socket.settimeout(patience)
        except OSError as error:
            raise LostError(str(error)) from error
        self.n_sent += len(frame)

    def receive(self) -> Message:
        """Wait for a message."""
        n_line, n_bytes = _LENGTHS.unpack(self._read(_LENGTHS.size))
        if n_line + n_bytes > MOST_BYTES:
            raise LostError("a message is too long")
        content = json.loads(bytes(self._read(n_line)))
        data, at, arrays = self._read(n_bytes), 0, []
        for kind, shape in content["arrays"]:
            if kind not in KINDS:
                raise LostError(f"a message holds numbers of the kind {kind!r}")
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(np.frombuffer(data, kind, count, at).reshape(shape))
            at += arrays[-1].nbytes
        self.n_received += _LENGTHS.size + n_line + n_bytes
        return Message(content["word"], arrays, content["values"])

    def _read(self, n_bytes: int) -> bytearray:
        data = bytearray(n_bytes)
        view = memoryview(data)
        while len(view):
            try:
                count = self._socket.recv_into(view)
            except TimeoutError as error:
                if self._check is None:
                    raise LostError("no answer") from error
                self._check()
                continue
            except OSError as error:
                raise LostError(str(error)) from error
            if count == 0:
                raise LostError("the connection is closed")
            view = view[count:]
        return data

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def listen(host: str) -> socket.socket:
    """A place on this host to which one driver may connect; the system chooses the port."""
    return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1)


# --------------------------------------------------------------------------- answering the driver


class Held(Protocol):
    """Rows that answer messages."""

    def __call__(self, message: Message) -> Result:
        """The answer."""


class SideHolder:
    """Answers for rows of one side: the local steps of a sweep, and what the scale of values is drawn by."""

    def __init__(self, rows: Rows, workers: Workers) -> None:
        own: Any = (None if field is None else np.require(field, requirements=["W"]) for field in rows.arrays)
        arrays = RowArrays(*own)  # kernels would be compiled anew for arrays that came read-only
        self.rows, self.workers = Rows(arrays, rows.n_inputs, rows.part), workers
        self.here: Any = None
        self.statistics: Any = None
        self.rates: Any = None

    def __call__(self, message: Message) -> Result:
        """Phase A, phase B, adding to the sums of those before, or a log-likelihood."""
        word, arrays, values = message
        if word == "events":
            planes, log_weights, active = arrays
            key, index, scale = np.uint64(values["key"]), values["index"], values["scale"]
            rows: Any = self.rows if scale is None else rows_at_scale(self.rows, scale)
            self.here = RowsHere(values["sampler"], rows, planes, None, key, index, self.workers)
            return list(self.here.draw_events(Experts(planes, log_weights, active)))
        if word == "statistics":
            self.statistics = self.here.sum_statistics(arrays[0])
            return []
        if word == "add":
            return [
                _running(own, total) for own, total in zip(self.statistics[:2], arrays or (None, None), strict=True)
            ]
        if word == "log_likelihood":
            return [np.array(list(binary_log_likelihood(self.rows, *arrays)))]
        if word == "rates":
            self.rates = SideRates(self.rows, *arrays)
            return []
        if word == "timed":
            return [self.rates.timed_parts(values["scale"], values["stretch"])]
        if word == "offsets":
            return [offset_sums(self.rows, values["center"], values["power"])]
        raise InvalidInputError(f"Rows of a side do not know the message {word!r}.")


def _running(own: FloatArray, total: FloatArray | None) -> FloatArray:
    """The sums of groups, added in order to those of the groups before."""
    begin, rest = (own[0].copy(), own[1:]) if total is None else (total, own)
    for group in rest:
        begin += group
    return begin


class BlockHolder:
    """Answers for labelled rows: rows of minibatches, or the gradient of a part of one."""

    def __init__(self, block: Block, workers: Workers) -> None:
        self.block = block

    def __call__(self, message: Message) -> Result:
        """The rows themselves; or minus the log-likelihood of some rows, and its gradient."""
        if message.word == "rows":
            some = self.block.take(message.arrays[0])
            return [some.inputs, some.codes, some.weights]
        parameters, starts, positive, index = message.arrays
        block, gradient = self.block.take(index), np.zeros_like(parameters)
        if not len(block):
            return [np.zeros(1), gradient]
        none = Prior(np.zeros(parameters.shape[1]), 0.0, 0.0, 1.0, 0.0)
        data = as_labelled_rows(np.ascontiguousarray(block.inputs), block.codes, block.weights)
        work = workspace(True, parameters.shape[0] - 2, starts)
        scale = float(message.values["scale"])
        loss = layer_gradient(data, scale, parameters, SideColumns(starts, positive), none, work, gradient)
        return [np.array([loss]), gradient]


def open_holder(held: Rows | Block, key: bytes) -> tuple[str, int, str]:
    """Let a thread of this worker answer for the rows; returns host, port and the worker's address.

    The thread ends with the connection, and if nobody connects.
    """
    worker = get_worker()
    host = urlsplit(worker.address).hostname if not worker.address.startswith("inproc") else None
    server = listen(host or "127.0.0.1")
    maker: Callable[[Any, Workers], Held] = SideHolder if isinstance(held, Rows) else BlockHolder
    n_threads = int(worker.state.nthreads)
    threading.Thread(target=_answer, args=(server, key, maker, held, n_threads), name="pbdn rows", daemon=True).start()
    return host or "127.0.0.1", int(server.getsockname()[1]), str(worker.address)


def _answer(server: Any, key: bytes, maker: Callable[[Any, Workers], Held], held: Any, n_threads: int) -> None:
    """Answer one driver until it hangs up."""
    workers = Workers(n_threads)
    try:
        channel = Channel.accept(server, key)
        holder = maker(held, workers)
        with single_blas_thread():
            while True:
                message = channel.receive()
                try:
                    answer = holder(message)
                except Exception as error:  # told to the driver, which decides
                    channel.send(
                        "error", text=f"{type(error).__name__}: {error}", memory=isinstance(error, MemoryError)
                    )
                    continue
                channel.send("done", answer)
    except LostError:  # the driver is done, or gone
        pass
    finally:
        workers.close()
