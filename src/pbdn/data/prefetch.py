"""Read ahead in threads: decoding the next rows while the compiled loop works on the present ones."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

ITEMS_AHEAD = 2


class _End:
    """Marks the end of the iterator, or carries the error that ended it."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def read_ahead(items: Iterator[Item], n_ahead: int = ITEMS_AHEAD) -> Iterator[Item]:
    """The same items in the same order, made by another thread at most ``n_ahead`` in front of the consumer.

    That bounds memory: so many items wait, one is being made and one is in use.

    Errors are raised where the item would have come. The thread ends with the generator, also when the
    consumer leaves early.
    """
    queue: Queue[Item | _End] = Queue(n_ahead)
    left = Event()

    def produce() -> None:
        try:
            for item in items:
                queue.put(item)
                if left.is_set():
                    return
            queue.put(_End())
        except BaseException as error:
            queue.put(_End(error))

    thread = Thread(target=produce, name="pbdn-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = queue.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        left.set()
        while thread.is_alive():  # a producer that waits for room must get it
            try:
                queue.get(timeout=0.01)
            except Empty:
                continue
        thread.join()


def work_ahead(function: Callable[[Item], Result], items: Iterable[Item], n_threads: int) -> Iterator[Result]:
    """``function`` of every item, in order; ``n_threads`` results are made or wait while another one is in use.

    Errors are raised where the result would have come. What was not begun when the consumer leaves is dropped.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_threads, "pbdn-work-ahead") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
