"""The driver's side of a fit on a Dask cluster: collections, bounded waits for tasks, and the group of workers that holds the rows of a layer."""

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import dask
import numpy as np
from distributed import Client, Future, KilledWorker

from pbdn.dask.channel import Channel, LostError, Message, open_holder
from pbdn.errors import ClusterError, InvalidInputError, NumericalError, PBDNError
from pbdn.gibbs.kernel_arguments import BlockSums, Experts, Statistics
from pbdn.numerics.arrays import FloatArray

logger = logging.getLogger("pbdn")
Result = TypeVar("Result")

POLL_SECONDS = 2.0  # between two looks at the cluster while waiting for a task
PATIENCE = 60.0  # seconds without any worker after which a fit gives up
MOST_LOSSES = 8  # workers lost in a row without any progress after which a fit gives up


class Cluster:
    """Tasks on the workers of a client; waiting for them ends with a result or a `ClusterError`.

    Parameters
    ----------
    client : distributed.Client
    resume : str
        What the user can do after a loss, for messages.
    """

    def __init__(self, client: Client, resume: str = "") -> None:
        self.client, self.resume = client, resume
        self._alone_since: float | None = None

    @property
    def n_workers(self) -> int:
        """Workers at present."""
        return len(self._workers())

    def start(self, lazy: list[Any]) -> list[Future]:
        """Compute parts of a collection."""
        try:
            started: list[Future] = self.client.compute(lazy)
        except Exception as error:  # whatever Dask raises when its scheduler is gone
            raise self._lost_scheduler() from error
        return started

    def submit(self, task: Callable[..., Any], *arguments: Any) -> Future:
        """Start a task; its arguments may hold futures."""
        try:
            return self.client.submit(task, *arguments, pure=False)
        except Exception as error:  # whatever Dask raises when its scheduler is gone
            raise self._lost_scheduler() from error

    def results(self, futures: Sequence[Future], what: str) -> list[Any]:
        """Wait for all of them; ``what`` they are, with {} for the number, is told where one fails."""
        return [self._result(future, what.format(number)) for number, future in enumerate(futures)]

    def call(self, task: Callable[..., Result], *arguments: Any) -> Result:
        """Do one task and wait for it."""
        found: Result = self._result(self.submit(task, *arguments), task.__name__)
        return found

    def _result(self, future: Future, what: str) -> Any:
        while True:
            try:
                return future.result(timeout=POLL_SECONDS)
            except TimeoutError:
                if future.status == "error":
                    raise
                self.check()
            except KilledWorker as error:
                raise ClusterError(
                    f"{what} ended every Dask worker that tried it, perhaps for want of memory ({error.last_worker}). "
                    f"Give the workers more memory or make the partitions smaller{self.resume}."
                ) from error
            except CancelledError as error:
                self.check()
                raise ClusterError(
                    f"{what} needs rows that were lost with a Dask worker and cannot be computed again, because they were "
                    f"scattered or their source is gone. Load them again and repeat the fit{self.resume}."
                ) from error
            except PBDNError:
                raise
            except Exception as error:  # whatever a task raises
                raise ClusterError(f"{what} could not be computed: {type(error).__name__}: {error}") from error

    def check(self) -> None:
        """Raise where waiting is in vain: the scheduler is gone, or there has been no worker for long."""
        if self._workers():
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since > PATIENCE:
            raise ClusterError(
                f"The Dask cluster has had no worker for {PATIENCE:.0f} seconds. Start workers and repeat the fit{self.resume}."
            )

    def _workers(self) -> dict[str, int]:
        if self.client.status in ("closed", "closing", "connecting"):
            raise self._lost_scheduler()
        try:
            found: dict[str, int] = self.client.nthreads()
        except Exception as error:  # whatever Dask raises when its scheduler is gone
            raise self._lost_scheduler() from error
        return found

    def _lost_scheduler(self) -> ClusterError:
        return ClusterError(
            f"The connection to the Dask scheduler is lost. Start the cluster again and repeat the fit{self.resume}."
        )

    def has_worker(self, address: str) -> bool:
        """Whether the scheduler still counts on this worker."""
        return address in self._workers()


def blocks_of(name: str, collection: Any) -> list[Any]:
    """The partitions of a collection, not yet computed."""
    if not dask.is_dask_collection(collection) or not hasattr(collection, "to_delayed"):
        raise InvalidInputError(
            f"{name} is a {type(collection).__name__}; give a dask array or dataframe (the estimators of pbdn take rows in memory)."
        )
    if getattr(collection, "chunks", None) is not None and collection.ndim == 2:
        collection = collection.rechunk({1: -1})
    return np.asarray(collection.to_delayed(), dtype=object).ravel().tolist()


def partitions_alike(X: Any, columns: dict[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """The partitions of X, and those of every column beside it; names of columns of X, and None, are the same in all."""
    parts, own = blocks_of("X", X), {}
    for name, values in columns.items():
        values = list(values) if isinstance(values, tuple) else values
        if isinstance(values, str | list) or (values is None and name != "y"):
            own[name] = [values] * len(parts)
            continue
        if getattr(values, "chunks", None) is not None and getattr(X, "chunks", None) is not None:
            known = not np.isnan(X.chunks[0]).any() and not np.isnan(values.chunks[0]).any()
            if known and values.chunks[0] != X.chunks[0]:
                if sum(values.chunks[0]) != sum(X.chunks[0]):
                    raise InvalidInputError(f"X has {sum(X.chunks[0])} rows, but {name} has {sum(values.chunks[0])}.")
                values = values.rechunk({0: X.chunks[0]})
        own[name] = blocks_of(name, values)
        if len(own[name]) != len(parts):
            raise InvalidInputError(
                f"X has {len(parts)} partitions, but {name} has {len(own[name])}; partition them alike."
            )
    return parts, [dict(zip(own, some, strict=True)) for some in zip(*own.values(), strict=True)]


def with_columns(X: Any, columns: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A partition without the columns that are named, and these in place of their names."""
    named = {name: own for name, own in columns.items() if isinstance(own, str | list)}
    taken = [one for own in named.values() for one in np.atleast_1d(own).tolist()]
    return (X.drop(columns=taken) if taken else X), columns | {name: X[own] for name, own in named.items()}


class Group:
    """Workers that hold parts of the rows, in order, each at the other end of a channel.

    When one is lost, Dask computes its rows again on another, and the work in hand is repeated: it is the same to the last bit.

    Parameters
    ----------
    cluster : Cluster
    held : sequence of Future
        `pbdn.gibbs.rows.Rows` of one side, or blocks for MAP.

    Attributes
    ----------
    n_opened : int
        How often the group was formed.
    knows : object
        Whose rates the workers hold.
    """

    def __init__(self, cluster: Cluster, held: Sequence[Future]) -> None:
        self.cluster, self.held = cluster, list(held)
        self.n_opened = 0
        self.knows: Any = None
        self._channels: list[Channel] = []
        self._bytes = np.zeros(2, np.int64)

    def open(self) -> None:
        """Form the group."""
        key = secrets.token_bytes(32)
        self.n_opened += 1
        self.knows = None
        opened = [self.cluster.submit(open_holder, held, key) for held in self.held]
        for host, port, address in self.cluster.results(opened, "Shard {}"):
            self._channels.append(Channel.to(host, port, key, lambda address=address: self._check(address)))  # type: ignore[misc]

    def _check(self, address: str) -> None:
        """Whether the worker may still answer."""
        if not self.cluster.has_worker(address):
            raise LostError(f"the Dask worker at {address} is gone")

    @property
    def n_bytes(self) -> tuple[int, int]:
        """Bytes sent by the driver, and received."""
        sent = [(channel.n_sent, channel.n_received) for channel in self._channels]
        total = self._bytes + np.array(sent, np.int64).reshape(-1, 2).sum(axis=0)
        return int(total[0]), int(total[1])

    def close(self) -> None:
        """Hang up; the workers let go of what they held for this group."""
        self._bytes = np.array(self.n_bytes)
        for channel in self._channels:
            channel.close()
        self._channels = []

    def reliably(self, work: Callable[[], Result]) -> Result:
        """Do work with the group; where a worker is lost, form the group again and repeat it."""
        for _ in range(MOST_LOSSES):
            try:
                if not self._channels:
                    self.open()
                return work()
            except LostError as error:
                self.close()
                logger.warning("A worker was lost (%s); its rows are computed again by the others.", error)
                lost = error
        raise ClusterError(
            f"Dask workers were lost {MOST_LOSSES} times in a row, the last because {lost}. Look into the workers' logs, and "
            f"repeat the fit{self.cluster.resume}."
        )

    def ask(self, word: str, arrays: Sequence[Any] = (), **values: Any) -> list[list[Any]]:
        """Send the same message to all; the answers, in the order of rows."""
        for channel in self._channels:
            channel.send(word, arrays, **values)
        return [_answer(channel.receive()) for channel in self._channels]

    def ask_each(self, word: str, arrays: Sequence[Sequence[Any]], **values: Any) -> list[list[Any]]:
        """Send a message of its own to each."""
        for channel, own in zip(self._channels, arrays, strict=True):
            channel.send(word, own, **values)
        return [_answer(channel.receive()) for channel in self._channels]

    def relay(self, word: str) -> list[Any]:
        """Hand arrays from one to the next, each adding its own; what the last one says."""
        arrays: list[Any] = []
        for channel in self._channels:
            channel.send(word, arrays)
            arrays = _answer(channel.receive())
        return arrays


def _answer(message: Message) -> list[Any]:
    if message.word == "done":
        return message.arrays
    text = message.values.get("text", "")
    if message.values.get("memory"):
        raise ClusterError(f"A Dask worker is out of memory: {text}. Use more workers, or workers with more memory.")
    if text.startswith("NumericalError"):
        raise NumericalError(text.removeprefix("NumericalError: "))
    raise ClusterError(f"A Dask worker could not do its part of a sweep: {text}.")


@dataclass(frozen=True)
class SharedRows:
    """Rows of one side that a group of workers holds (`pbdn.gibbs.rows.TimedRowsElsewhere`); ``scale`` is that of their values."""

    group: Group
    n_rows: int
    n_inputs: int
    group_blocks: int
    scale: float | None = None

    def holder(self, sampler: str, planes: FloatArray, key: np.uint64, index: int) -> "SharedSweep":
        """The local steps of one sweep."""
        if sampler == "counts":
            raise InvalidInputError(
                "sampler='counts' keeps a count per row and expert here; use sampler='first_events'."
            )
        return SharedSweep(self, {"sampler": sampler, "key": int(key), "index": int(index), "scale": self.scale})

    def log_likelihood_parts(self, planes: FloatArray, weights: FloatArray) -> list[float]:
        """Parts of the log-likelihood, in order."""
        answers = self.group.reliably(lambda: self.group.ask("log_likelihood", [planes, weights]))
        return [float(part) for (parts,) in answers for part in parts]

    def offset_sums(self, center: float, power: int) -> FloatArray:
        """Sums over the offsets of every group of blocks."""
        answers = self.group.reliably(lambda: self.group.ask("offsets", center=center, power=power))
        return np.concatenate([parts for (parts,) in answers])

    def rates(self, planes: FloatArray, weights: FloatArray) -> "SharedRates":
        """The rates of the rows, which the workers keep."""
        return SharedRates(self.group, planes, weights)

    def at_scale(self, scale: float) -> "SharedRows":
        """The same rows with offsets and starts τ y."""
        return replace(self, scale=float(scale))


class SharedRates:
    """Rates of rows that the group holds (`pbdn.gibbs.rows.TimedRates`); the workers keep the rates of one at a time."""

    def __init__(self, group: Group, planes: FloatArray, weights: FloatArray) -> None:
        self.group, self.experts = group, (planes, weights)

    def timed_parts(self, scale: float, stretch: float) -> FloatArray:
        """Log-likelihood of every group of blocks: one number for each goes to the driver."""
        return self.group.reliably(lambda: self._parts(float(scale), float(stretch)))

    def _parts(self, scale: float, stretch: float) -> FloatArray:
        if self.group.knows is not self:
            self.group.ask("rates", self.experts)
            self.group.knows = self
        return np.concatenate([parts for (parts,) in self.group.ask("timed", scale=scale, stretch=stretch)])


class SharedSweep:
    """The local steps of one sweep, done by the group (`pbdn.gibbs.rows.Holder`)."""

    def __init__(self, rows: SharedRows, names: dict[str, Any]) -> None:
        self.rows, self.group, self.names = rows, rows.group, names
        self._experts: Experts | None = None
        self._drawn_by = 0  # the group that has drawn the events

    def draw_events(self, experts: Experts) -> BlockSums:
        """Phase A: 2 K + 1 numbers for each group of blocks."""
        self._experts = experts
        return self.group.reliably(self._events)

    def _events(self) -> BlockSums:
        assert self._experts is not None
        answers = self.group.ask("events", self._experts, **self.names)
        self._drawn_by = self.group.n_opened
        return BlockSums(*(np.concatenate(parts) for parts in zip(*answers, strict=True)))

    def sum_statistics(self, weights: FloatArray) -> Statistics:
        """Phase B: K (D (D + 1) / 2 + D) numbers to and from each worker."""
        gram, moment = self.group.reliably(lambda: self._statistics(weights))
        return Statistics(gram[None], moment[None], self.rows.group_blocks)

    def _statistics(self, weights: FloatArray) -> list[Any]:
        if self._drawn_by != self.group.n_opened:  # a new group knows nothing of the events
            self._events()
        self.group.ask("statistics", [weights])
        return self.group.relay("add")
