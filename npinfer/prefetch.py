"""One item ahead: an iterator whose next item is made in a thread while the caller works on the present one."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
LOOK = 1.0  # seconds between looks at whether the thread lives; a wait without end can't be interrupted on Windows
LEAVE = 2.0  # seconds that a closed generator waits for its thread; one that blocks on a pipe is left behind (a daemon)


def prefetch(items: Iterator[T]) -> Generator[T, None, None]:
    """The items, each one asked for while the caller has the one before, never more than one ahead. Exceptions come out where
    the item would have come. Closing the generator stops the thread and closes the items."""
    queue: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
    wanted = threading.Semaphore(1)
    stop = threading.Event()

    def work() -> None:
        try:
            while True:
                wanted.acquire()
                if stop.is_set():
                    return
                try:
                    item = next(items)
                except StopIteration:
                    queue.put((False, None))
                    return
                queue.put((True, item))
                del item  # not kept alive while the caller works
        except BaseException as e:  # whatever it is, the caller waits for it
            queue.put((False, e))
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    thread = threading.Thread(target=work, name="npinfer-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            try:
                more, item = queue.get(timeout=LOOK)
            except Empty:
                if thread.is_alive() or not queue.empty():
                    continue
                raise RuntimeError("the thread that reads ahead is gone") from None
            if not more:
                if item is not None:
                    raise item
                return
            wanted.release()
            yield item
    finally:
        stop.set()
        wanted.release()
        thread.join(LEAVE)
